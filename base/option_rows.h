/*
 * option_rows.h - type, place and limits of a row of options, for the files
 * that have such rows. They define ROW_OF, the struct that the values go to:
 *
 *     #define ROW_OF struct config
 *     #include "base/option_rows.h"
 *
 *     static const struct option rows[] = {
 *         {"threads", "N", COUNT(threads, 1, 64), NULL, "service threads"},
 *
 * A member that is not of the type of its row does not compile.
 */
#pragma once

#include "base/options.h"

#define KIB    1024ULL
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)
#define SECOND 1000000ULL
#define DAY    (86400 * SECOND)

/* The address of the `struct options` of an array, with values. */
#define OPTION_ROWS(array) \
    (&(const struct options){(array), N_ELEMENTS(array), sizeof(ROW_OF)})

/* The offset of a member; does not compile if it is not a `type`. */
#define AT(member, type) \
    _Generic(&((ROW_OF *)NULL)->member, type * : offsetof(ROW_OF, member))
#define ROOM(member)    sizeof(((ROW_OF *)NULL)->member)
#define AT_TEXT(member) offsetof(ROW_OF, member)

#define TEXT(member)      OPTION_TEXT, AT_TEXT(member), 0, 0, ROOM(member), NULL
#define URL(member, room) OPTION_URL, AT_TEXT(member), 0, 0, room, NULL
#define LISTEN(host, port_member) \
    OPTION_LISTEN, AT_TEXT(host), AT(port_member, unsigned), 0, ROOM(host), NULL
#define COUNT(member, min, max) \
    OPTION_COUNT, AT(member, uint64_t), 0, min, max, NULL
#define BYTES(member, min, max) \
    OPTION_BYTES, AT(member, uint64_t), 0, min, max, NULL
#define SECONDS(member, min, max) \
    OPTION_SECONDS, AT(member, int64_t), 0, min, max, NULL
#define MS(member, min, max) \
    OPTION_MILLISECONDS, AT(member, int64_t), 0, min, max, NULL
#define LENT(member) OPTION_LENT, AT(member, const char *), 0, 0, 0, NULL
#define PAUSE(member, min, max) \
    OPTION_PAUSE, AT(member, unsigned), 0, min, max, NULL
#define NUMBER(member, min, max) \
    OPTION_NUMBER, AT(member, unsigned), 0, min, max, NULL
#define LIMIT(member)   OPTION_LIMIT, AT(member, uint64_t), 0, 1, UINT64_MAX, NULL
#define PERCENT(member) OPTION_PERCENT, AT(member, int), 0, 1, 100, NULL
#define KEEP(member, min, max) \
    OPTION_KEEP, AT(member, uint64_t), 0, min, max, NULL
#define SWITCH(member) OPTION_SWITCH, AT(member, int), 0, 0, 0, NULL
#define FLAG(member)   OPTION_FLAG, AT(member, bool), 0, 0, 0, NULL
#define EITHER(member) OPTION_EITHER, AT(member, bool), 0, 0, 0, NULL
/* `type`: int, unsigned or an enum; `first`: the value of the first word. */
#define CHOICE(member, type, first) \
    OPTION_CHOICE, AT(member, type), 0, first, 0, NULL
#define OWN(read)   OPTION_OWN, 0, 0, 0, 0, read
#define CONFIG_FILE OPTION_FILE, 0, 0, 0, 0, NULL
#define WISH(wish)  OPTION_WISH, 0, 0, wish, wish, NULL

/*
 * entry_builder.h - an entry while a reader builds it, whatever the format.
 *
 * Readers know syntax; this module and change_check judge values, so that no
 * format accepts a value that another refuses. Functions copy text that they
 * take; their results live until entry_clear.
 */
#pragma once

#include "proto/arena.h"
#include "proto/resourcesync/change.h"

/* Most bytes of one entry, and of one token of the parsers: twice the longest
 * fragment, because white space and references cost more in a post. */
#define ENTRY_BYTES_MAX (512 * 1024)

struct entry {
    struct change change;
    bool has_kind;
    bool is_of_message;  /* its M_SEQ and M_SOURCE_DATETIME count */
    bool is_lent;        /* the entry copies no text: its reader keeps the text
                            until it has handed the entry over; entry_clear
                            sets this back */
    size_t n_lent;       /* bytes of that text */
    size_t n_attributes; /* used of `attributes`, by all elements */
    struct arena arena;
    struct buf hash; /* the list being normalised */
    struct link links[CHANGE_LINKS_MAX];
    struct attribute attributes[CHANGE_ATTRIBUTES_MAX];
};

/* Where an element's attributes go: those of one element lie together. */
struct entry_attributes {
    const struct attribute **first;
    size_t *count;
};

/* Those of `link`, or of the entry's change if it is NULL. */
struct entry_attributes entry_attributes(struct entry *entry,
                                         struct link *link);

void entry_init(struct entry *entry);
void entry_fini(struct entry *entry);
void entry_clear(struct entry *entry);

/* Room for `size` bytes. STATUS_INVALID: the entry is too long. */
MUST_CHECK enum status entry_room(struct entry *entry, size_t size, char **to,
                                  struct problem *why);

/* Counts text of `size` bytes that stays with the reader, as if it was copied:
 * the limit of an entry does not depend on the pieces that it comes in. */
MUST_CHECK enum status entry_lend(struct entry *entry, size_t size,
                                  struct problem *why);

/* A copy of `text`, which may be empty. */
MUST_CHECK enum status entry_copy(struct entry *entry, struct slice text,
                                  struct slice *copy, struct problem *why);

/* Copies the values of the entry that are lent from `piece`, whose bytes are
 * going away. */
MUST_CHECK enum status entry_keep(struct entry *entry, struct slice piece,
                                  struct problem *why);

/* A new link at the end. */
MUST_CHECK enum status entry_link(struct entry *entry, struct link **link,
                                  struct problem *why);

/* Adds a foreign attribute of the element `to` belongs to. Keeps `attribute`
 * itself: its text must live as long as the entry. */
MUST_CHECK enum status entry_attribute(struct entry *entry,
                                       struct entry_attributes to,
                                       const struct attribute *attribute,
                                       struct problem *why);

/* Times: R-012. */
MUST_CHECK enum status entry_time(const char *name, struct slice text,
                                  int64_t *us, struct problem *why);
MUST_CHECK enum status entry_lastmod(struct slice text, struct change *change,
                                     struct problem *why);

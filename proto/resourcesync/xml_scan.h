/*
 * xml_scan.h - reads the usual form of a document without libxml2.
 *
 * Nearly all documents of ResourceSync look alike: UTF-8, at most an XML
 * declaration, one root that declares its namespaces, tags whose attributes
 * stand in quotes, entries that urlset_scan.h knows. The scanner reads that
 * form: the root, children of it without content, and through the receiver of
 * its events (xml_events.child) whole entries. It stops before the first token
 * that is anything else, or malformed, or longer than SCAN_TOKEN_MAX. libxml2
 * then reads on from there: xml.c gives it what brings it to that place. So a
 * document is accepted and refused as libxml2 does it, and only the scanner's
 * own form has to be well-formed by its rules.
 *
 * Measured: tests/bench/README.md, "Reading a post".
 */
#pragma once

#include "proto/resourcesync/xml.h"
#include "proto/swar.h"
#include "proto/utf8.h"

/* A declaration and the start tag of the root. */
#define SCAN_ROOT_MAX (SCAN_TOKEN_MAX + 64)

#define SCAN_NAME_MAX       31
#define SCAN_PREFIXES_MAX   4
#define SCAN_ATTRIBUTES_MAX 16

/* Words with a slot in the table; libxml2's dictionary finds the others. */
#define SCAN_WORDS_MAX 64
#define SCAN_SLOTS     (2 * SCAN_WORDS_MAX)

/* The beginning of a token whose end has not come. */
struct scan_held {
    size_t n;
    char bytes[SCAN_TOKEN_MAX];
};

struct scan_name {
    uint8_t size;
    char text[SCAN_NAME_MAX];
};

struct scan_prefix {
    struct scan_name text; /* empty: the default namespace */
    xml_name prefix;
    xml_name ns;
};

enum scan_place { SCAN_BEGIN, SCAN_INSIDE, SCAN_BEHIND };

struct xml_scan {
    const struct xml_events *events;
    void *user;
    struct _xmlDict *dict; /* of the parser, which keeps other names */
    xml_name *names;
    uint8_t slots[SCAN_SLOTS]; /* index of a name, and one; 0: empty */
    uint8_t sizes[SCAN_WORDS_MAX];

    enum scan_place place; /* before, inside or behind the root */
    bool is_usual;         /* children of the root may be read at once */
    struct xml_known known;
    struct scan_name root_name;
    struct scan_prefix prefixes[SCAN_PREFIXES_MAX];
    size_t n_prefixes;
    uint64_t line;

    struct scan_held held;
    size_t n_root; /* all up to the end of the root's start tag */
    char root[SCAN_ROOT_MAX];
    char values[SCAN_TOKEN_MAX]; /* of a tag's attributes with entities */
};

/* The scanner lives as long as `words`, `names` (xml_new) and the users. */
void scan_init(struct xml_scan *scan, const struct xml_events *events,
               void *user, const char *const *words, xml_name *names, size_t n);

/* Begins a document, or another one. */
void scan_reset(struct xml_scan *scan, struct _xmlDict *dict);

/* Reads `*bytes`, and may hold the last of them. Not `*is_known`: libxml2 has
 * to read on: the root, then what is held, then the rest of `*bytes`. The
 * status is that of the last event. */
MUST_CHECK enum status scan_bytes(struct xml_scan *scan, struct slice *bytes,
                                  bool *is_known, struct problem *why);

/* Is the document at a place where it may end? */
bool scan_is_whole(const struct xml_scan *scan);

/* Characters */

/* Marks the bytes that a value in quotes does not have as they are: control
 * characters, "<", "&", those beyond ASCII; and its quote, which differs from
 * "&" in one bit. */
static inline uint64_t
scan_find_in_quotes(uint64_t v)
{
    return (v & SWAR_HIGHS) | swar_below(v, ' ') | swar_equal(v, '<') |
           swar_equal(v | SWAR_ONES * ('"' ^ '&'), '"' | '&');
}

/* Reads one of the five entities, at "&". */
enum token scan_entity(const char **at, const char *end, char *character);

/* Reads characters from `*at` up to `stop`, which `find` marks. A text that has
 * entities goes to `*room`, which moves. */
static inline enum token
scan_characters(const char **at, const char *end, uint64_t (*find)(uint64_t v),
                char stop, char **room, struct slice *text)
{
    const char *from = *at;
    char *to = *room;
    bool is_ascii = true, has_entity = false;

    for (;;) {
        *at = swar_skip(*at, end, find);
        if (*at == end)
            return TOKEN_CUT;
        if (**at == stop)
            break;
        if (**at == '&') {
            enum token token;

            memcpy(to, from, (size_t)(*at - from));
            to += *at - from;
            token = scan_entity(at, end, to++);
            if (token)
                return token;
            from = *at;
            has_entity = true;
        } else if ((unsigned char)**at >= 0x80) {
            is_ascii = false;
            ++*at;
        } else {
            return TOKEN_UNKNOWN;
        }
    }
    *text = (struct slice){from, (size_t)(*at - from)};
    if (has_entity) {
        memcpy(to, from, text->size);
        to += text->size;
        *text = (struct slice){*room, (size_t)(to - *room)};
        *room = to;
    }
    return is_ascii || utf8_is_xml_text(*text) ? TOKEN_TAKEN : TOKEN_UNKNOWN;
}

/* Skips white space, and counts its line feeds. True if there was some. A
 * carriage return alone is left to libxml2, which makes a line feed of it. */
static inline bool
scan_blanks(const char **at, const char *end, uint64_t *n_lines)
{
    const char *from = *at;

    for (; *at < end; ++*at) {
        if (**at == '\n')
            ++*n_lines;
        else if (**at != ' ' && **at != '\t' &&
                 (**at != '\r' || end - *at < 2 || (*at)[1] != '\n'))
            break;
    }
    return *at > from;
}

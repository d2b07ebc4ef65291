/*
 * entry_builder.h - an entry while a reader builds it, whatever the format: its
 * members, and THE conversion of their texts into a change or a coverage.
 *
 * Readers know syntax: they find a member by its name here and hand over the
 * value as text. This module and change_check judge values, so that no format
 * accepts a value that another refuses. Functions copy text that they
 * take; their results live until entry_clear.
 */
#pragma once

#include "proto/arena.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/position.h"

/* For problems: a change, and a hash. */
#define CHANGE_EXAMPLE \
    "{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}"

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

/* Members */

/* Names as in JSON; most of them are names in XML, too. By the size of the
 * name, the most frequent first: entry_member_of. */
enum entry_member {
    M_NONE, /* not known */
    M_AT,
    M_NS,
    M_ID,
    M_LOC,
    M_REL,
    M_PRI,
    M_SEQ,
    M_SET,
    M_NOW,
    M_HASH,
    M_TYPE,
    M_HREF,
    M_TAGS,
    M_LAST,
    M_FROM,
    M_PATH,
    M_NAME,
    M_NEXT,
    M_DATA,
    M_LINKS,
    M_EPOCH,
    M_AFTER,
    M_UNTIL,
    M_VALUE,
    M_TITLE,
    M_CHANGE,
    M_LENGTH,
    M_DIGEST,
    M_AUTHOR,
    M_LASTMOD,
    M_CHANGES,
    M_SUMMARY,
    M_DATETIME,
    M_ENCODING,
    M_PRIORITY,
    M_MODIFIED,
    M_COMPLETED,
    M_HEARTBEAT,
    M_CHANGEFREQ,
    M_CAPABILITY,
    M_ATTRIBUTES,
    M_TRACEPARENT,
    M_SOURCE_DATETIME, /* td:datetime */
    N_MEMBERS
};

#define MEMBER_BIT(member) (UINT64_C(1) << (member))

/* Members that both a change and a link have, and those of each, as bits. */
#define ENTRY_COMMON_MEMBERS                                          \
    (MEMBER_BIT(M_HASH) | MEMBER_BIT(M_LENGTH) | MEMBER_BIT(M_TYPE) | \
     MEMBER_BIT(M_ENCODING))
#define ENTRY_CHANGE_MEMBERS \
    (ENTRY_COMMON_MEMBERS | MEMBER_BIT(M_CHANGE) | MEMBER_BIT(M_DATETIME))
#define ENTRY_LINK_MEMBERS                                           \
    (ENTRY_COMMON_MEMBERS | MEMBER_BIT(M_REL) | MEMBER_BIT(M_HREF) | \
     MEMBER_BIT(M_PRI) | MEMBER_BIT(M_MODIFIED))

/* A member's name, and which values it takes, with an example in JSON: "a
 * number, such as 1024". For each member that a post may have. */
extern const struct entry_member_row {
    const char *name, *form;
} entry_members[N_MEMBERS];

enum entry_member entry_member_of(struct slice name);

/* Sets a member of `link`, which has it, or of the change if that is NULL. A
 * hash and tags are lists as in XML; M_LINKS is the caller's; data is compact
 * (data_read.h). Words of the event lose the white space around them; empty
 * ones are none. `name`: the member's in a problem. STATUS_INVALID: the value
 * is bad; STATUS_MEMORY. */
MUST_CHECK enum status entry_set(struct entry *entry, struct link *link,
                                 enum entry_member member, const char *name,
                                 struct slice value, struct problem *why);

/* Sets a member of what a document says of the log. False: the value is bad. */
MUST_CHECK bool coverage_set(struct coverage *coverage,
                             enum entry_member member, struct slice value);

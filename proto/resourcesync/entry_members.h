/*
 * entry_members.h - what documents say of an entry and of themselves, and THE
 * conversion of such a member into a change or a coverage.
 *
 * Every reader finds a member by its name here and hands over the value as
 * text; no format has a conversion of its own.
 */
#pragma once

#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/position.h"

/* Names as in JSON; most of them are names in XML, too. Those of an entry come
 * first. */
enum entry_member {
    M_NONE, /* not known */
    M_LOC,
    M_CHANGE,
    M_DATETIME,
    M_SOURCE_DATETIME, /* td:datetime */
    M_LASTMOD,
    M_CHANGEFREQ,
    M_PRIORITY,
    M_TAGS,
    M_LINKS,
    M_SEQ,
    M_REL,
    M_HREF,
    M_PRI,
    M_MODIFIED,
    M_HASH,
    M_LENGTH,
    M_TYPE,
    M_ENCODING,
    M_ATTRIBUTES,
    M_NS,
    M_NAME,
    M_VALUE,
    M_SET,
    M_EPOCH,
    M_AFTER,
    M_LAST,
    M_FROM,
    M_UNTIL,
    M_DIGEST,
    M_NOW,
    M_HEARTBEAT,
    M_NEXT,
    M_CHANGES,
    M_CAPABILITY,
    M_AT,
    M_COMPLETED,
    M_PATH,
    M_ID,
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

enum entry_member entry_member_of(struct slice name);

/* Sets a member of `link`, which has it, or of the change if that is NULL. A
 * hash and tags are lists as in XML; M_LINKS is the caller's. `name`: the
 * member's in a problem. STATUS_INVALID: the value is bad; STATUS_MEMORY. */
MUST_CHECK enum status entry_set(struct entry *entry, struct link *link,
                                 enum entry_member member, const char *name,
                                 struct slice value, struct problem *why);

/* Sets a member of what a document says of the log. False: the value is bad. */
MUST_CHECK bool coverage_set(struct coverage *coverage,
                             enum entry_member member, struct slice value);

/*
 * entry_members.h - the members of an entry, as scanners (scanning.h) set them.
 *
 * entry_builder.h copies the text of a member; these functions lend it from the
 * caller, who keeps it until the entry was handed over. They say only whether a
 * value is good: the reader of the format reads a bad one again, and says why.
 */
#ifndef PROTO_RESOURCESYNC_ENTRY_MEMBERS_H
#define PROTO_RESOURCESYNC_ENTRY_MEMBERS_H

#include "proto/resourcesync/entry_builder.h"

/* Names as in JSON; most of them are names in XML, too. */
enum entry_member {
    M_NONE, /* not known */
    M_LOC,
    M_CHANGE,
    M_DATETIME,
    M_SOURCE_DATETIME,
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
    M_ENCODING
};

/* Members that both a change and a link have, and those of a link, as bits. */
#define ENTRY_COMMON_MEMBERS \
    (1u << M_HASH | 1u << M_LENGTH | 1u << M_TYPE | 1u << M_ENCODING)
#define ENTRY_LINK_MEMBERS                                             \
    (ENTRY_COMMON_MEMBERS | 1u << M_REL | 1u << M_HREF | 1u << M_PRI | \
     1u << M_MODIFIED)

enum entry_member entry_member_of(struct slice name);

/* Sets a member of `link`, which has it, or of the change if that is NULL. A
 * hash and tags are lists as in XML; M_LINKS is the caller's. `is_message`:
 * M_SEQ and M_SOURCE_DATETIME count. False: the value is bad. */
MUST_CHECK bool entry_set(struct entry *entry, struct link *link,
                          enum entry_member member, struct slice value,
                          bool is_message);

#endif

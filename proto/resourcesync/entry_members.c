#include "proto/resourcesync/entry_members.h"

#include "proto/number.h"

#define IS(text) (!memcmp(name.data, (text), sizeof(text) - 1))

enum entry_member
entry_member_of(struct slice name)
{
    switch (name.size) {
    case 3:
        return IS("loc")   ? M_LOC
               : IS("rel") ? M_REL
               : IS("pri") ? M_PRI
               : IS("seq") ? M_SEQ
                           : M_NONE;
    case 4:
        return IS("hash")   ? M_HASH
               : IS("type") ? M_TYPE
               : IS("href") ? M_HREF
               : IS("tags") ? M_TAGS
                            : M_NONE;
    case 5:
        return IS("links") ? M_LINKS : M_NONE;
    case 6:
        return IS("change") ? M_CHANGE : IS("length") ? M_LENGTH : M_NONE;
    case 7:
        return IS("lastmod") ? M_LASTMOD : M_NONE;
    case 8:
        return IS("datetime")   ? M_DATETIME
               : IS("encoding") ? M_ENCODING
               : IS("priority") ? M_PRIORITY
               : IS("modified") ? M_MODIFIED
                                : M_NONE;
    case 10:
        return IS("changefreq") ? M_CHANGEFREQ : M_NONE;
    case 14:
        return IS("sourceDatetime") ? M_SOURCE_DATETIME : M_NONE;
    default:
        return M_NONE;
    }
}

#undef IS

static bool
set_text(struct slice *to, struct slice value)
{
    *to = value;
    return value.size > 0;
}

bool
entry_set(struct entry *entry, struct link *link, enum entry_member member,
          struct slice value, bool is_message)
{
    struct change *change = &entry->change;
    uint64_t seq;

    switch (member) {
    case M_LOC:
        return set_text(&change->loc, value);
    case M_CHANGEFREQ:
        return set_text(&change->changefreq, value);
    case M_PRIORITY:
        return set_text(&change->priority, value);
    case M_REL:
        return set_text(&link->rel, value);
    case M_HREF:
        return set_text(&link->href, value);
    case M_TYPE:
        return set_text(link ? &link->type : &change->type, value);
    case M_ENCODING:
        return set_text(link ? &link->encoding : &change->encoding, value);
    case M_CHANGE:
        return !entry_kind(entry, value, NULL);
    case M_LASTMOD:
        return !entry_lastmod(value, change, NULL);
    case M_DATETIME:
        return !entry_time("", value, &change->datetime_us, NULL);
    case M_MODIFIED:
        return !entry_time("", value, &link->modified_us, NULL);
    case M_SOURCE_DATETIME:
        return !is_message || !entry_time("", value, &change->source_us, NULL);
    case M_LENGTH:
        return !entry_length(value, link ? &link->length : &change->length,
                             NULL);
    case M_PRI:
        return !entry_pri(value, &link->pri, NULL);
    case M_SEQ:
        if (!number_read(value, &seq))
            return false;
        if (is_message)
            change->seq = seq;
        return true;
    case M_HASH:
        return !entry_hash(entry, value, link ? &link->hash : &change->hash,
                           NULL);
    case M_TAGS:
        return !entry_tags(entry, value, NULL);
    default:
        return false;
    }
}

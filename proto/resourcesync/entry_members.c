#include "proto/resourcesync/entry_members.h"

#include "proto/number.h"

#define IS(text) (!memcmp(name.data, (text), sizeof(text) - 1))

enum entry_member
entry_member_of(struct slice name)
{
    switch (name.size) {
    case 2:
        return IS("at") ? M_AT : IS("ns") ? M_NS : IS("id") ? M_ID : M_NONE;
    case 3:
        return IS("loc")   ? M_LOC
               : IS("rel") ? M_REL
               : IS("pri") ? M_PRI
               : IS("seq") ? M_SEQ
               : IS("set") ? M_SET
               : IS("now") ? M_NOW
                           : M_NONE;
    case 4:
        return IS("hash")   ? M_HASH
               : IS("type") ? M_TYPE
               : IS("href") ? M_HREF
               : IS("tags") ? M_TAGS
               : IS("last") ? M_LAST
               : IS("from") ? M_FROM
               : IS("path") ? M_PATH
               : IS("name") ? M_NAME
               : IS("next") ? M_NEXT
                            : M_NONE;
    case 5:
        return IS("links")   ? M_LINKS
               : IS("epoch") ? M_EPOCH
               : IS("after") ? M_AFTER
               : IS("until") ? M_UNTIL
               : IS("value") ? M_VALUE
                             : M_NONE;
    case 6:
        return IS("change")   ? M_CHANGE
               : IS("length") ? M_LENGTH
               : IS("digest") ? M_DIGEST
                              : M_NONE;
    case 7:
        return IS("lastmod") ? M_LASTMOD : IS("changes") ? M_CHANGES : M_NONE;
    case 8:
        return IS("datetime")   ? M_DATETIME
               : IS("encoding") ? M_ENCODING
               : IS("priority") ? M_PRIORITY
               : IS("modified") ? M_MODIFIED
                                : M_NONE;
    case 9:
        return IS("completed")   ? M_COMPLETED
               : IS("heartbeat") ? M_HEARTBEAT
                                 : M_NONE;
    case 10:
        return IS("changefreq")   ? M_CHANGEFREQ
               : IS("capability") ? M_CAPABILITY
               : IS("attributes") ? M_ATTRIBUTES
                                  : M_NONE;
    case 14:
        return IS("sourceDatetime") ? M_SOURCE_DATETIME : M_NONE;
    default:
        return M_NONE;
    }
}

#undef IS

/* Copies tags, with one space between two. */
static enum status
set_tags(struct entry *entry, struct slice text, struct problem *why)
{
    size_t size = 0;
    char *to;
    enum status rc = entry_room(entry, text.size, &to, why);

    if (rc)
        return rc;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (!slice_is_space(c))
            to[size++] = c;
        else if (size > 0 && to[size - 1] != ' ')
            to[size++] = ' ';
    }
    if (size > 0 && to[size - 1] == ' ')
        size--;
    entry->change.tags = (struct slice){to, size};
    return STATUS_OK;
}

/* */
static enum status
set_length(uint64_t *length, struct slice text, struct problem *why)
{
    uint64_t number;

    if (!number_read(text, &number) || number > INT64_MAX)
        return problem_quoting(why, STATUS_INVALID,
                               "length: not a number of bytes", text);
    *length = number;
    return STATUS_OK;
}

/* */
static enum status
set_pri(struct link *link, struct slice text, struct problem *why)
{
    uint64_t number;

    if (!number_read(text, &number) || number < 1 || number > 999999)
        return problem_quoting(why, STATUS_INVALID, "pri: not from 1 to 999999",
                               text);
    link->pri = (uint32_t)number;
    return STATUS_OK;
}

enum status
entry_set(struct entry *entry, struct link *link, enum entry_member member,
          const char *name, struct slice value, struct problem *why)
{
    struct change *change = &entry->change;
    struct slice *to;
    uint64_t seq;
    enum status rc;

    switch (member) {
    case M_LOC:
        to = &change->loc;
        break;
    case M_CHANGEFREQ:
        to = &change->changefreq;
        break;
    case M_PRIORITY:
        to = &change->priority;
        break;
    case M_REL:
        to = &link->rel;
        break;
    case M_HREF:
        to = &link->href;
        break;
    case M_TYPE:
        to = link ? &link->type : &change->type;
        break;
    case M_ENCODING:
        to = link ? &link->encoding : &change->encoding;
        break;
    case M_CHANGE:
        entry->has_kind = true;
        return change_kind_of(value, &change->kind)
                   ? problem_quoting(why, STATUS_INVALID,
                                     "change: not created, updated or deleted",
                                     value)
                   : STATUS_OK;
    case M_LASTMOD:
        return entry_lastmod(value, change, why);
    case M_DATETIME:
        return entry_time(name, value, &change->datetime_us, why);
    case M_MODIFIED:
        return entry_time(name, value, &link->modified_us, why);
    case M_SOURCE_DATETIME:
        return entry->is_of_message
                   ? entry_time(name, value, &change->source_us, why)
                   : STATUS_OK;
    case M_LENGTH:
        return set_length(link ? &link->length : &change->length, value, why);
    case M_PRI:
        return set_pri(link, value, why);
    case M_SEQ:
        if (!number_read(value, &seq))
            return problem(why, STATUS_INVALID, "%s: bad value \"%s\"", name,
                           problem_quote(value).text);
        if (entry->is_of_message)
            change->seq = seq;
        return STATUS_OK;
    case M_HASH:
        buf_clear(&entry->hash);
        rc = hash_normalise(&entry->hash, value, why);
        return rc ? rc
                  : entry_copy(entry, buf_slice(&entry->hash),
                               link ? &link->hash : &change->hash, why);
    case M_TAGS:
        return set_tags(entry, value, why);
    default:
        return STATUS_INVALID;
    }
    *to = value;
    if (value.size == 0)
        return problem(why, STATUS_INVALID, "%s: empty", name);
    return entry->is_lent ? entry_lend(entry, value.size, why)
                          : entry_copy(entry, value, to, why);
}

bool
coverage_set(struct coverage *coverage, enum entry_member member,
             struct slice value)
{
    switch (member) {
    case M_SET:
        if (!set_name_is_valid(value))
            return false;
        memcpy(coverage->set, value.data, value.size);
        return true;
    case M_EPOCH:
        if (!epoch_is_valid(value))
            return false;
        memcpy(coverage->epoch, value.data, EPOCH_SIZE);
        return true;
    case M_AFTER:
        return number_read(value, &coverage->after);
    case M_LAST:
        return number_read(value, &coverage->last);
    case M_FROM:
        return !datetime_read(value, &coverage->from_us);
    case M_UNTIL:
        return !datetime_read(value, &coverage->until_us);
    case M_NOW:
        return !datetime_read(value, &coverage->now_us);
    case M_DIGEST:
        coverage->has_digest = !digest_read(value, &coverage->digest);
        return coverage->has_digest;
    case M_HEARTBEAT:
        return seconds_read(value, &coverage->heartbeat_us);
    default:
        return true;
    }
}

#include "proto/json_members.h"

#include "proto/number.h"

#define MEMBER(name, id, values)                 \
    {                                            \
        (name), sizeof(name) - 1, (id), (values) \
    }

static const struct member change_members[] = {
    MEMBER("loc", M_LOC, IS_STRING),
    MEMBER("change", M_CHANGE, IS_STRING),
    MEMBER("datetime", M_DATETIME, IS_STRING),
    MEMBER("lastmod", M_LASTMOD, IS_STRING),
    MEMBER("hash", M_HASH, IS_OBJECT),
    MEMBER("length", M_LENGTH, IS_NUMBER),
    MEMBER("type", M_TYPE, IS_STRING),
    MEMBER("encoding", M_ENCODING, IS_STRING),
    MEMBER("changefreq", M_CHANGEFREQ, IS_STRING),
    MEMBER("priority", M_PRIORITY, IS_STRING | IS_NUMBER),
    MEMBER("tags", M_TAGS, IS_ARRAY),
    MEMBER("links", M_LINKS, IS_ARRAY),
    MEMBER("attributes", M_ATTRIBUTES, IS_ARRAY),
    MEMBER("seq", M_SEQ, IS_NUMBER),
    MEMBER("sourceDatetime", M_SOURCE_DATETIME, IS_STRING),
};

static const struct member link_members[] = {
    MEMBER("rel", M_REL, IS_STRING),
    MEMBER("href", M_HREF, IS_STRING),
    MEMBER("pri", M_PRI, IS_NUMBER),
    MEMBER("modified", M_MODIFIED, IS_STRING),
    MEMBER("hash", M_HASH, IS_OBJECT),
    MEMBER("length", M_LENGTH, IS_NUMBER),
    MEMBER("type", M_TYPE, IS_STRING),
    MEMBER("encoding", M_ENCODING, IS_STRING),
    MEMBER("attributes", M_ATTRIBUTES, IS_ARRAY),
};

static const struct member attribute_members[] = {
    MEMBER("ns", M_NS, IS_STRING),
    MEMBER("name", M_NAME, IS_STRING),
    MEMBER("value", M_VALUE, IS_STRING),
};

static const struct member message_members[] = {
    MEMBER("set", M_SET, IS_STRING),
    MEMBER("epoch", M_EPOCH, IS_STRING),
    MEMBER("after", M_AFTER, IS_NUMBER),
    MEMBER("last", M_LAST, IS_NUMBER),
    MEMBER("from", M_FROM, IS_STRING),
    MEMBER("until", M_UNTIL, IS_STRING),
    MEMBER("digest", M_DIGEST, IS_STRING),
    MEMBER("now", M_NOW, IS_STRING),
    MEMBER("heartbeat", M_HEARTBEAT, IS_NUMBER),
    MEMBER("next", M_NEXT, IS_STRING),
    MEMBER("changes", M_CHANGES, IS_ARRAY),
};

const struct json_place json_places[] = {

#define MEMBERS(array) (array), sizeof(array) / sizeof((array)[0])
    [PLACE_TOP] = {NULL, 0, "the document"},
    [PLACE_OBJECT] = {NULL, 0, "the document"},
    [PLACE_CHANGES] = {NULL, 0, "changes"},
    [PLACE_MESSAGE] = {MEMBERS(message_members), "the message"},
    [PLACE_CHANGE] = {MEMBERS(change_members), "the change"},
    [PLACE_HASH] = {NULL, 0, "hash"},
    [PLACE_TAGS] = {NULL, 0, "tags"},
    [PLACE_LINKS] = {NULL, 0, "links"},
    [PLACE_LINK] = {MEMBERS(link_members), "the link"},
    [PLACE_ATTRIBUTES] = {NULL, 0, "attributes"},
    [PLACE_ATTRIBUTE] = {MEMBERS(attribute_members), "the attribute"},
};

#undef MEMBERS

static enum status
bad_value(const struct member *member, struct slice text, struct problem *why)
{
    return problem(why, STATUS_INVALID, "%s: bad value \"%s\"", member->name,
                   problem_quote(text).text);
}

enum status
json_message_value(struct json_target *target, const struct member *member,
                   struct slice text, struct problem *why)
{
    const struct reader *reader = target->reader;
    struct coverage *coverage = &target->reader->coverage;
    bool is_good = true;

    /* Posted again, it covers nothing of the set it is posted to; in between
     * what times its entries are is as true as ever. */
    if (!reader_is_for_messages(reader) && member->id != M_FROM &&
        member->id != M_UNTIL)
        return STATUS_OK;

    switch (member->id) {
    case M_SET:
        is_good = set_name_is_valid(text);
        if (is_good)
            memcpy(coverage->set, text.data, text.size);
        break;
    case M_EPOCH:
        /* The caller took earlier entries for the source's own. */
        if (reader->takes_message && reader->n_entries > 0)
            return problem(why, STATUS_INVALID,
                           "epoch: behind the changes, not before them");
        is_good = epoch_is_valid(text);
        if (is_good)
            memcpy(coverage->epoch, text.data, EPOCH_SIZE);
        break;
    case M_AFTER:
        is_good = number_read(text, &coverage->after);
        break;
    case M_LAST:
        is_good = number_read(text, &coverage->last);
        break;
    case M_FROM:
        return entry_time("from", text, &coverage->from_us, why);
    case M_UNTIL:
        return entry_time("until", text, &coverage->until_us, why);
    case M_DIGEST:
        is_good = !digest_read(text, &coverage->digest);
        coverage->has_digest = is_good;
        break;
    case M_NOW:
        return entry_time("now", text, &coverage->now_us, why);
    case M_HEARTBEAT:
        is_good = seconds_read(text, &coverage->heartbeat_us);
        break;
    default: /* next: where to go on is not what was said */
        break;
    }
    return is_good ? STATUS_OK : bad_value(member, text, why);
}

enum status
json_change_value(struct json_target *target, const struct member *member,
                  struct slice text, struct problem *why)
{
    struct entry *entry = &target->reader->entry;
    struct change *change = &entry->change;
    struct entry_common common = entry_common(entry, target->link);
    bool is_message = target->reader->use == READER_MESSAGE;
    uint64_t seq;

    switch (member->id) {
    case M_LOC:
        return entry_text(entry, "loc", text, &change->loc, why);
    case M_CHANGE:
        return entry_kind(entry, text, why);
    case M_DATETIME:
        return entry_time("datetime", text, &change->datetime_us, why);
    case M_SOURCE_DATETIME:
        if (!is_message)
            return STATUS_OK;
        return entry_time("sourceDatetime", text, &change->source_us, why);
    case M_LASTMOD:
        return entry_lastmod(text, change, why);
    case M_LENGTH:
        return entry_length(text, common.length, why);
    case M_TYPE:
        return entry_text(entry, "type", text, common.type, why);
    case M_ENCODING:
        return entry_text(entry, "encoding", text, common.encoding, why);
    case M_CHANGEFREQ:
        return entry_text(entry, "changefreq", text, &change->changefreq, why);
    case M_PRIORITY:
        return entry_text(entry, "priority", text, &change->priority, why);
    case M_SEQ:
        if (!number_read(text, &seq))
            return bad_value(member, text, why);
        if (is_message)
            change->seq = seq;
        return STATUS_OK;
    case M_REL:
        return entry_text(entry, "rel", text, &target->link->rel, why);
    case M_HREF:
        return entry_text(entry, "href", text, &target->link->href, why);
    case M_PRI:
        return entry_pri(text, &target->link->pri, why);
    case M_MODIFIED:
        return entry_time("modified", text, &target->link->modified_us, why);
    case M_NS:
        return entry_text(entry, "ns", text, &target->attribute.ns, why);
    case M_NAME:
        return entry_text(entry, "name", text, &target->attribute.name, why);
    default: /* an attribute's value, which may be empty */
        return entry_copy(entry, text, &target->attribute.value, why);
    }
}

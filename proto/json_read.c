#include "proto/json_read.h"

#include <stdlib.h>

#include "proto/json_parse.h"
#include "proto/number.h"

/* Which value of an object is meant. */
enum member_id {
    M_LOC,
    M_CHANGE,
    M_DATETIME,
    M_SOURCE_DATETIME,
    M_LASTMOD,
    M_HASH,
    M_LENGTH,
    M_TYPE,
    M_ENCODING,
    M_CHANGEFREQ,
    M_PRIORITY,
    M_TAGS,
    M_LINKS,
    M_ATTRIBUTES,
    M_SEQ,
    M_REL,
    M_HREF,
    M_PRI,
    M_MODIFIED,
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
    M_CHANGES
};

/* Values a member may have; a set, because priority is a string or a number. */
enum {
    IS_STRING = 1 << JSON_STRING,
    IS_NUMBER = 1 << JSON_NUMBER,
    IS_OBJECT = 1 << JSON_OBJECT,
    IS_ARRAY = 1 << JSON_ARRAY
};

struct member {
    const char *name;
    size_t size;
    enum member_id id;
    unsigned values;
};

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

/*
 * Where the parser stands. A value of an object belongs to the member whose key
 * came before it; arrays have one kind of value each:
 *
 *   TOP --[--> CHANGES --{--> CHANGE --hash--> HASH
 *    |  \--{-->  "                   --tags--> TAGS
 *    |                               --links--> LINKS --{--> LINK
 *    +-{--> MESSAGE --changes--> CHANGES        (LINK has HASH, ATTRIBUTES too)
 *                                    --attributes--> ATTRIBUTES --{-->
 * ATTRIBUTE
 */
enum place {
    PLACE_TOP,
    PLACE_CHANGES,
    PLACE_MESSAGE,
    PLACE_CHANGE,
    PLACE_HASH,
    PLACE_TAGS,
    PLACE_LINKS,
    PLACE_LINK,
    PLACE_ATTRIBUTES,
    PLACE_ATTRIBUTE
};

/* The members of each place that is an object with known ones, and what an
 * array is called in a problem. */
static const struct {
    const struct member *members;
    size_t n;
    const char *name;
} places[] = {

#define MEMBERS(array) (array), sizeof(array) / sizeof((array)[0])
    [PLACE_TOP] = {NULL, 0, "the document"},
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

struct level {
    enum place place;
    uint32_t seen;               /* members of this object, a bit each */
    const struct member *member; /* whose value is awaited; NULL: none */
};

struct json_read {
    struct reader *reader;
    struct json_parse *parse;

    /* TOP, MESSAGE, CHANGES, CHANGE, LINKS, LINK, ATTRIBUTES, ATTRIBUTE */
    struct level levels[8];
    struct level *level;

    struct link *link;          /* the one that is being read, or NULL */
    struct attribute attribute; /* likewise */
    struct buf list;            /* hash or tags, as XML writes them */
};

/* Where the values of a change or link go that both have. */
struct common {
    struct slice *hash;
    struct slice *type;
    struct slice *encoding;
    uint64_t *length;
    struct entry_attributes attributes;
};

static struct common
common_of(struct json_read *j)
{
    struct change *change = &j->reader->entry.change;
    struct link *link = j->link;

    if (link)
        return (struct common){
            &link->hash,
            &link->type,
            &link->encoding,
            &link->length,
            {&link->attributes, &link->n_attributes},
        };
    return (struct common){
        &change->hash,
        &change->type,
        &change->encoding,
        &change->length,
        {&change->attributes, &change->n_attributes},
    };
}

static enum status
on_key(struct json_read *j, struct slice name, struct problem *why)
{
    struct level *level = j->level;
    const struct member *members = places[level->place].members;

    if (level->place == PLACE_HASH) {
        /* hash_normalise judges the name, if it is one word. */
        for (size_t i = 0; i < name.size; i++)
            if (name.data[i] <= ' ' || name.data[i] == ':')
                return problem(why, STATUS_INVALID,
                               "hash: unknown algorithm \"%s\"",
                               problem_quote(name).text);
        BUF_ADD(&j->list, " ");
        buf_add_slice(&j->list, name);
        BUF_ADD(&j->list, ":");
        return STATUS_OK;
    }
    for (size_t i = 0; i < places[level->place].n; i++) {
        if (name.size != members[i].size ||
            memcmp(name.data, members[i].name, name.size))
            continue;
        if (level->seen & 1u << i)
            return problem(why, STATUS_INVALID, "%s: given twice",
                           members[i].name);
        level->seen |= 1u << i;
        level->member = &members[i];
        return STATUS_OK;
    }
    return problem(why, STATUS_INVALID, "unknown member \"%s\" in %s",
                   problem_quote(name).text, places[level->place].name);
}

static enum status
wrong_value(struct json_read *j, enum json_event event, struct problem *why)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",          [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",           [JSON_NUMBER] = "a number",
        [JSON_OTHER] = "true, false or null",
    };
    const struct member *member = j->level->member;

    return problem(why, STATUS_INVALID, "%s: must not %s %s",
                   member ? member->name : places[j->level->place].name,
                   places[j->level->place].members ? "be" : "hold",
                   names[event]);
}

static enum status
bad_value(const struct json_read *j, struct slice text, struct problem *why)
{
    return problem(why, STATUS_INVALID, "%s: bad value \"%s\"",
                   j->level->member->name, problem_quote(text).text);
}

static void
go_down(struct json_read *j, enum place place)
{
    *++j->level = (struct level){.place = place};
}

static enum status
begin_change(struct json_read *j, struct problem *why)
{
    go_down(j, PLACE_CHANGE);
    j->link = NULL;
    return reader_entry_begin(j->reader, why);
}

static enum status
on_object(struct json_read *j, struct problem *why)
{
    switch (j->level->place) {
    case PLACE_TOP:
        if (j->reader->use == READER_MESSAGE) {
            go_down(j, PLACE_MESSAGE);
            return STATUS_OK;
        }
        return begin_change(j, why);
    case PLACE_CHANGES:
        return begin_change(j, why);
    case PLACE_LINKS:
        go_down(j, PLACE_LINK);
        return entry_link(&j->reader->entry, &j->link, why);
    case PLACE_ATTRIBUTES:
        go_down(j, PLACE_ATTRIBUTE);
        j->attribute = (struct attribute){.ns = {NULL, 0}};
        return STATUS_OK;
    case PLACE_CHANGE:
    case PLACE_LINK:
        if (j->level->member && j->level->member->id == M_HASH) {
            buf_clear(&j->list);
            go_down(j, PLACE_HASH);
            return STATUS_OK;
        }
        break;
    default:
        break;
    }
    return wrong_value(j, JSON_OBJECT, why);
}

static enum status
on_array(struct json_read *j, struct problem *why)
{
    const struct member *member = j->level->member;

    if (j->level->place == PLACE_TOP) {
        go_down(j, PLACE_CHANGES);
        return STATUS_OK;
    }
    if (!member || !(member->values & IS_ARRAY))
        return wrong_value(j, JSON_ARRAY, why);
    switch (member->id) {
    case M_CHANGES:
        go_down(j, PLACE_CHANGES);
        return reader_interval(j->reader, why);
    case M_TAGS:
        buf_clear(&j->list);
        go_down(j, PLACE_TAGS);
        return STATUS_OK;
    case M_LINKS:
        go_down(j, PLACE_LINKS);
        return STATUS_OK;
    default:
        go_down(j, PLACE_ATTRIBUTES);
        return STATUS_OK;
    }
}

/* Attributes of our own namespace are dropped, as in XML. */
static enum status
end_attribute(struct json_read *j, struct problem *why)
{
    if (slice_is(j->attribute.ns, NS_TIDINGS))
        return STATUS_OK;
    return entry_attribute(&j->reader->entry, common_of(j).attributes,
                           &j->attribute, why);
}

static enum status
on_end(struct json_read *j, struct problem *why)
{
    struct entry *entry = &j->reader->entry;
    enum place place = j->level->place;

    j->level--;
    switch (place) {
    case PLACE_CHANGE:
        return reader_entry_end(j->reader, why);
    case PLACE_LINK:
        j->link = NULL;
        return STATUS_OK;
    case PLACE_ATTRIBUTE:
        return end_attribute(j, why);
    case PLACE_HASH:
        if (j->list.failed)
            return problem(why, STATUS_INVALID, "hash: too many or too long");
        return entry_hash(entry, buf_slice(&j->list), common_of(j).hash, why);
    case PLACE_TAGS:
        return entry_copy(entry, buf_slice(&j->list), &entry->change.tags, why);
    case PLACE_MESSAGE:
        return reader_interval(j->reader, why);
    default:
        return STATUS_OK;
    }
}

static enum status
add_tag(struct json_read *j, struct slice text, struct problem *why)
{
    bool is_good = text.size > 0 && text.size <= TAG_MAX;

    for (size_t i = 0; is_good && i < text.size; i++)
        is_good = (unsigned char)text.data[i] > ' ';
    if (is_good && j->list.size > 0)
        BUF_ADD(&j->list, " ");
    buf_add_slice(&j->list, text);
    if (!is_good || j->list.failed)
        return problem(why, STATUS_INVALID,
                       "tags: not of 1 to %d bytes without white space: \"%s\"",
                       TAG_MAX, problem_quote(text).text);
    return STATUS_OK;
}

static enum status
add_digits(struct json_read *j, struct slice text, struct problem *why)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ')
            return problem(why, STATUS_INVALID, "hash: not hexadecimal: \"%s\"",
                           problem_quote(text).text);
    buf_add_slice(&j->list, text);
    return STATUS_OK;
}

static enum status
message_value(struct json_read *j, struct slice text, struct problem *why)
{
    struct coverage *coverage = &j->reader->coverage;
    bool is_good = true;

    switch (j->level->member->id) {
    case M_SET:
        is_good = set_name_is_valid(text);
        if (is_good)
            memcpy(coverage->set, text.data, text.size);
        break;
    case M_EPOCH:
        is_good = text.size == EPOCH_SIZE;
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
        return value_time("from", text, &coverage->from_us, why);
    case M_UNTIL:
        return value_time("until", text, &coverage->until_us, why);
    case M_DIGEST:
        is_good = !digest_read(text, &coverage->digest);
        coverage->has_digest = is_good;
        break;
    case M_NOW:
        return value_time("now", text, &coverage->now_us, why);
    case M_HEARTBEAT:
        is_good = seconds_read(text, &coverage->heartbeat_us);
        break;
    default: /* next: where to go on is not what was said */
        break;
    }
    return is_good ? STATUS_OK : bad_value(j, text, why);
}

static enum status
change_value(struct json_read *j, struct slice text, struct problem *why)
{
    struct entry *entry = &j->reader->entry;
    struct change *change = &entry->change;
    struct common common = common_of(j);
    bool is_message = j->reader->use == READER_MESSAGE;
    uint64_t seq;

    switch (j->level->member->id) {
    case M_LOC:
        return entry_text(entry, "loc", text, &change->loc, why);
    case M_CHANGE:
        return entry_kind(entry, text, why);
    case M_DATETIME:
        return value_time("datetime", text, &change->datetime_us, why);
    case M_SOURCE_DATETIME:
        if (!is_message)
            return STATUS_OK;
        return value_time("sourceDatetime", text, &change->source_us, why);
    case M_LASTMOD:
        return value_lastmod(text, &change->lastmod_us, why);
    case M_LENGTH:
        return value_length(text, common.length, why);
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
            return bad_value(j, text, why);
        if (is_message)
            change->seq = seq;
        return STATUS_OK;
    case M_REL:
        return entry_text(entry, "rel", text, &j->link->rel, why);
    case M_HREF:
        return entry_text(entry, "href", text, &j->link->href, why);
    case M_PRI:
        return value_pri(text, &j->link->pri, why);
    case M_MODIFIED:
        return value_time("modified", text, &j->link->modified_us, why);
    case M_NS:
        return entry_text(entry, "ns", text, &j->attribute.ns, why);
    case M_NAME:
        return entry_text(entry, "name", text, &j->attribute.name, why);
    default: /* an attribute's value, which may be empty */
        return entry_copy(entry, text, &j->attribute.value, why);
    }
}

static enum status
on_value(struct json_read *j, enum json_event event, struct slice text,
         struct problem *why)
{
    const struct member *member = j->level->member;

    if (j->level->place == PLACE_TAGS && event == JSON_STRING)
        return add_tag(j, text, why);
    if (j->level->place == PLACE_HASH && event == JSON_STRING)
        return add_digits(j, text, why);
    if (!member || !(member->values & 1u << event))
        return wrong_value(j, event, why);
    if (j->level->place == PLACE_MESSAGE)
        return message_value(j, text, why);
    return change_value(j, text, why);
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct json_read *j = user;

    switch (event) {
    case JSON_KEY:
        return on_key(j, text, why);
    case JSON_OBJECT:
        return on_object(j, why);
    case JSON_ARRAY:
        return on_array(j, why);
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        return on_end(j, why);
    default:
        return on_value(j, event, text, why);
    }
}

static void
json_close(void *state)
{
    struct json_read *j = state;

    json_parse_free(j->parse);
    buf_fini(&j->list);
    free(j);
}

static void
begin(struct json_read *j)
{
    j->level = j->levels;
    *j->level = (struct level){.place = PLACE_TOP};
    j->link = NULL;
}

static void *
json_open(struct reader *reader)
{
    struct json_read *j = calloc(1, sizeof(*j));

    if (!j)
        return NULL;
    j->reader = reader;
    buf_init(&j->list, ENTRY_BYTES_MAX);
    begin(j);
    j->parse = json_parse_new(on_event, j);
    if (!j->parse) {
        json_close(j);
        return NULL;
    }
    return j;
}

static enum status
json_reset(void *state)
{
    struct json_read *j = state;

    begin(j);
    return json_parse_reset(j->parse);
}

static enum status
json_feed(void *state, struct slice bytes, struct problem *why)
{
    struct json_read *j = state;

    return json_parse_feed(j->parse, bytes, why);
}

static enum status
json_finish(void *state, struct problem *why)
{
    struct json_read *j = state;

    return json_parse_end(j->parse, why);
}

static uint64_t
json_line(const void *state)
{
    const struct json_read *j = state;

    return json_parse_line(j->parse);
}

static size_t
json_held(const void *state)
{
    const struct json_read *j = state;

    return json_parse_held(j->parse);
}

const struct parser json_parser = {
    .open = json_open,
    .close = json_close,
    .reset = json_reset,
    .feed = json_feed,
    .end = json_finish,
    .line = json_line,
    .held = json_held,
};

#include "proto/resourcesync/json.h"

#include "proto/number.h"
#include "proto/swar.h"

/* How many bytes a byte takes beyond its own in a JSON string. */
static const unsigned char extra[256] = {
    [0 ... 0x1f] = 5, /* as \u00XX */
    ['"'] = 1,
    ['\\'] = 1,
};

char *
json_put_char(char *to, char c)
{
    static const char digits[] = "0123456789abcdef";

    if (!extra[(unsigned char)c]) {
        *to++ = c;
        return to;
    }
    *to++ = '\\';
    if (c == '"' || c == '\\') {
        *to++ = c;
        return to;
    }
    memcpy(to, "u00", 3);
    to[3] = digits[(unsigned char)c >> 4];
    to[4] = digits[c & 15];
    return to + 5;
}

static inline uint64_t
is_special(uint64_t v)
{
    return swar_below(v, 0x20) | swar_equal(v, '"') | swar_equal(v, '\\');
}

void
json_text(struct buf *to, struct slice text)
{
    size_t more = 2;
    char *p;

    if (!swar_none(text, is_special, ' '))
        for (size_t i = 0; i < text.size; i++)
            more += extra[(unsigned char)text.data[i]];
    p = buf_room(to, text.size + more);
    if (!p)
        return;
    to->size += text.size + more;

    *p++ = '"';
    if (more == 2) {
        if (text.size > 0)
            memcpy(p, text.data, text.size);
        p += text.size;
    } else {
        for (size_t i = 0; i < text.size; i++)
            p = json_put_char(p, text.data[i]);
    }
    *p = '"';
}

void
json_text_member(struct buf *to, const char *name, struct slice text)
{
    buf_add_format(to, ",\"%s\":", name);
    json_text(to, text);
}

void
json_number_member(struct buf *to, const char *name, uint64_t number)
{
    buf_add_format(to, ",\"%s\":", name);
    buf_add_number(to, number);
}

/* Problems */

void
json_problem_begin(struct buf *to, unsigned status, const char *title,
                   const struct problem *why)
{
    BUF_ADD(to, JSON_PROBLEM_START);
    json_text_member(to, "title", slice_of(title));
    json_number_member(to, "status", status);
    if (why && why->text[0])
        json_text_member(to, "detail", slice_of(why->text));
    if (why && why->entry)
        json_number_member(to, "entry", why->entry);
    if (why && why->line)
        json_number_member(to, "line", why->line);
}

/* Changes and messages */

/* Every member after an object's first begins with a comma. */
#define ADD_STRING(to, name, value)        \
    do {                                   \
        if ((value).size > 0) {            \
            BUF_ADD(to, ",\"" name "\":"); \
            json_text(to, value);          \
        }                                  \
    } while (0)

#define ADD_TIME(to, name, us, write)      \
    do {                                   \
        if ((us) != DATETIME_NONE) {       \
            BUF_ADD(to, ",\"" name "\":"); \
            write(to, us);                 \
        }                                  \
    } while (0)

/* Event times have six decimals everywhere, so that they compare as text. */
static void
add_time(struct buf *to, int64_t us)
{
    char text[DATETIME_SIZE];

    datetime_write(text, us);
    json_text(to, (struct slice){text, sizeof(text)});
}

/* Other people's times are no longer than they have to be. */
static void
add_time_short(struct buf *to, int64_t us)
{
    char text[DATETIME_SIZE];

    json_text(to, (struct slice){text, datetime_write_short(text, us)});
}

static void
add_hash(struct buf *to, struct slice hash)
{
    struct slice algorithm;
    struct slice digits;
    const char *before = ",\"hash\":{";

    if (hash.size == 0)
        return;
    while (hash_next(&hash, &algorithm, &digits)) {
        buf_add_text(to, before);
        json_text(to, algorithm);
        BUF_ADD(to, ":");
        json_text(to, digits);
        before = ",";
    }
    BUF_ADD(to, "}");
}

static void
add_length(struct buf *to, uint64_t length)
{
    if (length == LENGTH_NONE)
        return;
    BUF_ADD(to, ",\"length\":");
    buf_add_number(to, length);
}

static void
add_tags(struct buf *to, struct slice tags)
{
    const char *before = ",\"tags\":[";

    if (tags.size == 0)
        return;
    while (tags.size > 0) {
        buf_add_text(to, before);
        json_text(to, slice_take(&tags, ' '));
        before = ",";
    }
    BUF_ADD(to, "]");
}

static void
add_attributes(struct buf *to, const struct attribute *attributes, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        buf_add_text(to, i == 0 ? ",\"attributes\":[{\"ns\":" : ",{\"ns\":");
        json_text(to, attributes[i].ns);
        BUF_ADD(to, ",\"name\":");
        json_text(to, attributes[i].name);
        BUF_ADD(to, ",\"value\":");
        json_text(to, attributes[i].value);
        BUF_ADD(to, "}");
    }
    BUF_ADD(to, "]");
}

static void
add_link(struct buf *to, const struct link *link)
{
    BUF_ADD(to, "{\"rel\":");
    json_text(to, link->rel);
    BUF_ADD(to, ",\"href\":");
    json_text(to, link->href);
    if (link->pri > 0) {
        BUF_ADD(to, ",\"pri\":");
        buf_add_number(to, link->pri);
    }
    ADD_TIME(to, "modified", link->modified_us, add_time_short);
    add_hash(to, link->hash);
    add_length(to, link->length);
    ADD_STRING(to, "type", link->type);
    ADD_STRING(to, "encoding", link->encoding);
    add_attributes(to, link->attributes, link->n_attributes);
    BUF_ADD(to, "}");
}

/* Adds the members that describe a resource. */
static void
add_resource(struct buf *to, const struct change *change)
{
    if (change->lastmod_us != DATETIME_NONE) {
        char text[DATETIME_SIZE];

        BUF_ADD(to, ",\"lastmod\":");
        json_text(to, (struct slice){text, change_write_lastmod(text, change)});
    }
    add_hash(to, change->hash);
    add_length(to, change->length);
    ADD_STRING(to, "type", change->type);
    ADD_STRING(to, "encoding", change->encoding);
    ADD_STRING(to, "changefreq", change->changefreq);
    ADD_STRING(to, "priority", change->priority);
    add_tags(to, change->tags);
    for (size_t i = 0; i < change->n_links; i++) {
        buf_add_text(to, i == 0 ? ",\"links\":[" : ",");
        add_link(to, &change->links[i]);
    }
    if (change->n_links > 0)
        BUF_ADD(to, "]");
    add_attributes(to, change->attributes, change->n_attributes);
}

void
json_change(struct buf *to, const struct change *change)
{
    BUF_ADD(to, "{\"loc\":");
    json_text(to, change->loc);
    BUF_ADD(to, ",\"change\":\"");
    buf_add_text(to, change_kind_name(change->kind));
    BUF_ADD(to, "\"");
    ADD_TIME(to, "datetime", change->datetime_us, add_time);
    ADD_TIME(to, "sourceDatetime", change->source_us, add_time_short);
    add_resource(to, change);
    if (change->seq > 0) {
        BUF_ADD(to, ",\"seq\":");
        buf_add_number(to, change->seq);
    }
    BUF_ADD(to, "}");
}

void
json_resource(struct buf *to, const struct change *change)
{
    BUF_ADD(to, "{\"loc\":");
    json_text(to, change->loc);
    add_resource(to, change);
    BUF_ADD(to, "}");
}

void
json_message_begin(struct buf *to, const struct coverage *coverage,
                   struct slice next)
{
    char digest[DIGEST_TEXT_SIZE];
    char seconds[SECONDS_SIZE_MAX];

    BUF_ADD(to, "{\"set\":");
    json_text(to, slice_of(coverage->set));
    ADD_STRING(to, "epoch", slice_of(coverage->epoch));
    BUF_ADD(to, ",\"after\":");
    buf_add_number(to, coverage->after);
    BUF_ADD(to, ",\"last\":");
    buf_add_number(to, coverage->last);
    ADD_TIME(to, "from", coverage->from_us, add_time);
    ADD_TIME(to, "until", coverage->until_us, add_time);
    if (coverage->has_digest) {
        digest_write(digest, &coverage->digest);
        BUF_ADD(to, ",\"digest\":");
        json_text(to, (struct slice){digest, sizeof(digest)});
    }
    ADD_TIME(to, "now", coverage->now_us, add_time);
    if (coverage->heartbeat_us > 0) {
        BUF_ADD(to, ",\"heartbeat\":");
        buf_add(to, seconds, seconds_write(seconds, coverage->heartbeat_us));
    }
    ADD_STRING(to, "next", next);
    BUF_ADD(to, ",\"changes\":[");
}

void
json_message_end(struct buf *to)
{
    BUF_ADD(to, "]}\n");
}

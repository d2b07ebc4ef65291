#include "proto/resourcesync/json.h"

#include "proto/number.h"
#include "proto/resourcesync/document_write.h"
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

/* The end of the year 9999: later times have no text. */
#define TIME_MAX_US 253402300799000000

/* Begins a member; a comma stands before all but the first. */
static void
begin_member(struct buf *to, const char *name)
{
    bool is_first = to->size > 0 && to->data[to->size - 1] == '{';

    buf_add_format(to, "%s\"%s\":", is_first ? "" : ",", name);
}

void
json_text_member(struct buf *to, const char *name, struct slice text)
{
    begin_member(to, name);
    json_text(to, text);
}

void
json_number_member(struct buf *to, const char *name, uint64_t number)
{
    begin_member(to, name);
    buf_add_number(to, number);
}

void
json_flag_member(struct buf *to, const char *name, bool value)
{
    begin_member(to, name);
    buf_add_text(to, value ? "true" : "false");
}

void
json_time_member(struct buf *to, const char *name, int64_t us)
{
    if (us > 0 && us <= TIME_MAX_US)
        json_text_member(to, name, slice_of(datetime_text_short(us).text));
}

void
json_datetime_member(struct buf *to, const char *name, int64_t us)
{
    json_text_member(to, name, slice_of(datetime_text(us).text));
}

void
json_position_member(struct buf *to, const char *name, const char *epoch,
                     uint64_t seq)
{
    char text[POSITION_MAX];

    position_write(text, epoch, seq);
    json_text_member(to, name, slice_of(text));
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

/* Each of these adds `begin`, the comma and the name of a member, and the
 * value, if there is one. */

static void
add_text(struct buf *to, const char *begin, struct slice value)
{
    if (value.size == 0)
        return;
    buf_add_text(to, begin);
    json_text(to, value);
}

/* Event times have six decimals everywhere, so that they compare as text. */
static void
add_time(struct buf *to, const char *begin, int64_t us)
{
    add_text(to, begin, slice_of(datetime_text(us).text));
}

/* Other people's times are no longer than they have to be. */
static void
add_time_short(struct buf *to, const char *begin, int64_t us)
{
    add_text(to, begin, slice_of(datetime_text_short(us).text));
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
add_number(struct buf *to, const char *begin, uint64_t number, uint64_t none)
{
    if (number == none)
        return;
    buf_add_text(to, begin);
    buf_add_number(to, number);
}

static void
add_attributes(struct buf *to, const struct attribute *attributes, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        add_text(to, i == 0 ? ",\"attributes\":[{\"ns\":" : ",{\"ns\":",
                 attributes[i].ns);
        add_text(to, ",\"name\":", attributes[i].name);
        BUF_ADD(to, ",\"value\":");
        json_text(to, attributes[i].value);
        BUF_ADD(to, "}");
    }
    BUF_ADD(to, "]");
}

/* Adds the members that describe a resource. */
static void
add_resource(struct buf *to, const struct change *change)
{
    struct slice tags = change->tags;

    add_text(to, ",\"lastmod\":", slice_of(change_lastmod(change).text));
    add_hash(to, change->hash);
    add_number(to, ",\"length\":", change->length, LENGTH_NONE);
    add_text(to, ",\"type\":", change->type);
    add_text(to, ",\"encoding\":", change->encoding);
    add_text(to, ",\"changefreq\":", change->changefreq);
    add_text(to, ",\"priority\":", change->priority);
    for (size_t i = 0; tags.size > 0; i++) {
        buf_add_text(to, i == 0 ? ",\"tags\":[" : ",");
        json_text(to, slice_take(&tags, ' '));
    }
    if (change->tags.size > 0)
        BUF_ADD(to, "]");
    for (size_t i = 0; i < change->n_links; i++) {
        const struct link *link = &change->links[i];

        add_text(to,
                 i == 0 ? ",\"links\":[{\"rel\":" : ",{\"rel\":", link->rel);
        add_text(to, ",\"href\":", link->href);
        add_number(to, ",\"pri\":", link->pri, 0);
        add_time_short(to, ",\"modified\":", link->modified_us);
        add_hash(to, link->hash);
        add_number(to, ",\"length\":", link->length, LENGTH_NONE);
        add_text(to, ",\"type\":", link->type);
        add_text(to, ",\"encoding\":", link->encoding);
        add_attributes(to, link->attributes, link->n_attributes);
        BUF_ADD(to, "}");
    }
    if (change->n_links > 0)
        BUF_ADD(to, "]");
    add_attributes(to, change->attributes, change->n_attributes);
}

void
json_change(struct buf *to, const struct change *change)
{
    add_text(to, "{\"loc\":", change->loc);
    add_text(to, ",\"change\":", slice_of(change_kind_names[change->kind]));
    add_time(to, ",\"datetime\":", change->datetime_us);
    add_time_short(to, ",\"sourceDatetime\":", change->source_us);
    add_resource(to, change);
    add_text(to, ",\"title\":", change->title);
    add_text(to, ",\"summary\":", change->summary);
    add_text(to, ",\"author\":", change->author);
    if (change->data.size > 0) {
        BUF_ADD(to, ",\"data\":");
        buf_add_slice(to, change->data);
    }
    if (traceparent_is_valid(change->traceparent))
        add_text(to, ",\"traceparent\":", change->traceparent);
    add_number(to, ",\"seq\":", change->seq, 0);
    BUF_ADD(to, "}");
}

void
json_resource(struct buf *to, const struct change *change)
{
    add_text(to, "{\"loc\":", change->loc);
    add_resource(to, change);
    BUF_ADD(to, "}");
}

void
json_message_begin(struct buf *to, const struct coverage *coverage,
                   struct slice next)
{
    char seconds[SECONDS_SIZE_MAX];

    BUF_ADD(to, "{\"set\":");
    json_text(to, slice_of(coverage->set));
    add_text(to, ",\"epoch\":", slice_of(coverage->epoch));
    add_number(to, ",\"after\":", coverage->after, LENGTH_NONE);
    add_number(to, ",\"last\":", coverage->last, LENGTH_NONE);
    add_time(to, ",\"from\":", coverage->from_us);
    add_time(to, ",\"until\":", coverage->until_us);
    if (coverage->has_digest)
        add_text(to,
                 ",\"digest\":", slice_of(digest_text(&coverage->digest).text));
    add_time(to, ",\"now\":", coverage->now_us);
    if (coverage->heartbeat_us > 0) {
        BUF_ADD(to, ",\"heartbeat\":");
        buf_add(to, seconds, seconds_write(seconds, coverage->heartbeat_us));
    }
    add_text(to, ",\"next\":", next);
    BUF_ADD(to, ",\"changes\":[");
}

/* Fragments: their fields stand in one order (fragment_write), so they are
 * copied from text to text. */

/* "2026-04-01T18:09:00Z" and "2026-04-01". */
#define MOMENT_SIZE (sizeof("2026-04-01T18:09:00Z") - 1)
#define DATE_SIZE   (sizeof("2026-04-01") - 1)

/* All numbers of so many digits fit. */
#define DIGITS_MAX 18

/* A byte of a value needs at most two of JSON: "&#9;" becomes "\u0009", tags
 * "a b" become "a","b". What stands around a value is at most five bytes longer
 * in JSON, and at least ten in both: `,"sourceDatetime":""`. */
#define JSON_SIZE_MAX(size) (2 * (size) + 64)

/* A fragment that is read, and where the next byte of JSON goes. */
struct conversion {
    struct slice rest;
    char *to;
};

/* A value between quotes, and what it means. */
enum value {
    VALUE_TEXT,
    VALUE_WORD,   /* never has a reference */
    VALUE_TAGS,   /* with spaces between */
    VALUE_HASH,   /* likewise: "ALGORITHM:DIGITS" */
    VALUE_NUMBER, /* without leading zeros */
    VALUE_JSON,   /* escaped, as it is */
    VALUE_MOMENT, /* in UTC, without decimals */
    VALUE_DATE    /* the same, or a date alone */
};

/* Reading */

/* Takes the value of an attribute, if it comes next. */
#define ATTRIBUTE(c, name, value)                     \
    (*(value) = (struct slice){NULL, 0},              \
     !slice_skip_start(&(c)->rest, " " name "=\"") || \
         (slice_take_to(&(c)->rest, '"', (value)) && (value)->size > 0))

/* Takes the text of an element, if it comes next. */
#define ELEMENT(c, name, text)                                          \
    (*(text) = (struct slice){NULL, 0},                                 \
     !slice_skip_start(&(c)->rest, "<" name ">") ||                     \
         (slice_take_to(&(c)->rest, '<', (text)) && (text)->size > 0 && \
          slice_skip_start(&(c)->rest, "/" name ">")))

static inline bool
is_moment(struct slice text)
{
    return text.size == MOMENT_SIZE && text.data[MOMENT_SIZE - 1] == 'Z';
}

static bool
is_number(struct slice text)
{
    uint64_t number;

    return text.size <= DIGITS_MAX && number_read_plain(text, &number);
}

/* Writing */

#define SIZE(literal) (sizeof(literal) - 1)

#define PUT(c, literal)                          \
    do {                                         \
        memcpy((c)->to, literal, SIZE(literal)); \
        (c)->to += SIZE(literal);                \
    } while (0)

static inline void
put(struct conversion *c, struct slice text)
{
    memcpy(c->to, text.data, text.size);
    c->to += text.size;
}

static inline uint64_t
needs_change(uint64_t v)
{
    /* Bit 2 is the difference between '"' and '&'. */
    return swar_below(v, 0x20) | swar_equal(v | SWAR_ONES * 4, '&') |
           swar_equal(v, '\\');
}

/* Puts the text of a string. False: it has bytes that are never written so. */
static inline bool
put_text(struct conversion *c, struct slice text)
{
    if (swar_none(text, needs_change, ' ')) {
        put(c, text);
        return true;
    }
    while (text.size > 0) {
        if ((unsigned char)*text.data < 0x20 || *text.data == '"')
            return false;
        if (*text.data == '&') {
            /* The character of a reference, or the "&" of none. */
            const char *end =
                memchr(text.data, ';', text.size < 6 ? text.size : 6);
            struct slice reference = {text.data,
                                      end ? (size_t)(end + 1 - text.data) : 1};
            char plain[6];
            struct buf unescaped = {.data = plain, .capacity = sizeof(plain)};

            xml_unescape(&unescaped, reference); /* no longer than it was */
            if (unescaped.size != 1)
                return false; /* a reference that is never written */
            c->to = json_put_char(c->to, plain[0]);
            slice_skip(&text, reference.size);
        } else {
            c->to = json_put_char(c->to, *text.data);
            slice_skip(&text, 1);
        }
    }
    return true;
}

static bool
put_tags(struct conversion *c, struct slice tags)
{
    if (memchr(tags.data, '&', tags.size))
        return false; /* a reference might be a space */
    PUT(c, "[");
    while (tags.size > 0) {
        struct slice tag = slice_take(&tags, ' ');

        PUT(c, "\"");
        if (tag.size == 0 || !put_text(c, tag))
            return false;
        PUT(c, "\",");
    }
    c->to[-1] = ']';
    return true;
}

static bool
put_hash(struct conversion *c, struct slice hash)
{
    struct slice algorithm, digits;

    if (!swar_none(hash, needs_change, ' '))
        return false;
    PUT(c, "{");
    while (hash.size > 0) {
        if (!hash_next(&hash, &algorithm, &digits) || algorithm.size == 0 ||
            digits.size == 0)
            return false;
        PUT(c, "\"");
        put(c, algorithm);
        PUT(c, "\":\"");
        put(c, digits);
        PUT(c, "\",");
    }
    c->to[-1] = '}';
    return true;
}

/* Puts `name`, which has the comma and the colon around it, and the value, if
 * there is one. */
static inline bool
put_member(struct conversion *c, const char *name, size_t name_size,
           struct slice value, enum value kind)
{
    struct buf plain;
    bool is_good = true;

    if (value.size == 0)
        return true;
    memcpy(c->to, name, name_size);
    c->to += name_size;
    switch (kind) {
    case VALUE_HASH:
        return put_hash(c, value);
    case VALUE_TAGS:
        return put_tags(c, value);
    case VALUE_NUMBER:
        put(c, value);
        return is_number(value);
    case VALUE_JSON: /* no longer without references; none is of a control */
        plain = (struct buf){.data = c->to, .capacity = value.size};
        xml_unescape(&plain, value);
        c->to += plain.size;
        return !slice_find(value, "&#");
    case VALUE_TEXT:
        break;
    case VALUE_WORD:
        is_good = !memchr(value.data, '&', value.size);
        break;
    case VALUE_DATE:
        is_good = value.size == DATE_SIZE || is_moment(value);
        break;
    case VALUE_MOMENT:
        is_good = is_moment(value);
        break;
    }
    PUT(c, "\"");
    is_good = put_text(c, value) && is_good;
    PUT(c, "\"");
    return is_good;
}

#define MEMBER(c, name, value, kind) \
    put_member((c), ",\"" name "\":", SIZE(",\"" name "\":"), (value), (kind))

/* Conversion */

/* What both a change and a link may have. */
struct common {
    struct slice hash, length, type, encoding;
};

static inline bool
take_common(struct conversion *c, struct common *common)
{
    return ATTRIBUTE(c, "hash", &common->hash) &&
           ATTRIBUTE(c, "length", &common->length) &&
           ATTRIBUTE(c, "type", &common->type) &&
           ATTRIBUTE(c, "encoding", &common->encoding);
}

static inline bool
put_common(struct conversion *c, const struct common *common)
{
    return MEMBER(c, "hash", common->hash, VALUE_HASH) &&
           MEMBER(c, "length", common->length, VALUE_NUMBER) &&
           MEMBER(c, "type", common->type, VALUE_TEXT) &&
           MEMBER(c, "encoding", common->encoding, VALUE_TEXT);
}

static bool
convert_links(struct conversion *c)
{
    if (!slice_skip_start(&c->rest, "<rs:ln"))
        return true;
    PUT(c, ",\"links\":[");
    do {
        struct slice rel, href, modified, pri;
        struct common common;

        if (!ATTRIBUTE(c, "rel", &rel) || !ATTRIBUTE(c, "href", &href) ||
            !ATTRIBUTE(c, "modified", &modified) ||
            !ATTRIBUTE(c, "pri", &pri) || !take_common(c, &common) ||
            !slice_skip_start(&c->rest, "/>") || rel.size == 0 ||
            href.size == 0)
            return false;
        PUT(c, "{\"rel\":\"");
        if (!put_text(c, rel))
            return false;
        PUT(c, "\",\"href\":\"");
        if (!put_text(c, href))
            return false;
        PUT(c, "\"");
        if (!MEMBER(c, "pri", pri, VALUE_NUMBER) ||
            !MEMBER(c, "modified", modified, VALUE_MOMENT) ||
            !put_common(c, &common))
            return false;
        PUT(c, "},");
    } while (slice_skip_start(&c->rest, "<rs:ln"));
    c->to[-1] = ']';
    return true;
}

/* Converts the words of the event. */
static bool
convert_words(struct conversion *c)
{
    struct slice title, summary, author, data;

    return ELEMENT(c, "td:title", &title) &&
           ELEMENT(c, "td:summary", &summary) &&
           ELEMENT(c, "td:author", &author) && ELEMENT(c, "td:data", &data) &&
           MEMBER(c, "title", title, VALUE_TEXT) &&
           MEMBER(c, "summary", summary, VALUE_TEXT) &&
           MEMBER(c, "author", author, VALUE_TEXT) &&
           MEMBER(c, "data", data, VALUE_JSON);
}

static bool
convert(struct conversion *c)
{
    struct slice loc, lastmod, changefreq, priority, kind, datetime, seq,
        source, traceparent, tags;
    struct common common;
    enum change_kind which;

    if (!slice_skip_start(&c->rest, "<url>") || !ELEMENT(c, "loc", &loc) ||
        !ELEMENT(c, "lastmod", &lastmod) ||
        !ELEMENT(c, "changefreq", &changefreq) ||
        !ELEMENT(c, "priority", &priority) ||
        !slice_skip_start(&c->rest, "<rs:md") ||
        !ATTRIBUTE(c, "change", &kind) ||
        !ATTRIBUTE(c, "datetime", &datetime) || !ATTRIBUTE(c, "td:seq", &seq) ||
        !ATTRIBUTE(c, "td:datetime", &source) ||
        !ATTRIBUTE(c, "td:traceparent", &traceparent) ||
        !take_common(c, &common) || !ATTRIBUTE(c, "td:tags", &tags) ||
        !slice_skip_start(&c->rest, "/>") || loc.size == 0 ||
        change_kind_of(kind, &which) || datetime.size != DATETIME_SIZE ||
        datetime.data[19] != '.' || datetime.data[DATETIME_SIZE - 1] != 'Z' ||
        !is_number(seq) || *seq.data == '0')
        return false;
    PUT(c, "{\"loc\":\"");
    if (!put_text(c, loc))
        return false;
    PUT(c, "\",\"change\":\"");
    put(c, kind);
    PUT(c, "\",\"datetime\":\"");
    put(c, datetime);
    PUT(c, "\"");
    if (!MEMBER(c, "sourceDatetime", source, VALUE_MOMENT) ||
        !MEMBER(c, "lastmod", lastmod, VALUE_DATE) || !put_common(c, &common) ||
        !MEMBER(c, "changefreq", changefreq, VALUE_WORD) ||
        !MEMBER(c, "priority", priority, VALUE_WORD) ||
        !MEMBER(c, "tags", tags, VALUE_TAGS) || !convert_links(c) ||
        !convert_words(c) ||
        !MEMBER(c, "traceparent", traceparent, VALUE_WORD) ||
        !slice_skip_start(&c->rest, "</url>\n") || c->rest.size > 0)
        return false;
    PUT(c, ",\"seq\":");
    put(c, seq);
    PUT(c, "}");
    return true;
}

bool
json_fragment(struct buf *to, struct slice fragment)
{
    char *room = buf_room(to, JSON_SIZE_MAX(fragment.size));
    struct conversion c = {
        .rest = fragment,
        .to = room,
    };

    if (!room || !convert(&c))
        return false;
    to->size += (size_t)(c.to - room);
    return true;
}

/*
 * event_read.c - reads changes out of CloudEvents 1.0.
 *
 *   {"specversion":"1.0","type":"org.example.updated","source":"/shop",
 *    "id":"1","subject":"item-7","time":"2026-11-01T10:00:00Z",
 *    "data":{"loc":"http://example.org/7","change":"updated"}}
 *
 * is an event in structured mode, and an array of such objects a batch. In
 * binary mode the attributes come by event_read_attribute, and the document
 * is the data alone.
 *
 * The data goes to the reader of its media type (datacontenttype, JSON if there
 * is none), as if it had been posted alone; its changes get the attributes of
 * the event, as foreign attributes:
 *
 *     tokens or bytes -> data -> inner reader -> on_inner -> on_change
 *                          |
 *                          +--> not a change: make_entry -> on_change
 *
 * JSON without changes is the data of a change that the attributes describe.
 *
 * Attributes may stand behind the data, so the data of an event in structured
 * mode is kept until its end: at most ENTRY_BYTES_MAX. In binary mode text goes
 * on to the inner reader as it comes, and JSON of changes once it is longer.
 */
#include "proto/input/event_read.h"

#include "proto/base64.h"
#include "proto/input/data_read.h"
#include "proto/input/input_reader.h"
#include "proto/number.h"
#include "proto/resourcesync/cloud_event.h"
#include "proto/resourcesync/json.h"
#include "proto/utf8.h"

/* The longest value of an attribute, in bytes: that of a URI. */
#define VALUE_MAX 2048

/* The longest name; CloudEvents recommends 20. */
#define NAME_MAX_BYTES 64

/* The attributes with a meaning: which are strings, which an event must have,
 * and which no change gets. */
enum { IS_STRING = 1, IS_REQUIRED = 2, IS_OWN = 4, OWN_ATTRIBUTES = 4 };

static const struct known {
    const char *name;
    unsigned is;
} known[] = {
    {"specversion", IS_STRING | IS_REQUIRED | IS_OWN},
    {"id", IS_STRING | IS_REQUIRED},
    {"source", IS_STRING | IS_REQUIRED},
    {"type", IS_STRING | IS_REQUIRED},
    {"subject", IS_STRING},
    {"time", IS_STRING | IS_OWN},
    {"datacontenttype", IS_STRING | IS_OWN},
    {"traceparent", IS_OWN},
};

/* What an event has as its data. */
enum event_data {
    HAS_NONE,
    HAS_JSON,   /* in `data`, compact */
    HAS_STRING, /* likewise, and its characters in `text` */
    HAS_BYTES   /* in `text`: of base64, or a body in binary mode */
};

struct event_read {
    struct input_reader *reader;
    struct json_parse *parse;
    unsigned depth; /* of an event's object: 1, in a batch 2; binary: 0 */

    /* The event so far */
    struct arena arena; /* the text of: */
    struct attribute attributes[CHANGE_ATTRIBUTES_MAX + OWN_ATTRIBUTES];
    size_t n_attributes;
    char name[NAME_MAX_BYTES + 1]; /* of the member whose value comes next */
    int64_t time_us;
    bool has_begun; /* begin_event */
    uint64_t n_changes;
    char numbered[VALUE_MAX + 1 + NUMBER_SIZE_MAX + 1]; /* an id */
    struct coverage no_coverage;

    /* Its data */
    bool is_in_data; /* tokens are of "data" */
    enum event_data has;
    struct data_read data;
    struct buf text;

    struct input_reader *inner; /* NULL: none yet */
    bool is_inner_open;         /* it has read some of the data */
    struct attribute merged[CHANGE_ATTRIBUTES_MAX];
};

/* Looks for a member of an object, of the objects of an array, or of those of
 * its member "changes" (a message). */
struct looking {
    const char *name;
    unsigned depth;
    bool is_array, is_in_changes;
};

static enum status
on_looking(void *user, enum json_event event, struct slice text,
           struct problem *why)
{
    struct looking *l = user;

    (void)why;
    l->depth += event == JSON_OBJECT || event == JSON_ARRAY;
    l->depth -= event == JSON_OBJECT_END || event == JSON_ARRAY_END;
    l->is_array |= event == JSON_ARRAY && l->depth == 1;
    if (event != JSON_KEY)
        return STATUS_OK;
    if (l->depth == 1)
        l->is_in_changes = slice_is(text, "changes");
    return (l->depth == 1 || (l->depth == 2 && l->is_array) ||
            (l->depth == 3 && l->is_in_changes)) &&
                   slice_is(text, l->name)
               ? STATUS_STOPPED
               : STATUS_OK;
}

/* `json` may be cut. */
static bool
has_member(struct slice json, const char *name)
{
    struct looking l = {.name = name};

    return slice_find(json, name) &&
           json_parse_text(json, on_looking, &l, NULL) == STATUS_STOPPED;
}

bool
event_read_is_structured(struct slice content_type)
{
    return slice_starts_word(content_type, "application/cloudevents");
}

bool
event_read_is_event(struct slice json)
{
    return has_member(json, "specversion");
}

/* Attributes */

static struct slice
find_attribute(const struct event_read *e, const char *name)
{
    for (size_t i = 0; i < e->n_attributes; i++)
        if (slice_is(e->attributes[i].name, name))
            return e->attributes[i].value;
    return (struct slice){NULL, 0};
}

static struct slice
media_type(const struct event_read *e)
{
    struct slice type = find_attribute(e, "datacontenttype");

    return slice_trimmed(slice_take(&type, ';'));
}

static bool
is_json(struct slice type)
{
    return type.size == 0 || slice_is_word(type, "application/json") ||
           slice_is_word(type, "text/json") || slice_ends(type, "+json");
}

static unsigned
meaning_of(struct slice name)
{
    for (size_t i = 0; i < N_ELEMENTS(known); i++)
        if (slice_is(name, known[i].name))
            return known[i].is;
    return 0;
}

static enum status
check_attribute(const struct event_read *e, struct slice name,
                struct slice value, struct problem *why)
{
    struct problem_quote quote = problem_quote(name);

    if (!cloud_event_is_name(name) || name.size > NAME_MAX_BYTES)
        return problem(why, STATUS_INVALID,
                       "\"%s\" is no attribute of an event: a name has 1 to %d "
                       "of a-z and 0-9",
                       quote.text, NAME_MAX_BYTES);
    if (value.size > VALUE_MAX)
        return problem(why, STATUS_INVALID, "%s: more than %d bytes",
                       quote.text, VALUE_MAX);
    if (!utf8_is_xml_text(value))
        return problem(why, STATUS_INVALID,
                       "%s: not UTF-8, or a character that XML cannot carry",
                       quote.text);
    if (find_attribute(e, quote.text).size > 0)
        return problem(why, STATUS_INVALID, "%s: given twice", quote.text);
    return e->n_attributes == N_ELEMENTS(e->attributes)
               ? problem(why, STATUS_INVALID,
                         "%s: more than %d foreign attributes", quote.text,
                         CHANGE_ATTRIBUTES_MAX)
               : STATUS_OK;
}

/* Keeps an attribute in the order of names, so that the same event has the same
 * entries however it came. An empty value is none. */
static enum status
add_attribute(struct event_read *e, struct slice name, struct slice value,
              struct problem *why)
{
    struct attribute a = {.ns = SLICE(CLOUD_EVENT_NS), .prefix = SLICE("ce")};
    enum status rc;
    size_t at;

    if (value.size == 0)
        return STATUS_OK;
    rc = check_attribute(e, name, value, why);
    if (rc)
        return rc;
    if (!arena_copy(&e->arena, name, &a.name) ||
        !arena_copy(&e->arena, value, &a.value))
        return problem_memory(why);
    at = e->n_attributes++;
    for (; at > 0 && slice_compare(e->attributes[at - 1].name, a.name) > 0;
         at--)
        e->attributes[at] = e->attributes[at - 1];
    e->attributes[at] = a;
    return STATUS_OK;
}

enum status
event_read_attribute(struct input_reader *reader, struct slice name,
                     struct slice value, struct problem *why)
{
    struct event_read *e = reader->state;

    e->depth = 0;
    return add_attribute(e, name, value, why);
}

/* An event, from its attributes to its entries */

static void
clear_event(struct event_read *e)
{
    arena_clear(&e->arena);
    e->n_attributes = 0;
    e->n_changes = 0;
    e->time_us = DATETIME_NONE;
    e->has_begun = e->is_in_data = e->is_inner_open = false;
    e->has = HAS_NONE;
    data_read_begin(&e->data);
    buf_clear_large(&e->text, JSON_KEPT_BYTES);
}

/* Checks the attributes, and names the event: before its first entry. */
static enum status
begin_event(struct event_read *e, struct problem *why)
{
    const struct input_options *options = &e->reader->options;
    struct slice time = find_attribute(e, "time");
    char missing[64] = "";
    struct digest key;
    enum status rc = STATUS_OK;

    if (e->has_begun)
        return STATUS_OK;
    e->has_begun = true;
    for (size_t i = 0; i < N_ELEMENTS(known); i++)
        if (known[i].is & IS_REQUIRED &&
            find_attribute(e, known[i].name).size == 0) {
            strcat(missing, missing[0] ? ", " : "");
            strcat(missing, known[i].name);
        }
    if (missing[0])
        return problem(why, STATUS_INVALID,
                       "no %s: an event has specversion, id, source and type, "
                       "as \"specversion\":\"1.0\",\"id\":\"1\","
                       "\"source\":\"/shop\",\"type\":\"org.example.updated\"",
                       missing);
    if (!slice_starts(find_attribute(e, "specversion"), "1."))
        return problem_quoting(why, STATUS_INVALID, "specversion: not \"1.0\"",
                               find_attribute(e, "specversion"));
    if (time.size > 0)
        rc = entry_time("time", time, &e->time_us, why);
    digest_sha256(&key, find_attribute(e, "source"));
    digest_add(&key, find_attribute(e, "id"));
    return rc || !options->on_event
               ? rc
               : options->on_event(&key, options->event_user, why);
}

/* The attributes of a change: those of the event, of the own ones only `kept`,
 * and its other ones. */
static enum status
merge_attributes(struct event_read *e, struct change *change, const char *kept,
                 struct problem *why)
{
    size_t n = 0, n_others = 0;

    if (change->traceparent.size == 0)
        change->traceparent = find_attribute(e, "traceparent");
    for (size_t i = 0; i < change->n_links; i++)
        n_others += change->links[i].n_attributes;
    for (size_t i = 0; i < e->n_attributes + change->n_attributes; i++) {
        bool is_events = i < e->n_attributes;
        const struct attribute *a =
            is_events ? &e->attributes[i]
                      : &change->attributes[i - e->n_attributes];

        if (is_events ? meaning_of(a->name) & IS_OWN && !slice_is(a->name, kept)
                      : slice_is(a->ns, CLOUD_EVENT_NS))
            continue;
        if (n + n_others == CHANGE_ATTRIBUTES_MAX)
            return problem(why, STATUS_INVALID,
                           "%s: more than %d foreign attributes",
                           problem_quote(a->name).text, CHANGE_ATTRIBUTES_MAX);
        e->merged[n] = *a;
        /* A later change gets "ID/2": two entries must not be one event, where
         * they go out as events again. */
        if (is_events && e->n_changes > 1 && slice_is(a->name, "id"))
            e->merged[n].value = (struct slice){
                e->numbered,
                (size_t)snprintf(e->numbered, sizeof(e->numbered),
                                 "%.*s/%" PRIu64, SLICE_ARG(a->value),
                                 e->n_changes)};
        n++;
    }
    change->attributes = e->merged;
    change->n_attributes = n;
    return STATUS_OK;
}

/* A change in the data of the event. */
static enum status
on_inner(const struct change *given, void *user, struct problem *why)
{
    struct event_read *e = user;
    struct input_reader *reader = e->reader;
    struct change *change = &reader->entry.change;
    bool has_time = given->datetime_us != DATETIME_NONE;
    enum status rc = input_reader_entry_begin(reader, why);

    if (rc)
        return rc;
    *change = *given;
    e->n_changes++;
    if (!has_time)
        change->datetime_us = e->time_us;
    reader->coverage = e->inner->coverage;
    rc = merge_attributes(e, change, has_time ? "time" : "", why);
    if (!rc)
        rc = change_check(change, why);
    return rc ? rc : input_reader_hand_over(reader, why);
}

/* What the last word of the type means, or the one before a version:
 * "com.example.item.created", "com.example.item.created.v2". */
static enum change_kind
kind_of_type(struct slice type)
{
    enum change_kind kind = CHANGE_UPDATED, last = CHANGE_UPDATED;

    while (type.size > 0) {
        struct slice word = slice_take(&type, '.');

        if (!change_kind_meant(word, &kind))
            last = kind;
        else if (type.size > 0 || word.size < 2 || word.data[0] != 'v')
            last = CHANGE_UPDATED;
    }
    return last;
}

/* The resource that the event is about: its subject, if that is an absolute
 * URI, or the path of the subject below its source. */
static enum status
make_loc(struct event_read *e, struct problem *why)
{
    struct slice subject = find_attribute(e, "subject");
    struct slice source = find_attribute(e, "source");
    struct slice base = source;
    struct slice *loc = &e->reader->entry.change.loc;
    /* Escapes are three times as long. */
    struct buf url = {.max = 4 * VALUE_MAX + 1};
    enum status rc;

    *loc = subject;
    if (!uri_check(subject, "subject", NULL))
        return STATUS_OK;
    if (uri_check(source, "source", NULL))
        return problem(why, STATUS_INVALID,
                       "no loc: the data of the event has none, and neither "
                       "its subject \"%s\" nor its source \"%s\" is an "
                       "absolute URI; data with one is {\"loc\":"
                       "\"http://example.org/7\",\"change\":\"updated\"}",
                       problem_quote(subject).text, problem_quote(source).text);
    *loc = source;
    if (subject.size == 0)
        return STATUS_OK;
    if (subject.data[0] == '/') {
        uri_resolve(&url, source, SLICE("/"));
        url.size -= url.size > 0;
    } else {
        buf_add_slice(&url, slice_take_until(&base, "?#"));
        if (!slice_ends(buf_slice(&url), "/"))
            BUF_ADD(&url, "/");
    }
    uri_add_sendable(&url, subject);
    rc = url.failed ? problem_memory(why)
                    : entry_copy(&e->reader->entry, buf_slice(&url), loc, why);
    buf_fini(&url);
    return rc;
}

/* Makes the change of an event that brings none. */
static enum status
make_entry(struct event_read *e, struct slice data, struct problem *why)
{
    struct input_reader *reader = e->reader;
    struct change *change = &reader->entry.change;
    enum status rc = input_reader_entry_begin(reader, why);

    reader->coverage = e->no_coverage;
    if (!rc)
        rc = make_loc(e, why);
    if (rc)
        return rc;
    reader->entry.has_kind = true;
    change->kind = kind_of_type(find_attribute(e, "type"));
    change->datetime_us = e->time_us;
    if (!slice_is(data, "null"))
        change->data = data;
    rc = merge_attributes(e, change,
                          is_json(media_type(e)) ? "" : "datacontenttype", why);
    return rc ? rc : input_reader_entry_end(reader, why);
}

/* Says that the failure of the inner reader is in an entry. */
static enum status
end_inner(struct event_read *e, enum status rc)
{
    if (rc)
        e->reader->is_in_entry = e->depth > 0 || e->inner->is_in_entry;
    return rc;
}

/* Passes some of the data on to the reader of its format; NULL: of JSON. */
static enum status
feed_inner(struct event_read *e, const struct format *format,
           struct slice bytes, struct problem *why)
{
    enum status rc = begin_event(e, why);

    if (rc)
        return rc;
    if (!format)
        format = format_of(SLICE("application/json"));
    if (e->inner && e->inner->format != format) {
        input_reader_free(e->inner);
        e->inner = NULL;
    }
    if (!e->inner)
        e->inner = input_reader_new(format, e->reader->use,
                                    format_entries_max(format), on_inner, e);
    else if (!e->is_inner_open)
        input_reader_reset(e->inner, on_inner, e);
    if (!e->inner)
        return problem_memory(why);
    if (!e->is_inner_open) {
        e->inner->options = e->reader->options;
        e->inner->options.on_fault = NULL;
        e->is_inner_open = true;
    }
    return end_inner(e, input_reader_feed(e->inner, bytes, why));
}

/* Data */

/* The format of data that is text of its own; NULL: it has none. */
static const struct format *
format_of_text(const struct event_read *e)
{
    return is_json(media_type(e))
               ? NULL
               : format_of(find_attribute(e, "datacontenttype"));
}

/* Takes a token of JSON data; a json_event_fn. */
static enum status
take_token(void *user, enum json_event event, struct slice text,
           struct problem *why)
{
    struct event_read *e = user;
    enum status rc = data_read_event(&e->data, event, text, why);

    if (e->has == HAS_NONE && event == JSON_STRING)
        buf_add_slice(&e->text, text);
    if (e->has == HAS_NONE)
        e->has = event == JSON_STRING ? HAS_STRING : HAS_JSON;
    return rc == STATUS_INVALID ? problem_prefix(why, rc, "data: ") : rc;
}

/* Text that no reader here knows becomes a string. */
static enum status
make_entry_of_text(struct event_read *e, struct problem *why)
{
    struct slice type = media_type(e), text = buf_slice(&e->text);
    struct buf json = {.max = (size_t)6 * ENTRY_BYTES_MAX + 2};
    enum status rc;

    if (e->has == HAS_BYTES &&
        (!slice_starts_word(type, "text/") || !utf8_is_xml_text(text)))
        return problem(why, STATUS_UNSUPPORTED,
                       "data of the type \"%s\" is neither JSON nor text in "
                       "UTF-8; curl gives JSON its type by -H 'Content-Type: "
                       "application/json'",
                       problem_quote(type).text);
    json_text(&json, text);
    rc = json.failed ? problem_memory(why)
                     : make_entry(e, buf_slice(&json), why);
    buf_fini(&json);
    return rc;
}

/* Makes entries of the data, which is whole. */
static enum status
end_data(struct event_read *e, struct problem *why)
{
    const struct format *format = format_of_text(e);
    struct slice text = buf_slice(&e->text);
    enum status rc;

    if (format && e->has == HAS_JSON)
        return problem(why, STATUS_INVALID,
                       "data: must be a string, of the type \"%s\"",
                       problem_quote(media_type(e)).text);
    if (!format && e->has != HAS_JSON && !is_json(media_type(e)))
        return make_entry_of_text(e, why);
    if (!format)
        text = buf_slice(&e->data.text);
    if (!format && !has_member(text, "loc"))
        return make_entry(e, text, why);
    rc = feed_inner(e, format, text, why);
    return rc ? rc : end_inner(e, input_reader_end(e->inner, why));
}

static enum status
end_event(struct event_read *e, struct problem *why)
{
    enum status rc = begin_event(e, why);

    if (rc)
        return rc;
    if (e->is_inner_open)
        return end_inner(e, input_reader_end(e->inner, why));
    if (e->has == HAS_NONE)
        return make_entry(e, (struct slice){NULL, 0}, why);
    if (e->has == HAS_BYTES && is_json(media_type(e))) {
        e->has = HAS_JSON;
        rc = json_parse_text(buf_slice(&e->text), take_token, e, why);
        if (rc)
            return problem_prefix(why, rc, "data_base64: ");
    }
    return end_data(e, why);
}

/* The envelope */

static enum status
set_value(struct event_read *e, enum json_event event, struct slice text,
          struct problem *why)
{
    char *to;
    long size;

    if (event == JSON_OTHER && slice_is(text, "null"))
        return STATUS_OK;
    if (event != JSON_STRING && meaning_of(slice_of(e->name)) & IS_STRING)
        return problem(why, STATUS_INVALID, "%s: must be a string", e->name);
    if (strcmp(e->name, "data_base64") != 0)
        return add_attribute(e, slice_of(e->name), text, why);
    if (e->has || event != JSON_STRING)
        return problem(why, STATUS_INVALID, "data_base64: %s",
                       e->has ? "beside other data" : "must be a string");
    to = buf_room(&e->text, BASE64_ROOM(text));
    if (!to)
        return e->text.is_starved ? problem_memory(why)
                                  : problem(why, STATUS_INVALID,
                                            "data_base64: more than %d bytes",
                                            ENTRY_BYTES_MAX);
    size = base64_decode(text, (unsigned char *)to);
    if (size < 0)
        return problem(why, STATUS_INVALID, "data_base64: not base64");
    e->text.size = (size_t)size;
    e->has = HAS_BYTES;
    return STATUS_OK;
}

static enum status
on_envelope(struct event_read *e, enum json_event event, struct slice text,
            struct problem *why)
{
    unsigned depth = json_parse_depth(e->parse);

    if (event == JSON_ARRAY && depth == 1) {
        e->depth = 2;
        return STATUS_OK;
    }
    if (event == JSON_OBJECT && depth == e->depth) {
        clear_event(e);
        e->reader->is_in_entry = true;
        return STATUS_OK;
    }
    switch (event) {
    case JSON_KEY:
        if (!slice_copy(e->name, sizeof(e->name), text))
            return problem(why, STATUS_INVALID,
                           "\"%s\" is no attribute of an event: its name is "
                           "too long",
                           problem_quote(text).text);
        e->is_in_data = !strcmp(e->name, "data");
        return e->is_in_data && e->has
                   ? problem(why, STATUS_INVALID, "data: given twice")
                   : STATUS_OK;
    case JSON_OBJECT_END:
        e->reader->is_in_entry = true;
        return end_event(e, why);
    case JSON_ARRAY_END: /* of the batch */
        return STATUS_OK;
    case JSON_OBJECT:
    case JSON_ARRAY:
        if (depth > e->depth)
            return problem(why, STATUS_INVALID,
                           "%s: must be a string, a number, true or false",
                           e->name);
        break;
    default:
        if (depth == e->depth)
            return set_value(e, event, text, why);
    }
    return problem(why, STATUS_INVALID,
                   "an event is an object, with specversion, id, source and "
                   "type");
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct event_read *e = user;
    enum status rc;

    if (e->depth > 0 && !e->is_in_data)
        return on_envelope(e, event, text, why);
    rc = take_token(e, event, text, why);
    if (e->data.depth == 0)
        e->is_in_data = false;
    return rc;
}

/* The parser */

static void
event_close(void *state)
{
    struct event_read *e = state;

    json_parse_free(e->parse);
    input_reader_free(e->inner);
    arena_fini(&e->arena);
    buf_fini(&e->data.text);
    buf_fini(&e->text);
}

static enum status
event_reset(void *state)
{
    struct event_read *e = state;

    e->depth = 1;
    e->no_coverage = e->reader->coverage;
    clear_event(e);
    json_parse_reset(e->parse);
    return STATUS_OK;
}

static enum status
event_open(void *state, struct input_reader *reader)
{
    struct event_read *e = state;

    e->reader = reader;
    arena_init(&e->arena,
               N_ELEMENTS(e->attributes) * (VALUE_MAX + NAME_MAX_BYTES));
    buf_init(&e->data.text, ENTRY_BYTES_MAX);
    buf_init(&e->text, ENTRY_BYTES_MAX);
    e->parse = json_parse_new(false, on_event, e);
    return e->parse ? event_reset(e) : STATUS_MEMORY;
}

static enum status
event_feed(void *state, struct slice bytes, struct problem *why)
{
    struct event_read *e = state;
    const struct format *format = e->depth > 0 ? NULL : format_of_text(e);
    struct slice kept = bytes;
    enum status rc;

    if (e->depth > 0)
        return json_parse_feed(e->parse, &bytes, why);
    if (format || e->is_inner_open)
        return feed_inner(e, format, bytes, why);
    e->has = HAS_BYTES;
    if (kept.size > ENTRY_BYTES_MAX - e->text.size)
        kept.size = ENTRY_BYTES_MAX - e->text.size;
    buf_add_slice(&e->text, kept);
    if (e->text.failed)
        return problem_memory(why);
    slice_skip(&bytes, kept.size);
    if (bytes.size == 0)
        return STATUS_OK;
    if (!is_json(media_type(e)) || !has_member(buf_slice(&e->text), "loc"))
        return problem(
            why, is_json(media_type(e)) ? STATUS_INVALID : STATUS_TOO_LARGE,
            "data: more than %d bytes", ENTRY_BYTES_MAX);
    rc = feed_inner(e, NULL, buf_slice(&e->text), why);
    return rc ? rc : feed_inner(e, NULL, bytes, why);
}

static enum status
event_end(void *state, struct problem *why)
{
    struct event_read *e = state;
    struct slice body = buf_slice(&e->text);
    enum status rc = STATUS_OK;

    if (e->depth > 0)
        return json_parse_end(e->parse, why);
    if (e->has == HAS_BYTES && !e->is_inner_open && is_json(media_type(e))) {
        e->has = HAS_JSON;
        rc = json_parse_feed(e->parse, &body, why);
        if (!rc)
            rc = json_parse_end(e->parse, why);
        if (rc)
            return rc;
    }
    e->reader->is_in_entry = true;
    return end_event(e, why);
}

static uint64_t
event_line(const void *state)
{
    const struct event_read *e = state;

    return e->depth == 0 && e->is_inner_open && e->has != HAS_JSON
               ? e->inner->format->parser->line(e->inner->state)
               : json_parse_line(e->parse);
}

const struct parser event_parser = {
    .size = sizeof(struct event_read),
    .open = event_open,
    .close = event_close,
    .reset = event_reset,
    .feed = event_feed,
    .end = event_end,
    .line = event_line,
};

#include "tests/support/again.h"

#include "proto/input/input_formats.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/json.h"
#include "proto/resourcesync/position.h"
#include "tests/support/describe.h"

/* Of all forms together, far from it. */
#define BYTES_MAX ((size_t)1 << 28)

/* 2026-04-01T18:10:00.125Z: the event time of entry 0. */
#define EVENT_US INT64_C(1775067000125000)

void
again_open(struct again *a)
{
    a->n = 0;
    a->fault = NULL;
    buf_init(&a->told, BYTES_MAX);
    buf_init(&a->posted, BYTES_MAX);
    buf_init(&a->list, BYTES_MAX);
    buf_init(&a->read, BYTES_MAX);
    buf_init(&a->direct, BYTES_MAX);
    buf_init(&a->entries, BYTES_MAX);
    buf_init(&a->lines, BYTES_MAX);
    buf_init(&a->got, BYTES_MAX);
}

void
again_close(struct again *a)
{
    buf_fini(&a->told);
    buf_fini(&a->posted);
    buf_fini(&a->list);
    buf_fini(&a->read);
    buf_fini(&a->direct);
    buf_fini(&a->entries);
    buf_fini(&a->lines);
    buf_fini(&a->got);
}

/* True if the view of a fragment, which parses no XML, agrees with the
 * change. */
static bool
is_viewed(struct slice fragment, const struct change *change)
{
    struct fragment_view view;

    return !fragment_view(fragment, &view) && view.size == fragment.size &&
           view.kind == change->kind && view.seq == change->seq &&
           view.us == change->datetime_us &&
           fragment_time(fragment.data, view.stamp) == view.us;
}

/* True if json_fragment makes `json` of it, or leaves it to json_change. */
static bool
is_converted(struct slice fragment, struct slice json)
{
    struct buf text;
    bool is_same;

    buf_init(&text, BYTES_MAX);
    is_same =
        !json_fragment(&text, fragment) || slice_equal(buf_slice(&text), json);
    buf_fini(&text);
    return is_same;
}

/* Reads the fragment without an XML parser. */
static void
read_fragment(struct again *a, struct slice fragment)
{
    struct entry entry;

    entry_init(&entry);
    if (fragment_read(&entry, fragment)) {
        a->fault = "fragment_read";
    } else {
        size_t start;

        if (a->direct.size > 0)
            BUF_ADD(&a->direct, ",");
        start = a->direct.size;
        json_change(&a->direct, &entry.change);
        if (!is_converted(fragment, (struct slice){a->direct.data + start,
                                                   a->direct.size - start}))
            a->fault = "json_fragment";
        describe(&a->read, &entry.change);
    }
    entry_fini(&entry);
}

enum status
again_add(const struct change *change, void *user, struct problem *why)
{
    struct again *a = user;
    struct change told = *change;
    struct fragment f;
    struct buf hollow;
    enum status rc;
    char *to;

    buf_init(&hollow, BYTES_MAX);
    rc = fragment_write(&hollow, change, &f, why);
    to = rc ? NULL : buf_room(&a->list, f.size + FRAGMENT_STAMP_MAX);
    if (!to) {
        buf_fini(&hollow);
        return rc ? rc : STATUS_MEMORY;
    }

    /* Every other one keeps its source's time as event time. */
    told.seq = ++a->n;
    told.datetime_us = EVENT_US + (int64_t)a->n;
    told.source_us = change->datetime_us;
    if (a->n % 2 == 0 && change->datetime_us != DATETIME_NONE)
        told.datetime_us = change->datetime_us;
    if (told.source_us == told.datetime_us)
        told.source_us = DATETIME_NONE;
    f.size = (uint32_t)fragment_stamp(to, hollow.data, &f, told.datetime_us,
                                      told.seq);
    if (!is_viewed((struct slice){to, f.size}, &told))
        a->fault = "a look at the fragment";
    read_fragment(a, (struct slice){to, f.size});
    a->list.size += f.size;
    buf_fini(&hollow);

    describe(&a->told, &told);
    told.seq = 0;
    told.source_us = DATETIME_NONE;
    describe(&a->posted, &told);
    return STATUS_OK;
}

static enum status
describe_each(const struct change *change, void *user, struct problem *why)
{
    struct again *a = user;

    (void)why;
    describe(&a->got, change);
    return STATUS_OK;
}

/* And makes the JSON form of it. */
static enum status
convert_each(const struct change *change, void *user, struct problem *why)
{
    struct again *a = user;

    if (a->entries.size > 0)
        BUF_ADD(&a->entries, ",");
    json_change(&a->entries, change);
    json_change(&a->lines, change);
    BUF_ADD(&a->lines, "\n");
    return describe_each(change, user, why);
}

/* Is the document accepted, and does it say `expected`? */
static bool
reads(struct again *a, const char *type, enum input_use use,
      struct slice document, change_fn *on_change, const struct buf *expected)
{
    struct problem why = {""};
    struct input_reader *reader = input_reader_new(format_of(slice_of(type)),
                                                   use, SIZE_MAX, on_change, a);
    enum status rc = STATUS_MEMORY;

    buf_clear(&a->got);
    if (reader)
        rc = input_reader_feed(reader, document, &why);
    if (!rc)
        rc = input_reader_end(reader, &why);
    input_reader_free(reader);
    if (rc)
        buf_add_format(&a->got, "refused: entry %d, line %d: %s\n%.*s",
                       (int)why.entry, (int)why.line, why.text,
                       SLICE_ARG(document));
    return !rc && slice_equal(buf_slice(&a->got), buf_slice(expected));
}

static const char *
check_xml(struct again *a, const struct coverage *coverage, struct buf *b)
{
    struct document_link up = {"up", SLICE("http://example.com/c.xml"),
                               &coverage->digest};
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGE_NOTIFICATION,
        .links = &up,
        .n_links = 1,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .coverage = coverage,
    };

    document_header(b, &head);
    buf_add_slice(b, buf_slice(&a->list));
    document_footer(b, DOCUMENT_URLSET);
    if (!reads(a, "application/xml", INPUT_MESSAGE, buf_slice(b), convert_each,
               &a->told))
        return "XML as a message";
    if (!slice_equal(buf_slice(&a->read), buf_slice(&a->told)))
        return "fragment_read";
    if (!slice_equal(buf_slice(&a->direct), buf_slice(&a->entries)))
        return "JSON by fragment_read";
    if (!reads(a, "application/xml", INPUT_POST, buf_slice(b), describe_each,
               &a->posted))
        return "XML posted again";
    return NULL;
}

static const char *
check_json(struct again *a, const struct coverage *coverage, struct buf *b)
{
    json_message_begin(b, coverage, SLICE("http://example.com/next"));
    buf_add_slice(b, buf_slice(&a->entries));
    BUF_ADD(b, "]}\n");
    if (!reads(a, "application/json", INPUT_MESSAGE, buf_slice(b),
               describe_each, &a->told))
        return "JSON as a message";
    if (!reads(a, "application/json", INPUT_POST, buf_slice(b), describe_each,
               &a->posted))
        return "JSON posted again";
    if (!reads(a, "application/x-ndjson", INPUT_POST, buf_slice(&a->lines),
               describe_each, &a->posted))
        return "NDJSON posted";
    return NULL;
}

const char *
again_check(struct again *a)
{
    struct coverage coverage = {
        .set = "again",
        .epoch = "0123456789abcdef",
        .last = a->n,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .has_digest = true,
        .now_us = DATETIME_NONE,
    };
    const char *fault = a->fault;
    struct buf b;

    buf_init(&b, BYTES_MAX);
    buf_clear(&a->entries);
    buf_clear(&a->lines);
    if (!fault)
        fault = check_xml(a, &coverage, &b);
    buf_clear(&b);
    if (!fault)
        fault = check_json(a, &coverage, &b);
    buf_fini(&b);
    return fault;
}

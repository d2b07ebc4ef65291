#include "client/source/document.h"

#include "proto/input/input_formats.h"
#include "proto/uri.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/source/told.h"

/* No more comes out than went in: a kilobyte of gzip makes a megabyte. */
#define TEXT_MAX ((size_t)64 * 1024 * 1024)

/* Two of the same name would not be well-formed XML. */
static void
check_attributes(const struct attribute *attributes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            FUZZ_ASSERT(!slice_equal(attributes[i].name, attributes[k].name) ||
                        !slice_equal(attributes[i].ns, attributes[k].ns));
}

static enum status
check_entry(const struct document_entry *entry,
            const struct document_head *head, void *user)
{
    const struct change *change = &entry->change;

    (void)user;
    FUZZ_ASSERT(change->loc.size > 0 && change->loc.size <= TEXT_MAX);
    FUZZ_ASSERT(head->n_entries > 0);
    FUZZ_ASSERT(change->n_links <= CHANGE_LINKS_MAX);
    FUZZ_ASSERT(entry->has_kind || change->kind == CHANGE_UPDATED);
    check_attributes(change->attributes, change->n_attributes);
    for (size_t i = 0; i < change->n_links; i++) {
        FUZZ_ASSERT(change->links[i].rel.size > 0 &&
                    change->links[i].href.size > 0);
        check_attributes(change->links[i].attributes,
                         change->links[i].n_attributes);
    }
    if (entry->has_kind && change->kind == CHANGE_DELETED)
        FUZZ_ASSERT(change->length == LENGTH_NONE && change->hash.size == 0);
    return STATUS_OK;
}

/* Reads the bytes as the document at `base`. */
static void
check_document(const char *base, struct slice bytes)
{
    static const struct document_events events = {NULL, check_entry};
    struct document *d = document_new(base, &events, NULL);
    struct told whole;
    struct told pieces;
    enum status rc;

    FUZZ_ASSERT(d);
    rc = document_feed(d, bytes, NULL);
    if (!rc)
        rc = document_end(d, NULL);
    FUZZ_ASSERT(!rc || rc == STATUS_MALFORMED);
    document_free(d);

    FUZZ_ASSERT(told_read(&whole, base, bytes, SIZE_MAX) == rc);
    FUZZ_ASSERT(told_read(&pieces, base, bytes, 1 + bytes.size % 61) == rc);
    if (rc)
        fuzz_check_problem(&whole.why);
    else
        FUZZ_ASSERT(
            slice_equal(buf_slice(&whole.text), buf_slice(&pieces.text)));
    told_fini(&whole);
    told_fini(&pieces);
}

/* The rows of a document, a line each. */
struct rows {
    struct buf text;
    bool is_exact; /* a document of Tidings: its names are taken as they are */
};

/* True if a list may name that resource (R-406). */
static bool
is_usable(struct slice url)
{
    struct slice host = url;

    if (!slice_starts(url, "http") || uri_check(url, "url", NULL))
        return false;
    slice_take(&host, ':');
    if (!slice_starts(host, "//"))
        return false;
    slice_skip(&host, 2);
    host = slice_take_until(&host, "/?#");
    return !memchr(host.data, '%', host.size);
}

static void
add_row(struct rows *rows, const struct change *change, bool is_strict)
{
    struct buf url;

    buf_init(&url, 4 * TEXT_MAX);
    uri_add_sendable(&url, change->loc);
    FUZZ_ASSERT(!url.failed);
    if (!is_strict || rows->is_exact || is_usable(buf_slice(&url)))
        buf_add_format(&rows->text, "%.*s %d %llu %.*s\n",
                       SLICE_ARG(buf_slice(&url)), (int)change->kind,
                       (unsigned long long)change->length,
                       SLICE_ARG(change->hash));
    buf_fini(&url);
}

static enum status
on_strict(const struct change *change, void *user, struct problem *why)
{
    (void)why;
    add_row(user, change, true);
    return STATUS_OK;
}

static enum status
on_lenient(const struct document_entry *entry, const struct document_head *head,
           void *user)
{
    (void)head;
    add_row(user, &entry->change, false);
    return STATUS_OK;
}

/* What the strict reader takes as a post, the lenient one reads likewise. */
static void
check_strict(struct slice bytes)
{
    static const struct document_events events = {NULL, on_lenient};
    struct rows strict = {.is_exact = false}, lenient = {.is_exact = false};
    struct input_reader *reader =
        input_reader_new(format_of(SLICE("application/xml")), INPUT_POST,
                         SIZE_MAX, on_strict, &strict);
    struct document *d =
        document_new("http://example.com/a/list.xml", &events, &lenient);
    enum status rc;

    FUZZ_ASSERT(reader && d);
    buf_init(&strict.text, 4 * TEXT_MAX);
    buf_init(&lenient.text, 4 * TEXT_MAX);
    rc = document_feed(d, bytes, NULL);
    if (!rc)
        rc = document_end(d, NULL);
    strict.is_exact = document_head(d)->td.epoch[0] != '\0';
    if (!input_reader_feed(reader, bytes, NULL) &&
        !input_reader_end(reader, NULL)) {
        FUZZ_ASSERT(!rc);
        FUZZ_ASSERT(
            slice_equal(buf_slice(&strict.text), buf_slice(&lenient.text)));
    }
    document_free(d);
    input_reader_free(reader);
    buf_fini(&strict.text);
    buf_fini(&lenient.text);
}

/* R-405: rows and report never crash, and a strict document gives the same
 * rows. */
FUZZ_TARGET(document, bytes)
{
    check_document("http://example.com/a/list.xml", bytes);
    check_document("http://example.com/robots.txt", bytes);
    check_strict(bytes);
}

#include "client/source/document.h"

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
    FUZZ_ASSERT(entry->n_links == change->n_links);
    FUZZ_ASSERT(entry->n_links <= CHANGE_LINKS_MAX);
    check_attributes(change->attributes, change->n_attributes);
    for (size_t i = 0; i < entry->n_links; i++) {
        FUZZ_ASSERT(entry->links[i].rel.size > 0 &&
                    entry->links[i].href.size > 0);
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

FUZZ_TARGET(document, bytes)
{
    check_document("http://example.com/a/list.xml", bytes);
    check_document("http://example.com/robots.txt", bytes);
}

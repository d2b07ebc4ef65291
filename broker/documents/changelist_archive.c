/*
 * changelist_archive.c - the Change List Archive: every closed list, from the
 * moment it closes.
 *
 * A small archive is one document. Beyond --index-lists lists its address is
 * that of an index, whose parts have so many lists each:
 *
 *   changelist-archive.xml
 *     changelist-archive/000000000001-000000001000.xml
 *     changelist-archive/000000001001-000000002000.xml    still growing
 *
 * A part's address determines its lists: they stay the same when the settings
 * change, and once all are closed it gets no others. Still, the broker does not
 * declare a part immutable to caches: it names lists under the present public
 * URL, and a list may be dropped.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/documents/listing.h"
#include "broker/sets/links.h"
#include "broker/sets/parts.h"
#include "proto/memory.h"

static struct parts
parts_now(const struct document_wish *wish)
{
    return parts_of(wish->head.first_list, wish->head.list,
                    registry_config(wish->registry)->index_lists);
}

static struct link_text
link_to_whole(const struct document_wish *wish)
{
    return set_link(wish->set, LINK_CHANGELIST_ARCHIVE);
}

/* Opens the existing lists from `first` to `last`. */
static enum status
open_lists(const struct document_wish *wish, uint64_t first, uint64_t last,
           struct document *document, struct problem *why)
{
    struct link_text index = link_to_whole(wish);
    uint64_t oldest = wish->head.first_list;
    struct listing_wish listing = {
        .document = wish,
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST_ARCHIVE,
        .index = parts_now(wish).has_index ? index.text : NULL,
        .first = first < oldest ? oldest : first,
        .last = last < wish->head.list ? last : wish->head.list - 1,
    };

    if (last < oldest)
        return problem(why, STATUS_GONE,
                       "these Change Lists are no longer kept");
    if (listing.first > listing.last)
        return problem(why, STATUS_NOT_FOUND,
                       "none of these Change Lists of this set is there and "
                       "closed");
    return listing_open(&listing, document, why);
}

/* `number` to `wish->last` are a part if a part of this size begins there:
 * so only few addresses name the same lists. */
enum status
changelist_archive_part_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    if (!parts_are_at(wish->number, wish->last, DOCUMENT_ENTRIES_MAX))
        return problem(why, STATUS_NOT_FOUND,
                       "the archive has no part with these lists");
    return open_lists(wish, wish->number, wish->last, document, why);
}

/* The index */

struct index {
    struct pieces pieces;
    struct document_wish document;
    struct parts parts;
    uint64_t first, last; /* numbers of the lists still to be named */
};

static enum status
read_list(const struct document_wish *wish, uint64_t number,
          struct list_info *info)
{
    size_t n = 1;
    enum status rc = log_lists(registry_log(wish->registry), wish->set->log,
                               number, info, &n, NULL);

    return rc || (n == 1 && info->number == number) ? rc : STATUS_IO;
}

/* Writes the part with list `x->first`: `from` is that of its first list,
 * `until` that of its last, if it is full. */
static enum status
write_part(struct buf *text, const struct index *x, uint64_t *next)
{
    const struct document_wish *wish = &x->document;
    uint64_t begin = parts_begin(&x->parts, x->first);
    uint64_t end = begin + x->parts.size - 1;
    struct list_info first, last;
    bool is_full = end <= x->last;
    struct link_text loc = link_to_archive(registry_public_url(wish->registry),
                                           wish->set->name, begin, end);
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .until_us = DATETIME_NONE,
    };
    enum status rc = read_list(wish, x->first, &first);

    if (!rc && is_full)
        rc = read_list(wish, end, &last);
    if (rc)
        return rc;
    entry.from_us = first.from_us;
    if (is_full) {
        entry.until_us = last.until_us;
        entry.digest = &last.digest;
    }
    document_entry(text, DOCUMENT_SITEMAPINDEX, &entry);
    *next = end + 1;
    return STATUS_OK;
}

static enum status
fill_index(struct pieces *pieces)
{
    struct index *x = (struct index *)(void *)pieces;
    enum status rc = STATUS_OK;

    for (int i = 0; !rc && i < PIECES_STEP && x->first <= x->last; i++)
        rc = write_part(&pieces->text, x, &x->first);
    return rc;
}

/* Measures the whole, and makes its tag, from the first entry of each form. All
 * full parts have entries of the same size: numbers, times and digests have a
 * fixed width. */
static enum status
measure_index(struct index *x, struct digest *tag)
{
    struct buf *text = &x->pieces.text;
    size_t header = text->size;
    uint64_t n_full = x->last / x->parts.size - (x->first - 1) / x->parts.size;
    struct index end = *x;
    char lists[128];
    enum status rc = STATUS_OK;
    uint64_t next;
    int n;

    x->pieces.body.size =
        header + document_footer_of(DOCUMENT_SITEMAPINDEX).size;
    digest_start(tag, buf_slice(text));
    if (n_full > 0) {
        rc = write_part(text, x, &next);
        x->pieces.body.size += n_full * (text->size - header);
        text->size = header;
    }
    if (!rc && x->last % x->parts.size != 0) {
        end.first = x->last / x->parts.size * x->parts.size + 1;
        if (end.first < x->first)
            end.first = x->first;
        rc = write_part(text, &end, &next);
        x->pieces.body.size += text->size - header;
        digest_add(tag,
                   (struct slice){text->data + header, text->size - header});
        text->size = header;
    }

    /* Its lists are of this history (listing.c explains why that is enough). */
    n = snprintf(lists, sizeof(lists), "%s %s %" PRIu64 "-%" PRIu64 " %" PRIu64,
                 TIDINGS_VERSION, x->document.head.epoch, x->first, x->last,
                 x->parts.size);
    digest_add(tag, (struct slice){lists, (size_t)n});
    digest_add(tag,
               (struct slice){(const char *)x->document.head.list_before.bytes,
                              DIGEST_SIZE});
    return rc;
}

static enum status
open_index(const struct document_wish *wish, struct document *document,
           struct problem *why)
{
    struct index *x;
    struct digest tag;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    x = memory_new(1, sizeof(*x));
    pieces_init(&x->pieces, DOCUMENT_SITEMAPINDEX, fill_index, NULL, true);
    x->document = *wish;
    x->parts = parts_now(wish);
    x->first = wish->head.first_list;
    x->last = wish->head.list - 1;
    document_begin(&x->pieces.text, wish, DOCUMENT_SITEMAPINDEX,
                   CAP_CHANGELIST_ARCHIVE, DATETIME_NONE, "last",
                   set_link(wish->set, LINK_LATEST));
    if (measure_index(x, &tag) || x->pieces.text.failed) {
        x->pieces.body.free(&x->pieces.body);
        return problem(why, STATUS_IO, "the lists cannot be read");
    }
    *document = (struct document){
        .body = &x->pieces.body,
        .tag = tag,
        .modified_us = DATETIME_NONE,
    };
    return STATUS_OK;
}

enum status
changelist_archive_open(const struct document_wish *wish,
                        struct document *document, struct problem *why)
{
    if (wish->head.list == wish->head.first_list)
        return problem(why, STATUS_NOT_FOUND,
                       "no Change List of this set is closed yet");
    if (parts_now(wish).has_index)
        return open_index(wish, document, why);
    return open_lists(wish, 1, UINT64_MAX, document, why);
}

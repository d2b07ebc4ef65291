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
#include "broker/documents/listing.h"
#include "broker/sets/links.h"
#include "broker/sets/parts.h"

static struct parts
parts_now(const struct document_wish *wish)
{
    return parts_of(wish->head.first_list, wish->head.list,
                    registry_config(wish->registry)->index_lists);
}

static struct link_text
link_to_whole(const struct document_wish *wish)
{
    return link_to(registry_public_url(wish->registry), LINK_CHANGELIST_ARCHIVE,
                   wish->set->name, NULL, 0);
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
    uint64_t size = wish->last - wish->number + 1;

    if (wish->last < wish->number || size > DOCUMENT_ENTRIES_MAX ||
        (wish->number - 1) % size != 0)
        return problem(why, STATUS_NOT_FOUND,
                       "the archive has no part with these lists");
    return open_lists(wish, wish->number, wish->last, document, why);
}

/* The index */

static enum status
read_list(const struct document_wish *wish, uint64_t number,
          struct list_info *info)
{
    size_t n = 1;
    enum status rc = log_lists(registry_log(wish->registry), wish->set->log,
                               number, info, &n, NULL);

    return rc || (n == 1 && info->number == number) ? rc : STATUS_IO;
}

/* Writes the part with list `*next`: `from` is that of its first list, `until`
 * that of its last, if it is full. Moves *next behind it. */
static enum status
write_part(struct buf *text, const struct document_wish *wish,
           const struct parts *parts, uint64_t *next)
{
    uint64_t begin = parts_begin(parts, *next);
    uint64_t end = begin + parts->size - 1;
    struct list_info first, last;
    bool is_full = end < wish->head.list;
    struct link_text loc = link_to_archive(registry_public_url(wish->registry),
                                           wish->set->name, begin, end);
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .until_us = DATETIME_NONE,
    };
    enum status rc = read_list(wish, *next, &first);

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
open_index(const struct document_wish *wish, struct document *document,
           struct problem *why)
{
    struct parts parts = parts_now(wish);
    struct buf text;
    enum status rc = STATUS_OK;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    buf_init(&text, DOCUMENT_BYTES_MAX);
    document_begin(&text, wish, DOCUMENT_SITEMAPINDEX, CAP_CHANGELIST_ARCHIVE,
                   DATETIME_NONE, "last",
                   link_to(registry_public_url(wish->registry), LINK_LATEST,
                           wish->set->name, NULL, 0));
    for (uint64_t next = wish->head.first_list; !rc && next < wish->head.list;)
        rc = write_part(&text, wish, &parts, &next);
    document_footer(&text, DOCUMENT_SITEMAPINDEX);
    rc = rc ? problem(why, STATUS_IO, "the lists cannot be read")
            : document_of_text(document, &text, why);
    buf_fini(&text);
    return rc;
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

/*
 * set_index.c - documents that list a set's Change Lists: the Change List
 * Index, and the Change List Archive: every closed list, from the moment it
 * closes.
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

#include "broker/documents/documents.h"
#include "broker/sets/index_parts.h"
#include "broker/sets/set_links.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/vocab.h"

/* Lists */

struct listing_wish {
    const struct document_wish *document;
    enum document_root root;
    enum capability capability;
    struct slice archives; /* URL of the archive to link to; or empty */
    struct slice index;    /* URL of the index that covers it; or empty */
    uint64_t first;        /* number of the first list */
    uint64_t last;         /* number of the last, which may be the open one */
    bool has_from;         /* the root has the `from` of the first list
 */
};

struct listing {
    struct pieces pieces;
    struct document_wish document;
    uint64_t next, last; /* numbers of the lists still to come */
};

/* Writes a list's entry. `from` and `until` are its own. All
 * entries of closed lists have the same size: numbers, times and digests have a
 * fixed width. */
static void
write_entry(struct buf *text, const struct document_wish *d,
            enum document_root root, const struct list_info *info)
{
    struct link_text loc = link_to(d->registry->options.public_url, LINK_LIST,
                                   d->set->name, NULL, info->number);
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .from_us = info->from_us,
        .until_us = info->until_us,
        .digest = info->until_us == DATETIME_NONE ? NULL : &info->digest,
    };

    document_entry(text, root, &entry);
}

/* Reads the closed lists from `next` on, as many as a piece has, or the open
 * one. All lists that the head has are in the store, except the open one: so
 * the whole is of one moment, whichever lists are closed meanwhile. */
static enum status
read_lists(const struct listing *l, struct list_info *infos, size_t *n)
{
    const struct document_wish *d = &l->document;
    enum status rc;

    if (l->next == d->head.list) {
        infos[0] = head_open_list(&d->head);
        *n = 1;
        return STATUS_OK;
    }
    *n = PIECES_STEP;
    if (d->head.list - l->next < *n)
        *n = (size_t)(d->head.list - l->next);
    if (l->last - l->next + 1 < *n)
        *n = (size_t)(l->last - l->next + 1);
    rc = log_lists(d->registry->log, d->set->log, l->next, infos, n, NULL);
    if (!rc && (*n == 0 || infos[0].number != l->next))
        rc = STATUS_IO; /* a slow reader: retention has removed them */
    return rc;
}

static enum status
fill_listing(struct pieces *pieces)
{
    struct listing *l = (struct listing *)(void *)pieces;
    struct list_info infos[PIECES_STEP];
    size_t n = 0;
    enum status rc;

    if (l->next > l->last)
        return STATUS_OK;
    rc = read_lists(l, infos, &n);
    for (size_t i = 0; !rc && i < n; i++)
        write_entry(&pieces->text, &l->document, l->pieces.root, &infos[i]);
    l->next += n;
    return rc;
}

/* Measures an entry, which `text` takes for a moment. */
static uint64_t
entry_size(struct listing *l, const struct list_info *info)
{
    struct buf *text = &l->pieces.text;
    size_t header = text->size, size;

    write_entry(text, &l->document, l->pieces.root, info);
    size = text->size - header;
    text->size = header;
    return size;
}

/* Measures the whole from a sample entry. */
static uint64_t
size_of(struct listing *l, struct list_info sample)
{
    struct list_info open = head_open_list(&l->document.head);
    bool has_open = l->last == open.number;

    sample.until_us = sample.from_us;
    return l->pieces.text.size +
           (l->last - l->next + 1 - has_open) * entry_size(l, &sample) +
           has_open * entry_size(l, &open) +
           document_footer_of(l->pieces.root).size;
}

/* Adds to a tag the history of the lists (the digest up to the open list proves
 * every closed one's), and what the format says: their numbers, and the version
 * of this program. With the header, which has the public URL, these determine
 * the bytes. */
static void __attribute__((format(printf, 3, 4)))
add_history(struct digest *tag, const struct head *head, const char *format,
            ...)
{
    char text[256];
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    digest_add(tag, (struct slice){text, (size_t)n});
    digest_add(tag, (struct slice){(const char *)head->list_before.bytes,
                                   DIGEST_SIZE});
}

static enum status
open_listing(const struct listing_wish *wish, struct document *document,
             struct problem *why)
{
    const struct document_wish *d = wish->document;
    struct link_text up = set_link(d->set, LINK_CAPABILITYLIST);
    struct link_text latest = set_link(d->set, LINK_LATEST); /* */
    const struct document_link links[] = {
        {"up", link_slice(&up)},
        {"archives", wish->archives},
        {"index", wish->index},
        {"last", link_slice(&latest)},
    };
    struct document_head head = {
        .root = wish->root,
        .capability = wish->capability,
        .links = links,
        .n_links = N_ELEMENTS(links),
    };
    struct list_info infos[PIECES_STEP];
    struct listing *l;
    size_t n = 0;

    if (d->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    l = memory_new(1, sizeof(*l));
    pieces_init(&l->pieces, wish->root, fill_listing, NULL, true);
    l->document = *d;
    l->next = wish->first;
    l->last = wish->last;
    if (read_lists(l, infos, &n)) {
        l->pieces.body.free(&l->pieces.body);
        return problem(why, STATUS_IO, "the lists cannot be read");
    }
    if (wish->has_from)
        head.from_us = infos[0].from_us;
    document_header(&l->pieces.text, &head);
    l->pieces.body.size = size_of(l, infos[0]);
    *document = (struct document){
        .body = &l->pieces.body,
        .modified_us = DATETIME_NONE,
    };
    digest_sha256(&document->tag, buf_slice(&l->pieces.text));
    add_history(&document->tag, &d->head, "%s %s %" PRIu64 "-%" PRIu64,
                DOCUMENT_SINCE, d->head.epoch, l->next, l->last);
    return STATUS_OK;
}

/* Opens the capability's fixed address: the only Change List, or from the first
 * rotation on the Change List Index. */
enum status
changelist_current_open(const struct document_wish *wish,
                        struct document *document, struct problem *why)
{
    struct link_text archive = set_link(wish->set, LINK_CHANGELIST_ARCHIVE);
    uint64_t closed = wish->registry->config->index_lists;
    uint64_t oldest = wish->head.first_list;
    struct listing_wish index = {
        .document = wish,
        .root = DOCUMENT_SITEMAPINDEX,
        .capability = CAP_CHANGELIST,
        .archives = wish->head.list > oldest ? link_slice(&archive) : SLICE(""),
        .first = wish->head.list > closed + oldest ? wish->head.list - closed
                                                   : oldest,
        .last = wish->head.list,
        .has_from = true,
    };

    if (wish->head.list > wish->head.start_list)
        return open_listing(&index, document, why);
    return changelist_latest_open(wish, document, why);
}

/* The archive */

static struct parts
parts_now(const struct document_wish *wish)
{
    return parts_of(wish->head.first_list, wish->head.list,
                    wish->registry->config->index_lists);
}

/* Opens the existing lists from `first` to `last`. */
static enum status
open_lists(const struct document_wish *wish, uint64_t first, uint64_t last,
           struct document *document, struct problem *why)
{
    struct link_text index = set_link(wish->set, LINK_CHANGELIST_ARCHIVE);
    uint64_t oldest = wish->head.first_list;
    struct listing_wish listing = {
        .document = wish,
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST_ARCHIVE,
        .index = parts_now(wish).has_index ? link_slice(&index) : SLICE(""),
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
    return open_listing(&listing, document, why);
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

/* The index of the archive */

/* Writes the part that begins with list `number` or before it: `from` is that
 * of its first list, `until` that of its last, if it is full. Returns the
 * number behind it in *number. */
static enum status
write_part(struct buf *text, const struct document_wish *wish,
           const struct parts *parts, uint64_t *number)
{
    uint64_t begin = parts_begin(parts, *number);
    uint64_t end = begin + parts->size - 1;
    struct list_info first, last;
    bool is_full = end < wish->head.list;
    struct link_text loc = set_link_range(wish->set, LINK_LISTS, begin, end);
    struct document_entry entry = {
        .loc = link_slice(&loc),
    };
    struct log *log = wish->registry->log;
    enum status rc = log_list(log, wish->set->log, *number, &first, NULL, NULL);

    if (!rc && is_full)
        rc = log_list(log, wish->set->log, end, &last, NULL, NULL);
    if (rc)
        return rc;
    entry.from_us = first.from_us;
    if (is_full) {
        entry.until_us = last.until_us;
        entry.digest = &last.digest;
    }
    document_entry(text, DOCUMENT_SITEMAPINDEX, &entry);
    *number = end + 1;
    return STATUS_OK;
}

enum status
changelist_archive_open(const struct document_wish *wish,
                        struct document *document, struct problem *why)
{
    const struct head *head = &wish->head;
    struct parts parts = parts_now(wish);
    uint64_t number = head->first_list;
    enum status rc = STATUS_OK;
    size_t header, last_part = 0;
    struct digest tag;
    struct buf text = {.max = DOCUMENT_BYTES_MAX};

    if (head->list == head->first_list)
        return problem(why, STATUS_NOT_FOUND,
                       "no Change List of this set is closed yet");
    if (!parts.has_index)
        return open_lists(wish, 1, UINT64_MAX, document, why);
    document_begin(&text, wish, DOCUMENT_SITEMAPINDEX, CAP_CHANGELIST_ARCHIVE,
                   DATETIME_NONE, "last", set_link(wish->set, LINK_LATEST),
                   NULL);
    header = text.size;
    while (!rc && number < head->list) {
        last_part = text.size;
        rc = write_part(&text, wish, &parts, &number);
    }
    if (rc)
        rc = problem(why, STATUS_IO, "the lists cannot be read");
    /* The last part counts if it still grows. So the tag of an index is the one
     * that former versions gave it. */
    digest_sha256(&tag, (struct slice){text.data, header});
    if ((head->list - 1) % parts.size != 0)
        digest_add(&tag, slice_from(buf_slice(&text), last_part));
    add_history(&tag, head, "%s %s %" PRIu64 "-%" PRIu64 " %" PRIu64,
                DOCUMENT_SINCE, head->epoch, head->first_list, head->list - 1,
                parts.size);
    document_footer(&text, DOCUMENT_SITEMAPINDEX);
    rc = document_of_text(document, &text, rc, why);
    if (!rc)
        document->tag = tag;
    return rc;
}

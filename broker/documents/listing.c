#include "broker/documents/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/sets/links.h"
#include "proto/memory.h"
#include "proto/resourcesync/vocab.h"

struct listing {
    struct pieces pieces;
    struct document_wish document;
    uint64_t next, last; /* numbers of the lists still to come */
};

static void
write_header(struct buf *text, const struct listing_wish *wish,
             int64_t first_from_us)
{
    const struct document_wish *d = wish->document;
    struct link_text up = set_link(d->set, LINK_CAPABILITYLIST);
    struct link_text latest = set_link(d->set, LINK_LATEST);
    struct document_link links[4] = {{"up", link_slice(&up), NULL}};
    struct document_head head = {
        .root = wish->root,
        .capability = wish->capability,
        .links = links,
        .n_links = 1,
        .from_us = wish->has_from ? first_from_us : DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };

    if (wish->archives)
        links[head.n_links++] =
            (struct document_link){"archives", slice_of(wish->archives), NULL};
    if (wish->index)
        links[head.n_links++] =
            (struct document_link){"index", slice_of(wish->index), NULL};
    links[head.n_links++] = /* */
        (struct document_link){"last", link_slice(&latest), NULL};
    document_header(text, &head);
}

/* Writes a list's entry. `from` and `until` are its own. All
 * entries of closed lists have the same size: numbers, times and digests have a
 * fixed width. */
static void
write_entry(struct buf *text, const struct document_wish *d,
            enum document_root root, const struct list_info *info)
{
    struct link_text loc = link_to(registry_public_url(d->registry), LINK_LIST,
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
    rc = log_lists(registry_log(d->registry), d->set->log, l->next, infos, n,
                   NULL);
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

/* Measures the whole from a sample entry, which `text` takes for a moment. */
static uint64_t
size_of(struct listing *l, struct list_info sample)
{
    struct buf *text = &l->pieces.text;
    uint64_t n_closed = l->last - l->next + 1, size = text->size;
    size_t header = text->size;

    if (l->last == l->document.head.list) {
        struct list_info open = head_open_list(&l->document.head);

        n_closed--;
        write_entry(text, &l->document, l->pieces.root, &open);
        size += text->size - header;
        text->size = header;
    }
    if (n_closed > 0) {
        sample.until_us = sample.from_us;
        write_entry(text, &l->document, l->pieces.root, &sample);
        size += n_closed * (text->size - header);
        text->size = header;
    }
    return size + document_footer_of(l->pieces.root).size;
}

/* Makes the tag from everything that determines the bytes: the numbers of the
 * lists, their history (its digest up to the open list proves every closed
 * one's), the public URL (in the header), and the version of this program. */
static struct digest
tag_of(const struct listing *l)
{
    const struct head *head = &l->document.head;
    struct digest tag;
    char text[256];
    int n;

    digest_start(&tag, buf_slice(&l->pieces.text));
    n = snprintf(text, sizeof(text), "%s %s %" PRIu64 "-%" PRIu64,
                 TIDINGS_VERSION, head->epoch, l->next, l->last);
    digest_add(&tag, (struct slice){text, (size_t)n});
    digest_add(&tag, (struct slice){(const char *)head->list_before.bytes,
                                    DIGEST_SIZE});
    return tag;
}

enum status
listing_open(const struct listing_wish *wish, struct document *document,
             struct problem *why)
{
    struct list_info infos[PIECES_STEP];
    struct listing *l;
    size_t n = 0;

    if (wish->document->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    l = memory_new(1, sizeof(*l));
    pieces_init(&l->pieces, wish->root, fill_listing, NULL, true);
    l->document = *wish->document;
    l->next = wish->first;
    l->last = wish->last;
    if (read_lists(l, infos, &n)) {
        l->pieces.body.free(&l->pieces.body);
        return problem(why, STATUS_IO, "the lists cannot be read");
    }
    write_header(&l->pieces.text, wish, infos[0].from_us);
    l->pieces.body.size = size_of(l, infos[0]);
    *document = (struct document){
        .body = &l->pieces.body,
        .tag = tag_of(l),
        .modified_us = DATETIME_NONE,
    };
    return STATUS_OK;
}

#include "broker/documents/listing.h"

#include "broker/sets/links.h"
#include "proto/vocab.h"

/* Rows read at once. */
#define STEP 256

static void
write_header(struct buf *text, const struct listing_wish *wish,
             const struct list_info *first)
{
    const struct document_wish *d = wish->document;
    struct link_text up = link_to(registry_public_url(d->registry),
                                  LINK_CAPABILITYLIST, d->set->name, NULL, 0);
    struct document_link links[2] = {{"up", link_slice(&up), NULL}};
    struct document_head head = {
        .root = wish->root,
        .capability = wish->capability,
        .links = links,
        .n_links = 1,
        .from_us = wish->has_from ? first->from_us : DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };

    if (wish->archives)
        links[head.n_links++] =
            (struct document_link){"archives", slice_of(wish->archives), NULL};
    document_header(text, &head);
}

/* `from` and `until` are the list's own. */
static void
write_entry(struct buf *text, const struct listing_wish *wish,
            const struct list_info *info)
{
    const struct document_wish *d = wish->document;
    struct link_text loc = link_to(registry_public_url(d->registry), LINK_LIST,
                                   d->set->name, NULL, info->number);
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .from_us = info->from_us,
        .until_us = info->until_us,
        .digest = info->until_us == DATETIME_NONE ? NULL : &info->digest,
    };

    document_entry(text, wish->root, &entry);
}

/* All lists that the head knows are in the store, or are the open one: what
 * this reads is of one moment, whatever is closed meanwhile. */
static enum status
write_lists(struct buf *text, const struct listing_wish *wish,
            struct problem *why)
{
    const struct document_wish *d = wish->document;
    struct list_info infos[STEP];
    uint64_t next = wish->first;

    while (next <= wish->last) {
        size_t n = STEP;

        if (next == d->head.list) {
            infos[0] = lists_open(&d->head);
            n = 1;
        } else {
            enum status rc;

            if (d->head.list - next < n)
                n = (size_t)(d->head.list - next);
            rc = log_lists(registry_log(d->registry), d->set->log, next, infos,
                           &n, why);
            if (rc)
                return rc;
            if (n == 0)
                return problem(why, STATUS_IO, "a list has no row");
        }
        if (next == wish->first)
            write_header(text, wish, &infos[0]);
        for (size_t i = 0; i < n && infos[i].number <= wish->last; i++)
            write_entry(text, wish, &infos[i]);
        next += n;
    }
    return STATUS_OK;
}

enum status
listing_open(const struct listing_wish *wish, struct body **body,
             struct problem *why)
{
    struct buf text;
    enum status rc;

    if (wish->document->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    buf_init(&text, DOCUMENT_BYTES_MAX);
    rc = write_lists(&text, wish, why);
    if (!rc) {
        document_footer(&text, wish->root);
        *body = body_of_buf(&text);
        if (!*body)
            rc = problem(why, STATUS_MEMORY, "no memory for a document");
    }
    buf_fini(&text);
    return rc;
}

/*
 * source_description_document.c - the Source Description: one entry per set, or
 * the index of several (source_description.h).
 */

#include "base/array.h"
#include "broker/documents/documents.h"
#include "broker/sets/links.h"
#include "broker/sets/source_description.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/vocab.h"

/* The sets that exist when a document is opened. A set's struct lives as long
 * as the registry. */
struct picked {
    const struct principal *principal;
    uint64_t from, upto; /* numbers of the wanted sets */
    struct set **sets;
    size_t n, capacity;
    bool has_private;
    bool failed; /* no memory was left for all sets */
};

static bool
pick_set(struct set *set, const struct head *head, void *user)
{
    struct picked *p = user;
    uint64_t number = log_set_number(set->log);

    (void)head;
    if (number < p->from || number > p->upto ||
        !set_is_visible(set, p->principal))
        return true;
    p->has_private |= set_is_private(set);
    p->failed = !ONE_MORE(p->sets, &p->capacity, p->n);
    if (!p->failed)
        p->sets[p->n++] = set;
    return !p->failed;
}

/* A document that names sets */

struct description {
    struct pieces pieces;
    struct picked picked;
    size_t next;
    uint64_t left;       /* bytes of the entries still to come */
    struct digest proof; /* the tag, when the last entry was written */
    struct digest tag;
};

/* Appends the entry of a set, and adds it to the digest of all. */
static struct slice
add_entry(struct description *d, const struct set *set, struct digest *all)
{
    struct buf *text = &d->pieces.text;
    size_t before = text->size;
    struct link_text loc = set_link(set, LINK_CAPABILITYLIST);
    struct link_text about = registry_described_by(set);
    const struct document_link describedby = {"describedby", link_slice(&about),
                                              NULL};
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .has_capability = 1,
        .capability = CAP_CAPABILITYLIST,
        .links = &describedby,
        .n_links = 1,
    };
    struct slice written;

    document_entry(text, DOCUMENT_URLSET, &entry);
    written = (struct slice){text->data + before, text->size - before};
    digest_add(all, written);
    return written;
}

/* If a set was changed or removed while a client reads slowly, the bytes differ
 * from the measured and tagged ones. Then the answer is cut off, and the client
 * asks again. */
static enum status
fill_description(struct pieces *pieces)
{
    struct description *d = (struct description *)(void *)pieces;
    size_t end = d->picked.n - d->next < PIECES_STEP ? d->picked.n
                                                     : d->next + PIECES_STEP;

    if (d->next == d->picked.n)
        return memcmp(&d->proof, &d->tag, sizeof(d->tag)) ? STATUS_GONE
                                                          : STATUS_OK;
    while (d->next < end) {
        struct slice entry = add_entry(d, d->picked.sets[d->next++], &d->proof);

        if (entry.size > d->left)
            return STATUS_GONE;
        d->left -= entry.size;
    }
    return STATUS_OK;
}

static void
free_description(struct pieces *pieces)
{
    free(((struct description *)(void *)pieces)->picked.sets);
}

/* Writes the head with links to the landing page for people, and to the
 * stream of many sets, whose address no client has to build. `index`
 * covers this document; or NULL. */
static void
write_head(struct buf *text, enum document_root root,
           const struct document_wish *wish, const struct link_text *index)
{
    struct link_text about = registry_link(wish->registry, LINK_LANDING);
    struct link_text stream = registry_link(wish->registry, LINK_STREAMS);
    const struct document_link links[] = {
        {"describedby", link_slice(&about)},
        {LINK_STREAM_OF_MANY, link_slice(&stream)},
        {"index", index ? link_slice(index) : SLICE("")},
    };
    const struct document_head head = {
        .root = root,
        .capability = CAP_DESCRIPTION,
        .links = links,
        .n_links = N_ELEMENTS(links),
    };

    document_header(text, &head);
}

static enum status
no_part(struct problem *why)
{
    return problem(why, STATUS_NOT_FOUND,
                   "there is no Source Description with these sets");
}

/* Opens a document with an entry for each set whose
 * number is from `from` to `upto`. */
static enum status
open_sets(const struct document_wish *wish, uint64_t from, uint64_t upto,
          const struct link_text *index, struct document *document,
          struct problem *why)
{
    struct description *d;
    struct buf *text;
    size_t header;

    d = memory_new(1, sizeof(*d));
    text = &d->pieces.text;
    pieces_init(&d->pieces, DOCUMENT_URLSET, fill_description, free_description,
                false);
    d->picked = (struct picked){
        .principal = wish->principal, .from = from, .upto = upto};
    registry_each(wish->registry, pick_set, &d->picked);
    if (d->picked.n == 0 && upto != UINT64_MAX) {
        d->pieces.body.free(&d->pieces.body);
        return no_part(why);
    }
    write_head(text, DOCUMENT_URLSET, wish, index);
    header = text->size;
    digest_sha256(&d->proof, buf_slice(text));
    d->tag = d->proof;
    for (size_t i = 0; i < d->picked.n; i++) { /* written once, to measure */
        d->left += add_entry(d, d->picked.sets[i], &d->tag).size;
        text->size = header;
    }
    d->pieces.body.size =
        header + d->left + document_footer_of(DOCUMENT_URLSET).size;
    if (d->picked.failed || text->failed) {
        d->pieces.body.free(&d->pieces.body);
        return problem_memory(why);
    }
    *document = (struct document){
        .body = &d->pieces.body,
        .tag = d->tag,
        .modified_us = DATETIME_NONE,
        .is_private = d->picked.has_private,
    };
    return STATUS_OK;
}

/* The index */

static int
by_number(const void *a, const void *b)
{
    const struct set *const *one = a, *const *other = b;
    uint64_t n = log_set_number((*one)->log), m = log_set_number((*other)->log);

    return (n > m) - (n < m);
}

enum status
source_description_open(const struct document_wish *wish,
                        struct document *document, struct problem *why)
{
    struct parts parts = source_description_parts(wish->registry);
    struct picked picked = {.principal = wish->principal, .upto = UINT64_MAX};
    uint64_t end = 0;
    struct buf text = {.max = DOCUMENT_BYTES_MAX};
    enum status rc;

    if (!parts.has_index)
        return open_sets(wish, 0, UINT64_MAX, NULL, document, why);
    /* The index of the parts that have a set, in order. */
    registry_each(wish->registry, pick_set, &picked);
    write_head(&text, DOCUMENT_SITEMAPINDEX, wish, NULL);
    if (picked.n > 0)
        qsort(picked.sets, picked.n, sizeof(struct set *), by_number);
    for (size_t i = 0; i < picked.n; i++) {
        uint64_t number = log_set_number(picked.sets[i]->log);
        struct link_text loc =
            source_description_part(wish->registry, &parts, number);
        struct document_entry entry = {
            .loc = link_slice(&loc),
            .has_capability = 1,
            .capability = CAP_DESCRIPTION,
        };

        if (number <= end)
            continue;
        end = parts_begin(&parts, number) + parts.size - 1;
        document_entry(&text, DOCUMENT_SITEMAPINDEX, &entry);
    }
    document_footer(&text, DOCUMENT_SITEMAPINDEX);
    text.failed = text.failed || picked.failed;
    rc = document_of_text(document, &text, STATUS_OK, why);
    if (!rc)
        document->is_private = picked.has_private;
    free(picked.sets);
    return rc;
}

/* `number` to `wish->last` are a part if a part of this size begins there:
 * so only few addresses name the same sets. */
enum status
source_description_part_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    struct link_text index = registry_link(wish->registry, LINK_DESCRIPTION);

    if (!parts_are_at(wish->number, wish->last, DESCRIPTION_SETS_MAX))
        return no_part(why);
    return open_sets(wish, wish->number, wish->last,
                     source_description_parts(wish->registry).has_index ? &index
                                                                        : NULL,
                     document, why);
}

#include "broker/archive/build_resourcelist.h"

#include <stdlib.h>

#include "broker/sets/links.h"
#include "proto/document_write.h"

struct resourcelist {
    struct build build;
    uint64_t part_entries; /* limit of a part */
    bool has_index;
    uint64_t part; /* the last written part */
};

/* Entries of a part. An index has a limit, too: where it would exceed
 * that, the parts become larger than configured. */
static uint64_t
entries_of_part(const struct config *config, uint64_t n)
{
    uint64_t least = n / DOCUMENT_ENTRIES_MAX + 1;

    return config->resource_list_entries > least ? config->resource_list_entries
                                                 : least;
}

/* Root links `up`, `index`, `archives`. No
 * `completed`: the first part is written before the last one ends. */
static void
write_header(struct resourcelist *l, enum document_root root)
{
    struct build_links links;
    struct document_head head;

    build_link_up(&l->build, &links);
    if (l->has_index && root == DOCUMENT_URLSET)
        build_link_index(&l->build, &links);
    build_link_archives(&l->build, &links);
    head = build_head(&l->build, root, CAP_RESOURCELIST, &links);
    document_header(&l->build.text, &head);
}

/* Writes the next resources, as many as the part may have: at least one. */
static enum status
write_entries(struct resourcelist *l, struct resources *resources,
              struct problem *why)
{
    struct build *b = &l->build;
    uint64_t size = DOCUMENT_FRAME_MAX;
    struct resources_entry e;
    enum status rc = STATUS_OK;

    for (uint64_t i = 0; !rc && i < l->part_entries && b->n < b->generation.n;
         i++) {
        rc = resources_next(resources, b->id, &e, why);
        size += rc ? 0 : e.entry.size;
        if (rc || size > DOCUMENT_BYTES_MAX)
            break;
        buf_add_slice(&b->text, e.entry);
        rc = build_flush(b, BUILD_PIECE_BYTES, why);
        b->id = e.id;
        b->n++;
    }
    return rc;
}

static enum status
write_part(struct resourcelist *l, struct resources *resources,
           struct problem *why)
{
    struct build *b = &l->build;
    enum status rc =
        generation_part(b->writer, GENERATION_DOCUMENT, ++l->part, why);

    if (rc)
        return rc;
    write_header(l, DOCUMENT_URLSET);
    rc = write_entries(l, resources, why);
    document_footer(&b->text, DOCUMENT_URLSET);
    return rc ? rc : build_flush(b, 0, why);
}

/* The index has the same `at` as each part. */
static enum status
write_index(struct resourcelist *l, struct problem *why)
{
    struct build *b = &l->build;
    const char *url = registry_public_url(b->set->registry);
    enum status rc =
        generation_part(b->writer, GENERATION_DOCUMENT, GENERATION_INDEX, why);

    write_header(l, DOCUMENT_SITEMAPINDEX);
    for (uint64_t part = 1; !rc && part <= l->part; part++) {
        struct link_text loc =
            link_to_part(url, b->set->name, b->generation.kind,
                         b->generation.number, part, LINK_PART);
        struct document_entry entry = {
            .loc = link_slice(&loc),
            .from_us = DATETIME_NONE,
            .until_us = DATETIME_NONE,
            .at_us = b->generation.at_us,
        };

        document_entry(&b->text, DOCUMENT_SITEMAPINDEX, &entry);
        rc = build_flush(b, BUILD_PIECE_BYTES, why);
    }
    document_footer(&b->text, DOCUMENT_SITEMAPINDEX);
    return rc ? rc : build_flush(b, 0, why);
}

static enum status
list_step(struct build *b, struct resources *resources, bool *is_done,
          struct problem *why)
{
    struct resourcelist *l = (struct resourcelist *)b;
    enum status rc = write_part(l, resources, why);

    if (rc || b->n < b->generation.n)
        return rc;
    *is_done = true;
    return l->has_index ? write_index(l, why) : STATUS_OK;
}

enum status
build_resourcelist_begin(struct build **build, struct set *set,
                         const struct resources *resources, bool is_archived,
                         struct problem *why)
{
    static const struct build_rules rules = {list_step, NULL};
    const struct resources_at *at = resources_at(resources);
    struct resourcelist *l = calloc(1, sizeof(*l));
    enum status rc;

    if (!l)
        return problem_memory(why);
    l->part_entries = entries_of_part(registry_config(set->registry), at->n);
    l->has_index = at->n > l->part_entries ||
                   at->bytes > DOCUMENT_BYTES_MAX - DOCUMENT_FRAME_MAX;
    rc = build_begin(&l->build, &rules, set, GENERATION_RESOURCELIST, at,
                     is_archived, why);
    if (!rc)
        *build = &l->build;
    return rc;
}

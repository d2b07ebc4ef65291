/*
 * generation_archive.c - the archives of generations: all kept Resource Lists,
 * Resource Dumps and Change Dumps, each from the commit that makes it current
 * (R-210 to R-224).
 *
 * A small archive is one document. Beyond --index-lists its address is that of
 * an index. Each of its parts covers so many numbers, but not every generation
 * is kept.
 *
 *   resourcelist-archive.xml
 *     resourcelist-archive/000000000001-000000001000.xml
 *     resourcelist-archive/000000001001-000000002000.xml    still growing
 *
 * As in the Change List Archive (changelist_archive.c), a part's address
 * determines its generations, even if the settings have changed since.
 */
#include "broker/documents/documents.h"
#include "broker/sets/links.h"
#include "broker/sets/parts.h"
#include "proto/resourcesync/document_write.h"

/* Rows per read. */
#define STEP 256

static struct parts
parts_now(const struct document_wish *wish)
{
    const struct generations *all = &wish->head.generations[wish->kind];

    return parts_of_generations(all->n_archived, all->last,
                                registry_config(wish->registry)->index_lists);
}

static void
write_header(struct buf *text, const struct document_wish *wish,
             enum document_root root, bool has_index)
{
    document_begin(text, wish, root, links_kinds[wish->kind].archive,
                   DATETIME_NONE, has_index ? "index" : NULL,
                   link_to_generations(registry_public_url(wish->registry),
                                       wish->set->name, wish->kind));
}

static void
write_entry(struct buf *text, enum document_root root, struct link_text loc,
            const struct generation *g)
{
    bool is_of_changes = g->kind == GENERATION_CHANGEDUMP;
    const struct document_entry entry = {
        .loc = link_slice(&loc),
        .from_us = is_of_changes ? g->from_us : DATETIME_NONE,
        .until_us =
            is_of_changes && root == DOCUMENT_URLSET ? g->at_us : DATETIME_NONE,
        .at_us = is_of_changes ? DATETIME_NONE : g->at_us,
    };

    document_entry(text, root, &entry);
}

static enum status
read_some(const struct document_wish *wish, uint64_t number,
          struct generation *generations, size_t *n, struct problem *why)
{
    struct generation_page page = {wish->kind, number, generations, *n};
    enum status rc = log_generations(registry_log(wish->registry),
                                     wish->set->log, &page, why);

    *n = page.n;
    return rc;
}

/* Writes the kept generations from `first` to `last`; sets *n to their
 * count. */
static enum status
write_generations(struct buf *text, const struct document_wish *wish,
                  uint64_t first, uint64_t last, size_t *n, struct problem *why)
{
    const char *url = registry_public_url(wish->registry);
    struct generation some[STEP];
    enum status rc = STATUS_OK;
    size_t got = STEP;

    *n = 0;
    while (!rc && got == STEP && first <= last) {
        rc = read_some(wish, first, some, &got, why);
        for (size_t i = 0; !rc && i < got && some[i].number <= last; i++) {
            write_entry(text, DOCUMENT_URLSET,
                        link_to_generation(url, wish->set->name, wish->kind,
                                           some[i].number),
                        &some[i]);
            ++*n;
        }
        if (got > 0)
            first = some[got - 1].number + 1;
    }
    return rc;
}

static enum status
open_generations(const struct document_wish *wish, uint64_t first,
                 uint64_t last, struct document *document, struct problem *why)
{
    struct buf text;
    size_t n = 0;
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_header(&text, wish, DOCUMENT_URLSET, parts_now(wish).has_index);
    rc = write_generations(&text, wish, first, last, &n, why);
    document_footer(&text, DOCUMENT_URLSET);
    if (!rc && n == 0)
        rc = problem(why, STATUS_NOT_FOUND, "the broker keeps none of these");
    return document_of_text(document, &text, rc, why);
}

enum status
generation_archive_part_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    if (!parts_are_at(wish->number, wish->last, DOCUMENT_ENTRIES_MAX))
        return problem(why, STATUS_NOT_FOUND,
                       "the archive has no part with these numbers");
    if (wish->head.generations[wish->kind].n_archived == 0 ||
        wish->last < wish->head.generations[wish->kind].first_archived)
        return problem(why, STATUS_GONE, "these are no longer kept");
    return open_generations(wish, wish->number, wish->last, document, why);
}

/* Writes an entry for each part that is not empty: `at` is that of its first
 * generation. */
static enum status
write_parts(struct buf *text, const struct document_wish *wish,
            struct problem *why)
{
    const char *url = registry_public_url(wish->registry);
    struct parts parts = parts_now(wish);
    uint64_t next = 1;
    enum status rc = STATUS_OK;

    while (!rc && next <= wish->head.generations[wish->kind].last) {
        struct generation first;
        uint64_t begin;
        size_t n = 1;

        rc = read_some(wish, next, &first, &n, why);
        if (rc || n == 0)
            break;
        begin = parts_begin(&parts, first.number);
        next = begin + parts.size;
        write_entry(text, DOCUMENT_SITEMAPINDEX,
                    link_to_generations_part(url, wish->set->name, wish->kind,
                                             begin, next - 1),
                    &first);
    }
    return rc;
}

static enum status
open_index(const struct document_wish *wish, struct document *document,
           struct problem *why)
{
    struct buf text;
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_header(&text, wish, DOCUMENT_SITEMAPINDEX, false);
    rc = write_parts(&text, wish, why);
    document_footer(&text, DOCUMENT_SITEMAPINDEX);
    return document_of_text(document, &text, rc, why);
}

enum status
generation_archive_open(const struct document_wish *wish,
                        struct document *document, struct problem *why)
{
    const struct generations *all = &wish->head.generations[wish->kind];

    if (all->n_archived == 0)
        return problem(why, STATUS_NOT_FOUND,
                       "the broker keeps nothing of this kind of this set");
    return parts_now(wish).has_index
               ? open_index(wish, document, why)
               : open_generations(wish, all->first_archived, all->last,
                                  document, why);
}

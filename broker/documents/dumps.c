/*
 * dumps.c - Resource Dumps and Change Dumps: the current one, the kept ones,
 * their packages, and the manifests of these.
 *
 * A dump, its packages and its manifests are files (generation_document.h),
 * which never change. Only the Change Dump Index is written here: it names the
 * latest dumps that follow one another without a gap. A gap is a
 * range of changes whose content the broker could not get; the archive
 * has the dumps before it.
 *
 *   changedump.xml                        one dump; from the second on an index
 *     changedump/000000000007.xml
 *       changedump/000000000007/000000000001.zip
 *       changedump/000000000007/000000000001-manifest.xml
 *   changedump-archive.xml                generation_archive.c
 */
#include "broker/documents/generation_document.h"
#include "broker/sets/links.h"
#include "proto/resourcesync/document_write.h"

/* Rows per read. */
#define STEP 256

/* The Change Dumps that the index names. */
struct run {
    struct buf entries;
    uint64_t n;
    uint64_t seq;    /* the next dump must begin here */
    int64_t from_us; /* where the first dump begins */
};

/* Adds a dump; after a gap the run begins with it. */
static void
add_dump(struct run *run, const struct document_wish *wish,
         const struct generation *g)
{
    struct link_text loc =
        link_to_generation(registry_public_url(wish->registry), wish->set->name,
                           wish->kind, g->number);
    const struct document_entry entry = {
        .loc = link_slice(&loc),
        .from_us = g->from_us,
        .until_us = g->at_us,
    };

    if (run->n > 0 && g->after != run->seq) {
        buf_clear(&run->entries);
        run->n = 0;
    }
    if (run->n == 0)
        run->from_us = g->from_us;
    document_entry(&run->entries, DOCUMENT_SITEMAPINDEX, &entry);
    run->seq = g->seq;
    run->n++;
}

/* Reads the last run, from among the last --index-lists dumps. */
static enum status
read_run(struct run *run, const struct document_wish *wish, struct problem *why)
{
    const struct generations *all = &wish->head.generations[wish->kind];
    uint64_t most = registry_config(wish->registry)->index_lists;
    uint64_t last = all->current.number;
    uint64_t next = last > most ? last - most + 1 : 1;
    struct generation some[STEP];
    struct generation_page page = {wish->kind, next, some, STEP};
    enum status rc = STATUS_OK;

    while (!rc && page.n == STEP && page.from <= last) {
        rc = log_generations(registry_log(wish->registry), wish->set->log,
                             &page, why);
        for (size_t i = 0; !rc && i < page.n && some[i].number <= last; i++)
            add_dump(run, wish, &some[i]);
        if (!rc && page.n > 0)
            page.from = some[page.n - 1].number + 1;
    }
    return rc;
}

static enum status
write_index(const struct document_wish *wish, const struct run *run,
            struct document *document, struct problem *why)
{
    struct buf text;

    buf_init(&text, DOCUMENT_BYTES_MAX);
    document_begin(&text, wish, DOCUMENT_SITEMAPINDEX,
                   links_kinds[wish->kind].capability, run->from_us, "archives",
                   link_to_generations(registry_public_url(wish->registry),
                                       wish->set->name, wish->kind));
    buf_add_slice(&text, buf_slice(&run->entries));
    text.failed = text.failed || run->entries.failed;
    document_footer(&text, DOCUMENT_SITEMAPINDEX);
    return document_of_text(document, &text, STATUS_OK, why);
}

static enum status
open_one(const struct document_wish *wish, struct document *document,
         struct problem *why)
{
    enum status rc = generation_document_open(
        wish, wish->head.generations[wish->kind].current.number,
        GENERATION_DOCUMENT, 1, document, why);

    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_IO, "the %s is not on the disk",
                       links_kinds[wish->kind].title);
    if (!rc)
        document->modified_us = generation_document_since(wish);
    return rc;
}

/* Opens the index, or the only Change Dump itself. */
static enum status
open_changes(const struct document_wish *wish, struct document *document,
             struct problem *why)
{
    struct run run = {.n = 0};
    enum status rc;

    buf_init(&run.entries, DOCUMENT_BYTES_MAX);
    rc = read_run(&run, wish, why);
    if (!rc)
        rc = run.n > 1 ? write_index(wish, &run, document, why)
                       : open_one(wish, document, why);
    buf_fini(&run.entries);
    return rc;
}

enum status
dumps_current_open(const struct document_wish *wish, struct document *document,
                   struct problem *why)
{
    if (wish->head.generations[wish->kind].current.number == 0)
        return generation_document_none(wish, why);
    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    return wish->kind == GENERATION_CHANGEDUMP
               ? open_changes(wish, document, why)
               : open_one(wish, document, why);
}

/* Documents that never change. */

static enum status
open_kept(const struct document_wish *wish, enum generation_file file,
          uint64_t part, struct document *document, struct problem *why)
{
    enum status rc = generation_document_check(wish, why);

    if (rc)
        return rc;
    rc = file == GENERATION_PACKAGE
             ? generation_document_open_package(wish, wish->number, part,
                                                document, why)
             : generation_document_open(wish, wish->number, file, part,
                                        document, why);
    if (rc == STATUS_NOT_FOUND)
        problem_set(why, "this %s has no such package",
                    links_kinds[wish->kind].title);
    if (!rc)
        document->is_final = true;
    return rc;
}

enum status
dumps_generation_open(const struct document_wish *wish,
                      struct document *document, struct problem *why)
{
    return open_kept(wish, GENERATION_DOCUMENT, 1, document, why);
}

enum status
dumps_package_open(const struct document_wish *wish, struct document *document,
                   struct problem *why)
{
    return open_kept(wish, GENERATION_PACKAGE, wish->last, document, why);
}

enum status
dumps_manifest_open(const struct document_wish *wish, struct document *document,
                    struct problem *why)
{
    return open_kept(wish, GENERATION_MANIFEST, wish->last, document, why);
}

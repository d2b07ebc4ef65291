/*
 * generation_document.c - documents that are built in generations: what
 * Resource Lists and dumps have in common; the dumps (R-100 to to
 * R-202); and the archives of all three kinds, each from the commit that makes
 * a generation current.
 *
 * A dump, its packages and its manifests are files, which never change. Written
 * here are the archives, and the Change Dump Index: it names the latest dumps
 * that follow one another without a gap. A gap is a range of
 * changes whose content the broker could not get; the archive has the
 * dumps before it.
 *
 *   changedump.xml                        one dump; from the second on an index
 *     changedump/000000000007.xml
 *       changedump/000000000007/000000000001.zip
 *       changedump/000000000007/000000000001-manifest.xml
 *   changedump-archive.xml
 *
 * A small archive is one document. Beyond --index-lists its address is that of
 * an index. Each of its parts covers so many numbers, but not every generation
 * is kept.
 *
 *   resourcelist-archive.xml
 *     resourcelist-archive/000000000001-000000001000.xml
 *     resourcelist-archive/000000001001-000000002000.xml    still growing
 *
 * As in the Change List Archive (set_index.c), a part's address determines its
 * generations, even if the settings have changed since.
 */
#include "broker/documents/generation_document.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/sets/index_parts.h"
#include "broker/sets/set_links.h"

/* Rows per read. */
#define STEP 256

/* Files */

/* The bodies own the file from then on. */
enum status
generation_document_open(const struct document_wish *wish, uint64_t number,
                         enum generation_file file, uint64_t part,
                         struct document *document, struct problem *why)
{
    struct zfile zfile;
    int fd = -1, gzip_fd;
    enum status rc = generation_open(
        wish->set, &(struct generation_place){wish->kind, number, file, part},
        &fd, why);

    if (rc)
        return rc;
    if (file == GENERATION_PACKAGE) {
        struct stat st;
        char text[256];
        int n;

        if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
            close(fd);
            return problem(why, STATUS_IO, "the package cannot be read");
        }
        *document = (struct document){
            .body = body_of_file(fd, (uint64_t)st.st_size),
            .modified_us = DATETIME_NONE,
        };
        /* The tag comes from place, size and time: a package is too large to
         * read, and nothing else is ever put there. The time, because (not in
         * a cluster, where all brokers have the same tag) a data directory
         * restored from an earlier day may have another package
         * under this number. */
        if (log_is_shared(registry_log(wish->registry)))
            st.st_mtim.tv_sec = 0;
        n = snprintf(text, sizeof(text),
                     "%s %s %" PRIu64 " %" PRIu64 " %jd %jd", wish->head.epoch,
                     links_kinds[wish->kind].folder, number, part,
                     (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec);
        digest_start(&document->tag, (struct slice){text, (size_t)n});
        return STATUS_OK;
    }
    rc = zfile_look(fd, &zfile, NULL, why);
    if (rc) {
        close(fd);
        return rc;
    }
    gzip_fd = dup(fd);
    *document = (struct document){
        .tag = zfile.digest,
        .modified_us = DATETIME_NONE,
        .may_be_packed = true,
    };
    rc = zfile_body(fd, &document->body, why);
    if (rc)
        close(fd);
    if (gzip_fd >= 0)
        document->gzip = body_of_file(gzip_fd, zfile.packed);
    if (rc)
        document_close(document);
    return rc;
}

bool
generation_document_has(const struct document_wish *wish, uint64_t number,
                        uint64_t part)
{
    int fd;

    if (generation_open(wish->set,
                        &(struct generation_place){wish->kind, number,
                                                   GENERATION_DOCUMENT, part},
                        &fd, NULL))
        return false;
    close(fd);
    return true;
}

int64_t
generation_document_since(const struct document_wish *wish)
{
    int64_t us = wish->head.generations[wish->kind].current.completed_us;

    us = (us / 1000000 + 1) * 1000000;
    return us <= clock_now_us() ? us : DATETIME_NONE;
}

enum status
generation_document_none(const struct document_wish *wish, struct problem *why)
{
    return problem(why, STATUS_NOT_FOUND, "no %s of this set was built yet",
                   links_kinds[wish->kind].title);
}

enum status
generation_document_check(const struct document_wish *wish, struct problem *why)
{
    const struct generations *all = &wish->head.generations[wish->kind];
    const char *title = links_kinds[wish->kind].title;
    struct generation kept;
    enum status rc;

    if (wish->number > all->last || wish->number < wish->head.start_list ||
        wish->number == all->ordered.number)
        return problem(why, STATUS_NOT_FOUND, "there is no such %s", title);
    if (generation_document_has(wish, wish->number, 1))
        return STATUS_OK;
    rc = generation_find(wish->set, &wish->head, wish->kind, wish->number,
                         &kept, why);
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_GONE, "this %s is no longer kept", title);
    if (rc)
        return rc;
    return log_is_shared(registry_log(wish->registry))
               ? problem(why, STATUS_BUSY,
                         "this broker has not built this %s yet", title)
               : problem(why, STATUS_IO, "this %s is not on the disk", title);
}

/* Dumps */

/* Calls `add` for each kept generation from `first` to `last`. */
static enum status
each_generation(const struct document_wish *wish, uint64_t first, uint64_t last,
                void (*add)(void *user, const struct document_wish *wish,
                            const struct generation *g),
                void *user, struct problem *why)
{
    struct generation some[STEP];
    struct generation_page page = {wish->kind, first, some, STEP};
    enum status rc = STATUS_OK;

    while (!rc && page.n == STEP && page.from <= last) {
        rc = log_generations(registry_log(wish->registry), wish->set->log,
                             &page, why);
        for (size_t i = 0; !rc && i < page.n && some[i].number <= last; i++)
            add(user, wish, &some[i]);
        if (!rc && page.n > 0)
            page.from = some[page.n - 1].number + 1;
    }
    return rc;
}

/* The Change Dumps that the index names. */
struct run {
    struct buf entries;
    uint64_t n;
    uint64_t seq;    /* the next dump must begin here */
    int64_t from_us; /* where the first dump begins */
};

/* Adds a dump; after a gap the run begins with it. */
static void
add_dump(void *user, const struct document_wish *wish,
         const struct generation *g)
{
    struct run *run = user;
    struct link_text loc =
        set_link_generation(wish->set, wish->kind, g->number);
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

static enum status
open_one(const struct document_wish *wish, struct document *document,
         struct problem *why)
{
    uint64_t number = generation_last_here(wish->set, wish->kind, &wish->head);
    enum status rc;

    if (number == 0)
        return problem(why, STATUS_BUSY, "this broker has not built the %s yet",
                       links_kinds[wish->kind].title);
    rc = generation_document_open(wish, number, GENERATION_DOCUMENT, 1,
                                  document, why);
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_IO, "the %s is not on the disk",
                       links_kinds[wish->kind].title);
    if (!rc)
        document->modified_us = generation_document_since(wish);
    return rc;
}

/* Opens the current Resource Dump; of Change Dumps the index of the last run,
 * from among the last --index-lists dumps; or the only one itself. */
enum status
dumps_current_open(const struct document_wish *wish, struct document *document,
                   struct problem *why)
{
    uint64_t most = registry_config(wish->registry)->index_lists;
    uint64_t last = wish->head.generations[wish->kind].current.number;
    struct run run = {.n = 0};
    struct buf text;
    enum status rc;

    if (last == 0)
        return generation_document_none(wish, why);
    if (wish->kind != GENERATION_CHANGEDUMP)
        return open_one(wish, document, why);
    buf_init(&run.entries, DOCUMENT_BYTES_MAX);
    rc = each_generation(wish, last > most ? last - most + 1 : 1, last,
                         add_dump, &run, why);
    if (!rc && run.n <= 1) {
        rc = open_one(wish, document, why);
    } else if (!rc) {
        buf_init(&text, DOCUMENT_BYTES_MAX);
        document_begin(&text, wish, DOCUMENT_SITEMAPINDEX,
                       links_kinds[wish->kind].capability, run.from_us,
                       "archives",
                       set_link_kind(wish->set, wish->kind, LINK_ARCHIVE));
        buf_add_slice(&text, buf_slice(&run.entries));
        text.failed |= run.entries.failed;
        document_footer(&text, DOCUMENT_SITEMAPINDEX);
        rc = document_of_text(document, &text, STATUS_OK, why);
    }
    buf_fini(&run.entries);
    return rc;
}

/* Documents that never change. */

static enum status
open_kept(const struct document_wish *wish, enum generation_file file,
          uint64_t part, struct document *document, struct problem *why)
{
    enum status rc = generation_document_check(wish, why);

    if (rc)
        return rc;
    rc =
        generation_document_open(wish, wish->number, file, part, document, why);
    if (rc == STATUS_NOT_FOUND)
        problem_set(why, "this %s has no such package",
                    links_kinds[wish->kind].title);
    if (!rc)
        document->is_final = true;
    return rc;
}

/* A dump, or the manifest of its package `wish->last`. */
enum status
dumps_generation_open(const struct document_wish *wish,
                      struct document *document, struct problem *why)
{
    return wish->last
               ? open_kept(wish, GENERATION_MANIFEST, wish->last, document, why)
               : open_kept(wish, GENERATION_DOCUMENT, 1, document, why);
}

enum status
dumps_package_open(const struct document_wish *wish, struct document *document,
                   struct problem *why)
{
    return open_kept(wish, GENERATION_PACKAGE, wish->last, document, why);
}

/* Archives */

static struct parts
parts_now(const struct document_wish *wish)
{
    const struct generations *all = &wish->head.generations[wish->kind];

    return parts_of_generations(all->n_archived, all->last,
                                registry_config(wish->registry)->index_lists);
}

static void
write_archive_head(struct buf *text, const struct document_wish *wish,
                   enum document_root root, bool has_index)
{
    document_begin(text, wish, root, links_kinds[wish->kind].archive,
                   DATETIME_NONE, has_index ? "index" : NULL,
                   set_link_kind(wish->set, wish->kind, LINK_ARCHIVE));
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

static void
add_archived(void *user, const struct document_wish *wish,
             const struct generation *g)
{
    write_entry(user, DOCUMENT_URLSET,
                set_link_generation(wish->set, wish->kind, g->number), g);
}

/* Opens the kept generations from `first` to `last`. */
static enum status
open_generations(const struct document_wish *wish, uint64_t first,
                 uint64_t last, struct document *document, struct problem *why)
{
    struct buf text;
    size_t header;
    enum status rc;

    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_archive_head(&text, wish, DOCUMENT_URLSET, parts_now(wish).has_index);
    header = text.size;
    rc = each_generation(wish, first, last, add_archived, &text, why);
    if (!rc && text.size == header)
        rc = problem(why, STATUS_NOT_FOUND, "the broker keeps none of these");
    document_footer(&text, DOCUMENT_URLSET);
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

/* Opens the archive, or its index: an entry for each part that is not empty;
 * `at` is that of its first generation. */
enum status
generation_archive_open(const struct document_wish *wish,
                        struct document *document, struct problem *why)
{
    const struct generations *all = &wish->head.generations[wish->kind];
    struct parts parts = parts_now(wish);
    struct generation first;
    struct generation_page page = {wish->kind, 1, &first, 1};
    enum status rc = STATUS_OK;
    struct buf text;

    if (all->n_archived == 0)
        return problem(why, STATUS_NOT_FOUND,
                       "the broker keeps nothing of this kind of this set");
    if (!parts.has_index)
        return open_generations(wish, all->first_archived, all->last, document,
                                why);
    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_archive_head(&text, wish, DOCUMENT_SITEMAPINDEX, false);
    while (page.from <= all->last) {
        uint64_t begin;

        rc = log_generations(registry_log(wish->registry), wish->set->log,
                             &page, why);
        if (rc || page.n == 0)
            break;
        begin = parts_begin(&parts, first.number);
        page.from = begin + parts.size;
        write_entry(&text, DOCUMENT_SITEMAPINDEX,
                    set_link_range(wish->set, links_kinds[wish->kind].folder,
                                   begin, page.from - 1),
                    &first);
    }
    document_footer(&text, DOCUMENT_SITEMAPINDEX);
    return document_of_text(document, &text, rc, why);
}

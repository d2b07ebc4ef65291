#include "broker/archive/build_resourcedump.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "broker/archive/dump_package.h"
#include "proto/fragment.h"

/* Entries put into a manifest in one step. */
#define STEP_ENTRIES 1000

/* Packages of one size; the next ones may be twice as large, so that 50,000
 * packages hold terabytes, however small the first ones are. */
#define LIMIT_PACKAGES 2500

struct resourcedump {
    struct build build;
    struct contents *contents; /* lent */

    struct dump_package *packing; /* the current package; NULL: none */
    bool is_closed;               /* the package has all its entries */

    struct packed {
        struct zip_writer_file file;
        int64_t completed_us;
    } * packages;

    size_t n, capacity;
};

static void
dump_end(struct build *b)
{
    struct resourcedump *d = (struct resourcedump *)b;

    dump_package_free(d->packing);
    free(d->packages);
}

uint64_t
build_resourcedump_limit(uint64_t package_bytes, size_t n)
{
    return package_bytes << n / LIMIT_PACKAGES;
}

/* */
static enum status
begin_package(struct resourcedump *d, struct problem *why)
{
    struct build *b = &d->build;
    struct build_links links;
    struct document_head head;
    enum status rc;

    if (d->n == DOCUMENT_ENTRIES_MAX)
        return problem(why, STATUS_INVALID,
                       "it has more than %d packages: --package-bytes is too "
                       "small for it",
                       DOCUMENT_ENTRIES_MAX);
    build_link_up(b, &links);
    head = build_head(b, DOCUMENT_URLSET, CAP_RESOURCEDUMP_MANIFEST, &links);
    d->is_closed = false;
    rc = dump_package_begin(&d->packing, b->set, b->writer, d->n + 1, &head,
                            why);
    if (!rc)
        dump_package_set_limit(
            d->packing,
            build_resourcedump_limit(
                registry_config(b->set->registry)->package_bytes, d->n));
    return rc;
}

static enum status
find_content(struct content *content, const struct resources_entry *e,
             struct content_bytes *bytes, struct problem *why)
{
    enum status rc = content_find(content, e->seq, bytes, why);
    struct slice loc, type;

    if (rc && rc != STATUS_NOT_FOUND)
        return rc;
    if (!rc && bytes->is_there)
        return STATUS_OK;
    fragment_names(e->entry, &loc, &type);
    return problem(why, STATUS_INVALID, "the content of %s is not there",
                   problem_quote(loc).text);
}

/* Adds some of the next resources, as long as the package has room.
 */
static enum status
add_entries(struct resourcedump *d, struct resources *resources,
            struct problem *why)
{
    struct build *b = &d->build;
    struct content *content;
    enum status rc = contents_open(d->contents, b->set, &content, why);
    bool fits = true;

    for (unsigned i = 0;
         !rc && fits && i < STEP_ENTRIES && b->n < b->generation.n; i++) {
        struct resources_entry e;
        struct content_bytes bytes;

        rc = resources_next(resources, b->id, &e, why);
        if (!rc)
            rc = find_content(content, &e, &bytes, why);
        if (!rc)
            rc = dump_package_add(d->packing, e.entry, &bytes, &fits, why);
        if (rc || !fits)
            break;
        b->id = e.id;
        b->n++;
    }
    if (rc || (fits && b->n < b->generation.n))
        return rc;
    d->is_closed = true;
    return dump_package_close(d->packing, why);
}

static enum status
copy_some(struct resourcedump *d, struct problem *why)
{
    struct packed *packages = ONE_MORE(d->packages, &d->capacity, d->n);
    bool is_done;
    enum status rc;

    if (!packages)
        return problem_memory(why);
    d->packages = packages;
    rc = dump_package_step(d->packing, &is_done, &packages[d->n].file, why);
    if (rc || !is_done)
        return rc;
    packages[d->n++].completed_us = clock_now_us();
    dump_package_free(d->packing);
    d->packing = NULL;
    return STATUS_OK;
}

/* a dump has one document, for any number of packages. */
static enum status
write_document(struct resourcedump *d, struct problem *why)
{
    struct build *b = &d->build;
    struct build_links links;
    struct document_head head;
    enum status rc = generation_part(b->writer, GENERATION_DOCUMENT, 1, why);

    build_link_up(b, &links);
    build_link_archives(b, &links);
    head = build_head(b, DOCUMENT_URLSET, CAP_RESOURCEDUMP, &links);
    head.completed_us = clock_now_us();
    document_header(&b->text, &head);
    for (size_t i = 0; !rc && i < d->n; i++) {
        dump_package_entry(&b->text, b->set, b->generation.kind,
                           b->generation.number, i + 1, &d->packages[i].file,
                           (struct document_entry){
                               .from_us = DATETIME_NONE,
                               .until_us = DATETIME_NONE,
                               .at_us = b->generation.at_us,
                               .completed_us = d->packages[i].completed_us,
                           });
        rc = build_flush(b, BUILD_PIECE_BYTES, why);
    }
    document_footer(&b->text, DOCUMENT_URLSET);
    if (!rc)
        rc = build_flush(b, 0, why);
    if (!rc)
        rc = generation_end_part(b->writer, why);
    generation_set_parts(b->writer, d->n);
    return rc;
}

static enum status
dump_step(struct build *b, struct resources *resources, bool *is_done,
          struct problem *why)
{
    struct resourcedump *d = (struct resourcedump *)b;

    if (d->packing)
        return d->is_closed ? copy_some(d, why)
                            : add_entries(d, resources, why);
    if (b->n < b->generation.n)
        return begin_package(d, why);
    *is_done = true;
    return write_document(d, why);
}

enum status
build_resourcedump_begin(struct build **build, struct set *set,
                         struct contents *contents,
                         const struct resources *resources, bool is_archived,
                         struct problem *why)
{
    static const struct build_rules rules = {dump_step, dump_end};
    struct resourcedump *d = calloc(1, sizeof(*d));
    enum status rc;

    if (!d)
        return problem_memory(why);
    d->contents = contents;
    rc = build_begin(&d->build, &rules, set, GENERATION_RESOURCEDUMP,
                     resources_at(resources), is_archived, why);
    if (!rc)
        *build = &d->build;
    return rc;
}

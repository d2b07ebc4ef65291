#include "broker/builds/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/builds/dump_package.h"
#include "broker/builds/generation.h"
#include "broker/sets/links.h"
#include "proto/memory.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/position.h"

/* Entries put into a manifest in one step. */
#define STEP_ENTRIES 1000

/* Packages of one size; the next ones may be twice as large, so that 50,000
 * packages hold terabytes, however small the first ones are. */
#define LIMIT_PACKAGES 2500

struct build {
    struct set *set;
    struct generation_writer *writer;
    struct generation generation;
    struct coverage coverage;
    bool has_archive;
    int64_t id; /* the last resource that was written, and how many were */
    uint64_t n;
    struct buf text; /* written, and not yet handed over */

    /* A Resource List */
    uint64_t part_entries; /* limit of a part */
    bool has_index;
    uint64_t part; /* the last written part */

    /* A Resource Dump */
    struct dump_package *packing; /* the current package; NULL: none */
    bool is_closed;               /* the package has all its entries */

    struct dump_packages packages;
};

/* Documents */

/* The links of a document's root, `up` first: to the Capability List (R-082,
 * */
struct build_links {
    struct link_text up, index, archives;
    struct document_link links[3];
    size_t n;
};

static void
link_up(const struct build *b, struct build_links *l)
{
    l->up = link_to(registry_public_url(b->set->registry), LINK_CAPABILITYLIST,
                    b->set->name, NULL, 0);
    l->links[0] = (struct document_link){"up", link_slice(&l->up), NULL, NULL};
    l->n = 1;
}

static void
link_index(const struct build *b, struct build_links *l)
{
    l->index =
        link_to_generation(registry_public_url(b->set->registry), b->set->name,
                           b->generation.kind, b->generation.number);
    l->links[l->n++] =
        (struct document_link){"index", link_slice(&l->index), NULL, NULL};
}

static void
link_archives(const struct build *b, struct build_links *l)
{
    if (!b->has_archive)
        return;
    l->archives = link_to_generations(registry_public_url(b->set->registry),
                                      b->set->name, b->generation.kind);
    l->links[l->n++] = (struct document_link){
        "archives", link_slice(&l->archives), NULL, NULL};
}

/* The root of a document of the generation; `links` is lent as long as the head
 * is used. */
static struct document_head
head_of(const struct build *b, enum document_root root,
        enum capability capability, const struct build_links *links)
{
    return (struct document_head){
        .root = root,
        .capability = capability,
        .links = links->links,
        .n_links = links->n,
        .at_us = b->generation.at_us,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .coverage = &b->coverage,
    };
}

static enum status
flush_text(struct build *b, size_t least, struct problem *why)
{
    return generation_flush(b->writer, &b->text, least, why);
}

/* Resource Lists */

/* Sets the entries of a part. An index has a limit, too: where it would
 * exceed that, the parts become larger than configured. */
static void
plan_parts(struct build *b, const struct resources_at *at)
{
    const struct config *config = registry_config(b->set->registry);
    uint64_t least = at->n / DOCUMENT_ENTRIES_MAX + 1;

    b->part_entries = config->resource_list_entries > least
                          ? config->resource_list_entries
                          : least;
    b->has_index = at->n > b->part_entries ||
                   at->bytes > DOCUMENT_BYTES_MAX - DOCUMENT_FRAME_MAX;
}

/* Root links `up`, `index`, `archives`. No
 * `completed`: the first part is written before the last one ends. */
static void
write_header(struct build *b, enum document_root root)
{
    struct build_links links;
    struct document_head head;

    link_up(b, &links);
    if (b->has_index && root == DOCUMENT_URLSET)
        link_index(b, &links);
    link_archives(b, &links);
    head = head_of(b, root, CAP_RESOURCELIST, &links);
    document_header(&b->text, &head);
}

/* Writes the next resources, as many as the part may have: at least one. */
static enum status
write_entries(struct build *b, struct resources *resources, struct problem *why)
{
    uint64_t size = DOCUMENT_FRAME_MAX;
    struct resources_entry e;
    enum status rc = STATUS_OK;

    for (uint64_t i = 0; !rc && i < b->part_entries && b->n < b->generation.n;
         i++) {
        rc = resources_next(resources, b->id, &e, why);
        size += rc ? 0 : e.entry.size;
        if (rc || size > DOCUMENT_BYTES_MAX)
            break;
        buf_add_slice(&b->text, e.entry);
        rc = flush_text(b, GENERATION_PIECE_BYTES, why);
        b->id = e.id;
        b->n++;
    }
    return rc;
}

static enum status
write_part(struct build *b, struct resources *resources, struct problem *why)
{
    enum status rc =
        generation_part(b->writer, GENERATION_DOCUMENT, ++b->part, why);

    if (rc)
        return rc;
    write_header(b, DOCUMENT_URLSET);
    rc = write_entries(b, resources, why);
    document_footer(&b->text, DOCUMENT_URLSET);
    return rc ? rc : flush_text(b, 0, why);
}

/* The index has the same `at` as each part. */
static enum status
write_index(struct build *b, struct problem *why)
{
    const char *url = registry_public_url(b->set->registry);
    enum status rc =
        generation_part(b->writer, GENERATION_DOCUMENT, GENERATION_INDEX, why);

    write_header(b, DOCUMENT_SITEMAPINDEX);
    for (uint64_t part = 1; !rc && part <= b->part; part++) {
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
        rc = flush_text(b, GENERATION_PIECE_BYTES, why);
    }
    document_footer(&b->text, DOCUMENT_SITEMAPINDEX);
    return rc ? rc : flush_text(b, 0, why);
}

static enum status
step_list(struct build *b, struct resources *resources, bool *is_done,
          struct problem *why)
{
    enum status rc = write_part(b, resources, why);

    if (rc || b->n < b->generation.n)
        return rc;
    *is_done = true;
    return b->has_index ? write_index(b, why) : STATUS_OK;
}

/* Resource Dumps */

uint64_t
build_package_limit(uint64_t package_bytes, size_t n)
{
    return package_bytes << n / LIMIT_PACKAGES;
}

/* */
static enum status
begin_package(struct build *b, struct problem *why)
{
    const struct config *config = registry_config(b->set->registry);
    struct build_links links;
    struct document_head head;
    enum status rc;

    if (b->packages.n == DOCUMENT_ENTRIES_MAX)
        return problem(why, STATUS_INVALID,
                       "it has more than %d packages: --package-bytes is too "
                       "small for it",
                       DOCUMENT_ENTRIES_MAX);
    link_up(b, &links);
    head = head_of(b, DOCUMENT_URLSET, CAP_RESOURCEDUMP_MANIFEST, &links);
    b->is_closed = false;
    dump_packages_begin(&b->packages);
    rc = dump_package_begin(&b->packing, b->set, b->writer, b->packages.n + 1,
                            &head, why);
    if (!rc)
        dump_package_set_limit(
            b->packing,
            build_package_limit(config->package_bytes, b->packages.n));
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

/* Adds some of the next resources, as long as the package has room. */
static enum status
add_entries(struct build *b, struct resources *resources,
            struct content *content, struct problem *why)
{
    enum status rc = STATUS_OK;
    bool fits = true;

    for (unsigned i = 0; fits && i < STEP_ENTRIES && b->n < b->generation.n;
         i++) {
        struct resources_entry e;
        struct content_bytes bytes;

        rc = resources_next(resources, b->id, &e, why);
        if (!rc)
            rc = find_content(content, &e, &bytes, why);
        if (!rc)
            rc = dump_package_add(b->packing, e.entry, &bytes, &fits, why);
        if (rc || !fits)
            break;
        b->id = e.id;
        b->n++;
    }
    if (rc || (fits && b->n < b->generation.n))
        return rc;
    b->is_closed = true;
    return dump_package_close(b->packing, why);
}

static enum status
copy_some(struct build *b, struct problem *why)
{
    bool is_done;
    enum status rc =
        dump_packages_step(&b->packages, &b->packing, &is_done, why);

    if (!rc && is_done)
        b->packages.all[b->packages.n - 1].times =
            (struct document_entry){.from_us = DATETIME_NONE,
                                    .until_us = DATETIME_NONE,
                                    .at_us = b->generation.at_us,
                                    .completed_us = clock_now_us()};
    return rc;
}

/* a dump has one document, for any number of packages. */
static enum status
write_document(struct build *b, struct problem *why)
{
    struct build_links links;
    struct document_head head;

    link_up(b, &links);
    link_archives(b, &links);
    head = head_of(b, DOCUMENT_URLSET, CAP_RESOURCEDUMP, &links);
    head.completed_us = clock_now_us();
    return dump_packages_write(&b->packages, b->set, &b->generation, b->writer,
                               &head, &b->text, why);
}

bool
build_needs_content(const struct build *b)
{
    return b->packing && !b->is_closed;
}

static enum status
step_dump(struct build *b, struct resources *resources, struct content *content,
          bool *is_done, struct problem *why)
{
    if (b->packing)
        return b->is_closed ? copy_some(b, why)
                            : add_entries(b, resources, content, why);
    if (b->n < b->generation.n)
        return begin_package(b, why);
    *is_done = true;
    return write_document(b, why);
}

/* Life */

enum status
build_begin(struct build **build, struct set *set, enum generation_kind kind,
            const struct resources *resources, uint64_t number,
            bool is_archived, struct problem *why)
{
    const struct resources_at *at = resources_at(resources);
    struct build *b;
    struct head head;
    enum status rc;

    if (!log_head(set->log, &head))
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    b = memory_new(1, sizeof(*b));
    b->set = set;
    b->generation = (struct generation){
        .kind = kind,
        .number = number,
        .seq = at->seq,
        .at_us = at->seq > 0 ? at->us : head.created_us,
        .n = at->n,
        .is_archived = is_archived,
    };
    b->coverage = (struct coverage){
        .last = at->seq,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .now_us = DATETIME_NONE,
    };
    memcpy(b->coverage.epoch, head.epoch, sizeof(b->coverage.epoch));
    /* At all brokers of a cluster the same, whenever they build an ordered
     * list: an archive keeps its last generation as long as there is the set,
     * and only an archived list is built when a later one is archived. */
    b->has_archive = is_archived || head.generations[kind].n_archived > 0;
    buf_init(&b->text,
             GENERATION_PIECE_BYTES + FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
    plan_parts(b, at);
    rc = generation_begin(&b->writer, set, &b->generation, why);
    if (rc)
        free(b);
    else
        *build = b;
    return rc;
}

void
build_abandon(struct build *b)
{
    if (!b)
        return;
    dump_package_free(b->packing); /* before the writer ends */
    free(b->packages.all);
    if (b->writer)
        generation_abandon(b->writer);
    buf_fini(&b->text);
    free(b);
}

/* True if the build began with this state. A damaged state begins anew. */
static bool
is_same_state(const struct build *b, const struct resources *resources)
{
    const struct resources_at *at = resources_at(resources);

    return at->seq == b->generation.seq && at->n == b->generation.n;
}

enum status
build_step(struct build *b, struct resources *resources,
           struct content *content, bool *is_done, struct problem *why)
{
    enum status rc;

    *is_done = false;
    if (!is_same_state(b, resources))
        rc = problem(why, STATUS_IO, "the state of the set has begun anew");
    else if (b->generation.kind == GENERATION_RESOURCEDUMP)
        rc = step_dump(b, resources, content, is_done, why);
    else
        rc = step_list(b, resources, is_done, why);
    if (!rc && *is_done) {
        rc = generation_finish(b->writer, why);
        b->writer = NULL; /* freed either way */
    }
    if (rc || *is_done)
        build_abandon(b);
    return rc;
}

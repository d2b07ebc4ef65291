#include "broker/builds/build.h"

#include "base/array.h"
#include "broker/builds/dump_package.h"
#include "broker/builds/generation.h"
#include "broker/sets/set_links.h"
#include "proto/resourcesync/document_write.h"

/* Entries put into a manifest in one step: each costs a query of content.db. */
#define STEP_ENTRIES 1000

/* Packages of one size; the next ones may be twice as large, so that 50,000
 * packages hold terabytes, however small the first ones are. */
#define LIMIT_PACKAGES 2500

/* A package of a dump. */
struct packaged {
    struct zip_writer_file file;
    struct document_entry times; /* as its entry has them */
    uint64_t end;                /* of changes: b->n behind its last entry */
};

struct build {
    struct set *set;
    struct generation_writer *writer;
    struct generation generation;
    struct coverage coverage; /* of the document */
    struct id_sum_text sum;   /* of its resources; "": not known */
    bool has_archive;
    uint64_t n; /* entries that were written, or planned */
    int64_t id; /* of a state: the last resource of these */

    /* A Resource List */
    uint64_t part_entries; /* limit of a part */
    bool has_index;
    uint64_t part; /* the last written part */

    /* A dump */
    enum { BETWEEN, PLANNING, ADDING, COPYING } at;

    struct dump_package
        *packing;              /* the current package, or its plan; or NULL */
    struct packaged *packages; /* whole ones, and behind them the current */
    size_t n_packages, capacity;
    struct batch *batch; /* of changes: of the last entry read; or NULL */
};

static bool
is_of_changes(const struct build *b)
{
    return b->generation.kind == GENERATION_CHANGEDUMP;
}

/* When it is whole. In a cluster all brokers say when it was ordered. */
static int64_t
completed(const struct build *b)
{
    return b->generation.completed_us > 0 ? b->generation.completed_us
                                          : clock_now_us();
}

/* Documents */

/* The links of a document's root, `up` first: to the Capability List. */
struct build_links {
    struct link_text texts[3];
    struct document_link links[3];
    size_t n;
};

static void
add_link(struct build_links *l, const char *rel, struct link_text text)
{
    l->texts[l->n] = text;
    l->links[l->n] =
        (struct document_link){rel, link_slice(&l->texts[l->n]), NULL, NULL};
    l->n++;
}

/* The root of a document of the generation; *l is lent as long as the head is
 * used. Links: `up`, `index` (R-083;
 * of Change Dumps, for from the second one on there is one: R-182), `archives`
 * of a manifest only `up`. */
static struct document_head
make_head(const struct build *b, enum document_root root,
          enum capability capability, struct build_links *l)
{
    enum generation_kind kind = b->generation.kind;
    bool is_manifest = capability == CAP_RESOURCEDUMP_MANIFEST ||
                       capability == CAP_CHANGEDUMP_MANIFEST;

    l->n = 0;
    add_link(l, "up", set_link(b->set, LINK_CAPABILITYLIST));
    if (is_of_changes(b) && !is_manifest)
        add_link(l, "index", set_link_kind(b->set, kind, LINK_CURRENT));
    else if (b->has_index && root == DOCUMENT_URLSET)
        add_link(l, "index",
                 set_link_generation(b->set, kind, b->generation.number));
    if (b->has_archive && !is_manifest)
        add_link(l, "archives", set_link_kind(b->set, kind, LINK_ARCHIVE));
    return (struct document_head){
        .root = root,
        .capability = capability,
        .links = l->links,
        .n_links = l->n,
        .at_us = is_of_changes(b) ? 0 : b->generation.at_us,
        .from_us = is_of_changes(b) ? b->generation.from_us : 0,
        .until_us = is_of_changes(b) ? b->generation.at_us : 0,
        .coverage = &b->coverage,
        .sum = b->sum.text[0] && capability == CAP_RESOURCELIST ? b->sum.text
                                                                : NULL,
    };
}

/* Resource Lists */

/* No `completed`: the first part is written before the last one ends. */
static void
write_header(struct build *b, enum document_root root)
{
    struct build_links links;
    struct document_head head = make_head(b, root, CAP_RESOURCELIST, &links);

    document_header(&b->writer->text, &head);
}

/* The index has the same `at` as each part. */
static enum status
write_index(struct build *b, struct problem *why)
{
    enum status rc =
        generation_part(b->writer, GENERATION_DOCUMENT, GENERATION_INDEX, why);

    write_header(b, DOCUMENT_SITEMAPINDEX);
    for (uint64_t part = 1; !rc && part <= b->part; part++) {
        struct link_text loc = set_link_part(
            b->set, b->generation.kind, b->generation.number, part, LINK_PART);
        struct document_entry entry = {
            .loc = link_slice(&loc),
            .at_us = b->generation.at_us,
        };

        document_entry(&b->writer->text, DOCUMENT_SITEMAPINDEX, &entry);
        rc = generation_flush(b->writer, why);
    }
    document_footer(&b->writer->text, DOCUMENT_SITEMAPINDEX);
    return rc;
}

/* Writes the next part, and behind the last one the index. */
static enum status
step_list(struct build *b, struct resources *resources, bool *is_done,
          struct problem *why)
{
    uint64_t size = DOCUMENT_FRAME_MAX;
    struct resources_entry e;
    enum status rc =
        generation_part(b->writer, GENERATION_DOCUMENT, ++b->part, why);

    if (rc)
        return rc;
    write_header(b, DOCUMENT_URLSET);
    /* As many resources as the part may have: at least one. */
    for (uint64_t i = 0; !rc && i < b->part_entries && b->n < b->generation.n;
         i++) {
        rc = resources_next(resources, b->id, &e, why);
        size += rc ? 0 : e.entry.size;
        if (rc || size > DOCUMENT_BYTES_MAX)
            break;
        buf_add_slice(&b->writer->text, e.entry);
        rc = generation_flush(b->writer, why);
        b->id = e.id;
        b->n++;
    }
    document_footer(&b->writer->text, DOCUMENT_URLSET);
    if (rc || b->n < b->generation.n)
        return rc;
    *is_done = true;
    return b->has_index ? write_index(b, why) : STATUS_OK;
}

/* Dumps */

uint64_t
build_package_limit(uint64_t package_bytes, size_t n)
{
    return package_bytes << n / LIMIT_PACKAGES;
}

/* Begins the next package. That of a Change Dump was planned, and covers the
 * entries behind the one before. */
static enum status
begin_package(struct build *b, struct problem *why)
{
    const struct packaged *package = &b->packages[b->n_packages];
    uint64_t limit = b->set->registry->config->package_bytes;
    struct coverage coverage = b->coverage;
    struct build_links links;
    struct document_head head = make_head(
        b, DOCUMENT_URLSET,
        is_of_changes(b) ? CAP_CHANGEDUMP_MANIFEST : CAP_RESOURCEDUMP_MANIFEST,
        &links);

    if (is_of_changes(b)) {
        b->n = b->n_packages > 0 ? package[-1].end : 0;
        coverage.after = b->generation.after + b->n;
        coverage.last = b->generation.after + package->end;
        head.from_us = package->times.from_us;
        head.until_us = package->times.until_us;
        head.coverage = &coverage;
        dump_package_free(b->packing); /* the plan */
        b->packing = NULL;
    } else {
        limit = build_package_limit(limit, b->n_packages);
    }
    b->at = ADDING;
    return dump_package_begin(&b->packing, b->writer, b->n_packages + 1, limit,
                              &head, why);
}

/* Begins the next package, or its plan. */
static enum status
next_package(struct build *b, struct problem *why)
{
    struct packaged *package;

    if (b->n_packages == DOCUMENT_ENTRIES_MAX)
        return problem(why, STATUS_INVALID,
                       "it has more than %d packages: --package-bytes is too "
                       "small for it",
                       DOCUMENT_ENTRIES_MAX);
    (void)ONE_MORE(b->packages, &b->capacity, b->n_packages);
    package = &b->packages[b->n_packages];
    *package = (struct packaged){.end = 0};
    if (!is_of_changes(b))
        return begin_package(b, why);
    package->times.from_us =
        b->n_packages > 0 ? package[-1].times.until_us : b->generation.from_us;
    b->packing = dump_package_plan(b->set->registry->config->package_bytes);
    b->at = PLANNING;
    return STATUS_OK;
}

/* An entry of a dump. */
struct dump_entry {
    struct slice text;                 /* lent until the next one is read */
    int64_t id;                        /* of a resource */
    int64_t us;                        /* of a change */
    const struct content_bytes *bytes; /* NULL: a deleted resource */
    struct content_bytes found;
};

/* Finds the content of the entry `seq`. */
static enum status
find_content(struct content *content, uint64_t seq, struct dump_entry *e,
             struct problem *why)
{
    enum status rc = content_find(content, seq, &e->found, why);
    struct slice loc, type;

    e->bytes = &e->found;
    if ((rc && rc != STATUS_NOT_FOUND) || (!rc && e->found.is_there))
        return rc;
    fragment_names(e->text, &loc, &type);
    return problem(why, STATUS_INVALID,
                   "the content of entry %" PRIu64 ", %s, is not there", seq,
                   problem_quote(loc).text);
}

static enum status
read_change(struct build *b, struct content *content, struct dump_entry *e,
            struct problem *why)
{
    uint64_t seq = b->generation.after + b->n + 1;
    enum status rc = STATUS_OK;

    if (!b->batch || seq < b->batch->first || seq > b->batch->last) {
        batch_unref(b->batch);
        b->batch = NULL;
        rc = log_read(b->set->registry->log, b->set->log, seq - 1, LOG_DISK,
                      &b->batch, why);
    }
    if (!rc && !b->batch)
        rc = problem(why, STATUS_IO, "the entries end too soon");
    if (rc)
        return rc;
    e->text = batch_slice(b->batch, seq - 1, seq);
    e->us = batch_time(b->batch, seq);
    e->bytes = NULL;
    return fragment_kind(e->text.data,
                         b->batch->entries[seq - b->batch->first].stamp) ==
                   CHANGE_DELETED
               ? STATUS_OK
               : find_content(content, seq, e, why);
}

/* Adds some of the next entries to the package or its plan, up to b->n = `end`.
 * *is_full: the next one has no room, or there is none. */
static enum status
add_entries(struct build *b, struct resources *resources,
            struct content *content, uint64_t end, bool *is_full,
            struct problem *why)
{
    struct packaged *package = &b->packages[b->n_packages];
    struct resources_entry entry;
    enum status rc = STATUS_OK;
    bool fits = true;

    for (unsigned i = 0; i < STEP_ENTRIES && b->n < end; i++) {
        struct dump_entry e = {.id = 0};

        if (is_of_changes(b)) {
            rc = read_change(b, content, &e, why);
        } else {
            rc = resources_next(resources, b->id, &entry, why);
            e.text = entry.entry;
            e.id = entry.id;
            if (!rc)
                rc = find_content(content, entry.seq, &e, why);
        }
        if (!rc)
            rc = dump_package_add(b->packing, e.text, e.bytes, &fits, why);
        if (rc || !fits)
            break;
        b->id = e.id;
        b->n++;
        if (b->at == PLANNING) {
            package->end = b->n;
            package->times.until_us = e.us;
        }
    }
    *is_full = !fits || b->n == end;
    return rc;
}

/* a dump has one document, for any number of packages.
 * Each has its entry. */
static enum status
write_document(struct build *b, struct problem *why)
{
    const struct generation *g = &b->generation;
    struct build_links links;
    struct document_head head =
        make_head(b, DOCUMENT_URLSET,
                  is_of_changes(b) ? CAP_CHANGEDUMP : CAP_RESOURCEDUMP, &links);
    enum status rc = generation_part(b->writer, GENERATION_DOCUMENT, 1, why);

    if (!is_of_changes(b))
        head.completed_us = completed(b);
    document_header(&b->writer->text, &head);
    for (size_t i = 0; !rc && i < b->n_packages; i++) {
        const struct packaged *package = &b->packages[i];
        struct link_text loc =
            set_link_part(b->set, g->kind, g->number, i + 1, LINK_PACKAGE);
        struct link_text contents =
            set_link_part(b->set, g->kind, g->number, i + 1, LINK_MANIFEST);
        const struct document_link link = {"contents", link_slice(&contents),
                                           NULL, "application/xml"};
        const struct document_bytes bytes = {
            ZIP_WRITER_TYPE, package->file.length, package->file.digest};
        struct document_entry entry = package->times;

        entry.loc = link_slice(&loc);
        entry.bytes = &bytes;
        entry.links = &link;
        entry.n_links = 1;
        document_entry(&b->writer->text, DOCUMENT_URLSET, &entry);
        rc = generation_flush(b->writer, why);
    }
    document_footer(&b->writer->text, DOCUMENT_URLSET);
    if (!rc)
        rc = generation_end_part(b->writer, why);
    b->writer->generation.parts = b->n_packages;
    return rc;
}

bool
build_needs_content(const struct build *b)
{
    return b->at == PLANNING || b->at == ADDING;
}

static enum status
step_dump(struct build *b, struct resources *resources, struct content *content,
          bool *is_done, struct problem *why)
{
    bool is_packed = b->at != BETWEEN, is_full;
    struct packaged *package = is_packed ? &b->packages[b->n_packages] : NULL;
    uint64_t end =
        b->at == ADDING && is_of_changes(b) ? package->end : b->generation.n;
    enum status rc;

    switch (b->at) {
    case PLANNING:
        rc = add_entries(b, NULL, content, end, &is_full, why);
        return rc || !is_full ? rc : begin_package(b, why);
    case ADDING:
        rc = add_entries(b, resources, content, end, &is_full, why);
        if (rc || !is_full)
            return rc;
        if (is_of_changes(b) &&
            b->n < end) /* the manifest is planned for more */
            return problem(why, STATUS_INVALID,
                           "the content of entry %" PRIu64 " has grown",
                           b->generation.after + b->n);
        b->at = COPYING;
        return dump_package_close(b->packing, why);
    case COPYING:
        rc = dump_package_step(b->packing, &is_full, &package->file, why);
        if (rc || !is_full)
            return rc;
        dump_package_free(b->packing);
        b->packing = NULL;
        b->n_packages++;
        b->at = BETWEEN;
        if (!is_of_changes(b))
            package->times = (struct document_entry){
                .at_us = b->generation.at_us, .completed_us = completed(b)};
        return STATUS_OK;
    case BETWEEN:
        break;
    }
    if (b->n < b->generation.n)
        return next_package(b, why);
    *is_done = true;
    return write_document(b, why);
}

/* Life */

/* At all brokers of a cluster `has_archive` is the same, whenever they build an
 * ordered list: an archive keeps its last generation as long as there is the
 * set, and only an archived list is built when a later one is archived. */
static enum status
begin_generation(struct build **build, struct set *set,
                 const struct generation *generation, struct problem *why)
{
    struct build *b;
    struct head head;
    enum status rc;

    if (!log_head(set->log, &head))
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    b = memory_new(1, sizeof(*b));
    b->set = set;
    b->generation = *generation;
    if (generation->seq == 0)
        b->generation.at_us = head.created_us;
    b->has_archive = generation->is_archived ||
                     head.generations[generation->kind].n_archived > 0;
    b->coverage = (struct coverage){
        .after = generation->after,
        .last = generation->seq,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .now_us = DATETIME_NONE,
    };
    rc = generation_begin(&b->writer, set, &b->generation, why);
    /* At all brokers of a cluster that of its order. */
    memcpy(b->coverage.epoch,
           generation->kind < GENERATION_STATES &&
                   b->generation.number <= head.former_builds[generation->kind]
               ? head.former
               : head.epoch,
           sizeof(b->coverage.epoch));
    if (rc)
        build_abandon(b);
    else
        *build = b;
    return rc;
}

enum status
build_begin(struct build **build, struct set *set, enum generation_kind kind,
            const struct resources *resources, const struct generation *order,
            bool is_archived, struct problem *why)
{
    const struct resources_at *at = resources_at(resources);
    const struct generation generation = {
        .kind = kind,
        .number = order ? order->number : 0,
        .completed_us = order ? order->completed_us : 0,
        .seq = at->seq,
        .at_us = at->us,
        .n = at->n,
        .is_archived = is_archived,
    };
    /* The entries of a part. An index has a limit, too: where it would
     * exceed that, the parts become larger than configured. */
    uint64_t entries = set->registry->config->resource_list_entries;
    uint64_t least = at->n / DOCUMENT_ENTRIES_MAX + 1;
    struct id_sum sum;
    enum status rc = begin_generation(build, set, &generation, why);

    if (rc || kind != GENERATION_RESOURCELIST)
        return rc;
    /* All brokers of a cluster make the same bytes, and somebody has asked only
     * some of them for ids. */
    if (at->has_ids && !log_is_shared(set->registry->log)) {
        resources_sum(resources, &sum);
        (*build)->sum = id_sum_text(&sum);
    }
    (*build)->part_entries = entries > least ? entries : least;
    (*build)->has_index = at->n > (*build)->part_entries ||
                          at->bytes > DOCUMENT_BYTES_MAX - DOCUMENT_FRAME_MAX;
    return STATUS_OK;
}

enum status
build_begin_changes(struct build **build, struct set *set,
                    const struct list_info *list, uint64_t number,
                    struct problem *why)
{
    const struct generation generation = {
        .kind = GENERATION_CHANGEDUMP,
        .number = number,
        .after = list->after,
        .seq = list->last,
        .from_us = list->from_us,
        .at_us = list->until_us,
        .n = list->last - list->after,
        .is_archived = true,
    };

    return begin_generation(build, set, &generation, why);
}

void
build_abandon(struct build *b)
{
    if (!b)
        return;
    dump_package_free(b->packing); /* it writes in the folder of the writer */
    if (b->writer)
        generation_abandon(b->writer);
    batch_unref(b->batch);
    free(b->packages);
    free(b);
}

/* False: the epoch has changed since the build began. */
static bool
is_of_epoch(const struct build *b)
{
    struct head head;

    return log_is_shared(b->set->registry->log) ||
           !log_head(b->set->log, &head) ||
           !strcmp(head.epoch, b->coverage.epoch);
}

enum status
build_step(struct build *b, struct resources *resources,
           struct content *content, bool *is_done, struct problem *why)
{
    const struct resources_at *at = resources ? resources_at(resources) : NULL;
    enum status rc;

    *is_done = false;
    if (at && (at->seq != b->generation.seq || at->n != b->generation.n))
        rc = problem(why, STATUS_IO, "the state of the set has begun anew");
    else if (b->generation.kind == GENERATION_RESOURCELIST)
        rc = step_list(b, resources, is_done, why);
    else
        rc = step_dump(b, resources, content, is_done, why);
    if (!rc && *is_done && !is_of_epoch(b))
        rc = problem(why, STATUS_AGAIN, "the set has a new epoch");
    if (!rc && *is_done) {
        rc = generation_finish(b->writer, why);
        b->writer = NULL; /* freed either way */
    }
    if (rc || *is_done)
        build_abandon(b);
    return rc;
}

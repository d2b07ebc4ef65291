#include "broker/builds/build_changedump.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/builds/dump_package.h"
#include "broker/builds/generation.h"
#include "broker/sets/links.h"
#include "proto/memory.h"
#include "proto/resourcesync/document_write.h"

/* Entries of a step: each costs a query of content.db. */
#define STEP_ENTRIES 2000

struct changedump {
    struct set *set;
    struct list_info list;
    char epoch[EPOCH_SIZE + 1];
    struct generation generation;
    struct generation_writer *writer;

    enum { PLANNING, ADDING, COPYING } at;
    struct dump_package *packing; /* the current package, or its plan */
    uint64_t seq;                 /* the last entry planned or added */
    struct batch *batch;          /* of the last entry read; or NULL */

    struct dump_packages packages; /* the current one as planned */
    struct buf text;
};

static void
dump_free(struct changedump *d)
{
    dump_package_free(d->packing);
    batch_unref(d->batch);
    buf_fini(&d->text);
    free(d->packages.all);
    free(d);
}

void
build_changedump_abandon(struct changedump *d)
{
    if (!d)
        return;
    dump_package_free(
        d->packing); /* it writes in the folder of the generation */
    d->packing = NULL;
    if (d->writer)
        generation_abandon(d->writer);
    dump_free(d);
}

enum status
build_changedump_begin(struct changedump **dump, struct set *set,
                       const struct list_info *list, struct problem *why)
{
    struct changedump *d;
    struct head head;
    enum status rc;

    if (!log_head(set->log, &head))
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    d = memory_new(1, sizeof(*d));
    buf_init(&d->text, GENERATION_PIECE_BYTES + DOCUMENT_FRAME_MAX);
    d->set = set;
    d->list = *list;
    d->seq = list->after;
    memcpy(d->epoch, head.epoch, sizeof(d->epoch));
    d->generation = (struct generation){
        .kind = GENERATION_CHANGEDUMP,
        .after = list->after,
        .seq = list->last,
        .from_us = list->from_us,
        .at_us = list->until_us,
        .n = list->last - list->after,
        .is_archived = true,
    };
    rc = generation_begin(&d->writer, set, &d->generation, why);
    if (rc)
        dump_free(d);
    else
        *dump = d;
    return rc;
}

/* Entries */

struct dump_entry {
    struct slice text; /* lent until the next one is read */
    int64_t us;
    const struct content_bytes *bytes; /* NULL: a deleted resource */
    struct content_bytes found;
};

static enum status
read_batch(struct changedump *d, uint64_t seq, struct problem *why)
{
    enum status rc;

    if (d->batch && d->batch->first <= seq && seq <= d->batch->last)
        return STATUS_OK;
    batch_unref(d->batch);
    d->batch = NULL;
    rc = log_read(registry_log(d->set->registry), d->set->log, seq - 1,
                  LOG_DISK, &d->batch, why);
    return rc || d->batch ? rc
                          : problem(why, STATUS_IO, "the entries end too soon");
}

static enum status
read_entry(struct changedump *d, struct content *content, uint64_t seq,
           struct dump_entry *entry, struct problem *why)
{
    enum status rc = read_batch(d, seq, why);
    uint32_t stamp;

    if (rc)
        return rc;
    stamp = d->batch->entries[seq - d->batch->first].stamp;
    entry->text = batch_slice(d->batch, seq - 1, seq);
    entry->us = batch_time(d->batch, seq);
    entry->bytes = NULL;
    if (fragment_kind(entry->text.data, stamp) == CHANGE_DELETED)
        return STATUS_OK;
    rc = content_find(content, seq, &entry->found, why);
    if (rc == STATUS_NOT_FOUND || (!rc && !entry->found.is_there))
        return problem(why, STATUS_INVALID,
                       "the content of entry %" PRIu64 " is not there", seq);
    entry->bytes = &entry->found;
    return rc;
}

/* Adds some entries behind d->seq, none behind `last`. *is_full: the next one
 * has no room, or there is none. */
static enum status
add_some(struct changedump *d, struct content *content, uint64_t last,
         bool *is_full, struct problem *why)
{
    enum status rc = STATUS_OK;
    bool fits = true;

    for (unsigned i = 0; !rc && i < STEP_ENTRIES && fits && d->seq < last;
         i++) {
        struct dump_entry entry;

        rc = read_entry(d, content, d->seq + 1, &entry, why);
        if (!rc)
            rc = dump_package_add(d->packing, entry.text, entry.bytes, &fits,
                                  why);
        if (rc || !fits)
            break;
        d->seq++;
        if (d->at == PLANNING) {
            d->packages.all[d->packages.n].last = d->seq;
            d->packages.all[d->packages.n].times.until_us = entry.us;
        }
    }
    *is_full = !fits || d->seq == last;
    return rc;
}

/* Packages */

/* Of the document, or of the manifest of a package. Root links `up` (R-181,
 * R-192); of the document also `index`, for from the second dump on there is
 * one, and `archives`. */
static void
write_head(const struct changedump *d, const struct dump_packaged *package,
           struct document_head *head, struct coverage *coverage)
{
    *coverage = (struct coverage){
        .after = package ? d->seq : d->list.after,
        .last = package ? package->last : d->list.last,
        .now_us = DATETIME_NONE,
    };
    memcpy(coverage->epoch, d->epoch, sizeof(coverage->epoch));
    head->root = DOCUMENT_URLSET;
    head->from_us = package ? package->times.from_us : d->list.from_us;
    head->until_us = package ? package->times.until_us : d->list.until_us;
    head->coverage = coverage;
}

static enum status
begin_package(struct changedump *d, struct problem *why)
{
    size_t n = d->packages.n;
    struct dump_packaged *package = &d->packages.all[n];
    struct link_text up = link_to(registry_public_url(d->set->registry),
                                  LINK_CAPABILITYLIST, d->set->name, NULL, 0);
    const struct document_link link = {"up", link_slice(&up), NULL, NULL};
    struct coverage coverage;
    struct document_head head = {
        .capability = CAP_CHANGEDUMP_MANIFEST,
        .links = &link,
        .n_links = 1,
    };

    d->seq = n > 0 ? package[-1].last : d->list.after;
    package->times.from_us =
        n > 0 ? package[-1].times.until_us : d->list.from_us;
    write_head(d, package, &head, &coverage);
    dump_package_free(d->packing);
    d->packing = NULL;
    d->at = ADDING;
    return dump_package_begin(&d->packing, d->set, d->writer, n + 1, &head,
                              why);
}

static enum status
plan_packages(struct changedump *d, struct content *content,
              struct problem *why)
{
    bool is_full = false;
    enum status rc;

    if (!d->packing) {
        dump_packages_begin(&d->packages);
        d->packing = dump_package_plan(d->set);
    }
    rc = add_some(d, content, d->list.last, &is_full, why);
    return rc || !is_full ? rc : begin_package(d, why);
}

static enum status
add_entries(struct changedump *d, struct content *content, struct problem *why)
{
    uint64_t last = d->packages.all[d->packages.n].last;
    bool is_full = false;
    enum status rc = add_some(d, content, last, &is_full, why);

    if (rc || !is_full)
        return rc;
    if (d->seq < last) /* the manifest is planned for more */
        return problem(why, STATUS_INVALID,
                       "the content of entry %" PRIu64 " has grown", d->seq);
    d->at = COPYING;
    return dump_package_close(d->packing, why);
}

static enum status
copy_content(struct changedump *d, struct problem *why)
{
    bool is_done;
    enum status rc =
        dump_packages_step(&d->packages, &d->packing, &is_done, why);

    if (!rc && is_done)
        d->at = PLANNING;
    return rc;
}

/* The document */

/* The writer goes either way. */
static enum status
write_document(struct changedump *d, struct problem *why)
{
    const char *url = registry_public_url(d->set->registry);
    const char *name = d->set->name;
    struct link_text up = link_to(url, LINK_CAPABILITYLIST, name, NULL, 0);
    struct link_text index = link_to_current(url, name, GENERATION_CHANGEDUMP);
    struct link_text archives =
        link_to_generations(url, name, GENERATION_CHANGEDUMP);
    const struct document_link links[] = {
        {"up", link_slice(&up), NULL, NULL},
        {"index", link_slice(&index), NULL, NULL},
        {"archives", link_slice(&archives), NULL, NULL},
    };
    struct coverage coverage;
    struct document_head head = {
        .capability = CAP_CHANGEDUMP,
        .links = links,
        .n_links = 3,
    };
    enum status rc;

    write_head(d, NULL, &head, &coverage);
    rc = dump_packages_write(&d->packages, d->set, &d->generation, d->writer,
                             &head, &d->text, why);
    if (rc)
        return rc;
    rc = generation_finish(d->writer, why);
    d->writer = NULL;
    return rc;
}

static enum status
step_changedump(struct changedump *d, struct content *content, bool *is_done,
                struct problem *why)
{
    switch (d->at) {
    case ADDING:
        return add_entries(d, content, why);
    case COPYING:
        return copy_content(d, why);
    case PLANNING:
        break;
    }
    if (d->seq < d->list.last)
        return plan_packages(d, content, why);
    *is_done = true;
    return write_document(d, why);
}

enum status
build_changedump_step(struct changedump *d, struct content *content,
                      bool *is_done, struct problem *why)
{
    enum status rc;

    *is_done = false;
    rc = step_changedump(d, content, is_done, why);
    if (rc)
        build_changedump_abandon(d);
    else if (*is_done)
        dump_free(d);
    return rc;
}

/*
 * change_packages.c - files from the packages of Change Dumps: chooses what
 * baseline.h reads.
 */
#include "client/mirror/change_packages.h"

#include "client/baseline/baseline.h"
#include "client/mirror/file_sync.h"

/* It weighs so many documents, manifests and packages; files of the others come
 * one by one. */
#define LOOKS_MAX 10000

struct change_packages {
    struct mirror *m;
    int64_t set;
    void (*on_end)(void *user);
    void *user;
    char *path; /* of the scratch directory */
    struct baseline *baseline;
    unsigned n_looks;
    uint64_t n, bytes;      /* what a part has of what is wanted */
    uint64_t members_bytes; /* of all members, as the manifest says */
    bool is_manifest;       /* that is read */
    int64_t as_of_us;       /* 0: of the present */
};

/* Reports why files are fetched one by one. */
static void
on_note(const char *why, void *user)
{
    struct change_packages *p = user;
    char text[1200];

    snprintf(text, sizeof(text),
             "a dump: %.1000s; its files are fetched one by one", why);
    MIRROR_REPORT(p->m, TD_SYNC_TROUBLE, .why = text);
}

/* Counts an entry of a manifest, or takes the file of a package. */
static bool
on_entry(const struct document_entry *e, const char *file, void *user)
{
    struct change_packages *p = user;
    const struct mirror_db_description t = {
        .loc = e->change.loc,
        .hash = e->change.hash,
        .length = e->change.length,
        .when_us = e->has_kind || !p->as_of_us ? e->when_us : INT64_MAX};
    struct mirror_db_resource r;
    char path[PATH_MAX];

    if (p->is_manifest && t.length != LENGTH_NONE)
        p->members_bytes += t.length;
    if (p->m->is_over || !e->path.size || !file_sync_wants(p->m, &t, &r))
        return true;
    if (p->is_manifest) {
        p->n++;
        p->bytes += r.bytes;
    } else if (!file) {
        on_note("a member of a package is not what the manifest says", p);
    } else {
        snprintf(path, sizeof(path), "%s/%s", p->path, file);
        (void)file_sync_adopt(p->m->work, &t, path);
    }
    return true;
}

/* Weighs a part against what it has of what is wanted: a package by its own
 * manifest, which was read before, else by its times. */
static bool
takes_part(const struct part *part, void *user)
{
    struct change_packages *p = user;
    uint64_t request = CHANGE_PACKAGES_REQUEST, length = part->length;
    uint64_t single;

    /* Notes the files of the package before: they are wanted no more. */
    if (p->m->is_over || p->n_looks++ >= LOOKS_MAX ||
        !file_sync_finish(p->m->work) ||
        (!part->has_manifest &&
         !mirror_db_wanted(&p->m->db, p->set, part->from_us, part->until_us,
                           &p->n, &p->bytes)))
        return false;
    single = p->bytes + p->n * request;
    p->is_manifest = part->is_manifest;
    if (part->has_manifest && length == LENGTH_NONE)
        length = p->members_bytes;
    if (part->is_manifest) /* its entries say more than its times */
        p->n = p->bytes = p->members_bytes = 0;
    if (p->as_of_us) /* there may be no other way */
        return single > 0;
    if (part->is_package)
        return length != LENGTH_NONE && length + request < single;
    return p->n != 1 && /* a large file alone is fetched as it is */
           single + part->is_manifest * request >= CHANGE_PACKAGES_LEAST;
}

static void
on_end(const struct problem *why, const struct source_position *place,
       const struct source_position *guess, void *user)
{
    struct change_packages *p = user;

    (void)why; /* no memory: all comes one by one */
    (void)place;
    (void)guess;
    p->baseline = NULL;
    p->on_end(p->user);
    change_packages_free(p);
}

struct change_packages *
change_packages_start(struct mirror *m, int64_t set, const char *dump,
                      const char *archive, void (*on_end_of_all)(void *user),
                      void *user)
{
    struct change_packages *p = calloc(1, sizeof(*p));
    struct baseline_plan plan = {
        .takes = takes_part, .on_note = on_note, .wants_files = true};
    struct offered offered = {.resource_dump = (char *)dump};
    struct problem why;

    if (!p)
        return NULL;
    p->m = m;
    p->set = set;
    p->on_end = on_end_of_all;
    p->user = user;
    if (m->options->as_of &&
        !datetime_read_any(slice_of(m->options->as_of), &p->as_of_us))
        offered.resource_dump_archive = (char *)archive;
    plan.near_us = p->as_of_us;
    plan.offered = &offered;
    plan.scratch = p->path = mirror_dir_make_scratch(m->dir, set, &why);
    if (p->path)
        p->baseline = baseline_start(m->client, &plan, on_entry, on_end, p);
    if (p->baseline)
        return p;
    change_packages_free(p);
    return NULL;
}

void
change_packages_free(struct change_packages *p)
{
    if (!p)
        return;
    baseline_free(p->baseline);
    free(p->path);
    free(p);
}

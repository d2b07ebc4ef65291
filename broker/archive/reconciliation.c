#include "broker/archive/reconciliation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/state/resource_diff.h"
#include "broker/state/upload_file.h"
#include "proto/memory.h"
#include "proto/resourcesync/fragment.h"

/* Bytes of a commit, roughly. */
#define TAKING_BYTES ((size_t)16 << 20)

/* Batches of other posts read in a step. */
#define STEP_BATCHES 64

enum phase { PHASE_FOLDING, PHASE_NEWS, PHASE_COMPARING, PHASE_TELLING };

struct reconciliation {
    struct registry *registry;
    const char *dir;       /* lent */
    struct upload *upload; /* likewise */
    bool is_accepted;
    struct set *set; /* NULL: it does not exist */
    struct resource_diff *difference;
    enum phase phase;
    bool is_waiting;
    uint64_t read;   /* the log up to that seq */
    uint64_t began;  /* the state begins behind this entry */
    bool is_healing; /* the state becomes whole */
    struct resource_diff_part part;
};

enum status
reconciliation_open(struct reconciliation **taking, struct registry *registry,
                    const char *dir, struct upload *upload, struct problem *why)
{
    struct reconciliation *t = memory_new(1, sizeof(*t));
    char path[UPLOAD_FILE_PATH_MAX];
    enum status rc;

    t->registry = registry;
    t->dir = dir;
    t->upload = upload;
    upload->outcome = (struct upload_outcome){.status = STATUS_OK};
    buf_init(&t->part.bytes, TAKING_BYTES);
    t->part.max = RECONCILIATION_ENTRIES;
    t->part.fragments = memory_new(t->part.max, sizeof(*t->part.fragments));
    rc = t->part.fragments
             ? resource_diff_open(&t->difference, dir, upload->name, why)
             : problem_memory(why);
    if (!rc)
        rc = upload_file_path(dir, upload->name, path, &t->is_accepted);
    if (rc) {
        reconciliation_close(t);
        return rc;
    }
    resource_diff_heed(t->difference, log_ending(registry_log(registry)));
    t->read = resource_diff_about(t->difference)->after;
    *taking = t;
    return STATUS_OK;
}

void
reconciliation_close(struct reconciliation *t)
{
    if (!t)
        return;
    resource_diff_close(t->difference);
    buf_fini(&t->part.bytes);
    free(t->part.fragments);
    free(t);
}

bool
reconciliation_is_waiting(const struct reconciliation *t)
{
    return t->is_waiting;
}

/* Reads the head of the set. STATUS_GONE: the set of the upload was removed. */
static enum status
look_for_upload(struct reconciliation *t, struct head *head,
                struct problem *why)
{
    const struct upload_file_about *about = resource_diff_about(t->difference);

    memset(head, 0, sizeof(*head));
    if (!t->set)
        t->set = registry_find(t->registry, slice_of(t->upload->name), head);
    else if (!log_head(t->set->log, head))
        return problem(why, STATUS_GONE, "the set was removed meanwhile");
    if (about->epoch[0] && (!t->set || strcmp(head->epoch, about->epoch) != 0))
        return problem(why, STATUS_GONE, "the set was removed meanwhile");
    memcpy(t->upload->outcome.epoch, head->epoch, sizeof(head->epoch));
    t->upload->outcome.head = head->last;
    return STATUS_OK;
}

/* Steps */

static enum status
fold_state(struct reconciliation *t, struct state_fold *folding,
           struct problem *why)
{
    uint64_t after = resource_diff_about(t->difference)->after;
    struct resources *resources = NULL;
    char path[STATE_FOLD_PATH_MAX];
    struct head head;
    bool is_more = false;
    enum status rc = look_for_upload(t, &head, why);

    if (!rc && t->set)
        rc = state_fold_open(folding, t->set, &resources, why);
    if (rc)
        return rc;
    t->is_waiting = resources && resources_at(resources)->seq < after &&
                    state_fold_is_held(folding, t->set);
    if (resources && resources_at(resources)->seq < after)
        return state_fold_step(folding, t->set, &is_more, why);
    t->upload->outcome.resources = resources ? resources_at(resources)->n : 0;
    if (resources) {
        t->began = resources_at(resources)->began;
        /* Otherwise other posts may name resources unknown to the state.
         */
        t->is_healing = !resources_at(resources)->is_whole && t->began <= after;
    }
    if (t->set)
        state_fold_path(t->set, path);
    t->phase = PHASE_NEWS;
    return resource_diff_state(t->difference, t->set ? path : NULL, why);
}

static enum status
read_batch(struct reconciliation *t, const struct batch *batch, uint64_t upto,
           struct problem *why)
{
    enum status rc = STATUS_OK;

    for (; !rc && t->read < upto; t->read++) {
        struct slice fragment = batch_slice(batch, t->read, t->read + 1);

        rc = resource_diff_news(t->difference, fragment_loc(fragment), why);
    }
    return rc;
}

/* Reads some entries of the log, up to entry `upto`. */
static enum status
read_news(struct reconciliation *t, uint64_t upto, struct problem *why)
{
    struct log *log = registry_log(t->registry);
    enum status rc = STATUS_OK;

    for (int i = 0; !rc && i < STEP_BATCHES && t->read < upto; i++) {
        struct batch *batch = NULL;

        rc = log_read(log, t->set->log, t->read, LOG_DISK, &batch, why);
        if (rc == STATUS_GONE) {
            /* No longer retained: the state has most of these entries. */
            struct head head;

            rc = look_for_upload(t, &head, why);
            if (rc || head.earliest <= t->read)
                return rc ? rc : problem(why, STATUS_IO, "cannot read the log");
            t->read = head.earliest;
            continue;
        }
        if (rc || !batch)
            return rc;
        rc = read_batch(t, batch, batch->last < upto ? batch->last : upto, why);
        batch_unref(batch);
    }
    return rc;
}

/* Reads on in the log. *is_there: it has come to the end. */
static enum status
catch_up(struct reconciliation *t, bool *is_there, struct problem *why)
{
    struct head head;
    enum status rc = look_for_upload(t, &head, why);

    if (!rc && t->set)
        rc = read_news(t, head.last, why);
    *is_there = !t->set || t->read >= head.last;
    return rc;
}

/* True if `n` of `n_of` resources may be deleted. */
static bool
may_delete(const struct upload_file_about *about, uint64_t n, uint64_t n_of)
{
    if (n <= about->accepted)
        return true;
    if (about->left_out > 0 || about->max_delete == 0)
        return false;
    return n <= UPLOADS_FEW || n * 100 <= about->max_delete * n_of;
}

/* Posts the deletions, or holds them back. After a crash an accepted upload
 * stays accepted. Any other upload is judged again, without the resources that
 * its own posts have added. */
static enum status
judge_deletions(struct reconciliation *t, struct problem *why)
{
    const struct upload_file_about *about = resource_diff_about(t->difference);
    uint64_t n_changed = resource_diff_changed(t->difference);
    uint64_t *n_of = &t->upload->outcome.resources;
    struct resource_diff_counts counts;
    enum status rc = resource_diff_count(t->difference, &counts, why);

    *n_of -= n_changed < *n_of ? n_changed : *n_of;
    if (rc || t->is_accepted)
        return rc;
    if (may_delete(about, counts.deleted, *n_of))
        return upload_file_take(t->dir, t->upload->name, why);
    resource_diff_hold(t->difference);
    return STATUS_OK;
}

static enum status
compare_states(struct reconciliation *t, struct problem *why)
{
    bool is_more = true;
    enum status rc = resource_diff_compare(t->difference, &is_more, why);

    if (rc || is_more)
        return rc;
    rc = judge_deletions(t, why);
    if (rc)
        return rc;
    t->phase = PHASE_TELLING;
    return STATUS_OK;
}

/* Reads the entries of others before our entries `first` to `last`, and passes
 * over ours. */
static enum status
read_before(struct reconciliation *t, uint64_t first, uint64_t last,
            struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && t->read + 1 < first)
        rc = read_news(t, first - 1, why);
    t->read = last;
    return rc;
}

static enum status
post_part(struct reconciliation *t, struct problem *why)
{
    struct post post = {.kind = POST_CHANGES,
                        .is_never_held = true,
                        .authority = t->upload->authority,
                        .bytes = t->part.bytes,
                        .fragments = t->part.fragments,
                        .n_fragments = t->part.n};
    enum status rc;

    if (!t->set) {
        rc = registry_make(t->registry, slice_of(t->upload->name),
                           t->upload->client, &t->set, why);
        if (rc)
            return rc;
    }
    post.set = t->set->log;
    rc = log_post_and_wait(registry_log(t->registry), &post, why);
    if (rc)
        return rc;
    memcpy(t->upload->outcome.epoch, post.epoch, sizeof(post.epoch));
    if (t->upload->outcome.first == 0)
        t->upload->outcome.first = post.first;
    t->upload->outcome.last = post.last;
    return read_before(t, post.first, post.last, why);
}

/* Marks the state as whole: the log has all changes up to t->read. After a
 * crash before this call the upload runs again without effect, and comes here
 * again. */
static enum status
heal_state(struct reconciliation *t, struct state_fold *folding,
           struct problem *why)
{
    struct resources *resources;
    enum status rc;

    if (!t->is_healing)
        return STATUS_OK;
    rc = state_fold_open(folding, t->set, &resources, why);
    return rc ? rc : resources_heal(resources, t->began, t->read, why);
}

static enum status
post_differences(struct reconciliation *t, struct state_fold *folding,
                 bool *is_done, struct problem *why)
{
    bool is_there;
    enum status rc = catch_up(t, &is_there, why);

    if (rc || !is_there)
        return rc;
    rc = resource_diff_next(t->difference, &t->part, why);
    if (rc)
        return rc;
    if (t->part.n == 0) {
        t->upload->outcome.counts = *resource_diff_told(t->difference);
        if (t->set)
            atomic_store_explicit(&t->set->held_back,
                                  t->upload->outcome.counts.held_back,
                                  memory_order_relaxed);
        *is_done = true;
        return heal_state(t, folding, why);
    }
    return post_part(t, why);
}

enum status
reconciliation_step(struct reconciliation *t, struct state_fold *folding,
                    bool *is_done, struct problem *why)
{
    bool is_there = false;
    enum status rc = STATUS_OK;

    *is_done = false;
    switch (t->phase) {
    case PHASE_FOLDING:
        rc = fold_state(t, folding, why);
        break;
    case PHASE_NEWS:
        rc = catch_up(t, &is_there, why);
        if (is_there)
            t->phase = PHASE_COMPARING;
        break;
    case PHASE_COMPARING:
        rc = compare_states(t, why);
        break;
    case PHASE_TELLING:
        rc = post_differences(t, folding, is_done, why);
        break;
    }
    return rc;
}

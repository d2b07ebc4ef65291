#include "broker/state/resources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/diag.h"
#include "broker/state/fold_batch.h"
#include "broker/state/resources_db.h"
#include "proto/datetime.h"

/* The limits of gathering for one commit: so many that a page of the index
 * serves several changes, and so few that a step is short and needs little
 * memory. */
#define GATHER_ENTRIES 16000
#define GATHER_BYTES   ((size_t)4 << 20)

/* The last batch may exceed GATHER_BYTES. */
#define GATHER_MAX (GATHER_BYTES + ((size_t)1 << 20))

/* The size of the WAL, in pages of 4 KiB, from which on a checkpoint moves it
 * into the file. Small, because a closed state keeps its WAL, and there may be
 * 50,000 states; but so large that many small steps share an fsync. */
#define WAL_PAGES 256

struct resources {
    struct resources_db file;
    struct resources_db_at state;    /* as of the last commit */
    struct resources_db_at gathered; /* as it will be, except `n` and `bytes` */
    struct fold_batch gathering;
    uint64_t kept;
    bool is_same_log; /* its digest was compared with the log's */
    int64_t walked;   /* the last id of the walk; 0: none */
};

static void
forget_gathered(struct resources *r)
{
    fold_batch_clear(&r->gathering);
    r->gathered = r->state;
}

/* Ends all statements. */
static void
settle_batch(struct resources *r)
{
    resources_db_settle(&r->file);
    r->walked = 0;
}

/* Beginning */

/* Deletes the file and begins a new one, behind entry `after` of that epoch. */
static enum status
begin_resources(struct resources *r, const char *epoch, uint64_t after,
                struct problem *why)
{
    struct resources_db_at state;
    bool is_ours;
    enum status rc;

    resources_db_close(&r->file);
    rc = resources_db_unlink(&r->file, why);
    if (!rc)
        rc = resources_db_open(&r->file, &state, &is_ours, why);
    if (rc)
        return rc;
    memcpy(state.epoch, epoch, sizeof(state.epoch));
    state.at.seq = after;
    state.at.us = DATETIME_NONE;
    state.at.began = after;
    state.at.is_whole = after == 0;
    r->state = state;
    forget_gathered(r);
    r->kept = 0;
    r->is_same_log = false;
    return resources_db_write(&r->file, &r->gathering, &r->state, why);
}

/* Begins anew at the first entry, because of `reason`. */
static enum status
begin_anew(struct resources *r, const char *reason, struct problem *why)
{
    char epoch[EPOCH_SIZE + 1];

    memcpy(epoch, r->state.epoch, sizeof(epoch));
    DIAG(DIAG_WARNING, "state", "the state of a set begins anew",
         diag_text("file", r->file.path), diag_text("because", reason));
    return begin_resources(r, epoch, 0, why);
}

enum status
resources_open(struct resources **resources, const char *dir, const char *epoch,
               struct problem *why)
{
    struct resources *r = calloc(1, sizeof(*r));
    struct problem reason = {""};
    bool is_ours;
    enum status rc;

    if (!r)
        return problem_memory(why);
    snprintf(r->file.path, sizeof(r->file.path), "%s/" RESOURCES_FILE, dir);
    fold_batch_init(&r->gathering, GATHER_MAX);
    rc = resources_db_open(&r->file, &r->state, &is_ours, &reason);
    if (rc && is_ours && why)
        *why = reason;
    if (!rc && strcmp(r->state.epoch, epoch) != 0) {
        rc = begin_resources(r, epoch, 0, why);
    } else if (rc && !is_ours) {
        snprintf(r->state.epoch, sizeof(r->state.epoch), "%s", epoch);
        rc = begin_anew(r, reason.text, why);
    }
    forget_gathered(r);
    if (rc) {
        resources_close(r);
        return rc;
    }
    *resources = r;
    return STATUS_OK;
}

void
resources_close(struct resources *r)
{
    struct problem why = {""};

    if (!r)
        return;
    resources_db_close(&r->file);
    if (resources_is_damaged(r)) {
        DIAG(DIAG_WARNING, "state",
             "the state of a set is damaged, and will begin anew",
             diag_text("file", r->file.path));
        if (resources_db_unlink(&r->file, &why))
            DIAG(DIAG_ERROR, "state", "a damaged state stays",
                 diag_text("error", why.text));
    }
    fold_batch_clear(&r->gathering);
    free(r);
}

bool
resources_is_damaged(const struct resources *r)
{
    return r->file.db.is_damaged;
}

void
resources_heed(struct resources *r, const atomic_bool *is_ending)
{
    resources_db_heed(&r->file, is_ending);
}

const struct resources_at *
resources_at(const struct resources *r)
{
    return &r->state.at;
}

enum status
resources_begin(struct resources *r, uint64_t after, struct problem *why)
{
    char epoch[EPOCH_SIZE + 1];

    settle_batch(r);
    memcpy(epoch, r->state.epoch, sizeof(epoch));
    return begin_resources(r, epoch, after, why);
}

/* Folding */

/* True if the log is the one that was folded. A copy of an older log may have
 * continued differently since: d(seq) shows it. */
static bool
is_same_log(struct resources *r, const struct batch *batch)
{
    struct digest digest;

    if (r->is_same_log || !r->state.has_digest)
        return true;
    digest = batch_digest(batch, r->state.at.seq);
    r->is_same_log = !memcmp(&digest, &r->state.digest, sizeof(digest));
    return r->is_same_log;
}

static enum status
gather_batch(struct resources *r, const struct batch *batch, uint64_t last)
{
    enum status rc = STATUS_OK;

    for (uint64_t seq = r->gathered.at.seq + 1; !rc && seq <= last; seq++) {
        const struct batch_entry *e = &batch->entries[seq - batch->first];

        rc = fold_batch_add(&r->gathering, batch_slice(batch, seq - 1, seq),
                            e->stamp, seq);
    }
    return rc;
}

enum status
resources_fold(struct resources *r, const struct batch *batch, uint64_t last,
               struct problem *why)
{
    enum status rc;

    settle_batch(r);
    if (!is_same_log(r, batch)) {
        rc = begin_anew(r, "the log is not the one that it was folded from",
                        why);
        return rc ? rc : STATUS_AGAIN;
    }
    rc = gather_batch(r, batch, last);
    if (rc) {
        forget_gathered(r);
        return problem(why, rc, "no memory to fold the entries");
    }
    r->gathered.at.seq = last;
    r->gathered.at.us = batch_time(batch, last);
    r->gathered.digest = batch_digest(batch, last);
    r->gathered.has_digest = true;
    return STATUS_OK;
}

bool
resources_is_full(const struct resources *r)
{
    return r->gathering.n >= GATHER_ENTRIES ||
           r->gathering.entries.size >= GATHER_BYTES;
}

/* Makes the state whole if everything that was missing is folded. */
static void
look_if_whole(struct resources_db_at *state)
{
    if (state->whole_at == 0 || state->at.seq < state->whole_at)
        return;
    state->at.is_whole = true;
    state->whole_at = 0;
}

enum status
resources_commit(struct resources *r, struct problem *why)
{
    struct problem reason = {""};
    enum status rc;

    settle_batch(r);
    if (r->gathering.n == 0)
        return STATUS_OK;
    look_if_whole(&r->gathered);
    rc = resources_db_write(&r->file, &r->gathering, &r->gathered, &reason);
    if (!rc) {
        r->state = r->gathered;
        r->is_same_log = true;
    }
    forget_gathered(r);
    sqlite3_db_release_memory(r->file.db.handle);
    if (resources_is_damaged(r)) { /* or a reader has found damage */
        rc = begin_anew(r, rc ? reason.text : "it is damaged", why);
        return rc ? rc : STATUS_AGAIN;
    }
    if (rc && why)
        *why = reason;
    if (!rc && r->file.wal_pages >= WAL_PAGES)
        rc = resources_keep(r, why);
    return rc;
}

uint64_t
resources_kept(const struct resources *r)
{
    return r->kept;
}

enum status
resources_keep(struct resources *r, struct problem *why)
{
    enum status rc;

    settle_batch(r);
    if (r->kept == r->state.at.seq)
        return STATUS_OK;
    rc = resources_db_sync(&r->file, why);
    if (!rc)
        r->kept = r->state.at.seq;
    return rc;
}

enum status
resources_heal(struct resources *r, uint64_t began, uint64_t seq,
               struct problem *why)
{
    struct resources_db_at healed = r->state;
    enum status rc;

    settle_batch(r);
    if (r->state.at.is_whole || r->state.at.began != began)
        return STATUS_OK;
    healed.whole_at = seq;
    look_if_whole(&healed);
    forget_gathered(r);
    rc = resources_db_write(&r->file, &r->gathering, &healed, why);
    if (rc)
        return rc;
    r->gathered = r->state = healed;
    r->kept = 0; /* the seq may be the same, but this state is not on the
                    disk */
    return resources_keep(r, why);
}

/* Reading */

enum status
resources_find(struct resources *r, struct slice loc, struct slice *entry,
               uint64_t *seq, struct problem *why)
{
    sqlite3_stmt *q = r->file.statements[F_FIND];
    struct resource_key key;
    bool row = false;
    enum status rc;

    settle_batch(r);
    resource_key(&key, loc);
    sqlite3_bind_blob(q, 1, &key, sizeof(key), SQLITE_TRANSIENT);
    rc = db_step(&r->file.db, q, &row, "read " RESOURCES_FILE, why);
    if (rc)
        return rc;
    if (!row)
        return problem(why, STATUS_NOT_FOUND, "there is no such resource");
    *seq = (uint64_t)sqlite3_column_int64(q, 0);
    *entry = db_column(q, 1);
    return STATUS_OK;
}

enum status
resources_next(struct resources *r, int64_t id, struct resources_entry *entry,
               struct problem *why)
{
    sqlite3_stmt *q = r->file.statements[F_WALK];
    bool row = false;
    enum status rc;

    /* A step behind the last one continues the statement. */
    if (id == 0 || r->walked != id) {
        settle_batch(r);
        sqlite3_bind_int64(q, 1, id);
    }
    r->walked = 0;
    rc = db_step(&r->file.db, q, &row, "read " RESOURCES_FILE, why);
    if (rc)
        return rc;
    if (!row)
        return problem(why, STATUS_NOT_FOUND, "there are no more resources");
    entry->id = r->walked = sqlite3_column_int64(q, 0);
    entry->seq = (uint64_t)sqlite3_column_int64(q, 1);
    entry->entry = db_column(q, 2);
    return STATUS_OK;
}

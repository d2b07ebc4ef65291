#include "broker/archive/folds.h"

/* Time for reading in a step; then the step commits. */
#define STEP_US 1000000

void
folds_init(struct folds *f, const struct fold_kind *kind)
{
    memset(f, 0, sizeof(*f));
    f->kind = kind;
}

static void
drop_place(struct folds_place *place)
{
    fold_db_close(place->db);
    *place = (struct folds_place){.used = 0};
}

void
folds_fini(struct folds *f)
{
    for (size_t i = 0; i < FOLDS_MAX; i++)
        drop_place(&f->places[i]);
}

/* Returns the place of the set, else the one to use for it: a free one, or the
 * one used longest ago. */
static struct folds_place *
place_of(struct folds *f, const struct set *set)
{
    struct folds_place *place = &f->places[0];

    for (size_t i = 0; i < FOLDS_MAX; i++) {
        if (f->places[i].set == set)
            return &f->places[i];
        if (f->places[i].used < place->used)
            place = &f->places[i];
    }
    return place;
}

enum status
folds_open(struct folds *f, const struct set *set, const char *epoch,
           struct fold_db **db, struct problem *why)
{
    struct folds_place *place = place_of(f, set);
    struct file_path dir = set_path(set, "");
    enum status rc = STATUS_OK;

    if (place->set != set || fold_db_has_failed(place->db)) {
        drop_place(place);
        rc = file_make_dirs(dir.text, why);
        if (!rc)
            rc = fold_db_open(&place->db, f->kind, dir.text, epoch, why);
        if (rc)
            return rc;
        place->set = set;
        fold_db_heed(place->db, log_ending(set->registry->log));
    }
    place->used = ++f->n_uses;
    *db = place->db;
    return STATUS_OK;
}

void
folds_drop(struct folds *f, const struct set *set)
{
    struct folds_place *place = place_of(f, set);

    if (place->set == set)
        drop_place(place);
}

void
folds_drop_removed(struct folds *f)
{
    struct head head;

    for (size_t i = 0; i < FOLDS_MAX; i++)
        if (f->places[i].set && !log_head(f->places[i].set->log, &head))
            drop_place(&f->places[i]);
}

/* Gathers entries for one commit. */
static enum status
gather_entries(struct fold_db *db, const struct set *set, uint64_t last,
               struct problem *why)
{
    struct log *log = set->registry->log;
    const atomic_bool *is_ending = log_ending(log);
    uint64_t seq = db->at.seq;
    int64_t end_us = clock_steady_us() + STEP_US;
    enum status rc = STATUS_OK;

    while (!rc && seq < last && !fold_db_is_full(db) &&
           clock_steady_us() < end_us) {
        struct batch *batch = NULL;

        if (load_relaxed(is_ending))
            return problem(why, STATUS_STOPPED, "the broker is ending");
        rc = log_read(log, set->log, seq, LOG_DISK, &batch, why);
        if (rc || !batch)
            break;
        seq = batch->last < last ? batch->last : last;
        rc = fold_db_add(db, batch, seq, why);
        batch_unref(batch);
        if (log_is_holding(log)) /* posts wait for files of lists */
            break;
    }
    return rc;
}

enum status
folds_advance(struct folds *f, const struct set *set, uint64_t last,
              struct problem *why)
{
    struct fold_db *db = place_of(f, set)->db;
    struct head head;
    enum status rc = gather_entries(db, set, last, why);
    enum status committed = fold_db_commit(db, rc ? NULL : why);

    if (!rc)
        rc = committed;
    if (rc == STATUS_GONE && log_head(set->log, &head) &&
        db->at.seq < head.earliest)
        rc = fold_db_begin(db, head.earliest, why);
    return rc == STATUS_AGAIN ? STATUS_OK : rc; /* it has begun anew */
}

#include "broker/state/fold_db.h"

#include <stdio.h>
#include <string.h>

#include "broker/base/diag.h"

/* Opens the file, or makes it. *is_ours is false if it is damaged, or of a
 * newer program; `why` has the reason. */
static enum status
open_file(struct fold_db *f, bool *is_ours, struct problem *why)
{
    enum status rc = db_open_kind(&f->db, f->kind->db, f->path, why);

    *is_ours = rc != STATUS_INVALID; /* false: of a newer program */
    if (!rc && f->db.is_exposed)
        DIAG(DIAG_WARNING, "state", "other users may open a database",
             diag_text("file", f->path));
    if (!rc)
        rc = f->kind->read(f, why);
    if (!rc && f->is_ending)
        db_heed(&f->db, f->is_ending);
    if (rc && f->db.is_damaged)
        *is_ours = false;
    if (rc)
        db_close(&f->db);
    return rc;
}

enum status
fold_db_begin(struct fold_db *f, uint64_t after, struct problem *why)
{
    bool is_ours;
    enum status rc;

    fold_db_forget(f);
    db_close(&f->db);
    rc = db_unlink(f->path, why);
    if (!rc)
        rc = open_file(f, &is_ours, why);
    if (rc)
        return rc;
    f->at = f->gathered = (struct fold_mark){.seq = after};
    f->is_same_log = false;
    return f->kind->begin(f, why);
}

/* Begins anew at the first entry, because of `reason`. */
static enum status
begin_anew(struct fold_db *f, const char *reason, struct problem *why)
{
    DIAG(DIAG_WARNING, "state", f->kind->begins_anew,
         diag_text("file", f->path), diag_text("because", reason));
    return fold_db_begin(f, 0, why);
}

enum status
fold_db_open(struct fold_db *f, const struct fold_kind *kind, const char *dir,
             const char *epoch, struct problem *why)
{
    struct problem reason = {""};
    bool is_ours;
    enum status rc;

    f->kind = kind;
    snprintf(f->path, sizeof(f->path), "%s/%s", dir, kind->file);
    rc = open_file(f, &is_ours, &reason);
    fold_db_forget(f);
    if (rc && is_ours) {
        if (why)
            *why = reason;
        return rc;
    }
    if (!rc && !strcmp(f->epoch, epoch))
        return STATUS_OK;
    snprintf(f->epoch, sizeof(f->epoch), "%s", epoch);
    return rc ? begin_anew(f, reason.text, why) : fold_db_begin(f, 0, why);
}

void
fold_db_close(struct fold_db *f)
{
    struct problem why = {""};

    fold_db_forget(f);
    db_close(&f->db);
    if (!f->db.is_damaged)
        return;
    DIAG(DIAG_WARNING, "state", f->kind->is_damaged,
         diag_text("file", f->path));
    if (db_unlink(f->path, &why))
        DIAG(DIAG_ERROR, "state", "a damaged file stays",
             diag_text("error", why.text));
}

void
fold_db_heed(struct fold_db *f, const atomic_bool *is_ending)
{
    f->is_ending = is_ending;
    if (is_ending)
        db_heed(&f->db, is_ending);
}

/* True if the log is the one that was folded. A copy of an older log may have
 * continued differently since: d(seq) shows it. */
static bool
is_same_log(struct fold_db *f, const struct batch *batch)
{
    struct digest digest;

    if (f->is_same_log || !f->at.has_digest)
        return true;
    digest = batch_digest(batch, f->at.seq);
    f->is_same_log = !memcmp(&digest, &f->at.digest, sizeof(digest));
    return f->is_same_log;
}

enum status
fold_db_add(struct fold_db *f, const struct batch *batch, uint64_t last,
            struct problem *why)
{
    enum status rc = STATUS_OK;

    if (!is_same_log(f, batch)) {
        rc = begin_anew(f, "the log is not the one that it was folded from",
                        why);
        return rc ? rc : STATUS_AGAIN;
    }
    for (uint64_t seq = f->gathered.seq + 1; !rc && seq <= last; seq++)
        rc = f->kind->gather(f, batch_slice(batch, seq - 1, seq),
                             batch->entries[seq - batch->first].stamp, seq);
    if (rc) {
        fold_db_forget(f);
        return problem(why, rc, "no memory to fold the entries");
    }
    f->gathered = (struct fold_mark){last, batch_time(batch, last),
                                     batch_digest(batch, last), true};
    return STATUS_OK;
}

void
fold_db_forget(struct fold_db *f)
{
    f->kind->forget(f);
    f->gathered = f->at;
}

enum status
fold_db_settle(struct fold_db *f, enum status rc, const struct problem *reason,
               struct problem *why)
{
    if (f->db.is_damaged) { /* or a reader has found damage */
        rc = begin_anew(f, rc ? reason->text : "it is damaged", why);
        f->has_failed |= rc != STATUS_OK;
        return rc ? rc : STATUS_AGAIN;
    }
    if (rc && why)
        *why = *reason;
    f->has_failed |= rc && rc != STATUS_NOT_FOUND;
    return rc;
}

#include "broker/state/fold_db.h"

#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/bucket/vault.h"

/* The last batch may exceed the limit of the kind. */
#define BATCH_BYTES ((size_t)1 << 20)

static struct file_path
path_of(const struct fold_db *f)
{
    return file_path("%s/%s", f->dir, f->kind->file);
}

/* Opens the file, or makes it. *is_ours is false if it is damaged, or of a
 * newer program; `why` has the reason. */
static enum status
open_file(struct fold_db *f, bool *is_ours, struct problem *why)
{
    struct file_path path = path_of(f);
    enum status rc = db_open_kind(&f->db, f->kind->db, path.text, why);

    *is_ours = rc != STATUS_INVALID; /* false: of a newer program */
    if (!rc && f->db.is_exposed)
        DIAG(DIAG_WARNING, "state", "other users may open a database",
             diag_text("file", path.text));
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
    f->kind->release(f);
    db_close(&f->db);
    rc = db_unlink(path_of(f).text, why);
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
    DIAG(DIAG_WARNING, "state", f->kind->begins_anew, diag_text("dir", f->dir),
         diag_text("because", reason));
    vault_loosen(VAULT_LOST);
    return fold_db_begin(f, 0, why);
}

enum status
fold_db_open(struct fold_db **opened, const struct fold_kind *kind,
             const char *dir, const char *epoch, struct problem *why)
{
    struct fold_db *f = memory_new(1, kind->size);
    struct problem reason = {""};
    bool is_ours;
    enum status rc;

    f->kind = kind;
    snprintf(f->dir, sizeof(f->dir), "%s", dir);
    kind->release(f);
    rc = open_file(f, &is_ours, &reason);
    fold_db_forget(f);
    if (rc && is_ours && why)
        *why = reason;
    if (rc ? !is_ours : strcmp(f->epoch, epoch) != 0) {
        snprintf(f->epoch, sizeof(f->epoch), "%s", epoch);
        rc = rc ? begin_anew(f, reason.text, why) : fold_db_begin(f, 0, why);
    }
    if (rc)
        fold_db_close(f);
    else
        *opened = f;
    return rc;
}

void
fold_db_close(struct fold_db *f)
{
    struct problem why = {""};

    if (!f)
        return;
    fold_db_forget(f);
    f->kind->release(f);
    db_close(&f->db);
    if (f->db.is_damaged) {
        DIAG(DIAG_WARNING, "state", f->kind->is_damaged,
             diag_text("dir", f->dir));
        vault_loosen(VAULT_LOST);
        if (db_unlink(path_of(f).text, &why))
            DIAG(DIAG_ERROR, "state", "a damaged file stays",
                 diag_text("error", why.text));
    }
    free(f);
}

void
fold_db_heed(struct fold_db *f, const atomic_bool *is_ending)
{
    f->is_ending = is_ending;
    if (is_ending)
        db_heed(&f->db, is_ending);
}

enum status
fold_db_add(struct fold_db *f, const struct batch *batch, uint64_t last,
            struct problem *why)
{
    struct digest digest;
    enum status rc = STATUS_OK;

    /* A copy of an older log may have continued differently since the log was
     * folded: d(seq) shows it. */
    if (!f->is_same_log && f->at.has_digest) {
        digest = batch_digest(batch, f->at.seq);
        f->is_same_log = digest_is_equal(&digest, &f->at.digest);
        if (!f->is_same_log) {
            rc = begin_anew(f, "the log is not the one that it was folded from",
                            why);
            return rc ? rc : STATUS_AGAIN;
        }
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

enum status
fold_db_commit(struct fold_db *f, struct problem *why)
{
    struct problem reason = {""};
    enum status rc;

    if (f->n == 0)
        return STATUS_OK;
    f->kind->release(f);
    rc = f->kind->commit(f, &reason);
    if (!rc)
        f->is_same_log = true;
    fold_db_forget(f);
    sqlite3_db_release_memory(f->db.handle);
    rc = fold_db_settle(f, rc, &reason, why);
    return !rc && f->kind->keep ? f->kind->keep(f, why) : rc;
}

bool
fold_db_is_full(const struct fold_db *f)
{
    return f->n >= f->kind->max_entries || f->texts.size >= f->kind->max_bytes;
}

bool
fold_db_has_failed(const struct fold_db *f)
{
    return f->has_failed || f->db.is_damaged;
}

void
fold_db_forget(struct fold_db *f)
{
    free(f->rows);
    f->rows = NULL;
    f->n = f->capacity = 0;
    buf_fini(&f->texts);
    buf_init(&f->texts, f->kind->max_bytes + BATCH_BYTES);
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

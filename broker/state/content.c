#include "broker/state/content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/db_rows.h"
#include "broker/base/diag.h"
#include "broker/state/contentrows.h"
#include "proto/memory.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"

/* The limits of gathering for one commit, as of a state (resources.c), but each
 * entry may ask the disk for its file. */
#define GATHER_ENTRIES 16000
#define GATHER_BYTES   ((size_t)4 << 20)

/* The last batch may exceed GATHER_BYTES. */
#define GATHER_MAX (GATHER_BYTES + ((size_t)1 << 20))

/* Rows that one commit forgets. */
#define FORGET_ROWS 4000

struct content {
    struct contentrows rows;
    struct contentrows_at state; /* as of the last commit */
    uint64_t seq;                /* of the last gathered entry */
    struct digest digest;        /* d(seq) */
    struct content_told *told;
    size_t n_told, capacity;
    struct buf texts; /* of the gathered entries */
    struct buf lent;  /* for content_missing */
    bool has_failed;
    bool is_same_log; /* its digest was compared with the log's */
};

static void
forget_gathered(struct content *c)
{
    free(c->told);
    c->told = NULL;
    c->n_told = c->capacity = 0;
    buf_fini(&c->texts);
    buf_init(&c->texts, GATHER_MAX);
    c->seq = c->state.at.seq;
}

/* Beginning */

enum status
content_unlink(const char *dir, struct problem *why)
{
    char path[4352 + 32];

    snprintf(path, sizeof(path), "%s/" CONTENT_FILE, dir);
    return db_unlink(path, why);
}

enum status
content_begin(struct content *c, uint64_t after, struct problem *why)
{
    struct contentrows_at state;
    bool is_ours;
    enum status rc;

    contentrows_close(&c->rows);
    rc = content_unlink(c->rows.dir, why);
    if (!rc)
        rc = contentrows_open(&c->rows, &state, &is_ours, why);
    if (rc)
        return rc;
    memcpy(state.epoch, c->state.epoch, sizeof(state.epoch));
    state.at.seq = state.at.from = after;
    c->state = state;
    forget_gathered(c);
    c->is_same_log = false;
    return contentrows_begin(&c->rows, &c->state, why);
}

/* Begins anew at the first entry, because of `reason`. */
static enum status
begin_anew(struct content *c, const char *reason, struct problem *why)
{
    DIAG(DIAG_WARNING, "state", "the content of a set begins anew",
         diag_text("dir", c->rows.dir), diag_text("because", reason));
    return content_begin(c, 0, why);
}

enum status
content_open(struct content **content, const char *dir, const char *epoch,
             struct problem *why)
{
    struct content *c = memory_new(1, sizeof(*c));
    struct problem reason = {""};
    bool is_ours, is_other;
    enum status rc;

    snprintf(c->rows.dir, sizeof(c->rows.dir), "%s", dir);
    buf_init(&c->texts, GATHER_MAX);
    buf_init(&c->lent, FRAGMENT_MAX);
    rc = contentrows_open(&c->rows, &c->state, &is_ours, &reason);
    if (rc && is_ours && why)
        *why = reason;
    is_other = !rc && strcmp(c->state.epoch, epoch) != 0;
    if (is_other || (rc && !is_ours)) {
        snprintf(c->state.epoch, sizeof(c->state.epoch), "%s", epoch);
        rc = is_other ? content_begin(c, 0, why)
                      : begin_anew(c, reason.text, why);
    }
    c->seq = c->state.at.seq;
    if (rc)
        content_close(c);
    else
        *content = c;
    return rc;
}

void
content_close(struct content *c)
{
    struct problem why = {""};

    if (!c)
        return;
    contentrows_close(&c->rows);
    if (c->rows.db.is_damaged) {
        DIAG(DIAG_WARNING, "state",
             "the content of a set is damaged, and will begin anew",
             diag_text("dir", c->rows.dir));
        if (content_unlink(c->rows.dir, &why))
            DIAG(DIAG_ERROR, "state", "a damaged file stays",
                 diag_text("error", why.text));
    }
    buf_fini(&c->texts);
    buf_fini(&c->lent);
    free(c->told);
    free(c);
}

void
content_heed(struct content *c, const atomic_bool *is_ending)
{
    c->rows.is_ending = is_ending;
    db_heed(&c->rows.db, is_ending);
}

bool
content_has_failed(const struct content *c)
{
    return c->has_failed || c->rows.db.is_damaged;
}

const struct content_at *
content_at(const struct content *c)
{
    return &c->state.at;
}

/* Folding */

/* True if the log is the one that was folded. A copy of an older log may have
 * continued differently since: d(seq) shows it. */
static bool
is_same_log(struct content *c, const struct batch *batch)
{
    struct digest digest;

    if (c->is_same_log || !c->state.has_digest)
        return true;
    digest = batch_digest(batch, c->state.at.seq);
    c->is_same_log = !memcmp(&digest, &c->state.digest, sizeof(digest));
    return c->is_same_log;
}

/* Finds the SHA-256 in a list of hashes. */
static bool
has_sha256(struct slice hash, struct digest *digest)
{
    struct slice algorithm, digits;
    char text[DIGEST_TEXT_SIZE];

    while (hash_next(&hash, &algorithm, &digits)) {
        if (!slice_is(algorithm, "sha-256") || digits.size != 2 * DIGEST_SIZE)
            continue;
        memcpy(text, "sha-256:", 8);
        memcpy(text + 8, digits.data, digits.size);
        return !digest_read((struct slice){text, sizeof(text)}, digest);
    }
    return false;
}

static enum status
gather_entry(struct content *c, struct slice fragment, uint32_t stamp,
             uint64_t seq)
{
    struct slice loc = fragment_loc(fragment), hash;
    struct content_told *t;

    if (!ONE_MORE(c->told, &c->capacity, c->n_told))
        return STATUS_MEMORY;
    t = &c->told[c->n_told];
    memset(t, 0, sizeof(*t));
    resource_key(&t->key, loc);
    t->seq = seq;
    t->is_deleted = fragment_kind(fragment.data, stamp) == CHANGE_DELETED;
    if (!t->is_deleted) {
        fragment_bytes(fragment, stamp, &hash, &t->length);
        t->has_sha256 = has_sha256(hash, &t->sha256);
        t->loc = c->texts.size;
        t->loc_size = loc.size;
        buf_add_slice(&c->texts, loc);
        t->hash = c->texts.size;
        t->hash_size = hash.size;
        buf_add_slice(&c->texts, hash);
    }
    if (c->texts.failed)
        return STATUS_MEMORY;
    c->n_told++;
    return STATUS_OK;
}

enum status
content_fold(struct content *c, const struct batch *batch, uint64_t last,
             struct problem *why)
{
    enum status rc = STATUS_OK;

    if (!is_same_log(c, batch)) {
        rc = begin_anew(c, "the log is not the one that it was folded from",
                        why);
        return rc ? rc : STATUS_AGAIN;
    }
    for (uint64_t seq = c->seq + 1; !rc && seq <= last; seq++)
        rc = gather_entry(c, batch_slice(batch, seq - 1, seq),
                          batch->entries[seq - batch->first].stamp, seq);
    if (rc) {
        forget_gathered(c);
        return problem(why, rc, "no memory to fold the entries");
    }
    c->seq = last;
    c->digest = batch_digest(batch, last);
    return STATUS_OK;
}

bool
content_is_full(const struct content *c)
{
    return c->n_told >= GATHER_ENTRIES || c->texts.size >= GATHER_BYTES;
}

/* After a change with the result `rc`: `state` becomes the state if it
 * succeeded. A damaged file begins anew. */
static enum status
settle_transaction(struct content *c, enum status rc,
                   const struct contentrows_at *state,
                   const struct problem *reason, struct problem *why)
{
    if (!rc)
        c->state = *state;
    if (c->rows.db.is_damaged) { /* or a reader has found damage */
        rc = begin_anew(c, rc ? reason->text : "it is damaged", why);
        c->has_failed |= rc != STATUS_OK;
        return rc ? rc : STATUS_AGAIN;
    }
    if (rc && why)
        *why = *reason;
    c->has_failed |= rc && rc != STATUS_NOT_FOUND;
    return rc;
}

enum status
content_commit(struct content *c, struct problem *why)
{
    struct contentrows_at state = c->state;
    struct problem reason = {""};
    enum status rc;

    if (c->n_told == 0)
        return STATUS_OK;
    state.at.seq = c->seq;
    state.digest = c->digest;
    state.has_digest = true;
    rc =
        contentrows_fold(&c->rows,
                         &(struct content_batch){c->told, c->n_told,
                                                 c->texts.data, clock_now_us()},
                         &state, &reason);
    if (!rc)
        c->is_same_log = true;
    rc = settle_transaction(c, rc, &state, &reason, why);
    forget_gathered(c);
    sqlite3_db_release_memory(c->rows.db.handle);
    return rc;
}

/* Queries */

enum status
content_find(struct content *c, uint64_t seq, struct content_bytes *bytes,
             struct problem *why)
{
    bool is_there;
    enum status rc =
        db_find(&c->rows.db, NULL, why, &is_there,
                "SELECT digest, length(digest)=32, (SELECT length FROM files"
                " WHERE digest=entries.digest) FROM entries WHERE seq=?",
                DB_VALUES(seq),
                DB_INTO(&bytes->digest, &bytes->is_there, &bytes->length));

    return rc || is_there ? rc
                          : problem(why, STATUS_NOT_FOUND,
                                    "of that entry nothing is known");
}

static bool
knows_range(const struct content *c, uint64_t after, uint64_t last)
{
    return after >= c->state.at.from && last <= c->state.at.seq;
}

enum status
content_is_complete(struct content *c, uint64_t after, uint64_t last,
                    bool *is_complete, struct problem *why)
{
    bool row = true;
    enum status rc = STATUS_OK;

    if (knows_range(c, after, last))
        rc = db_find(&c->rows.db, NULL, why, &row,
                     "SELECT 1 FROM missing WHERE seq>? AND seq<=? LIMIT 1",
                     DB_VALUES(after, last), DB_INTO());
    *is_complete = !rc && !row;
    return rc;
}

enum status
content_is_lacking(struct content *c, uint64_t after, uint64_t last,
                   bool *is_lacking, struct problem *why)
{
    *is_lacking = true;
    return knows_range(c, after, last)
               ? db_find(&c->rows.db, NULL, why, is_lacking,
                         "SELECT 1 FROM missing WHERE due IS NULL AND seq>?"
                         " AND seq<=? LIMIT 1",
                         DB_VALUES(after, last), DB_INTO())
               : STATUS_OK;
}

bool
content_has_all(const struct content *c, const struct resources_at *state)
{
    const struct content_at *at = &c->state.at;

    /* Each current row is of a resource of the state at that seq. So if there
     * are as many as resources, all have one. */
    return at->seq == state->seq && at->current == state->n &&
           at->current_missing == 0;
}

enum status
content_is_told(struct content *c, const struct digest *digest, bool *is_told,
                struct problem *why)
{
    uint64_t n = 0, length;
    enum status rc = contentrows_file(&c->rows, digest, &n, &length, why);

    *is_told = n > 0;
    return rc;
}

/* Missing content */

enum status
content_keep(struct content *c, uint64_t seq, const struct digest *digest,
             uint64_t length, struct problem *why)
{
    struct contentrows_at state = c->state;
    struct problem reason = {""};
    enum status rc =
        contentrows_keep(&c->rows, seq, digest, length, &state, &reason);

    return settle_transaction(c, rc, &state, &reason, why);
}

enum status
content_postpone(struct content *c, uint64_t seq, int64_t due_us,
                 struct problem *why)
{
    struct contentrows_at state = c->state;
    struct problem reason = {""};
    enum status rc =
        contentrows_postpone(&c->rows, seq, due_us, &state, &reason);

    return settle_transaction(c, rc, &state, &reason, why);
}

enum status
content_give_up(struct content *c, uint64_t seq, struct problem *why)
{
    return content_postpone(c, seq, CONTENT_NEVER, why);
}

static enum status
next_due(struct content *c, int64_t now_us, struct content_missing *m,
         struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&c->rows.db, NULL, why, contentrows_next_due, m->due_us,
                  m->seq, now_us);
    struct slice loc, hash;
    size_t loc_size;

    if (DB_NEXT(&rows, &m->seq, &m->due_us, &m->tries, &loc, &hash,
                &m->length)) {
        /* The row is lent only for a moment. */
        buf_clear(&c->lent);
        xml_unescape(&c->lent, loc);
        loc_size = c->lent.size;
        buf_add_slice(&c->lent, hash);
        m->loc = (struct slice){c->lent.data, loc_size};
        m->hash = (struct slice){c->lent.data + loc_size, hash.size};
        if (c->lent.failed)
            rows.rc = problem_memory(why);
    } else if (!rows.rc) {
        rows.rc =
            problem(why, STATUS_NOT_FOUND, "nothing is to be fetched now");
    }
    return db_rows_end(&rows);
}

/* Keeps the entry if its bytes have come for another entry: STATUS_OK.
 * STATUS_NOT_FOUND: they must be fetched. */
static enum status
take_from_store(struct content *c, const struct content_missing *m,
                bool *is_hopeless, struct problem *why)
{
    struct digest digest;
    uint64_t length;
    enum status rc;

    *is_hopeless = false;
    if (!has_sha256(m->hash, &digest))
        return STATUS_NOT_FOUND;
    rc = contentrows_look(&c->rows, &digest, m->length, &length, is_hopeless,
                          why);
    return rc ? rc : content_keep(c, m->seq, &digest, length, why);
}

enum status
content_missing(struct content *c, int64_t now_us, struct content_missing *m,
                struct problem *why)
{
    bool is_hopeless = false;
    enum status rc = next_due(c, now_us, m, why);

    m->is_settled = false;
    if (rc)
        return rc;
    rc = take_from_store(c, m, &is_hopeless, why);
    if (rc == STATUS_NOT_FOUND && is_hopeless)
        rc = content_give_up(c, m->seq, why);
    m->is_settled = !rc;
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

/* Forgetting */

enum status
content_forget(struct content *c, uint64_t earliest, bool *is_more,
               struct problem *why)
{
    struct contentrows_at state = c->state;
    struct problem reason = {""};
    enum status rc = contentrows_forget(&c->rows, earliest, FORGET_ROWS,
                                        is_more, &state, &reason);

    return settle_transaction(c, rc, &state, &reason, why);
}

enum status
content_loose(struct content *c, const struct digest *after,
              struct digest *digests, size_t *n, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&c->rows.db, NULL, why,
                  "SELECT digest FROM files INDEXED BY loose WHERE n=0"
                  " AND digest>? AND length(digest)=32 ORDER BY digest LIMIT ?",
                  db_bytes(after, after ? DIGEST_SIZE : 0), *n);

    *n = 0;
    while (DB_NEXT(&rows, &digests[*n]))
        ++*n;
    return db_rows_end(&rows);
}

enum status
content_let_go(struct content *c, const struct digest *digests, size_t n,
               struct problem *why)
{
    struct problem reason = {""};
    enum status rc = contentrows_let_go(&c->rows, digests, n, &reason);

    return settle_transaction(c, rc, &c->state, &reason, why);
}

enum status
content_each_told(const char *path, content_file_fn *fn, void *user,
                  struct problem *why)
{
    struct digest digest;
    struct db_rows rows;
    struct db db;
    enum status rc = db_open(&db, path, DB_LOOK, why);

    if (rc)
        return rc;
    rows = DB_SELECT(&db, "read " CONTENT_FILE, why,
                     "SELECT digest FROM files WHERE n > 0"
                     " AND length(digest) = 32");
    while (DB_NEXT(&rows, &digest))
        rows.rc = fn(&digest, user, why);
    rc = db_rows_end(&rows);
    db_close(&db);
    return rc;
}

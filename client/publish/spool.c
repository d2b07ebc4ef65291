#include "client/publish/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/db.h"
#include "base/random.h"

static const char *const steps[] = {
    "CREATE TABLE bound (set_url TEXT NOT NULL, durable INTEGER NOT NULL);"
    "CREATE TABLE change (number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " body BLOB NOT NULL);"
    "CREATE TABLE post (key TEXT NOT NULL, last INTEGER NOT NULL);",
    "ALTER TABLE bound ADD COLUMN note TEXT NOT NULL DEFAULT '';",
};

enum {
    SQL_BIND_SET,
    SQL_BOUND,
    SQL_ADD,
    SQL_NOTE,
    SQL_OLDEST,
    SQL_UPTO,
    SQL_POST,
    SQL_SEAL,
    SQL_UNSEAL,
    SQL_POSTED,
    SQL_DURABLE,
    SQL_NTH,
    SQL_DROP,
    N_SQL
};

static const char *const sql[N_SQL] = {
    [SQL_BIND_SET] = "INSERT INTO bound(set_url, durable) SELECT ?1, 0"
                     " WHERE NOT EXISTS (SELECT 1 FROM bound)",
    [SQL_BOUND] = "SELECT set_url, durable, note FROM bound",
    [SQL_ADD] = "INSERT INTO change VALUES (?1, ?2)",
    [SQL_NOTE] = "UPDATE bound SET note = ?1",
    [SQL_OLDEST] = "SELECT number, length(body) FROM change ORDER BY number",
    [SQL_UPTO] = "SELECT number, body FROM change WHERE number <= ?1"
                 " ORDER BY number",
    [SQL_POST] = "SELECT key, last FROM post",
    [SQL_SEAL] = "INSERT INTO post VALUES (?1, ?2)",
    [SQL_UNSEAL] = "DELETE FROM post",
    [SQL_POSTED] = "DELETE FROM change WHERE number <= ?1",
    [SQL_DURABLE] = "UPDATE bound SET durable = ?1",
    [SQL_NTH] = "SELECT number, body FROM change WHERE number <= ?1"
                " ORDER BY number LIMIT 1 OFFSET ?2",
    [SQL_DROP] = "DELETE FROM change WHERE number = ?1",
};

/* synchronous=FULL: an added change survives a power failure. */
static const struct db_kind kind = {
    .name = "the spool",
    .mode = DB_OWN,
    .application_id = 1415861104, /* "TdSp" */
    .steps = steps,
    .n_steps = 2,
    .sql = sql,
    .n_sql = N_SQL,
};

struct spool {
    struct db db;
    uint64_t max_bytes;
    uint64_t last; /* number of the last added change */
    uint64_t durable;
    uint64_t n_bytes;
    size_t n_changes;
    char note[SPOOL_NOTE_SIZE];
};

/* Runs a statement without rows; `number` is its only parameter, if it has one.
 */
static enum status
run_with(struct spool *spool, int which, uint64_t number, struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[which];

    if (sqlite3_bind_parameter_count(s) > 0)
        sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    return db_run(&spool->db, s, NULL, why);
}

/* Opening */

/* Binds a new spool to the set, and checks that an old one is bound to it. */
static enum status
bind_set(struct spool *spool, const char *set_url, struct problem *why)
{
    sqlite3_stmt *bind = spool->db.statements[SQL_BIND_SET];
    sqlite3_stmt *s = spool->db.statements[SQL_BOUND];
    struct slice its_set;
    enum status rc;
    bool row;

    db_bind_text(bind, 1, slice_of(set_url));
    rc = db_run(&spool->db, bind, NULL, why);
    if (!rc)
        rc = db_step(&spool->db, s, &row, NULL, why);
    its_set = db_column(s, 0);
    if (!rc && its_set.size == 0)
        rc = db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
    if (!rc && !slice_is(its_set, set_url))
        rc = db_fail(&spool->db, STATUS_IO, why, "it is for another set: %.*s",
                     SLICE_ARG(its_set));
    if (!rc && !db_text(s, 2, spool->note, sizeof(spool->note)))
        rc = db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
    if (!rc)
        spool->durable = (uint64_t)sqlite3_column_int64(s, 1);
    db_reset(s);
    return rc;
}

/* Numbers go on after the last one, even if that was dropped. */
static enum status
count_changes(struct spool *spool, struct problem *why)
{
    int64_t n = 0, n_bytes = 0, last = 0;
    enum status rc =
        db_number(&spool->db, "SELECT count(*) FROM change", &n, why);

    if (!rc)
        rc = db_number(&spool->db,
                       "SELECT coalesce(sum(length(body)), 0) FROM change",
                       &n_bytes, why);
    if (!rc)
        rc = db_number(&spool->db,
                       "SELECT coalesce(max(seq), 0) FROM sqlite_sequence",
                       &last, why);
    spool->n_changes = (size_t)n;
    spool->n_bytes = (uint64_t)n_bytes;
    spool->last = (uint64_t)last;
    return rc;
}

enum status
spool_open(struct spool **spool, const char *path, const char *set_url,
           uint64_t max_bytes, struct problem *why)
{
    struct spool *made = calloc(1, sizeof(*made));
    enum status rc;

    *spool = NULL;
    if (!made)
        return problem_memory(why);
    made->max_bytes = max_bytes;
    rc = db_open_kind(&made->db, &kind, path ? path : ":memory:", why);
    if (!rc)
        rc = bind_set(made, set_url, why);
    if (!rc)
        rc = count_changes(made, why);
    if (rc) {
        spool_close(made);
        /* Not TD_INVALID: the arguments of the caller are right. */
        return rc == STATUS_MEMORY ? rc : STATUS_IO;
    }
    *spool = made;
    return STATUS_OK;
}

void
spool_close(struct spool *spool)
{
    if (!spool)
        return;
    db_close(&spool->db);
    free(spool);
}

/* Adding */

static enum status
insert_change(struct spool *spool, struct slice change, uint64_t number,
              struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[SQL_ADD];

    sqlite3_bind_int64(s, 1, (sqlite3_int64)number);
    db_bind_bytes(s, 2, change);
    return db_run(&spool->db, s, NULL, why);
}

static enum status
update_note(struct spool *spool, const char *note, struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[SQL_NOTE];

    if (strlen(note) >= SPOOL_NOTE_SIZE)
        return problem(why, STATUS_INVALID, "a note has less than %d bytes",
                       SPOOL_NOTE_SIZE);
    db_bind_text(s, 1, slice_of(note));
    return db_run(&spool->db, s, NULL, why);
}

enum status
spool_add(struct spool *spool, const struct slice *changes, size_t n,
          const char *note, struct problem *why)
{
    uint64_t n_bytes = spool->n_bytes;
    enum status rc;

    for (size_t i = 0; i < n; i++) {
        n_bytes += changes[i].size;
        if (n_bytes > spool->max_bytes)
            return problem(why, STATUS_UNREACHABLE,
                           "%llu bytes of changes wait already, %llu at most",
                           (unsigned long long)spool->n_bytes,
                           (unsigned long long)spool->max_bytes);
    }
    rc = db_begin(&spool->db, why);
    if (rc)
        return rc;
    for (size_t i = 0; i < n && !rc; i++)
        rc = insert_change(spool, changes[i], spool->last + 1 + i, why);
    if (!rc && note)
        rc = update_note(spool, note, why);
    rc = db_end(&spool->db, rc, why);
    if (rc)
        return rc;
    spool->last += n;
    spool->n_changes += n;
    spool->n_bytes = n_bytes;
    if (note)
        snprintf(spool->note, sizeof(spool->note), "%s", note);
    return STATUS_OK;
}

const char *
spool_note(const struct spool *spool)
{
    return spool->note;
}

uint64_t
spool_added(const struct spool *spool)
{
    return spool->last;
}

uint64_t
spool_durable(const struct spool *spool)
{
    return spool->durable;
}

size_t
spool_changes(const struct spool *spool)
{
    return spool->n_changes;
}

uint64_t
spool_bytes(const struct spool *spool)
{
    return spool->n_bytes;
}

/* Posts */

void
spool_post_fini(struct spool_post *post)
{
    buf_fini(&post->body);
}

/* The sealed post's key and last change; *is_there false: there is none. */
static enum status
read_sealed(struct spool *spool, struct spool_post *post, bool *is_there,
            struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[SQL_POST];
    enum status rc = db_step(&spool->db, s, is_there, NULL, why);

    if (!rc && *is_there &&
        (!db_text(s, 0, post->key, sizeof(post->key)) ||
         strlen(post->key) != POST_KEY_SIZE - 1))
        rc = db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
    if (*is_there)
        post->last = (uint64_t)sqlite3_column_int64(s, 1);
    db_reset(s);
    return rc;
}

/* Chooses the last change of a new post. */
static enum status
choose_last(struct spool *spool, size_t max_changes, size_t max_bytes,
            uint64_t *last, struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[SQL_OLDEST];
    uint64_t bytes = 0;
    size_t n = 0;
    enum status rc;
    bool row;

    while (!(rc = db_step(&spool->db, s, &row, NULL, why)) && row) {
        bytes += (uint64_t)sqlite3_column_int64(s, 1) + 2;
        if (n > 0 && (n >= max_changes || bytes > max_bytes))
            break;
        *last = (uint64_t)sqlite3_column_int64(s, 0);
        n++;
    }
    db_reset(s);
    return rc;
}

static enum status
seal_post(struct spool *spool, size_t max_changes, size_t max_bytes,
          struct spool_post *post, struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[SQL_SEAL];
    enum status rc =
        choose_last(spool, max_changes, max_bytes, &post->last, why);

    if (!rc && !random_hex(post->key, sizeof(post->key)))
        rc = problem_memory(why);
    if (rc)
        return rc;
    db_bind_text(s, 1, slice_of(post->key));
    sqlite3_bind_int64(s, 2, (sqlite3_int64)post->last);
    return db_run(&spool->db, s, NULL, why);
}

/* Its body is a function of what is sealed: the same bytes each time. */
static enum status
read_body(struct spool *spool, struct spool_post *post, struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[SQL_UPTO];
    enum status rc;
    bool row;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)post->last);
    while (!(rc = db_step(&spool->db, s, &row, NULL, why)) && row) {
        struct slice change = db_column(s, 1);

        buf_add_text(&post->body, post->n++ == 0 ? "[" : ",\n");
        buf_add(&post->body, change.data, change.size);
        post->n_bytes += change.size;
    }
    db_reset(s);
    BUF_ADD(&post->body, "]\n");
    return !rc && post->body.failed ? problem_memory(why) : rc;
}

enum status
spool_seal(struct spool *spool, size_t max_changes, size_t max_bytes,
           struct spool_post *post, struct problem *why)
{
    enum status rc;
    bool is_there;

    *post = (struct spool_post){.n = 0};
    buf_init(&post->body, SIZE_MAX);
    if (spool->n_changes == 0)
        return STATUS_OK;
    rc = read_sealed(spool, post, &is_there, why);
    if (!rc && !is_there)
        rc = seal_post(spool, max_changes, max_bytes, post, why);
    return rc ? rc : read_body(spool, post, why);
}

enum status
spool_posted(struct spool *spool, const struct spool_post *post,
             struct problem *why)
{
    enum status rc = db_begin(&spool->db, why);

    if (rc)
        return rc;
    rc = run_with(spool, SQL_POSTED, post->last, why);
    if (!rc)
        rc = run_with(spool, SQL_DURABLE, post->last, why);
    if (!rc)
        rc = run_with(spool, SQL_UNSEAL, 0, why);
    rc = db_end(&spool->db, rc, why);
    if (rc)
        return rc;
    spool->durable = post->last;
    spool->n_changes -= post->n;
    spool->n_bytes -= post->n_bytes;
    return STATUS_OK;
}

enum status
spool_change(struct spool *spool, const struct spool_post *post, uint64_t n,
             struct spool_entry *entry, struct problem *why)
{
    sqlite3_stmt *s = spool->db.statements[SQL_NTH];
    enum status rc;
    bool row;

    sqlite3_bind_int64(s, 1, (sqlite3_int64)post->last);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)(n - 1));
    rc = db_step(&spool->db, s, &row, NULL, why);
    if (!rc && !row)
        rc = db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
    if (!rc) {
        struct slice body = db_column(s, 1);

        entry->size = body.size;
        entry->number = (uint64_t)sqlite3_column_int64(s, 0);
        entry->text = slice_dup(body);
        rc = entry->text ? STATUS_OK : problem_memory(why);
    }
    db_reset(s);
    return rc;
}

enum status
spool_drop(struct spool *spool, const struct spool_entry *entry,
           struct problem *why)
{
    enum status rc = db_begin(&spool->db, why);

    if (rc)
        return rc;
    rc = run_with(spool, SQL_DROP, entry->number, why);
    if (!rc)
        rc = run_with(spool, SQL_UNSEAL, 0, why);
    rc = db_end(&spool->db, rc, why);
    if (rc)
        return rc;
    spool->n_changes--;
    spool->n_bytes -= entry->size;
    return STATUS_OK;
}

enum status
spool_unseal(struct spool *spool, struct problem *why)
{
    return run_with(spool, SQL_UNSEAL, 0, why);
}

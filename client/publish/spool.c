#include "client/publish/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/db_rows.h"
#include "base/random.h"

static const char *const steps[] = {
    "CREATE TABLE bound (set_url TEXT NOT NULL, durable INTEGER NOT NULL);"
    "CREATE TABLE change (number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " body BLOB NOT NULL);"
    "CREATE TABLE post (key TEXT NOT NULL, last INTEGER NOT NULL);",
    "ALTER TABLE bound ADD COLUMN note TEXT NOT NULL DEFAULT '';",
};

/* synchronous=FULL: an added change survives a power failure. */
static const struct db_kind kind = {
    .name = "the spool",
    .mode = DB_OWN,
    .application_id = 1415861104, /* "TdSp" */
    .steps = steps,
    .n_steps = 2,
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

/* Opening */

static enum status
report_damage(struct spool *spool, struct problem *why)
{
    return db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
}

/* Binds a new spool to the set, and checks that an old one is bound to it. */
static enum status
bind_set(struct spool *spool, const char *set_url, struct problem *why)
{
    enum status rc = DB_DO(&spool->db, NULL, why,
                           "INSERT INTO bound(set_url, durable) SELECT ?, 0"
                           " WHERE NOT EXISTS (SELECT 1 FROM bound)",
                           set_url);
    struct db_rows rows;
    struct slice its_set = {NULL, 0}, note = {NULL, 0};

    if (rc)
        return rc;
    rows = DB_SELECT(&spool->db, NULL, why,
                     "SELECT set_url, durable, note FROM bound");
    if (DB_NEXT(&rows, &its_set, &spool->durable, &note) && its_set.size > 0 &&
        !slice_is(its_set, set_url))
        rows.rc = db_fail(&spool->db, STATUS_IO, why,
                          "it is for another set: %.*s", SLICE_ARG(its_set));
    else if (!rows.rc && (its_set.size == 0 ||
                          !slice_copy(spool->note, SPOOL_NOTE_SIZE, note)))
        rows.rc = report_damage(spool, why);
    return db_rows_end(&rows);
}

/* Numbers go on after the last one, even if that was dropped. */
static enum status
count_changes(struct spool *spool, struct problem *why)
{
    return db_find(&spool->db, NULL, why, NULL,
                   "SELECT count(*), coalesce(sum(length(body)), 0),"
                   " (SELECT max(seq) FROM sqlite_sequence) FROM change",
                   DB_VALUES(),
                   DB_INTO(&spool->n_changes, &spool->n_bytes, &spool->last));
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
update_note(struct spool *spool, const char *note, struct problem *why)
{
    if (strlen(note) >= SPOOL_NOTE_SIZE)
        return problem(why, STATUS_INVALID, "a note has less than %d bytes",
                       SPOOL_NOTE_SIZE);
    return DB_DO(&spool->db, NULL, why, "UPDATE bound SET note = ?", note);
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
        rc = DB_DO(&spool->db, NULL, why, "INSERT INTO change VALUES (?, ?)",
                   spool->last + 1 + i, db_blob(changes[i]));
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
    enum status rc =
        db_find(&spool->db, NULL, why, is_there, "SELECT key, last FROM post",
                DB_VALUES(), DB_INTO(&post->key, &post->last));

    return !rc && *is_there && strlen(post->key) != POST_KEY_SIZE - 1
               ? report_damage(spool, why)
               : rc;
}

/* Chooses the last change of a new post. */
static enum status
choose_last(struct spool *spool, size_t max_changes, size_t max_bytes,
            uint64_t *last, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&spool->db, NULL, why,
                  "SELECT number, length(body) FROM change ORDER BY number");
    uint64_t number, size, bytes = 0;

    for (size_t n = 0; DB_NEXT(&rows, &number, &size); n++) {
        bytes += size + 2;
        if (n > 0 && (n >= max_changes || bytes > max_bytes))
            break;
        *last = number;
    }
    return db_rows_end(&rows);
}

static enum status
seal_post(struct spool *spool, size_t max_changes, size_t max_bytes,
          struct spool_post *post, struct problem *why)
{
    enum status rc =
        choose_last(spool, max_changes, max_bytes, &post->last, why);

    if (!rc && !random_hex(post->key, sizeof(post->key)))
        rc = problem_memory(why);
    return rc ? rc
              : DB_DO(&spool->db, NULL, why, "INSERT INTO post VALUES (?, ?)",
                      post->key, post->last);
}

/* Its body is a function of what is sealed: the same bytes each time. */
static enum status
read_body(struct spool *spool, struct spool_post *post, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&spool->db, NULL, why,
                  "SELECT body FROM change WHERE number <= ? ORDER BY number",
                  post->last);
    struct slice change;

    while (DB_NEXT(&rows, &change)) {
        buf_add_text(&post->body, post->n++ == 0 ? "[" : ",\n");
        buf_add_slice(&post->body, change);
        post->n_bytes += change.size;
    }
    BUF_ADD(&post->body, "]\n");
    if (!rows.rc && post->body.failed)
        rows.rc = problem_memory(why);
    return db_rows_end(&rows);
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
spool_unseal(struct spool *spool, struct problem *why)
{
    return DB_DO(&spool->db, NULL, why, "DELETE FROM post");
}

enum status
spool_posted(struct spool *spool, const struct spool_post *post,
             struct problem *why)
{
    enum status rc = db_begin(&spool->db, why);

    if (rc)
        return rc;
    rc = DB_DO(&spool->db, NULL, why, "DELETE FROM change WHERE number <= ?",
               post->last);
    if (!rc)
        rc = DB_DO(&spool->db, NULL, why, "UPDATE bound SET durable = ?",
                   post->last);
    if (!rc)
        rc = spool_unseal(spool, why);
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
    struct db_rows rows =
        DB_SELECT(&spool->db, NULL, why,
                  "SELECT number, body FROM change WHERE number <= ?"
                  " ORDER BY number LIMIT 1 OFFSET ?",
                  post->last, n - 1);
    struct slice body;

    if (DB_NEXT(&rows, &entry->number, &body)) {
        entry->size = body.size;
        entry->text = slice_dup(body);
        if (!entry->text)
            rows.rc = problem_memory(why);
    } else if (!rows.rc) {
        rows.rc = report_damage(spool, why);
    }
    return db_rows_end(&rows);
}

enum status
spool_drop(struct spool *spool, const struct spool_entry *entry,
           struct problem *why)
{
    enum status rc = db_begin(&spool->db, why);

    if (rc)
        return rc;
    rc = DB_DO(&spool->db, NULL, why, "DELETE FROM change WHERE number = ?",
               entry->number);
    if (!rc)
        rc = spool_unseal(spool, why);
    rc = db_end(&spool->db, rc, why);
    if (rc)
        return rc;
    spool->n_changes--;
    spool->n_bytes -= entry->size;
    return STATUS_OK;
}

#include "client/publish/spool.h"

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

/* Runs a statement. */
#define DO(spool, why, ...) DB_DO(&(spool)->db, NULL, why, __VA_ARGS__)

/* Opening */

/* Binds a new spool to the set, and checks that an old one is bound to it. */
static enum status
bind_set(struct spool *spool, const char *set_url, struct problem *why)
{
    enum status rc = DO(spool, why,
                        "INSERT INTO bound(set_url, durable) SELECT ?1, 0"
                        " WHERE NOT EXISTS (SELECT 1 FROM bound)",
                        set_url);
    struct slice its_set, note;
    struct db_rows rows;

    if (rc)
        return rc;
    rows = DB_SELECT(&spool->db, NULL, why,
                     "SELECT set_url, durable, note FROM bound");
    if (!DB_NEXT(&rows, &its_set, &spool->durable, &note))
        return db_rows_end(&rows);
    if (its_set.size == 0 ||
        !slice_copy(spool->note, sizeof(spool->note), note))
        rows.rc = db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
    else if (!slice_is(its_set, set_url))
        rows.rc = db_fail(&spool->db, STATUS_IO, why,
                          "it is for another set: %.*s", SLICE_ARG(its_set));
    return db_rows_end(&rows);
}

enum status
spool_open(struct spool *spool, const char *path, const char *set_url,
           uint64_t max_bytes, struct problem *why)
{
    uint64_t n = 0;
    enum status rc;

    *spool = (struct spool){.max_bytes = max_bytes};
    rc = db_open_kind(&spool->db, &kind, path ? path : ":memory:", why);
    if (!rc)
        rc = bind_set(spool, set_url, why);
    if (!rc) /* numbers go on after the last one, even if that was dropped */
        rc = db_find(&spool->db, NULL, why, NULL,
                     "SELECT count(*), coalesce(sum(length(body)), 0),"
                     " (SELECT coalesce(max(seq), 0) FROM sqlite_sequence)"
                     " FROM change",
                     DB_VALUES(), DB_INTO(&n, &spool->n_bytes, &spool->last));
    spool->n_changes = (size_t)n;
    /* Not TD_INVALID: the arguments of the caller are right. */
    return rc && rc != STATUS_MEMORY ? STATUS_IO : rc;
}

/* Adding */

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
                           "%" PRIu64 " bytes of changes wait already, %" PRIu64
                           " at most",
                           spool->n_bytes, spool->max_bytes);
    }
    rc = db_begin(&spool->db, why);
    if (rc)
        return rc;
    for (size_t i = 0; i < n && !rc; i++)
        rc = DO(spool, why, "INSERT INTO change VALUES (?1, ?2)",
                spool->last + 1 + i, db_blob(changes[i]));
    if (!rc && note)
        rc = strlen(note) < SPOOL_NOTE_SIZE
                 ? DO(spool, why, "UPDATE bound SET note = ?1", note)
                 : problem(why, STATUS_INVALID, "a note has less than %d bytes",
                           SPOOL_NOTE_SIZE);
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

/* Posts */

/* Chooses the last change of a new post. */
static enum status
choose_last(struct spool *spool, size_t max_changes, size_t max_bytes,
            uint64_t *last, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&spool->db, NULL, why,
                  "SELECT number, length(body) FROM change ORDER BY number");
    uint64_t bytes = 0, number, size;

    for (size_t n = 0; DB_NEXT(&rows, &number, &size); n++) {
        bytes += size + 2;
        if (n > 0 && (n >= max_changes || bytes > max_bytes))
            break;
        *last = number;
    }
    return db_rows_end(&rows);
}

enum status
spool_seal(struct spool *spool, size_t max_changes, size_t max_bytes,
           struct spool_post *post, struct problem *why)
{
    struct slice key = {NULL, 0}, change;
    struct db_rows rows;
    bool is_there;
    enum status rc;

    *post = (struct spool_post){.body.max = SIZE_MAX};
    if (spool->n_changes == 0)
        return STATUS_OK;
    rows = DB_SELECT(&spool->db, NULL, why, "SELECT key, last FROM post");
    is_there = DB_NEXT(&rows, &key, &post->last);
    if (is_there && (key.size != POST_KEY_SIZE - 1 ||
                     !slice_copy(post->key, sizeof(post->key), key)))
        rows.rc = db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
    rc = db_rows_end(&rows);
    if (rc)
        return rc;
    if (!is_there) {
        rc = choose_last(spool, max_changes, max_bytes, &post->last, why);
        if (!rc && !random_hex(post->key, sizeof(post->key)))
            rc = problem_memory(why);
        if (!rc)
            rc = DO(spool, why, "INSERT INTO post VALUES (?1, ?2)",
                    slice_of(post->key), post->last);
    }
    if (rc)
        return rc;
    /* The body is a function of what is sealed: the same bytes each time. */
    rows =
        DB_SELECT(&spool->db, NULL, why,
                  "SELECT body FROM change WHERE number <= ?1 ORDER BY number",
                  post->last);
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

/* Deletes the changes from `first` to `last`, `n` of `n_bytes`, and unseals the
 * post, after which `durable` was posted last. */
static enum status
delete_changes(struct spool *spool, uint64_t first, uint64_t last, size_t n,
               uint64_t n_bytes, uint64_t durable, struct problem *why)
{
    enum status rc = db_begin(&spool->db, why);

    if (rc)
        return rc;
    rc = DO(spool, why, "DELETE FROM change WHERE number BETWEEN ?1 AND ?2",
            first, last);
    if (!rc)
        rc = DO(spool, why, "UPDATE bound SET durable = ?1", durable);
    if (!rc)
        rc = spool_unseal(spool, why);
    rc = db_end(&spool->db, rc, why);
    if (rc)
        return rc;
    spool->durable = durable;
    spool->n_changes -= n;
    spool->n_bytes -= n_bytes;
    return STATUS_OK;
}

enum status
spool_posted(struct spool *spool, const struct spool_post *post,
             struct problem *why)
{
    return delete_changes(spool, 0, post->last, post->n, post->n_bytes,
                          post->last, why);
}

enum status
spool_change(struct spool *spool, const struct spool_post *post, uint64_t n,
             struct spool_entry *entry, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&spool->db, NULL, why,
                  "SELECT number, body FROM change WHERE number <= ?1"
                  " ORDER BY number LIMIT 1 OFFSET ?2",
                  post->last, n - 1);
    struct slice body;

    if (DB_NEXT(&rows, &entry->number, &body)) {
        entry->size = body.size;
        entry->text = slice_dup(body);
        if (!entry->text)
            rows.rc = problem_memory(why);
    } else if (!rows.rc) {
        rows.rc = db_fail(&spool->db, STATUS_IO, why, "the file is damaged");
    }
    return db_rows_end(&rows);
}

enum status
spool_drop(struct spool *spool, const struct spool_entry *entry,
           struct problem *why)
{
    return delete_changes(spool, entry->number, entry->number, 1, entry->size,
                          spool->durable, why);
}

enum status
spool_unseal(struct spool *spool, struct problem *why)
{
    return DO(spool, why, "DELETE FROM post");
}

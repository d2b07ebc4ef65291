/*
 * watch_db.c - the last posted state of each file, in SQLite.
 *
 * A transaction is open from the first write after a seal until the next one.
 * To change a table, add a step.
 */
#include "client/watch/watch_db.h"

#include "base/clock.h"
#include "base/random.h"
#include "proto/datetime.h"

/* `pending` has the files' states after the post under way: without a sha256,
 * deleted. A path is a BLOB: SQLite compares its bytes. `post` and `bound` have
 * one row at most. */
static const char *const steps[] = {
    "CREATE TABLE files (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER,"
    " ctime INTEGER, ino INTEGER, sha256 BLOB) WITHOUT ROWID;"
    "CREATE TABLE pending (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER,"
    " ctime INTEGER, ino INTEGER, sha256 BLOB) WITHOUT ROWID;"
    "CREATE TABLE post (key TEXT, body BLOB, n_entries INTEGER);"
    "CREATE TABLE bound (set_url TEXT, base_uri TEXT, epoch TEXT);",
};

static const char apply[] = "INSERT OR REPLACE INTO files SELECT * FROM pending"
                            " WHERE sha256 IS NOT NULL;"
                            "DELETE FROM files WHERE path IN"
                            " (SELECT path FROM pending WHERE sha256 IS NULL);"
                            "DELETE FROM pending; DELETE FROM post;";

static const char drop[] =
    "DELETE FROM pending; DELETE FROM post;"
    "DELETE FROM bound WHERE NOT EXISTS (SELECT 1 FROM files);";

/* synchronous=FULL: a sealed post is on the disk before it is sent. */
static const struct db_kind kind = {
    .name = "the state of this watch",
    .mode = DB_OWN,
    .steps = steps,
    .n_steps = 1,
};

/* Runs a statement. True: it has not failed. */
#define DO(state, ...) (!DB_DO(&(state)->db, NULL, (state)->why, __VA_ARGS__))

static bool
begin_writing(struct watch_db *state)
{
    return !sqlite3_get_autocommit(state->db.handle) ||
           !db_begin(&state->db, state->why);
}

static bool
commit_writing(struct watch_db *state)
{
    if (!sqlite3_get_autocommit(state->db.handle) &&
        db_end(&state->db, STATUS_OK, state->why))
        return false;
    state->has_pending = false;
    return true;
}

/* Opening */

bool
watch_db_open(struct watch_db *state, const char *dir, const char *set_url,
              const char *base_uri, struct problem *why)
{
    struct slice of_set, of_base;
    struct db_rows rows;
    char path[PATH_MAX];

    *state = (struct watch_db){
        .lock = -1, .set_url = set_url, .base_uri = base_uri, .why = why};
    snprintf(path, sizeof(path), "%s/watch.db", dir);
    if (file_lock(dir, &state->lock, why)) {
        problem_prefix(why, STATUS_IO, "the state of this watch: ");
        return false;
    }
    if (db_open_kind(&state->db, &kind, path, why))
        return false;
    /* For another set, or with other URIs, the comparison would find wrong
     * changes. */
    rows =
        DB_SELECT(&state->db, NULL, why, "SELECT set_url, base_uri FROM bound");
    if (DB_NEXT(&rows, &of_set, &of_base) &&
        !(slice_is(of_set, set_url) && slice_is(of_base, base_uri)))
        rows.rc = db_fail(&state->db, STATUS_IO, why,
                          "it is of %.*s with base URI %.*s; choose "
                          "another --state for this one",
                          SLICE_ARG(of_set), SLICE_ARG(of_base));
    return !db_rows_end(&rows);
}

void
watch_db_close(struct watch_db *state)
{
    db_close(&state->db);
    file_close(&state->lock);
}

bool
watch_db_is_kept(const struct watch_db *state)
{
    struct stat st;

    return fstat(state->lock, &st) || st.st_nlink > 0;
}

/* Looking */

bool
watch_db_file(struct watch_db *state, const char *path, bool *is_known,
              struct file_stamp *mark)
{
    return !db_find(
        &state->db, NULL, state->why, is_known,
        "SELECT size, mtime, ctime, ino, sha256 FROM"
        " (SELECT *, 0 AS age FROM pending WHERE path = ?1 UNION ALL"
        " SELECT *, 1 FROM files WHERE path = ?1 ORDER BY age LIMIT 1)"
        " WHERE sha256 IS NOT NULL",
        DB_VALUES(db_blob(slice_of(path))),
        DB_INTO(&mark->size, &mark->mtime_ns, &mark->ctime_ns, &mark->ino,
                &mark->sha256));
}

bool
watch_db_next(struct watch_db *state, const char *prefix,
              char path[FILE_URI_PATH_MAX + 1], bool *is_there)
{
    /* The prefix itself is no file's path: it is empty or ends with "/". */
    struct slice after = slice_of(path[0] ? path : prefix), found;
    struct db_rows rows =
        DB_SELECT(&state->db, NULL, state->why,
                  "SELECT min(path) FROM"
                  " (SELECT min(path) AS path FROM files WHERE path > ?1"
                  " UNION ALL SELECT min(path) FROM pending WHERE path > ?1)",
                  db_blob(after));

    *is_there = DB_NEXT(&rows, &found) && found.size &&
                slice_starts(found, prefix) &&
                slice_copy(path, FILE_URI_PATH_MAX + 1, found);
    return !db_rows_end(&rows);
}

bool
watch_db_count(struct watch_db *state, uint64_t *n_files)
{
    return !db_find(&state->db, NULL, state->why, NULL,
                    "SELECT count(*) FROM files", DB_VALUES(),
                    DB_INTO(n_files));
}

/* Writing */

bool
watch_db_note(struct watch_db *state, const char *path,
              const struct file_stamp *mark)
{
    return begin_writing(state) &&
           DO(state,
              "UPDATE files SET size = ?2, mtime = ?3, ctime = ?4, ino = ?5"
              " WHERE path = ?1",
              db_blob(slice_of(path)), mark->size, mark->mtime_ns,
              mark->ctime_ns, mark->ino);
}

bool
watch_db_save(struct watch_db *state)
{
    return state->has_pending || commit_writing(state);
}

bool
watch_db_add(struct watch_db *state, const char *path,
             const struct file_stamp *mark)
{
    static const struct file_stamp none = {.size = 0};
    const struct file_stamp *m = mark ? mark : &none;

    if (!begin_writing(state))
        return false;
    state->has_pending = true;
    return DO(state,
              "INSERT OR REPLACE INTO pending VALUES (?1,?2,?3,?4,?5,?6)",
              db_blob(slice_of(path)), m->size, m->mtime_ns, m->ctime_ns,
              m->ino, mark ? &mark->sha256 : NULL);
}

void
watch_db_undo(struct watch_db *state)
{
    db_rollback(&state->db);
    state->has_pending = false;
}

bool
watch_db_seal(struct watch_db *state, const void *body, size_t size,
              size_t n_entries)
{
    char key[WATCH_DB_KEY_SIZE];

    if (!random_hex(key, sizeof(key)))
        return !problem(state->why, STATUS_IO, "no random numbers: %s",
                        strerror(errno));
    return begin_writing(state) &&
           DO(state, "INSERT INTO post VALUES (?1, ?2, ?3)", slice_of(key),
              db_bytes(body, size), n_entries) &&
           DO(state,
              "INSERT INTO bound SELECT ?1, ?2, ''"
              " WHERE NOT EXISTS (SELECT 1 FROM bound)",
              state->set_url, state->base_uri) &&
           commit_writing(state);
}

bool
watch_db_unfinished(struct watch_db *state, struct watch_db_post *post,
                    bool *is_there)
{
    struct db_rows rows = DB_SELECT(&state->db, NULL, state->why,
                                    "SELECT key, n_entries, body FROM post");
    struct slice key, body;
    uint64_t n_entries;

    *is_there = DB_NEXT(&rows, &key, &n_entries, &body);
    if (*is_there) {
        slice_copy(post->key, sizeof(post->key), key);
        post->size = body.size;
        post->n_entries = (size_t)n_entries;
        post->body = slice_dup(body);
        if (!post->body)
            rows.rc = problem_memory(state->why);
    }
    return !db_rows_end(&rows);
}

/* Runs statements without parameters, and ends the transaction. */
static bool
run_and_commit(struct watch_db *state, const char *statements)
{
    return !db_exec(&state->db, statements, state->why) &&
           commit_writing(state);
}

bool
watch_db_posted(struct watch_db *state, const char *epoch, bool *is_new_log)
{
    *is_new_log = false;
    return begin_writing(state) &&
           !db_find(&state->db, NULL, state->why, NULL,
                    "SELECT epoch NOT IN ('', ?1) FROM bound", DB_VALUES(epoch),
                    DB_INTO(is_new_log)) &&
           (!*is_new_log || DO(state, "DELETE FROM files")) &&
           DO(state, "UPDATE bound SET epoch = ?1", epoch) &&
           run_and_commit(state, apply);
}

bool
watch_db_drop(struct watch_db *state)
{
    return begin_writing(state) && run_and_commit(state, drop);
}

/*
 * Turns changes into posts.
 */

#define PAUSE_FIRST_US 500000
#define PAUSE_MAX_US   60000000

/* Longest pause that a broker may ask for. */
#define PAUSE_ASKED_MAX_S 3600

#define EPOCH_MAX 64

/* Gathering */

/* {"loc":"...","change":"created","lastmod":"...","hash":{"sha-256":"..."},
 * "length":3,"type":"text/csv"}
 *
 * Nothing here needs escapes: a loc is percent-encoded, a type is checked. */
bool
post_queue_add(struct post_queue *queue, const char *change, const char *path,
               const char *loc, const struct file_stamp *mark, const char *type)
{
    int64_t ns = mark ? mark->mtime_ns : 0;

    if (!queue->n_entries)
        queue->begun_ms = clock_steady_ms();
    buf_add_format(&queue->body, "%s{\"loc\":\"%s\",\"change\":\"%s\"",
                   queue->n_entries ? ",\n" : "[", loc, change);
    if (mark) /* nanoseconds reach from the year 1677 to 2262 */
        buf_add_format(&queue->body,
                       ",\"lastmod\":\"%s\",\"hash\":{\"sha-256\":\"%s\"},"
                       "\"length\":%lld",
                       datetime_text(ns / 1000 - (ns % 1000 < 0)).text,
                       digest_text(&mark->sha256).text + strlen("sha-256:"),
                       (long long)mark->size);
    if (type)
        buf_add_format(&queue->body, ",\"type\":\"%s\"", type);
    BUF_ADD(&queue->body, "}");
    queue->n_entries++;
    queue->n_deleted += !mark;
    return watch_db_add(&queue->database, path, mark);
}

bool
post_queue_is_due(const struct post_queue *queue)
{
    return queue->n_entries &&
           (queue->n_entries >= queue->n_entries_max ||
            queue->body.size >= POST_QUEUE_BYTES_MAX ||
            clock_steady_ms() - queue->begun_ms >= POST_QUEUE_AGE_MS);
}

static void
forget_post(struct post_queue *queue)
{
    buf_fini(&queue->body);
    queue->n_entries = 0;
    queue->n_deleted = 0;
}

void
post_queue_undo(struct post_queue *queue)
{
    forget_post(queue);
    if (queue->database.db.handle)
        watch_db_undo(&queue->database);
}

bool
post_queue_seal(struct post_queue *queue)
{
    bool is_good;

    BUF_ADD(&queue->body, "]\n");
    is_good = queue->body.failed
                  ? !problem_memory(queue->database.why)
                  : watch_db_seal(&queue->database, queue->body.data,
                                  queue->body.size, queue->n_entries);
    forget_post(queue);
    return is_good;
}

/* Posting */

static enum status
note_refused(struct post_queue *queue, const struct watch_db_post *post,
             enum td_status rc, unsigned status)
{
    /* The broker judged the content and kept nothing, of an earlier attempt
     * neither, as it would have repeated its first answer. After any other
     * refusal the post stays: the answer to its first attempt may have been
     * lost. */
    bool is_about_content =
        status == 400 || status == 413 || status == 415 || status == 422;

    problem(queue->database.why, rc == TD_INVALID ? STATUS_INVALID : STATUS_IO,
            "%s", td_problem(queue->options->client));
    if ((rc != TD_INVALID && !(rc == TD_REFUSED && is_about_content)) ||
        !watch_db_drop(&queue->database) || status != 413 ||
        post->n_entries < 2)
        return queue->database.why->rc;

    problem_clear(queue->database.why);
    queue->n_entries_max = post->n_entries / 2;
    return STATUS_AGAIN;
}

static enum status
send_post(struct post_queue *queue, const struct watch_db_post *post)
{
    static const struct backoff backoff = {PAUSE_FIRST_US, PAUSE_MAX_US};
    /* One attempt: this loop waits itself, and reads events meanwhile. */
    const struct td_publish_options how = {.key = post->key, .retry_ms = -1};
    unsigned failures = 0;

    for (;;) {
        struct td_receipt receipt;
        unsigned retry_after_s;
        enum td_status rc = td_publish(
            queue->options->client, queue->options->set_url, "application/json",
            post->body, post->size, &how, &receipt);
        unsigned status = td_answered(queue->options->client, &retry_after_s);
        char text[1200];
        unsigned ms;

        if (rc == TD_OK) {
            char epoch[EPOCH_MAX + 1];
            bool is_new_log;

            snprintf(epoch, sizeof(epoch), "%.*s",
                     (int)strcspn(receipt.position, "-"), receipt.position);
            if (!watch_db_posted(&queue->database, epoch, &is_new_log))
                return queue->database.why->rc;
            queue->options->on_posted(&receipt, post->n_entries,
                                      queue->options->user);
            if (!is_new_log)
                return STATUS_OK;
            queue->options->on_warning(
                "the set was made anew; all files are posted again",
                queue->options->user);
            return STATUS_AGAIN;
        }
        if (rc == TD_STOPPED)
            return STATUS_STOPPED;
        /* 409: the broker still works on the first attempt of this post. */
        if (rc != TD_UNREACHABLE && !(rc == TD_REFUSED && status == 409))
            return note_refused(queue, post, rc, status);
        if (queue->options->is_once)
            return problem(queue->database.why, STATUS_IO, "%s",
                           td_problem(queue->options->client));
        if (retry_after_s > PAUSE_ASKED_MAX_S)
            retry_after_s = PAUSE_ASKED_MAX_S;
        ms = (unsigned)(backoff_pause(&backoff, ++failures, random_u32()) /
                        1000);
        if (ms < retry_after_s * 1000)
            ms = retry_after_s * 1000;
        snprintf(text, sizeof(text), "%s; again in %.1f s",
                 td_problem(queue->options->client), ms / 1000.0);
        queue->options->on_warning(text, queue->options->user);
        if (queue->wait(ms, queue->waiter))
            return STATUS_STOPPED;
    }
}

enum status
post_queue_deliver(struct post_queue *queue)
{
    struct watch_db_post post = {.body = NULL};
    enum status rc;
    bool is_there;

    if (!watch_db_unfinished(&queue->database, &post, &is_there))
        return queue->database.why->rc;
    if (!is_there)
        return STATUS_OK;
    rc = send_post(queue, &post);
    free(post.body);
    return rc;
}

#include "broker/store/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/store/checkpoint.h"
#include "broker/store/store_keys.h"
#include "broker/store/store_queries.h"
#include "broker/store/store_rows.h"

/*
 * With less free room the log refuses posts, so that acts that free room still
 * fit: three commits (16 MB), the file of a list (50 MB, if nothing
 * compresses), the WAL between checkpoints. A larger commit needs more. Pages
 * that the database has free count, for it never shrinks; but the WAL and the
 * file need a disk that is free.
 */
#define COMMIT_BYTES    ((uint64_t)16 << 20)
#define RESERVE_BYTES   ((uint64_t)110 << 20)
#define FREE_DISK_BYTES ((uint64_t)64 << 20)

/* With so much free, the next look is due when it could be gone at the
 * earliest. */
#define PLENTY_BYTES ((uint64_t)1 << 30)
#define PLENTY_US    100000

/* 0.1 s for 400 MB that are in the cache of the system (measured); else what
 * the disk takes. */
#define CHECKED_BYTES ((off_t)1 << 30)

/* Ours, once the first step of store_kind is done. */
#define COUNT_TABLES                                          \
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table'" \
    " AND name IN ('sets', 'batches', 'lists')"
#define N_TABLES 3

struct store {
    struct store_queries queries; /* the engine, and its readers */
    struct engine_ops ops;
    char path[4200];
    int dir_fd;

    /* The log thread's. */
    struct db db; /* of store_kind */
    struct segments segments;
    struct store_rows rows;
    struct store_keys keys;
    struct checkpoint checkpoint;
    bool has_plenty;            /* of disk space, as of the last look at it */
    int64_t plenty_until_us;    /* likewise, without a look */
    uint64_t room;              /* as of the last look */
    struct segment_place ahead; /* of the entries that write_ahead has written,
                                   for the next commit only */
};

static struct store *
store_of(struct engine *engine)
{
    return (struct store *)(void *)engine;
}

/* Committing */

/* The acts in the order in which the log thread placed their posts. A row needs
 * rows of earlier acts only: a set is born before anything else of it, its
 * batches and lists ascend, its generations come before its removal, and a
 * removed set gets no more in the same commit. Trash and generations that go
 * are those of earlier commits. */
static enum status
apply_acts(struct store *s, const struct commit *commit, bool *is_paid,
           struct problem *why)
{
    enum status rc = store_keys_begin(&s->keys, commit->at_us, why);

    for (size_t i = 0; !rc && i < commit->n; i++) {
        const struct act *act = &commit->acts[i];

        rc = act->kind == ACT_KEY
                 ? store_keys_add(&s->keys, &act->key, commit->at_us, why)
                 : store_rows_apply(&s->rows, act, commit->at_us, why);
    }
    if (!rc && commit->place)
        rc = DB_DO(&s->db, "move the place", why,
                   "INSERT OR REPLACE INTO place(one, n, chain)"
                   " VALUES(1, ?, ?)",
                   commit->place->n, &commit->place->chain);
    return rc ? rc : store_rows_pay(&s->rows, is_paid, why);
}

/* How many bytes a commit may have while the disk has so many free. It needs
 * them twice: in the WAL at once, in the database later. */
static uint64_t
store_room(struct engine *engine)
{
    struct store *s = store_of(engine);
    uint64_t disk_bytes, all_bytes, n_free = 0, twice;

    /* While there is plenty, one look in a while will do. */
    if (clock_steady_us() < s->plenty_until_us)
        return s->room;
    disk_bytes = all_bytes = file_free_bytes(s->dir_fd);
    s->has_plenty = disk_bytes >= PLENTY_BYTES;
    if (!s->has_plenty && disk_bytes >= FREE_DISK_BYTES &&
        !db_find(&s->db, "count the free pages", NULL, NULL,
                 "PRAGMA freelist_count", DB_VALUES(), DB_INTO(&n_free)))
        all_bytes += n_free * (uint64_t)s->checkpoint.page_bytes;
    if (disk_bytes < FREE_DISK_BYTES || all_bytes < RESERVE_BYTES) {
        s->room = 0;
    } else {
        twice = (all_bytes - RESERVE_BYTES) / 2;
        if (twice > disk_bytes - FREE_DISK_BYTES)
            twice = disk_bytes - FREE_DISK_BYTES;
        s->room = COMMIT_BYTES + twice;
    }
    if (!s->has_plenty) /* a segment takes its room before it has entries */
        segments_end(&s->segments);
    s->ahead.number = 0; /* it may have been in that segment */
    if (s->has_plenty)
        s->plenty_until_us = clock_steady_us() + PLENTY_US;
    return s->room;
}

/*
 * Entries go into a segment before anybody knows whether their commit comes:
 * the journal has the record under way. If it refuses the record, or nobody
 * knows whether it has it, no row names these bytes. Then they are nothing:
 *
 *   - the end of the segment stays where it was, so the next large commit
 *     writes over them. If the journal has the record after all, it comes back
 *     with a turn or the follower, and that commit writes the entries
 *     once more;
 *   - readers, backups and the fold find bytes by rows only;
 *   - after a crash no segment is gone on with. The file goes with the last
 *     row that names it, or becomes spare if there is none.
 *
 * So segments and rows have the order of their syncs that they have without a
 * journal: only what lies between them is longer.
 */
static void
store_write_ahead(struct engine *engine, const struct commit *commit)
{
    struct store *s = store_of(engine);
    struct problem why;

    s->ahead.number = 0;
    if (s->has_plenty && segments_write(&s->segments, commit, &s->ahead, &why))
        s->ahead.number = 0; /* the commit tries again */
}

static enum status
store_commit(struct engine *engine, const struct commit *commit, bool *is_more,
             struct problem *why)
{
    struct store *s = store_of(engine);
    struct segment_place place = {0, 0};
    bool is_paid = false;
    enum status rc = STATUS_OK;

    *is_more = store_rows_owe(&s->rows);
    if (commit->is_ahead)
        place = s->ahead;
    s->ahead.number = 0;
    if (place.number == 0 && s->has_plenty)
        rc = segments_write(&s->segments, commit, &place, why);
    if (rc)
        return rc;
    store_rows_begin(&s->rows, &place);
    rc = DB_DO(&s->db, "begin a commit", why, "BEGIN IMMEDIATE");
    if (rc)
        return STATUS_BUSY;
    rc = apply_acts(s, commit, &is_paid, why);
    if (!rc) {
        rc = DB_DO(&s->db, "commit", why, "COMMIT");
        /* A COMMIT that returned an I/O error was there after a restart
         * (measured): only "full" and "busy" are certain refusals. */
        if (rc && rc != STATUS_BUSY)
            return STATUS_IO;
    }
    if (rc) {
        if (!sqlite3_get_autocommit(s->db.handle) &&
            DB_DO(&s->db, "roll back", NULL, "ROLLBACK"))
            return STATUS_IO;
        checkpoint_trim(&s->checkpoint);
        return STATUS_BUSY;
    }

    /* Before COMMIT has succeeded nothing here may change: a refused commit
     * leaves no trace. */
    s->keys.state = s->keys.next;
    if (place.number > 0)
        s->segments.end = s->segments.next_end;
    store_rows_committed(&s->rows, commit, is_paid);
    *is_more = store_rows_owe(&s->rows);
    return STATUS_OK;
}

static enum status
store_find_key(struct engine *engine, const struct digest *id,
               struct act_key *found, struct problem *why)
{
    return store_keys_find(&store_of(engine)->keys, id, found, why);
}

static bool
store_has_key_room(struct engine *engine, size_t n, int64_t at_us)
{
    return store_keys_has_room(&store_of(engine)->keys, n, at_us);
}

static int64_t
store_keys_begun(struct engine *engine, int64_t at_us)
{
    return store_keys_since(&store_of(engine)->keys, at_us);
}

static void
store_tidy(struct engine *engine)
{
    struct store *s = store_of(engine);

    checkpoint_complete(&s->checkpoint);
    segments_drop_spares(&s->segments, s->has_plenty ? SEGMENTS_SPARE_MAX : 0);
}

/* Starting and ending */

static enum status
store_load(struct engine *engine, engine_set_fn *on_set, void *user,
           struct problem *why)
{
    return store_rows_load(&store_of(engine)->rows, on_set, user, why);
}

static enum status
store_place(struct engine *engine, struct journal_place *place,
            struct problem *why)
{
    bool has_chain = true;
    enum status rc;

    *place = (struct journal_place){.n = 0};
    rc = db_find(&store_of(engine)->db, "read the place", why, NULL,
                 "SELECT n, chain, length(chain) = 32 FROM place", DB_VALUES(),
                 DB_INTO(&place->n, &place->chain, &has_chain));
    return rc || has_chain ? rc
                           : problem(why, STATUS_IO, "the place has no digest");
}

static enum status
store_guard(struct engine *engine, bool *is_on, struct problem *why)
{
    return db_find(&store_of(engine)->db, "read whether the broker was closed",
                   why, NULL, "SELECT count(*) > 0 FROM guard", DB_VALUES(),
                   DB_INTO(is_on));
}

static void
store_close(struct engine *engine)
{
    struct store *s = store_of(engine);

    checkpoint_stop(&s->checkpoint);
    store_queries_fini(&s->queries);
    store_rows_fini(&s->rows);
    db_close(&s->db);
    segments_close(&s->segments);
    file_close(&s->dir_fd);
    free(s);
}

static uint32_t
store_next_id(struct engine *engine)
{
    return store_of(engine)->rows.next_id;
}

/* Opening a database changes it: SQLite copies its WAL into it, the broker
 * makes missing tables. A damaged or foreign database must stay as it is, for
 * its rescue. So the store checks it before it writes anything.
 *
 * Found is what SQLite can know: pages, trees, chains of pages. The entries
 * themselves are proven by their digests when they are read (store_queries.c).
 * A database above 1 GB, which would take seconds to read, is not looked at
 * page by page. */

/* Is there a file of that name, and not empty? */
static bool
has_bytes(const char *path, const char *suffix)
{
    struct stat st;

    return stat(file_path("%s%s", path, suffix).text, &st) == 0 &&
           (S_ISDIR(st.st_mode) || st.st_size > 0);
}

/* Nobody has the database open. */
static enum status
check_database(struct db *db, const char *dir, off_t size, struct problem *why)
{
    int64_t version = 0, n_tables = 0;
    struct slice verdict;
    struct db_rows rows;
    uint32_t number;
    enum status rc = db_number(db, "PRAGMA user_version", &version, why);

    if (!rc)
        rc = db_number(
            db, version ? COUNT_TABLES : "SELECT count(*) FROM sqlite_schema",
            &n_tables, why);
    if (!rc && n_tables != (version == 0 ? 0 : N_TABLES))
        rc = problem(why, STATUS_IO, "it is the database of another program");
    if (!rc)
        rc = db_check_version(db, store_kind.n_steps, NULL, why);
    if (!rc && version >= STORE_WITH_SEGMENTS) {
        /* Are the segments there that have entries? */
        rows = DB_SELECT(db, "read the segments", why,
                         "SELECT number FROM segments WHERE live > 0"
                         " ORDER BY number");
        while (DB_NEXT(&rows, &number))
            rows.rc = segments_check(dir, number, why);
        rc = db_rows_end(&rows);
    }
    if (rc || size > CHECKED_BYTES)
        return rc;
    rows = DB_SELECT(db, "read it", why, "PRAGMA quick_check(1)");
    if (DB_NEXT(&rows, &verdict) && !slice_is(verdict, "ok"))
        rows.rc = problem(why, STATUS_IO, "it is damaged: %.*s",
                          SLICE_ARG(slice_take_until(&verdict, "\n")));
    return db_rows_end(&rows);
}

enum status
store_check(const char *dir, struct problem *why)
{
    struct file_path database = file_path("%s/tidings.db", dir);
    const char *path = database.text;
    struct stat st = {0};
    struct db db = {NULL};
    enum status rc;

    if (!access(file_path("%s/" STORE_RESTORING, dir).text, F_OK))
        return problem(why, STATUS_IO,
                       "%s holds a part of a backup, whose restore was not "
                       "finished: restore it again, into an empty directory",
                       dir);
    if (stat(path, &st) && errno != ENOENT)
        return problem_errno(why, "cannot open", path);
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return problem_errno(why, "cannot open", path);
    }
    if (st.st_size == 0) {
        /* No database: right where there never was one. A new one would begin
         * to number lists from 1 again, and write over the files that are
         * there. */
        if (has_bytes(path, "-wal"))
            return problem(
                why, STATUS_IO,
                "%s is missing or empty, but its log %s-wal is there", path,
                path);
        if (has_bytes(dir, "/sets"))
            return problem(why, STATUS_IO,
                           "%s is missing or empty, but there are lists in "
                           "%s/sets",
                           path, dir);
        return STATUS_OK;
    }

    rc = db_open(&db, path, DB_LOOK, why);
    if (!rc)
        rc = check_database(&db, dir, st.st_size, why);
    db_close(&db);
    return rc ? problem_prefix(why, STATUS_IO, "%s cannot be used: ", path)
              : STATUS_OK;
}

enum status
store_open(struct engine **engine, const char *dir, atomic_size_t *forms,
           struct problem *why)
{
    struct store *s = memory_new(1, sizeof(*s));
    struct problem reason = {""};
    enum status rc;

    s->ops = store_queries_ops;
    s->ops.load = store_load;
    s->ops.place = store_place;
    s->ops.guard = store_guard;
    s->ops.room = store_room;
    s->ops.find_key = store_find_key;
    s->ops.has_key_room = store_has_key_room;
    s->ops.keys_since = store_keys_begun;
    s->ops.next_id = store_next_id;
    s->ops.commit = store_commit;
    s->ops.write_ahead = store_write_ahead;
    s->ops.tidy = store_tidy;
    s->ops.close = store_close;
    s->queries.engine.ops = &s->ops;
    s->segments.dir_fd = -1;
    snprintf(s->path, sizeof(s->path), "%s/tidings.db", dir);
    store_queries_init(&s->queries, s->path, &s->segments, forms);

    rc = file_open_folder(AT_FDCWD, dir, &s->dir_fd, why);
    if (!rc) {
        /* Nothing is written before the check has passed. */
        rc = store_check(dir, &reason);
        if (!rc)
            rc = db_open_kind(&s->db, &store_kind, s->path, &reason);
        if (!rc && s->db.is_exposed)
            DIAG(DIAG_WARNING, "log", "other users may open a database",
                 diag_text("file", s->path));
        if (!rc)
            rc = store_keys_open(&s->keys, &s->db, &reason);
        if (!rc)
            rc = segments_open(&s->segments, dir, &reason);
        if (!rc)
            rc = store_rows_init(&s->rows, &s->db, &s->segments, &reason);
        if (!rc)
            rc = segments_find_spares(&s->segments, &reason);
        if (!rc)
            rc = checkpoint_start(&s->checkpoint, &s->db, s->path, &reason);
        if (rc == STATUS_INVALID)
            rc = STATUS_IO; /* a newer database is no wrong option */
        if (rc && strstr(reason.text, s->path))
            problem_set(why, "%s", reason.text);
        else if (rc) /* the reader needs the name of the file */
            problem_set(why, "%s: %s", s->path, reason.text);
    }
    if (rc)
        store_close(&s->queries.engine);
    else
        *engine = &s->queries.engine;
    return rc;
}

enum status
store_read_place(const char *dir, struct journal_place *place,
                 struct problem *why)
{
    struct engine *engine;
    atomic_size_t forms = 0;
    enum status rc = store_open(&engine, dir, &forms, why);

    if (rc)
        return rc;
    rc = engine->ops->place(engine, place, why);
    engine->ops->close(engine);
    return rc;
}

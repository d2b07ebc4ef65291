#include "broker/store/store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/db.h"
#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/store/checkpoint.h"
#include "broker/store/store_batches.h"
#include "broker/store/store_check.h"
#include "broker/store/store_generations.h"
#include "broker/store/store_keys.h"
#include "broker/store/store_queries.h"
#include "broker/store/store_sets.h"

/* As db_open makes them. */
#define PAGE_BYTES 16384

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

/*
 * A change of the format adds a step here, and never changes a released step. A
 * batch stands alone: it carries its set, seqs, times, digests, list number and
 * size, so that the last row is the head, and nothing is rewritten by a commit.
 */
static const char *const migrations[] = {
    "CREATE TABLE sets(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " epoch TEXT NOT NULL, created_us INTEGER NOT NULL);"
    "CREATE TABLE batches(id INTEGER PRIMARY KEY, set_id INTEGER NOT NULL,"
    " first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " before_us INTEGER NOT NULL, last_us INTEGER NOT NULL,"
    " list INTEGER NOT NULL, list_bytes INTEGER NOT NULL,"
    " before BLOB NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL);"
    "CREATE INDEX batches_by_seq ON batches(set_id, first);"
    "CREATE TABLE lists(id INTEGER PRIMARY KEY, set_id INTEGER NOT NULL,"
    " number INTEGER NOT NULL, after INTEGER NOT NULL, last INTEGER NOT NULL,"
    " from_us INTEGER NOT NULL, until_us INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, before BLOB NOT NULL, digest BLOB NOT NULL,"
    " filed INTEGER NOT NULL DEFAULT 0, header BLOB NOT NULL, marks BLOB);"
    "CREATE UNIQUE INDEX lists_by_number ON lists(set_id, number);"
    "CREATE UNIQUE INDEX lists_by_seq ON lists(set_id, last);"
    "CREATE INDEX lists_unfiled ON lists(set_id, number) WHERE filed = 0;",
    store_keys_tables,
    STORE_SETS_STEP_SETTINGS,
    STORE_SETS_STEP_REMOVAL,
    STORE_SETS_STEP_RETENTION,
    STORE_GENERATIONS_STEP,
    STORE_SETS_STEP_ACCEPTED,
    STORE_SETS_STEP_COMMITS,
};

#define N_MIGRATIONS ((int)(sizeof(migrations) / sizeof(migrations[0])))

enum write_statement {
    W_BEGIN,
    W_COMMIT,
    W_ROLLBACK,
    W_FREE_PAGES,
    W_STATEMENTS
};

static const char *const write_sql[W_STATEMENTS] = {
    [W_BEGIN] = "BEGIN IMMEDIATE",
    [W_COMMIT] = "COMMIT",
    [W_ROLLBACK] = "ROLLBACK",
    [W_FREE_PAGES] = "PRAGMA freelist_count",
};

struct store {
    struct store_queries queries; /* the engine, and its readers */
    char path[4200];
    int dir_fd;

    /* The log thread's. */
    struct db db;
    sqlite3_stmt *statements[W_STATEMENTS];
    struct store_batches batches;
    struct store_sets sets;
    int64_t plenty_until_us; /* of disk space */
    uint64_t room;           /* as of the last look at it */
    struct store_generations generations;

    struct store_keys keys;

    struct checkpoint checkpoint;
};

static struct store *
store_of(struct engine *engine)
{
    return (struct store *)(void *)engine;
}

/* Committing */

static enum status
apply_filed(struct store *s, const struct act *act, struct problem *why)
{
    enum status rc = store_batches_file_list(&s->batches, act, why);

    return rc ? rc
              : store_sets_file_bytes(&s->sets, act->set_id,
                                      act->filed.file_bytes, why);
}

static enum status
apply_removal(struct store *s, const struct act *act, struct problem *why)
{
    enum status rc = store_sets_removal(&s->sets, act, why);

    return rc ? rc : store_generations_removal(&s->generations, act, why);
}

/* Writes nothing but what the act and at_us say: act.h gives the reason. */
static enum status
apply_act(struct store *s, const struct act *act, int64_t at_us,
          struct problem *why)
{
    switch (act->kind) {
    case ACT_BIRTH:
        return store_sets_birth(&s->sets, act, why);
    case ACT_BATCH:
        return store_batches_add(&s->batches, act, at_us, why);
    case ACT_LIST_END:
        return store_batches_end_list(&s->batches, act, why);
    case ACT_KEY:
        return store_keys_add(&s->keys, &act->key, at_us, why);
    case ACT_SETTINGS:
        return store_sets_settings(&s->sets, act, why);
    case ACT_RETIREMENT:
        return store_sets_retirement(&s->sets, act, why);
    case ACT_REMOVAL:
        return apply_removal(s, act, why);
    case ACT_GENERATION:
        return store_generations_switch(&s->generations, act, why);
    case ACT_UNARCHIVED:
        return store_generations_unarchive(&s->generations, act, why);
    case ACT_FILED:
        return apply_filed(s, act, why);
    case ACT_PURGED:
        return store_sets_purge(&s->sets, act, &s->batches, why);
    case ACT_SWEPT:
        return store_generations_swept(&s->generations, act, why);
    case ACT_KINDS:
        break;
    }
    return problem(why, STATUS_INVALID, "an act of unknown kind");
}

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

    for (size_t i = 0; !rc && i < commit->n; i++)
        rc = apply_act(s, &commit->acts[i], commit->at_us, why);
    return rc ? rc : store_batches_pay(&s->batches, is_paid, why);
}

/* How many bytes a commit may have while the disk has so many free. It needs
 * them twice: in the WAL at once, in the database later. */
static uint64_t
room_of(struct store *s, uint64_t disk_bytes)
{
    uint64_t all_bytes = disk_bytes, room;
    bool row = false;

    if (disk_bytes < FREE_DISK_BYTES)
        return 0;
    if (disk_bytes < PLENTY_BYTES) {
        if (!db_step(&s->db, s->statements[W_FREE_PAGES], &row,
                     "count the free pages", NULL) &&
            row)
            all_bytes +=
                store_column_u64(s->statements[W_FREE_PAGES], 0) * PAGE_BYTES;
        sqlite3_reset(s->statements[W_FREE_PAGES]);
    }
    if (all_bytes < RESERVE_BYTES)
        return 0;
    room = (all_bytes - RESERVE_BYTES) / 2;
    if (room > disk_bytes - FREE_DISK_BYTES)
        room = disk_bytes - FREE_DISK_BYTES;
    return COMMIT_BYTES + room;
}

static uint64_t
store_room(struct engine *engine)
{
    struct store *s = store_of(engine);
    uint64_t disk_bytes;

    /* While there is plenty, one look in a while will do. */
    if (clock_steady_us() < s->plenty_until_us)
        return s->room;
    disk_bytes = file_free_bytes(s->dir_fd);
    s->room = room_of(s, disk_bytes);
    if (disk_bytes >= PLENTY_BYTES)
        s->plenty_until_us = clock_steady_us() + PLENTY_US;
    return s->room;
}

/* Takes a transaction that is on the disk into the store's memory. Before
 * COMMIT has succeeded nothing here may change: a refused commit leaves no
 * trace. Where this fails, old rows stay until the next start finds them. */
static void
note_commit(struct store *s, const struct commit *commit, bool is_paid)
{
    struct problem why = {""};
    size_t n_births = 0;

    store_keys_committed(&s->keys);
    if (is_paid)
        store_batches_paid(&s->batches);
    for (size_t i = 0; i < commit->n; i++) {
        const struct act *act = &commit->acts[i];

        n_births += act->kind == ACT_BIRTH;
        if (act->kind == ACT_FILED &&
            store_batches_note_filed(&s->batches, act->set_id, &why))
            DIAG(DIAG_WARNING, "log", "old batches stay",
                 diag_text("error", why.text));
    }
    store_sets_committed(&s->sets, n_births);
}

static enum status
store_commit(struct engine *engine, const struct commit *commit, bool *is_more,
             struct problem *why)
{
    struct store *s = store_of(engine);
    bool is_paid = false;
    enum status rc;

    *is_more = s->batches.n_debts > 0;
    rc = db_run(&s->db, s->statements[W_BEGIN], "begin a commit", why);
    if (rc)
        return STATUS_BUSY;
    rc = apply_acts(s, commit, &is_paid, why);
    if (!rc) {
        rc = db_run(&s->db, s->statements[W_COMMIT], "commit", why);
        /* A COMMIT that returned an I/O error was there after a restart
         * (measured): only "full" and "busy" are certain refusals. */
        if (rc && rc != STATUS_BUSY)
            return STATUS_IO;
    }
    if (rc) {
        if (!sqlite3_get_autocommit(s->db.handle) &&
            db_run(&s->db, s->statements[W_ROLLBACK], "roll back", NULL))
            return STATUS_IO;
        checkpoint_trim(&s->checkpoint);
        return STATUS_BUSY;
    }

    note_commit(s, commit, is_paid);
    *is_more = s->batches.n_debts > 0;
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

static void
store_tidy(struct engine *engine)
{
    checkpoint_complete(&store_of(engine)->checkpoint);
}

/* Starting and ending */

/* Passes on a loaded set, and notes which of its rows can be forgotten. */
struct loading {
    struct store *store;
    engine_set_fn *on_set;
    void *user;
};

static enum status
on_loaded(const struct engine_set *set, void *user, struct problem *why)
{
    struct loading *l = user;
    enum status rc = l->on_set(set, l->user, why);

    return rc || set->removed_us
               ? rc
               : store_batches_note_filed(&l->store->batches, set->id, why);
}

static enum status
store_load(struct engine *engine, engine_set_fn *on_set, void *user,
           struct problem *why)
{
    struct store *s = store_of(engine);
    struct loading l = {s, on_set, user};

    return store_sets_load(&s->sets, &s->generations, on_loaded, &l, why);
}

static void
store_close(struct engine *engine)
{
    struct store *s = store_of(engine);

    checkpoint_stop(&s->checkpoint);
    store_queries_fini(&s->queries);
    store_finalize(s->statements, W_STATEMENTS);
    store_keys_close(&s->keys);
    store_sets_fini(&s->sets);
    store_batches_fini(&s->batches);
    store_generations_fini(&s->generations);
    db_close(&s->db);
    if (s->dir_fd >= 0)
        close(s->dir_fd);
    free(s);
}

static uint32_t
store_next_id(struct engine *engine)
{
    return store_of(engine)->sets.next_id;
}

static const struct engine_ops store_ops = {
    .load = store_load,
    .room = store_room,
    .find_key = store_find_key,
    .has_key_room = store_has_key_room,
    .next_id = store_next_id,
    .commit = store_commit,
    .tidy = store_tidy,
    .read = store_queries_read,
    .lists = store_queries_lists,
    .list = store_queries_list,
    .list_of = store_queries_list_of,
    .seek = store_queries_seek,
    .unfiled = store_queries_unfiled,
    .trash = store_queries_trash,
    .generations = store_queries_generations,
    .due = store_queries_due,
    .close = store_close,
};

/* Nothing is written before the check has passed. */
static enum status
open_database(struct store *s, const char *dir, struct problem *why)
{
    enum status rc = store_check(dir, s->path, N_MIGRATIONS, why);

    if (!rc)
        rc = db_open(&s->db, s->path, DB_WRITER, why);
    if (!rc && s->db.is_exposed)
        DIAG(DIAG_WARNING, "log", "other users may open a database",
             diag_text("file", s->path));
    if (!rc)
        rc = db_migrate(&s->db, migrations, N_MIGRATIONS, why);
    if (!rc)
        rc = store_prepare(&s->db, s->statements, write_sql, W_STATEMENTS, why);
    if (!rc)
        rc = store_keys_open(&s->keys, &s->db, why);
    if (!rc)
        rc = store_batches_init(&s->batches, &s->db, why);
    if (!rc)
        rc = store_sets_init(&s->sets, &s->db, why);
    if (!rc)
        rc = store_generations_init(&s->generations, &s->db, why);
    if (!rc)
        rc = checkpoint_start(&s->checkpoint, &s->db, s->path, why);
    return rc;
}

static void
name_database(char *path, size_t size, const char *dir)
{
    snprintf(path, size, "%s/tidings.db", dir);
}

enum status
store_check_dir(const char *dir, struct problem *why)
{
    char path[4200];

    name_database(path, sizeof(path), dir);
    return store_check(dir, path, N_MIGRATIONS, why);
}

enum status
store_open(struct engine **engine, const char *dir, atomic_size_t *forms,
           struct problem *why)
{
    struct store *s = calloc(1, sizeof(*s));
    struct problem reason = {""};
    enum status rc;

    if (!s)
        return problem_memory(why);
    s->queries.engine.ops = &store_ops;
    s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name_database(s->path, sizeof(s->path), dir);
    store_queries_init(&s->queries, s->path, forms);

    if (s->dir_fd < 0) {
        problem_errno(why, "cannot open", dir);
        rc = STATUS_IO;
    } else {
        rc = open_database(s, dir, &reason);
        if (rc == STATUS_INVALID)
            rc = STATUS_IO; /* a newer database is no wrong option */
        if (rc && strstr(reason.text, s->path))
            problem_set(why, "%s", reason.text);
        else if (rc) /* the reader needs the name of the file */
            problem_set(why, "%s: %s", s->path, reason.text);
    }
    if (rc) {
        store_close(&s->queries.engine);
        return rc;
    }
    *engine = &s->queries.engine;
    return STATUS_OK;
}

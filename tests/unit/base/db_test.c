#include "base/db.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* A database that is open for writing. */
struct stage {
    struct db db; /* first, so that a cast turns it into the stage */
    struct tempdir dir;
    char path[400];
};

static int
setup(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdir_open(&s->dir);
    snprintf(s->path, sizeof(s->path), "%s/test.db", s->dir.path);
    assert_int_equal(db_open(&s->db, s->path, DB_WRITER, NULL), STATUS_OK);
    *state = s;
    return 0;
}

static int
teardown(void **state)
{
    struct stage *s = *state;

    db_close(&s->db);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

static void
run(struct db *db, const char *sql)
{
    assert_int_equal(db_exec(db, sql, NULL), STATUS_OK);
}

static sqlite3_stmt *
prepare(struct db *db, const char *sql)
{
    sqlite3_stmt *statement;

    assert_int_equal(db_prepare(db, &statement, sql, NULL), STATUS_OK);
    return statement;
}

/* Returns the first column of the only row of `sql`. */
static int64_t
ask(struct db *db, const char *sql)
{
    sqlite3_stmt *statement = prepare(db, sql);
    bool row = false;
    int64_t answer;

    assert_int_equal(db_step(db, statement, &row, "ask", NULL), STATUS_OK);
    assert_true(row);
    answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_database_that_cannot_have_a_wal_is_not_opened)
{
    struct problem why = {.text = ""};
    struct db db;

    assert_int_equal(db_open(&db, ":memory:", DB_WRITER, &why), STATUS_IO);

    assert_string_equal(why.text,
                        ":memory:: its journal mode is memory, not wal");
    assert_null(db.handle);
}

TEST(a_file_that_is_no_database_is_not_opened)
{
    struct problem why = {.text = ""};
    struct db db;
    char path[400];

    snprintf(path, sizeof(path), "%s/test.db", tempdir_path(state));
    tempdir_write(tempdir_fd(state), "test.db",
                  "<html>this is not what you are looking for</html>");

    assert_int_equal(db_open(&db, path, DB_WRITER, &why), STATUS_IO);

    assert_non_null(strstr(why.text, "not a database"));
    assert_null(db.handle);
}

TEST(a_directory_that_is_not_there_is_named)
{
    struct problem why = {.text = ""};
    struct db db;
    char path[400], want[500];

    snprintf(path, sizeof(path), "%s/none/test.db", tempdir_path(state));
    snprintf(want, sizeof(want), "cannot open %s: unable to open database file",
             path);

    assert_int_equal(db_open(&db, path, DB_WRITER, &why), STATUS_IO);

    assert_string_equal(why.text, want);
}

TEST(a_reader_makes_no_file)
{
    struct db db;
    char path[400];

    snprintf(path, sizeof(path), "%s/test.db", tempdir_path(state));

    assert_int_equal(db_open(&db, path, DB_READER, NULL), STATUS_IO);

    assert_no_file(tempdir_fd(state), "test.db");
}

FIXTURE(setup, teardown);

/* R-149 rests on these. */
/* W-166: a restored copy may have the mode that its tool gave it. */
TEST(a_writer_closes_the_file_to_other_users)
{
    struct stage *s = *state;
    struct stat st;

    db_close(&s->db);
    assert_int_equal(chmod(s->path, 0644), 0);
    assert_int_equal(db_open(&s->db, s->path, DB_SMALL, NULL), STATUS_OK);
    run(&s->db, "CREATE TABLE t(a)");

    assert_int_equal(stat(s->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    strcat(s->path, "-wal");
    assert_int_equal(stat(s->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

TEST(a_writer_has_the_settings_that_make_commits_durable)
{
    struct db *db = *state;
    char mode[16] = "";

    assert_int_equal(ask(db, "PRAGMA synchronous"), 2); /* FULL */
    assert_int_equal(ask(db, "PRAGMA page_size"), 2048);
    assert_int_equal(ask(db, "PRAGMA secure_delete"), 0);
    assert_int_equal(ask(db, "PRAGMA auto_vacuum"), 0);
    assert_int_equal(ask(db, "PRAGMA wal_autocheckpoint"), 0);
    assert_int_equal(ask(db, "PRAGMA busy_timeout"), 5000);
    assert_int_equal(db_find(db, "ask", NULL, NULL, "PRAGMA journal_mode",
                             DB_VALUES(), DB_INTO(&mode)),
                     STATUS_OK);
    assert_string_equal(mode, "wal");
}

TEST(a_reader_sees_what_is_committed_and_changes_nothing)
{
    struct stage *s = *state;
    struct db reader;

    run(&s->db, "CREATE TABLE t (n INTEGER)");
    assert_int_equal(db_open(&reader, s->path, DB_READER, NULL), STATUS_OK);

    run(&s->db, "BEGIN; INSERT INTO t VALUES (7)");
    assert_int_equal(ask(&reader, "SELECT count(*) FROM t"), 0);
    run(&s->db, "COMMIT");
    assert_int_equal(ask(&reader, "SELECT count(*) FROM t"), 1);

    assert_int_equal(db_exec(&reader, "DELETE FROM t", NULL), STATUS_IO);
    db_close(&reader);
}

static struct {
    const char *path;
    atomic_int thread;
    atomic_bool is_made;
} making;

static void *
make_anew(void *user)
{
    struct db *db = user;

    atomic_store(&making.thread, gettid());
    if (db_open(db, making.path, DB_SMALL, NULL) ||
        db_exec(db, "CREATE TABLE t(a)", NULL))
        return user;
    atomic_store(&making.is_made, true);
    return NULL;
}

/* Else the reader would take the WAL of the new file for that of the old one.
 */
TEST(a_file_is_made_anew_when_its_readers_have_closed)
{
    struct stage *s = *state;
    struct db made, reader;
    pthread_t thread;
    void *failed;

    run(&s->db, "CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    assert_int_equal(db_open(&reader, s->path, DB_READER, NULL), STATUS_OK);
    db_close(&s->db);
    assert_int_equal(db_unlink(s->path, NULL), STATUS_OK);
    making.path = s->path;
    atomic_store(&making.thread, 0);
    atomic_store(&making.is_made, false);
    assert_int_equal(pthread_create(&thread, NULL, make_anew, &made), 0);

    for (unsigned n = 0; !atomic_load(&making.is_made) &&
                         (atomic_load(&making.thread) == 0 ||
                          !process_thread_sleeps(atomic_load(&making.thread)));
         n++)
        test_yield(n);
    assert_false(atomic_load(&making.is_made));
    assert_int_equal(ask(&reader, "SELECT count(*) FROM t"), 1);
    db_close(&reader);

    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(ask(&made, "SELECT count(*) FROM t"), 0);
    db_close(&made);
}

/* Copies the bytes written so far, WAL included, as a kill leaves them. */
static void
copy_file(const struct stage *s, const char *from, const char *to)
{
    char path[500], bytes[65536];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", s->dir.path, from);
    file = fopen(path, "re");
    assert_non_null(file);
    n = fread(bytes, 1, sizeof(bytes), file);
    assert_true(n > 0 && n < sizeof(bytes));
    fclose(file);
    snprintf(path, sizeof(path), "%s/%s", s->dir.path, to);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static int64_t
look(const struct stage *s, const char *name)
{
    char path[500];
    struct db db;
    int64_t n;

    snprintf(path, sizeof(path), "%s/%s", s->dir.path, name);
    assert_int_equal(db_open(&db, path, DB_LOOK, NULL), STATUS_OK);
    n = ask(&db, "SELECT count(*) FROM t");
    db_close(&db);
    return n;
}

/* A name that means something in a URI is a name, too. */
TEST(a_look_sees_the_latest_commit_and_leaves_no_file)
{
    struct stage *s = *state;

    run(&s->db, "CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (7)");
    run(&s->db, "PRAGMA wal_checkpoint(TRUNCATE)");
    copy_file(s, "test.db", "a%20?b#c.db");
    run(&s->db, "INSERT INTO t VALUES (8)");
    copy_file(s, "test.db", "crashed.db");
    copy_file(s, "test.db-wal", "crashed.db-wal");

    assert_int_equal(look(s, "a%20?b#c.db"), 1);
    assert_int_equal(look(s, "crashed.db"), 2);

    assert_no_file(s->dir.fd, "a%20?b#c.db-wal");
    assert_no_file(s->dir.fd, "a%20?b#c.db-shm");
    assert_no_file(s->dir.fd, "crashed.db-shm");
    copy_file(s, "crashed.db-wal", "copy"); /* it is still there */
}

/* A version in the header, or in a commit that only the WAL has. */
TEST(a_version_is_read_from_the_header_or_the_wal)
{
    static const struct {
        const char *name;
        enum status rc;
        int64_t version;
    } rows[] = {
        {"plain.db", STATUS_OK, 5},       {"crashed.db", STATUS_OK, 6},
        {"text.db", STATUS_MALFORMED, 0}, {"empty.db", STATUS_NOT_FOUND, 0},
        {"none.db", STATUS_NOT_FOUND, 0},
    };
    struct stage *s = *state;
    char path[500];

    run(&s->db, "CREATE TABLE t (n INTEGER); PRAGMA user_version=5");
    run(&s->db, "PRAGMA wal_checkpoint(TRUNCATE)");
    copy_file(s, "test.db", "plain.db");
    tempdir_write(s->dir.fd, "plain.db-wal", "");
    run(&s->db, "PRAGMA user_version=6");
    copy_file(s, "test.db", "crashed.db");
    copy_file(s, "test.db-wal", "crashed.db-wal");
    tempdir_write(s->dir.fd, "text.db", "text");
    tempdir_write(s->dir.fd, "empty.db", "");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t version = 0;

        snprintf(path, sizeof(path), "%s/%s", s->dir.path, rows[i].name);
        assert_int_equal(db_look_version(path, &version, NULL), rows[i].rc);
        assert_int_equal(version, rows[i].version);
    }
}

/* Migration */

static const char *const steps[] = {
    "CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)",
    "ALTER TABLE t ADD COLUMN name TEXT",
    "INSERT INTO t VALUES (2, 'two')",
    "INSERT INTO nowhere VALUES (3)",
};

/* The copy is that of one moment: a writer goes on meanwhile, and its later
 * commits are not in it. */
TEST(a_copy_has_all_commits_and_no_wal)
{
    struct stage *s = *state;
    struct problem why = {""};
    struct db copy;
    char path[420], wal[430];

    run(&s->db, "CREATE TABLE t(n); INSERT INTO t VALUES(1)");
    run(&s->db, "BEGIN; INSERT INTO t VALUES(2)");
    snprintf(path, sizeof(path), "%s/copy.db", s->dir.path);
    assert_int_equal(db_copy(s->path, path, &why), STATUS_OK);
    run(&s->db, "COMMIT");
    snprintf(wal, sizeof(wal), "%s-wal", path);
    assert_int_equal(access(wal, F_OK), -1);
    assert_int_equal(db_open(&copy, path, DB_LOOK, NULL), STATUS_OK);
    assert_int_equal(ask(&copy, "SELECT sum(n) FROM t"), 1);
    db_close(&copy);
    assert_int_equal(ask(&s->db, "SELECT sum(n) FROM t"), 3);
}

TEST(a_damaged_database_is_not_copied)
{
    struct stage *s = *state;
    struct problem why = {""};
    char path[420], none[420];
    FILE *file;

    run(&s->db, "CREATE TABLE t(n); CREATE INDEX i ON t(n);"
                "INSERT INTO t VALUES(1); PRAGMA wal_checkpoint(TRUNCATE)");
    snprintf(path, sizeof(path), "%s/copy.db", s->dir.path);
    snprintf(none, sizeof(none), "%s/none.db", s->dir.path);
    assert_int_equal(db_copy(none, path, &why), STATUS_GONE);
    assert_string_equal(why.text, "unable to open database file");
    assert_int_equal(access(path, F_OK), -1);

    file = fopen(s->path, "r+e"); /* the table's page */
    assert_non_null(file);
    assert_int_equal(fseek(file, 2048, SEEK_SET), 0);
    assert_int_equal(fputc(0x55, file), 0x55);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(db_copy(s->path, path, &why), STATUS_GONE);
    assert_non_null(strstr(why.text, "damaged"));
    assert_int_equal(access(path, F_OK), -1);
}

TEST(steps_are_run_once_each_in_order)
{
    struct db *db = *state;

    assert_int_equal(db_migrate(db, steps, 1, NULL), STATUS_OK);
    assert_int_equal(ask(db, "PRAGMA user_version"), 1);
    assert_int_equal(db_migrate(db, steps, 3, NULL), STATUS_OK);
    assert_int_equal(db_migrate(db, steps, 3, NULL), STATUS_OK);

    assert_int_equal(ask(db, "PRAGMA user_version"), 3);
    assert_int_equal(ask(db, "SELECT count(*) FROM t"), 2);
}

TEST(a_migration_that_fails_changes_nothing)
{
    struct problem why = {.text = ""};
    struct db *db = *state;

    assert_int_equal(db_migrate(db, steps, 1, NULL), STATUS_OK);

    assert_int_equal(db_migrate(db, steps, 4, &why), STATUS_IO);

    assert_string_equal(why.text, "cannot run \"INSERT INTO nowhere VALUES "
                                  "(3)\": no such table: nowhere");
    assert_int_equal(ask(db, "PRAGMA user_version"), 1);
    assert_int_equal(ask(db, "SELECT count(*) FROM t"), 1);
    run(db, "BEGIN"); /* none is open */
}

TEST(a_newer_file_is_refused)
{
    struct problem why = {.text = ""};
    struct db *db = *state;

    assert_int_equal(db_migrate(db, steps, 3, NULL), STATUS_OK);

    assert_int_equal(db_migrate(db, steps, 2, &why), STATUS_INVALID);

    assert_string_equal(why.text, "the database is of version 3, and this "
                                  "program knows versions up to 2");
    assert_int_equal(ask(db, "PRAGMA user_version"), 3);
}

/* Kinds */

#define KIND                                                                \
    .name = "the test", .application_id = 77, .steps = steps, .n_steps = 2, \
    .opening = "CREATE TEMP TABLE now AS SELECT 1 AS n"

static const struct db_kind own = {.mode = DB_OWN, KIND};
static const struct db_kind rollback = {.mode = DB_OWN_ROLLBACK, KIND};
static const struct db_kind shared = {.mode = DB_SHARED, KIND};
static const struct db_kind scratch = {.mode = DB_SCRATCH, KIND};

static bool
has_text(struct db *db, const char *sql, const char *wanted)
{
    char text[32] = "";

    assert_int_equal(
        db_find(db, "ask", NULL, NULL, sql, DB_VALUES(), DB_INTO(&text)),
        STATUS_OK);
    return !strcmp(text, wanted);
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_kind_is_made_opened_again_and_has_its_settings)
{
    static const struct {
        const struct db_kind *kind;
        const char *name; /* of the file; those without "/" are SQLite's */
        const char *journal;
        int synchronous;
        bool stays;
    } rows[] = {
        {&own, "/own.db", "wal", 2, true},
        {&own, ":memory:", "memory", 2, false},
        {&rollback, "/rollback.db", "delete", 2, true},
        {&rollback, "", "delete", 2, false},
        {&shared, "/shared.db", "delete", 2, true},
        {&scratch, "", "off", 0, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[400];
        struct db db;

        snprintf(path, sizeof(path), "%s%s",
                 rows[i].name[0] == '/' ? tempdir_path(state) : "",
                 rows[i].name);
        for (int64_t n = 1; n <= (rows[i].stays ? 2 : 1); n++) {
            assert_int_equal(db_open_kind(&db, rows[i].kind, path, NULL),
                             STATUS_OK);
            assert_true(has_text(&db, "PRAGMA journal_mode", rows[i].journal));
            assert_int_equal(ask(&db, "PRAGMA synchronous"),
                             rows[i].synchronous);
            assert_int_equal(ask(&db, "PRAGMA application_id"), 77);
            assert_int_equal(ask(&db, "PRAGMA user_version"), 2);
            assert_int_equal(DB_DO(&db, NULL, NULL,
                                   "INSERT INTO t VALUES (?, ?)", (char *)NULL,
                                   "two"),
                             STATUS_OK);
            assert_int_equal(ask(&db, "SELECT count(*) FROM t"), n + 1);
            db_close(&db);
        }
    }
}

TEST(one_process_at_a_time_has_a_database_of_its_own)
{
    static const struct db_kind *const kinds[] = {&own, &rollback};

    for (size_t i = 0; i < 2; i++) {
        struct problem why = {.text = ""};
        char path[400], want[500];
        struct db db, other;

        snprintf(path, sizeof(path), "%s/%zu.db", tempdir_path(state), i);
        snprintf(want, sizeof(want), "the test %s: another process uses it",
                 path);
        assert_int_equal(db_open_kind(&db, kinds[i], path, NULL), STATUS_OK);

        assert_int_equal(db_open_kind(&other, kinds[i], path, &why),
                         STATUS_BUSY);
        assert_string_equal(why.text, want);
        assert_int_equal(why.rc, STATUS_BUSY);

        db_close(&db);
        assert_int_equal(db_open_kind(&other, kinds[i], path, NULL), STATUS_OK);
        db_close(&other);
    }
}

TEST(a_kind_refuses_other_files_and_leaves_them_as_they_are)
{
    static const struct {
        const char *sql;
        const char *why; /* NULL: it is accepted */
    } rows[] = {
        {"CREATE TABLE x (n)", "the file is another program's database"},
        {"PRAGMA application_id=78", "the file is another program's database"},
        {"PRAGMA user_version=1", "the file is another program's database"},
        {"PRAGMA application_id=77; PRAGMA user_version=3",
         "the database is of version 3, and this program knows versions up to "
         "2"},
        {"PRAGMA application_id=77; PRAGMA user_version=1;"
         "CREATE TABLE t (n INTEGER)",
         NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct problem why = {.text = ""};
        char path[400], want[600];
        struct db db;
        int64_t version;

        snprintf(path, sizeof(path), "%s/%zu.db", tempdir_path(state), i);
        assert_int_equal(db_open(&db, path, DB_SHARED, NULL), STATUS_OK);
        run(&db, rows[i].sql);
        version = ask(&db, "PRAGMA user_version");
        db_close(&db);

        assert_int_equal(db_open_kind(&db, &own, path, &why),
                         rows[i].why ? STATUS_INVALID : STATUS_OK);
        db_close(&db);
        if (!rows[i].why)
            continue;
        snprintf(want, sizeof(want), "the test %s: %s", path, rows[i].why);
        assert_string_equal(why.text, want);
        assert_int_equal(db_open(&db, path, DB_SHARED, NULL), STATUS_OK);
        assert_int_equal(ask(&db, "PRAGMA user_version"), version);
        db_close(&db);
    }
}

TEST(a_kind_that_cannot_be_opened_is_named)
{
    struct problem why = {.text = ""};
    struct db db;

    assert_int_equal(db_open_kind(&db, &own, "/proc/nowhere/at.db", &why),
                     STATUS_IO);

    assert_string_equal(why.text, "the test: cannot open /proc/nowhere/at.db: "
                                  "unable to open database file");
    db_close(&db); /* harmless */
}

static int
is_over(void *user)
{
    return ++*(int *)user > 3;
}

TEST(a_transaction_ends_with_all_or_nothing)
{
    struct problem why = {.text = ""};
    struct db db;
    int n = 0;

    assert_int_equal(db_open_kind(&db, &own, ":memory:", NULL), STATUS_OK);
    assert_int_equal(db_begin(&db, NULL), STATUS_OK);
    run(&db, "INSERT INTO t VALUES (2, '')");
    assert_int_equal(db_end(&db, STATUS_OK, NULL), STATUS_OK);
    assert_int_equal(db_begin(&db, NULL), STATUS_OK);
    run(&db, "INSERT INTO t VALUES (3, '')");
    assert_int_equal(db_end(&db, STATUS_MALFORMED, &why), STATUS_MALFORMED);
    assert_string_equal(why.text, "");
    assert_int_equal(ask(&db, "SELECT count(*) FROM t"), 2);

    db_interrupt(&db, is_over, &n);
    assert_int_equal(db_exec(&db,
                             "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL"
                             " SELECT n + 1 FROM c) SELECT max(n) FROM c",
                             &why),
                     STATUS_STOPPED);
    assert_string_equal(why.text, "the test: interrupted");
    db_close(&db);
}

TEST(a_commit_is_kept_as_firmly_as_it_has_to)
{
    static const bool firm[] = {true, false, false, true};
    struct db db;

    assert_int_equal(db_open_kind(&db, &own, ":memory:", NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof(firm) / sizeof(firm[0]); i++) {
        assert_int_equal(db_begin_firm(&db, firm[i], NULL), STATUS_OK);
        assert_int_equal(ask(&db, "PRAGMA synchronous"), firm[i] ? 2 : 1);
        assert_int_equal(db_end(&db, STATUS_OK, NULL), STATUS_OK);
    }
    assert_int_equal(db_begin_firm(&db, true, NULL), STATUS_OK);
    assert_int_equal(db_end(&db, STATUS_IO, NULL), STATUS_IO);
    assert_true(db.is_doubtful);
    assert_int_equal(db_begin_firm(&db, true, NULL), STATUS_OK);
    assert_false(db.is_doubtful);
    assert_int_equal(db_end(&db, STATUS_OK, NULL), STATUS_OK);
    db_close(&db);
}

TEST(a_text_is_copied_whole_or_not_at_all)
{
    char empty[4] = "old", whole[4] = "old", long_one[4] = "old",
         none[4] = "old";
    struct db db;
    bool is_null;

    assert_int_equal(db_open_kind(&db, &scratch, "", NULL), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            db_find(&db, NULL, NULL, NULL,
                    "SELECT '', 'abc', 'abcd', NULL, ?1 IS NULL",
                    i == 0 ? DB_VALUES(db_bytes(NULL, 0)) : DB_VALUES(),
                    DB_INTO(&empty, &whole, &long_one, &none, &is_null)),
            STATUS_OK);
        assert_string_equal(empty, "");
        assert_string_equal(whole, "abc");
        assert_string_equal(long_one, "");
        assert_string_equal(none, "");
        assert_int_equal(is_null, i == 1); /* forgets what was bound */
    }
    db_close(&db);
}

FIXTURE(setup, teardown);

/* Statements */

TEST(a_statement_is_prepared_once_and_run_often)
{
    struct db *db = *state;

    run(db, "CREATE TABLE t (b BLOB)");

    for (int i = 0; i < 3; i++)
        assert_int_equal(DB_DO(db, "insert", NULL, "INSERT INTO t VALUES (?)",
                               db_bytes("a\0b", 3)),
                         STATUS_OK);

    assert_int_equal(ask(db, "SELECT count(*) FROM t WHERE b = x'610062'"), 3);
}

TEST(columns_are_lent_as_slices)
{
    struct db *db = *state;
    struct db_rows rows =
        DB_SELECT(db, "ask", NULL, "SELECT x'610062', 'text', 42, NULL, x''");
    struct slice bytes, text, number, none, empty;

    assert_true(DB_NEXT(&rows, &bytes, &text, &number, &none, &empty));
    assert_true(slice_equal(bytes, SLICE("a\0b")));
    assert_true(slice_is(text, "text"));
    assert_true(slice_is(number, "42"));
    assert_int_equal(none.size, 0);
    assert_int_equal(empty.size, 0);
    assert_false(DB_NEXT(&rows, &bytes));
    assert_int_equal(db_rows_end(&rows), STATUS_OK);
}

TEST(a_refused_row_says_why_and_the_statement_goes_on)
{
    static const char insert[] = "INSERT INTO t VALUES (?)";
    struct problem why = {.text = ""};
    struct db *db = *state;

    run(db, "CREATE TABLE t (n UNIQUE)");
    assert_int_equal(DB_DO(db, "insert", NULL, insert, 7), STATUS_OK);

    assert_int_equal(DB_DO(db, "insert", &why, insert, 7), STATUS_IO);
    assert_string_equal(why.text,
                        "cannot insert: UNIQUE constraint failed: t.n");

    assert_int_equal(DB_DO(db, "insert", NULL, insert, 8), STATUS_OK);
}

/* A full disk may get room again, so the client is asked to post again. */
TEST(a_full_database_is_busy_not_broken)
{
    struct problem why = {.text = ""};
    struct db *db = *state;

    run(db, "CREATE TABLE t (b BLOB)");
    assert_int_equal(ask(db, "PRAGMA max_page_count=3"), 3);

    assert_int_equal(
        db_exec(db, "INSERT INTO t VALUES (zeroblob(1000000))", &why),
        STATUS_BUSY);

    assert_non_null(strstr(why.text, "database or disk is full"));
}

TEST(results_of_sqlite_have_a_status)
{
    struct problem why = {.text = ""};
    struct db *db = *state;

    assert_int_equal(db_problem(db, SQLITE_BUSY_SNAPSHOT, "x", NULL),
                     STATUS_BUSY);
    assert_int_equal(db_problem(db, SQLITE_LOCKED, "x", NULL), STATUS_BUSY);
    assert_int_equal(db_problem(db, SQLITE_NOMEM, "x", NULL), STATUS_MEMORY);
    assert_int_equal(db_problem(db, SQLITE_IOERR_NOMEM, "x", NULL),
                     STATUS_MEMORY);
    assert_int_equal(db_problem(db, SQLITE_IOERR_FSYNC, "commit", &why),
                     STATUS_IO);
    assert_string_equal(why.text, "cannot commit: disk I/O error");
}

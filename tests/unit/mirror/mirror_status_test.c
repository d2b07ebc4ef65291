/*
 * mirror_status_test.c - the status of a mirror, beside the process that works
 * on it and after its end.
 */
#include "client/mirror/mirror_status.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/db.h"
#include "tests/test.h"
#include "tests/unit/mirror/mirror_db_stage.h"

/* The database of the stage is that of the mirror `top`. */
static struct tempdir top;

static int
status_setup(void **state)
{
    (void)state;
    tempdir_open(&top);
    mirror_db_dir = top;
    strcat(mirror_db_dir.path, "/.tidings");
    return mkdir(mirror_db_dir.path, 0777);
}

static int
status_teardown(void **state)
{
    (void)state;
    if (db)
        mirror_db_close(db);
    tempdir_close(&top);
    return 0;
}

FIXTURE(status_setup, status_teardown);

/* Makes a mirror of three resources: it has the first, has to fetch the second,
 * and has given the third up. */
static void
fill_mirror(void)
{
    int64_t id;

    open_db();
    assert_true(mirror_db_add_source(db, "http://example.com/"));
    have(told(1, ONE));
    told(2, TWO);
    id = told(3, THREE);
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_give_up(db, id));
    assert_true(mirror_db_set_position(db, set_of(SET), "0123456789abcdef-3"));
    assert_true(mirror_db_note_caught_up(db, set_of(SET), 1500000));
    set_of(OTHER);
    assert_true(mirror_db_commit(db));
}

static void
check_mirror(const struct mirror_status *s)
{
    assert_int_equal(s->n_sources, 1);
    assert_string_equal(s->sources[0], "http://example.com/");
    assert_int_equal(s->n_sets, 2);
    assert_string_equal(s->sets[0].url, SET);
    assert_string_equal(s->sets[0].position, "0123456789abcdef-3");
    assert_int_equal(s->sets[0].caught_up_us, 1500000);
    assert_string_equal(s->sets[1].url, OTHER);
    assert_string_equal(s->sets[1].position, "");
    assert_int_equal(s->sets[1].caught_up_us, 0);
    assert_int_equal(s->counts.n_resources, 3);
    assert_int_equal(s->counts.n_have, 1);
    assert_int_equal(s->counts.bytes_have, 3);
    assert_int_equal(s->counts.n_fetch, 2);
    assert_int_equal(s->counts.bytes_wanted, 6);
    assert_int_equal(s->counts.n_remove, 0);
}

static void
read_status(struct mirror_status *status)
{
    struct problem why = {""};

    if (mirror_status_read(status, top.path, &why))
        fail_msg("%s", why.text);
}

/* The working process keeps others out of its database, killed it leaves a WAL
 * behind, and a clean end leaves none: all three can be read, and stay as they
 * are. Nobody sees an open transaction. */
TEST(reads_beside_a_process_and_after_its_end)
{
    struct mirror_status status;
    int ready[2];
    char byte;
    pid_t child;

    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fill_mirror();
        assert_true(mirror_db_begin(db));
        tell(SET, 4, ONE, 0, false);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    read_status(&status);
    assert_true(status.is_at_work);
    assert_int_equal(status.process, child);
    assert_int_equal(status.counts.n_left, 1);
    check_mirror(&status);
    mirror_status_fini(&status);

    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    read_status(&status);
    assert_false(status.is_at_work);
    check_mirror(&status);
    mirror_status_fini(&status);

    open_db(); /* a new run gives up nothing yet */
    mirror_db_close(db);
    db = NULL;
    read_status(&status);
    assert_int_equal(status.counts.n_left, 0);
    check_mirror(&status);
    mirror_status_fini(&status);
}

/* Commits positions of both sets, always the same, and many resources, so that
 * the file is rewritten all the time. */
static void
work(int ready)
{
    char position[TD_POSITION_SIZE];
    int64_t sets[2];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_db();
    sets[0] = set_of(SET);
    sets[1] = set_of(OTHER);
    for (unsigned n = 1;; n++) {
        snprintf(position, sizeof(position), "0123456789abcdef-%u", n);
        assert_true(mirror_db_begin(db));
        for (unsigned i = 0; i < 50; i++)
            tell(SET, 50 * n + i, ONE, 0, false);
        for (int i = 0; i < 2; i++) {
            assert_true(mirror_db_set_position(db, sets[i], position));
            assert_true(mirror_db_note_caught_up(db, sets[i], n));
        }
        assert_true(mirror_db_commit(db));
        if (n == 2 && write(ready, "x", 1) != 1)
            _exit(1);
    }
}

/* A read returns the state of one commit, however often the file changes. */
TEST(reads_one_state_of_a_mirror_that_changes)
{
    struct mirror_status status;
    int ready[2];
    char byte;
    pid_t child;

    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (!child)
        work(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int i = 0; i < 300; i++) {
        int64_t n;

        read_status(&status);
        assert_int_equal(status.n_sets, 2);
        n = status.sets[0].caught_up_us;
        assert_int_equal(status.sets[1].caught_up_us, n);
        assert_string_equal(status.sets[0].position, status.sets[1].position);
        assert_int_equal(atoi(strchr(status.sets[0].position, '-') + 1), n);
        assert_int_equal(status.counts.n_fetch, 50 * n);
        mirror_status_fini(&status);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
}

static void
assert_refused(const char *dir, const char *part)
{
    struct mirror_status status;
    struct problem why = {""};

    assert_int_equal(mirror_status_read(&status, dir, &why), STATUS_IO);
    if (!strstr(why.text, part))
        fail_msg("\"%s\" has no \"%s\"", why.text, part);
    mirror_status_fini(&status);
}

static void
run_sql(const char *sql)
{
    char path[400];
    struct db other = {.handle = NULL};
    struct problem why = {""};

    snprintf(path, sizeof(path), "%s/mirror.db", mirror_db_dir.path);
    assert_int_equal(db_open(&other, path, DB_SHARED, &why), STATUS_OK);
    assert_int_equal(db_exec(&other, sql, &why), STATUS_OK);
    db_close(&other);
}

TEST(says_why_it_cannot_read)
{
    char path[400];
    FILE *file;

    assert_refused("/proc/nowhere", "is no mirror");
    assert_refused(top.path, "is no mirror");
    snprintf(path, sizeof(path), "%s/mirror.db", mirror_db_dir.path);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        fputs("no database", file);
    fclose(file);
    assert_refused(top.path, "not a database");
    unlink(path);

    fill_mirror();
    mirror_db_close(db);
    db = NULL;
    run_sql("PRAGMA user_version = 1");
    assert_refused(top.path, "an earlier tidings made it");
    run_sql("PRAGMA user_version = 99");
    assert_refused(top.path, "version 99");
}

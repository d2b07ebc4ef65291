/*
 * removal_test.c - a set ends in the order of the log; its rows and files go in
 * steps, with any events in between.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/db.h"
#include "broker/log/log_thread.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"
#include "tests/unit/log/stage.h"

/* A file system that reports no types: some XFS, and some network file systems.
 */
static bool tells_no_types;

struct dirent *
readdir(DIR *dir)
{
    struct dirent *(*real)(DIR *);
    struct dirent *entry;

    *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    entry = real(dir);
    if (entry && tells_no_types)
        entry->d_type = DT_UNKNOWN;
    return entry;
}

/* log.md, ending: posts in the queue before the removal are committed before
 * it; later ones get STATUS_GONE, even in the same round. */
TEST(commits_what_waits_before_the_removal_and_refuses_the_rest, world_setup,
     world_teardown)
{
    struct world *w = *state;
    struct posted *held, *before, *removal, *behind, *other;
    struct head head;

    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);
    held = hold(w, changes(w, &w->b, 1));
    before = submit(w, changes(w, &w->a, 3));
    removal = submit(w, make_act(w, ACT_REMOVAL, &w->a));
    behind = submit(w, changes(w, &w->a, 3));
    other = submit(w, changes(w, &w->b, 3));
    set_shut(w, false);

    assert_kept(held, 1);
    assert_kept(before, 3);
    assert_int_equal(before->post.last, 5);
    assert_int_equal(posts_wait(removal), STATUS_OK);
    assert_int_equal(posts_wait(behind), STATUS_GONE);
    assert_kept(other, 2);
    head = head_of(&w->a);
    assert_false(head.exists);
    assert_true(head.is_removed);
    assert_int_equal(head.last, 5);
    assert_int_equal(w->a.tail.count, 0); /* nothing of it stays in memory */
}

/* A refused removal has not happened: posts behind it in the queue are
 * committed to the set. */
TEST(keeps_the_set_when_the_removal_is_refused, world_setup, world_teardown)
{
    struct world *w = *state;
    struct posted *held, *removal, *behind;

    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);
    held = hold(w, changes(w, &w->b, 1));
    removal = submit(w, make_act(w, ACT_REMOVAL, &w->a));
    behind = submit(w, changes(w, &w->a, 3));
    refuse_after(w, 1, 1);
    set_shut(w, false);

    assert_kept(held, 1);
    assert_int_equal(posts_wait(removal), STATUS_BUSY);
    assert_kept(behind, 3);
    assert_true(head_of(&w->a).exists);
    assert_false(head_of(&w->a).is_removed);
}

/* The real log from here on. */

static bool
has_file(struct stage *s, const char *set, unsigned list)
{
    return access(stage_file(s, set, list), F_OK) == 0;
}

/* Takes a step; false: it was the last. */
static bool
purge(struct stage *s)
{
    struct problem why = {""};
    bool is_done = false;

    if (log_purge(s->logs.log, NULL, &is_done, &why))
        fail_msg("%s", why.text);
    return !is_done;
}

static void
purge_all(struct stage *s)
{
    while (purge(s))
        ;
}

static void
open_db(struct db *db, struct stage *s)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/tidings.db", s->dir.path);
    assert_int_equal(db_open(db, path, DB_WRITER, NULL), STATUS_OK);
}

/* Asserts that the closed log has no rows of sets. */
static void
assert_no_rows(struct stage *s)
{
    static const char sql[] = "SELECT (SELECT count(*) FROM batches) +"
                              " (SELECT count(*) FROM lists) +"
                              " (SELECT count(*) FROM trash) +"
                              " (SELECT count(*) FROM sets)";
    struct db db;
    sqlite3_stmt *q;
    bool row;

    stage_close(s);
    open_db(&db, s);
    assert_int_equal(db_prepare(&db, &q, sql, NULL), STATUS_OK);
    assert_int_equal(db_step(&db, q, &row, sql, NULL), STATUS_OK);
    assert_int_equal(sqlite3_column_int64(q, 0), 0);
    sqlite3_finalize(q);
    db_close(&db);
}

FIXTURE(stage_setup, stage_teardown);

/* Files and rows stay until they are due, and then go in steps; a start in
 * between goes on with them. */
TEST(takes_what_a_removed_set_leaves_in_steps)
{
    struct stage *s = *state;
    unsigned steps = 0;
    struct batch *b;
    struct db db;

    stage_open(s, 2);
    stage_post(s, 1, 301);
    logs_file_all(&s->logs);
    assert_true(has_file(s, "demo", 150));
    stage_remove(s, s->set, INT64_C(3600000000));
    assert_false(purge(s));
    assert_true(has_file(s, "demo", 1));

    /* A reader of the old set reads on. */
    b = stage_read(s, 0, LOG_DISK);
    assert_non_null(b);
    batch_unref(b);

    stage_reopen(s);
    assert_int_equal(s->logs.n_sets, 0);
    assert_int_equal(s->again, 152); /* 151 was the open list */
    stage_post(s, 1, 5);
    logs_file_all(&s->logs);
    assert_true(has_file(s, "demo", 152));
    stage_remove(s, s->set, 0); /* the second goes at once */
    purge_all(s);
    assert_false(has_file(s, "demo", 152));
    assert_true(has_file(s, "demo", 150));

    /* The first one's hour comes; the broker ends after each step. */
    stage_close(s);
    open_db(&db, s);
    assert_int_equal(db_exec(&db, "UPDATE trash SET due_us = 0", NULL), 0);
    db_close(&db);
    stage_reopen(s);
    assert_int_equal(s->again, 155);
    for (; purge(s); steps++)
        stage_reopen(s);
    assert_true(steps >= 3); /* 150 files */
    assert_false(has_file(s, "demo", 1));
    assert_false(has_file(s, "demo", 150));
    assert_no_rows(s);
}

/* The bytes of its resources go with it, so many in a step. */
TEST(takes_the_bytes_that_a_removed_set_kept_in_steps)
{
    struct stage *s = *state;
    unsigned steps = 0;
    char name[64];

    stage_open(s, 2);
    stage_post(s, 1, 4);
    logs_file_all(&s->logs);
    assert_int_equal(mkdirat(s->dir.fd, "sets/demo/" LOG_CONTENT, 0755), 0);
    assert_int_equal(mkdirat(s->dir.fd, "sets/demo/" LOG_CONTENT "/ab", 0755),
                     0);
    for (unsigned i = 0; i < 1500; i++) {
        snprintf(name, sizeof(name), "sets/demo/" LOG_CONTENT "/ab/%u", i);
        tempdir_write(s->dir.fd, name, "x");
    }
    stage_remove(s, s->set, 0);
    while (purge(s))
        steps++;
    assert_true(steps >= 2);
    assert_no_file(s->dir.fd, "sets/demo");
    assert_no_rows(s);
}

/* The same where the file system does not say what a name is. */
TEST(takes_them_from_a_file_system_that_tells_no_types)
{
    tells_no_types = true;
    takes_the_bytes_that_a_removed_set_kept_in_steps(state);
    tells_no_types = false;
}

/* A file that cannot be deleted keeps nothing else on the disk. */
TEST(takes_what_is_behind_something_that_stays)
{
    struct problem why = {""};
    struct stage *s = *state;
    bool is_done = false;

    stage_open(s, 2);
    for (int i = 0; i < 2; i++) {
        struct log_set *set = logs_set(&s->logs, i ? "late" : "early");

        assert_int_equal(logs_post(&s->logs, set, 1, 4, NULL, NULL), 0);
        logs_file_all(&s->logs);
        stage_remove(s, set, 0);
    }
    assert_int_equal(unlink(stage_file(s, "early", 1)), 0);
    assert_int_equal(mkdir(stage_file(s, "early", 1), 0755), 0);
    while (log_purge(s->logs.log, NULL, &is_done, &why) == STATUS_OK)
        assert_false(is_done);
    assert_non_null(strstr(why.text, "000000000001.xml.gz"));
    assert_no_file(s->dir.fd, "sets/late");
    assert_true(has_file(s, "early", 2));

    assert_int_equal(rmdir(stage_file(s, "early", 1)), 0);
    purge_all(s);
    assert_no_file(s->dir.fd, "sets/early");
    assert_no_rows(s);
}

/* A list of a removed set that has no file never gets one. */
TEST(files_no_list_of_a_removed_set)
{
    struct stage *s = *state;

    stage_open(s, 2);
    stage_post(s, 1, 4);
    stage_remove(s, s->set, INT64_C(3600000000));
    logs_file_all(&s->logs);
    assert_false(has_file(s, "demo", 1));
}

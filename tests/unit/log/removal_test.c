/*
 * removal_test.c - a set ends in the order of the log; what it leaves goes in
 * steps, whatever comes in between.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/db.h"
#include "broker/log/commit.h"
#include "tests/support/logs.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* A file system that tells no types: some XFS, and some that go over a network.
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

/* log.md, ending: what was in the queue before the removal is committed before
 * it; what comes behind it gets STATUS_GONE, also in the same breath. */
TEST(commits_what_waits_before_the_removal_and_refuses_the_rest, world_setup,
     world_teardown)
{
    struct world *w = *state;
    struct posted *held, *before, *removal, *behind, *other;
    struct head head;

    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);
    held = hold(w, changes(w, &w->b, 1));
    before = submit(w, changes(w, &w->a, 3));
    removal = submit(w, make_post(w, POST_REMOVE, &w->a));
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

/* A removal that was not kept has not happened: what waited behind it in the
 * queue is committed to the set. */
TEST(keeps_the_set_when_the_removal_is_refused, world_setup, world_teardown)
{
    struct world *w = *state;
    struct posted *held, *removal, *behind;

    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);
    held = hold(w, changes(w, &w->b, 1));
    removal = submit(w, make_post(w, POST_REMOVE, &w->a));
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

static void
end_set(struct logs *l, struct log_set *set, int64_t grace_us)
{
    struct posted p;

    posts_begin(&p, POST_REMOVE, set);
    p.post.grace_us = grace_us;
    assert_int_equal(log_submit(l->log, &p.post), STATUS_OK);
    assert_int_equal(posts_wait(&p), STATUS_OK);
    posts_end(&p);
}

static bool
has_file(void **state, const char *set, unsigned list)
{
    char path[400];
    struct stat st;

    snprintf(path, sizeof(path), "%s/sets/%s/changes/%012u.xml.gz",
             tempdir_path(state), set, list);
    return stat(path, &st) == 0;
}

static bool
purge(struct logs *l)
{
    struct problem why = {""};
    bool is_done = false;

    if (log_purge(l->log, &is_done, &why))
        fail_msg("%s", why.text);
    return !is_done;
}

static void
open_db(struct db *db, void **state)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/tidings.db", tempdir_path(state));
    assert_int_equal(db_open(db, path, DB_WRITER, NULL), STATUS_OK);
}

/* While no log is open. */
static void
change(void **state, const char *sql)
{
    struct db db;

    open_db(&db, state);
    assert_int_equal(db_exec(&db, sql, NULL), STATUS_OK);
    db_close(&db);
}

/* Of sets, and what belongs to them. */
static int64_t
count_rows(void **state)
{
    static const char sql[] = "SELECT (SELECT count(*) FROM batches) +"
                              " (SELECT count(*) FROM lists) +"
                              " (SELECT count(*) FROM trash) +"
                              " (SELECT count(*) FROM sets)";
    struct db db;
    sqlite3_stmt *q;
    bool row;
    int64_t n;

    open_db(&db, state);
    assert_int_equal(db_prepare(&db, &q, sql, NULL), STATUS_OK);
    assert_int_equal(db_step(&db, q, &row, sql, NULL), STATUS_OK);
    n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    db_close(&db);
    return n;
}

struct remembered {
    struct logs logs;
    uint64_t list; /* as told of "demo" */
};

static enum status
on_removed(const char *name, uint64_t list, int64_t removed_us, void *user)
{
    struct remembered *r = user;

    assert_string_equal(name, "demo");
    assert_true(removed_us > 0);
    r->list = list;
    return STATUS_OK;
}

/* logs_open, and then again with ears for removed sets. */
static void
open_again(struct remembered *r, void **state)
{
    struct problem why = {""};

    if (r->logs.log)
        logs_close(&r->logs);
    logs_open(&r->logs, tempdir_path(state), 2);
    logs_close(&r->logs);
    r->logs.n_sets = 0;
    r->list = 0;
    r->logs.options.on_removed = on_removed;
    if (log_open(&r->logs.log, &r->logs.options, &why))
        fail_msg("%s", why.text);
}

/* Files and rows stay until they are due, and then go in steps; a start in
 * between goes on with them. */
TEST(takes_what_a_removed_set_leaves_in_steps, tempdir_setup, tempdir_teardown)
{
    struct remembered r = {.list = 0};
    struct logs *l = &r.logs;
    struct log_set *set;
    unsigned steps = 0;

    open_again(&r, state);
    set = logs_set(l, "demo");
    assert_int_equal(logs_post(l, set, 1, 301, NULL, NULL), STATUS_OK);
    logs_file_all(l);
    assert_true(has_file(state, "demo", 150));
    end_set(l, set, INT64_C(3600000000));
    assert_false(purge(l));
    assert_true(has_file(state, "demo", 1));

    /* Who still reads the old one reads on. */
    {
        struct batch *b = NULL;

        assert_int_equal(log_read(l->log, set, 0, LOG_DISK, &b, NULL),
                         STATUS_OK);
        assert_non_null(b);
        batch_unref(b);
    }
    logs_close(l);

    open_again(&r, state);
    assert_int_equal(l->n_sets, 0);
    assert_int_equal(r.list, 152); /* 151 was the open list */
    set = log_set_again(l->log, "demo", r.list, l);
    assert_int_equal(logs_post(l, set, 1, 5, NULL, NULL), STATUS_OK);
    logs_file_all(l);
    assert_true(has_file(state, "demo", 152));
    end_set(l, set, 0); /* the second goes at once */
    while (purge(l))
        ;
    assert_false(has_file(state, "demo", 152));
    assert_true(has_file(state, "demo", 150));
    logs_close(l);

    /* The first one's hour comes; the broker ends after each step. */
    change(state, "UPDATE trash SET due_us = 0");
    open_again(&r, state);
    assert_int_equal(r.list, 155);
    while (purge(l)) {
        steps++;
        open_again(&r, state);
    }
    assert_true(steps >= 3); /* 150 files */
    assert_false(has_file(state, "demo", 1));
    assert_false(has_file(state, "demo", 150));
    logs_close(l);
    assert_int_equal(count_rows(state), 0);
}

/* The bytes of its resources go with it, so many in a step. */
TEST(takes_the_bytes_that_a_removed_set_kept_in_steps, tempdir_setup,
     tempdir_teardown)
{
    struct logs l;
    struct log_set *set;
    unsigned steps = 0;
    char name[64];

    logs_open(&l, tempdir_path(state), 2);
    set = logs_set(&l, "demo");
    assert_int_equal(logs_post(&l, set, 1, 4, NULL, NULL), STATUS_OK);
    logs_file_all(&l);
    assert_int_equal(mkdirat(tempdir_fd(state), "sets/demo/" LOG_CONTENT, 0755),
                     0);
    assert_int_equal(
        mkdirat(tempdir_fd(state), "sets/demo/" LOG_CONTENT "/ab", 0755), 0);
    for (unsigned i = 0; i < 1500; i++) {
        snprintf(name, sizeof(name), "sets/demo/" LOG_CONTENT "/ab/%u", i);
        tempdir_write(tempdir_fd(state), name, "x");
    }
    end_set(&l, set, 0);
    while (purge(&l))
        steps++;
    assert_true(steps >= 2);
    assert_no_file(tempdir_fd(state), "sets/demo");
    logs_close(&l);
    assert_int_equal(count_rows(state), 0);
}

/* The same where the file system does not say what a name is. */
TEST(takes_them_from_a_file_system_that_tells_no_types, tempdir_setup,
     tempdir_teardown)
{
    tells_no_types = true;
    takes_the_bytes_that_a_removed_set_kept_in_steps(state);
    tells_no_types = false;
}

/* What cannot be taken off the disk keeps nothing else on it. */
TEST(takes_what_is_behind_something_that_stays, tempdir_setup, tempdir_teardown)
{
    struct problem why = {""};
    struct logs l;
    bool is_done = false;

    logs_open(&l, tempdir_path(state), 2);
    for (int i = 0; i < 2; i++) {
        struct log_set *set = logs_set(&l, i ? "late" : "early");

        assert_int_equal(logs_post(&l, set, 1, 4, NULL, NULL), STATUS_OK);
        logs_file_all(&l);
        end_set(&l, set, 0);
    }
    assert_int_equal(unlinkat(tempdir_fd(state),
                              "sets/early/changes/000000000001.xml.gz", 0),
                     0);
    assert_int_equal(mkdirat(tempdir_fd(state),
                             "sets/early/changes/000000000001.xml.gz", 0755),
                     0);
    while (log_purge(l.log, &is_done, &why) == STATUS_OK)
        assert_false(is_done);
    assert_non_null(strstr(why.text, "000000000001.xml.gz"));
    assert_no_file(tempdir_fd(state), "sets/late");
    assert_true(has_file(state, "early", 2));

    assert_int_equal(unlinkat(tempdir_fd(state),
                              "sets/early/changes/000000000001.xml.gz",
                              AT_REMOVEDIR),
                     0);
    while (purge(&l))
        ;
    assert_no_file(tempdir_fd(state), "sets/early");
    logs_close(&l);
    assert_int_equal(count_rows(state), 0);
}

/* A list of a removed set that has no file never gets one. */
TEST(files_no_list_of_a_removed_set, tempdir_setup, tempdir_teardown)
{
    struct logs l;
    struct log_set *set;

    logs_open(&l, tempdir_path(state), 2);
    set = logs_set(&l, "demo");
    assert_int_equal(logs_post(&l, set, 1, 4, NULL, NULL), STATUS_OK);
    end_set(&l, set, INT64_C(3600000000));
    logs_file_all(&l);
    assert_false(has_file(state, "demo", 1));
    logs_close(&l);
}

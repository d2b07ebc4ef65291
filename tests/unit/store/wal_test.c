/*
 * wal_test.c - the write-ahead log of the store under a load that never pauses.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/log/log.h"
#include "broker/store/checkpoint.h"
#include "tests/support/logs.h"
#include "tests/support/posts.h"
#include "tests/support/process.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/store/stored.h"

/* Posts of 100 KB, 120 MB in all. Few at a time: small commits come faster than
 * earlier ones can be copied behind them. */
#define POSTERS 2
#define SETS    2
#define TIMES   600
#define ENTRIES 10
#define WEIGHT  10000

/* The posts write much more than this. */
#define WAL_MAX ((off_t)80 << 20)

/* A source that never pauses: its post is submitted again before the log thread
 * has looked whether there are more. */
struct poster {
    struct posted posted;
    void (*done)(struct post *post);
    struct log *log;
    unsigned left; /* how often it is still to be submitted */
    unsigned n_failed;
};

/* Log thread. */
static void
post_again(struct post *post)
{
    struct posted *posted = list_entry(post, struct posted, post);
    struct poster *p = list_entry(posted, struct poster, posted);

    p->n_failed += post->status != STATUS_OK;
    if (p->left-- == 0 || log_submit(p->log, post, NULL))
        p->done(post);
}

static void
start(struct poster *p, struct log *log, struct log_set *set)
{
    *p = (struct poster){.log = log, .left = TIMES - 1};
    posts_begin(&p->posted, POST_CHANGES, set);
    for (unsigned i = 0; i < ENTRIES; i++)
        posts_add(&p->posted, i, WEIGHT);
    p->done = p->posted.post.done;
    p->posted.post.done = post_again;
    assert_int_equal(log_submit(log, &p->posted.post, NULL), STATUS_OK);
}

static off_t
wal_size(void **state)
{
    struct stat st;
    char path[400];

    snprintf(path, sizeof(path), "%s/tidings.db-wal", tempdir_path(state));
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* log.md, commit: checkpoints complete while posts wait, so the WAL does not
 * grow with the posted bytes. Its file keeps its size, up to a limit. */
TEST(stays_small_while_posts_wait_all_the_time)
{
    struct poster posters[POSTERS];
    struct log_set *sets[SETS];
    struct logs l;

    logs_open(&l, tempdir_path(state), 50000);
    for (int i = 0; i < SETS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "s%d", i);
        sets[i] = logs_set(&l, name);
    }
    for (int i = 0; i < POSTERS; i++)
        start(&posters[i], l.log, sets[i % SETS]);
    for (int i = 0; i < POSTERS; i++) {
        assert_int_equal(posts_wait(&posters[i].posted), STATUS_OK);
        assert_int_equal(posters[i].n_failed, 0);
        posts_end(&posters[i].posted);
    }
    for (int i = 0; i < SETS; i++) {
        struct head head;

        assert_true(log_head(sets[i], &head));
        assert_int_equal(head.last, POSTERS / SETS * TIMES * ENTRIES);
    }

    assert_true(wal_size(state) > 0);
    if (wal_size(state) >= WAL_MAX)
        fail_msg("the WAL has %lld bytes", (long long)wal_size(state));
    logs_close(&l);
}

/* One post larger than all that is usual does not take the disk for as long as
 * the process lives. */
TEST(gives_back_what_one_large_commit_has_taken)
{
    struct posted large;
    struct log_set *set;
    struct logs l;

    stored_free_bytes = (uint64_t)900 << 20; /* too little for segments */
    logs_open(&l, tempdir_path(state), 50000);
    set = logs_set(&l, "a");
    posts_begin(&large, POST_CHANGES, set);
    for (unsigned i = 0; i < 430; i++)
        posts_add(&large, i, 200000);
    assert_int_equal(log_submit(l.log, &large.post, NULL), STATUS_OK);
    assert_int_equal(posts_wait(&large), STATUS_OK);
    posts_end(&large);
    assert_true(wal_size(state) > WAL_MAX);
    while (wal_size(state) > WAL_MAX)
        assert_int_equal(logs_post(&l, set, 1, 1, NULL, NULL), STATUS_OK);
    logs_close(&l);
    stored_free_bytes = 0;
}

/* A thread that is slow to copy: its first checkpoint ends when the writer has
 * asked for one of its own, or sleeps until it can. */
static struct {
    atomic_bool is_on;
    atomic_bool is_copying;
    atomic_bool is_writer_there; /* it has called checkpoint_complete */
    atomic_bool has_asked;
    pid_t writer;
} slow;

/* In place of SQLite's, which also refuses a second checkpoint at once. */
int
sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *n_log,
                          int *n_copied)
{
    int (*real)(sqlite3 *, const char *, int, int *, int *);

    *(void **)&real = dlsym(RTLD_NEXT, "sqlite3_wal_checkpoint_v2");
    if (mode == SQLITE_CHECKPOINT_PASSIVE &&
        atomic_exchange(&slow.is_on, false)) {
        atomic_store(&slow.is_copying, true);
        for (unsigned n = 0; !atomic_load(&slow.is_writer_there) ||
                             !(atomic_load(&slow.has_asked) ||
                               process_thread_sleeps(slow.writer));
             n++)
            test_yield(n);
        atomic_store(&slow.is_copying, false);
    }
    if (mode == SQLITE_CHECKPOINT_RESTART && atomic_load(&slow.is_copying)) {
        atomic_store(&slow.has_asked, true);
        return SQLITE_BUSY;
    }
    return real(db, name, mode, n_log, n_copied);
}

/* A long WAL begins anew, however slowly the thread copies it. */
TEST(stays_small_while_the_thread_is_slow)
{
    struct db writer = {0};
    struct checkpoint c = {0};
    struct problem why = {""};
    char path[400];
    int64_t long_bytes = 0;

    snprintf(path, sizeof(path), "%s/a.db", tempdir_path(state));
    slow.writer = gettid();
    atomic_store(&slow.is_on, true);
    assert_int_equal(db_open(&writer, path, DB_WRITER, &why), STATUS_OK);
    assert_int_equal(checkpoint_start(&c, &writer, path, &why), STATUS_OK);
    assert_int_equal(db_exec(&writer, "CREATE TABLE a (b)", &why), STATUS_OK);
    while (!atomic_load(&slow.is_copying) || c.wal_bytes < WAL_MAX) {
        assert_int_equal(
            db_exec(&writer, "INSERT INTO a VALUES (zeroblob(1000000))", &why),
            STATUS_OK);
        long_bytes = c.wal_bytes;
    }
    atomic_store(&slow.is_writer_there, true);
    checkpoint_complete(&c);
    assert_int_equal(db_exec(&writer, "INSERT INTO a VALUES (1)", &why),
                     STATUS_OK);
    assert_true(c.wal_bytes < long_bytes / 10);
    checkpoint_stop(&c);
    db_close(&writer);
}

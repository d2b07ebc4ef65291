#include <semaphore.h>
#include <stdlib.h>

#include "broker/log/engine.h"
#include "broker/log/inside.h"
#include "broker/log/log.h"
#include "tests/support/logs.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* T(seq), for every seq of the set. */
static int64_t *
times_of(struct logs *l, struct log_set *set)
{
    struct head head;
    int64_t *us;

    assert_true(log_head(set, &head));
    us = malloc((head.last + 1) * sizeof(*us));
    assert_non_null(us);
    us[0] = head.created_us;
    for (uint64_t seq = 1; seq <= head.last; seq++) {
        struct batch *b;

        assert_int_equal(log_read(l->log, set, seq - 1, LOG_DISK, &b, NULL),
                         STATUS_OK);
        us[seq] = batch_time(b, seq);
        batch_unref(b);
    }
    return us;
}

static void
assert_since(struct logs *l, struct log_set *set, int64_t us, uint64_t expected)
{
    struct problem why = {""};
    uint64_t seq = UINT64_MAX;
    enum status rc = log_since(l->log, set, us, LOG_DISK, &seq, &why);

    if (rc)
        fail_msg("%s", why.text);
    assert_int_equal(seq, expected);
}

/* At, before and after the time of every entry. */
static void
assert_finds_all(struct logs *l, struct log_set *set, const int64_t *us,
                 uint64_t last)
{
    for (uint64_t seq = 0; seq <= last; seq++) {
        assert_since(l, set, us[seq], seq);
        assert_since(l, set, us[seq] - 1, seq > 0 ? seq - 1 : 0);
        if (seq == last || us[seq] + 1 < us[seq + 1])
            assert_since(l, set, us[seq] + 1, seq);
    }
    assert_since(l, set, us[0] - 1000000000, 0);
    assert_since(l, set, INT64_MIN + 1, 0);
    assert_since(l, set, INT64_MAX, last);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* design.md section 4, since=: the last event whose time is not later, in the
 * tail, the store and the files of closed lists alike. */
TEST(finds_every_moment_in_every_tier)
{
    struct log_set *set;
    struct logs l;
    int64_t *us;

    logs_open(&l, tempdir_path(state), 7);
    set = logs_set(&l, "a");
    logs_post(&l, logs_set(&l, "b"), 1, 5, NULL, NULL); /* another's rows */
    for (unsigned i = 0; i < 30; i++)
        logs_post(&l, set, i, 1 + i % 3, NULL, NULL);
    us = times_of(&l, set);
    assert_finds_all(&l, set, us, 60);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 7); /* from the store, nothing filed */
    assert_finds_all(&l, logs_set(&l, "a"), us, 60);
    logs_file_all(&l);
    assert_finds_all(&l, logs_set(&l, "a"), us, 60);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 7); /* from files, and some rows */
    assert_finds_all(&l, logs_set(&l, "a"), us, 60);
    logs_close(&l);
    free(us);
}

/* A list of many blocks, and batches of many entries. */
TEST(finds_a_moment_within_large_lists)
{
    struct log_set *set;
    struct logs l;
    int64_t *us;

    logs_open(&l, tempdir_path(state), 5000);
    set = logs_set(&l, "a");
    logs_post(&l, set, 1, 12000, NULL, NULL);
    us = times_of(&l, set);
    logs_file_all(&l);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 5000);
    set = logs_set(&l, "a");
    for (uint64_t seq = 0; seq <= 12000; seq += seq % 7 == 0 ? 97 : 1)
        assert_since(&l, set, us[seq], seq);
    assert_since(&l, set, us[12000], 12000);
    logs_close(&l);
    free(us);
}

/* Design section 3: no service thread waits for a disk. */
TEST(says_when_it_would_wait_for_a_disk)
{
    struct log_set *set;
    struct logs l;
    uint64_t seq;
    int64_t *us;

    logs_open(&l, tempdir_path(state), 7);
    set = logs_set(&l, "a");
    logs_post(&l, set, 1, 5, NULL, NULL);
    us = times_of(&l, set);
    assert_int_equal(log_since(l.log, set, us[2], LOG_MEMORY, &seq, NULL), 0);
    assert_int_equal(seq, 2);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 7);
    set = logs_set(&l, "a");
    assert_int_equal(log_since(l.log, set, us[2], LOG_MEMORY, &seq, NULL),
                     STATUS_AGAIN);
    assert_int_equal(log_since(l.log, set, us[5], LOG_MEMORY, &seq, NULL), 0);
    assert_int_equal(seq, 5);
    logs_close(&l);
    free(us);
}

/* The log's engine, with lists that go between two looks at them. */
static struct {
    const struct engine_ops *ops; /* as they were */
    struct logs *logs;
    struct log_set *set;
    size_t n; /* the oldest so many, behind the next look; 0: none */
} going;

static void
retire_and_purge(size_t n)
{
    struct list_info lists[16];
    struct problem why = {""};
    bool is_done = false;

    assert_in_range(n, 1, 16);
    assert_int_equal(log_lists(going.logs->log, going.set, 1, lists, &n, NULL),
                     STATUS_OK);
    if (log_retire(going.logs->log, going.set, lists, n, 0, &why))
        fail_msg("%s", why.text);
    while (!is_done)
        if (log_purge(going.logs->log, &is_done, &why))
            fail_msg("%s", why.text);
}

static enum status
lists_that_go(struct engine *engine, uint32_t set, uint64_t number,
              struct list_info *lists, size_t *n, struct problem *why)
{
    enum status rc = going.ops->lists(engine, set, number, lists, n, why);
    size_t n_going = going.n;

    going.n = 0;
    if (n_going > 0)
        retire_and_purge(n_going);
    return rc;
}

/* The log thread reads which functions the engine has: it is the one that
 * changes them. */
struct changing {
    struct post post;
    const struct engine_ops *ops;
    sem_t is_done;
};

static void
change_ops(struct post *post)
{
    struct changing *c = list_entry(post, struct changing, post);

    going.logs->log->engine->ops = c->ops;
    sem_post(&c->is_done);
}

static void
set_ops(const struct engine_ops *ops)
{
    struct changing c = {.post = {.kind = POST_CLOSE,
                                  .set = logs_set(going.logs, "none"),
                                  .done = change_ops},
                         .ops = ops};

    sem_init(&c.is_done, 0, 0);
    assert_int_equal(log_submit(going.logs->log, &c.post), STATUS_OK);
    while (sem_wait(&c.is_done))
        ;
    sem_destroy(&c.is_done);
}

/* design.md section 5: who asks for more than is retained is told; nothing is
 * skipped without a word. */
TEST(skips_nothing_when_lists_go_meanwhile)
{
    struct engine_ops ops;
    struct problem why = {""};
    struct log_set *set;
    struct logs l;
    uint64_t seq;
    int64_t *us;

    logs_open(&l, tempdir_path(state), 7);
    set = logs_set(&l, "a");
    for (unsigned i = 0; i < 75; i++) /* 10 closed lists, and an open one */
        logs_post(&l, set, i, 1, NULL, NULL);
    us = times_of(&l, set);
    logs_file_all(&l);
    logs_close(&l);

    logs_open(&l, tempdir_path(state), 7); /* nothing is in memory */
    set = logs_set(&l, "a");
    going.ops = l.log->engine->ops;
    going.logs = &l;
    going.set = set;
    ops = *going.ops;
    ops.lists = lists_that_go;
    set_ops(&ops);

    going.n = 5;
    assert_int_equal(log_since(l.log, set, us[17], LOG_DISK, &seq, &why),
                     STATUS_GONE);
    assert_int_equal(log_since(l.log, set, us[17], LOG_DISK, &seq, &why),
                     STATUS_GONE);
    going.n = 2; /* of lists 6 to 10 */
    assert_since(&l, set, us[53], 53);
    going.n = 1;
    assert_since(&l, set, us[66], 66);
    assert_int_equal(going.n, 0);
    set_ops(going.ops);
    logs_close(&l);
    free(us);
}

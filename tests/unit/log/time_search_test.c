#include <stdlib.h>

#include "broker/log/engine.h"
#include "broker/log/log.h"
#include "broker/store/store.h"
#include "tests/test.h"
#include "tests/unit/log/stage.h"

/* T(seq), for every seq of the set. */
static int64_t *
times_of(struct stage *s)
{
    struct head head = stage_head(s);
    int64_t *us = malloc((head.last + 1) * sizeof(*us));

    assert_non_null(us);
    us[0] = head.created_us;
    for (uint64_t seq = 1; seq <= head.last; seq++) {
        struct batch *b = stage_read(s, seq - 1, LOG_DISK);

        us[seq] = batch_time(b, seq);
        batch_unref(b);
    }
    return us;
}

static void
assert_since(struct stage *s, int64_t us, uint64_t expected)
{
    struct problem why = {""};
    uint64_t seq = UINT64_MAX;

    if (log_since(s->logs.log, s->set, us, LOG_DISK, &seq, &why))
        fail_msg("%s", why.text);
    assert_int_equal(seq, expected);
}

/* At, before and after the time of every entry. */
static void
assert_finds_all(struct stage *s, const int64_t *us, uint64_t last)
{
    for (uint64_t seq = 0; seq <= last; seq++) {
        assert_since(s, us[seq], seq);
        assert_since(s, us[seq] - 1, seq > 0 ? seq - 1 : 0);
        if (seq == last || us[seq] + 1 < us[seq + 1])
            assert_since(s, us[seq] + 1, seq);
    }
    assert_since(s, us[0] - 1000000000, 0);
    assert_since(s, INT64_MIN + 1, 0);
    assert_since(s, INT64_MAX, last);
}

FIXTURE(stage_setup, stage_teardown);

/* design.md section 4, since=: the last event whose time is not later, in the
 * tail, the store and the files of closed lists alike. */
TEST(finds_every_moment_in_every_tier)
{
    struct stage *s = *state;
    int64_t *us;

    stage_open(s, 7);
    /* Another set's rows. */
    assert_int_equal(
        logs_post(&s->logs, logs_set(&s->logs, "other"), 1, 5, NULL, NULL), 0);
    for (unsigned i = 0; i < 30; i++)
        stage_post(s, i, 1 + i % 3);
    us = times_of(s);
    assert_finds_all(s, us, 60);
    stage_reopen(s); /* from the store, nothing filed */
    assert_finds_all(s, us, 60);
    logs_file_all(&s->logs);
    assert_finds_all(s, us, 60);
    stage_reopen(s); /* from files, and some rows */
    assert_finds_all(s, us, 60);
    free(us);
}

/* A list of many blocks, and batches of many entries. */
TEST(finds_a_moment_within_large_lists)
{
    struct stage *s = *state;
    int64_t *us;

    stage_open(s, 5000);
    stage_post(s, 1, 12000);
    us = times_of(s);
    logs_file_all(&s->logs);
    stage_reopen(s);
    for (uint64_t seq = 0; seq <= 12000; seq += seq % 7 == 0 ? 97 : 1)
        assert_since(s, us[seq], seq);
    assert_since(s, us[12000], 12000);
    free(us);
}

/* Design section 3: no service thread waits for a disk. */
TEST(says_when_it_would_wait_for_a_disk)
{
    static const struct {
        const char *name;
        bool is_reopened;
        uint64_t seq;
        enum status status;
    } rows[] = {
        {"in memory", false, 2, STATUS_OK},
        {"on the disk", true, 2, STATUS_AGAIN},
        {"the head", true, 5, STATUS_OK},
    };
    struct stage *s = *state;
    int64_t *us;

    stage_open(s, 7);
    stage_post(s, 1, 5);
    us = times_of(s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t seq;

        print_message("%s\n", rows[i].name);
        if (rows[i].is_reopened)
            stage_reopen(s);
        assert_int_equal(log_since(s->logs.log, s->set, us[rows[i].seq],
                                   LOG_MEMORY, &seq, NULL),
                         rows[i].status);
        assert_true(rows[i].status || seq == rows[i].seq);
    }
    free(us);
}

/* The log's engine, with lists that go between two looks at them. */
static struct {
    const struct engine_ops *ops; /* as they were */
    struct stage *stage;
    size_t n; /* the oldest so many, behind the next look; 0: none */
} going;

static void
retire_and_purge(size_t n)
{
    struct log *log = going.stage->logs.log;
    struct list_info lists[16];
    struct problem why = {""};
    bool is_done = false;

    assert_in_range(n, 1, 16);
    n = stage_lists(going.stage, lists, n);
    if (log_retire(log, going.stage->set, lists, n, 0, &why))
        fail_msg("%s", why.text);
    while (!is_done)
        if (log_purge(log, NULL, &is_done, &why))
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

static enum status
open_going(struct engine **engine, const char *dir, atomic_size_t *forms,
           struct problem *why)
{
    static struct engine_ops ops;
    enum status rc = store_open(engine, dir, forms, why);

    if (rc)
        return rc;
    going.ops = (*engine)->ops;
    ops = *going.ops;
    ops.lists = lists_that_go;
    (*engine)->ops = &ops;
    return STATUS_OK;
}

/* design.md section 5: a reader that asks for more than is retained gets an
 * error; nothing is skipped silently. */
TEST(skips_nothing_when_lists_go_meanwhile)
{
    struct stage *s = *state;
    uint64_t seq;
    int64_t *us;

    stage_open(s, 7);
    for (unsigned i = 0; i < 75; i++) /* 10 closed lists, and an open one */
        stage_post(s, i, 1);
    us = times_of(s);
    logs_file_all(&s->logs);

    going.stage = s;
    s->logs.options.open_engine = open_going;
    stage_reopen(s); /* nothing is in memory */

    going.n = 5;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            log_since(s->logs.log, s->set, us[17], LOG_DISK, &seq, NULL),
            STATUS_GONE);
    going.n = 2; /* of lists 6 to 10 */
    assert_since(s, us[53], 53);
    going.n = 1;
    assert_since(s, us[66], 66);
    assert_int_equal(going.n, 0);
    free(us);
}

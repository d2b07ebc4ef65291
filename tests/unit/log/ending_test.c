/*
 * A list whose file is being written when the log ends.
 */
#include "broker/log/engine.h"
#include "broker/store/store.h"
#include "tests/support/folder.h"
#include "tests/test.h"
#include "tests/unit/log/stage.h"

#define ENTRIES 10000
#define CHANGES "sets/" STAGE_SET "/changes"

/* An engine that counts the batches that are read, and stops the log in the
 * middle. */
struct stopping {
    const struct engine_ops *ops;
    struct engine_ops counting;
    struct log *log;
    unsigned n_read;
    unsigned stop_at; /* the read that it stops in; 0: none */
};

static struct stopping stopping;

static enum status
read_and_stop(struct engine *engine, uint32_t set, uint64_t after,
              struct batch **batch, struct problem *why)
{
    if (++stopping.n_read == stopping.stop_at)
        log_stop(stopping.log);
    return stopping.ops->read(engine, set, after, batch, why);
}

static enum status
open_counting(struct engine **engine, const char *dir, atomic_size_t *forms,
              struct problem *why)
{
    enum status rc = store_open(engine, dir, forms, why);

    if (rc)
        return rc;
    stopping.ops = (*engine)->ops;
    stopping.counting = *stopping.ops;
    stopping.counting.read = read_and_stop;
    (*engine)->ops = &stopping.counting;
    return STATUS_OK;
}

/* Files the one list, with a new log without a batch in memory. */
static enum status
file_list(struct stage *s, unsigned stop_at)
{
    bool is_done;
    enum status rc;

    stopping = (struct stopping){.stop_at = stop_at};
    s->logs.options.open_engine = open_counting;
    stage_reopen(s);
    stopping.log = s->logs.log;
    rc = log_file_list(s->logs.log, &is_done, NULL);
    stage_close(s);
    return rc;
}

FIXTURE(stage_setup, stage_teardown);

/* the end does not wait for the file: the log reads not one batch more
 * for it, leaves nothing of it, and the next process writes it. */
TEST(a_file_is_given_up_when_the_log_ends)
{
    struct stage *s = *state;

    stage_open(s, ENTRIES);
    stage_post(s, 1, ENTRIES);

    assert_int_equal(file_list(s, 2), STATUS_STOPPED);
    assert_int_equal(stopping.n_read, 2);
    assert_int_equal(folder_count_below(s->dir.path, CHANGES), 0);

    assert_int_equal(file_list(s, 0), STATUS_OK);
    assert_in_range(stopping.n_read, 4, 1000);
    assert_int_equal(folder_count_below(s->dir.path, CHANGES), 1);
}

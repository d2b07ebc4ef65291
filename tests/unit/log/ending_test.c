/*
 * A list whose file is being written when the log ends.
 */
#include <semaphore.h>

#include "broker/log/engine.h"
#include "broker/log/inside.h"
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
    sem_t has_begun;
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

/* Log thread, which looks at its engine, too. */
static void
begin_stopping(struct post *post)
{
    stopping.log->engine->ops = &stopping.counting;
    sem_post(&stopping.has_begun);
    (void)post;
}

/* Files the one list, with a new log without a batch in memory. */
static enum status
file_list(struct stage *s, unsigned stop_at)
{
    struct post post = {.kind = POST_CLOSE, .list = 1, .done = begin_stopping};
    struct log *log;
    bool is_done;
    enum status rc;

    stage_reopen(s);
    log = s->logs.log;
    stopping = (struct stopping){
        .ops = log->engine->ops, .log = log, .stop_at = stop_at};
    stopping.counting = *stopping.ops;
    stopping.counting.read = read_and_stop;
    sem_init(&stopping.has_begun, 0, 0);
    post.set = s->set; /* its list 1 is closed already */
    assert_int_equal(log_submit(log, &post), STATUS_OK);
    sem_wait(&stopping.has_begun);
    rc = log_file_list(log, &is_done, NULL);
    log_stop(log);
    log->engine->ops = stopping.ops;
    stage_close(s);
    sem_destroy(&stopping.has_begun);
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

/*
 * A list whose file is being written when the log ends.
 */
#include <dirent.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/log/engine.h"
#include "broker/log/inside.h"
#include "tests/support/logs.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define ENTRIES 10000

/* An engine that counts the batches that are read, and has the log stopped in
 * the middle. */
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

/* Files the one list; with a new log, whose memory has no batch. */
static enum status
file_list(void **state, unsigned stop_at)
{
    struct post post = {.kind = POST_CLOSE, .list = 1, .done = begin_stopping};
    struct logs l;
    bool is_done;
    enum status rc;

    logs_open(&l, tempdir_path(state), ENTRIES);
    stopping = (struct stopping){
        .ops = l.log->engine->ops, .log = l.log, .stop_at = stop_at};
    stopping.counting = *stopping.ops;
    stopping.counting.read = read_and_stop;
    sem_init(&stopping.has_begun, 0, 0);
    post.set = logs_set(&l, "demo"); /* its list 1 is closed already */
    assert_int_equal(log_submit(l.log, &post), STATUS_OK);
    sem_wait(&stopping.has_begun);
    rc = log_file_list(l.log, &is_done, NULL);
    log_stop(l.log);
    l.log->engine->ops = stopping.ops;
    logs_close(&l);
    sem_destroy(&stopping.has_begun);
    return rc;
}

static unsigned
files_of(void **state)
{
    char path[400];
    const struct dirent *entry;
    unsigned n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/sets/demo/changes", tempdir_path(state));
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += entry->d_type == DT_REG;
    closedir(dir);
    return n;
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* nobody waits for the file: not one batch more is read for it, nothing
 * of it is there, and the next process writes it. */
TEST(a_file_is_given_up_when_the_log_ends)
{
    struct logs l;

    logs_open(&l, tempdir_path(state), ENTRIES);
    assert_int_equal(
        logs_post(&l, logs_set(&l, "demo"), 1, ENTRIES, NULL, NULL), STATUS_OK);
    logs_close(&l);

    assert_int_equal(file_list(state, 2), STATUS_STOPPED);
    assert_int_equal(stopping.n_read, 2);
    assert_int_equal(files_of(state), 0);

    assert_int_equal(file_list(state, 0), STATUS_OK);
    assert_in_range(stopping.n_read, 4, 1000);
    assert_int_equal(files_of(state), 1);
}

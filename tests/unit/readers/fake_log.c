#include "tests/unit/readers/fake_log.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

struct fake_log fake_log;

void
fake_log_begin(void)
{
    fake_log = (struct fake_log){.most = UINT64_MAX / 2, .weight = 1};
}

static uint64_t
lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

enum status
fake_log_make(struct shared_message *message, enum log_patience patience,
              struct problem *why)
{
    const struct shared_wish *wish = &message->wish;
    uint64_t start = shared_wish_start(wish);

    (void)why;
    if (patience == LOG_MEMORY && start < fake_log.on_disk)
        return STATUS_AGAIN;
    fake_log.n_made++;
    fake_log.n_made_by_worker += patience == LOG_DISK;
    message->last =
        lesser(lesser(wish->upto, fake_log.head), start + fake_log.most);
    if (fake_log.status)
        return fake_log.status;
    if (wish->is_heartbeat || fake_log.is_stuck)
        message->last = start;
    message->is_full =
        wish->upto == UINT64_MAX && message->last < fake_log.head;
    if (wish->is_heartbeat)
        message->size = fake_log.weight;
    else if (!wish->filter || message->last > fake_log.passing)
        message->size = (size_t)(message->last - wish->after) * fake_log.weight;
    message->data = calloc(1, message->size + 1);
    assert_non_null(message->data);
    return STATUS_OK;
}

void
fake_log_work(struct shared_messages *messages, struct job *job)
{
    (void)messages;
    if (fake_log.has_no_memory) {
        job->work(job);
        job->done(job);
        return;
    }
    assert_true(fake_log.n_jobs < 8);
    fake_log.jobs[fake_log.n_jobs++] = job;
}

bool
fake_log_is_stopping(struct shared_messages *messages)
{
    (void)messages;
    return fake_log.is_stopping;
}

void
fake_log_run_job(void)
{
    struct job *job = fake_log.jobs[0];

    assert_true(fake_log.n_jobs > 0);
    memmove(fake_log.jobs, fake_log.jobs + 1,
            --fake_log.n_jobs * sizeof(*fake_log.jobs));
    job->work(job);
    job->done(job);
}

void
fake_log_run_jobs(void)
{
    while (fake_log.n_jobs > 0)
        fake_log_run_job();
}

/*
 * fake_log.h - for tests of readers and shared messages: a log without bytes,
 * and a worker pool that holds its jobs until the test runs them.
 *
 * The log has entries 1 to `head`, each of `weight` bytes. One at a time.
 */
#ifndef TESTS_UNIT_READERS_FAKE_LOG_H
#define TESTS_UNIT_READERS_FAKE_LOG_H

#include "broker/readers/shared_messages.h"

extern struct fake_log {
    uint64_t head;
    uint64_t most;    /* entries of a message */
    uint64_t on_disk; /* entries up to here are not in memory */
    uint64_t passing; /* nothing up to here passes a filter */
    size_t weight;
    enum status status; /* of a message, if not STATUS_OK */
    bool is_stuck;      /* messages have no entry */
    unsigned n_made, n_made_by_worker;

    struct job *jobs[8];
    unsigned n_jobs;
    bool is_stopping;
    bool has_no_memory; /* for a job: it ends at once */
} fake_log;

/* A log with nothing in it; messages have no limit. */
void fake_log_begin(void);

/* See struct shared_calls. */
enum status fake_log_make(struct shared_message *message,
                          enum log_patience patience, struct problem *why);
void fake_log_work(struct shared_messages *messages, struct job *job);
bool fake_log_is_stopping(struct shared_messages *messages);

/* Runs the oldest job; or all, and those that they begin. */
void fake_log_run_job(void);
void fake_log_run_jobs(void);

#endif

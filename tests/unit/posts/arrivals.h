/*
 * arrivals.h - messages of a broker of messages on their way into a set, step
 * by step, several at once if a test wants it so; or at one go.
 */
#ifndef TESTS_UNIT_POSTS_ARRIVALS_H
#define TESTS_UNIT_POSTS_ARRIVALS_H

#include <semaphore.h>
#include <stdbool.h>

#include "tests/unit/posts/ingests.h"

/* Of a broker like this one. */
#define EPOCH "0123456789abcdef"

/* A message on its way, and its outcome. */
struct arrival {
    struct ingest *ingest;
    sem_t is_done;
    bool is_answered; /* is_done was posted before ingest_end returned */
    struct sets_outcome outcome;
};

void arrival_begin(struct arrival *a, const char *name, const char *type);
enum status arrival_set_key(struct arrival *a, const char *text);

/* All of it, which ends it. */
void arrival_feed(struct arrival *a, struct slice body);

/* Waits for the outcome, unless it was refused. */
struct sets_outcome arrival_end(struct arrival *a);

/* All four, without a key. */
struct sets_outcome arrive(const char *name, const char *type,
                           struct slice body);
struct sets_outcome arrive_json(const char *name, const char *body);

#endif

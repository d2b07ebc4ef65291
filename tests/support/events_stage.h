/*
 * events_stage.h - a broker with two service threads whose set EVENTS_SET has
 * three entries, for those who follow it as an EventSource.
 *
 * As fixtures: one of the openings, which differ in what comes by itself, and
 * events_stage_close.
 */
#ifndef TESTS_SUPPORT_EVENTS_STAGE_H
#define TESTS_SUPPORT_EVENTS_STAGE_H

#include "tests/support/broker.h"
#include "tests/support/http.h"

#define EVENTS_SET    "news"
#define EVENTS_STREAM "/sets/" EVENTS_SET "/stream"

struct events_stage {
    struct broker broker;
    struct http http;
};

/* Nothing comes by itself. */
int events_stage_quiet(void **state);

/* The same, and a message may be larger than all buffers between two
 * processes. */
int events_stage_large(void **state);

/* With five heartbeats a second. */
int events_stage_busy(void **state);

/* Lists are closed at seven entries. */
int events_stage_rotating(void **state);

int events_stage_close(void **state);

#endif

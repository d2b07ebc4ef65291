/*
 * cutter_inside.h - what the two halves of a cutter share: what the test says
 * (cutter.c) and the thread that does it (cutter_wire.c).
 */
#ifndef TESTS_SUPPORT_CUTTER_INSIDE_H
#define TESTS_SUPPORT_CUTTER_INSIDE_H

#include <pthread.h>

#include "tests/support/cutter.h"

#define CUTTER_NONE UINT64_MAX

struct cutter_pair; /* a connection and the one behind it; the thread's */

struct cutter {
    int listener, wake;
    unsigned port;
    char url[60];
    pthread_t thread;
    struct cutter_pair *pairs; /* in the order they came */
    uint64_t die;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool is_ending;
    unsigned behind;

    /* What is asked; the thread counts `done` up to `asked` as it does it. */
    unsigned asked, done;
    bool has_end;
    enum cutter_end end;
    bool has_go, has_plan, is_new_plan;
    int let; /* -1: none; -2: all */

    bool is_stalled[2], refuses, holds;
    unsigned delay_ms;
    uint64_t left[2]; /* until the end that was asked for; CUTTER_NONE */
    enum cutter_end end_then[2];
    struct cutter_plan plan;
    struct cutter_counts counts;
};

void cutter_must(bool is_so, const char *what);
void cutter_wire_open(struct cutter *c);
void cutter_wire_wake(struct cutter *c);
void cutter_wire_close(struct cutter *c);

#endif

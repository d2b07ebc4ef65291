/*
 * patience.h - waiting for what nobody announces: looked for again and again,
 * for two minutes, far longer than it takes on a busy machine. Then the test
 * fails and says what did not come.
 *
 *     struct patience p = {.with = "the file of the closed list"};
 *
 *     while (!has_file(...))
 *         patience_step(&p);
 *
 * Do not make an event likely by a pause: wait until the test sees it.
 */
#ifndef TESTS_SUPPORT_PATIENCE_H
#define TESTS_SUPPORT_PATIENCE_H

#include <stdint.h>

/* How long anything at all that has to come may take, and be silent. */
#define PATIENCE_MS 120000

struct patience {
    const char *with;
    int64_t end_us; /* steady; 0: nothing was waited for yet */
};

/* A millisecond goes by. */
void patience_step(struct patience *p);

#endif

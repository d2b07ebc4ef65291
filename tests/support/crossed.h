/*
 * crossed.h - several publishers of LISTS_SET that are cut off by the broker's
 * end, whatever brought it about, and what must be there afterwards.
 *
 *     crossed_init(&c, seed);
 *     crossed_start(&c, &p, &broker);
 *     ... the broker ends ...
 *     publishers_join(&p);
 *     ... it is started again, and walked: `trace` ...
 *     crossed_check(&c, &p, &trace, last);
 *     publishers_fini(&p);
 *
 * In as many rounds as wanted. An acknowledged post is there, one in doubt is
 * there whole or not at all, and nothing else is.
 */
#ifndef TESTS_SUPPORT_CROSSED_H
#define TESTS_SUPPORT_CROSSED_H

#include <stdint.h>

#include "tests/support/publishers.h"
#include "tests/support/trace.h"

#define CROSSED_PUBLISHERS 4
#define CROSSED_POST_MAX   60 /* entries of one post */

/* Entry K of N of post P of publisher W: "http://example.com/W/P/K/N". */
struct crossed {
    struct journal journal;
    uint64_t random[CROSSED_PUBLISHERS];
    unsigned n_posts[CROSSED_PUBLISHERS]; /* over all rounds */
};

/* Random numbers: the same for the same seed, on whichever thread. */
uint32_t crossed_random(uint64_t *state);

void crossed_init(struct crossed *c, uint64_t seed);
void crossed_fini(struct crossed *c);

void crossed_start(struct crossed *c, struct publishers *p,
                   const struct broker *b);

/* Fails the test unless the trace has what it must have; before this round it
 * ended at `last`. A post in doubt that is there is as good as acknowledged
 * from now on. Returns how many of those are. */
unsigned crossed_check(struct crossed *c, const struct publishers *p,
                       const struct trace *t, uint64_t last);

#endif

/*
 * ways.h - which transport carries the changes next.
 *
 *     WebSocket, server-sent events, long poll, Change Lists
 *
 * The best is taken that the source offers, the caller allows, and that has not
 * been found unfit here: what stands between us may let one through and not
 * another. What was found unfit is tried again after a while; not sooner, for
 * each attempt costs a connection and its pause.
 *
 * Pure: told the time, it opens nothing.
 */
#ifndef CLIENT_FOLLOW_WAYS_H
#define CLIENT_FOLLOW_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/tidings.h"

/* How long what is unfit is left alone the first time, and at most: doubled
 * from time to time. A broker that just ended looks unfit, too: short at first.
 */
#define WAYS_AGAIN_FIRST_MS ((int64_t)60 * 1000)
#define WAYS_AGAIN_LAST_MS  ((int64_t)24 * 60 * 60 * 1000)

enum { WAYS_MAX = 4 };

struct ways {
    unsigned open; /* of enum td_transport: allowed and offered */

    struct way {
        bool is_unfit;
        int64_t again_ms; /* when it may be tried again */
        int64_t
            pause_ms; /* how long it is left alone next time; 0: never yet */
    } ways[WAYS_MAX];
};

/* `open`: of enum td_transport. What is known of their fitness stays. */
void ways_open(struct ways *ways, unsigned open);

/* The best that is open and not unfit at `now_ms`; 0: there is none. */
unsigned ways_choose(const struct ways *ways, int64_t now_ms);

void ways_unfit(struct ways *ways, unsigned transport, int64_t now_ms);

/* It carried a message: all is forgotten that spoke against it. */
void ways_fit(struct ways *ways, unsigned transport);

/* None is left: all may be tried again, at once. */
void ways_forget(struct ways *ways);

/* "WebSocket" */
const char *ways_name(unsigned transport);

#endif

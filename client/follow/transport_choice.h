/*
 * transport_choice.h - chooses the transport of the next connection.
 *
 *     WebSocket, server-sent events, long poll, Change Lists
 *
 * It takes the best one that the source offers, the caller allows, and that was
 * not found unfit: a proxy may carry one transport and not another. An unfit
 * one is tried again after a while; not sooner, because each attempt costs a
 * connection and its pause.
 *
 * Pure: the caller passes the time; no sockets.
 */
#pragma once

#include "client/tidings.h"
#include "proto/c.h"

/* The first and the longest time until an unfit transport is tried again; it
 * doubles each time. Short at first, because a broker that just ended looks
 * unfit, too. */
#define TRANSPORT_CHOICE_AGAIN_FIRST_MS ((int64_t)60 * 1000)
#define TRANSPORT_CHOICE_AGAIN_LAST_MS  ((int64_t)24 * 60 * 60 * 1000)

enum { TRANSPORT_CHOICE_MAX = 4 };

struct transport_choice {
    unsigned open; /* of enum td_transport: allowed and offered; the owner's */

    struct way {
        bool is_unfit;
        int64_t again_ms; /* when it may be tried again */
        int64_t pause_ms; /* the last pause; 0: none yet */
    } ways[TRANSPORT_CHOICE_MAX];
};

/* The best one that is open and not unfit at `now_ms`; 0: none. */
unsigned transport_choice_choose(const struct transport_choice *ways,
                                 int64_t now_ms);

void transport_choice_unfit(struct transport_choice *ways, unsigned transport,
                            int64_t now_ms);

/* It carried a message: it is not unfit, and its pauses begin anew. */
void transport_choice_fit(struct transport_choice *ways, unsigned transport);

/* Allows all again at once, because none is left. */
void transport_choice_forget(struct transport_choice *ways);

/* "WebSocket" */
const char *transport_choice_name(unsigned transport);

/*
 * transport.h - what live.c and its transports know of each other: one row per
 * way of being pushed to.
 *
 *     start --> live_answered --> live_message ... --> live_finish
 *
 * live_finish only notes the end: on_end is called when the loop turns next, so
 * a transport is never freed while it calls, unless live_message says so.
 */
#ifndef CLIENT_FOLLOW_TRANSPORT_H
#define CLIENT_FOLLOW_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/follow/live.h"

struct fetch_answer;

struct transport {
    enum td_transport name;
    bool (*start)(struct live *live); /* false: no memory */
    void (*stop)(struct live *live); /* frees what start made; `own` may be NULL
                                      */
    void (*pause)(struct live *live); /* is_paused says which */
    bool is_held_back; /* silence from the beginning means LIVE_UNFIT: whoever
                          stands between keeps answers until they are whole */
};

extern const struct transport transport_websocket, transport_events,
    transport_long_poll;

struct live {
    struct td_client *client;
    const struct transport *transport;
    char *url;
    enum td_form form;
    const unsigned *idle_ms;
    unsigned answer_ms;
    live_message_fn *on_message;
    live_end_fn *on_end;
    void *user;
    void *own; /* the transport's */

    struct timer *timer; /* the answer's, of silence, or of the end */
    uint64_t await_ms;   /* for the answer */
    bool is_answered;
    bool has_message; /* one came */
    bool is_paused;
    bool is_late;       /* the time is over; what came meanwhile is looked at */
    bool is_ending;     /* `end` is to be told; nothing is handed over */
    bool is_in_message; /* on_message runs ... */
    bool is_dead;       /* ... and called live_free */
    struct live_end end;
};

/* The server is to answer within answer_ms and `more_ms`, from now on. */
void live_await(struct live *live, uint64_t more_ms);

/* A message came, or more of one: from now on silence is told by idle_ms. While
 * it is paused nobody waits. */
void live_heard(struct live *live);

/* Hands a message over. False: nothing more may be, and `live` may be gone.
 * True still leaves it to the caller to look at is_paused. */
bool live_message(struct live *live, char *bytes, size_t size);

/* The end; the first is the true one. `rc` as live.h says. */
void live_finish(struct live *live, enum live_how how, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void live_finish_closed(struct live *live, unsigned code, const char *reason);

/* The end by an answer that is none of this transport: refused, or unfit. */
void live_finish_refused(struct live *live, const struct fetch_answer *answer);

/* Is that media type, perhaps with parameters, `name`? */
bool live_is_type(const char *type, const char *name);

#endif

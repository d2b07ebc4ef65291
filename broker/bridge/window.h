/*
 * window.h - messages that are published and not done with.
 *
 *   window_add --> (kept in the ledger) --> window_sent --> window_take -->
 * done |              by its mid
 *                                              +--> in flight
 *
 * Two things are counted. In flight is what the MQTT broker has not
 * acknowledged: `max` messages, WINDOW_BYTES. Held is what was acknowledged
 * besides, but not in turn: a set goes on in order, so it waits for the one
 * before it. Twice `max` is held at most, so that one acknowledgement that does
 * not come cannot make it grow.
 *
 * Flights are used again: in a steady state nothing is allocated.
 */
#ifndef BROKER_BRIDGE_WINDOW_H
#define BROKER_BRIDGE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/status.h"

/* Payloads that are published and not acknowledged, besides at most one. */
#define WINDOW_BYTES ((size_t)16 << 20)

struct lane;

enum flight_kind { FLIGHT_MESSAGE, FLIGHT_POSITION, FLIGHT_STATUS };

struct flight {
    struct list node;    /* of its lane's, in order; the window's `others`, or
                            `unused` */
    struct flight *next; /* of the same bucket */
    struct lane *lane;   /* NULL: nobody's, or its lane goes over it again */
    enum flight_kind kind;
    bool is_done;  /* acknowledged, or there was nothing to send */
    int mid;       /* 0: it is not in flight */
    uint64_t upto; /* where its lane is when it and all before it are done; 0:
                      where it was */
    size_t bytes;  /* payload */
};

struct window {
    unsigned max;       /* messages in flight; the test's and the owner's */
    unsigned in_flight; /* those that are added and not sent yet count, too */
    unsigned held;      /* flights in use */
    size_t bytes;       /* in flight */
    struct flight **buckets;
    size_t mask;
    struct list others; /* without a lane that waits for them in order */
    struct list unused;
};

/* Room for `inflight` messages at most. */
MUST_CHECK enum status window_init(struct window *w, unsigned inflight);

/* No lane has any. */
void window_fini(struct window *w);

bool window_has_room(const struct window *w);

/* A flight of `bytes`, in no list yet, for the caller to put in one. NULL: no
 * memory. */
struct flight *window_add(struct window *w, enum flight_kind kind,
                          struct lane *lane, size_t bytes);

/* It was published, as `mid`. */
void window_sent(struct window *w, struct flight *flight, int mid);

/* There was nothing to publish, but its lane goes on there in turn. */
void window_skip(struct window *w, struct flight *flight);

/* The one in flight with that mid, which is not from now on; NULL: none. */
struct flight *window_take(struct window *w, int mid);

/* It is done with, or was not published at all. */
void window_release(struct window *w, struct flight *flight);

/* Nobody waits for them any more, but they are in flight, and count. */
void window_orphan(struct window *w, struct list *flights);

/* The connection is gone: nothing is in flight; `others` are released, lanes
 * have given theirs up before. */
void window_clear(struct window *w);

#endif

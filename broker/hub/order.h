/*
 * order.h - what the hub is asked to do: from a service thread to the delivery
 * thread and back.
 *
 * Whoever makes an order fills in what its kind needs; what is text is copied
 * into the order's memory (order_keep). All that can be judged without the
 * hub's state was judged before (order_read_form), so that a flood of bad
 * requests costs the delivery thread nothing.
 */
#ifndef BROKER_HUB_ORDER_H
#define BROKER_HUB_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/net/server.h"
#include "proto/buf.h"
#include "proto/filter.h"
#include "proto/form.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"
#include "proto/websub.h"

struct hub;

enum order_kind {
    ORDER_SUBSCRIBE, /* a form at /hub, mode subscribe or unsubscribe; or a
                        simple subscription, is_simple */
    ORDER_PUBLISH,   /* a form at /hub, mode publish: W-121 */
    ORDER_NOTIFY,    /* a notification posted to /hub: R-293 */
    ORDER_LIST,      /* subscriptions of a set or relay, as JSON */
    ORDER_SHOW,      /* one of them */
    ORDER_END,       /* ends one */
    ORDER_REDELIVER, /* moves one's cursor */
    ORDER_RELAY_PUT, /* makes or changes a relay */
    ORDER_RELAY_SHOW,
    ORDER_RELAY_LIST, /* all relays */
    ORDER_RELAY_REMOVE,
    ORDER_KINDS
};

struct order {
    struct task task; /* the hub's */
    struct hub *hub;  /* likewise, set by hub_submit */
    enum order_kind kind;

    /* Whose subscriptions or relay: name of a set, or of a relay. */
    char name[SET_NAME_MAX + 1];
    bool is_relay;

    /* ORDER_SUBSCRIBE: lends from `form`, or from `memory`. */
    struct form_data form;
    struct websub_request request; /* ORDER_LIST: its callback alone counts, and
                                      may be empty */
    struct filter filter;
    bool has_after;
    struct slice after; /* a position, not judged yet; ORDER_REDELIVER too */
    int64_t interval_us;
    bool is_local;  /* asked for on this machine, of an open broker */
    bool is_simple; /* by POST /sets/{set}/subscribe: R-350 */
    char from[64];  /* the requester's address: limits go by it (W-164) */

    uint64_t id; /* ORDER_SHOW, _END, _REDELIVER: of a subscription. ORDER_LIST:
                    those after it */

    /* ORDER_NOTIFY, ORDER_RELAY_PUT */
    struct buf body;
    struct slice content_type; /* as it stands */
    struct slice links;        /* all Link headers, joined */
    struct slice key;          /* Idempotency-Key; or empty */

    struct buf memory; /* what slices above lend from; see order_keep */

    /* The outcome: set before `done`, which is called on the delivery thread
     * (or on the log's); the order is the caller's again. */
    enum status status;
    unsigned http; /* the answer's status, also where `status` is good */
    struct problem why;
    struct buf text; /* JSON, where the kind has some */
    void (*done)(struct order *order);
    void *user;
};

/* All zero but its kind, with room to keep `max` bytes of text. NULL: no
 * memory. */
struct order *order_new(enum order_kind kind, size_t max);
void order_free(struct order *order); /* NULL is allowed */

/* Copies text into the order's memory (made at once: what was lent stays). Size
 * 0 and failed memory when there is no room. */
struct slice order_keep(struct order *order, struct slice text);

/* Reads a form posted to /hub: sets kind, request, and what a subscription may
 * ask for besides: filter (change= prefix= type= tag=), after=, interval=
 * (seconds, up to a day, fractions allowed). Errors as by websub_read and
 * filter_read: all of them are told as text/plain (W-032). */
MUST_CHECK enum status order_read_form(struct order *order, struct slice body,
                                       struct problem *why);

/* The same for POST /sets/{set}/subscribe: callbackURI= instead of hub.*
 * callbackURI may be there once. `name` is set. */
MUST_CHECK enum status order_read_simple(struct order *order, struct slice body,
                                         struct problem *why);

#endif

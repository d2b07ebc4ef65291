/*
 * order.h - a request to the hub: from a service thread to the delivery thread
 * and back.
 *
 * The maker of an order fills in the members that its kind needs, and copies
 * texts into the order's memory (order_keep). order_read_form makes every check
 * that needs no state of the hub, so a flood of bad requests costs the delivery
 * thread nothing.
 */
#ifndef BROKER_HUB_ORDER_H
#define BROKER_HUB_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/job.h"
#include "proto/buf.h"
#include "proto/change_filter.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"
#include "proto/urlencoded.h"
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

    /* Name of the set or relay. */
    char name[SET_NAME_MAX + 1];
    bool is_relay;

    /* ORDER_SUBSCRIBE: lends from `form`, or from `memory`. */
    struct urlencoded_data form;
    struct websub_request request; /* ORDER_LIST uses only its callback, which
                                      may be empty */
    struct filter filter;
    bool has_after;
    struct slice after; /* a position, not checked yet; also of
                           ORDER_REDELIVER */
    int64_t interval_us;
    bool is_local;  /* a client of this machine asked an open broker */
    bool is_simple; /* by POST /sets/{set}/subscribe: R-350 */
    char from[64];  /* the requester's address, for limits (W-164) */

    uint64_t id; /* ORDER_SHOW, _END, _REDELIVER: a subscription. ORDER_LIST:
                    the list begins behind it */

    /* ORDER_NOTIFY, ORDER_RELAY_PUT */
    struct buf body;
    struct slice content_type; /* unchanged */
    struct slice links;        /* all Link headers, joined */
    struct slice key;          /* Idempotency-Key; or empty */

    struct buf memory; /* for the texts of the slices above: order_keep */

    /* The outcome, set before `done`. The delivery thread (or the log's) calls
     * `done`, and gives the order back. */
    enum status status;
    unsigned http; /* status of the answer, also of a success */
    struct problem why;
    struct buf text; /* JSON, for some kinds */
    void (*done)(struct order *order);
    void *user;
};

/* Makes an order, zero except its kind, with room for `max` bytes of text.
 * NULL: no memory. */
struct order *order_new(enum order_kind kind, size_t max);
void order_free(struct order *order); /* NULL is allowed */

/* Copies text into the order's memory, which never moves, so earlier slices
 * stay valid. Size 0 and failed memory if there is no room. */
struct slice order_keep(struct order *order, struct slice text);

/* Reads a form posted to /hub: sets kind, request, and the optional parameters
 * of a subscription: filter (change= prefix= type= tag=), after=, interval=
 * (seconds, up to a day, fractions allowed). Errors are those of websub_read
 * and filter_read; the answer to each is text/plain (W-032). */
MUST_CHECK enum status order_read_form(struct order *order, struct slice body,
                                       struct problem *why);

/* Reads a form posted to /sets/{set}/subscribe: callbackURI= instead of hub.*
 * at most once. `name` is set. */
MUST_CHECK enum status order_read_simple(struct order *order, struct slice body,
                                         struct problem *why);

#endif

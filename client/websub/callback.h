/*
 * callback.h - the server for hubs: each subscription has a route of its own,
 * which nobody can guess.
 *
 *     hub --GET ?hub.challenge--> route_fn: reply     (verification)
 *         --POST notification---> route_fn: reply     (delivery)
 *
 * HTTP/1.1 on the handle's loop, with the broker's readers (proto). Bounds: of
 * heads, bodies, connections, the memory of all bodies and of those of one
 * route, and the time of a request. A client without a valid route gets the
 * same 404 for everything.
 *
 * A route_fn sets the answer, keeps the data, and does all else later, from a
 * timer. That makes answers quick (W-088): no route_fn calls the program's own
 * functions.
 */
#ifndef CLIENT_WEBSUB_CALLBACK_H
#define CLIENT_WEBSUB_CALLBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/client.h"
#include "proto/buf.h"
#include "proto/slice.h"

/* Longest URL of a route that websub_check_url accepts, and a NUL. */
#define ROUTE_URL_SIZE 2049

/* A request. Lent until the function returns; a header that the request does
 * not have is empty. */
struct arrival {
    bool is_post;             /* else GET */
    struct slice query;       /* behind "?", as sent */
    struct slice type;        /* Content-Type */
    struct slice signature;   /* X-Hub-Signature */
    struct slice delivery_id; /* Tidings-Delivery */
    struct slice webhook_id;
    struct slice webhook_timestamp;
    struct slice webhook_signature;
    struct buf body; /* of a POST; the callee may take it, and calls buf_init */
};

struct reply {
    unsigned status; /* 404 unless set */
    struct buf text; /* text/plain; at first empty */
};

/* Must not free its route, nor close the server. */
typedef void route_fn(struct arrival *arrival, struct reply *reply, void *user);

struct route;

/* `max_bytes`: of a body; longer ones get 413. NULL: no memory, or no random
 * bytes. */
struct route *route_new(struct td_callback *callback, size_t max_bytes,
                        route_fn *fn, void *user);
void route_free(struct route *route); /* NULL is allowed */

/* "https://me.example/hooks/0123456789abcdef..." */
const char *route_url(const struct route *route);

/* An object that may outlive its owner at a callback, which closes it at the
 * latest when it closes itself. */
struct tenant {
    struct tenant *next;
    void (*close)(void *owner); /* frees it, and calls callback_leave before */
    void *owner;
};

void callback_stay(struct td_callback *callback, struct tenant *tenant);
void callback_leave(struct td_callback *callback, struct tenant *tenant);

struct td_client *callback_client(const struct td_callback *callback);

#endif

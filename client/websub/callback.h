/*
 * callback.h - the server that hubs call: routes that cannot be guessed, each a
 * subscription's own.
 *
 *     hub --GET ?hub.challenge--> route_fn: reply     (verification)
 *         --POST notification---> route_fn: reply     (delivery)
 *
 * HTTP/1.1 on the handle's loop, by the readers that the broker has (proto).
 * Bounded are heads, bodies, connections, the memory of all bodies and of those
 * of one route, and the time that a request may take. Who does not know a route
 * gets the same 404 for everything.
 *
 * A route_fn decides what is answered, keeps what came and does all else later,
 * from a timer. That is what makes an answer quick (W-088), and why nothing of
 * the program's own is called from there.
 */
#ifndef CLIENT_WEBSUB_CALLBACK_H
#define CLIENT_WEBSUB_CALLBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/client.h"
#include "proto/buf.h"
#include "proto/slice.h"

/* Bytes of a route's URL: what websub_check_url takes, and a NUL. */
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
    struct buf body; /* of a POST; may be taken: buf_init it again */
};

struct reply {
    unsigned status; /* at first 404 */
    struct buf text; /* text/plain; at first empty */
};

/* Must not free its route, nor close the server. */
typedef void route_fn(struct arrival *arrival, struct reply *reply, void *user);

struct route;

/* `max_bytes`: of a body; longer ones are answered with 413. NULL: no memory,
 * or no random bytes. */
struct route *route_new(struct td_callback *callback, size_t max_bytes,
                        route_fn *fn, void *user);
void route_free(struct route *route); /* NULL is allowed */

/* "https://me.example/hooks/0123456789abcdef..." */
const char *route_url(const struct route *route);

/* What lives on at a callback though its owner is gone: it is closed with it,
 * at the latest. */
struct tenant {
    struct tenant *next;
    void (*close)(void *owner); /* frees it, and calls callback_leave before */
    void *owner;
};

void callback_stay(struct td_callback *callback, struct tenant *tenant);
void callback_leave(struct td_callback *callback, struct tenant *tenant);

struct td_client *callback_client(const struct td_callback *callback);

#endif

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
#pragma once

#include "client/lib/client.h"

/* Longest URL of a route that websub_check_url accepts, and a NUL. */
#define ROUTE_URL_SIZE 2049

/* A request. Lent until the function returns; a header that the request does
 * not have is empty. */
struct arrival {
    struct callback_connection *from; /* for callback_answer */
    bool is_post;                     /* else GET */
    struct slice path;
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
    bool is_later;   /* callback_answer will say; nothing else is looked at */
    unsigned status; /* 404 unless set */
    unsigned retry_after_s; /* 0: none */
    const char *type;       /* of the text; NULL: text/plain */
    struct buf text;        /* at first empty */
};

/* Must not free its route, nor close the server. */
typedef void route_fn(struct arrival *arrival, struct reply *reply, void *user);

#define TOKEN_BYTES 20 /* 160 bits */
#define TOKEN_SIZE  (2 * TOKEN_BYTES)

/* For others only to read. */
struct route {
    struct td_callback *callback;
    struct list node;
    size_t max_bytes; /* of one body */
    size_t n_bodies;  /* bytes of memory of its bodies under way */
    route_fn *fn;
    void *user;
    char url[ROUTE_URL_SIZE]; /* "https://me.example/hooks/0123456789abc..." */
    const char *token;        /* into url: its last segment */
};

struct td_callback {
    struct td_client *client;
    struct running running;
    int fd; /* listens; -1: not yet */
    struct descriptor *descriptor;
    struct timer pause; /* until it accepts again */
    struct list routes;
    struct route *only;      /* takes every path; NULL: routes have tokens */
    struct list connections; /* the oldest first */
    unsigned n_connections;
    size_t n_bodies; /* bytes of memory of all bodies under way */
    struct list tenants;
    bool is_empty; /* no tenants */
    char url[ROUTE_URL_SIZE - TOKEN_SIZE - 1];
};

/* `max_bytes`: of a body; longer ones get 413. NULL: no memory, or no random
 * bytes. */
struct route *route_new(struct td_callback *callback, size_t max_bytes,
                        route_fn *fn, void *user);
void route_free(struct route *route); /* NULL is allowed */

/* An object that may outlive its owner at a callback, which closes it at the
 * latest when it closes itself. */
struct tenant {
    struct list node;
    void (*close)(void *owner); /* takes it from the callback, and frees it */
    void *owner;
};

/* One connection (callback_connection.c). */
struct callback_connection;

/* Answers a request whose route_fn has left that for later. The connection
 * waits for it, unless the callback closes. Takes the text of the reply. */
void callback_answer(struct callback_connection *connection,
                     struct reply *reply);

/* Takes over `fd`, an accepted socket; closes it if there is no memory. */
void callback_connection_new(struct td_callback *callback, int fd);

/* Closes the oldest connection that receives no body, to make room for another
 * one. False: all of them receive bodies. */
bool callback_connections_evict(struct td_callback *callback);

void callback_connections_close(struct td_callback *callback);

/* Drops the bodies under way to `route`, which is about to be freed. */
void callback_connections_forget(struct td_callback *callback,
                                 const struct route *route);

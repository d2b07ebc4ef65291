/*
 * callback_server.h - the server for hubs, as its two files see it.
 *
 *     callback.c    routes, listening, its life
 *     peer.c      one connection: requests and their answers
 */
#ifndef CLIENT_WEBSUB_CALLBACK_SERVER_H
#define CLIENT_WEBSUB_CALLBACK_SERVER_H

#include "client/websub/callback.h"

#define TOKEN_BYTES 20 /* 160 bits */
#define TOKEN_SIZE  (2 * TOKEN_BYTES)

struct peer;

struct route {
    struct td_callback *callback;
    struct route *next;
    size_t max_bytes; /* of one body */
    size_t n_bodies;  /* bytes of memory of its bodies under way */
    route_fn *fn;
    void *user;
    char url[ROUTE_URL_SIZE];
    const char *token; /* into url: its last segment */
};

struct td_callback {
    struct td_client *client;
    struct running running;
    int fd; /* listens; -1: not yet */
    struct descriptor *descriptor;
    struct timer *pause; /* until it accepts again */
    struct route *routes;
    struct peer *peers; /* the newest first */
    unsigned n_peers;
    size_t n_bodies; /* bytes of memory of all bodies under way */
    struct tenant *tenants;
    bool is_empty; /* no tenants */
    char url[ROUTE_URL_SIZE - TOKEN_SIZE - 1];
};

/* Takes over `fd`, an accepted socket; closes it if there is no memory. */
void peer_new(struct td_callback *callback, int fd);

void peer_close(struct peer *peer);

/* Closes the oldest connection that receives no body, to make room for another
 * one. False: all of them receive bodies. */
bool peer_evict(struct td_callback *callback);

/* Drops the bodies under way to `route`, which is about to be freed. */
void peers_forget(struct td_callback *callback, const struct route *route);

#endif

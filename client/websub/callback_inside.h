/*
 * callback_inside.h - a server for callbacks, as its two files see it.
 *
 *     callback.c  listening, the loop, its life
 *     arrivals.c  routes, requests, connections
 */
#ifndef CLIENT_WEBSUB_CALLBACK_INSIDE_H
#define CLIENT_WEBSUB_CALLBACK_INSIDE_H

#include <microhttpd.h>

#include "client/websub/callback.h"

#define TOKEN_BYTES 20 /* 160 bits */
#define TOKEN_SIZE  (2 * TOKEN_BYTES)

/* Of a request: its head and what libmicrohttpd needs for the answer's. A
 * verification has a topic in it, of at most three times WEBSUB_URL_MAX. */
#define MEMORY_PER_CONNECTION (32 * 1024)

struct peer;

struct td_callback {
    struct td_client *client;
    struct running running;
    struct MHD_Daemon *daemon;
    struct descriptor *descriptor;
    struct timer *due;      /* libmicrohttpd has something to do */
    struct timer *deadline; /* somebody's patience is over */
    struct route *routes;
    struct peer *peers;
    struct tenant *tenants;
    bool is_empty;   /* there are none */
    size_t n_bodies; /* bytes of all bodies that are under way */
    char url[ROUTE_URL_SIZE - TOKEN_SIZE - 1];
};

/* arrivals.c, for libmicrohttpd; `user` is the callback. */
void *arrivals_target(void *user, const char *target,
                      struct MHD_Connection *connection);
enum MHD_Result arrivals_request(void *user, struct MHD_Connection *connection,
                                 const char *url, const char *method,
                                 const char *version, const char *bytes,
                                 size_t *size, void **context);
void arrivals_completed(void *user, struct MHD_Connection *connection,
                        void **context, enum MHD_RequestTerminationCode how);
void arrivals_connection(void *user, struct MHD_Connection *connection,
                         void **context,
                         enum MHD_ConnectionNotificationCode what);

/* The timer `deadline`. */
void arrivals_deadline(void *user);

#endif

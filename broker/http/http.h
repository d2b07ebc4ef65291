/*
 * http.h - the entrance of all requests: shared state of the handlers, and
 * access.
 */
#pragma once

#include <stdatomic.h>

#include "broker/access/identity_provider.h"
#include "broker/access/tokens.h"
#include "broker/archive/archiver.h"
#include "broker/base/effort.h"
#include "broker/bridge/bridges.h"
#include "broker/hub/hub_owner.h"
#include "broker/net/request.h"
#include "broker/posts/posts.h"
#include "broker/push/subscribers.h"
#include "broker/sets/registry.h"

/* Room for the text of a port. */
#define OWN_PORT_SIZE 8

/* All that requests are answered with. The owner sets the members;
 * origins_init those from is_near to ports. */
struct http {
    struct registry *registry;     /* before the server starts, as push */
    struct membership *membership; /* likewise; NULL: a single broker */
    struct push *push;
    struct access_log *access_log;       /* NULL: none */
    struct config_report *config_report; /* for GET /config */
    const struct origins *origins;       /* --allow-origins; NULL: none */
    struct request_tickets *tickets;     /* passes of requests */
    struct tickets *sessions;            /* cookies of the console */
    struct tokens *tokens;               /* valid when is_ready is true */
    struct identity_provider *provider;  /* likewise */
    struct posts *posts;                 /* likewise */
    struct archiver *archiver;           /* likewise */
    struct backup_offer *backup;         /* likewise */
    struct hub_owner *hub;               /* likewise */
    struct bridges *bridges;             /* likewise */
    struct efforts efforts;              /* efforts_init before the server */

    /* True if only this machine can reach the broker, unless there are tokens:
     * listener and public URL are on loopback, and --insecure-open is not
     * given. */
    bool is_near;

    bool has_tls; /* the TCP listener speaks TLS: no reload changes that */

    /* The hosts that a request without a token may name: the names of loopback,
     * the listener's, and the public URL's; and the ports of the latter two. */
    char hosts[5][300];
    unsigned n_hosts;
    char ports[2][OWN_PORT_SIZE];

    /* Requests get 503 before this is true. Release: a thread that sees `true`
     * also sees the rest of this struct. */
    atomic_bool is_ready;
};

/* True if clients are on this machine, or come by a forwarder there, and need
 * no token. With tokens they may be anywhere. */
static inline bool
http_is_local(const struct http *http)
{
    return http->is_near && tokens_are_open(http->tokens);
}

/* Names the rows of the metric of requests. Before the server starts; again
 * does nothing new. */
void http_name_routes(void);

/* The server's on_request and on_end; `user` is the struct http. */
void http_on_request(struct request *rq, void *user);
void http_on_end(const struct request_end *end, void *user);

/*
 * http.h - the door: what all handlers share, and who may come in.
 */
#ifndef BROKER_HTTP_HTTP_H
#define BROKER_HTTP_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "broker/archive/archiver.h"
#include "broker/bridge/bridges.h"
#include "broker/hub/hub.h"
#include "broker/net/request.h"
#include "broker/push/subscribers.h"
#include "broker/sets/registry.h"
#include "proto/slice.h"

struct http {
    struct registry *registry;
    struct push *push;
    struct archiver *archiver; /* from the moment when is_ready is true */
    struct hub *hub;           /* likewise */
    struct bridges *bridges;   /* likewise; NULL: none is configured */

    /* Can only this machine reach it: listener and public URL are loopback's,
     * and --insecure-open is not given? */
    bool is_open;

    /* Hosts that an open broker answers to, without ports: that of the
     * listener, that of the public URL, and loopback's names. */
    char hosts[5][300];
    unsigned n_hosts;
    bool any_host; /* --insecure-open: only Origins are looked at */

    /* Until all floors stand, requests get 503. Release: whoever sees `true`
     * sees the rest of this struct as it is then. */
    atomic_bool is_ready;
};

/* Fills in all but archiver, hub, bridges and is_ready. */
void http_init(struct http *http, struct registry *registry, struct push *push,
               const char *listen_host);

/* The server's on_request; `user` is the struct http. */
void http_on_request(struct request *rq, void *user);

#endif

/*
 * own_names.h - the names by which the broker is called: its hosts and its own
 * origin.
 */
#ifndef BROKER_HTTP_OWN_NAMES_H
#define BROKER_HTTP_OWN_NAMES_H

#include <stdbool.h>

#include "broker/http/http.h"
#include "proto/slice.h"

/* Fills in the names. The registry is there; `url` is that of the listener. */
void own_names_init(struct http *http, const char *url);

/* The host of "host:port", with the brackets of an IPv6 address. */
struct slice own_names_host_of(struct slice authority);

/* The port that a URL names; empty: none. */
struct slice own_names_port_of(struct slice url);

/* True if "host" or "host:port" is a host of the broker. Ignores the port: an
 * attacking page can only forge the name. */
bool own_names_have_host(const struct http *http, struct slice authority);

/* True if the client uses TLS, also by a trusted proxy. During on_request. */
bool own_names_are_https(const struct http *http, struct request *rq);

/* True for an origin of the broker itself: that of the public URL, or the
 * scheme of the request and its Host, if that is a name of the broker. (Host
 * alone proves nothing: a page can give any name our address.) During
 * on_request. */
bool own_names_have_origin(const struct http *http, struct request *rq,
                           struct slice origin);

/* A page of any name that points here (DNS rebinding) has what everyone has. So
 * a request needs a name of the broker: each one to an open broker, else one of
 * everyone, unless a trusted proxy or a unix socket brings it. A broker that is
 * open to its machine knows its port, too: a forwarder of TCP has another one.
 * (`principal` NULL: not yet known.) False: it may not come in, and `why` says
 * why. During on_request. */
bool own_names_may_be_used(const struct http *http, struct request *rq,
                           const struct principal *principal,
                           struct problem *why);

#endif

/*
 * own_names.h - the names by which the broker is called: its hosts and its own
 * origin.
 */
#ifndef BROKER_HTTP_OWN_NAMES_H
#define BROKER_HTTP_OWN_NAMES_H

#include <stdbool.h>

#include "broker/http/http.h"
#include "proto/slice.h"

/* Fills in http->hosts. The registry is there. */
void own_names_init(struct http *http, const char *listen_host);

/* The host of "host:port", with the brackets of an IPv6 address. */
struct slice own_names_host_of(struct slice authority);

/* The port that a URL names; empty: none. */
struct slice own_names_port_of(struct slice url);

/* True if "host" or "host:port" is a host of the broker. Ignores the port: an
 * attacking page can only forge the name. */
bool own_names_have_host(const struct http *http, struct slice authority);

/* True for an origin of the broker itself: one of its names, and the Host of
 * the request or the public URL. (Host alone proves nothing: a page can give
 * any name our address. With --insecure-open the broker has any name.) */
bool own_names_have_origin(const struct http *http, struct slice origin,
                           struct slice host);

#endif

/*
 * reach.h - which addresses the documents of a source may send a handle to.
 *
 * A source names URLs: of lists, packages, resources, hubs, streams; and its
 * answers redirect. A source on the Internet could so have a client ask for
 * pages of its own machine or network, which are open to it alone. Therefore a
 * source may name addresses that reach no further than its own
 * (proto/address.h): one on a public address names public ones alone, one in a
 * private network private ones, one on this machine all.
 *
 * The address of the connection is judged, when it is made and again before
 * each request on one that was kept: a name may resolve to another address than
 * the last time. A source's own host is held to the address it had first, so
 * that it cannot move into this machine.
 *
 * Of several sources of a handle, the one that reaches least counts for all.
 * URLs of sets that the program itself names are not judged, before they
 * redirect; neither is anything on a handle that was given no source.
 *
 * Behind a proxy, names are the proxy's to resolve, and to judge. Hosts that
 * are written as an address, and localhost, are judged here all the same.
 *
 * The handle's thread.
 */
#ifndef CLIENT_LIB_REACH_H
#define CLIENT_LIB_REACH_H

#include <stdbool.h>

#include "proto/address.h"

struct reach;

/* The state of one hop of one exchange. It owns no memory. */
struct reach_check {
    struct reach *reach;
    struct reach_source *source; /* the source at that host; or NULL */
    bool is_free;                /* the address is not judged */
    bool is_proxied;
    enum address_reach of_host; /* as it is written; for is_proxied */
    char refused[64];           /* the last refused address; or "" */
    enum address_reach of_refused;
};

struct reach *reach_new(void);        /* NULL: no memory */
void reach_free(struct reach *reach); /* NULL is allowed */

/* Adds a source that the program itself has named, by its URL's host (without
 * the brackets of IPv6). False: no memory. */
bool reach_add_source(struct reach *reach, const char *host);

/* Sources may name every address from now on: td_allow_private. */
void reach_allow_all(struct reach *reach);

/* Begins a hop to a URL of that host. `is_own`: the program has named the URL
 * itself. `is_proxied`: it goes through a proxy. */
void reach_begin(struct reach *reach, struct reach_check *check,
                 const char *host, bool is_own, bool is_proxied);

/* True if that address may be connected to; else `refused` has it. */
bool reach_may_connect(struct reach_check *check,
                       const struct sockaddr *address);

/* The same of the connection that a request is about to use; learns from it
 * where the source is. */
bool reach_may_send(struct reach_check *check, const struct sockaddr *address);

/* "127.0.0.1, an address of this machine": the refused one. */
struct reach_text {
    char text[100];
};

struct reach_text reach_refused(const struct reach_check *check);

#endif

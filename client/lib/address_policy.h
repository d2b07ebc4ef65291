/*
 * address_policy.h - judges the addresses that the documents of a source may
 * name.
 *
 * A source names URLs: of lists, packages, resources, hubs, streams; and its
 * answers redirect. A source on the Internet could so make a client ask for
 * pages of its own machine or network, which others cannot reach. Therefore a
 * source may name addresses that reach no further than its own
 * (proto/http/network_address.h): one on a public address names public ones
 * alone, one in a private network private ones, one on this machine all.
 *
 * Reach judges the address of each new connection, and again before each
 * request on a kept one: a name may resolve to another address than the last
 * time. A source's own host is held to its first address, so that it cannot
 * move into this machine.
 *
 * If a handle has several sources, the least of their reaches counts for all.
 * Reach does not judge URLs of sets that the program itself names, before they
 * redirect, nor anything on a handle without a source.
 *
 * Behind a proxy, the proxy resolves names, and has to judge them. Reach still
 * judges localhost, and hosts written as an address.
 *
 * The handle's thread.
 */
#pragma once

#include "proto/http/network_address.h"

struct address_policy_source;

/* At first all zero. */
struct address_policy {
    struct address_policy_source *sources;
    bool is_known;   /* the reach of one source is */
    bool allows_all; /* sources may name every address: td_allow_private */
    enum address_reach most; /* of what sources name: the least of theirs */
};

/* The state of one hop of one exchange. It owns no memory. */
struct address_policy_check {
    struct address_policy *reach;
    struct address_policy_source *source; /* the source at that host; or NULL */
    bool is_free;                         /* the address is not judged */
    bool is_proxied;
    enum address_reach of_host; /* by its text; for is_proxied */
    char refused[64];           /* the last refused address; or "" */
    enum address_reach of_refused;
};

void address_policy_fini(struct address_policy *reach);

/* Adds a source that the program itself has named, by its URL's host (without
 * the brackets of IPv6). False: no memory. */
bool address_policy_add_source(struct address_policy *reach, const char *host);

/* Begins a hop to a URL of that host. `is_own`: the program has named the URL
 * itself. `is_proxied`: it goes through a proxy. */
void address_policy_begin(struct address_policy *reach,
                          struct address_policy_check *check, const char *host,
                          bool is_own, bool is_proxied);

/* True if that address may be connected to; else `refused` has it. `is_sent`:
 * the connection stands, and the request is sent next; learns the source's
 * address from it. */
bool address_policy_allows(struct address_policy_check *check,
                           const struct sockaddr *address, bool is_sent);

/* Why the last address was refused. */
struct address_policy_text {
    char text[200];
};

struct address_policy_text
address_policy_refused(const struct address_policy_check *check);

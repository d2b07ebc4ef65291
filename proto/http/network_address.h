/*
 * network_address.h - which addresses a program may call at a URL that another
 * named.
 *
 * The address of the connection is judged, after name resolution: odd spellings
 * (decimal, octal, short forms) mean what they resolve to (W-161), and
 * addresses within addresses (mapped, compatible, translated IPv6, 6to4,
 * Teredo) are judged by both (W-160).
 *
 * The broker calls public addresses, and networks that its operator lists.
 * libtidings lets a source name addresses that reach no further into this
 * machine and its network than the source's own (client/lib/address_policy.h).
 *
 * Not public are the ranges of IANA's special-purpose registries that are not
 * globally reachable: loopback, private, shared, link-local, unique-local,
 * multicast, broadcast, unspecified, documentation, benchmarking, reserved.
 *
 * Pure, any thread.
 */
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>

#include "proto/problem.h"

#define NETWORKS_MAX 64

/* What --allow-callbacks lists: "127.0.0.0/8,::1/128,10.1.0.0/16"; an address
 * without a length is that address alone. */
struct networks {
    struct network {
        unsigned char address[16]; /* IPv4 as mapped IPv6 */
        unsigned length;           /* bits, of 128 */
    } all[NETWORKS_MAX];

    unsigned n;
    bool has_unix; /* peers of unix sockets are in it */

    /* The list that replaces this one; NULL: none. See networks_replace. */
    _Atomic(const struct networks *) successor;
};

/* Reads a list, which may be empty; one of proxies may have "unix", too: the
 * peers of unix sockets. STATUS_INVALID: says which part is no network (also
 * one with bits beyond its length). */
MUST_CHECK enum status networks_read(struct slice text, bool may_have_unix,
                                     struct networks *networks,
                                     struct problem *why);

/* True if the address is in one of them, as it stands. */
bool networks_contain(const struct networks *networks,
                      const struct sockaddr *address);

/* Makes networks_latest return `successor` for `networks`. `successor` is lent
 * until the last call of networks_latest. Any thread. */
void networks_replace(struct networks *networks,
                      const struct networks *successor);
const struct networks *networks_latest(const struct networks *networks);

/* Adds 127.0.0.0/8 and ::1. */
void networks_add_loopback(struct networks *networks);

/* How far into the machine that calls, or its network, an address leads. A
 * greater one has more that strangers must not reach. */
enum address_reach {
    ADDRESS_PUBLIC,
    ADDRESS_PRIVATE,    /* all that is neither public nor one of the next */
    ADDRESS_LINK_LOCAL, /* with the metadata services of clouds */
    ADDRESS_LOOPBACK    /* this machine; also what is no address of IP */
};

/* Returns the greatest reach of the address and the addresses inside of it.
 * Addresses in `allowed` count as public. NULL: none. */
enum address_reach address_reach(const struct networks *allowed,
                                 const struct sockaddr *address);

/* Reads an IPv6 address in the brackets of a URL's host. */
struct in6_addr;
bool address_read_bracketed(struct slice host, struct in6_addr *address);

/* Writes the bytes of an address of IP; those of IPv4 as mapped IPv6 (RFC 4291
 * section 2.5.5.2), of which address_is_mapped is true. False: it is none. */
bool address_bytes(const struct sockaddr *address, unsigned char bytes[16]);
bool address_is_mapped(const unsigned char bytes[16]);

/* True if a URL's host, brackets of IPv6 included, is an address of loopback as
 * it is written (127.1.2.3, [::1]) or the name localhost. A name that resolves
 * to loopback is not: its owner may change that at any moment. */
bool address_is_loopback_host(struct slice host);

/* Reads an address as libcurl and inet_ntop write it, without brackets; a zone
 * ("%eth0") is passed over. False: it is none. */
struct sockaddr_storage;
MUST_CHECK bool address_read(const char *text,
                             struct sockaddr_storage *address);

/*
 * address.h - which addresses may be called.
 *
 * Judged by the address that a connection goes to, after name resolution: odd
 * spellings (decimal, octal, short forms) mean what they resolve to (W-161),
 * and addresses within addresses (mapped, compatible, translated IPv6, 6to4,
 * Teredo) are judged by both (W-160).
 *
 * Refused: loopback, private, shared, link-local, unique-local, multicast,
 * broadcast, unspecified, documentation, benchmarking and reserved ranges, the
 * ones of IANA's special-purpose registries that are not globally reachable.
 * Allowed all the same is what --allow-callbacks lists.
 *
 * Pure, any thread.
 */
#ifndef BROKER_NET_ADDRESS_H
#define BROKER_NET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

#define NETWORKS_MAX 64

/* What --allow-callbacks lists: "127.0.0.0/8,::1/128,10.1.0.0/16"; an address
 * without a length is that address alone. */
struct networks {
    struct network {
        unsigned char address[16]; /* IPv4 as mapped IPv6 */
        unsigned length;           /* bits, of 128 */
    } all[NETWORKS_MAX];

    unsigned n;
};

/* Reads a list, which may be empty. STATUS_INVALID: says which part is no
 * network (also one with bits beyond its length). */
MUST_CHECK enum status networks_read(struct slice text,
                                     struct networks *networks,
                                     struct problem *why);

/* Adds 127.0.0.0/8 and ::1: what an open broker allows. */
void networks_add_loopback(struct networks *networks);

/* May this address be called? NULL networks: none is allowed beyond the
 * public ones. */
bool address_may_be_called(const struct networks *allowed,
                           const struct sockaddr *address);

#endif

/*
 * forwarded.h - the client behind a proxy: Forwarded (RFC 7239) and
 * X-Forwarded-For.
 *
 *     Forwarded: for=192.0.2.60;proto=http, for="[2001:db8::7]:4711"
 *     X-Forwarded-For: 192.0.2.60, 2001:db8::7
 *
 * Each proxy appends the address of its own client. The last address that is no
 * trusted proxy's is the client; the text before it is that client's claim, and
 * counts for nothing.
 *
 * Pure, any thread.
 */
#pragma once

#include <sys/socket.h>

#include "proto/http/network_address.h"

/* Finds the last address in the values of the two fields (several lines joined
 * by commas; size 0: not sent) that is not in `trusted`. False: there is none,
 * for
 *
 *   - neither field was sent, or all addresses are trusted;
 *   - the client is "unknown", or hides behind a name ("_gazonk");
 *   - the field is malformed: Forwarded anywhere, as a quotation mark of the
 *     client's may swallow what a proxy adds; X-Forwarded-For at or behind that
 *     address;
 *   - both were sent, and do not name the same client. A proxy sets one of them
 *     as a rule, and passes on the other as the client made it up.
 *
 * Ports are passed over; X-Forwarded-For may have IPv6 without brackets. */
MUST_CHECK bool forwarded_client(struct slice forwarded,
                                 struct slice x_forwarded_for,
                                 const struct networks *trusted,
                                 struct sockaddr_storage *client);

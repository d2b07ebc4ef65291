/*
 * jwk_fetch.h - fetches the JWK set of an identity provider by HTTPS: at once,
 * every JWK_FETCH_EVERY_US, and when a token names a key that is not in it, at
 * most every JWK_FETCH_PAUSE_US, so that strangers cannot make us call.
 *
 *     waiting --time, or an unknown key--> calling --200, a set--> handed over
 *        ^                                    |                        |
 *        +------ JWK_FETCH_PAUSE_US ----------+ anything else          |
 *        +------ JWK_FETCH_EVERY_US -----------------------------------+
 *
 * While the provider is away, or answers nonsense, the user keeps the keys that
 * it has. One warning says so, and a line that they could be read again.
 *
 * The operator has named the URL, so it may have any address. No redirect is
 * followed: keys come from where they were expected, or not at all.
 *
 * A thread of its own, with a caller (caller.h).
 */
#pragma once

#include "broker/access/jwk_set.h"

#define JWK_FETCH_EVERY_US ((int64_t)300 * 1000000)
#define JWK_FETCH_PAUSE_US ((int64_t)30 * 1000000)

/* Of one call. */
#define JWK_FETCH_TIMEOUT_US ((int64_t)10 * 1000000)

#define JWK_FETCH_URL_SIZE 2048

struct jwk_fetch;

/* Takes over the reference to a set that differs from the last one. On the
 * thread of the fetches. */
typedef void jwk_fetched_fn(struct jwk_set *keys, void *user);

MUST_CHECK enum status jwk_fetch_open(struct jwk_fetch **f,
                                      jwk_fetched_fn *on_fetched, void *user,
                                      struct problem *why);
void jwk_fetch_close(struct jwk_fetch *f); /* NULL is allowed */

/* STATUS_INVALID unless the URL is one of https, or of http to this machine:
 * who can change the keys on their way is whom they accept. */
MUST_CHECK enum status jwk_fetch_check_url(const char *url,
                                           struct problem *why);

/* Fetches from that URL from now on, which is good; "": nothing. When this
 * returns, no set of another URL is handed over any more. The thread that
 * opened. */
void jwk_fetch_from(struct jwk_fetch *f, const char *url);

/* A token names a key that is not known: fetches, if the last call was not just
 * now. Any thread. */
void jwk_fetch_ask(struct jwk_fetch *f);

/* Waits until no call is under way, nor the first one since jwk_fetch_from
 * still to come. A call has a deadline. Any thread but its own. */
void jwk_fetch_await(struct jwk_fetch *f);

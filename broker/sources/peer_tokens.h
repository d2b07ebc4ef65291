/*
 * peer_tokens.h - the tokens that the hub sends: to topics of other brokers,
 * which it fetches, and to hubs of others, which it notifies (--peer-tokens).
 *
 *     https://a.example/sets/news/notifications  /etc/tidings/a.token
 *     https://b.example/hub                      /etc/tidings/b.token
 *
 * The operator alone names URLs and files: whoever may set a topic or a hub of
 * a set could otherwise have the broker send files of its machine, or its
 * tokens, to a server of their own. A token goes to the very URL of its line
 * (compared as topics are), never to callbacks, and not along a redirect to
 * another server (broker/calls/caller.h).
 *
 * Both files are read for each request, so that a new token counts at once.
 */
#pragma once

#include "proto/problem.h"

/* Checks the file `path` and the token files that it names. STATUS_IO,
 * STATUS_INVALID: `why` names file and line. */
MUST_CHECK enum status peer_tokens_check(const char *path, struct problem *why);

/* Returns "Authorization: Bearer TOKEN" for a request to `url`; NULL: `path` is
 * "", names no token for it, or cannot be read, which is logged. End it by
 * token_header_free. */
char *peer_tokens_header(const char *path, const char *url);

/*
 * tokens.h - the bearer token that one server gets (td_client_set_token).
 *
 *     tokens_find ---> request ---> 401, close code 4401 ---> tokens_renew
 *          ^                                                     | true
 *          +-----------------------------------------------------+
 *
 * Each token has a version, which grows when its file brings another token. A
 * request remembers the version that it sent. When several requests fail with
 * one token, the client reads the file again until it has another token. It
 * never repeats a request with the token that the server has refused.
 *
 * Over http a token goes to loopback only; curl_loop.c sends none through a
 * proxy that would read it.
 *
 * The handle's thread. Freed tokens are overwritten.
 */
#ifndef CLIENT_LIB_TOKENS_H
#define CLIENT_LIB_TOKENS_H

#include <stdbool.h>

#include "proto/problem.h"

struct tokens;

struct tokens *tokens_new(void); /* NULL: no memory */
void tokens_free(struct tokens *tokens);

/* Sets the token of the server at `url`: `text`, or the content of the file
 * `path`; both NULL: none any more. Copies both. On an error the former token
 * stays.
 *
 * STATUS_INVALID: no URL of a server that may get a token, or no token;
 * STATUS_IO: of the file; STATUS_MEMORY. */
enum status tokens_set(struct tokens *tokens, const char *url, const char *text,
                       const char *path, struct problem *why);

/* Returns the token for a request to `url`, lent until the next call, and sets
 * its version. NULL: none. */
const char *tokens_find(const struct tokens *tokens, const char *url,
                        unsigned *version);

/* The server at `url` has refused the token of that version: reads its file
 * again. True: there is another one now. */
bool tokens_renew(struct tokens *tokens, const char *url, unsigned version);

/* True if the token for `url` is from a file, which may change. */
bool tokens_may_change(const struct tokens *tokens, const char *url);

/* Returns what a 401 of the server at `url` has to do with our tokens, for the
 * user; "": nothing. Lent until the next call. */
const char *tokens_note(struct tokens *tokens, const char *url);

#endif

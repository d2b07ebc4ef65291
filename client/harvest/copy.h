/*
 * copy.h - a resource that is republished under an address of the set.
 *
 *     https://example.org/data/7?year=2026
 *     http://hub.example.net/sets/copy/r/https/example.org/data/7~3Fyear=2026
 *
 * Letters, digits and - . _ / : @ ! $ * ( ) + , ; = stand for themselves; all
 * other bytes become ~XX, and so does a slash or a dot behind a slash: clients
 * and proxies would take out "//" and "..". Nothing is left that anybody
 * decodes, so each address has one original.
 */
#pragma once

#include "client/lib/client.h"
#include "client/survey/survey.h"

/* The longest original. A post with more bytes takes no further one: both are
 * in memory. */
#define COPY_BYTES_MAX ((size_t)128 << 20)

/* 32 random hexadecimal digits and a NUL, which no content has. */
#define COPY_BOUNDARY_SIZE 33

/* Appends the address, below `home`: "http://hub.example.net/sets/copy/r/". */
void copy_write_loc(struct buf *to, const char *home, struct slice loc);

/* Appends the bytes of `loc` to `parts` of a post. */
void copy_add_part(struct buf *parts, const char *boundary, struct slice loc,
                   const char *type, struct slice bytes);

/* Fetches the original at `url`, checks the hash and the length of the version,
 * and appends it to `parts` of a post, as the bytes of `loc`. Blocks. Else
 * nothing is appended: the client's problem says why. */
enum td_status copy_fetch(struct td_client *client, const char *url,
                          const struct survey_resource *version,
                          struct slice loc, const char *boundary,
                          struct buf *parts);

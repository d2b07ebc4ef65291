/*
 * headers.h - header lines that only one server gets (td_header).
 */
#ifndef CLIENT_LIB_HEADERS_H
#define CLIENT_LIB_HEADERS_H

#include <stdbool.h>

#include "proto/buf.h"
#include "proto/problem.h"

struct headers;

/* Writes "https://host:port" of a URL, comparable; empty: it names no server.
 * Initializes `to`, and the caller ends it in any case. */
void headers_server(struct buf *to, const char *url);

struct headers *headers_new(void); /* NULL: no memory */
void headers_free(struct headers *headers);

/* STATUS_INVALID: `url` names no server, `line` is no header, or one whose
 * field the library writes itself; STATUS_MEMORY. */
enum status headers_add(struct headers *headers, const char *url,
                        const char *line, struct problem *why);

/* Calls `each` with each line for the server at `url`; false ends it. True: all
 * calls returned true. */
bool headers_each(const struct headers *headers, const char *url,
                  bool (*each)(const char *line, void *user), void *user);

#endif

/*
 * origin.h - a foreign Source, for tests: a server with one topic, whose Link
 * headers the test sets.
 *
 *     struct origin *o = origin_new("/feed");
 *
 *     origin_links(o, "<http://127.0.0.1:40123/feed>; rel=self, <...>; "
 *                     "rel=hub");
 *     origin_content(o, "text/plain", "\"1\"", SLICE("first"));
 *     ... origin_url(o) is registered, posts are made ...
 *     origin_await(o, "HEAD", 1);
 *     origin_free(o);
 *
 * A thread of its own, raw sockets, one connection for each request.
 */
#ifndef TESTS_SUPPORT_ORIGIN_H
#define TESTS_SUPPORT_ORIGIN_H

#include <stdbool.h>

#include "proto/slice.h"

struct origin;

/* Listens on a port of its own of 127.0.0.1. */
struct origin *origin_new(const char *path);
void origin_free(struct origin *o); /* NULL is allowed */

/* "http://127.0.0.1:40123/feed"; lent. */
const char *origin_url(const struct origin *o);

/* Sets the value of its Link header from now on; NULL: none. origin_names: the
 * links of a good Source, rel=self and rel=hub. */
void origin_links(struct origin *o, const char *links);
void origin_names(struct origin *o, const char *self, const char *hub);

/* Sets the answer to GET; a request with this etag gets 304. `type` or `etag`
 * may be NULL. */
void origin_content(struct origin *o, const char *type, const char *etag,
                    struct slice body);

/* The status of the next `times` answers (0: of all from now on); with a
 * `location` it redirects. 200: as at the beginning. */
void origin_answers(struct origin *o, unsigned status, const char *location,
                    unsigned times);

/* Takes requests, and answers none while it is so. */
void origin_hold(struct origin *o, bool holds);

/* How many requests there were with that method; waits until there were n. */
unsigned origin_count(struct origin *o, const char *method);
void origin_await(struct origin *o, const char *method, unsigned n);

/* Had the last request that header line? "If-None-Match: \"1\"" */
bool origin_was_asked(struct origin *o, const char *line);

#endif

/*
 * wholes.h - PUT /sets/demo/resources: a source that tells all that it has, its
 * broker, and what came of it.
 *
 *     struct wholes *w = *state;
 *
 *     wholes_put(&w->http, XML, SITEMAP(URL("a") URL("b")));
 *     wholes_assert_told(&w->http, 2, 0, 0, 0, 0);
 *
 * As a fixture: wholes_setup, wholes_teardown.
 */
#ifndef TESTS_SUPPORT_WHOLES_H
#define TESTS_SUPPORT_WHOLES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"
#include "proto/vocab.h"
#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/wire.h"

#define WHOLES_PATH "/sets/demo/resources"
#define XML         "application/xml"
#define NDJSON      "application/x-ndjson"

#define SITEMAP(entries) "<urlset xmlns='" NS_SITEMAP "'>" entries "</urlset>"
#define RESOURCELIST(entries)                                              \
    "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"                 \
    "<rs:md capability='resourcelist' at='2026-01-01T00:00:00Z'/>" entries \
    "</urlset>"

#define URL(name) "<url><loc>http://example.com/" name "</loc></url>"
#define URL_OF(name, lastmod)                                      \
    "<url><loc>http://example.com/" name "</loc><lastmod>" lastmod \
    "</lastmod></url>"
#define MD(name, md) \
    "<url><loc>http://example.com/" name "</loc><rs:md " md "/></url>"

struct wholes {
    struct broker broker;
    struct http http;
};

int wholes_setup(void **state);
int wholes_teardown(void **state);

/* Tells all; `coding` is NULL, or of the body. Returns the status. */
long wholes_put_as(struct http *h, const char *path, const char *type,
                   const char *coding, struct slice body);
long wholes_put(struct http *h, const char *type, const char *body);

/* Begins a PUT whose body of `size` bytes is still to come: the broker has seen
 * its head. The caller closes it. */
struct wire *wholes_begin(const struct broker *b, const char *path,
                          size_t size);

/* The last answer says that so much was told. */
void wholes_assert_told(struct http *h, uint64_t created, uint64_t updated,
                        uint64_t deleted, uint64_t unchanged, uint64_t newer);

/* The position of the set; 0: it is not there. */
uint64_t wholes_last(struct http *h);

/* Files of what is being told; 0 also before the first large one, when there is
 * no folder for them. */
unsigned wholes_count(const struct broker *b);

/* There is none, and the set is at `last`. */
void wholes_assert_nothing_left(struct wholes *w, uint64_t last);

#endif

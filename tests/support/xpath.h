/*
 * xpath.h - questions to an XML document, for tests.
 *
 * Prefixes: s (Sitemap), rs (ResourceSync), td (Tidings).
 *
 *     struct xpath x;
 *
 *     xpath_open(&x, buf_slice(&h.body));
 *     assert_xpath_count(&x, "/s:urlset/s:url", 3);
 *     assert_xpath_text(&x, "//s:url[1]/rs:md/@change", "created");
 *     xpath_close(&x);
 */
#ifndef TESTS_SUPPORT_XPATH_H
#define TESTS_SUPPORT_XPATH_H

#include <stddef.h>

#include <libxml/tree.h>
#include <libxml/xpath.h>

#include "proto/slice.h"

struct xpath {
    xmlDoc *document;
    xmlXPathContext *context;
    struct xpath_text *texts; /* lent by xpath_get */
    xmlNode *entry;           /* the last result of xpath_of */
    size_t number;
};

/* Fails the test, and prints the beginning of `document`, if it is not
 * well-formed. */
void xpath_open(struct xpath *x, struct slice document);
void xpath_close(struct xpath *x);

/* How many nodes `expression` selects. */
size_t xpath_count(struct xpath *x, const char *expression);

/* Its value as a string: of nodes, the first one's text; "" for none. Lent
 * until xpath_close. */
const char *xpath_get(struct xpath *x, const char *expression);

/* The same of the number-th s:url (from 1) of the root, from which `what` goes
 * on; "" if there is none. One after the other they are found at once. */
const char *xpath_of(struct xpath *x, size_t number, const char *what);

/* It is true, or selects something. */
#define assert_xpath(x, expression) \
    xpath_assert(x, expression, __FILE__, __LINE__)

#define assert_xpath_count(x, expression, n) \
    xpath_assert_count(x, expression, n, __FILE__, __LINE__)

#define assert_xpath_text(x, expression, text) \
    xpath_assert_text(x, expression, text, __FILE__, __LINE__)

void xpath_assert(struct xpath *x, const char *expression, const char *file,
                  int line);
void xpath_assert_count(struct xpath *x, const char *expression, size_t n,
                        const char *file, int line);
void xpath_assert_text(struct xpath *x, const char *expression,
                       const char *text, const char *file, int line);

#endif

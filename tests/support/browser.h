/*
 * browser.h - a real browser (Debian's chromium, without a window) with one
 * page, for a test.
 *
 *     browser_open(&b, "http://127.0.0.1:8787/healthz");
 *     browser_expect(&b, "location.pathname", "/healthz");
 *     browser_close(&b);
 *
 * A broker lets in pages of its own origin: any document of it will do, and the
 * script is the test's. It is spoken to by the DevTools protocol through two
 * pipes, a JSON object and a NUL byte each way. It dies with the test.
 */
#ifndef TESTS_SUPPORT_BROWSER_H
#define TESTS_SUPPORT_BROWSER_H

#include <sys/types.h>

#include "proto/buf.h"
#include "tests/support/tempdir.h"

struct browser {
    struct tempdir dir; /* its profile */
    pid_t pid;
    int to, from;
    char session[64]; /* of the page */
    unsigned n;       /* of the last call */
    struct buf answer;
};

/* Starts it and waits until it shows the page at `url`. Fails the test if that
 * does not come about. */
void browser_open(struct browser *b, const char *url);
void browser_close(struct browser *b);

/* The value of a JavaScript expression, awaited if it is a promise: a string
 * without quotes and backslashes. Lent until the next call. Fails the test if
 * it throws. */
const char *browser_value(struct browser *b, const char *expression);

void browser_expect(struct browser *b, const char *expression,
                    const char *value);

#endif

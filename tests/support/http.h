/*
 * http.h - a small blocking HTTP client on libcurl, for tests.
 *
 *     struct http h;
 *
 *     http_open(&h, b.url);
 *     assert_int_equal(http_get(&h, "/sets/demo/changelist.xml"), 200);
 *     assert_string_equal(http_header(&h, "Content-Type"), "application/xml");
 *     ... buf_slice(&h.body) ...
 *     http_close(&h);
 *
 * Over https it trusts CURL_CA_BUNDLE of the environment, as the programs do.
 * It keeps its connection between requests. It follows, decodes and repeats
 * nothing: a test sees the bytes that were sent. An answer stays until the next
 * request.
 */
#ifndef TESTS_SUPPORT_HTTP_H
#define TESTS_SUPPORT_HTTP_H

#include <curl/curl.h>

#include "proto/buf.h"
#include "proto/slice.h"
#include "tests/test.h"

struct http {
    CURL *handle;
    const char *url;    /* prefix of each path; lent */
    long status;        /* 0: there was no answer, `error` says why */
    struct buf headers; /* as sent, from the status line on */
    struct buf body;
    char error[CURL_ERROR_SIZE];
    char value[1024]; /* lent by http_header */
};

void http_open(struct http *h, const char *url);
void http_close(struct http *h);

/* Each returns the status, or 0 if there was no answer. `path` is put behind
 * the url; `type` is the Content-Type. */
long http_get(struct http *h, const char *path);
long http_post(struct http *h, const char *path, const char *type,
               struct slice body);

/* `headers` are lines like "Accept: application/json", up to NULL; may be NULL.
 * A body whose data is NULL is no body. */
long http_request(struct http *h, const char *method, const char *path,
                  const char *const *headers, struct slice body);

/* The value of the answer's header `name`, in any case; NULL: it has none. Lent
 * until the next call. */
const char *http_header(struct http *h, const char *name);

#endif

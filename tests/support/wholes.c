#include "tests/support/wholes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/test.h"

int
wholes_setup(void **state)
{
    struct wholes *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--tail-bytes", "4M", NULL);
    http_open(&s->http, s->broker.url);
    return 0;
}

int
wholes_teardown(void **state)
{
    struct wholes *s = *state;

    http_close(&s->http);
    broker_close(&s->broker);
    free(s);
    return 0;
}

long
wholes_put_as(struct http *h, const char *path, const char *type,
              const char *coding, struct slice body)
{
    char type_line[100], coding_line[100];
    const char *headers[] = {type_line, coding ? coding_line : NULL, NULL};
    long status;

    snprintf(type_line, sizeof(type_line), "Content-Type: %s", type);
    snprintf(coding_line, sizeof(coding_line), "Content-Encoding: %s",
             coding ? coding : "");
    h->wait_ms = HTTP_WAIT_LONG_MS;
    status = http_request(h, "PUT", path, headers, body);
    h->wait_ms = PATIENCE_MS;
    return status;
}

long
wholes_put(struct http *h, const char *type, const char *body)
{
    return wholes_put_as(h, WHOLES_PATH, type, NULL, slice_of(body));
}

void
wholes_assert_told(struct http *h, uint64_t created, uint64_t updated,
                   uint64_t deleted, uint64_t unchanged, uint64_t newer)
{
    struct jsonpath j;

    if (h->status != 200)
        print_error("%.*s\n", SLICE_ARG(buf_slice(&h->body)));
    assert_int_equal(h->status, 200);
    jsonpath_open(&j, buf_slice(&h->body));
    assert_int_equal(jsonpath_number(&j, "created"), created);
    assert_int_equal(jsonpath_number(&j, "updated"), updated);
    assert_int_equal(jsonpath_number(&j, "deleted"), deleted);
    assert_int_equal(jsonpath_number(&j, "unchanged"), unchanged);
    assert_int_equal(jsonpath_number(&j, "newer"), newer);
    jsonpath_close(&j);
}

uint64_t
wholes_last(struct http *h)
{
    struct jsonpath j;
    uint64_t last;

    if (http_get(h, "/sets/demo") != 200)
        return 0;
    jsonpath_open(&j, buf_slice(&h->body));
    last = (uint64_t)jsonpath_number(&j, "last");
    jsonpath_close(&j);
    return last;
}

unsigned
wholes_count(const struct broker *b)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/uploads", b->data);
    return access(path, F_OK) == 0 ? folder_count(path) : 0;
}

void
wholes_assert_nothing_left(struct wholes *s, uint64_t last)
{
    assert_int_equal(wholes_count(&s->broker), 0);
    assert_int_equal(wholes_last(&s->http), last);
}

struct wire *
wholes_begin(const struct broker *b, const char *path, size_t size)
{
    struct wire *w = wire_connect("127.0.0.1", b->port);
    struct wire_answer a;

    assert_non_null(w);
    assert_true(wire_send_format(w,
                                 "PUT %s HTTP/1.1\r\n"
                                 "Host: 127.0.0.1:%u\r\n"
                                 "Content-Type: " XML "\r\n"
                                 "Content-Length: %zu\r\n"
                                 "Expect: 100-continue\r\n\r\n",
                                 path, b->port, size));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(a.status, 100);
    return w;
}

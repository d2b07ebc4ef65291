#include "tests/support/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/jsonpath.h"
#include "tests/test.h"

static void
add_entries(struct buf *to, unsigned from, size_t n)
{
    BUF_ADD(to, "[");
    for (size_t i = 0; i < n; i++) {
        buf_add_format(to,
                       "%s{\"loc\":\"http://example.com/r/%u\","
                       "\"change\":\"created\"}",
                       i ? "," : "", from + (unsigned)i);
    }
    BUF_ADD(to, "]");
    assert_false(to->failed);
}

static void
read_receipt(struct receipt *r, struct slice text, const char *set)
{
    struct jsonpath j;
    const char *dash;

    jsonpath_open(&j, text);
    assert_string_equal(jsonpath_text(&j, "set"), set);
    r->first = jsonpath_number(&j, "first");
    r->last = jsonpath_number(&j, "last");
    snprintf(r->set, sizeof(r->set), "%s", set);
    snprintf(r->position, sizeof(r->position), "%s",
             jsonpath_text(&j, "position"));
    snprintf(r->datetime, sizeof(r->datetime), "%s",
             jsonpath_text(&j, "datetime"));
    jsonpath_close(&j);

    dash = strrchr(r->position, '-');
    assert_non_null(dash);
    assert_int_equal(strtoull(dash + 1, NULL, 10), r->last);
    assert_true(r->first >= 1 && r->first <= r->last);
}

long
source_send(struct http *h, const char *set, const char *type,
            struct slice body, struct receipt *receipt)
{
    struct receipt unwanted;
    char path[128];

    snprintf(path, sizeof(path), "/sets/%s/changes", set);
    if (http_post(h, path, type, body) == 200)
        read_receipt(receipt ? receipt : &unwanted, buf_slice(&h->body), set);
    return h->status;
}

struct receipt
source_post(struct http *h, const char *set, unsigned from, size_t n)
{
    struct receipt r;
    struct buf body;

    buf_init(&body, (size_t)64 << 20);
    add_entries(&body, from, n);
    if (source_send(h, set, "application/json", buf_slice(&body), &r) != 200)
        fail_msg("%ld %s%.*s", h->status, h->error,
                 SLICE_ARG(buf_slice(&h->body)));
    assert_int_equal(r.last - r.first + 1, n);
    buf_fini(&body);
    return r;
}

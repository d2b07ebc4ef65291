#include "tests/support/demo.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/test.h"

void
demo_remove(struct http *h)
{
    assert_int_equal(http_ask(h, "DELETE", "/sets/demo", NULL), 204);
}

void
demo_put(struct http *h, const char *settings)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    long status =
        http_request(h, "PUT", "/sets/demo", json, slice_of(settings));

    assert_true(status == 200 || status == 201);
}

void
demo_position(struct http *h, char to[64])
{
    struct jsonpath j;

    assert_int_equal(http_get(h, "/sets/demo"), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    snprintf(to, 64, "%s", jsonpath_text(&j, "position"));
    jsonpath_close(&j);
}

uint64_t
demo_closed(struct http *h)
{
    struct jsonpath j;
    uint64_t n;

    assert_int_equal(http_get(h, "/sets/demo"), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    n = jsonpath_number(&j, "lists.closed");
    jsonpath_close(&j);
    return n;
}

void
demo_await_closed(struct http *h, uint64_t n)
{
    struct patience p = {.with = "the closed lists of the set"};

    while (demo_closed(h) != n)
        patience_step(&p);
}

static bool
has_folder(const struct broker *b)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/sets/demo", b->data);
    return access(path, F_OK) == 0;
}

void
demo_await_no_folder(const struct broker *b)
{
    struct patience p = {.with = "the set's folder to go"};

    while (has_folder(b))
        patience_step(&p);
}

bool
demo_has_list(const struct broker *b, unsigned list)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/sets/demo/changes/%012u.xml.gz", b->data,
             list);
    return access(path, F_OK) == 0;
}

/*
 * content_told_test.c - what a set says of the bytes that it keeps.
 */
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/multipart.h"
#include "tests/support/patience.h"
#include "tests/test.h"

static const char *const json[] = {"Content-Type: application/json", NULL};

static void
put(struct http *h, const char *settings, long status)
{
    assert_int_equal(
        http_request(h, "PUT", "/sets/demo", json, slice_of(settings)), status);
}

static bool
says(struct http *h, const char *text)
{
    assert_int_equal(http_get(h, "/sets/demo"), 200);
    return memmem(h->body.data, h->body.size, text, strlen(text)) != NULL;
}

static void
await_saying(struct http *h, const char *text)
{
    struct patience p = {.with = text};

    while (!says(h, text))
        patience_step(&p);
}

/* How many files, with how many bytes, and of how many entries they are
 * missing: as of the last fold. A set that keeps none says nothing. */
TEST(a_set_tells_what_it_keeps_and_what_is_missing)
{
    struct multipart_body m;
    struct broker broker;
    struct http h;

    broker_open(&broker, NULL);
    http_open(&h, broker.url);
    put(&h, "{}", 201);
    assert_false(says(&h, ",\"content\":{"));
    assert_int_equal(
        http_post(
            &h, "/sets/demo/changes", json[0] + strlen("Content-Type: "),
            SLICE("{\"loc\":\"http://example.com/c\",\"change\":\"updated\"}")),
        200);
    put(&h, "{\"content\":\"inline\"}", 200);
    await_saying(&h, ",\"content\":{\"mode\":\"inline\",\"last\":1,\"kept\":0,"
                     "\"bytes\":0,\"missing\":1}");

    multipart_body_open(
        &m, "application/json",
        "[{\"loc\":\"http://example.com/a\",\"change\":\"updated\"},"
        "{\"loc\":\"http://example.com/b\",\"change\":\"updated\"},"
        "{\"loc\":\"http://example.com/c\",\"change\":\"updated\"}]");
    multipart_body_add(&m, "http://example.com/a", NULL, SLICE("same"));
    multipart_body_add(&m, "http://example.com/b", NULL, SLICE("same"));
    multipart_body_add(&m, "http://example.com/c", NULL, SLICE("other"));
    multipart_body_close(&m);
    assert_int_equal(http_post(&h, "/sets/demo/changes", MULTIPART_TYPE,
                               buf_slice(&m.bytes)),
                     200);
    multipart_body_free(&m);
    await_saying(&h, ",\"content\":{\"mode\":\"inline\",\"last\":4,\"kept\":2,"
                     "\"bytes\":9,\"missing\":1}");
    put(&h, "{\"content\":\"none\"}", 200);
    assert_false(says(&h, ",\"content\":{"));
    http_close(&h);
    broker_stop(&broker);
    broker_close(&broker);
}

/*
 * changedump_served_test.c - a package of a Change Dump of the real broker is a
 * file like any other, and nothing of it ever changes.
 */
#include <stdio.h>

#include "tests/support/dumped.h"
#include "tests/support/source.h"
#include "tests/test.h"

FIXTURE(dumped_setup, dumped_teardown);

/* a package is a file like any other, and stays what it is. */
TEST(a_package_is_served_for_ever)
{
    static const char path[] =
        "/sets/demo/changedump/000000000001/000000000001.zip";
    struct dumped *s = *state;
    char etag[120], header[160], link[200];
    struct buf whole;

    DUMPED_OPEN(s, "--content", "none");
    dumped_change(s, 10, 5000);
    source_rotate(&s->http, "demo");
    dumped_await(s, 10);
    assert_int_equal(
        http_ask(&s->http, "GET", path, "Accept-Encoding: gzip", NULL), 200);
    assert_string_equal(http_header(&s->http, "Content-Type"),
                        "application/zip");
    assert_null(http_header(&s->http, "Content-Encoding"));
    assert_null(http_header(&s->http, "Vary"));
    assert_string_equal(http_header(&s->http, "Accept-Ranges"), "bytes");
    assert_string_equal(http_header(&s->http, "Cache-Control"),
                        "public, max-age=31536000, immutable");
    snprintf(link, sizeof(link),
             "<%s/sets/demo/capabilitylist.xml>; rel=\"resourcesync\"",
             s->broker.url);
    assert_string_equal(http_header(&s->http, "Link"), link);
    snprintf(etag, sizeof(etag), "%s", http_header(&s->http, "ETag"));
    assert_int_equal(etag[0], '"');
    buf_init(&whole, SIZE_MAX);
    buf_add_slice(&whole, buf_slice(&s->http.body));

    snprintf(header, sizeof(header), "If-Range: %s", etag);
    assert_int_equal(
        http_ask(&s->http, "GET", path, "Range: bytes=100-199", header, NULL),
        206);
    assert_int_equal(s->http.body.size, 100);
    assert_memory_equal(s->http.body.data, whole.data + 100, 100);
    assert_int_equal(http_ask(&s->http, "GET", path, "Range: bytes=-5", NULL),
                     206);
    assert_memory_equal(s->http.body.data, whole.data + whole.size - 5, 5);
    assert_int_equal(
        http_ask(&s->http, "GET", path, "Range: bytes=99999999-", NULL), 416);
    snprintf(header, sizeof(header), "If-None-Match: %s", etag);
    assert_int_equal(http_ask(&s->http, "GET", path, header, NULL), 304);
    assert_int_equal(http_ask(&s->http, "HEAD", path, NULL), 200);
    snprintf(header, sizeof(header), "%zu", whole.size);
    assert_string_equal(http_header(&s->http, "Content-Length"), header);
    assert_int_equal(s->http.body.size, 0);

    dumped_change(s, 10, 5000);
    source_rotate(&s->http, "demo");
    dumped_await(s, 20);
    broker_stop(&s->broker);
    broker_restart(&s->broker);
    assert_int_equal(http_get(&s->http, path), 200);
    assert_string_equal(http_header(&s->http, "ETag"), etag);
    assert_true(slice_equal(buf_slice(&whole), buf_slice(&s->http.body)));
    assert_int_equal(
        http_get(&s->http,
                 "/sets/demo/changedump/000000000001/000000000002.zip"),
        404);
    buf_fini(&whole);
}

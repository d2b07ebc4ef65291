/*
 * content_inline_refused_test.c - changes are posted together with the bytes of
 * their resources, or should have been: what is refused, and why.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/faults.h"
#include "tests/support/inlined.h"
#include "tests/support/refusal.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define JSON   "application/json"
#define NDJSON "application/x-ndjson"
#define A      "http://example.com/a"
#define B      "http://example.com/b"

#define OTHER_SHA256 \
    "0000000000000000000000000000000000000000000000000000000000000000"

TEST(a_post_without_bytes_is_told_what_to_do, inlined_open, inlined_close)
{
    struct inlined *s = *state;

    inlined_post_as(s, DEMO_CHANGES, NDJSON, NULL,
                    SLICE(ENTRY(B, "deleted") "\n" ENTRY(A, "created") "\n"));
    assert_entry_refused(&s->http, 422,
                         "the set \"demo\" keeps content inline: post the "
                         "bytes of \"" A "\" with the change, as "
                         "multipart/related, or tell the sha-256",
                         2);
    inlined_post_as(
        s, DEMO_CHANGES, NDJSON, NULL,
        SLICE(ENTRY(B, "deleted") "\n" ENTRY_OF(
            A, "updated", "\"hash\":{\"sha-256\":\"" OTHER_SHA256 "\"}") "\n"));
    assert_entry_refused(&s->http, 422,
                         "has no bytes with the sha-256:" OTHER_SHA256
                         " that is told of \"" A "\": post them",
                         2);
    inlined_assert_state(s, 0, 0);
}

/* Of a resource that is told whole, too, each has to be there. */
TEST(resources_told_whole_need_bytes_that_are_there, inlined_open,
     inlined_close)
{
    struct inlined *s = *state;
    const char *headers[] = {"Content-Type: " NDJSON, NULL};

    inlined_post_one(s, ENTRY(A, "created"), A, SLICE("hello\n"));
    inlined_assert_posted(s, 1, 1);
    http_request(&s->http, "PUT", "/sets/demo/resources", headers,
                 SLICE("{\"loc\":\"" B "\"}\n"));
    assert_entry_refused(&s->http, 422, "tell the sha-256 of \"" B "\"", 1);
    http_request(&s->http, "PUT", "/sets/demo/resources", headers,
                 SLICE("{\"loc\":\"" A "\",\"hash\":{\"sha-256\":"
                       "\"" HELLO_SHA256 "\"}}\n"
                       "{\"loc\":\"" B "\",\"hash\":{\"sha-256\":"
                       "\"" OTHER_SHA256 "\"}}\n"));
    assert_entry_refused(
        &s->http, 422, "sha-256:" OTHER_SHA256 " that is told of \"" B "\"", 2);
    inlined_assert_state(s, 1, 1);

    http_request(&s->http, "PUT", "/sets/demo/resources", headers,
                 SLICE("{\"loc\":\"" B "\",\"hash\":{\"sha-256\":"
                       "\"" HELLO_SHA256 "\"}}\n"));
    assert_refused(&s->http, 409, "would be deleted");
    http_request(&s->http, "PUT", "/sets/demo/resources?max-delete=100",
                 headers,
                 SLICE("{\"loc\":\"" B "\",\"hash\":{\"sha-256\":"
                       "\"" HELLO_SHA256 "\"}}\n"));
    assert_int_equal(s->http.status, 200);
    inlined_assert_state(s, 3, 1);
}

TEST(bytes_that_are_not_those_that_were_told_are_refused, inlined_open,
     inlined_close)
{
    struct inlined *s = *state;

    inlined_post_one(
        s,
        "[" ENTRY(B, "deleted") "," ENTRY_OF(
            A, "created", "\"hash\":{\"sha-256\":\"" OTHER_SHA256 "\"}") "]",
        A, SLICE("hello\n"));
    assert_entry_refused(&s->http, 422,
                         "part 2, the content of \"" A "\": sha-256", 2);
    inlined_post_one(
        s, ENTRY_OF(A, "created", "\"hash\":{\"md5\":\"" HELLO_MD5 "\"}"), A,
        SLICE("hallo\n"));
    assert_entry_refused(&s->http, 422, "part 2, the content of \"" A "\": md5",
                         1);
    inlined_post_one(s, ENTRY_OF(A, "created", "\"length\":5"), A,
                     SLICE("hello\n"));
    assert_entry_refused(&s->http, 422,
                         "part 2, the content of \"" A "\": ", 1);
    inlined_post_one(s, ENTRY_OF(A, "created", "\"length\":7"), A,
                     SLICE("hello\n"));
    assert_entry_refused(&s->http, 422,
                         "part 2, the content of \"" A "\": ", 1);
    inlined_assert_state(s, 0, 0);

    inlined_post_one(s, ENTRY(A, "created"), A, SLICE("hello\n"));
    inlined_assert_posted(s, 1, 1);
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE, NULL,
                    SLICE("--b-0\r\nContent-Type: " JSON "\r\n\r\n" ENTRY_OF(
                        B, "created",
                        "\"length\":5,\"hash\":{\"sha-256\":\"" HELLO_SHA256
                        "\"}") "\r\n--b-0--"));
    assert_entry_refused(&s->http, 422, "are there, but they are 6, not 5", 1);
    inlined_assert_state(s, 1, 1);
}

TEST(entries_and_parts_belong_together, inlined_open, inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;

    multipart_body_open(&m, NDJSON,
                        ENTRY(A, "created") "\n" ENTRY(B, "created") "\n");
    multipart_body_add(&m, A, NULL, SLICE("a"));
    inlined_send_with(s, &m, NULL);
    assert_entry_refused(&s->http, 422,
                         "the content of \"" B "\" is missing: no part has "
                         "that Content-Location, and no sha-256",
                         2);
    multipart_body_open(
        &m, JSON,
        ENTRY_OF(A, "created", "\"hash\":{\"sha-256\":\"" OTHER_SHA256 "\"}"));
    inlined_send_with(s, &m, NULL);
    assert_entry_refused(
        &s->http, 422, "the set has no bytes with the sha-256 that is told", 1);
    inlined_post_one(s, ENTRY(A, "created"), B, SLICE("b"));
    assert_entry_refused(&s->http, 422, "part 2: there are not so many", 0);
    inlined_post_one(s, ENTRY(A, "deleted"), A, SLICE("a"));
    assert_entry_refused(&s->http, 422, "part 2: there are not so many", 0);
    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, NULL, SLICE("a"));
    multipart_body_add(&m, A, NULL, SLICE("b"));
    inlined_send_with(s, &m, NULL);
    assert_entry_refused(&s->http, 422, "part 3: there are not so many", 0);
    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, "no type", SLICE("a"));
    inlined_send_with(s, &m, NULL);
    assert_refused(&s->http, 422, "part 2: Content-Type is no media type");
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE, NULL,
                    SLICE("--b-0\r\nContent-Type: " JSON "\r\n\r\n" ENTRY(
                        A, "created") "\r\n--b-0\r\n\r\na\r\n--b-0--"));
    assert_refused(&s->http, 422, "part 2 has no Content-Location");
    inlined_assert_state(s, 0, 0);
}

TEST(what_is_no_good_multipart_is_refused, inlined_open, inlined_close)
{
    struct inlined *s = *state;

    static const struct {
        const char *type, *body;
        long status;
        const char *detail;
    } bad[] = {
        {"multipart/mixed; boundary=b", "", 415, "multipart/related"},
        {"multipart/related", "", 400, "needs a boundary"},
        {MULTIPART_TYPE, "", 400, "no line with the delimiter"},
        {MULTIPART_TYPE, "--b-0--\r\n", 400, "has no part"},
        {MULTIPART_TYPE,
         "--b-0\r\nContent-Type: application/json\r\n\r\n" ENTRY(A, "deleted"),
         400, "part 1, byte 90: the body ends before its last delimiter"},
        {MULTIPART_TYPE, "--b-0\r\nContent-Type: text/csv\r\n\r\n\r\n--b-0--",
         415, "changes are read as"},
        {MULTIPART_TYPE, "--b-0\r\n\r\n\r\n--b-0--", 415,
         "changes are read as"},
        {MULTIPART_TYPE "; type=\"application/xml\"",
         "--b-0\r\nContent-Type: application/json\r\n\r\n\r\n--b-0--", 400,
         "part 1 is \"application/json\", but"},
        {MULTIPART_TYPE "; start=\"<root>\"",
         "--b-0\r\nContent-Type: application/json\r\n\r\n\r\n--b-0--", 422,
         "part 1 has the changes: its Content-ID is not the start \"root\""},
        {MULTIPART_TYPE,
         "--b-0\r\nContent-Type: application/json\r\n\r\n{\r\n--b-0--", 400,
         ""},
        {MULTIPART_TYPE,
         "--b-0\r\nContent-Type: application/json\r\n"
         "Content-Transfer-Encoding: base64\r\n\r\n{\r\n--b-0--",
         415, "part 1, byte 76: Content-Transfer-Encoding"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        inlined_post_as(s, DEMO_CHANGES, bad[i].type, NULL,
                        slice_of(bad[i].body));
        assert_refused(&s->http, bad[i].status, bad[i].detail);
    }
    /* Of the changes, the entry is named as of any post. */
    inlined_post_one(s, "[" ENTRY(A, "created") "," ENTRY("b", "created") "]",
                     A, SLICE("a"));
    assert_entry_refused(&s->http, 422, "loc", 2);
    inlined_assert_state(s, 0, 0);
}

TEST(a_set_that_takes_no_content_says_so, inlined_open, inlined_close)
{
    struct inlined *s = *state;
    struct multipart_body m;
    const char *json[] = {"Content-Type: " JSON, NULL};

    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, NULL, SLICE("a"));
    multipart_body_close(&m);
    inlined_post_as(s, "/sets/other/changes", MULTIPART_TYPE, NULL,
                    buf_slice(&m.bytes));
    assert_refused(&s->http, 422, "the set \"other\" takes no content");
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/other", json, SLICE("{}")), 201);
    inlined_post_as(s, "/sets/other/changes", MULTIPART_TYPE, NULL,
                    buf_slice(&m.bytes));
    assert_refused(&s->http, 422,
                   "the set \"other\" takes no content: its setting "
                   "\"content\" is not \"inline\"");
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE, "Content-Encoding: gzip",
                    buf_slice(&m.bytes));
    assert_refused(&s->http, 415, "without a Content-Encoding");
    assert_string_equal(http_header(&s->http, "Accept-Encoding"), "identity");
    inlined_post_as(s, DEMO_CHANGES, MULTIPART_TYPE,
                    "Content-Encoding: identity", buf_slice(&m.bytes));
    inlined_assert_posted(s, 1, 1);
    multipart_body_free(&m);
}

TEST(the_whole_and_the_changes_have_limits)
{
    struct inlined *s = calloc(1, sizeof(*s));
    struct multipart_body m;
    static char large[3000];

    assert_non_null(s);
    broker_open(&s->broker, "--content", "inline", "--max-content", "4K",
                "--max-body", "1K", NULL);
    http_open(&s->http, s->broker.url);
    memset(large, ' ', sizeof(large));

    inlined_post_one(s, ENTRY(A, "created"), A,
                     (struct slice){large, sizeof(large)});
    inlined_assert_posted(s, 1, 1);
    multipart_body_open(&m, JSON, ENTRY(A, "created"));
    multipart_body_add(&m, A, NULL, (struct slice){large, sizeof(large)});
    multipart_body_add(&m, A, NULL, (struct slice){large, sizeof(large)});
    inlined_send_with(s, &m, NULL);
    assert_refused(&s->http, 413, "at most 4096 bytes (--max-content)");
    multipart_body_open(&m, JSON, "");
    buf_add(&m.bytes, large, 1500);
    inlined_send_with(s, &m, NULL);
    assert_refused(&s->http, 413, "the changes of a post have at most 1024");
    inlined_assert_state(s, 1, 1);
    http_close(&s->http);
    broker_close(&s->broker);
    free(s);
}

/* A set is made by its first post, also by one that brings content; not by one
 * that is refused. */
TEST(a_set_begins_with_a_post_with_content)
{
    struct inlined *s = calloc(1, sizeof(*s));
    struct multipart_body m;

    assert_non_null(s);
    broker_open(&s->broker, "--content", "inline", NULL);
    http_open(&s->http, s->broker.url);

    inlined_post_one(s, ENTRY(A, "created"), B, SLICE("hello\n"));
    assert_refused(&s->http, 422, "part 2: there are not so many");
    multipart_body_open(
        &m, JSON,
        ENTRY_OF(A, "created", "\"hash\":{\"sha-256\":\"" HELLO_SHA256 "\"}"));
    inlined_send_with(s, &m, NULL);
    assert_entry_refused(&s->http, 422, "the content of \"" A "\" is missing",
                         1);
    inlined_post_as(
        s, DEMO_CHANGES, JSON, NULL,
        SLICE(ENTRY_OF(A, "created",
                       "\"hash\":{\"sha-256\":\"" HELLO_SHA256 "\"}")));
    assert_entry_refused(&s->http, 422, "has no bytes with the sha-256", 1);
    assert_int_equal(http_get(&s->http, "/sets/demo"), 404);

    inlined_post_one(s, ENTRY(A, "created"), A, SLICE("hello\n"));
    inlined_assert_posted(s, 1, 1);
    inlined_assert_kept(s, SLICE("hello\n"));
    inlined_assert_state(s, 1, 1);
    http_close(&s->http);
    broker_close(&s->broker);
    free(s);
}

/* bytes may be there whose name is not on the disk yet. Here the post
 * that brought them could not make it durable. */
TEST(what_is_found_and_cannot_be_made_durable_is_refused)
{
    static const struct slice told = SLICE(
        ENTRY_OF(A, "created", "\"hash\":{\"sha-256\":\"" HELLO_SHA256 "\"}"));
    const char *headers[] = {"Content-Type: " NDJSON, NULL};
    struct faults faults;
    struct inlined *s;

    faults_open(&faults);
    inlined_open(state);
    s = *state;
    for (unsigned i = 0; i < 2; i++) {
        faults_arm(&faults, PLAN_SYNC, "/content/", 0, EIO);
        inlined_post_one(s, ENTRY(A, "created"), A, SLICE("hello\n"));
        assert_int_equal(s->http.status, 500);
        if (i == 0)
            inlined_post_as(s, DEMO_CHANGES, JSON, NULL, told);
        else
            http_request(&s->http, "PUT", "/sets/demo/resources", headers,
                         told);
        /* If they are there still. */
        if (s->http.status != 422)
            assert_int_equal(s->http.status, 500);
        assert_int_not_equal(faults_disarm(&faults), 0);
        assert_int_equal(inlined_last(s), 0);
    }
    inlined_close(state);
    faults_close(&faults);
}

/* A tebibyte: no disk that this runs on has it. */
TEST(what_the_disk_has_no_room_for_is_refused_before_it_is_there)
{
    struct inlined *s = calloc(1, sizeof(*s));
    static char bytes[600000];
    struct wire_answer a;
    struct wire *w;

    assert_non_null(s);
    broker_open(&s->broker, "--content", "inline", "--max-content", "1024G",
                NULL);
    w = wire_connect("127.0.0.1", s->broker.port);
    assert_non_null(w);
    memset(bytes, 'x', sizeof(bytes));
    assert_true(wire_send_format(w,
                                 "POST " DEMO_CHANGES " HTTP/1.1\r\n"
                                 "Host: 127.0.0.1:%u\r\n"
                                 "Content-Type: " MULTIPART_TYPE "\r\n"
                                 "Content-Length: 1099511627776\r\n\r\n",
                                 s->broker.port));
    assert_true(wire_send(w, bytes, sizeof(bytes)));
    assert_true(wire_answer(w, &a, false));

    assert_wire_refused(&a, 503,
                        "the disk has no room for 1099511627776 bytes");
    assert_int_equal(inlined_n_arriving(s), 0);
    wire_close(w);
    broker_close(&s->broker);
    free(s);
}

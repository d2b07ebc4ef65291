#include "proto/upgrade.h"

#include <stdlib.h>

#include "tests/test.h"

/* The key of RFC 6455 section 1.3. */
#define KEY    "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

#define GOOD                                  \
    "HTTP/1.1 101 Switching Protocols\r\n"    \
    "Upgrade: WebSocket\r\n"                  \
    "Connection: keep-alive,  upgrade\r\n"    \
    "Sec-WebSocket-Accept: " ACCEPT " \t\r\n" \
    "sec-websocket-protocol:resourcesync.json\r\n"

TEST(the_answer_belongs_to_the_key)
{
    char key[UPGRADE_KEY_SIZE], accept[UPGRADE_ACCEPT_SIZE];

    upgrade_key(key, (const uint8_t *)"the sample nonce");
    assert_string_equal(key, KEY);
    upgrade_accept(accept, key);
    assert_string_equal(accept, ACCEPT);
}

TEST(a_head_is_read_when_all_of_it_is_there)
{
    static const char text[] = GOOD "\r\n\x81\x01x";
    size_t size = sizeof(GOOD "\r\n") - 1;
    struct upgrade_answer a;
    struct problem why = {.text = ""};

    for (size_t n = 0; n < size; n++)
        assert_int_equal(upgrade_read((struct slice){text, n}, &a, &why),
                         STATUS_AGAIN);
    for (size_t n = size; n < sizeof(text); n++) {
        assert_int_equal(upgrade_read((struct slice){text, n}, &a, &why),
                         STATUS_OK);
        assert_int_equal(a.status, 101);
        assert_int_equal(a.head_size, size);
        assert_true(slice_is(a.accept, ACCEPT));
        assert_int_equal(upgrade_check(&a, KEY, "resourcesync.json", &why),
                         STATUS_OK);
    }
}

TEST(interim_answers_are_passed_over)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n"
                               "HTTP/1.1 103 Early Hints\nContent-Type: a/b\n\n"
                               "HTTP/1.0 200\n\nbody";
    struct upgrade_answer a;

    assert_int_equal(upgrade_read(SLICE(text), &a, NULL), STATUS_OK);
    assert_int_equal(a.status, 200);
    assert_string_equal(text + a.head_size, "body");
    assert_int_equal(a.type.size, 0);
}

TEST(what_is_no_upgrade_to_ours_is_told)
{
    static const char *const heads[] = {
        "HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
        "Sec-WebSocket-Accept: " ACCEPT "\r\n"
        "Sec-WebSocket-Protocol: resourcesync.json\r\n",
        "HTTP/1.1 101 A\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: " ACCEPT "\r\n"
        "Sec-WebSocket-Protocol: resourcesync.json\r\n",
        "HTTP/1.1 101 A\r\nConnection: upgrade\r\nUpgrade: websockets\r\n"
        "Sec-WebSocket-Accept: " ACCEPT "\r\n"
        "Sec-WebSocket-Protocol: resourcesync.json\r\n",
        "HTTP/1.1 101 A\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: S" ACCEPT "\r\n"
        "Sec-WebSocket-Protocol: resourcesync.json\r\n",
        "HTTP/1.1 101 A\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: " ACCEPT "\r\n",
        "HTTP/1.1 101 A\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: " ACCEPT "\r\n"
        "Sec-WebSocket-Protocol: resourcesync.xml\r\n",
        GOOD "Sec-WebSocket-Extensions: permessage-deflate\r\n",
    };

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct upgrade_answer a;
        struct problem why = {.text = ""};
        struct buf text;

        buf_init(&text, 10000);
        buf_add_format(&text, "%s\r\n", heads[i]);
        assert_int_equal(upgrade_read(buf_slice(&text), &a, &why), STATUS_OK);
        assert_int_equal(upgrade_check(&a, KEY, "resourcesync.json", &why),
                         STATUS_INVALID);
        assert_string_not_equal(why.text, "");
        buf_fini(&text);
    }
}

TEST(what_is_not_http_is_told_at_its_first_line)
{
    static const char *const heads[] = {
        "\n",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2 200\r\n",
        "HTTP/1.1 20\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 099 OK\r\n",
        "HTTP/1.1  200 OK\r\n",
        "HTTP/1.x 200 OK\r\n",
        "HTTP/1.1 100 Go\r\n\r\nhello\r\n",
    };

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct upgrade_answer a;
        struct problem why = {.text = ""};

        assert_int_equal(upgrade_read(slice_of(heads[i]), &a, &why),
                         STATUS_MALFORMED);
        assert_string_not_equal(why.text, "");
    }
}

TEST(a_head_that_is_too_long_is_told)
{
    size_t size = UPGRADE_HEAD_MAX;
    char *text = malloc(size + 10);
    struct upgrade_answer a;
    struct problem why = {.text = ""};

    assert_non_null(text);
    memset(text, 'x', size + 10);
    memcpy(text, "HTTP/1.1 200 OK\n", 16);
    memcpy(text + size - 2, "\n\n", 2);
    assert_int_equal(upgrade_read((struct slice){text, size + 10}, &a, &why),
                     STATUS_OK);
    assert_int_equal(a.head_size, size);

    memcpy(text + size - 2, "x\n\n", 3);
    assert_int_equal(upgrade_read((struct slice){text, size - 1}, &a, &why),
                     STATUS_AGAIN);
    assert_int_equal(upgrade_read((struct slice){text, size + 10}, &a, &why),
                     STATUS_TOO_LARGE);
    free(text);
}

/* Reads the body of an answer with that head. */
static enum status
read_body(const char *head, const char *text, bool is_ended, struct buf *body)
{
    struct upgrade_answer a;

    buf_clear(body);
    assert_int_equal(upgrade_read(slice_of(head), &a, NULL), STATUS_OK);
    return upgrade_body(&a, slice_of(text), is_ended, body);
}

TEST(a_body_ends_where_its_head_says)
{
    static const char chunked[] = "HTTP/1.1 404 A\r\nContent-Length: 1\r\n"
                                  "Transfer-Encoding: gzip, Chunked\r\n\r\n";
    static const char until_end[] = "HTTP/1.1 404 A\r\n\r\n";
    static const char five[] = "HTTP/1.1 404 A\r\nContent-Length: 5\r\n\r\n";
    struct buf body;

    buf_init(&body, 100);

    assert_int_equal(read_body(five, "abcd", false, &body), STATUS_AGAIN);
    assert_int_equal(read_body(five, "abcdef", false, &body), STATUS_OK);
    assert_true(slice_is(buf_slice(&body), "abcde"));

    assert_int_equal(read_body(five, "abcd", true, &body), STATUS_MALFORMED);

    assert_int_equal(read_body(until_end, "abcd", false, &body), STATUS_AGAIN);
    assert_int_equal(read_body(until_end, "abcd", true, &body), STATUS_OK);
    assert_true(slice_is(buf_slice(&body), "abcd"));

    assert_int_equal(read_body(chunked,
                               "3\r\nabc\r\n0A ; x=y\nabcdefghij\n0\r\n", false,
                               &body),
                     STATUS_OK);
    assert_true(slice_is(buf_slice(&body), "abcabcdefghij"));
    assert_int_equal(read_body(chunked, "3\r\nab", false, &body), STATUS_AGAIN);
    assert_int_equal(read_body(chunked, "3\r\nabc", false, &body),
                     STATUS_AGAIN);
    assert_int_equal(read_body(chunked, "3\r\nabcd\r\n", false, &body),
                     STATUS_MALFORMED);
    assert_int_equal(read_body(chunked, "-1\r\n", false, &body),
                     STATUS_MALFORMED);
    assert_int_equal(read_body(chunked, "fffffffff\r\n", false, &body),
                     STATUS_MALFORMED);
    buf_fini(&body);
}

TEST(times_to_wait_are_seconds)
{
    struct upgrade_answer a;

    assert_int_equal(
        upgrade_read(SLICE("HTTP/1.1 503 A\nRetry-After: 7\n\n"), &a, NULL), 0);
    assert_int_equal(a.retry_after_s, 7);
    assert_int_equal(
        upgrade_read(SLICE("HTTP/1.1 503 A\nRetry-After: Wed, 21 Oct\n\n"), &a,
                     NULL),
        0);
    assert_int_equal(a.retry_after_s, 0);
    assert_int_equal(
        upgrade_read(SLICE("HTTP/1.1 503 A\nRetry-After: 99999999999\n\n"), &a,
                     NULL),
        0);
    assert_int_equal(a.retry_after_s, 1000000);
}

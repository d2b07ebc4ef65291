#include "proto/http/ws_handshake.h"

#include <stdio.h>
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

#define SWITCHING  "HTTP/1.1 101 A\r\n"
#define UPGRADE    "Upgrade: websocket\r\n"
#define CONNECTION "Connection: upgrade\r\n"
#define ACCEPTED   "Sec-WebSocket-Accept: " ACCEPT "\r\n"
#define PROTOCOL   "Sec-WebSocket-Protocol: resourcesync.json\r\n"

TEST(what_is_no_upgrade_to_ours_is_told)
{
    static const char *const heads[] = {
        "HTTP/1.1 200 OK\r\n" UPGRADE CONNECTION ACCEPTED PROTOCOL,
        SWITCHING UPGRADE ACCEPTED PROTOCOL,
        SWITCHING CONNECTION "Upgrade: websockets\r\n" ACCEPTED PROTOCOL,
        SWITCHING CONNECTION UPGRADE "Sec-WebSocket-Accept: S" ACCEPT
                                     "\r\n" PROTOCOL,
        SWITCHING CONNECTION UPGRADE ACCEPTED,
        SWITCHING CONNECTION UPGRADE ACCEPTED
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
        if (upgrade_check(&a, KEY, "resourcesync.json", &why) !=
                STATUS_INVALID ||
            !why.text[0])
            fail_msg("%s", heads[i]);
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

TEST(a_body_ends_where_its_head_says)
{
    static const char chunked[] = "HTTP/1.1 404 A\r\nContent-Length: 1\r\n"
                                  "Transfer-Encoding: gzip, Chunked\r\n\r\n";
    static const char until_end[] = "HTTP/1.1 404 A\r\n\r\n";
    static const char five[] = "HTTP/1.1 404 A\r\nContent-Length: 5\r\n\r\n";

    static const struct {
        const char *head, *text;
        bool is_ended;
        enum status rc;
        const char *body; /* if the status is STATUS_OK */
    } rows[] = {
        {five, "abcd", false, STATUS_AGAIN, NULL},
        {five, "abcdef", false, STATUS_OK, "abcde"},
        {five, "abcd", true, STATUS_MALFORMED, NULL},
        {until_end, "abcd", false, STATUS_AGAIN, NULL},
        {until_end, "abcd", true, STATUS_OK, "abcd"},
        {chunked, "3\r\nabc\r\n0A ; x=y\nabcdefghij\n0\r\n", false, STATUS_OK,
         "abcabcdefghij"},
        {chunked, "3\r\nab", false, STATUS_AGAIN, NULL},
        {chunked, "3\r\nabc", false, STATUS_AGAIN, NULL},
        {chunked, "3\r\nabcd\r\n", false, STATUS_MALFORMED, NULL},
        {chunked, "-1\r\n", false, STATUS_MALFORMED, NULL},
        {chunked, "fffffffff\r\n", false, STATUS_MALFORMED, NULL},
    };
    struct buf body;

    buf_init(&body, 100);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct upgrade_answer a;

        buf_clear(&body);
        assert_int_equal(upgrade_read(slice_of(rows[i].head), &a, NULL), 0);
        if (upgrade_body(&a, slice_of(rows[i].text), rows[i].is_ended, &body) !=
                rows[i].rc ||
            (rows[i].body && !slice_is(buf_slice(&body), rows[i].body)))
            fail_msg("%s%s", rows[i].head, rows[i].text);
    }
    buf_fini(&body);
}

TEST(times_to_wait_are_seconds)
{
    static const struct {
        const char *value;
        unsigned s;
    } rows[] = {{"7", 7}, {"Wed, 21 Oct", 0}, {"99999999999", 1000000}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct upgrade_answer a;
        char head[100];

        snprintf(head, sizeof(head), "HTTP/1.1 503 A\nRetry-After: %s\n\n",
                 rows[i].value);
        assert_int_equal(upgrade_read(slice_of(head), &a, NULL), 0);
        if (a.retry_after_s != rows[i].s)
            fail_msg("%s: %u", rows[i].value, (unsigned)a.retry_after_s);
    }
}

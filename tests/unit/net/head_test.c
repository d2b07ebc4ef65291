#include "tests/test.h"
#include "tests/unit/net/served.h"

FIXTURE(served_open, served_close);
SERVED_GROUPS;

TEST(knows_the_methods)
{
    static const char *const answered[] = {"GET", "HEAD", "DELETE", "OPTIONS"};
    struct wire *w = served_connect();
    struct wire_answer a;

    for (size_t i = 0; i < 4; i++) {
        assert_true(wire_request(w, answered[i], "/small", NULL, NULL, &a));
        assert_int_equal(a.status, 200);
        served_assert_header(&a, "Content-Length", "5");
    }
    wire_close(w);
}

TEST(leaves_methods_nobody_knows_to_the_handler)
{
    static const struct served_refusal rows[] = {
        {"TRACE /small HTTP/1.1\r\n" HEAD_END, 501},
        {"BREW /small HTTP/1.1\r\n" HEAD_END, 501},
        {"CONNECT a:80 HTTP/1.1\r\n" HEAD_END, 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"\x16\x03\x01\x02\x01 a TLS client", 400},
    };
    struct wire *w = served_connect();
    struct wire_answer a;

    assert_true(wire_request(w, "PATCH", "/small", NULL, "body", &a));
    assert_int_equal(a.status, 405);
    served_assert_header(&a, "Allow", "GET, POST");
    wire_close(w);
    ASSERT_REFUSED(rows);
}

TEST(tells_what_was_asked)
{
    struct wire *w =
        served_sent("GET /head?a=x%20y%26z&b=%3D+&c HTTP/1.1\r\n"
                    "Origin: http://o\r\nContent-Type:  text/xml \r\n"
                    "Idempotency-Key: k 1\r\nLast-Event-ID: e-2\r\n"
                    "If-None-Match: \"t\"\r\n"
                    "Authorization: Bearer q\r\n"
                    "X-Forwarded-For: 1.2.3.4\r\n"
                    "Accept-Encoding: gzip, br\r\n"
                    "Accept: text/html\r\nAccept: */*\r\n" HEAD_END);

    served_assert_answer(w, 200,
                         "path=/head\n"
                         "query=a=x%20y%26z&b=%3D+&c\n"
                         "a=x y&z\n"
                         "host=a\n"
                         "origin=http://o\n"
                         "content-type=text/xml\n"
                         "accept=text/html, */*\n"
                         "idempotency-key=k 1\n"
                         "last-event-id=e-2\n"
                         "if-none-match=\"t\"\n"
                         "authorization=Bearer q\n"
                         "x-forwarded-for=1.2.3.4\n"
                         "accept-encoding=gzip, br\n");
    wire_close(w);
}

/* W-007: several Link lines are one, with commas between. */
TEST(joins_links_of_several_lines)
{
    struct wire *w = served_sent("GET /head HTTP/1.1\r\n"
                                 "Link: <http://a/?b,c>; rel=\"self\"\r\n"
                                 "link:<http://h>;rel=hub, <x>; rel=up\r\n"
                                 "LINK: <y>; rel=z\r\n" HEAD_END);

    served_assert_answer(w, 200,
                         "path=/head\nquery=\nhost=a\n"
                         "link=<http://a/?b,c>; rel=\"self\", "
                         "<http://h>;rel=hub, <x>; rel=up, <y>; rel=z\n");
    wire_close(w);
}

/* W-164: limits go by it. */
TEST(tells_who_asks)
{
    struct wire *w = served_sent(GET("/peer"));
    char user[CLIENT_NAME_SIZE];

    snprintf(user, sizeof(user), "uid %u", getuid());
    served_assert_answer(w, 200,
                         served_way == SERVED_UNIX ? user : "127.0.0.1");
    wire_close(w);
}

TEST(refuses_a_body_it_cannot_trust)
{
#define CHUNKED "Transfer-Encoding: chunked\r\n"
    static const struct served_refusal rows[] = {
        {POST("/echo", "-1") "abc", 400},
        {POST("/echo", "+1") "abc", 400},
        {POST("/echo", "3x") "abc", 400},
        {POST("/echo", "x") "abc", 400},
        {POST("/echo", "99999999999999999999") "abc", 400},
        {POST("/echo", "3\r\nContent-Length: 5") "abcde", 400},
        {"POST /echo HTTP/1.1\r\nContent-Length : 3\r\n" HEAD_END "abc", 400},
        {"GET /small HTTP/1.1\r\nContent-Length : 3\r\n" HEAD_END "abc", 400},
        {"GET /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc", 400},
        {"DELETE /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc", 400},
        {"POST /echo HTTP/1.1\r\n" CHUNKED "Content-Length: 3\r\n" HEAD_END
         "abc",
         400},
        {"POST /echo HTTP/1.1\r\n" CHUNKED HEAD_END "3\r\nabcd", 400},
        {"GET /small HTTP/1.1\r\n" CHUNKED HEAD_END "0\r\n\r\n", 400},
    };

    ASSERT_REFUSED(rows);
    assert_int_equal(atomic_load(&served.n_open), 0);
}

TEST(takes_a_length_of_zero_where_there_is_no_body)
{
    struct wire *w = served_sent(
        "GET /small HTTP/1.1\r\nContent-Length: 0\r\n" HEAD_END GET("/small"));

    served_assert_answer(w, 200, "hello");
    served_assert_answer(w, 200, "hello");
    wire_close(w);
}

/* RFC 9110 section 7.8: a client that asks for another protocol gets
 * HTTP/1.1. */
TEST(ignores_upgrades_to_anything_else)
{
    static const struct served_refusal rows[] = {
        {"POST /echo HTTP/1.1\r\nConnection: Upgrade\r\n"
         "Upgrade: websocket\r\nContent-Length: 3\r\n" HEAD_END "abc",
         400},
    };
    struct wire *w = served_sent(
        "GET /small HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" HEAD_END
        "GET /small HTTP/1.1\r\nConnection: Upgrade\r\n"
        "Upgrade: foo\r\n" HEAD_END);

    served_assert_answer(w, 200, "hello");
    served_assert_answer(w, 200, "hello");
    wire_close(w);
    ASSERT_REFUSED(rows);
}

TEST(refuses_malformed_targets)
{
    static const struct served_refusal rows[] = {
        {GET("/sm%zzall"), 400},
        {GET("/small?a=%4"), 400},
        {GET("http://b/small"), 400},
    };
    struct wire *w = served_sent(GET("http://a/small"));

    served_assert_answer(w, 200, "hello");
    wire_close(w);
    ASSERT_REFUSED(rows);
}

TEST(refuses_headers_that_are_too_long)
{
    static const struct {
        const char *format;
        int size;
        unsigned status;
    } rows[] = {
        {"GET /small HTTP/1.1\r\nCookie: %.*s\r\n" HEAD_END, 7000, 200},
        {"GET /small HTTP/1.1\r\nCookie: %.*s\r\n" HEAD_END, 9000, 431},
        {GET("/%.*s"), 9000, 414},
        {"GET /small HTTP/1.1\r\nX-Long: %.*s\r\n" HEAD_END, 199999, 431},
    };

    char *text = malloc(200000);

    memset(text, 'a', 200000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = served_connect();
        struct wire_answer a;

        wire_send_format(w, rows[i].format, rows[i].size, text);
        if (!wire_answer(w, &a, false) || a.status != rows[i].status)
            fail_msg("row %zu is not answered with %u", i, rows[i].status);
        if (rows[i].status != 200)
            assert_true(wire_is_ended(w));
        wire_close(w);
    }
    free(text);
    served_assert_alive();
}

TEST(follows_the_rules_of_http_1_0)
{
    static const struct served_refusal closed[] = {
        {"GET /small HTTP/1.1\r\nConnection: close\r\n" HEAD_END, 200},
        {"GET /small HTTP/1.1\r\nConnection: TE, Close\r\n" HEAD_END, 200},
    };
    struct wire *w = served_sent("GET /small HTTP/1.0\r\n\r\n");
    struct wire_answer a;

    served_assert_answer(w, 200, "hello");
    served_assert_ended(w);

    w = served_sent("GET /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(wire_answer(w, &a, false));
    served_assert_header(&a, "Connection", "keep-alive");
    assert_true(wire_send_text(w, "GET /small HTTP/1.0\r\n\r\n"));
    served_assert_answer(w, 200, "hello");
    served_assert_ended(w);
    ASSERT_REFUSED(closed);
}

/*
 * live_handshake_test.c - a WebSocket that does not come about: refused, not
 * carried, not trusted, not answered.
 */
#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/support/tls_front.h"
#include "tests/test.h"
#include "tests/unit/follow/transports.h"

#define PROBLEM "application/problem+json"

/* Refusals */

FIXTURE(set_websocket, living_clear);

TEST(an_answer_may_come_in_pieces)
{
    static const struct {
        const char *parts[2];
        const char *reason; /* what a GET is answered then; NULL: there is none
                             */
        enum live_how how;
        const char *text;
        unsigned retry_after_s;
    } answers[] = {
        {{"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n", "\r\n"},
         NULL,
         LIVE_LOST,
         "503: the server refused",
         7},
        /* A second answer with another status gives no reason. */
        {{"HTTP/1.1 403 No\r\n", "Content-Type: " PROBLEM "\r\n\r\n"},
         "HTTP/1.1 200 OK\r\n\r\n{\"detail\":\"yes\"}",
         LIVE_REFUSED,
         "403: the server refused"},
        {{"HTTP/1.1 101 Switching Protocols\r\n", "Upgr"},
         NULL,
         LIVE_LOST,
         "the connection broke in the handshake"},
        {{"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n",
          "Content-Type: " PROBLEM "\r\n\r\n"},
         "HTTP/1.1 503 Busy\r\nRetry-After: 9\r\n\r\n{\"detail\":\"later\"}",
         LIVE_REFUSED,
         "503: later",
         9},
    };
    struct living *s = *state;
    unsigned n_rests = 0;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        fake_plain(s->broker);
        fake_raw(s->broker, slice_of(answers[i].parts[0]));
        fake_wait(s->broker);
        fake_raw(s->broker, slice_of(answers[i].parts[1]));
        if (!answers[i].reason)
            continue;
        fake_plain(s->broker);
        fake_raw(s->broker, slice_of(answers[i].reason));
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        living_start(s);
        living_until_rest(s, ++n_rests);
        fake_go(s->broker);
        living_turn(s);
        assert_end(s, answers[i].how, answers[i].text);
        assert_int_equal(s->end.why.retry_after_s, answers[i].retry_after_s);
    }
}

/* Not carried */

TEST(an_upgrade_to_something_else_means_another_transport)
{
    struct living *s = *state;
#define OK_101 "HTTP/1.1 101 Yes\r\nConnection: keep-alive, Upgrade\r\n"
    static const char *const answers[] = {
        OK_101 "Upgrade: h2c\r\n\r\n",
        OK_101 "Upgrade: websocket\r\n\r\n",
        OK_101 "Upgrade: websocket\r\n"
               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        fake_plain(s->broker);
        fake_raw(s->broker, slice_of(answers[i]));
        fake_hold(s->broker);
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        assert_runs_says(s, "", LIVE_UNFIT, "the handshake failed: ");
    }
}

/* RFC 7692 section 5: a server that accepts what was not offered, or one offer
 * many times. libwebsockets has room for one extension, and does not count. */
TEST(an_extension_that_was_not_offered_means_another_transport)
{
#define DEFLATE "permessage-deflate; server_no_context_takeover"
    static const char again[] = ", permessage-deflate";
    static const char *const answers[] = {
        "permessage-deflate",
        "permessage-deflate; client_no_context_takeover",
        DEFLATE "; client_max_window_bits=10",
        DEFLATE "; x",
        "permessage-bzip2",
        DEFLATE ", permessage-bzip2",
        DEFLATE ", permessage-deflate",
        DEFLATE "; client_no_context_takeover, permessage-deflate",
    };
    const size_t n = sizeof(answers) / sizeof(answers[0]);
    struct living *s = *state;
    char many[100 + 250 * sizeof(again)] =
        DEFLATE "; client_no_context_takeover";

    for (int i = 0; i < 250; i++)
        strcat(many, again);
    for (size_t i = 0; i <= n; i++) {
        fake_stream_extended(s->broker, i < n ? answers[i] : many);
        fake_hold(s->broker);
    }
    fake_broker_start(s->broker);

    for (size_t i = 0; i <= n; i++) {
        print_message("row %zu\n", i);
        assert_runs_says(s, "", LIVE_UNFIT, "the handshake failed: ");
    }
}

TEST(the_head_of_an_answer_is_bounded)
{
    struct living *s = *state;
    char *head = malloc(70000);

    assert_non_null(head);
    memset(head, 'x', 70000);
    memcpy(head, "HTTP/1.1 200 OK\r\nX: ", 20);
    fake_plain(s->broker);
    fake_raw(s->broker, (struct slice){head, 70000});
    serves(s, "hold");

    assert_runs(s, "", LIVE_UNFIT,
                "the handshake failed: problems parsing header");
    free(head);
}

TEST(a_connection_that_is_dropped_for_it_means_another_transport)
{
    struct living *s = *state;

    serves(s, "silence plain reset stream");

    assert_runs(s, "", LIVE_UNFIT, "the connection broke instead of an answer");
    assert_runs(s, "", LIVE_UNFIT, "the connection broke instead of an answer");
    assert_runs(s, "", LIVE_UNFIT, "the connection broke behind the handshake");
}

/* Bytes that come in one piece with the head are not lost. */
TEST(messages_may_come_with_the_head)
{
    struct living *s = *state;

    s->enough = 2;
    fake_stream_with(s->broker, SLICE("\x81\x03one\x81\x03two\x81"));
    serves(s, "hold");

    living_run(s);

    assert_string_equal(s->seen, "one|two|");
}

/* Not answered */

TEST(a_name_that_does_not_exist_is_told)
{
    struct living *s = *state;

    s->request.answer_ms = 1000; /* a name server may be away, too */
    snprintf(s->url, sizeof(s->url), "http://nowhere.invalid/sets/news/stream");
    assert_runs_says(s, "", LIVE_LOST, "cannot connect to nowhere.invalid: ");
}

TEST(what_is_no_url_is_told)
{
    struct living *s = *state;

    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:1/a b\r\nX: y");
    assert_runs_says(s, "", LIVE_BROKEN, "no URL of a stream: ");
}

/* Other transports have room for every name: up to 253 bytes. */
TEST(a_name_that_is_too_long_for_it_means_another_transport)
{
    static const struct {
        int size; /* of the first label; 60 bytes follow it */
        enum live_how how;
        const char *text;
    } names[] = {
        {29, LIVE_LOST, "cannot connect to "},
        {30, LIVE_UNFIT, "the host name is too long for a WebSocket"},
        {63, LIVE_UNFIT, "the host name is too long for a WebSocket"},
    };
    struct living *s = *state;
    char x[64];

    memset(x, 'x', sizeof(x));
    s->request.answer_ms = 1000;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(s->url, sizeof(s->url), "http://%.*s.%.51s.invalid/stream",
                 names[i].size, x, x);
        assert_runs_says(s, "", names[i].how, names[i].text);
        assert_int_equal(s->end.why.rc, STATUS_UNREACHABLE);
    }
}

/* Addresses, certificates */

TEST(addresses_of_ipv6_are_reached)
{
    struct living *s = *state;
    struct fake_broker *six = fake_broker_new_ipv6();
    char line[64];

    if (!six)
        skip();
    snprintf(s->url, sizeof(s->url), "%s/stream", fake_broker_url(six));
    snprintf(line, sizeof(line), "\r\nHost: [::1]:%u\r\n",
             fake_broker_port(six));
    s->enough = 1;
    fake_stream(six);
    fake_send(six, SLICE("one"));
    fake_broker_start(six);

    living_run(s);

    assert_string_equal(s->seen, "one|");
    assert_non_null(strstr(fake_request(six, 0), line));
    fake_broker_free(six);
}

struct tls {
    struct tempdir dir;
    struct certificate certificate;
    struct tls_front *front;
};

/* TLS before the server, with a certificate for `names`. */
static void
set_tls(struct living *s, struct tls *tls, const struct certificate_wish *wish)
{
    tempdir_open(&tls->dir);
    certificate_make(&tls->certificate, tls->dir.path, wish);
    tls->front = tls_front_new(&tls->certificate, "127.0.0.1", "127.0.0.1",
                               fake_broker_port(s->broker));
    snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%u/sets/news/stream",
             tls_front_port(tls->front));
    setenv("CURL_CA_BUNDLE", tls->certificate.ca, 1);
}

static void
clear_tls(struct tls *tls)
{
    unsetenv("CURL_CA_BUNDLE");
    tls_front_free(tls->front);
    tempdir_close(&tls->dir);
}

/* One record may hold several messages, and the library more than the socket.
 */
TEST(messages_come_over_tls)
{
    struct living *s = *state;
    struct tls tls;
    static char text[70000];

    memset(text, 'x', sizeof(text));
    s->enough = 4;
    s->pause_at = 2;
    fake_stream_with(s->broker, SLICE("\x81\x03one\x81\x03two\x81\x05three"));
    fake_send(s->broker, (struct slice){text, sizeof(text)});
    serves(s, "hold");
    set_tls(s, &tls, NULL);

    living_run(s);
    assert_string_equal(s->seen, "one|two|");
    live_hold(s->live, false);
    living_turn(s);

    assert_string_equal(s->seen, "one|two|three|(70000)|");
    assert_end(s, LIVE_ENOUGH, "");
    clear_tls(&tls);
}

TEST(a_certificate_for_another_host_is_not_good)
{
    struct living *s = *state;
    struct tls tls;
    const struct certificate_wish wish = {.names = "DNS:example.com"};

    serves(s, "stream");
    set_tls(s, &tls, &wish);

    assert_runs_says(s, "", LIVE_LOST, "the certificate of 127.0.0.1:");
    assert_end_says(s, LIVE_LOST, " is not good: ");
    clear_tls(&tls);
}

TEST(nor_is_one_that_nobody_vouches_for_or_that_is_over)
{
    struct living *s = *state;
    struct tls tls;
    const struct certificate_wish wish = {.is_expired = true};

    fake_broker_start(s->broker);
    set_tls(s, &tls, &wish);

    assert_runs_says(s, "", LIVE_LOST, " is not good: certificate has expired");

    unsetenv("CURL_CA_BUNDLE");
    assert_runs_says(s, "", LIVE_LOST,
                     " is not good: unable to get local issuer");

    setenv("CURL_CA_BUNDLE", "/nonexistent.pem", 1);
    assert_runs_says(s, "", LIVE_LOST, "/nonexistent.pem");
    clear_tls(&tls);
}

TEST(a_server_without_tls_is_told)
{
    struct living *s = *state;

    snprintf(s->url, sizeof(s->url), "https://127.0.0.1:%u/sets/news/stream",
             fake_broker_port(s->broker));
    serves(s, "nothing");
    assert_runs_says(s, "", LIVE_LOST, "cannot connect to 127.0.0.1:");
}

/* The client asks a proxy for a tunnel, and does not send it the server's
 * headers. */
TEST(a_proxy_makes_a_tunnel)
{
    struct living *s = *state;
    char proxy[64];

    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u",
             fake_broker_port(s->broker));
    snprintf(s->url, sizeof(s->url), "http://broker.invalid:8787/stream");
    assert_int_equal(td_header(s->client, s->url, "Authorization: Bearer x"),
                     TD_OK);
    fake_answer(s->broker, 403, "text/plain", "no");
    fake_broker_start(s->broker);
    setenv("http_proxy", proxy, 1);

    living_run(s);
    unsetenv("http_proxy");

    assert_end_says(s, LIVE_LOST, "cannot connect to broker.invalid:8787: ");
    assert_memory_equal(fake_request(s->broker, 0),
                        "CONNECT broker.invalid:8787 HTTP/1.1\r\n", 38);
    assert_null(strstr(fake_request(s->broker, 0), "Bearer"));
}

/* TLS itself: what is refused, how connections begin and end, what hostile
 * clients can make of records. That everything else is the same over TLS, the
 * other tests of this folder show. */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "tests/test.h"
#include "tests/unit/net/served.h"

#define HEAD_END "Host: a\r\n\r\n"

/* Files */

static void
assert_no_server(const char *cert, const char *key, const char *expected)
{
    struct server_options options = {
        .host = "127.0.0.1", .threads = 1, .tls_cert = cert, .tls_key = key};
    struct problem why = {"", 0, 0};
    struct server *server = NULL;

    assert_int_equal(server_open(&server, &options, &why), STATUS_IO);
    assert_null(server);
    if (!strstr(why.text, expected))
        fail_msg("it says: %s", why.text);
}

TEST_GROUP(NULL, served_set_up_tls, served_tear_down_tls);

TEST(names_the_file_that_cannot_be_used)
{
    struct certificate_wish weak = {.rsa_bits = 1024},
                            locked = {.password = "secret"};
    struct certificate c, other;
    char path[300];
    struct tempdir dir, two;
    FILE *file = NULL;

    tempdir_open(&dir);
    tempdir_open(&two);
    certificate_make(&c, dir.path, NULL);
    certificate_make(&other, two.path, NULL);

    assert_no_server("/no/such/file", c.key,
                     "cannot read the certificate /no/such/file: No such");
    assert_no_server(c.cert, "/no/such/file",
                     "cannot read the private key /no/such/file: No such");
    assert_no_server(c.key, c.key, "key.pem: there is no certificate in it");
    assert_no_server(c.cert, c.cert,
                     "cert.pem: there is no private key in it that");
    assert_no_server(c.cert, other.key,
                     "key.pem: not the private key of the (first) certificate");
    assert_no_server(dir.path, c.key, dir.path);

    snprintf(path, sizeof(path), "%s/broken.pem", dir.path);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs("-----BEGIN CERTIFICATE-----\nabcd\n-----END CERTIFICATE-----\n",
          file);
    fclose(file);
    assert_no_server(path, c.key, "broken.pem: not a certificate: ");
    file = fopen(c.cert, "ae");
    assert_non_null(file);
    fputs("-----BEGIN CERTIFICATE-----\nabcd\n-----END CERTIFICATE-----\n",
          file);
    fclose(file);
    assert_no_server(c.cert, c.key,
                     "cert.pem: certificate 3 of it is broken: ");

    certificate_make(&other, two.path, &locked);
    assert_no_server(other.cert, other.key,
                     "key.pem: the private key is encrypted");
    certificate_make(&other, two.path, &weak);
    assert_no_server(other.cert, other.key,
                     "cert.pem: OpenSSL refuses the certificate: ee key too "
                     "small");
    tempdir_close(&dir);
    tempdir_close(&two);
}

/* Beginnings */

TEST(speaks_1_2_and_1_3_only, served_open, served_close)
{
    static const struct {
        int version;
        bool is_spoken;
    } cases[] = {{TLS1_VERSION, false},
                 {TLS1_1_VERSION, false},
                 {TLS1_2_VERSION, true},
                 {TLS1_3_VERSION, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire *w = wire_connect("127.0.0.1", served.port);
        struct wire_answer a;

        assert_int_equal(wire_start_tls(w, cases[i].version),
                         cases[i].is_spoken);
        if (cases[i].is_spoken)
            assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        wire_close(w);
    }
    served_assert_alive();
}

TEST(tells_who_speaks_no_tls, served_open, served_close)
{
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                                        "POST / HTTP/1.1\r\n", "hello\r\n"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct wire *w = wire_connect("127.0.0.1", served.port);
        struct wire_answer a;
        char byte = 0;

        if (i % 2)
            served_turn(); /* other ways in the library, both are good */
        assert_true(wire_send_text(w, texts[i]));
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 400);
        assert_non_null(strstr(a.body, "this port speaks TLS only"));
        assert_int_equal(recv(wire_fd(w), &byte, 1, 0), 0); /* no reset */
        wire_close(w);
    }
    assert_int_equal(atomic_load(&served.n_requests), 0);
}

static int
open_soon(void **state)
{
    (void)state;
    served_open_with(2, 3000000);
    return 0;
}

TEST(ends_a_handshake_that_does_not_come, open_soon, served_close)
{
    static const struct slice beginnings[] = {
        {"", 0}, {"\x16", 1}, {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", 10}};

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        struct wire *w = wire_connect("127.0.0.1", served.port);

        assert_true(wire_send(w, beginnings[i].data, beginnings[i].size));
        served_turn();
        served_pass_seconds(2);
        assert_true(wire_is_silent(w));
        served_pass_seconds(2); /* one more where something is unread */
        assert_true(wire_is_ended(w));
        wire_close(w);
    }
    served_assert_alive();
}

/* A session of one thread is known to the others: their keys are the same. */
TEST(resumes_a_session_on_any_thread, served_open, served_close)
{
    for (int i = 0; i < 20; i++) {
        struct wire *w = served_connect(),
                    *again = wire_connect("127.0.0.1", served.port);
        struct wire_answer a;
        SSL *ssl = NULL;
        SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
        SSL_SESSION *session = NULL;

        /* TLS 1.3 sends tickets behind the handshake. */
        assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        session = SSL_get1_session(wire_tls(w));
        ssl = SSL_new(ctx);
        SSL_set_fd(ssl, wire_fd(again));
        assert_int_equal(SSL_set_session(ssl, session), 1);
        assert_int_equal(SSL_connect(ssl), 1);
        assert_true(SSL_session_reused(ssl));
        SSL_free(ssl);
        SSL_SESSION_free(session);
        SSL_CTX_free(ctx);
        wire_close(w);
        wire_close(again);
    }
}

/* Records */

TEST(takes_a_request_of_one_byte_a_record, served_open, served_close)
{
    static const char text[] =
        "POST /echo HTTP/1.1\r\nContent-Length: 20\r\n" HEAD_END
        "12345678901234567890"
        "GET /small HTTP/1.1\r\n" HEAD_END;
    struct wire *w = served_connect();
    struct wire_answer a;

    for (size_t i = 0; i < sizeof(text) - 1; i++)
        assert_true(wire_send(w, text + i, 1));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "12345678901234567890");
    assert_true(wire_answer(w, &a, false));
    assert_string_equal(a.body, "hello");
    wire_close(w);
}

/* A refused answer is read although the rest of a record is on its way. */
TEST(answers_within_a_record, served_open, served_close)
{
    for (int i = 0; i < 20; i++) {
        struct wire *w = served_connect();
        char body[16384] = "x";
        struct wire_answer a;

        assert_true(wire_send_text(w, "POST /refuse HTTP/1.1\r\n"
                                      "Content-Length: 500000\r\n" HEAD_END));
        for (int n = 0; n < 20; n++)
            assert_true(wire_send(w, body, sizeof(body)));
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 413);
        assert_true(wire_is_ended(w));
        assert_true(wire_end_is_said(w));
        wire_close(w);
    }
}

/* OpenSSL's last word on a handshake that was begun. */
static int
handshake(struct wire *w)
{
    for (;;) {
        struct pollfd p = {.fd = wire_fd(w), .events = POLLIN};
        int n = SSL_do_handshake(wire_tls(w));

        if (n == 1 || SSL_get_error(wire_tls(w), n) != SSL_ERROR_WANT_READ)
            return n;
        assert_int_equal(poll(&p, 1, -1), 1);
    }
}

TEST(does_not_negotiate_again, served_open, served_close)
{
    struct wire *w = wire_connect("127.0.0.1", served.port);
    struct wire_answer a;

    assert_true(wire_start_tls(w, TLS1_2_VERSION));
    assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
    assert_int_equal(SSL_renegotiate(wire_tls(w)), 1);
    assert_int_not_equal(handshake(w), 1);
    wire_abort(w);
    served_assert_alive();
}

/* Streams */

static atomic_uint n_told;
static char big[STREAM_FRAME_MAX];

static void
fill_up(struct stream *stream, void *user)
{
    size_t size =
        stream_frame_header((uint8_t *)big, sizeof(big) - 4, true, true);

    (void)user;
    assert_int_equal(size, 4);
    while (stream_write(stream, big, sizeof(big)) == STREAM_SENT)
        ;
    atomic_fetch_add(&n_told, 1);
}

static void
ignore(struct stream *stream, void *user)
{
    (void)stream;
    (void)user;
}

static const struct stream_handlers filling = {fill_up, ignore, ignore};

/* Each request for new keys wants an answer, for which there is no room. It may
 * hang up on whoever asks for that, but not turn. */
TEST(does_not_turn_for_keys_that_cannot_be_changed, served_open, served_close)
{
    struct wire *w = served_connect_narrow();
    struct wire_answer a;

    served.stream_handlers = &filling;
    atomic_store(&n_told, 0);
    assert_true(wire_upgrade(w, "/stream", NULL, &a));
    served_await(&n_told, 1);
    served_assert_rest();
    for (int i = 0; i < 3; i++) {
        SSL_key_update(wire_tls(w), SSL_KEY_UPDATE_REQUESTED);
        wire_send_frame(w, WIRE_TEXT, true, "abc", 3);
    }
    served_assert_rest();
    wire_close(w);
    served_assert_alive();
}

/* One frame of a stream is one record, and so one system call; a large one is
 * as few as its size allows. */
static void
tell(struct stream *stream, void *user)
{
    static const char large[STREAM_FRAME_MAX] = {(char)0x82, 126, 0xff,
                                                 (char)0xfc};

    (void)user;
    stream_write(stream, "\x81\x02hi", 4);
    stream_write(stream, large, sizeof(large));
}

static const struct stream_handlers telling = {tell, ignore, ignore};

TEST(makes_as_few_records_as_can_be, served_open, served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    struct wire_frame f;
    unsigned before = 0;

    served.stream_handlers = &telling;
    /* Tickets and answer, in records of their own. */
    assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
    before = wire_records(w);
    assert_true(wire_upgrade(w, "/stream", NULL, &a));
    assert_true(wire_frame(w, &f));
    assert_true(wire_frame(w, &f));
    assert_int_equal(f.size, STREAM_FRAME_MAX - 4);
    assert_int_equal(wire_records(w) - before,
                     1 + 1 + STREAM_FRAME_MAX / SSL3_RT_MAX_PLAIN_LENGTH);
    wire_close(w);
}

/* Ends: a client can tell a good one from a cut */

static void
assert_good_end(struct wire *w)
{
    assert_true(wire_is_ended(w));
    assert_true(wire_end_is_said(w));
    wire_close(w);
}

TEST(says_the_end_of_a_connection, served_open, served_close)
{
    static const char *const texts[] = {
        "GET /small HTTP/1.0\r\n" HEAD_END,
        "GET /small HTTP/1.1\r\nConnection: close\r\n" HEAD_END,
        "BREW / HTTP/1.1\r\n" HEAD_END,
        "CONNECT a:1 HTTP/1.1\r\n" HEAD_END,
        "POST /refuse HTTP/1.1\r\nContent-Length: 5\r\n" HEAD_END,
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END
        "3\r\nabc\r\n0\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct wire *w = served_sent(texts[i]);
        struct wire_answer a;

        if (!wire_answer(w, &a, false))
            fail_msg("no answer to %s", texts[i]);
        if (!wire_is_ended(w) || !wire_end_is_said(w))
            fail_msg("no end of %s", texts[i]);
        wire_close(w);
    }
}

/* There is room for the body only when all of it was read: then for the end. */
TEST(says_the_end_to_a_slow_reader, served_open, served_close)
{
    struct wire *w = served_connect_narrow();
    struct wire_answer a;

    assert_true(wire_send_text(w, "GET /big?size=20000000 HTTP/1.1\r\n"
                                  "Connection: close\r\n" HEAD_END));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.body_size, 20000000);
    assert_good_end(w);
}

TEST(says_the_end_of_who_is_too_slow, open_soon, served_close)
{
    struct wire *w = served_sent("GET /small HT");

    served_turn();
    served_pass_seconds(3);
    assert_good_end(w);
}

static void
bid_farewell(struct stream *stream, void *user)
{
    (void)user;
    stream_close(stream, 1001, "over");
}

static const struct stream_handlers parting = {bid_farewell, ignore, ignore};
static const struct stream_handlers silent = {ignore, ignore, ignore};

TEST(says_the_end_of_a_stream, served_open, served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    struct wire_frame f;

    served.stream_handlers = &parting;
    assert_true(wire_upgrade(w, "/stream", NULL, &a));
    assert_true(wire_frame(w, &f));
    assert_int_equal(wire_close_code(&f), 1001);
    assert_true(wire_send_frame(w, WIRE_CLOSE, true, f.payload, f.size));
    assert_good_end(w);
}

TEST(says_the_end_when_the_server_ends, served_open, served_close)
{
    struct wire *kept = served_connect(), *stream = served_connect(),
                *cut = served_connect_narrow();
    struct wire_answer a;

    served.stream_handlers = &silent;
    assert_true(wire_request(kept, "GET", "/small", NULL, NULL, &a));
    assert_true(wire_upgrade(stream, "/stream", NULL, &a));
    assert_true(
        wire_send_text(cut, "GET /big?size=20000000 HTTP/1.1\r\n" HEAD_END));
    assert_true(wire_answer_head(cut, &a));
    served_turn();
    served_assert_rest(); /* there is no room */
    server_close(served.server, 0);
    served.server = NULL;

    assert_good_end(kept);
    assert_good_end(stream);
    assert_true(wire_is_ended(cut));
    assert_false(wire_end_is_said(cut));
    wire_close(cut);
}

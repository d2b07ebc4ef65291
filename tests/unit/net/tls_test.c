/* TLS itself: refused handshakes, the beginning and end of connections, and
 * hostile records. The other tests of this folder show that everything else is
 * the same over TLS. */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "tests/test.h"
#include "tests/unit/net/streamed.h"

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

static void
write_broken_certificate(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);

    assert_non_null(file);
    fputs("-----BEGIN CERTIFICATE-----\nabcd\n-----END CERTIFICATE-----\n",
          file);
    fclose(file);
}

TEST_GROUP(NULL, served_set_up_tls, served_tear_down);

TEST(names_the_file_that_cannot_be_used)
{
    struct certificate_wish weak = {.rsa_bits = 1024},
                            locked = {.password = "secret"};
    struct certificate c, other;
    char path[300];
    struct tempdir dir, two;

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
    write_broken_certificate(path, "we");
    assert_no_server(path, c.key, "broken.pem: not a certificate: ");
    write_broken_certificate(c.cert, "ae");
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

FIXTURE(served_open, served_close);

TEST(speaks_1_2_and_1_3_only)
{
    static const struct {
        int version;
        bool is_spoken;
    } rows[] = {{TLS1_VERSION, false},
                {TLS1_1_VERSION, false},
                {TLS1_2_VERSION, true},
                {TLS1_3_VERSION, true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = wire_connect("127.0.0.1", served.port);

        assert_int_equal(wire_start_tls(w, rows[i].version), rows[i].is_spoken);
        if (rows[i].is_spoken)
            served_assert_kept(w);
        wire_close(w);
    }
    served_assert_alive();
}

TEST(tells_who_speaks_no_tls)
{
    static const char *const texts[] = {GET("/"), "POST / HTTP/1.1\r\n",
                                        "hello\r\n"};
    char bytes[10000];

    memset(bytes, 'x', sizeof(bytes));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct wire *w = wire_connect("127.0.0.1", served.port);
        struct wire_answer a;
        char byte = 0;

        assert_true(wire_send_text(w, texts[i]));
        for (int n = 0; n < 50; n++) { /* it goes on, and gets its answer */
            assert_true(wire_send(w, bytes, sizeof(bytes)));
            served_turn();
        }
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 400);
        assert_non_null(strstr(a.body, "this port speaks TLS only"));
        assert_int_equal(recv(wire_fd(w), &byte, 1, 0), 0); /* no reset */
        wire_close(w);
    }
    assert_int_equal(atomic_load(&served.n_requests), 0);
}

/* Messages of TLS that are no bytes of a request: KeyUpdates, each a record. */
#define FLOOD 50000

static struct {
    struct wire *wire;
    char *bytes;
    size_t size;
    sem_t begun;
} flood;

static void *
send_flood(void *unused)
{
    struct pollfd room = {.fd = wire_fd(flood.wire), .events = POLLOUT};
    bool is_first = true;

    while (flood.size > 0) {
        ssize_t n = send(room.fd, flood.bytes, flood.size, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            break;
        if (n > 0) {
            flood.bytes += n;
            flood.size -= (size_t)n;
        }
        if (is_first)
            sem_post(&flood.begun);
        is_first = false;
        poll(&room, 1, -1);
    }
    return unused;
}

static int
open_one(void **state)
{
    (void)state;
    served_open_with(1, 60 * SECOND);
    return 0;
}

TEST(a_flood_of_messages_holds_up_nobody, open_one, served_close)
{
    struct wire *w = wire_connect("127.0.0.1", served.port);
    struct wire *quick = wire_connect("127.0.0.1", served.port);
    BIO *memory = BIO_new(BIO_s_mem());
    pthread_t thread;

    assert_true(wire_start_tls(w, TLS1_3_VERSION));
    assert_true(wire_start_tls(quick, TLS1_3_VERSION));
    BIO_up_ref(memory);
    SSL_set0_wbio(wire_tls(w), memory);
    for (size_t i = 0; i < FLOOD; i++) {
        SSL_key_update(wire_tls(w), SSL_KEY_UPDATE_NOT_REQUESTED);
        assert_int_equal(SSL_do_handshake(wire_tls(w)), 1);
    }
    SSL_write(wire_tls(w), GET("/"), sizeof(GET("/")) - 1);
    flood.wire = w;
    flood.size = (size_t)BIO_get_mem_data(memory, &flood.bytes);
    sem_init(&flood.begun, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, send_flood, NULL), 0);
    sem_wait(&flood.begun);
    served_assert_kept(quick);
    assert_int_equal(atomic_load(&served.n_requests), 1);
    pthread_join(thread, NULL);
    served_await(&served.n_requests, 2);
    sem_destroy(&flood.begun);
    BIO_free(memory);
    wire_close(quick);
    wire_close(w);
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

/* A session of one thread works on the others: their keys are the same. */
TEST(resumes_a_session_on_any_thread)
{
    for (int i = 0; i < 20; i++) {
        struct wire *w = served_connect(),
                    *again = wire_connect("127.0.0.1", served.port);
        SSL *ssl = NULL;
        SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
        SSL_SESSION *session = NULL;

        /* TLS 1.3 sends tickets behind the handshake. */
        served_assert_kept(w);
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

/* A client can distinguish a good end from a cut. */
static void
assert_good_end(struct wire *w)
{
    assert_true(wire_is_ended(w));
    assert_true(wire_end_is_said(w));
    wire_close(w);
}

/* Records */

TEST(takes_a_request_of_one_byte_a_record)
{
    static const char text[] =
        POST("/echo", "20") "12345678901234567890" GET("/small");
    struct wire *w = served_connect();

    for (size_t i = 0; i < sizeof(text) - 1; i++)
        assert_true(wire_send(w, text + i, 1));
    served_assert_answer(w, 200, "12345678901234567890");
    served_assert_answer(w, 200, "hello");
    wire_close(w);
}

/* A refused answer is read although the rest of a record is on its way. */
TEST(answers_within_a_record)
{
    for (int i = 0; i < 20; i++) {
        struct wire *w = served_sent(POST("/refuse", "500000"));
        char body[16384] = "x";

        for (int n = 0; n < 20; n++)
            assert_true(wire_send(w, body, sizeof(body)));
        served_assert_answer(w, 413, NULL);
        assert_good_end(w);
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

TEST(does_not_negotiate_again)
{
    struct wire *w = wire_connect("127.0.0.1", served.port);

    assert_true(wire_start_tls(w, TLS1_2_VERSION));
    served_assert_kept(w);
    assert_int_equal(SSL_renegotiate(wire_tls(w)), 1);
    assert_int_not_equal(handshake(w), 1);
    wire_abort(w);
    served_assert_alive();
}

/* Streams */

/* Each request for new keys wants an answer, for which there is no room. The
 * server may close such a connection, but not turn. */
TEST(does_not_turn_for_keys_that_cannot_be_changed, streamed_open,
     streamed_close)
{
    struct wire *w = streamed_upgrade(served_connect_narrow(), NULL);

    streamed_choke();
    served_assert_rest();
    for (int i = 0; i < 3; i++) {
        SSL_key_update(wire_tls(w), SSL_KEY_UPDATE_REQUESTED);
        wire_send_frame(w, WIRE_TEXT, true, "abc", 3);
    }
    served_assert_rest();
    wire_close(w);
    served_assert_alive();
}

static void
write_frames(void)
{
    stream_write(last, "\x81\x02hi", 4);
    stream_write(last, large, sizeof(large));
}

/* One frame of a stream is one record, and so one system call; a large one has
 * as few as its size allows. */
TEST(makes_as_few_records_as_can_be, streamed_open, streamed_close)
{
    struct wire *w = served_connect();
    struct wire_frame f;
    unsigned before = 0;

    served_assert_kept(w); /* tickets and answer, in records of their own */
    before = wire_records(w);
    streamed_upgrade(w, NULL);
    served_on_service(write_frames);
    assert_true(wire_frame(w, &f));
    assert_true(wire_frame(w, &f));
    assert_int_equal(f.size, sizeof(large) - LARGE_HEADER);
    assert_int_equal(wire_records(w) - before,
                     1 + 1 +
                         (STREAM_FRAME_MAX + SSL3_RT_MAX_PLAIN_LENGTH - 1) /
                             SSL3_RT_MAX_PLAIN_LENGTH);
    wire_close(w);
}

/* Ends */

TEST(says_the_end_of_a_connection)
{
    static const char *const texts[] = {
        "GET /small HTTP/1.0\r\n" HEAD_END,
        "GET /small HTTP/1.1\r\nConnection: close\r\n" HEAD_END,
        "BREW / HTTP/1.1\r\n" HEAD_END,
        "CONNECT a:1 HTTP/1.1\r\n" HEAD_END,
        POST("/refuse", "5"),
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END
        "3\r\nabcd",
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

/* There is room for the end only when the client has read the body. */
TEST(says_the_end_to_a_slow_reader)
{
    struct wire *w = served_connect_narrow();
    struct wire_answer a;

    assert_true(wire_send_text(w, "GET /big?size=10000000 HTTP/1.1\r\n"
                                  "Connection: close\r\n" HEAD_END));
    assert_true(wire_answer(w, &a, false));
    served_assert_pattern(&a, 10000000);
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
bid_farewell(void)
{
    stream_close(last, 1001, "over");
}

TEST(says_the_end_of_a_stream, streamed_open, streamed_close)
{
    struct wire *w = streamed_upgrade(served_connect(), NULL);
    struct wire_frame f;

    served_on_service(bid_farewell);
    assert_true(wire_frame(w, &f));
    assert_int_equal(wire_close_code(&f), 1001);
    assert_true(wire_send_frame(w, WIRE_CLOSE, true, f.payload, f.size));
    assert_good_end(w);
}

TEST(says_the_end_when_the_server_ends, streamed_open, streamed_close)
{
    struct wire *kept = served_connect(),
                *stream = streamed_upgrade(served_connect(), NULL),
                *cut = served_connect_narrow();
    struct wire_answer a;

    served_assert_kept(kept);
    assert_true(wire_send_text(cut, GET("/big?size=10000000")));
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

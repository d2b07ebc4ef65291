/*
 * tls_test.c - the broker with --tls-cert and --tls-key: https and wss, for
 * clients that are not ours (curl, openssl s_client) and for tidings.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/crowd.h"
#include "tests/support/follower.h"
#include "tests/support/patience.h"
#include "tests/support/sanitized.h"
#include "tests/support/source.h"
#include "tests/support/tls_stage.h"
#include "tests/support/walk.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define SET     TLS_SET
#define CURL    "/usr/bin/curl"
#define OPENSSL "/usr/bin/openssl"

static int
set_stage(void **state)
{
    TLS_STAGE_OPEN(state, "--heartbeat", "0.5", "--request-timeout", "3",
                   "--rotate-entries", "5", "--tail-bytes", "8M", "--threads",
                   "2");
    return 0;
}

#define RUN(s, ...) tls_stage_run(s, (const char *const[]){__VA_ARGS__, NULL})

/* Options */

static void
assert_said(int status, int expected, const char *said, const char *words)
{
    if (status != expected || !strstr(said, words))
        fail_msg("it ended with %d and said: %s", status, said);
}

FIXTURE(set_stage, tls_stage_teardown);

TEST(the_two_files_belong_together)
{
    struct tls_stage *s = *state;
    char said[2000];

    assert_said(
        broker_run(said, sizeof(said), "--tls-cert", s->certificate.cert, NULL),
        2, said, "--tls-key is missing");
    assert_said(
        broker_run(said, sizeof(said), "--tls-key", s->certificate.key, NULL),
        2, said, "--tls-cert is missing");
    assert_said(broker_run(said, sizeof(said), "--listen", "127.0.0.1:0",
                           "--data", s->dir.path, "--tls-cert",
                           s->certificate.cert, "--tls-key", "/no/such/key",
                           NULL),
                1, said, "/no/such/key: No such file");
    assert_said(broker_run(said, sizeof(said), "--listen", "127.0.0.1:0",
                           "--data", s->dir.path, "--tls-cert",
                           s->certificate.key, "--tls-key", s->certificate.key,
                           NULL),
                1, said, "there is no certificate in it");
    /* --check finds it before a start does, and writes nothing. */
    assert_said(broker_run(said, sizeof(said), "--check", "--data",
                           s->broker.data, "--tls-cert", s->certificate.cert,
                           "--tls-key", "/no/such/key", NULL),
                2, said, "/no/such/key: No such file");
    assert_said(broker_run(said, sizeof(said), "--check", "--data",
                           s->broker.data, "--tls-cert", s->certificate.key,
                           "--tls-key", s->certificate.key, NULL),
                2, said, "there is no certificate in it");
    assert_said(broker_run(said, sizeof(said), "--check", "--data",
                           s->broker.data, "--tls-cert", s->certificate.cert,
                           "--tls-key", s->certificate.key, NULL),
                0, said, "settings are good");
    /* TLS does not say who may publish. */
    assert_said(broker_run(said, sizeof(said), "--listen", "0.0.0.0:0",
                           "--public-url", "https://example.com", "--tls-cert",
                           s->certificate.cert, "--tls-key", s->certificate.key,
                           "--check", NULL),
                2, said, "give --insecure-open");
}

static bool
is_in_log(const struct broker *b, const char *words)
{
    char line[1000];
    bool is_there = false;
    FILE *f = fopen(b->log, "re");

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        is_there = is_there || strstr(line, words);
    fclose(f);
    return is_there;
}

TEST(a_key_that_others_can_read_and_an_old_certificate_are_warned_about)
{
    struct tls_stage *s = *state;
    struct certificate_wish old = {.is_expired = true};

    assert_false(is_in_log(&s->broker, "warning"));
    broker_stop(&s->broker);
    certificate_make(&s->certificate, s->dir.path, &old);
    assert_int_equal(chmod(s->certificate.key, 0640), 0);
    broker_restart(&s->broker);
    assert_true(is_in_log(&s->broker, "key.pem is open to others (mode 640)"));
    assert_true(is_in_log(&s->broker, "cert.pem has expired"));
}

/* Others' clients */

/* what names itself, names itself by https. */
TEST(curl_reads_and_posts)
{
    struct tls_stage *s = *state;
    char changes[200], body[300], from[310], format[] = "%{http_code}\n";
    struct buf entries;
    FILE *f = NULL;

    snprintf(changes, sizeof(changes), "%s/changes", s->set_url);
    snprintf(body, sizeof(body), "%s/body.json", s->dir.path);
    snprintf(from, sizeof(from), "@%s", body);
    buf_init(&entries, 64 << 20);
    source_entries(&entries, 0, 160, 65000); /* 10 MB */
    assert_true(entries.size > 10000000);
    f = fopen(body, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(entries.data, 1, entries.size, f), entries.size);
    assert_int_equal(fclose(f), 0);
    buf_fini(&entries);

    assert_int_equal(RUN(s, CURL, "-sS", "--cacert", s->certificate.ca, "-H",
                         "Content-Type: application/json", "--data-binary",
                         from, "-w", format, changes),
                     0);
    assert_non_null(strstr(s->command.out_text, "\"last\":160"));
    assert_non_null(strstr(s->command.out_text, "200\n"));
    snprintf(changes, sizeof(changes), "%s/changelist.xml", s->set_url);
    assert_int_equal(
        RUN(s, CURL, "-sSI", "--cacert", s->certificate.ca, changes), 0);
    assert_memory_equal(s->command.out_text, "HTTP/1.1 200 OK", 15);
    assert_int_equal(http_get(&s->http, "/sets/" SET "/changelist.xml"), 200);
    assert_non_null(memmem(s->http.body.data, s->http.body.size, s->set_url,
                           strlen(s->set_url)));
    assert_null(memmem(s->http.body.data, s->http.body.size, "http://127",
                       strlen("http://127")));

    /* Nobody is trusted by default. */
    unsetenv("CURL_CA_BUNDLE");
    assert_int_equal(RUN(s, CURL, "-sS", s->broker.url), 60);
}

TEST(openssl_asks_twice_in_one_go)
{
    struct tls_stage *s = *state;
    const char *const argv[] = {
        OPENSSL,   "s_client",        "-quiet",   "-verify_return_error",
        "-CAfile", s->certificate.ca, "-connect", s->broker.listen,
        NULL};
    char requests[400];
    const char *first = NULL;

    snprintf(requests, sizeof(requests),
             "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n"
             "GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
             s->broker.listen, s->broker.listen);
    command_start(&s->command, argv);
    assert_int_equal(write(s->command.in, requests, strlen(requests)),
                     strlen(requests));
    assert_int_equal(command_end(&s->command), 0);
    first = strstr(s->command.out_text, "HTTP/1.1 200 OK");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "HTTP/1.1 200 OK"));
}

/* All of the history, by its documents (R-130 and those of walk.h). */
TEST(a_pull_client_finds_everything)
{
    struct tls_stage *s = *state;
    struct walk w;

    for (unsigned i = 0; i < 12; i++)
        source_post(&s->http, SET, i, 1, 0);
    walk_open(&w, &s->broker, SET);
    walk_all(&w);
    assert_int_equal(w.trace.last, 12);
    walk_close(&w);
}

/* tidings */

static void
assert_line(struct tls_stage *s, uint64_t seq)
{
    char start[32];

    snprintf(start, sizeof(start), "%" PRIu64 " ", seq);
    assert_memory_equal(command_line(&s->command), start, strlen(start));
}

/* over wss as well, across a crash of the broker. */
TEST(follow_goes_on_after_a_crash)
{
    struct tls_stage *s = *state;

    source_post(&s->http, SET, 0, 2, 0);
    command_start(&s->command,
                  (const char *const[]){TIDINGS, "follow", s->set_url,
                                        "--from-start", NULL});
    assert_line(s, 1);
    assert_line(s, 2);
    for (uint64_t seq = 3; seq <= 9; seq += 2) {
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
        source_post(&s->http, SET, (unsigned)seq, 2, 0);
        assert_line(s, seq);
        assert_line(s, seq + 1);
    }
    kill(s->command.pid, SIGINT);
    assert_int_equal(command_end(&s->command), 0);
}

/* libcurl's, of a name and of an address. */
#define MISMATCH "no alternative certificate subject name matches"

/* Who follows says so each time it tries, and tells of no change. */
static void
expect_distrust(struct tls_stage *s, const char *why)
{
    command_start(&s->command,
                  (const char *const[]){TIDINGS, "follow", s->set_url,
                                        "--from-start", "--verbose", NULL});
    command_complains(&s->command, why);
    kill(s->command.pid, SIGINT);
    assert_int_equal(command_end(&s->command), 0);
    assert_string_equal(s->command.out_text, "");
}

TEST(a_certificate_that_nobody_vouches_for_is_told)
{
    struct tls_stage *s = *state;

    unsetenv("CURL_CA_BUNDLE");
    assert_int_equal(RUN(s, TIDINGS, "publish", s->set_url, "--change",
                         "created", "http://example.com/1"),
                     1);
    assert_non_null(strstr(s->command.err_text, "certificate"));
    assert_int_equal(RUN(s, TIDINGS, "publish", s->set_url, "--cacert",
                         "/no/such/file", "--change", "created",
                         "http://example.com/1"),
                     1);
    assert_non_null(strstr(s->command.err_text, "/no/such/file"));
    assert_int_equal(RUN(s, TIDINGS, "publish", s->set_url, "--cacert",
                         s->certificate.ca, "--change", "created",
                         "http://example.com/1"),
                     0);

    expect_distrust(s, "unable to get local issuer");
    assert_int_equal(RUN(s, TIDINGS, "follow", s->set_url, "--cacert",
                         s->certificate.ca, "--from-start", "--count", "1"),
                     0);
    assert_memory_equal(s->command.out_text, "1 ", 2);
}

/* Of another host, or out of date: whoever signed it. */
TEST(a_certificate_must_be_of_that_host_and_time)
{
    static const struct {
        struct certificate_wish wish;
        const char *words;
    } cases[] = {
        {{.names = "DNS:example.com"}, MISMATCH},
        {{.is_expired = true}, "certificate has expired"},
    };
    struct tls_stage *s = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        broker_stop(&s->broker);
        certificate_make(&s->certificate, s->dir.path, &cases[i].wish);
        broker_restart(&s->broker);
        assert_int_equal(RUN(s, TIDINGS, "publish", s->set_url, "--retry", "0",
                             "--change", "created", "http://example.com/1"),
                         1);
        expect_distrust(s, cases[i].words);
    }
}

/* The address in the URL is what the certificate must be of, in IPv6 as well:
 * of "::1" it is, of "::2" it is not. */
TEST(an_address_of_ipv6_is_a_name)
{
    static const struct {
        struct certificate_wish wish;
        bool is_good;
    } cases[] = {{{.names = "IP:::1"}, true}, {{.names = "IP:::2"}, false}};
    struct tls_stage *s = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        broker_stop(&s->broker);
        certificate_make(&s->certificate, s->dir.path, &cases[i].wish);
        snprintf(s->broker.listen, sizeof(s->broker.listen), "[::1]:%u",
                 s->broker.port);
        broker_restart(&s->broker);
        snprintf(s->set_url, sizeof(s->set_url), "%s/sets/" SET, s->broker.url);
        assert_int_equal(RUN(s, TIDINGS, "publish", s->set_url, "--retry", "0",
                             "--change", "created", "http://example.com/1"),
                         !cases[i].is_good);
        if (cases[i].is_good)
            assert_int_equal(RUN(s, TIDINGS, "follow", s->set_url,
                                 "--from-start", "--count", "1"),
                             0);
        else
            expect_distrust(s, MISMATCH);
    }
}

/* Crowds */

#define SUBSCRIBERS 200
#define STALLED     20

/* The tail, which has all; for each of two threads the frames that are under
 * way, and those that are kept for others; a message of a megabyte for each who
 * is stalled, as TLS keeps it; and 8 for the rest. A queue for each of them
 * would take 420 MB. */
#define GROWTH_KIB ((21 + 2 * (16 + 4) + STALLED + 8) * 1024)

/* R-310 over TLS, where a write that is not taken is kept whole. */
TEST(who_does_not_read_costs_nobody_anything)
{
    struct tls_stage *s = *state;
    struct crowd *c = crowd_new(SUBSCRIBERS, 4096);
    size_t before_kib, most_kib = 0;
    uint64_t last = source_post(&s->http, SET, 0, 1, 0).last;

    crowd_speak_tls(c);
    for (size_t i = 0; i < SUBSCRIBERS; i++)
        crowd_join(c, s->broker.port, "/sets/" SET "/stream?after=0",
                   i % 10 == 3 ? NOTICE_JSON : NOTICE_XML, i < STALLED);
    crowd_read_until(c, last, PATIENCE_MS);
    for (size_t i = 0; i < STALLED; i++)
        crowd_stop_reading(c, i);
    before_kib = broker_rss_kib(&s->broker);
    for (unsigned i = 0; i < 40; i++) {
        size_t kib = 0;

        last =
            source_post(&s->http, SET, i, i % 2 ? 16 : 10, i % 2 ? 65000 : 3000)
                .last;
        crowd_read_until(c, last, PATIENCE_MS);
        kib = broker_rss_kib(&s->broker);
        most_kib = kib > most_kib ? kib : most_kib;
    }
    print_message("the broker grew from %zu KiB to %zu KiB\n", before_kib,
                  most_kib);
    if (!IS_SANITIZED)
        assert_in_range(most_kib, 0, before_kib + GROWTH_KIB);
    for (size_t i = 0; i < STALLED; i++) {
        assert_int_equal(crowd_last(c, i), 1);
        crowd_read_again(c, i);
    }
    crowd_read_until(c, last, PATIENCE_MS);
    for (size_t i = 0; i < SUBSCRIBERS; i++)
        assert_int_equal(crowd_last(c, i), last);
    crowd_free(c);
}

/* The others are served meanwhile, and the halves are ended in time. */
TEST(half_a_handshake_costs_nobody_anything)
{
    enum { N = 200 };
    struct tls_stage *s = *state;
    struct wire *w[N];

    for (int i = 0; i < N; i++) {
        w[i] = wire_connect("127.0.0.1", s->broker.port);
        assert_non_null(w[i]);
        assert_true(
            wire_send(w[i], "\x16\x03\x01\x02\x00\x01\x00", (size_t)(i % 8)));
    }
    assert_int_equal(source_post(&s->http, SET, 0, 1, 0).last, 1);
    for (int i = 0; i < N; i++) {
        assert_true(wire_is_ended(w[i]));
        wire_close(w[i]);
    }
}

/* SIGTERM: everybody is told, in both languages. */
TEST(says_farewell_and_the_end)
{
    struct tls_stage *s = *state;
    struct follower f;
    static const char going_away[] = "\x03\xe9";

    source_post(&s->http, SET, 0, 1, 0);
    follower_open_tls(&f, s->broker.port, "/sets/" SET "/stream?after=0",
                      "resourcesync.xml");
    follower_until(&f, 1);
    kill(s->broker.pid, SIGTERM);
    follower_expect_close(&f, 1001);
    assert_true(wire_send_frame(f.wire, WIRE_CLOSE, true, going_away, 2));
    assert_int_equal(broker_wait(&s->broker), 0);
    assert_true(wire_is_ended(f.wire));
    assert_true(wire_end_is_said(f.wire));
    follower_close(&f);
}

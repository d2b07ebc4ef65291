/*
 * tls_meetings_test.c - over TLS as without it: event streams, requests that
 * wait, parts and gzip of closed lists, removal, and tidings with --cacert.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/source.h"
#include "tests/support/tls_stage.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"
#define SET     "/sets/" TLS_SET
#define LIST    SET "/changes/000000000001.xml"

static int
set_stage(void **state)
{
    TLS_STAGE_OPEN(state, "--heartbeat", "0.2", "--remove-grace", "0");
    return 0;
}

static struct wire *
connect_tls(struct tls_stage *s)
{
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);

    assert_non_null(w);
    assert_true(wire_start_tls(w, 0));
    return w;
}

static void
remove_set(struct tls_stage *s)
{
    assert_int_equal(http_ask(&s->http, "DELETE", SET, NULL), 204);
}

/* Reads on until `text` is among what has come; false: the stream has ended. */
static bool
await_text(struct wire *w, struct buf *got, const char *text)
{
    char some[4096];
    long n;

    while (!got->size || !memmem(got->data, got->size, text, strlen(text))) {
        n = wire_read_some(w, some, sizeof(some));
        if (n <= 0)
            return false;
        buf_add(got, some, (size_t)n);
    }
    return true;
}

FIXTURE(set_stage, tls_stage_teardown);

/* The end of a stream is said, by its last chunk and by TLS: nobody can have
 * cut it off. */
TEST(an_event_stream_goes_on_and_ends_with_its_set)
{
    struct tls_stage *s = *state;
    struct wire *w = connect_tls(s);
    struct wire_answer a;
    struct buf got;

    buf_init(&got, 64 << 20);
    source_post(&s->http, "news", 1, 3, 0);
    assert_true(wire_send_text(w, "GET " SET "/stream?after=0 HTTP/1.1\r\n"
                                  "Host: 127.0.0.1\r\n"
                                  "Accept: text/event-stream\r\n\r\n"));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(a.status, 200);
    assert_true(await_text(w, &got, "-3\nevent: changes\n"));
    buf_clear(&got);
    assert_true(await_text(w, &got, "-3\nevent: heartbeat\n"));
    source_post(&s->http, "news", 4, 20, 100000); /* many records */
    assert_true(await_text(w, &got, "-23\nevent: "));
    remove_set(s);
    assert_true(await_text(w, &got, "event: removed\n"));
    assert_true(await_text(w, &got, "\r\n0\r\n\r\n"));
    assert_true(wire_is_ended(w));
    assert_true(wire_end_is_said(w));
    buf_fini(&got);
    wire_close(w);
}

TEST(a_request_that_waits_is_answered)
{
    struct tls_stage *s = *state;
    struct wire *w = connect_tls(s);
    struct wire_answer a;

    source_post(&s->http, "news", 1, 3, 0);
    for (int round = 0; round < 2; round++) {
        assert_true(wire_send_format(w,
                                     "GET " SET "/changes?after=%d&wait=60 "
                                     "HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                                     3 + round));
        if (round == 0)
            source_post(&s->http, "news", 4, 1, 0);
        else
            remove_set(s);
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, round ? 410 : 200);
        assert_non_null(strstr(a.body, round ? "was removed" : "\"seq\":4"));
    }
    wire_close(w);
}

/* Bytes from memory, from the file, and the file itself. */
TEST(parts_and_gzip_of_a_closed_list_are_its_bytes)
{
    static const char *const ranges[] = {"bytes=0-0", "bytes=65530-200000",
                                         "bytes=3000000-3700000", "bytes=-11"};
    struct tls_stage *s = *state;
    struct http *h = &s->http;
    struct buf whole;
    char header[80];

    buf_init(&whole, 64 << 20);
    source_post(h, "news", 1, 60, 65000); /* 4 MB */
    source_rotate(h, "news");
    assert_int_equal(http_get(h, LIST), 200);
    buf_add_slice(&whole, buf_slice(&h->body));
    assert_true(whole.size > 3800000);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 4; i++) {
            unsigned long first = 0, last = 0;

            snprintf(header, sizeof(header), "Range: %s", ranges[i]);
            assert_int_equal(http_ask(h, "GET", LIST, header, NULL), 206);
            assert_int_equal(sscanf(http_header(h, "Content-Range"),
                                    "bytes %lu-%lu", &first, &last),
                             2);
            assert_int_equal(h->body.size, last - first + 1);
            assert_memory_equal(h->body.data, whole.data + first, h->body.size);
        }
        do { /* until its file is there */
            assert_int_equal(
                http_ask(h, "GET", LIST, "Accept-Encoding: gzip", NULL), 200);
        } while (!http_header(h, "Content-Encoding"));
        assert_memory_equal(h->body.data, "\x1f\x8b", 2);
        assert_true(h->body.size < whole.size);
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
    }
    buf_fini(&whole);
}

#define RUN(s, ...) \
    tls_stage_run(s, (const char *const[]){TIDINGS, __VA_ARGS__, NULL})

/* Without it nobody is trusted, and nothing is posted. */
TEST(every_command_takes_cacert)
{
    struct tls_stage *s = *state;
    const char *ca = s->certificate.ca;
    char dir[320], file[340];
    FILE *f;

    snprintf(dir, sizeof(dir), "%s/files", s->dir.path);
    snprintf(file, sizeof(file), "%s/a.txt", dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    f = fopen(file, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);

    unsetenv("CURL_CA_BUNDLE");
    assert_int_equal(RUN(s, "set", "create", s->set_url), 1);
    assert_non_null(strstr(s->command.err_text, "certificate"));
    assert_int_equal(RUN(s, "get", s->set_url), 1);
    assert_non_null(strstr(s->command.err_text, "certificate"));
    assert_int_equal(RUN(s, "watch", dir, s->set_url, "--base-uri",
                         "http://example.com/", "--once"),
                     1);
    assert_non_null(strstr(s->command.err_text, "certificate"));
    setenv("CURL_CA_BUNDLE", ca, 1);
    assert_int_equal(http_get(&s->http, SET), 404);
    unsetenv("CURL_CA_BUNDLE");

    assert_int_equal(
        RUN(s, "set", "create", s->set_url, "--cacert", ca, "--title", "News"),
        0);
    assert_string_equal(s->command.out_text, "created\n");
    assert_int_equal(RUN(s, "watch", dir, s->set_url, "--base-uri",
                         "http://example.com/", "--once", "--cacert", ca),
                     0);
    assert_memory_equal(s->command.out_text, "first=1 last=1 ", 15);
    assert_int_equal(RUN(s, "get", s->set_url, "--cacert", ca), 0);
    assert_non_null(strstr(s->command.out_text, "News\n"));
    assert_non_null(strstr(s->command.out_text, "https://"));
    assert_null(strstr(s->command.out_text, "http://"));
    assert_int_equal(RUN(s, "set", "show", s->set_url, "--cacert", ca), 0);
    assert_non_null(strstr(s->command.out_text, "News\n"));
    assert_int_equal(RUN(s, "set", "delete", s->set_url, "--cacert", ca), 0);
    assert_int_equal(RUN(s, "get", s->set_url, "--cacert", ca), 3);
    assert_non_null(strstr(s->command.err_text, "was removed"));
}

/*
 * fetch_test.c - one HTTP exchange on the handle's loop.
 */
#include "client/lib/fetch.h"

#include "tests/clock.h"
#include "tests/support/gzip.h"
#include "tests/test.h"
#include "tests/unit/lib/fetch_stage.h"

FIXTURE(set_stage, clear_stage);

TEST(tells_what_the_answer_says)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};

    site_put(s.site, "/a", "text/plain", SLICE("body"));
    site_headers(s.site, "/a", "Link: <b>; rel=\"next\"\r\nlink: <c>; rel=up");
    run(&request, false);

    assert_int_equal(s.why.rc, STATUS_OK);
    assert_int_equal(s.status, 200);
    assert_true(slice_is(buf_slice(&s.body), "body"));
    assert_string_equal(s.link, "<b>; rel=\"next\", <c>; rel=up");
    assert_true(s.etag[0] == '"');
    assert_string_equal(s.url, site_link(s.site, "/a"));
}

/* In any version: nobody asked for another protocol, and its end could not be
 * found. */
TEST(a_101_is_no_answer)
{
    const struct slice answers[] = {
        SLICE("HTTP/1.1 101 Switching\r\n\r\nbody"),
        SLICE("HTTP/1.0 101 Switching\r\n\r\nbody"),
    };
    for (size_t i = 0; i < 2; i++) {
        struct fake_broker *b = fake_broker_new();
        struct fetch_request request = {.redirects = 1};

        answer_raw(b, &request, &answers[i], 1);
        assert_int_equal(s.why.rc, STATUS_UNREACHABLE);
        assert_int_equal(s.status, 0);
    }
}

/* RFC 9112 section 7.1.2: fields behind a body in chunks. */
TEST(trailers_change_nothing)
{
    struct fake_broker *b = fake_broker_new();
    struct fetch_request request = {.redirects = 1};
    const struct slice parts[] = {
        SLICE("HTTP/1.1 200 OK\r\nETag: \"a\"\r\n"
              "Transfer-Encoding: chunked\r\n\r\n"
              "4\r\nbody\r\n0\r\nETag: \"b\"\r\nX-Sum: 1\r\n\r\n")};

    answer_raw(b, &request, parts, 1);

    assert_int_equal(s.why.rc, STATUS_OK);
    assert_true(slice_is(buf_slice(&s.body), "body"));
    assert_string_equal(s.etag, "\"a\"");
}

TEST(unpacks_gzip_where_it_was_asked_for)
{
    struct fetch_request request = {.url = site_link(s.site, "/a"),
                                    .takes_gzip = true};

    site_put(s.site, "/a", NULL, SLICE("unpacked"));
    site_gzip(s.site, "/a", true);
    run(&request, false);

    assert_true(slice_is(buf_slice(&s.body), "unpacked"));
    assert_string_equal(site_header(s.site, "/a", 0, "Accept-Encoding"),
                        "gzip");
}

/* codings are undone whether they were asked for or not; one that is
 * unknown, a lie or cut off is a failure; an explanation is taken as it is. */
TEST(codings_are_undone_or_fail)
{
    static const char zlib[] =
        "\x78\x9c\x2b\xc8\x49\xcc\xcc\xe3\x02\x00\x08\x67\x02\x1f";
    struct buf once, twice;

    buf_init(&once, SIZE_MAX / 2);
    buf_init(&twice, SIZE_MAX / 2);
    gzip_add(&once, SLICE("plain\n"));
    gzip_add(&twice, buf_slice(&once));
    struct slice cut = {once.data, once.size - 1};

    const struct {
        const char *coding;
        struct slice body;
        const char *problem; /* NULL: undone */
    } rows[] = {
        {"gzip", buf_slice(&once), NULL},
        {"X-Gzip", buf_slice(&once), NULL},
        {"identity, gzip", buf_slice(&once), NULL},
        {"gzip, gzip", buf_slice(&twice), NULL},
        {"deflate", SLICE(zlib), NULL},
        {"deflate", {zlib + 2, sizeof(zlib) - 7}, NULL}, /* bare */
        {"identity", SLICE("plain\n"), NULL},
        {"br", SLICE("plain\n"), "nobody here undoes the coding: \"br\""},
        {"gzip", SLICE("plain\n"), "not gzip: incorrect header check"},
        {"gzip", cut, "not gzip: it ends before its end"},
        {"gzip, gzip", buf_slice(&once), "not gzip: incorrect header check"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int collects = 0; collects < 2; collects++) {
            struct fetch_request request = {.url = site_link(s.site, "/a")};
            char line[80];

            snprintf(line, sizeof(line), "Content-Encoding: %s",
                     rows[i].coding);
            site_put(s.site, "/a", NULL, rows[i].body);
            site_headers(s.site, "/a", line);
            buf_clear(&s.body);
            run(&request, collects);

            assert_int_equal(s.why.rc,
                             rows[i].problem ? STATUS_MALFORMED : STATUS_OK);
            assert_string_equal(s.why.text,
                                rows[i].problem ? rows[i].problem : "");
            if (!rows[i].problem)
                assert_true(slice_is(buf_slice(&s.body), "plain\n"));
        }
    buf_fini(&once);
    buf_fini(&twice);
}

/* no request line has characters beyond ASCII. */
TEST(an_iri_is_sent_as_a_url)
{
    struct fetch_request request = {
        .url = site_link(s.site, "/\xC3\xA9?x=\xC3\xA9 y")};

    site_put(s.site, "/%C3%A9?x=%C3%A9%20y", NULL, SLICE("body"));
    run(&request, false);

    assert_int_equal(s.status, 200);
}

TEST(a_longer_answer_than_it_may_be_is_broken)
{
    struct fetch_request request = {.url = site_link(s.site, "/a"),
                                    .max_bytes = 9};

    site_put(s.site, "/a", NULL, SLICE("0123456789"));
    run(&request, false);

    assert_int_equal(s.why.rc, STATUS_MALFORMED);
    assert_string_equal(s.why.text, "the answer is longer than 9 bytes");
}

/* libcurl holds back the piece that is too long, and others follow it. */
TEST(a_longer_answer_is_broken_after_a_pause_too)
{
    struct fake_broker *b = fake_broker_new();
    struct fetch_request request = {.url = fake_broker_url(b),
                                    .max_bytes = 1 + 8 * 16384 + 100};
    char *bytes = big();
    struct buf rest;

    buf_init(&rest, BIG);
    for (int i = 0; i < 8; i++) /* as much as may wait to be handed over */
        buf_add_format(&rest, "4000\r\n%.*s\r\n", 16384, bytes);
    buf_add_format(&rest, "c8\r\n%.*s\r\n", 200, bytes);
    fake_plain(b);
    fake_raw(b, SLICE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "1\r\n!\r\n"));
    fake_wait(b);
    fake_raw(b, buf_slice(&rest));
    fake_wait(b);
    fake_raw(b, SLICE("1\r\n!\r\n0\r\n\r\n"));
    fake_broker_start(b);
    s.pause_at = 1;
    run(&request, true);
    AWAIT(fake_n_rests(b) == 1);
    fake_go(b);
    AWAIT((td_service(s.client) == TD_OK && fake_n_rests(b) == 2));
    for (int i = 0; i < 20; i++)
        assert_int_equal(td_service(s.client), TD_OK);
    fake_go(b);
    fetch_hold(s.fetch, false);
    turn();

    assert_int_equal(s.why.rc, STATUS_MALFORMED);
    assert_string_equal(s.why.text, "the answer is longer than 131173 bytes");
    fake_broker_free(b);
    buf_fini(&rest);
    free(bytes);
}

TEST(a_connection_that_breaks_in_the_body_is_told)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};

    site_put(s.site, "/a", NULL, SLICE("0123456789"));
    site_cut(s.site, "/a", 4);
    run(&request, true);

    assert_int_equal(s.why.rc, STATUS_UNREACHABLE);
    assert_int_equal(s.status, 0);
    assert_true(slice_is(buf_slice(&s.body), "0123"));
}

/* A pause buffers no more bytes, and loses none. */
TEST(a_pause_holds_back_what_comes_and_loses_nothing)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};
    char *bytes = big();

    site_put(s.site, "/a", NULL, (struct slice){bytes, BIG});
    s.pause_at = 1;
    run(&request, true);
    for (int i = 0; i < 100; i++)
        assert_int_equal(td_service(s.client), TD_OK);
    assert_int_equal(s.n_bodies, 1);

    fetch_hold(s.fetch, false);
    turn();

    assert_int_equal(s.why.rc, STATUS_OK);
    assert_int_equal(s.body.size, BIG);
    assert_memory_equal(s.body.data, bytes, BIG);
    free(bytes);
}

TEST(may_be_freed_while_it_hands_over)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};
    char *bytes = big();

    site_put(s.site, "/a", NULL, (struct slice){bytes, BIG});
    s.free_at = 1;
    run(&request, true);

    assert_int_equal(td_service(s.client), TD_OK);

    assert_int_equal(s.n_bodies, 1);
    free(bytes);
}

TEST(who_has_enough_ends_it)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};
    char *bytes = big();

    site_put(s.site, "/a", NULL, (struct slice){bytes, BIG});
    s.enough_at = 2;
    run(&request, true);

    assert_int_equal(s.why.rc, STATUS_STOPPED);
    assert_int_equal(s.n_bodies, 2);
    free(bytes);
}

/* host_places.h */
TEST(so_many_are_under_way_at_a_host)
{
    struct stage held[8];
    struct fetch_request request = {.url = site_link(s.site, "/a")};

    host_places_set(&s.client->places, 3);
    site_put(s.site, "/a", NULL, SLICE("x"));
    site_hold(s.site, "/a");
    for (size_t i = 0; i < 8; i++) {
        memset(&held[i], 0, sizeof(held[i]));
        held[i].client = s.client;
        buf_init(&held[i].body, 100);
        start_for(&held[i], &request, false);
    }
    AWAIT((td_service(s.client) == TD_OK && site_count(s.site, "/a") == 3));
    site_release(s.site, "/a");
    for (size_t i = 0; i < 8; i++) {
        if (!held[i].is_over)
            assert_int_equal(
                handle_loop_until(s.client->loop, &held[i].is_over), STATUS_OK);
        assert_int_equal(held[i].status, 200);
        buf_fini(&held[i].body);
    }
    assert_int_equal(site_max_parallel(s.site), 3);
    assert_int_equal(site_connections(s.site), 3);
}

TEST(one_that_waits_may_be_freed)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};
    struct stage waits = {.client = s.client};

    host_places_set(&s.client->places, 1);
    site_put(s.site, "/a", NULL, SLICE("x"));
    site_hold(s.site, "/a");
    start(&request, false);
    start_for(&waits, &request, false);
    AWAIT((td_service(s.client) == TD_OK && site_count(s.site, "/a") == 1));
    fetch_free(waits.fetch);
    site_release(s.site, "/a");
    turn();
    assert_int_equal(s.status, 200);
    run(&request, false);
    assert_int_equal(site_count(s.site, "/a"), 2);
}

/* The word of a host holds for all requests: a short pause is waited for, a
 * long one is told without a request. */
TEST(a_host_that_asks_for_patience_gets_it)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};
    struct fetch_request other = {.url = site_link(s.site, "/b")};

    site_put(s.site, "/b", NULL, SLICE("x"));
    site_status(s.site, "/a", 429, "Retry-After: 60", 1);
    run(&request, false);
    assert_int_equal(s.status, 429);
    start(&other, false);
    for (int i = 0; i < 20; i++)
        assert_int_equal(td_service(s.client), TD_OK);
    assert_int_equal(site_count(s.site, "/b"), 0);
    clock_pass_us(60 * INT64_C(1000000));
    turn();
    assert_int_equal(s.status, 200);

    site_status(s.site, "/a", 503, "Retry-After: 90", 1);
    run(&request, false);
    run(&other, false);
    assert_int_equal(s.status, 503);
    assert_int_equal(s.why.rc, STATUS_OK);
    assert_int_equal(s.why.retry_after_s, 90);
    assert_int_equal(site_count(s.site, "/b"), 1);
    clock_pass_us(90 * INT64_C(1000000));
    run(&other, false);
    assert_int_equal(s.status, 200);
}

TEST(nobody_there_is_unreachable)
{
    struct fetch_answer answer;
    char url[100];
    struct fetch_request request = {.url = url};

    snprintf(url, sizeof(url), "%s/", site_url(s.other));
    site_free(s.other);
    s.other = NULL;

    assert_int_equal(fetch_run(s.client, &request, NULL, NULL, &answer),
                     STATUS_UNREACHABLE);
    /* The same each time: not how long it took. */
    assert_non_null(strstr(td_problem(s.client), "connect"));
    assert_null(strstr(td_problem(s.client), " ms"));

    assert_int_equal(answer.status, 0);
    assert_false(answer.is_sent);
    assert_non_null(strstr(td_problem(s.client), "onnect"));
    buf_fini(&answer.body);
}

/* In the head, too, of which libcurl sees no end. */
TEST(an_answer_that_is_cut_anywhere_is_none)
{
    static const char whole[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    struct fake_broker *b = fake_broker_new();
    struct fetch_request request = {.url = fake_broker_url(b)};
    struct fetch_answer answer;

    for (size_t n = 1; n < sizeof(whole); n++) {
        fake_plain(b);
        fake_raw(b, (struct slice){whole, n});
    }
    fake_broker_start(b);
    for (size_t n = 1; n < sizeof(whole) - 1; n++) {
        assert_int_equal(fetch_run(s.client, &request, NULL, NULL, &answer),
                         STATUS_UNREACHABLE);
        assert_int_equal(answer.status, 0);
        buf_fini(&answer.body);
    }
    assert_int_equal(fetch_run(s.client, &request, NULL, NULL, &answer),
                     STATUS_OK);
    assert_int_equal(answer.status, 200);
    buf_fini(&answer.body);
    fake_broker_free(b);
}

/* Two lengths say that nobody knows where it ends; the same twice is one. */
TEST(an_answer_with_two_lengths_is_none)
{
    static const struct {
        const char *lengths;
        enum status rc;
    } rows[] = {
        {"Content-Length: 4\r\nContent-Length: 2\r\n", STATUS_MALFORMED},
        {"Content-Length: 2\r\ncontent-length: 4\r\n", STATUS_MALFORMED},
        {"Content-Length: 4\r\nContent-Length: 0\r\n", STATUS_MALFORMED},
        {"Content-Length: 2, 4\r\n", STATUS_MALFORMED},
        {"Content-Length: 4\r\nContent-Length: 4\r\n", STATUS_OK},
        {"Content-Length: 4\r\n", STATUS_OK},
    };
    struct fake_broker *b = fake_broker_new();
    struct fetch_request request = {.url = fake_broker_url(b)};
    struct fetch_answer answer;
    char text[200];

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n%s\r\nbody",
                 rows[i].lengths);
        fake_plain(b);
        fake_raw(b, slice_of(text));
    }
    fake_broker_start(b);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        assert_int_equal(fetch_run(s.client, &request, NULL, NULL, &answer),
                         rows[i].rc);
        assert_int_equal(answer.body.size, rows[i].rc ? 0 : 4);
        buf_fini(&answer.body);
    }
    fake_broker_free(b);
}

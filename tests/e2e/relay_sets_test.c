/*
 * relay_sets_test.c - tidings relay between real brokers, any of which, and the
 * relay itself, are killed again and again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/relays.h"
#include "tests/support/site.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

/* A relay's source has to be there; its target is made by the first post. */
#define LIST(of)                                                     \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"            \
    "<rs:md capability=\"" of "\"/>"

static void
make_set(struct lists *l)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};

    assert_int_equal(
        http_request(&l->http, "PUT", "/sets/" LISTS_SET, json, SLICE("{}")),
        201);
}

static size_t
count_of(const char *text, const char *part)
{
    size_t n = 0;

    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

FIXTURE(relays_setup, relays_teardown);

/* along a chain of three brokers. */
TEST(a_chain_keeps_via_and_drops_what_is_not_true_any_more)
{
    struct relays *s = *state;
    const char *text;

    assert_int_equal(
        source_send(&s->brokers[0].http, LISTS_SET, "application/json",
                    SLICE("[{\"loc\":\"http://a.example/1\",\"change\":"
                          "\"updated\",\"length\":3,\"tags\":[\"x\"],"
                          "\"datetime\":\"2026-01-01T00:00:00Z\",\"links\":["
                          "{\"rel\":\"collection\",\"href\":\"http://c/\"},"
                          "{\"rel\":\"describes\",\"href\":\"http://d/\"}],"
                          "\"attributes\":[{\"ns\":\"u:x\",\"name\":\"n\","
                          "\"value\":\"v\"}]},"
                          "{\"loc\":\"http://a.example/2\",\"change\":"
                          "\"deleted\"}]"),
                    NULL),
        200);
    make_set(&s->brokers[1]);
    relays_start(&s->relays[0]);
    relays_start(&s->relays[1]);
    relays_await(&s->brokers[2], 2);

    for (size_t i = 1; i < 3; i++) {
        text = relays_changes(&s->brokers[i], "after=0").data;
        assert_int_equal(count_of(text, "\"rel\":\"via\""), 2);
        assert_int_equal(count_of(text, "{\"rel\":\"via\",\"href\":\"http://"
                                        "a.example/1\"}"),
                         1);
        assert_int_equal(count_of(text, "{\"rel\":\"via\",\"href\":\"http://"
                                        "a.example/2\"}"),
                         1);
        assert_null(strstr(text, "collection"));
        assert_null(strstr(text, "2026-01-01T00:00:00"));
        assert_non_null(strstr(text, "\"rel\":\"describes\""));
        assert_non_null(strstr(text, "\"tags\":[\"x\"]"));
        assert_non_null(strstr(text, "{\"ns\":\"u:x\",\"name\":\"n\",\"value\":"
                                     "\"v\"}"));
        assert_int_equal(count_of(text, "urn:tidings:relay:1"), 2);
    }
}

/* A ring comes to rest: nobody gets an entry again. */
TEST(a_ring_comes_to_rest)
{
    struct relays *s = *state;

    for (size_t i = 0; i < N_RELAYS; i++)
        source_post(&s->brokers[i].http, LISTS_SET, (unsigned)i * 10 + 1, 10,
                    0);
    for (size_t i = 0; i < N_RELAYS; i++)
        relays_start(&s->relays[i]);
    for (size_t i = 0; i < N_RELAYS; i++)
        relays_await(&s->brokers[i], 30);

    /* One more, which has to go all the way round behind all others. */
    source_post(&s->brokers[0].http, LISTS_SET, 31, 1, 0);
    relays_await(&s->brokers[2], 31);
    source_post(&s->brokers[2].http, LISTS_SET, 32, 1, 0);
    for (size_t i = 0; i < N_RELAYS; i++)
        relays_await(&s->brokers[i], 32);
}

/* 50,000 changes through two relays, while relays and brokers are
 * killed by chance: each is at the end once, in its order. */
TEST(nothing_is_lost_or_doubled_whoever_is_killed)
{
    struct relays *s = *state;
    unsigned n = 0, dice = 12345;

    make_set(&s->brokers[0]);
    make_set(&s->brokers[1]);
    relays_start(&s->relays[0]);
    relays_start(&s->relays[1]);
    while (n < 50000) {
        struct relay *r;
        struct lists *l;

        source_post(&s->brokers[0].http, LISTS_SET, n + 1, 500, 0);
        n += 500;
        dice = dice * 1103515245 + 12345;
        r = &s->relays[(dice >> 16) % 2];
        l = &s->brokers[(dice >> 18) % N_RELAYS];
        switch ((dice >> 20) % 4) {
        case 0:
            relays_kill(r);
            relays_start(r);
            break;
        case 1:
            broker_kill9(&l->broker);
            broker_restart(&l->broker);
            break;
        default:
            break;
        }
    }
    relays_await(&s->brokers[1], n);
    relays_await(&s->brokers[2], n);
    for (size_t i = 0; i < N_RELAYS; i++)
        relays_assert_all(&s->brokers[i], n);
    assert_int_equal(
        count_of(relays_changes(&s->brokers[2], "after=49000").data,
                 "\"rel\":\"via\""),
        1000);
}

TEST(tells_when_the_source_s_history_is_gone)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];

    source_post(&s->brokers[0].http, LISTS_SET, 1, 10, 0);
    assert_int_equal(relays_run(r, &command), 0);
    assert_int_equal(
        http_ask(&s->brokers[0].http, "DELETE", "/sets/" LISTS_SET, NULL), 204);
    source_post(&s->brokers[0].http, LISTS_SET, 1, 10, 0);

    assert_int_equal(relays_run(r, &command), 3);
    assert_non_null(strstr(command.err_text, "cannot be relayed any more"));
    relays_await(&s->brokers[1], 10);
}

/* Nothing can bring back what was relayed before, and nobody should believe
 * that it is there. */
TEST(says_that_the_target_is_gone_or_another)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];

    source_post(&s->brokers[0].http, LISTS_SET, 1, 10, 0);
    assert_int_equal(relays_run(r, &command), 0);
    assert_string_equal(command.err_text, "");
    assert_int_equal(
        http_ask(&s->brokers[1].http, "DELETE", "/sets/" LISTS_SET, NULL), 204);
    assert_int_equal(relays_run(r, &command), 0);
    assert_non_null(strstr(command.err_text, "the target is gone"));

    source_post(&s->brokers[1].http, LISTS_SET, 1, 3, 0);
    assert_int_equal(relays_run(r, &command), 0);
    assert_non_null(strstr(command.err_text, "the target was made anew"));
    source_post(&s->brokers[0].http, LISTS_SET, 11, 1, 0);
    assert_int_equal(relays_run(r, &command), 0);
    assert_int_equal(relays_run(r, &command), 0);
    assert_string_equal(command.err_text, "");
    relays_await(&s->brokers[1], 4);
}

/* An entry that has as many attributes as one may have, and so has no room for
 * its path. */
TEST(says_which_change_the_target_refuses)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];
    char expected[300];
    struct receipt receipt;
    struct buf body;

    receipt = source_post(&s->brokers[0].http, LISTS_SET, 1, 1, 0);
    assert_int_equal(relays_run(r, &command), 0);
    buf_init(&body, 1 << 20);
    BUF_ADD(&body, "[{\"loc\":\"http://a.example/1\",\"change\":"
                   "\"updated\"},{\"loc\":\"http://a.example/2\","
                   "\"change\":\"updated\",\"attributes\":[");
    for (int i = 0; i < 64; i++)
        buf_add_format(&body,
                       "%s{\"ns\":\"u:x\",\"name\":\"n%d\","
                       "\"value\":\"v\"}",
                       i ? "," : "", i);
    BUF_ADD(&body, "]},{\"loc\":\"http://a.example/3\",\"change\":"
                   "\"updated\"}]");
    assert_int_equal(source_send(&s->brokers[0].http, LISTS_SET,
                                 "application/json", buf_slice(&body), NULL),
                     200);
    buf_fini(&body);

    /* Each time: nothing goes past it. */
    snprintf(expected, sizeof(expected),
             "tidings: the target refuses \"http://a.example/2\", and with it "
             "a post of 3 entries; relayed is what the source has up to %s\n",
             receipt.position);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(relays_run(r, &command), 1);
        assert_memory_equal(command.err_text, "tidings: 422: entry 2", 21);
        assert_string_equal(strchr(command.err_text, '\n') + 1, expected);
        relays_await(&s->brokers[1], 1);
    }
}

/* A source of another kind, at a URL such as sets have. */
TEST(says_what_is_none_of_a_set_of_tidings)
{
    static struct command command;
    struct relays *s = *state;
    struct relay *r = &s->relays[0];
    struct site *site = site_new();
    const char *const argv[] = {TIDINGS,
                                "relay",
                                site_link(site, "/sets/x"),
                                r->to,
                                "--state",
                                r->state,
                                "--after",
                                "@2026-09-01T12:00:00Z",
                                "--until-caught-up",
                                NULL};

    site_putf(
        site, "/sets/x", "application/xml",
        LIST("changelist\" from=\"2026-09-01T00:00:00Z") "<url><loc>http://"
                                                         "a.example/1</"
                                                         "loc><rs:md "
                                                         "change=\"updated\" "
                                                         "datetime=\"2026-09-"
                                                         "02T00:00:00Z\"/></"
                                                         "url></urlset>");
    command_start(&command, argv);
    assert_int_equal(command_end(&command), 1);

    assert_string_equal(command.err_text,
                        "tidings: entry 0 (http://a.example/1) is none of a "
                        "set of Tidings\n");
    site_free(site);
}

TEST(refuses_what_makes_no_sense)
{
    static struct command command;
    struct relays *s = *state;
    struct relay same = s->relays[0];
    const char *const no_state[] = {TIDINGS, "relay", same.from, same.to, NULL};

    command_start(&command, no_state);
    command_give(&command, "");
    assert_int_equal(command_end(&command), 2);
    memcpy(same.to, same.from, sizeof(same.to));
    assert_int_equal(relays_run(&same, &command), 2);

    /* The same set by another name. */
    source_post(&s->brokers[0].http, LISTS_SET, 1, 10, 0);
    snprintf(same.to, sizeof(same.to), "http://localhost:%u/sets/%s",
             s->brokers[0].broker.port, LISTS_SET);
    assert_int_equal(relays_run(&same, &command), 2);
    assert_non_null(strstr(command.err_text, "the two sets are one"));
    relays_await(&s->brokers[0], 10);
}

/*
 * websub_subscribe_test.c - who asks the hub, is asked back, and only who
 * confirms is subscribed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/hub_stage.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Hex digits of 128 bits. */
#define CHALLENGE_MIN 32

/* What a callback's verification may at most be repeated. */
#define TRIES_MAX 5

FIXTURE(NULL, hub_stage_teardown);

/* W-031, R-298: at once, and whatever comes of it. */
TEST(a_request_is_answered_before_it_is_verified)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");

    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.waits = true});
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(cb)));
    callback_await(cb, SEEN_VERIFICATION, 1);
    callback_release(cb);
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    hub_stage_end(s);
}

/* W-050, W-053, W-054, W-070, R-299; W-162: nothing of ours goes with it. */
TEST(the_callback_is_asked_with_a_challenge)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    char challenges[4][300];

    for (unsigned i = 0; i < N(challenges); i++) {
        bool is_last = i + 1 == N(challenges);
        const struct seen *v;

        hub_assert_taken(&s->http,
                         is_last ? HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET,
                                                   .callback = callback_url(cb))
                                 : HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                                 .callback = callback_url(cb)));
        v = callback_await(cb, SEEN_VERIFICATION, i + 1);
        seen_assert_parameter(v, "hub.mode",
                              is_last ? "unsubscribe" : "subscribe");
        seen_assert_parameter(v, "hub.topic", s->topic.text);
        if (!is_last)
            seen_assert_parameter(v, "hub.lease_seconds", "864000");
        assert_int_equal(v->body_size, 0);
        assert_int_equal(seen_count(v, "Authorization"), 0);
        assert_int_equal(seen_count(v, "Cookie"), 0);
        assert_non_null(seen_parameter(v, "hub.challenge", challenges[i],
                                       sizeof(challenges[i])));
        assert_true(strlen(challenges[i]) >= CHALLENGE_MIN);
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(challenges[i], challenges[k]);
        if (is_last)
            hub_await_gone(&s->http, HUB_SET, callback_url(cb));
        else
            hub_await_active(&s->http, HUB_SET, callback_url(cb));
    }
    hub_stage_end(s);
}

/* W-026, W-034, W-051, W-052, R-299: what the callback's URL has stays as it
 * is, byte for byte; a stray would say so. */
TEST(what_a_callback_s_url_has_of_its_own_is_kept)
{
    static const char *const targets[] = {
        "/cb/1",
        "/cb/2?",
        "/cb/2?a=b",
        "/cb/3?a=b&",
        "/cb/3?hub.mode=denied&hub.challenge=mine&hub.topic=",
        "/cb/%7e/%7E/~?x=%7E+%20&y&&z=%2526;=",
        "/cb//../a/./b?(a)=1&b='2'!$*,@:/?",
        "/?//cb",
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[N(targets)];

    for (size_t i = 0; i < N(targets); i++) {
        all[i] = callbacks_add(s->callbacks, targets[i]);
        hub_assert_taken(&s->http,
                         HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(all[i])));
    }
    for (size_t i = 0; i < N(targets); i++) {
        const struct seen *v = callback_await(all[i], SEEN_VERIFICATION, 1);

        seen_assert_parameter(v, "hub.mode", "subscribe");
        hub_await_active(&s->http, HUB_SET, callback_url(all[i]));
    }
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(targets); i++)
        assert_string_equal(callback_await(all[i], SEEN_DELIVERY, 1)->target,
                            targets[i]);
    assert_int_equal(hub_count(&s->http, HUB_SET), N(targets));
    hub_stage_end(s);
}

/* Fills in TOPIC and CALLBACK, encoded, and UNKNOWN: a topic of ours that is
 * not there. */
static void
fill_in(struct buf *to, const struct hub_stage *s, const char *form,
        const char *callback)
{
    struct hub_url unknown = hub_topic(&s->http, "unknown");

    buf_clear(to);
    while (*form) {
        if (!strncmp(form, "TOPIC", 5)) {
            hub_encode(to, s->topic.text);
            form += 5;
        } else if (!strncmp(form, "CALLBACK", 8)) {
            hub_encode(to, callback);
            form += 8;
        } else if (!strncmp(form, "UNKNOWN", 7)) {
            hub_encode(to, unknown.text);
            form += 7;
        } else {
            buf_add(to, form++, 1);
        }
    }
    assert_false(to->failed);
}

#define SUBSCRIBE   "hub.mode=subscribe&"
#define TO_CALLBACK "&hub.callback=CALLBACK"
#define GOOD        SUBSCRIBE "hub.topic=TOPIC" TO_CALLBACK
#define CALL(url)   SUBSCRIBE "hub.topic=TOPIC&hub.callback=" url
#define ABOUT(url)  SUBSCRIBE "hub.callback=CALLBACK&hub.topic=" url
#define TEN(x)      x x x x x x x x x x
#define FIFTY(x)    TEN(x) TEN(x) TEN(x) TEN(x) TEN(x)

/* W-021, W-022, W-023, W-024, W-026, W-027, W-028, W-032, W-044, W-163, W-165,
 * */
TEST(a_bad_request_is_refused_and_says_why)
{
    static const struct {
        const char *form;
        long status;
        const char *part;
    } cases[] = {
        {"", 400, "hub.mode"},
        {"hub.topic=TOPIC" TO_CALLBACK, 400, "hub.mode"},
        {"hub.mode=&hub.topic=TOPIC" TO_CALLBACK, 400, "hub.mode"},
        {"hub.mode=subscribes&hub.topic=TOPIC" TO_CALLBACK, 400, "hub.mode"},
        {"hub.mode=denied&hub.topic=TOPIC" TO_CALLBACK, 400, "hub.mode"},
        {GOOD "&hub.mode=unsubscribe", 400, "hub.mode"},
        {SUBSCRIBE TO_CALLBACK, 400, "hub.topic"},
        {SUBSCRIBE "hub.topic=" TO_CALLBACK, 400, "hub.topic"},
        {SUBSCRIBE "hub.topic=TOPIC", 400, "hub.callback"},
        {CALL(""), 400, "hub.callback"},
        {GOOD "&hub.callback=http://127.0.0.2/other", 400, "hub.callback"},
        {"hub.mode=unsubscribe&hub.topic=TOPIC", 400, "hub.callback"},

        {CALL("/cb/1"), 400, "hub.callback"},
        {CALL("127.0.0.2/cb/1"), 400, "hub.callback"},
        {CALL("ftp://127.0.0.2/cb/1"), 400, "hub.callback"},
        {CALL("file:///etc/passwd"), 400, "hub.callback"},
        {CALL("javascript:alert(1)"), 400, "hub.callback"},
        {CALL("http:///cb/1"), 400, "hub.callback"},
        {CALL("http://"), 400, "hub.callback"},
        {CALL("http://me@127.0.0.2/cb/1"), 400, "hub.callback"},
        {CALL("http://me:it@127.0.0.2/cb/1"), 400, "hub.callback"},
        {CALL("http://127.0.0.2:0/cb/1"), 400, "hub.callback"},
        {CALL("http://127.0.0.2:65536/cb/1"), 400, "hub.callback"},
        {CALL("http://127.0.0.2:8x/cb/1"), 400, "hub.callback"},
        {CALL("http://127.0.0.2/cb/1%23fragment"), 400, "hub.callback"},
        {CALL("http://127.0.0.2/cb%201"), 400, "hub.callback"},
        {CALL("http://127.0.0.2/cb%0d%0aX-Injected:%20yes"), 400,
         "hub.callback"},
        {CALL("http://127.0.0.2/cb%00/1"), 400, ""},
        {CALL("http://127.0.0.2/cb%7f"), 400, "hub.callback"},
        {CALL("http://127.0.0.2/%ff"), 400, ""},
        {CALL("http://127.0.0.2/%zz"), 400, ""},
        {CALL("http://127.0.0.2/%2"), 400, ""},

        {ABOUT("notifications"), 400, "hub.topic"},
        {ABOUT("urn:example:topic"), 400, "hub.topic"},
        {ABOUT("http://127.0.0.1/a%0ab"), 400, "hub.topic"},
        {ABOUT("UNKNOWN"), 404, ""},
        {ABOUT("http://example.com/sets/news/notifications"), 404, ""},
        {"hub.mode=unsubscribe&hub.topic=UNKNOWN" TO_CALLBACK, 404, ""},

        {GOOD "&hub.secret=" FIFTY("abcd"), 422, "hub.secret"},
        {GOOD "&hub.secret=" FIFTY("%C3%A9%C3%A9"), 422, "hub.secret"},
        {GOOD "&hub.lease_seconds=0", 400, "hub.lease_seconds"},
        {GOOD "&hub.lease_seconds=-1", 400, "hub.lease_seconds"},
        {GOOD "&hub.lease_seconds=1.5", 400, "hub.lease_seconds"},
        {GOOD "&hub.lease_seconds=1e3", 400, "hub.lease_seconds"},
        {GOOD "&hub.lease_seconds=ten", 400, "hub.lease_seconds"},
        {GOOD "&hub.lease_seconds=0x10", 400, "hub.lease_seconds"},
        {GOOD FIFTY("&a=b") TEN("&c=d") TEN("&e=f"), 400, ""},
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    struct buf form;

    buf_init(&form, 1 << 20);
    for (size_t i = 0; i < N(cases); i++) {
        fill_in(&form, s, cases[i].form, callback_url(cb));
        http_post(&s->http, "/hub", HUB_FORM,
                  form.size > 0 ? buf_slice(&form) : SLICE(""));
        hub_assert_refused(&s->http, cases[i].status, cases[i].part);
    }
    buf_fini(&form);

    /* Nothing was kept of any, and nobody was called. */
    assert_int_equal(hub_count(&s->http, HUB_SET), 0);
    hub_stage_fence(s, hub_stage_join(s, "/cb/2"));
    assert_int_equal(callback_count(cb, SEEN_VERIFICATION), 0);
    hub_stage_end(s);
}

/* W-038 */
TEST(what_is_no_form_is_refused_too)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    struct buf form;

    buf_init(&form, 1 << 20);
    fill_in(&form, s, GOOD, callback_url(cb));
    http_post(&s->http, "/hub", "text/plain", buf_slice(&form));
    hub_assert_refused(&s->http, 415, "");
    http_post(&s->http, "/hub", "multipart/form-data; boundary=x",
              buf_slice(&form));
    hub_assert_refused(&s->http, 415, "");

    http_get(&s->http, "/hub");
    hub_assert_refused(&s->http, 405, "POST");
    assert_non_null(strstr(http_header(&s->http, "Allow"), "POST"));
    http_request(&s->http, "PUT", "/hub", NULL, SLICE("x"));
    hub_assert_refused(&s->http, 405, "POST");
    http_ask(&s->http, "DELETE", "/hub", NULL);
    hub_assert_refused(&s->http, 405, "POST");

    BUF_ADD(&form, "&padding=");
    memset(buf_room(&form, 100000), 'x', 100000);
    form.size += 100000;
    http_post(&s->http, "/hub", HUB_FORM, buf_slice(&form));
    hub_assert_refused(&s->http, 413, "");
    buf_fini(&form);

    hub_stage_fence(s, hub_stage_join(s, "/cb/2"));
    assert_int_equal(callback_count(cb, SEEN_VERIFICATION), 0);
    hub_stage_end(s);
}

/* W-023, W-025, W-026, W-050, R-298: good though odd. */
TEST(what_is_good_is_taken)
{
    static const char *const forms[] = {
        GOOD "&foo=bar&hub.foo=bar&=&a",
        GOOD "&hub.secret=" FIFTY("abc") FIFTY("") TEN("abcd") "123456789",
        GOOD "&hub.secret=a" TEN("%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9")
            TEN("%C3%A9%C3%A9%C3%A9%C3%A9"),
        GOOD "&hub.secret=",
        GOOD "&hub.lease_seconds=99999999999999999999999999",
        GOOD "&hub.mode=subscribe",
        "hub.callback=CALLBACK&hub.topic=TOPIC&%68ub.mode=%73ubscribe",
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[N(forms)];
    struct buf form;

    buf_init(&form, 1 << 20);
    for (size_t i = 0; i < N(forms); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb?%%2B=%zu", i);
        all[i] = callbacks_add(s->callbacks, target);
        fill_in(&form, s, forms[i], callback_url(all[i]));
        hub_assert_taken(
            &s->http, http_post(&s->http, "/hub", HUB_FORM, buf_slice(&form)));
        hub_await_active(&s->http, HUB_SET, callback_url(all[i]));
    }
    buf_fini(&form);
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(forms); i++)
        callback_await_last(all[i], 1);

    /* The lease of an unsubscription is nobody's business (W-024). */
    hub_assert_taken(&s->http, HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET,
                                               .callback = callback_url(all[0]),
                                               .lease = "forever"));
    hub_await_gone(&s->http, HUB_SET, callback_url(all[0]));
    hub_stage_end(s);
}

/* W-026, W-050: compared as it is meant, told back as it was given. */
TEST(a_topic_may_be_spelt_in_several_ways)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    char topic[400];

    snprintf(topic, sizeof(topic), "HTTP%s/sets/%%6e%%65ws/n%%6Ftifications",
             s->broker.url + strlen("http"));
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .topic = topic,
                                             .callback = callback_url(cb)));
    seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, 1), "hub.topic",
                          topic);
    hub_await_active(&s->http, HUB_SET, callback_url(cb));

    /* It is the same subscription. */
    hub_join(&s->http, HUB_SET, cb);
    callback_await(cb, SEEN_VERIFICATION, 2);
    hub_await_count(&s->http, HUB_SET, 1);
    hub_stage_end(s);
}

/* W-070, W-071, W-024, R-300 */
TEST(a_lease_has_its_limits)
{
    static const struct {
        const char *wish, *granted;
    } cases[] = {
        {"1", "300"},
        {"300", "300"},
        {"301", "301"},
        {"86400", "86400"},
        {"2678400", "2678400"},
        {"2678401", "2678400"},
        {NULL, "864000"},
        {"315360000", "2678400"},
        {"18446744073709551615", "2678400"},
        {"99999999999999999999999", "2678400"},
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");

    for (size_t i = 0; i < N(cases); i++) {
        hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                                 .callback = callback_url(cb),
                                                 .lease = cases[i].wish));
        seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, i + 1),
                              "hub.lease_seconds", cases[i].granted);
    }
    hub_stage_end(s);
}

/* W-055: any 2xx, and exactly the challenge. */
TEST(every_2xx_with_the_challenge_confirms)
{
    static const unsigned statuses[] = {200, 201, 202, 203, 226, 299};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);

    for (size_t i = 0; i < N(statuses); i++) {
        char target[40];
        struct callback *cb;

        snprintf(target, sizeof(target), "/cb/%u", statuses[i]);
        cb = callbacks_add(s->callbacks, target);
        CALLBACK_DOES(cb, SEEN_VERIFICATION, {.status = statuses[i]});
        hub_join(&s->http, HUB_SET, cb);
    }
    hub_stage_end(s);
}

/* W-055, W-056, W-057, R-299 */
TEST(everything_else_does_not)
{
    static const struct manner manners[] = {
        {.kind = MANNER_RESET},
        {.kind = MANNER_CLOSE},
        {.behind = "\n"},
        {.body = ""},
        {.body = "subscribe"},
        {.status = 204},
        {.status = 304},
        {.status = 301},
        {.status = 302},
        {.status = 303},
        {.status = 307},
        {.status = 308},
        {.status = 400},
        {.status = 404},
        {.status = 410},
        {.status = 500},
        {.status = 503, .headers = "Retry-After: 1\r\n"},
        {.kind = MANNER_HANG},
        {.kind = MANNER_TRICKLE, .pause_ms = 500},
        {.kind = MANNER_RESET_MIDDLE},
        {.kind = MANNER_GARBAGE},
        {.kind = MANNER_ENDLESS_BODY},
        {.kind = MANNER_ENDLESS_HEAD},
    };
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout", "5");
    struct callback *elsewhere = callbacks_add(s->callbacks, "/cb/elsewhere");
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *all[N(manners)];
    char location[300];

    snprintf(location, sizeof(location), "Location: %s\r\n",
             callback_url(elsewhere));
    for (size_t i = 0; i < N(manners); i++) {
        struct manner manner = manners[i];
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu?a=b", i);
        all[i] = callbacks_add(s->callbacks, target);
        if (manner.status / 100 == 3)
            manner.headers = location;
        callback_does(all[i], SEEN_VERIFICATION, &manner, 1);
        hub_assert_taken(&s->http,
                         HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(all[i])));
        /* Before there are others: libcurl asks again on each connection that
         * they would leave behind. */
        if (manner.kind == MANNER_RESET || manner.kind == MANNER_CLOSE)
            hub_await_gone(&s->http, HUB_SET, callback_url(all[i]));
    }
    for (size_t i = 0; i < N(manners); i++) {
        bool is_answer = manners[i].kind == MANNER_ANSWER;

        callback_await(all[i], SEEN_VERIFICATION, 1);
        hub_await_gone(&s->http, HUB_SET, callback_url(all[i]));
        /* Once; after what may be the network's fault a few times. */
        assert_in_range(callback_count(all[i], SEEN_VERIFICATION), 1,
                        is_answer ? 1 : TRIES_MAX);
    }
    hub_stage_fence(s, fence);
    assert_int_equal(hub_count(&s->http, HUB_SET), 1);
    for (size_t i = 0; i < N(manners); i++)
        assert_int_equal(callback_count(all[i], SEEN_DELIVERY), 0);
    assert_int_equal(callback_count(elsewhere, SEEN_VERIFICATION), 0);
    callbacks_assert_faultless(s->callbacks);
    hub_stage_end(s);
}

/* W-057: they hang as long as the test lasts. */
TEST(a_callback_that_hangs_delays_nobody)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout", "600",
                       "--hub-host-connections", "120");
    struct callbacks *sick = callbacks_new("127.0.0.3", true);
    struct callback *hanging[30];

    for (size_t i = 0; i < N(hanging); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        hanging[i] = callbacks_add(sick, target);
        CALLBACK_DOES(hanging[i], SEEN_VERIFICATION, {.kind = MANNER_HANG});
        hub_assert_taken(&s->http,
                         HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(hanging[i])));
    }
    for (size_t i = 0; i < N(hanging); i++)
        callback_await(hanging[i], SEEN_VERIFICATION, 1);
    hub_stage_fence(s, hub_stage_join(s, "/cb/1"));
    for (size_t i = 0; i < N(hanging); i++)
        assert_int_equal(callback_count(hanging[i], SEEN_VERIFICATION), 1);
    hub_stage_end(s);
    callbacks_free(sick);
}

/* W-164: more than may wait for one host is told to come later, and nobody else
 * notices. */
TEST(a_flood_of_requests_is_told_to_wait)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout", "600");
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callbacks *flooded = callbacks_new("127.0.0.3", true);
    unsigned n_taken = 0;
    long status = 202;

    while (status == 202 && n_taken < 5000) {
        struct callback *cb;
        char target[40];

        snprintf(target, sizeof(target), "/cb/%u", n_taken);
        cb = callbacks_add(flooded, target);
        CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG});
        status = HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                               .callback = callback_url(cb));
        n_taken += status == 202;
    }
    hub_assert_refused(&s->http, 429, "");
    assert_true(n_taken >= 1);

    hub_stage_fence(s, fence);
    hub_stage_fence(s, hub_stage_join(s, "/cb/1"));
    hub_stage_end(s);
    callbacks_free(flooded);
}

/* W-165: who sends a form too slowly is cut off; others are served meanwhile.
 */
TEST(a_form_that_does_not_come_is_not_waited_for)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--request-timeout", "5");
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);

    assert_non_null(w);
    assert_true(wire_send_text(w, "POST /hub HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                  "Content-Type: " HUB_FORM "\r\n"
                                  "Content-Length: 100\r\n\r\nhub.mode="));
    hub_stage_fence(s, hub_stage_join(s, "/cb/1"));
    assert_true(wire_is_ended(w));
    wire_close(w);
    hub_stage_end(s);
}

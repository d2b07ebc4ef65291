/*
 * hub_operating_test.c - what the operator of a hub sees and does: settings,
 * who may publish, subscriptions listed and ended, relays. No delivery is
 * needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/callbacks.h"
#include "tests/support/forms.h"
#include "tests/support/http.h"
#include "tests/support/hub.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/test.h"

#define JSON "application/json"

/* Where nobody listens: a request is taken all the same (W-031). */
#define NOBODY "http://127.0.0.1:1/cb"

/* A broker with a set "demo", whose topic is `topic`, as it stands in a form.
 */
struct stage {
    struct broker broker;
    struct http http;
    char topic[160];
};

/* Begins with one, and an option if it is not NULL. */
static int
stage_open(void **state, const char *option)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, option, NULL);
    http_open(&s->http, s->broker.url);
    assert_int_equal(http_ask(&s->http, "PUT", "/sets/demo", NULL), 201);
    forms_encode(s->topic, sizeof(s->topic), hub_topic(&s->http, "demo").text);
    return 0;
}

static int
set_up(void **state)
{
    return stage_open(state, NULL);
}

static int
set_up_trusting(void **state)
{
    return stage_open(state, "--hub-trust-simple");
}

static int
set_up_insecure(void **state)
{
    return stage_open(state, "--insecure-open");
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* W-124: only who can reach an open broker may publish, and register relays. */
TEST(publishing_is_for_an_open_broker, set_up_insecure, tear_down)
{
    struct stage *s = *state;
    static const char why[] = "--insecure-open";

    forms_post(&s->http, "/hub", "hub.mode=publish&hub.url=%s", s->topic);
    hub_assert_refused(&s->http, 403, why);
    http_request(&s->http, "POST", "/hub",
                 (const char *[]){"Content-Type: text/xml",
                                  "Link: <http://a.org/t>; rel=self, "
                                  "<http://a.org/h>; rel=hub",
                                  NULL},
                 SLICE("<a/>"));
    hub_assert_refused(&s->http, 403, why);

    http_request(&s->http, "PUT", "/relays/feed",
                 (const char *[]){"Content-Type: " JSON, NULL},
                 SLICE("{\"topic\":\"http://a.org/t\"}"));
    assert_refused(&s->http, 403, why);
    http_ask(&s->http, "DELETE", "/relays/feed", NULL);
    assert_refused(&s->http, 403, why);
    http_request(&s->http, "PUT", "/sets/demo",
                 (const char *[]){"Content-Type: " JSON, NULL},
                 SLICE("{\"hubs\":[\"http://a.org/hub\"]}"));
    assert_refused(&s->http, 403, why);

    /* All else works. */
    http_request(&s->http, "PUT", "/sets/demo",
                 (const char *[]){"Content-Type: " JSON, NULL},
                 SLICE("{\"title\":\"Demo\"}"));
    assert_int_equal(s->http.status, 200);
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY,
               s->topic);
    hub_assert_taken(&s->http, s->http.status);
    assert_int_equal(http_get(&s->http, "/relays"), 200);
    assert_int_equal(http_get(&s->http, "/sets/demo/subscriptions"), 200);
}

/* Simple subscriptions */

TEST(a_simple_subscription_has_a_callback, set_up, tear_down)
{
    struct stage *s = *state;

    forms_post(&s->http, "/sets/demo/subscribe", "interval=1");
    assert_refused(&s->http, 400, "callbackURI");
    forms_post(&s->http, "/sets/demo/subscribe", "callbackURI=");
    assert_refused(&s->http, 400, "callbackURI");
    forms_post(&s->http, "/sets/demo/subscribe",
               "callbackURI=ftp%%3A%%2F%%2Fa%%2F");
    assert_refused(&s->http, 400, "callbackURI");
    forms_post(&s->http, "/sets/demo/subscribe",
               "callbackURI=" NOBODY "&change=renamed");
    assert_refused(&s->http, 400, "change");
    http_post(&s->http, "/sets/demo/subscribe", JSON, SLICE("{}"));
    assert_refused(&s->http, 415, HUB_FORM);
    forms_post(&s->http, "/sets/none/subscribe", "callbackURI=" NOBODY);
    assert_refused(&s->http, 404, "none");
    http_get(&s->http, "/sets/demo/subscribe");
    assert_refused(&s->http, 405, "POST");

    forms_post(&s->http, "/sets/demo/subscribe", "callbackURI=" NOBODY);
    hub_assert_taken(&s->http, s->http.status);
}

/* Operating it */

/* The only subscription of the set, whose member `subscriptions` is read into
 * *j. */
static void
list(struct stage *s, struct jsonpath *j)
{
    assert_int_equal(http_get(&s->http, "/sets/demo/subscriptions"), 200);
    assert_string_equal(http_header(&s->http, "Content-Type"), JSON);
    assert_string_equal(http_header(&s->http, "Cache-Control"), "no-cache");
    jsonpath_open(j, buf_slice(&s->http.body));
}

/* Trusted, a simple subscription is there with its 202. */
TEST(a_subscription_is_listed_shown_sent_back_and_ended, set_up_trusting,
     tear_down)
{
    struct stage *s = *state;
    char path[100], again[140];
    struct jsonpath j;

    forms_post(&s->http, "/sets/demo/subscribe",
               "callbackURI=" NOBODY "&interval=5");
    hub_assert_taken(&s->http, s->http.status);
    list(s, &j);
    assert_string_equal(jsonpath_text(&j, "subscriptions.0.callback"),
                        "http://127.0.0.1:1/cb");
    assert_string_equal(jsonpath_text(&j, "subscriptions.0.state"), "active");
    assert_false(jsonpath_has(&j, "subscriptions.1"));
    snprintf(path, sizeof(path), "/sets/demo/subscriptions/%llu",
             (unsigned long long)jsonpath_number(&j, "subscriptions.0.id"));
    jsonpath_close(&j);

    assert_int_equal(http_get(&s->http, path), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    assert_string_equal(jsonpath_text(&j, "callback"), "http://127.0.0.1:1/cb");
    jsonpath_close(&j);
    assert_int_equal(http_ask(&s->http, "HEAD", path, NULL), 200);

    snprintf(again, sizeof(again), "%s/redeliver", path);
    http_ask(&s->http, "POST", again, NULL);
    assert_refused(&s->http, 400, "after");
    snprintf(again, sizeof(again), "%s/redeliver?after=x", path);
    http_ask(&s->http, "POST", again, NULL);
    assert_refused(&s->http, 400, "x");
    snprintf(again, sizeof(again), "%s/redeliver?after=0123456789abcdef-1",
             path);
    http_ask(&s->http, "POST", again, NULL);
    assert_refused(&s->http, 410, "");
    http_ask(&s->http, "POST", path, NULL);
    assert_refused(&s->http, 405, "GET, HEAD, DELETE");

    assert_int_equal(http_ask(&s->http, "DELETE", path, NULL), 204);
    http_get(&s->http, path);
    assert_refused(&s->http, 404, "subscription");
    list(s, &j);
    assert_false(jsonpath_has(&j, "subscriptions.0"));
    jsonpath_close(&j);
}

TEST(what_is_not_there_is_404, set_up, tear_down)
{
    struct stage *s = *state;

    static const struct {
        const char *method, *path, *part;
    } cases[] = {
        {"GET", "/sets/none/subscriptions", "none"},
        {"GET", "/sets/demo/subscriptions/1000000", "subscription"},
        {"GET", "/sets/demo/subscriptions/x", "subscription \"x\""},
        {"GET", "/sets/demo/subscriptions/99999999999999999999",
         "subscription"},
        {"DELETE", "/sets/demo/subscriptions/1000000", "subscription"},
        {"POST", "/sets/demo/subscriptions/1000000/redeliver?after=0",
         "subscription"},
        {"GET", "/relays/none", "none"},
        {"GET", "/relays/none/subscriptions", "none"},
        {"GET", "/relays/No", "No"},
        {"DELETE", "/relays/none", "none"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        http_ask(&s->http, cases[i].method, cases[i].path, NULL);
        assert_refused(&s->http, 404, cases[i].part);
    }
    http_get(&s->http, "/sets/demo/subscriptions?after=x");
    assert_refused(&s->http, 400, "after");
}

/* W-166: a secret is told to nobody. */
TEST(secrets_are_not_shown, set_up, tear_down)
{
    struct stage *s = *state;
    struct callbacks *c = callbacks_new("127.0.0.1", true);
    struct callback *cb = callbacks_add(c, "/cb/1");
    static const char secret[] = "tell-nobody-of-this";
    char path[100];
    struct jsonpath j;

    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=%s&hub.secret=%s",
               s->topic, callback_url(cb), secret);
    hub_assert_taken(&s->http, s->http.status);
    callback_await(cb, SEEN_VERIFICATION, 1);
    do { /* until its answer was judged */
        list(s, &j);
        assert_null(memmem(s->http.body.data, s->http.body.size, secret,
                           strlen(secret)));
        snprintf(path, sizeof(path), "/sets/demo/subscriptions/%llu",
                 (unsigned long long)jsonpath_number(&j, "subscriptions.0.id"));
        if (!strcmp(jsonpath_text(&j, "subscriptions.0.state"), "active"))
            break;
        jsonpath_close(&j);
    } while (true);
    jsonpath_close(&j);

    assert_int_equal(http_get(&s->http, path), 200);
    assert_null(
        memmem(s->http.body.data, s->http.body.size, secret, strlen(secret)));
    assert_false(broker_said(&s->broker, secret));
    callbacks_free(c);
}

/* Relays: R-296 is tested where documents come. */
TEST(a_relay_is_made_shown_listed_and_removed, set_up, tear_down)
{
    struct stage *s = *state;
    const char *const json[] = {"Content-Type: " JSON, NULL};
    struct jsonpath j;
    char want[100];

    http_request(&s->http, "PUT", "/relays/feed", json, SLICE("{"));
    assert_refused(&s->http, 400, "");
    http_request(&s->http, "PUT", "/relays/feed", json, SLICE("{}"));
    assert_refused(&s->http, 422, "topic");
    http_request(&s->http, "PUT", "/relays/feed",
                 (const char *[]){"Content-Type: text/plain", NULL},
                 SLICE("{}"));
    assert_refused(&s->http, 415, JSON);
    http_request(&s->http, "PUT", "/relays/Feed", json,
                 SLICE("{\"topic\":\"http://a.org/t\"}"));
    assert_refused(&s->http, 404, "Feed");

    assert_int_equal(http_request(&s->http, "PUT", "/relays/feed", json,
                                  SLICE("{\"topic\":\"http://a.org/t\"}")),
                     201);
    snprintf(want, sizeof(want), "%s/relays/feed", s->broker.url);
    assert_string_equal(http_header(&s->http, "Location"), want);
    assert_int_equal(http_request(&s->http, "PUT", "/relays/feed", json,
                                  SLICE("{\"topic\":\"http://a.org/t\"}")),
                     200);

    assert_int_equal(http_get(&s->http, "/relays/feed"), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    assert_string_equal(jsonpath_text(&j, "topic"), "http://a.org/t");
    jsonpath_close(&j);
    assert_int_equal(http_get(&s->http, "/relays"), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    assert_string_equal(jsonpath_text(&j, "relays.0.name"), "feed");
    jsonpath_close(&j);
    assert_int_equal(http_get(&s->http, "/relays/feed/subscriptions"), 200);

    assert_int_equal(http_ask(&s->http, "DELETE", "/relays/feed", NULL), 204);
    http_get(&s->http, "/relays/feed");
    assert_refused(&s->http, 404, "feed");
}

/* The hub's settings */

#define BAD_USAGE(part, ...)                                             \
    do {                                                                 \
        char said[2000];                                                 \
                                                                         \
        assert_int_equal(broker_run(said, sizeof(said), "--data",        \
                                    "/nonexistent/tidings", __VA_ARGS__, \
                                    NULL),                               \
                         2);                                             \
        if (!strstr(said, part))                                         \
            fail_msg("no \"%s\" in \"%s\"", part, said);                 \
    } while (0)

TEST(settings_that_do_not_go_together_are_bad_usage)
{
    BAD_USAGE("--hub-lease-default is shorter than --hub-lease-min",
              "--hub-lease-min=100", "--hub-lease-default=99.5");
    BAD_USAGE("--hub-lease-default is longer than --hub-lease-max: it is "
              "864000 seconds",
              "--hub-lease-max=863999");
    BAD_USAGE("--hub-lease-min is longer than --hub-lease-max",
              "--hub-lease-min=1000", "--hub-lease-max=500");
    BAD_USAGE("--hub-retry-first is longer than --hub-retry-max",
              "--hub-retry-first=2", "--hub-retry-max=1");
    BAD_USAGE("--hub-signature: \"md5\" is not sha1, sha256, sha384 or sha512",
              "--hub-signature=md5");
    BAD_USAGE("10.0.0.0/33", "--allow-callbacks=127.0.0.1,10.0.0.0/33");
    BAD_USAGE("--allow-callbacks: ", "--allow-callbacks=localhost");
}

/* Design section 4: an open broker allows callbacks of its own machine, and
 * says so. */
TEST(an_open_broker_says_that_it_calls_its_own_machine, set_up, tear_down)
{
    struct stage *s = *state;

    assert_true(broker_said(&s->broker, "callbacks on this machine"));
}

TEST(another_one_does_not, set_up_insecure, tear_down)
{
    struct stage *s = *state;

    assert_false(broker_said(&s->broker, "callbacks on this machine"));
}

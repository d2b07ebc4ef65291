/*
 * hub_http_test.c - what comes to POST /hub: what is taken, and how what is not
 * is refused. No delivery is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/callbacks.h"
#include "tests/support/forms.h"
#include "tests/support/http.h"
#include "tests/support/hub.h"
#include "tests/support/patience.h"
#include "tests/support/wire.h"
#include "tests/test.h"

/* Where nobody listens: a request is taken all the same (W-031). */
#define NOBODY "http://127.0.0.1:1/cb"

/* A broker with a set "demo", whose topic is `topic`, as it stands in a form.
 */
struct stage {
    struct broker broker;
    struct http http;
    char topic[160];
};

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    /* Verifications that are under way stay so. */
    broker_open(&s->broker, "--hub-timeout", "60", "--max-body", "64K",
                "--request-timeout", "2", NULL);
    http_open(&s->http, s->broker.url);
    assert_int_equal(http_ask(&s->http, "PUT", "/sets/demo", NULL), 201);
    forms_encode(s->topic, sizeof(s->topic), hub_topic(&s->http, "demo").text);
    return 0;
}

static int
set_up_small(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--ingest-bytes", "1M", NULL);
    http_open(&s->http, s->broker.url);
    return 0;
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

/* W-021: callback, mode and topic are required, and not empty. */
TEST(a_request_without_mode_topic_or_callback_is_refused, set_up, tear_down)
{
    struct stage *s = *state;
    const char *t = s->topic;

    forms_post(&s->http, "/hub", "hub.topic=%s&hub.callback=" NOBODY, t);
    hub_assert_refused(&s->http, 400, "hub.mode: missing or empty");
    forms_post(&s->http, "/hub", "hub.mode=&hub.topic=%s&hub.callback=" NOBODY,
               t);
    hub_assert_refused(&s->http, 400, "hub.mode: missing or empty");
    forms_post(&s->http, "/hub", "hub.mode=subscribe&hub.callback=" NOBODY);
    hub_assert_refused(&s->http, 400, "hub.topic: missing or empty");
    forms_post(&s->http, "/hub",
               "hub.mode=unsubscribe&hub.topic=&hub.callback=" NOBODY);
    hub_assert_refused(&s->http, 400, "hub.topic: missing or empty");
    forms_post(&s->http, "/hub", "hub.mode=subscribe&hub.topic=%s", t);
    hub_assert_refused(&s->http, 400, "hub.callback: missing or empty");
    forms_post(&s->http, "/hub",
               "hub.mode=unsubscribe&hub.topic=%s&hub.callback=", t);
    hub_assert_refused(&s->http, 400, "hub.callback: missing or empty");
    http_post(&s->http, "/hub", HUB_FORM, SLICE(""));
    hub_assert_refused(&s->http, 400, "hub.mode: missing or empty");
}

/* W-022 */
TEST(another_mode_is_refused, set_up, tear_down)
{
    struct stage *s = *state;
    static const char *const modes[] = {"Subscribe", "denied", "sub", "%20",
                                        "subscribe%00"};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        forms_post(&s->http, "/hub",
                   "hub.mode=%s&hub.topic=%s&hub.callback=" NOBODY, modes[i],
                   s->topic);
        hub_assert_refused(&s->http, 400, "");
    }
}

/* W-023: 199 bytes are accepted, 200 are not; bytes, not characters. */
TEST(a_secret_of_200_bytes_is_refused, set_up, tear_down)
{
    struct stage *s = *state;
    char secret[201], wide[601] = "";

    memset(secret, 's', 200);
    secret[200] = '\0';
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY
               "&hub.secret=%s",
               s->topic, secret);
    hub_assert_refused(&s->http, 422, "hub.secret");

    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY
               "&hub.secret=%s",
               s->topic, secret + 1);
    hub_assert_taken(&s->http, s->http.status);

    for (int i = 0; i < 100; i++)
        strcat(wide, "%C3%A9");
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY
               "&hub.secret=%s",
               s->topic, wide);
    hub_assert_refused(&s->http, 422, "hub.secret");
    /* W-166: not even a wrong one is told. */
    assert_null(memmem(s->http.body.data, s->http.body.size, "\xc3\xa9", 2));
}

/* W-024: no lease is a 4xx, never a 5xx; what is too large is cut; an
 * unsubscription has none, whatever stands there. */
TEST(what_is_no_lease_is_refused, set_up, tear_down)
{
    struct stage *s = *state;
    static const char *const bad[] = {"0", "-1", "abc", "1.5", "1e3", "%2B1"};
    static const char *const good[] = {"1", "864000", "2678401",
                                       "99999999999999999999999999"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        forms_post(&s->http, "/hub",
                   "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY
                   "&hub.lease_seconds=%s",
                   s->topic, bad[i]);
        hub_assert_refused(&s->http, 400, "hub.lease_seconds");
        forms_post(&s->http, "/hub",
                   "hub.mode=unsubscribe&hub.topic=%s&hub.callback=" NOBODY
                   "&hub.lease_seconds=%s",
                   s->topic, bad[i]);
        hub_assert_taken(&s->http, s->http.status);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        forms_post(&s->http, "/hub",
                   "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY
                   "&hub.lease_seconds=%s",
                   s->topic, good[i]);
        hub_assert_taken(&s->http, s->http.status);
    }
}

/* W-025, W-026 */
TEST(unknown_parameters_are_left_alone_and_bad_escapes_refused, set_up,
     tear_down)
{
    struct stage *s = *state;

    forms_post(&s->http, "/hub",
               "foo=1&hub.foo=2&hub.mode=subscribe&hub.topic=%s&hub.callback"
               "=" NOBODY "&hub.verify=async",
               s->topic);
    hub_assert_taken(&s->http, s->http.status);

    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY "%%2",
               s->topic);
    hub_assert_refused(&s->http, 400, "hub.callback");
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY "%%FF",
               s->topic);
    hub_assert_refused(&s->http, 400, "hub.callback");
}

/* W-027, W-163: nothing but an absolute http or https URL without user info,
 * with a good port, and without what could end a line. */
TEST(what_is_no_url_is_no_callback_and_no_topic, set_up, tear_down)
{
    struct stage *s = *state;
    static const char *const bad[] = {
        "ftp%3A%2F%2Fexample.org%2F",
        "javascript%3Aalert(1)",
        "%2Fcb",
        "example.org%2Fcb",
        "http%3A%2F%2F%2Fcb",
        "http%3A%2F%2Fu%3Ap%40example.org%2Fcb",
        "http%3A%2F%2Fu%40example.org%2Fcb",
        "http%3A%2F%2Fexample.org%3A0%2Fcb",
        "http%3A%2F%2Fexample.org%3A65536%2Fcb",
        "http%3A%2F%2Fexample.org%3Ax%2Fcb",
        "http%3A%2F%2Fexample.org%2Fc%20b",
        "http%3A%2F%2Fexample.org%2Fcb%0D%0AX-A%3A%20b",
        "http%3A%2F%2Fexample.org%2Fcb%0A",
        "http%3A%2F%2Fexample.org%2Fcb%00",
        "http%3A%2F%2Fexample.org%2Fcb%7F",
        "http%3A%2F%2Fexample.org%2Fcb%09",
    };
    char longer[2100];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        forms_post(&s->http, "/hub",
                   "hub.mode=subscribe&hub.topic=%s&hub.callback=%s", s->topic,
                   bad[i]);
        hub_assert_refused(&s->http, 400, "hub.callback");
        forms_post(&s->http, "/hub",
                   "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY,
                   bad[i]);
        hub_assert_refused(&s->http, 400, "hub.topic");
    }

    memset(longer, 'a', sizeof(longer));
    memcpy(longer, "http://", 7);
    longer[2049] = '\0';
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=%s", s->topic,
               longer);
    hub_assert_refused(&s->http, 400, "hub.callback: longer than 2048 bytes");
}

/* W-044: an unknown topic is refused at once. */
TEST(what_is_no_topic_of_ours_is_refused, set_up, tear_down)
{
    struct stage *s = *state;

    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=http%%3A%%2F%%2Fexample.org%%2F"
               "&hub.callback=" NOBODY);
    hub_assert_refused(&s->http, 404, "example.org");
    hub_assert_refused(&s->http, 404, "those of sets begin with http://127.");
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=http%%3A%%2F%%2F127.0.0.1%%3A%u"
               "%%2Fsets%%2Fnone%%2Fnotifications&hub.callback=" NOBODY,
               s->broker.port);
    hub_assert_refused(&s->http, 404, "none");
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=http%%3A%%2F%%2F127.0.0.1%%3A%u"
               "%%2Fsets%%2Fdemo%%2Fchangelist.xml&hub.callback=" NOBODY,
               s->broker.port);
    hub_assert_refused(&s->http, 422, "notifications");
}

/* What a subscription may ask for besides: a bad one is a 4xx, also at a
 * renewal. */
TEST(a_bad_filter_position_or_interval_is_refused, set_up, tear_down)
{
    struct stage *s = *state;

    static const struct {
        const char *parameter, *name;
        long status;
    } bad[] = {
        {"change=renamed", "change", 400},
        {"prefix=", "prefix", 400},
        {"after=3-x", "\"3-x\" is not a position", 400},
        {"after=", "is not a position", 400},
        {"interval=-1", "interval", 400},
        {"interval=x", "interval", 400},
        {"interval=86401", "interval", 400},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        forms_post(&s->http, "/hub",
                   "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY "&%s",
                   s->topic, bad[i].parameter);
        hub_assert_refused(&s->http, bad[i].status, bad[i].name);
    }
    /* A position of another epoch: where to go on is elsewhere. */
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY
               "&after=0123456789abcdef-3",
               s->topic);
    hub_assert_refused(&s->http, 410, "");

    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=" NOBODY
               "&change=created&change=updated&prefix=http%%3A%%2F%%2Fa%%2F"
               "&interval=0.5",
               s->topic);
    hub_assert_taken(&s->http, s->http.status);
}

/* W-038: wrong methods, types and sizes. */
TEST(other_methods_types_and_sizes_are_refused, set_up, tear_down)
{
    struct stage *s = *state;
    static const char *const methods[] = {"GET", "PUT", "DELETE", "OPTIONS"};
    char *long_form = malloc(16386);

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        http_request(&s->http, methods[i], "/hub", NULL,
                     (struct slice){i == 1 ? "x" : NULL, i == 1});
        hub_assert_refused(&s->http, 405, "POST");
        assert_string_equal(http_header(&s->http, "Allow"), "POST");
    }
    assert_int_equal(http_ask(&s->http, "HEAD", "/hub", NULL), 405);

    http_post(&s->http, "/hub", "application/json",
              SLICE("{\"hub.mode\":\"subscribe\"}"));
    hub_assert_refused(&s->http, 415, HUB_FORM);
    http_post(&s->http, "/hub", "multipart/form-data; boundary=a",
              SLICE("--a--"));
    hub_assert_refused(&s->http, 415, HUB_FORM);
    http_request(&s->http, "POST", "/hub",
                 (const char *[]){"Content-Type: " HUB_FORM,
                                  "Content-Encoding: gzip", NULL},
                 SLICE("x"));
    hub_assert_refused(&s->http, 415, "Content-Encoding");

    memset(long_form, 'a', 16385);
    http_post(&s->http, "/hub", HUB_FORM, (struct slice){long_form, 16385});
    hub_assert_refused(&s->http, 413, "16384");
    http_post(&s->http, "/hub", HUB_FORM, (struct slice){long_form, 16384});
    hub_assert_refused(&s->http, 400, "hub.mode");
    free(long_form);

    /* The type is a word in whatever case, with parameters. */
    http_post(&s->http, "/hub",
              "Application/X-WWW-Form-URLencoded; charset=UTF-8", SLICE("a=b"));
    hub_assert_refused(&s->http, 400, "hub.mode");
}

/* W-165: a limit on parameters, and a deadline for who sends them slowly. */
TEST(too_many_parameters_and_slow_senders_are_refused, set_up, tear_down)
{
    struct stage *s = *state;
    struct wire *slow = wire_connect("127.0.0.1", s->broker.port);
    char many[65 * 4 + 1] = "";
    struct wire_answer a;

    assert_true(wire_send_format(slow,
                                 "POST /hub HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                 "Content-Type: " HUB_FORM "\r\n"
                                 "Content-Length: 100\r\n\r\nhub.mode=s"));
    for (int i = 0; i < 65; i++)
        strcat(many, "a=b&");
    forms_post(&s->http, "/hub", "%s", many);
    hub_assert_refused(&s->http, 400, "more than 64");

    assert_true(wire_answer(slow, &a, false));
    assert_int_equal(a.status, 408);
    wire_close(slow);
}

/* W-164: a flood of requests for one host is answered 429; others have room,
 * and it is over when verifications are. */
TEST(too_many_requests_for_one_host_are_429, set_up, tear_down)
{
    struct stage *s = *state;
    struct callbacks *full = callbacks_new("127.0.0.2", true);
    struct callbacks *other = callbacks_new("127.0.0.3", true);
    struct callback *cb;
    unsigned n = 0;

    do {
        char target[32];

        snprintf(target, sizeof(target), "/cb/%u", n);
        cb = callbacks_add(full, target);
        CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG});
        forms_post(&s->http, "/hub",
                   "hub.mode=subscribe&hub.topic=%s&hub.callback=%s", s->topic,
                   callback_url(cb));
    } while (s->http.status == 202 && ++n < 1000);

    hub_assert_refused(&s->http, 429, "");
    assert_int_equal(n, 100);
    assert_non_null(http_header(&s->http, "Retry-After"));

    cb = callbacks_add(other, "/cb/1");
    forms_post(&s->http, "/hub",
               "hub.mode=subscribe&hub.topic=%s&hub.callback=%s", s->topic,
               callback_url(cb));
    hub_assert_taken(&s->http, s->http.status);
    callback_await(cb, SEEN_VERIFICATION, 1);
    callbacks_free(full);
    callbacks_free(other);
}

/* Notifications (W-142, W-146) */

static long
post_notification(struct stage *s, const char *type, const char *links,
                  struct slice body)
{
    char content_type[100];
    const char *headers[] = {content_type, links, NULL};

    snprintf(content_type, sizeof(content_type), "Content-Type: %s", type);
    return http_request(&s->http, "POST", "/hub", headers, body);
}

/* W-146: 400 without usable links or body, 403 for a topic not served here,
 * 413, 415. */
TEST(a_notification_says_what_it_is_of, set_up, tear_down)
{
    struct stage *s = *state;
    static const char self[] = "Link: <http://example.org/t>; rel=\"self\"";
    static const char hub[] = "Link: <http://example.org/h>; rel=\"hub\"";
    static const char both[] = "Link: <http://example.org/t>; rel=self, "
                               "<http://example.org/h>; rel=hub";
    char *big = malloc(65537);

    memset(big, 'a', 65537);
    post_notification(s, "text/xml", self, SLICE("<a/>"));
    hub_assert_refused(&s->http, 400, "rel=\"hub\"");
    post_notification(s, "text/xml", hub, SLICE("<a/>"));
    hub_assert_refused(&s->http, 400, "rel=\"self\"");
    post_notification(s, "text/xml", "Link: nonsense", SLICE("<a/>"));
    hub_assert_refused(&s->http, 400, "rel=\"self\"");
    post_notification(s, "text/xml", both, SLICE(""));
    hub_assert_refused(&s->http, 400, "body");
    post_notification(s, "text/xml", both, (struct slice){big, 65537});
    hub_assert_refused(&s->http, 413, "65536");
    http_request(&s->http, "POST", "/hub",
                 (const char *[]){"Content-Type: text/xml", both,
                                  "Content-Encoding: gzip", NULL},
                 SLICE("x"));
    hub_assert_refused(&s->http, 415, "Content-Encoding");
    http_request(&s->http, "POST", "/hub",
                 (const char *[]){"Content-Type: text/xml", both,
                                  "Idempotency-Key: ", NULL},
                 SLICE("x"));
    http_request(&s->http, "POST", "/hub",
                 (const char *[]){"Content-Type:", both, NULL}, SLICE("<a/>"));
    hub_assert_refused(&s->http, 415, "Content-Type");

    post_notification(s, "text/xml", both, SLICE("<a/>"));
    hub_assert_refused(&s->http, 403, "http://example.org/t");
    free(big);
}

static uint64_t
ingest_bytes(struct stage *s)
{
    static const char row[] = "\ntidings_ingest_bytes ";
    const char *at;

    assert_int_equal(http_get(&s->http, "/metrics"), 200);
    at = memmem(s->http.body.data, s->http.body.size, row, strlen(row));
    assert_non_null(at);
    return strtoull(at + strlen(row), NULL, 10);
}

/* Notifications and posts have one budget (--ingest-bytes), which is given back
 * also when a sender breaks off. */
TEST(memory_of_notifications_is_bounded, set_up_small, tear_down)
{
    struct stage *s = *state;
    struct wire *held = wire_connect("127.0.0.1", s->broker.port);
    const size_t size = 700000;
    static const char links[] = "Link: <http://example.org/t>; rel=self, "
                                "<http://example.org/h>; rel=hub";
    struct patience taken = {.with = "the memory to be taken"};
    struct patience given = {.with = "the memory to be given back"};
    char *body = malloc(size);

    memset(body, 'a', size);
    wire_send_format(held,
                     "POST /hub HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     "Content-Type: text/xml\r\n%s\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     links, size);
    wire_send(held, body, size - 1);
    while (ingest_bytes(s) < size - 1) /* of 1 MiB */
        patience_step(&taken);
    post_notification(s, "text/xml", links, (struct slice){body, size});
    hub_assert_refused(&s->http, 503, "too much is being posted");
    assert_non_null(http_header(&s->http, "Retry-After"));

    wire_abort(held);
    while (ingest_bytes(s) > 0)
        patience_step(&given);
    post_notification(s, "text/xml", links, (struct slice){body, size});
    hub_assert_refused(&s->http, 403, "http://example.org/t");
    while (ingest_bytes(s) > 0)
        patience_step(&given);
    free(body);
}

/* W-122: a ping names a topic. */
TEST(a_ping_names_a_topic, set_up, tear_down)
{
    struct stage *s = *state;

    forms_post(&s->http, "/hub", "hub.mode=publish");
    hub_assert_refused(&s->http, 400, "hub.url");
    forms_post(&s->http, "/hub", "hub.mode=publish&hub.url=");
    hub_assert_refused(&s->http, 400, "hub.url");
    forms_post(&s->http, "/hub", "hub.mode=publish&hub.url=nonsense");
    hub_assert_refused(&s->http, 400, "hub.url");
    /* One of our own: there is nothing to be fetched. */
    forms_post(&s->http, "/hub", "hub.mode=publish&hub.topic=%s", s->topic);
    assert_int_equal(s->http.status, 204);
    assert_int_equal(s->http.body.size, 0);
}

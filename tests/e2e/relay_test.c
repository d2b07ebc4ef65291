/*
 * relay_test.c - documents of a foreign Source reach the subscribers of their
 * topic as they came: what websub.rocks asks of a hub (100, 105, 106), for
 * topics that are not our own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/callbacks.h"
#include "tests/support/http.h"
#include "tests/support/hub.h"
#include "tests/support/origin.h"
#include "tests/test.h"

struct stage {
    struct broker broker;
    struct http http;
    struct callbacks *callbacks;
    struct origin *origin;
    char hub[100];
    char links[600]; /* as a good Source posts them */
};

static int
set_up(void **state)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    struct stage *s = calloc(1, sizeof(*s));
    char body[400];

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--hub-retry-first", "0.05", "--hub-retry-max",
                "0.2", "--relay-documents", "100", NULL);
    http_open(&s->http, s->broker.url);
    s->callbacks = callbacks_new("127.0.0.2", true);
    s->origin = origin_new("/feed?of=1");
    snprintf(s->hub, sizeof(s->hub), "%s/hub", s->broker.url);
    origin_names(s->origin, origin_url(s->origin), s->hub);
    snprintf(s->links, sizeof(s->links),
             "Link: <%s>; rel=\"self\", <%s>; rel=\"hub\"",
             origin_url(s->origin), s->hub);
    snprintf(body, sizeof(body), "{\"topic\":\"%s\"}", origin_url(s->origin));
    assert_int_equal(http_request(&s->http, "PUT", "/relays/feed", json,
                                  (struct slice){body, strlen(body)}),
                     201);
    assert_string_equal(http_header(&s->http, "Content-Type"),
                        "application/json");
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    if (s->http.handle)
        http_close(&s->http);
    broker_close(&s->broker);
    callbacks_free(s->callbacks);
    origin_free(s->origin);
    free(s);
    return 0;
}

/* A callback that has subscribed to the relay's topic: it gets whatever is
 * posted after this. */
static struct callback *
join(struct stage *s, const char *target, const char *secret)
{
    struct callback *cb = callbacks_add(s->callbacks, target);

    assert_int_equal(HUB_SUBSCRIBE(&s->http, .topic = origin_url(s->origin),
                                   .callback = callback_url(cb),
                                   .secret = secret),
                     202);
    seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, 1), "hub.topic",
                          origin_url(s->origin));
    return cb;
}

static long
post(struct stage *s, const char *type, struct slice body)
{
    char line[300];
    const char *headers[] = {line, s->links, NULL};

    snprintf(line, sizeof(line), "Content-Type: %s", type);
    return http_request(&s->http, "POST", "/hub", headers, body);
}

static void
assert_delivered(struct stage *s, struct callback *cb, size_t n,
                 const char *type, struct slice body)
{
    const struct seen *seen = callback_await(cb, SEEN_DELIVERY, n);

    assert_int_equal(seen->body_size, body.size);
    assert_memory_equal(seen->body, body.data, body.size);
    seen_assert_header(seen, "Content-Type", type);
    seen_assert_links(seen, origin_url(s->origin), s->hub);
}

FIXTURE(set_up, tear_down);

/* websub.rocks 105 and 106; R-296, W-081, W-083, W-145: same bytes, same media
 * type, links of the topic and of the hub. */
TEST(documents_arrive_as_they_came)
{
    static const char odd[] = "\0\xff\r\n--\x80<urlset";

    static const struct {
        const char *type;
        struct slice body;
    } documents[] = {
        {"text/plain", {"Just text.", 10}},
        {"application/json", {"{\"items\": [ ]}\n", 15}},
        {"application/atom+xml; charset=\"utf-8\"", {"<feed/>", 7}},
        {"application/octet-stream", {odd, sizeof(odd)}},
    };
    struct stage *s = *state;
    struct callback *plain = join(s, "/cb/plain?a=b", NULL);
    struct callback *secret = join(s, "/cb/secret", "s3cr3t");

    for (size_t i = 0; i < 4; i++) {
        /* */
        assert_int_equal(post(s, documents[i].type, documents[i].body), 200);
        assert_delivered(s, plain, i + 1, documents[i].type, documents[i].body);
        assert_delivered(s, secret, i + 1, documents[i].type,
                         documents[i].body);
        seen_assert_signature(callback_await(plain, SEEN_DELIVERY, i + 1),
                              "sha256", NULL);
        seen_assert_signature(callback_await(secret, SEEN_DELIVERY, i + 1),
                              "sha256", "s3cr3t");
    }
    assert_int_equal(callback_count(plain, SEEN_DELIVERY), 4);
    assert_int_equal(origin_count(s->origin, "HEAD"), 1); /* */
}

/* A document is a delivery of its own, also for who is behind: W-093. */
TEST(what_waited_is_not_merged)
{
    struct stage *s = *state;
    struct callback *slow = join(s, "/cb/slow", NULL);
    struct callback *quick = join(s, "/cb/quick", NULL);
    char text[20];

    CALLBACK_DOES(slow, SEEN_DELIVERY, {.waits = true, .times = 1});
    for (int i = 1; i <= 20; i++) {
        snprintf(text, sizeof(text), "document %d", i);
        assert_int_equal(
            post(s, "text/plain", (struct slice){text, strlen(text)}), 200);
    }
    callback_await(quick, SEEN_DELIVERY, 20);
    callback_await(slow, SEEN_DELIVERY, 1);
    assert_int_equal(callback_count(slow, SEEN_DELIVERY), 1);
    callback_release(slow);
    for (int i = 1; i <= 20; i++) {
        snprintf(text, sizeof(text), "document %d", i);
        assert_delivered(s, slow, (size_t)i, "text/plain",
                         (struct slice){text, strlen(text)});
        assert_delivered(s, quick, (size_t)i, "text/plain",
                         (struct slice){text, strlen(text)});
    }
}

/* R-295, W-146: and told why, as text (W-032). */
TEST(a_spoofed_topic_is_refused)
{
    struct stage *s = *state;
    struct callback *cb = join(s, "/cb/1", NULL);

    origin_names(s->origin, origin_url(s->origin), "http://b.example/hub");
    (void)post(s, "text/plain", SLICE("spoofed"));
    hub_assert_refused(&s->http, 403, "rel=hub");
    snprintf(s->links, sizeof(s->links),
             "Link: <http://127.0.0.1:1/other>; rel=self, <%s>; rel=hub",
             s->hub);
    (void)post(s, "text/plain", SLICE("other"));
    hub_assert_refused(&s->http, 403, "is no topic that this hub takes in");
    origin_names(s->origin, origin_url(s->origin), s->hub);
    snprintf(s->links, sizeof(s->links), "Link: <%s>; rel=self, <%s>; rel=hub",
             origin_url(s->origin), s->hub);
    assert_int_equal(post(s, "text/plain", SLICE("real")), 200);

    assert_delivered(s, cb, 1, "text/plain", SLICE("real"));
}

/* what was answered with 200 is delivered, whatever happens, and comes
 * in order; a Source that did not hear the answer may repeat it. */
TEST(nothing_is_lost_by_kill_9)
{
    struct stage *s = *state;
    struct callback *cb = join(s, "/cb/1", NULL);

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 500, .times = 1},
                  {.kind = MANNER_HANG, .times = 1});
    assert_int_equal(post(s, "text/plain", SLICE("one")), 200);
    assert_int_equal(post(s, "text/html", SLICE("two")), 200);
    callback_await(cb, SEEN_DELIVERY, 2); /* "one", refused, then hanging */

    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    assert_int_equal(post(s, "text/html", SLICE("two")), 200);
    assert_int_equal(post(s, "text/plain", SLICE("three")), 200);
    assert_delivered(s, cb, 3, "text/plain", SLICE("one"));
    assert_delivered(s, cb, 4, "text/html", SLICE("two"));
    assert_delivered(s, cb, 5, "text/plain", SLICE("three"));
    assert_int_equal(http_get(&s->http, "/relays/feed"), 200);
    assert_non_null(memmem(s->http.body.data, s->http.body.size,
                           "\"last\":3,\"documents\":3,",
                           strlen("\"last\":3,\"documents\":3,")));
}

/* W-121-W-123: a ping, by either name; what is new is delivered. */
TEST(a_ping_fetches_the_topic)
{
    struct stage *s = *state;
    struct callback *cb = join(s, "/cb/1", NULL);
    struct buf form;

    buf_init(&form, 1000);
    BUF_ADD(&form, "hub.mode=publish&hub.topic=");
    hub_encode(&form, origin_url(s->origin));
    buf_add(&form, "", 1);
    origin_content(s->origin, "application/json", "\"1\"", SLICE("{\"n\":1}"));
    assert_int_equal(hub_send(&s->http, form.data), 204);
    assert_delivered(s, cb, 1, "application/json", SLICE("{\"n\":1}"));
    assert_int_equal(hub_send(&s->http, form.data), 204);
    origin_await(s->origin, "GET", 2);
    origin_content(s->origin, "application/json", "\"2\"", SLICE("{\"n\":2}"));
    assert_int_equal(hub_send(&s->http, form.data), 204);
    assert_delivered(s, cb, 2, "application/json", SLICE("{\"n\":2}"));
    buf_fini(&form);

    (void)hub_send(&s->http,
                   "hub.mode=publish&hub.url=http%3A%2F%2F127.0.0.1%3A1%2F");
    hub_assert_refused(&s->http, 404, "is no topic that this hub takes in");
}

/* W-042: who is subscribed to a relay that is removed is told so. */
TEST(a_removed_relay_ends_its_subscriptions)
{
    struct stage *s = *state;
    struct callback *cb = join(s, "/cb/1", NULL);

    assert_int_equal(post(s, "text/plain", SLICE("one")), 200);
    assert_delivered(s, cb, 1, "text/plain", SLICE("one"));
    assert_int_equal(http_ask(&s->http, "DELETE", "/relays/feed", NULL), 204);
    seen_assert_parameter(callback_await(cb, SEEN_DENIAL, 1), "hub.topic",
                          origin_url(s->origin));
    (void)post(s, "text/plain", SLICE("two"));
    hub_assert_refused(&s->http, 403, "is no topic that this hub takes in");
    assert_int_equal(http_get(&s->http, "/relays/feed"), 404);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 1);
}

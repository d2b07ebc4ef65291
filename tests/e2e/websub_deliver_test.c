/*
 * websub_deliver_test.c - what subscribers get: what the topic is, signed,
 * once; and who gets nothing. What fails: websub_retry_test.c.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/hub_stage.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

FIXTURE(NULL, hub_stage_teardown);

/* W-080, W-081, W-082, W-083, W-102, W-148, R-296, R-308: looked at while the
 * callback has not answered yet. */
TEST(a_delivery_is_what_the_topic_is)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1?a=b&c=%7E");
    const struct seen *d;
    struct xpath x;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.waits = true});
    hub_stage_post(s, 3);
    d = callback_await(cb, SEEN_DELIVERY, 1);
    assert_string_equal(d->method, "POST");
    assert_string_equal(d->target, "/cb/1?a=b&c=%7E");
    assert_string_not_equal(d->id, "");
    seen_assert_links(d, s->topic.text, s->hub.text);
    seen_assert_signature(d, NULL, NULL);
    assert_int_equal(seen_count(d, "webhook-id"), 0);
    assert_int_equal(seen_count(d, "Authorization"), 0);

    assert_int_equal(http_get(&s->http, "/sets/" HUB_SET "/notifications"),
                     200);
    seen_assert_header(d, "Content-Type",
                       http_header(&s->http, "Content-Type"));
    assert_int_equal(s->http.body.size, d->body_size);
    assert_memory_equal(s->http.body.data, d->body, d->body_size);

    assert_int_equal(http_get(&s->http, "/sets/" HUB_SET "/changelist.xml"),
                     200);
    xpath_open(&x, buf_slice(&s->http.body));
    assert_xpath_count(&x, "/s:urlset/s:url", 3);
    xpath_close(&x);

    callback_release(cb);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 1);
    hub_stage_end(s);
}

/* W-140: a set's changes go to its topic, and to no other. */
TEST(every_set_has_a_topic_of_its_own)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *one = hub_stage_join(s, "/cb/1"), *other;
    struct hub_url topic = hub_topic(&s->http, "other");

    source_post(&s->http, "other", 0, 1, 0);
    other = callbacks_add(s->callbacks, "/cb/2");
    hub_join(&s->http, "other", other);
    source_post(&s->http, "other", 1, 2, 0);
    callback_await_last(other, 3);
    hub_stage_post(s, 4);
    callback_await_last(one, 4);

    seen_assert_links(callback_seen(one, SEEN_DELIVERY, 0), s->topic.text,
                      s->hub.text);
    seen_assert_links(callback_seen(other, SEEN_DELIVERY, 0), topic.text,
                      s->hub.text);
    assert_int_equal(callback_count(one, SEEN_DELIVERY), 1);
    assert_int_equal(callback_count(other, SEEN_DELIVERY), 1);
    assert_int_equal(callback_journal(other).first_after, 1);
    hub_stage_end(s);
}

/* W-100, W-101, W-103, W-106, R-304 */
TEST(who_gave_a_secret_gets_signatures)
{
    static const char *const secrets[] = {
        "s", "a b+c&d=e%26\xc3\xa9", "whsec_", "whsec_not base64!",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[N(secrets)];
    size_t last = N(secrets) - 1;

    for (size_t i = 0; i < N(secrets); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = callbacks_add(s->callbacks, target);
        hub_assert_taken(&s->http,
                         HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(all[i]),
                                       .secret = secrets[i]));
        hub_await_active(&s->http, HUB_SET, callback_url(all[i]));
        /* W-166 */
        if (strlen(secrets[i]) > 8)
            assert_null(memmem(s->http.body.data, s->http.body.size, secrets[i],
                               strlen(secrets[i])));
    }
    CALLBACK_DOES(all[last], SEEN_DELIVERY, {.status = 500, .times = 1});
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(secrets); i++)
        seen_assert_signature(callback_await(all[i], SEEN_DELIVERY, 1),
                              "sha256", secrets[i]);
    seen_assert_webhook(callback_await(all[last], SEEN_DELIVERY, 1),
                        secrets[last]);
    seen_assert_webhook(callback_await(all[last], SEEN_DELIVERY, 2),
                        secrets[last]);
    assert_int_equal(
        seen_count(callback_seen(all[0], SEEN_DELIVERY, 0), "webhook-id"), 0);
    hub_stage_end(s);
    assert_false(broker_said(&s->broker, secrets[last]));
}

/* W-100, W-101 */
TEST(the_method_of_signatures_is_a_setting)
{
    static const char *const methods[] = {"sha1", "sha256", "sha384", "sha512"};

    for (size_t i = 0; i < N(methods); i++) {
        struct hub_stage *s =
            HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-signature", methods[i]);
        struct callback *cb = callbacks_add(s->callbacks, "/cb/1");

        hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                                 .callback = callback_url(cb),
                                                 .secret = "s3cr3t"));
        hub_await_active(&s->http, HUB_SET, callback_url(cb));
        hub_stage_post(s, 1);
        seen_assert_signature(callback_await(cb, SEEN_DELIVERY, 1), methods[i],
                              "s3cr3t");
        hub_stage_end(s);
        hub_stage_teardown(state);
    }
}

/* W-085: and the body of the answer is nobody's business. */
TEST(every_2xx_is_success)
{
    static const struct manner manners[] = {
        {.status = 200, .body = "thank you"},
        {.status = 201},
        {.status = 202},
        {.status = 204},
        {.status = 299},
        {.kind = MANNER_ENDLESS_BODY},
        {.kind = MANNER_SLOW_READ, .pause_ms = 1},
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[N(manners)];

    for (size_t i = 0; i < N(manners); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = hub_stage_join(s, target);
        callback_does(all[i], SEEN_DELIVERY, &manners[i], 1);
    }
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(manners); i++)
        hub_await_head(&s->http, HUB_SET, callback_url(all[i]));
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(manners); i++) {
        callback_await_last(all[i], 2);
        hub_await_head(&s->http, HUB_SET, callback_url(all[i]));
        assert_int_equal(callback_count(all[i], SEEN_DELIVERY), 2);
        assert_int_equal(callback_journal(all[i]).n, 2);
    }
    hub_stage_end(s);
}

/* W-086, R-305 */
TEST(a_410_ends_the_subscription)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = hub_stage_join(s, "/cb/1");

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 410});
    hub_stage_post(s, 1);
    callback_await(cb, SEEN_DELIVERY, 1);
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    hub_stage_fence(s, fence);
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 1);

    /* It may come back: from then on, as anybody. */
    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 200});
    hub_join(&s->http, HUB_SET, cb);
    hub_stage_fence(s, fence);
    callback_await_last(cb, 4);
    assert_int_equal(callback_journal(cb).first_after, 3);
    hub_stage_end(s);
}

/* W-092, R-310: the sick ones hang as long as the test lasts. */
TEST(who_hangs_delays_nobody)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout",
                                         "600", "--hub-connections", "40");
    struct callbacks *other_host = callbacks_new("127.0.0.3", true);
    struct callback *healthy = hub_stage_join(s, "/cb/1");
    struct callback *sick[60];
    size_t n_hanging = 0;

    for (size_t i = 0; i < N(sick); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        sick[i] = callbacks_add(other_host, target);
        CALLBACK_DOES(sick[i], SEEN_DELIVERY, {.kind = MANNER_HANG});
        hub_join(&s->http, HUB_SET, sick[i]);
    }
    for (unsigned i = 0; i < 100; i++)
        callback_await_last(healthy, hub_stage_post(s, 1));
    callback_await(sick[0], SEEN_DELIVERY, 1);
    for (size_t i = 0; i < N(sick); i++)
        n_hanging += callback_count(sick[i], SEEN_DELIVERY);
    assert_in_range(n_hanging, 1, N(sick)); /* they did, and do, hang */
    hub_stage_end(s);
    callbacks_free(other_host);
}

/* W-160, W-161: whatever its spelling says. The log tells why: the answer to
 * the request cannot (W-031). */
TEST(addresses_that_are_not_allowed_are_not_called)
{
    static const char *const urls[] = {
        "http://10.1.2.3:9/cb/1",       "http://169.254.169.254/cb/1",
        "http://[fe80::1]:9/cb/1",      "http://0x0a010203:9/cb/1",
        "http://[::ffff:10.1.2.3]:9/1", "http://0.0.0.0:9/cb/1",
        "http://167838211:9/cb/1",      "http://10.66051:9/cb/1",
    };
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");

    for (size_t i = 0; i < N(urls); i++) {
        hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                                 .callback = urls[i]));
        hub_await_gone(&s->http, HUB_SET, urls[i]);
    }
    assert_true(broker_said(&s->broker, "a callback did not confirm"));
    assert_true(
        broker_said(&s->broker, "its address 10.1.2.3 may not be called"));
    hub_stage_fence(s, fence);
    assert_int_equal(hub_count(&s->http, HUB_SET), 1);
    hub_stage_end(s);
}

/* R-320, W-042: who follows how a set is published is told that it is removed,
 * and denied then. */
TEST(a_removed_set_is_told_before_it_is_denied)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1"), *plain;
    const struct seen *told, *denial;
    struct xpath x;
    char topic[400];

    hub_stage_post(s, 1); /* that the set was created is told by then */
    plain = hub_stage_join(s, "/cb/2");
    snprintf(topic, sizeof(topic),
             "%s/sets/" HUB_SET "/framework-notifications", s->broker.url);
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .topic = topic,
                                             .callback = callback_url(cb)));
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 503, .times = 3});
    assert_int_equal(http_ask(&s->http, "DELETE", "/sets/" HUB_SET, NULL), 204);
    callback_await(plain, SEEN_DENIAL, 1);
    callback_await(cb, SEEN_DELIVERY, 1);
    /* A set of the same name is another one, and told to others. */
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/" HUB_SET,
                     (const char *[]){"Content-Type: application/json", NULL},
                     SLICE("{}")),
        201);

    denial = callback_await(cb, SEEN_DENIAL, 1);
    seen_assert_parameter(denial, "hub.topic", topic);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 4);
    told = callback_seen(cb, SEEN_DELIVERY, 3);
    assert_true(told->order < denial->order);
    assert_true(callback_accepted(cb, told));
    xpath_open(&x, (struct slice){told->body, told->body_size});
    assert_xpath_count(&x,
                       "/s:urlset/s:url[1]/rs:md[@change='deleted' and "
                       "@capability='capabilitylist']",
                       1);
    assert_xpath_count(&x, "//rs:md[@change='created']", 0);
    xpath_close(&x);
    hub_stage_end(s);
}

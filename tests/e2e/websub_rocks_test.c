/*
 * websub_rocks_test.c - the hub tests of websub.rocks, 100 to 104, each with
 * all that the tool looks at.
 *
 * 105 and 106 are of topics of other media types, which are relays'.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/hub_stage.h"
#include "tests/test.h"

/* It confirms with application/octet-stream, as callbacks do. */
static struct callback *
subscribe(struct hub_stage *s, const char *secret, const char *more)
{
    struct callback *cb = callbacks_add(s->callbacks, "/cb/rocks?token=1a2b3c");

    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(cb),
                                             .secret = secret, .more = more));
    return cb;
}

static void
check_verification(struct hub_stage *s, struct callback *cb, size_t n,
                   const char *mode)
{
    const struct seen *v = callback_await(cb, SEEN_VERIFICATION, n);
    char text[300];

    seen_assert_parameter(v, "hub.mode", mode);
    seen_assert_parameter(v, "hub.topic", s->topic.text);
    assert_non_null(seen_parameter(v, "hub.challenge", text, sizeof(text)));
    assert_int_not_equal(text[0], '\0');
    if (!strcmp(mode, "subscribe")) {
        assert_non_null(
            seen_parameter(v, "hub.lease_seconds", text, sizeof(text)));
        assert_true(strtoull(text, NULL, 10) > 0);
    }
    if (!strcmp(mode, "subscribe"))
        hub_await_active(&s->http, HUB_SET, callback_url(cb));
}

static struct slice
trimmed(struct slice text)
{
    while (text.size > 0 && isspace((unsigned char)text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && isspace((unsigned char)text.data[text.size - 1]))
        text.size--;
    return text;
}

/* Publishes, and looks at what comes; the topic is read inside the callback. */
static void
check_delivery(struct hub_stage *s, struct callback *cb, const char *secret)
{
    size_t n = callback_count(cb, SEEN_DELIVERY);
    const struct seen *d;
    struct slice topic, body;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.waits = true});
    hub_stage_post(s, 1);
    d = callback_await(cb, SEEN_DELIVERY, n + 1);
    assert_int_equal(http_get(&s->http, "/sets/" HUB_SET "/notifications"),
                     200);
    topic = trimmed(buf_slice(&s->http.body));
    body = trimmed((struct slice){d->body, d->body_size});
    assert_true(body.size > 0);
    assert_true(slice_equal(body, topic));
    seen_assert_header(d, "Content-Type",
                       http_header(&s->http, "Content-Type"));
    seen_assert_links(d, s->topic.text, s->hub.text);
    seen_assert_signature(d, "sha256", secret);
    callback_release(cb);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), n + 1);
}

FIXTURE(NULL, hub_stage_teardown);

/* W-001, W-002: what the tool starts from. */
TEST(the_topic_names_the_hub_and_itself)
{
    static const char *const methods[] = {"GET", "HEAD"};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);

    for (size_t i = 0; i < 4; i++) {
        struct seen answer = {.order = 0};
        char *head;

        if (i == 2)
            hub_stage_post(s, 1);
        http_ask(&s->http, methods[i % 2], "/sets/" HUB_SET "/notifications",
                 NULL);
        assert_int_equal(s->http.status, 200);
        head = slice_dup(buf_slice(&s->http.headers));
        assert_non_null(head);
        answer.head = head;
        seen_assert_links(&answer, s->topic.text, s->hub.text);
        assert_string_equal(http_header(&s->http, "Content-Type"),
                            "application/xml");
        if (i < 2)
            assert_string_equal(http_header(&s->http, "Content-Length"), "0");
        assert_int_equal(s->http.body.size > 0, i == 2);
        free(head);
    }
    hub_stage_end(s);
}

/* 100 */
TEST(a_typical_subscriber_gets_what_is_published)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = subscribe(s, NULL, NULL);

    check_verification(s, cb, 1, "subscribe");
    check_delivery(s, cb, NULL);
    hub_stage_end(s);
}

/* 101 */
TEST(a_subscriber_with_a_secret_gets_it_signed)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = subscribe(s, "0c6d4f9a8b7e", NULL);

    check_verification(s, cb, 1, "subscribe");
    check_delivery(s, cb, "0c6d4f9a8b7e");
    hub_stage_end(s);
}

/* 102 */
TEST(additional_parameters_are_ignored)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = subscribe(s, NULL, "&foo=bar&hub.foo=bar");

    check_verification(s, cb, 1, "subscribe");
    check_delivery(s, cb, NULL);
    hub_stage_end(s);
}

/* 103 */
TEST(who_subscribes_again_gets_one_delivery)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = subscribe(s, NULL, NULL);

    check_verification(s, cb, 1, "subscribe");
    check_delivery(s, cb, NULL);
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(cb)));
    check_verification(s, cb, 2, "subscribe");
    check_delivery(s, cb, NULL);
    hub_stage_end(s);
}

/* 104 */
TEST(who_unsubscribes_gets_nothing_more)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = subscribe(s, NULL, NULL);

    check_verification(s, cb, 1, "subscribe");
    check_delivery(s, cb, NULL);
    hub_assert_taken(&s->http, HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET,
                                               .callback = callback_url(cb)));
    check_verification(s, cb, 2, "unsubscribe");
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 1);
    hub_stage_end(s);
}

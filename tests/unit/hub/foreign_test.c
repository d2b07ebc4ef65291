/* What foreign Sources post to the hub. What they ping: pings_test.c. */
#include "broker/hub/foreign.h"

#include <semaphore.h>
#include <unistd.h>

#include "broker/hub/inside.h"
#include "broker/hub/relay.h"
#include "broker/hub/source.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/hub/stage.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* 200; the Source is asked once, by HEAD. */
TEST(takes_notifications_of_a_source_that_names_us)
{
    struct stage s;
    struct told t;

    stage_open_relay(&s, state);

    t = stage_post(&s, "one");
    assert_http(&t, 200, "");
    t = stage_post(&s, "two");
    assert_http(&t, 200, "");
    assert_int_equal(stage_documents(&s), 2);
    assert_int_equal(origin_count(s.origin, "HEAD"), 1);
    assert_int_equal(origin_count(s.origin, "GET"), 0);

    stage_close(&s);
}

/* Who comes while it is asked waits for the same answer; order is kept. */
TEST(asks_once_for_all_who_wait)
{
    struct stage s;
    struct asking first, second;
    struct posted p;

    stage_open_relay(&s, state);
    origin_hold(s.origin, true);

    p = (struct posted){asked_links(s.topic), "a/b", NULL, SLICE("one")};
    asked_begin(&s.asked, &first, asked_notification(&p));
    origin_await(s.origin, "HEAD", 1);
    p.body = SLICE("two");
    asked_begin(&s.asked, &second, asked_notification(&p));
    (void)stage_documents(&s); /* answered behind it: it waits by now */
    origin_hold(s.origin, false);

    assert_int_equal(asked_await(&first).http, 200);
    assert_int_equal(asked_await(&second).http, 200);
    assert_int_equal(stage_documents(&s), 2);
    assert_int_equal(origin_count(s.origin, "HEAD"), 1);

    stage_close(&s);
}

static void
refused(struct stage *s, const char *links, const char *type, struct slice body,
        unsigned http, const char *part)
{
    struct posted p = {links, type, NULL, body};
    struct told t = asked(&s->asked, asked_notification(&p));

    assert_true(t.status != STATUS_OK);
    assert_http(&t, http, part);
}

/* R-293, W-146: 400. */
TEST(refuses_what_is_no_notification)
{
    struct slice body = SLICE("x");
    char links[1200];
    struct stage s;

    stage_open_relay(&s, state);

#define LINKS(...) (snprintf(links, sizeof(links), __VA_ARGS__), links)
    refused(&s, asked_links(s.topic), "a/b", SLICE(""), 400, "is empty");
    refused(&s, NULL, "a/b", body, 400, "there are 0");
    refused(&s, "<" ASKED_HUB ">; rel=hub", "a/b", body, 400, "there are 0");
    refused(&s, LINKS("<%s>; rel=self", s.topic), "a/b", body, 400,
            "there is none");
    refused(&s,
            LINKS("<%s>; rel=self, <%s>; rel=\"alternate self\", <%s>; rel=hub",
                  s.topic, s.topic, ASKED_HUB),
            "a/b", body, 400, "there are 2");
    refused(&s,
            LINKS("<%s>; rel=self, <http://other.example/>; rel=hub", s.topic),
            "a/b", body, 400, "no link with rel=hub is \"" ASKED_HUB "\"");
    refused(&s, LINKS("</feed>; rel=self, <%s>; rel=hub", ASKED_HUB), "a/b",
            body, 400, "Link rel=self");
    refused(
        &s,
        LINKS("<%s>; rel=self, <%s>; rel=hub, nonsense", s.topic, ASKED_HUB),
        "a/b", body, 400, "Link: is malformed at \"nonsense\"");
    refused(&s, asked_links(s.topic), NULL, body, 400, "no Content-Type");
    assert_int_equal(stage_documents(&s), 0);

    stage_close(&s);
}

/* R-294, W-146. */
TEST(refuses_topics_that_nobody_registered)
{
    struct stage s;

    stage_open_relay(&s, state);

    refused(&s, asked_links("http://127.0.0.1:9/other"), "a/b", SLICE("x"), 403,
            "is no topic that this hub takes in");
    refused(&s, asked_links(SETS_URL "/sets/demo/notifications"), "a/b",
            SLICE("x"), 403, "is no topic that this hub takes in");
    assert_int_equal(origin_count(s.origin, "HEAD"), 0);

    stage_close(&s);
}

static void
assert_spoofed(struct stage *s, const char *links)
{
    struct told t;

    origin_links(s->origin, links);
    t = stage_post(s, "spoofed");
    assert_http(&t, 403, "the topic's own answer to HEAD has no Link");
}

/* a spoofed topic is refused, and asked again the next time: once its
 * Source names us, it is believed. */
TEST(refuses_a_topic_whose_source_does_not_name_us)
{
    char links[1200];
    struct stage s;
    struct told t;

    stage_open_relay(&s, state);

    assert_spoofed(&s, NULL);
    assert_spoofed(&s, LINKS("<%s>; rel=self", s.topic));
    assert_spoofed(&s, LINKS("<%s>; rel=hub", ASKED_HUB));
    assert_spoofed(
        &s, LINKS("<%s>; rel=self, <http://b.example/hub>; rel=hub", s.topic));
    assert_spoofed(&s,
                   LINKS("<%s2>; rel=self, <%s>; rel=hub", s.topic, ASKED_HUB));
    assert_spoofed(&s, LINKS("<%s>; rel=self, <%s2>; rel=self, <%s>; rel=hub",
                             s.topic, s.topic, ASKED_HUB));
    assert_spoofed(&s, LINKS("<%s>; rel=self; anchor=\"#a\", <%s>; rel=hub",
                             s.topic, ASKED_HUB));
    assert_int_equal(stage_documents(&s), 0);

    /* One of several hubs, in another spelling. */
    origin_links(s.origin,
                 LINKS("<http://b.example/hub>; rel=hub, <HTTP://EXAMPLE.org:80"
                       "/h%%75b>; rel=\"x HUB\", <%s>; rel=Self",
                       s.topic));
    t = stage_post(&s, "real");
    assert_http(&t, 200, "");
    assert_int_equal(stage_documents(&s), 1);

    stage_close(&s);
}

/* what cannot be asked now, may be able to another time. */
TEST(tells_a_topic_that_cannot_be_asked_from_a_spoofed_one)
{
    struct stage s;
    struct told t;
    struct posted p;
    struct asking w;
    unsigned n_heads;

    stage_open_relay(&s, state);

    origin_answers(s.origin, 404, NULL, 1);
    t = stage_post(&s, "x");
    assert_http(&t, 403, "answers HEAD with 404");
    origin_answers(s.origin, 503, NULL, 1);
    t = stage_post(&s, "x");
    assert_http(&t, 502, "answers HEAD with 503");
    s.asked.sets.config.hub_timeout_us = 500000;
    origin_hold(s.origin, true);
    p = (struct posted){asked_links(s.topic), "text/plain", NULL, SLICE("x")};
    n_heads = origin_count(s.origin, "HEAD");
    asked_begin(&s.asked, &w, asked_notification(&p));
    origin_await(s.origin, "HEAD", n_heads + 1);
    clock_await_us(500000);
    clock_pass_us(500000);
    t = asked_await(&w);
    assert_http(&t, 504, "did not answer HEAD in time");
    origin_hold(s.origin, false);
    asked_put_relay(&s.asked, "none", "http://127.0.0.1:1/none", 201);
    t = asked_post(&s.asked, "http://127.0.0.1:1/none", "a/b", NULL, "x");
    assert_http(&t, 502, "cannot be asked by HEAD");
    asked_put_relay(&s.asked, "private", "http://10.0.0.1/feed", 201);
    t = asked_post(&s.asked, "http://10.0.0.1/feed", "a/b", NULL, "x");
    assert_http(&t, 403, "cannot be asked by HEAD"); /* W-160 */
    assert_int_equal(stage_documents(&s), 0);

    stage_close(&s);
}

/* W-010 */
TEST(follows_a_redirect_to_where_the_topic_is_named)
{
    struct stage s;
    struct told t;

    stage_open_relay(&s, state);

    origin_answers(s.origin, 302, s.topic, 2);
    t = stage_post(&s, "x");
    assert_http(&t, 200, "");
    assert_int_equal(origin_count(s.origin, "HEAD"), 3);

    stage_close(&s);
}

/* A relay that is told another name of this hub asks again. */
TEST(asks_again_when_the_hub_has_another_name)
{
    char body[600], links[1200];
    struct stage s;
    struct told t;

    stage_open_relay(&s, state);
    t = stage_post(&s, "one");
    assert_http(&t, 200, "");
    snprintf(body, sizeof(body),
             "{\"topic\":\"%s\",\"hub\":\"https://b.example/hub\"}", s.topic);
    t = asked_of_relay(&s.asked, ORDER_RELAY_PUT, "news", body);
    assert_http(&t, 200, "");

    refused(&s, asked_links(s.topic), "a/b", SLICE("two"), 400, "b.example");
    LINKS("<%s>; rel=self, <https://b.example/hub>; rel=hub", s.topic);
    refused(&s, links, "a/b", SLICE("two"), 403, "rel=hub");
    assert_int_equal(stage_documents(&s), 1);

    stage_close(&s);
}

/* Issue 4, point 5: the changes are in the set's log, once and in order. */
TEST(a_set_takes_in_the_changes_once)
{
    static const char *const capabilities[] = {
        NOTICE("change-notification", "http://e.example/1"),
        NOTICE("changelist", "http://e.example/2"),
        NOTICE("whatever", "http://e.example/3"), /* W-144 */
    };
    struct stage s;
    struct told t;

    stage_open_set(&s, state);

    for (unsigned i = 0; i < 3; i++) {
        for (int repeat = 0; repeat < 2; repeat++) {
            t = asked_post(&s.asked, s.topic, "application/xml", NULL,
                           capabilities[i]);
            assert_http(&t, 200, "");
        }
        assert_int_equal(sets_head(&s.asked.sets, "demo").last, i + 1);
    }
    /* The first one again, after a restart: W-091. */
    asked_close_hub(&s.asked);
    sets_close(&s.asked.sets);
    asked_open(&s.asked);
    t = asked_post(&s.asked, s.topic, "text/xml; charset=utf-8", NULL,
                   capabilities[0]);
    assert_http(&t, 200, "");
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 3);
    /* By a key it is another one. */
    t = asked_post(&s.asked, s.topic, "application/xml", "k-1",
                   capabilities[0]);
    assert_http(&t, 200, "");
    t = asked_post(&s.asked, s.topic, "application/xml", "k-1",
                   capabilities[0]);
    assert_http(&t, 200, "");
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 4);

    stage_close(&s);
}

/* R-294, W-146: as a post to the set would be. */
TEST(a_set_refuses_what_a_post_would_be_refused_for)
{
    struct stage s;
    struct told t;

    stage_open_set(&s, state);

    t = asked_post(&s.asked, s.topic, "application/json", NULL, "{}");
    assert_http(&t, 415, "is application/xml");
    t = asked_post(&s.asked, s.topic, "application/xml; charset=latin-1", NULL,
                   NOTICE("x", "http://e.example/1"));
    assert_http(&t, 415, "");
    t = asked_post(&s.asked, s.topic, "application/xml", NULL,
                   URLSET "<rs:md capability=\"changelist\"/>");
    assert_http(&t, 400, "");
    t = asked_post(&s.asked, s.topic, "application/xml", NULL,
                   NOTICE("x", "no URI"));
    assert_http(&t, 422, "");
    t = asked_post(&s.asked, s.topic, "application/xml", "a key",
                   NOTICE("x", "http://e.example/1"));
    assert_http(&t, 400, "");
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 0);
    /* Those who wait behind it are not held up. */
    t = asked_post(&s.asked, s.topic, "application/xml", NULL,
                   NOTICE("x", "http://e.example/1"));
    assert_http(&t, 200, "");

    stage_close(&s);
}

/* Several at once: each is answered, and the log has them in order. */
TEST(a_set_takes_them_in_the_order_they_came)
{
    struct asking w[20];
    char body[1000];
    struct stage s;

    stage_open_set(&s, state);
    for (unsigned i = 0; i < 20; i++) {
        struct posted p = {
            asked_links(s.topic), "application/xml", NULL, {body, 0}};

        p.body.size = (size_t)snprintf(body, sizeof(body),
                                       NOTICE("x", "http://e.example/%u"), i);
        asked_begin(&s.asked, &w[i], asked_notification(&p));
    }
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(asked_await(&w[i]).http, 200);
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 20);

    stage_close(&s);
}

/* The hub ends: who waits is told so. */
TEST(whoever_waits_at_the_end_is_told)
{
    struct asking w;
    struct posted p;
    struct stage s;

    stage_open_relay(&s, state);
    origin_hold(s.origin, true);
    (void)stage_ping(&s);
    p = (struct posted){asked_links(s.topic), "a/b", NULL, SLICE("one")};
    asked_begin(&s.asked, &w, asked_notification(&p));
    origin_await(s.origin, "GET", 1);
    hub_stop(s.asked.hub);
    assert_int_equal(asked_await(&w).status, STATUS_STOPPED);

    stage_close(&s);
}

/* A set that was removed and made anew has another log, which has nothing of
 * what the old one had: not posted, nor fetched. */
TEST(a_set_that_was_made_anew_takes_all_in_again)
{
    static const char one[] = NOTICE("x", "http://e.example/1");
    static const char two[] = NOTICE("x", "http://e.example/2");
    struct stage s;
    struct told t;

    stage_open_set(&s, state);
    t = asked_post(&s.asked, s.topic, "application/xml", NULL, one);
    assert_http(&t, 200, "");
    origin_content(s.origin, "application/xml", "\"2\"", slice_of(two));
    (void)stage_ping(&s);
    stage_await_entries(&s, 2);

    asked_remove_set(&s.asked, "demo");
    stage_put_set(&s);
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 0);
    (void)stage_ping(&s);
    stage_await_entries(&s, 1);
    t = asked_post(&s.asked, s.topic, "application/xml", NULL, one);
    assert_http(&t, 200, "");
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 2);

    stage_close(&s);
}

/* A post whose answer keeps the log's thread until the hub begins nothing more.
 */
struct keeper {
    struct post post;
    struct foreign *foreign;
    sem_t has_begun;
};

static bool
is_ending(struct foreign *f)
{
    bool is;

    pthread_mutex_lock(&f->mutex);
    is = f->is_ending;
    pthread_mutex_unlock(&f->mutex);
    return is;
}

static void
keep_until_the_end(struct post *post)
{
    struct keeper *k = list_entry(post, struct keeper, post);

    sem_post(&k->has_begun);
    AWAIT(is_ending(k->foreign));
}

static void
keep_the_log(struct stage *s, struct keeper *k)
{
    memset(k, 0, sizeof(*k));
    list_init(&k->post.node);
    k->post.kind = POST_CLOSE;
    k->post.set = sets_find(&s->asked.sets, "demo")->log;
    k->post.done = keep_until_the_end;
    k->foreign = s->asked.hub->foreign;
    sem_init(&k->has_begun, 0, 0);
    assert_int_equal(log_submit(registry_log(s->asked.sets.registry), &k->post),
                     STATUS_OK);
    while (sem_wait(&k->has_begun))
        ;
}

/* What waits when the log has the one before it is not begun any more. */
TEST(whoever_waits_for_the_log_at_the_end_is_told)
{
    struct asking w[3];
    struct keeper k;
    struct stage s;
    struct told t;

    stage_open_set(&s, state);
    t = asked_post(&s.asked, s.topic, "application/xml", NULL,
                   NOTICE("x", "http://e.example/0"));
    assert_http(&t, 200, "");

    keep_the_log(&s, &k);
    for (int i = 0; i < 3; i++) {
        static const char *const bodies[] = {
            NOTICE("x", "http://e.example/1"),
            NOTICE("x", "http://e.example/2"),
            NOTICE("x", "http://e.example/3"),
        };
        struct posted p = {asked_links(s.topic), "application/xml", NULL,
                           slice_of(bodies[i])};

        asked_begin(&s.asked, &w[i], asked_notification(&p));
    }
    hub_stop(s.asked.hub);
    assert_int_equal(asked_await(&w[0]).status, STATUS_OK);
    assert_int_equal(asked_await(&w[1]).status, STATUS_STOPPED);
    assert_int_equal(asked_await(&w[2]).status, STATUS_STOPPED);
    assert_int_equal(sets_head(&s.asked.sets, "demo").last, 2);

    sem_destroy(&k.has_begun);
    stage_close(&s);
}

/* Nobody waits for the delivery thread longer than this takes to be written. */
TEST(a_relay_refuses_what_is_too_large)
{
    static char body[RELAY_DOCUMENT_MAX + 1];
    struct posted p;
    struct stage s;
    struct told t;

    stage_open_relay(&s, state);
    memset(body, 'x', sizeof(body));
    p = (struct posted){
        asked_links(s.topic), "a/b", NULL, {body, sizeof(body)}};
    t = asked(&s.asked, asked_notification(&p));
    assert_http(&t, 413, "has at most 8388608 bytes");
    p.body.size--;
    t = asked(&s.asked, asked_notification(&p));
    assert_http(&t, 200, "");
    assert_int_equal(stage_documents(&s), 1);

    stage_close(&s);
}

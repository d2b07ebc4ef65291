/* Documents that foreign Sources post to the hub. Pings: pings_test.c. */
#include "broker/sources/foreign_source.h"

#include <semaphore.h>
#include <unistd.h>

#include "broker/hub/hub_state.h"
#include "broker/sources/foreign_topic.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/hub/stage.h"

FIXTURE(stage_open_relay, stage_close);

/* 200; the Source is asked once, by HEAD. */
TEST(takes_notifications_of_a_source_that_names_us)
{
    assert_http(stage_post("one"), 200, "");
    assert_http(stage_post("two"), 200, "");
    assert_int_equal(stage_documents(), 2);
    assert_int_equal(origin_count(stage.origin, "HEAD"), 1);
    assert_int_equal(origin_count(stage.origin, "GET"), 0);
}

/* A document that arrives during the HEAD request waits for the same answer;
 * the command stays. */
TEST(asks_once_for_all_who_wait)
{
    struct hub_request first, second;
    struct posted p;

    origin_hold(stage.origin, true);

    p = (struct posted){asked_links(stage.topic), "a/b", NULL, SLICE("one")};
    asked_begin(&first, asked_notification(&p));
    origin_await(stage.origin, "HEAD", 1);
    p.body = SLICE("two");
    asked_begin(&second, asked_notification(&p));
    (void)stage_documents(); /* answered behind it: it waits by now */
    origin_hold(stage.origin, false);

    assert_int_equal(asked_await(&first).http, 200);
    assert_int_equal(asked_await(&second).http, 200);
    assert_int_equal(stage_documents(), 2);
    assert_int_equal(origin_count(stage.origin, "HEAD"), 1);
}

static void
refused(const char *links, const char *type, struct slice body, unsigned http,
        const char *part)
{
    struct posted p = {links, type, NULL, body};
    struct told t = asked(asked_notification(&p));

    assert_true(t.status != STATUS_OK);
    assert_http(t, http, part);
}

/* R-293, W-146: 400. */
TEST(refuses_what_is_no_notification)
{
    struct slice body = SLICE("x");
    char links[1200];

#define LINKS(...) (snprintf(links, sizeof(links), __VA_ARGS__), links)
    refused(asked_links(stage.topic), "a/b", SLICE(""), 400, "is empty");
    refused(NULL, "a/b", body, 400, "there are 0");
    refused("<" ASKED_HUB ">; rel=hub", "a/b", body, 400, "there are 0");
    refused(LINKS("<%s>; rel=self", stage.topic), "a/b", body, 400,
            "there is none");
    refused(LINKS("<%s>; rel=self, <%s>; rel=\"alternate self\", <%s>; rel=hub",
                  stage.topic, stage.topic, ASKED_HUB),
            "a/b", body, 400, "there are 2");
    refused(
        LINKS("<%s>; rel=self, <http://other.example/>; rel=hub", stage.topic),
        "a/b", body, 400, "no link with rel=hub is \"" ASKED_HUB "\"");
    refused(LINKS("</feed>; rel=self, <%s>; rel=hub", ASKED_HUB), "a/b", body,
            400, "Link rel=self");
    refused(LINKS("<%s>; rel=self, <%s>; rel=hub, nonsense", stage.topic,
                  ASKED_HUB),
            "a/b", body, 400, "Link: is malformed at \"nonsense\"");
    refused(asked_links(stage.topic), NULL, body, 400, "no Content-Type");
    assert_int_equal(stage_documents(), 0);
}

/* R-294, W-146. */
TEST(refuses_topics_that_nobody_registered)
{
    refused(asked_links("http://127.0.0.1:9/other"), "a/b", SLICE("x"), 403,
            "is no topic that this hub takes in");
    refused(asked_links(SETS_URL "/sets/demo/notifications"), "a/b", SLICE("x"),
            403, "is no topic that this hub takes in");
    assert_int_equal(origin_count(stage.origin, "HEAD"), 0);
}

static void
assert_spoofed(const char *links)
{
    origin_links(stage.origin, links);
    assert_http(stage_post("spoofed"), 403,
                "the topic's own answer to HEAD has no Link");
}

/* a spoofed topic is refused, and asked again the next time: once its
 * Source names us, it is believed. */
TEST(refuses_a_topic_whose_source_does_not_name_us)
{
    char links[1200];

    assert_spoofed(NULL);
    assert_spoofed(LINKS("<%s>; rel=self", stage.topic));
    assert_spoofed(LINKS("<%s>; rel=hub", ASKED_HUB));
    assert_spoofed(
        LINKS("<%s>; rel=self, <http://b.example/hub>; rel=hub", stage.topic));
    assert_spoofed(
        LINKS("<%s2>; rel=self, <%s>; rel=hub", stage.topic, ASKED_HUB));
    assert_spoofed(LINKS("<%s>; rel=self, <%s2>; rel=self, <%s>; rel=hub",
                         stage.topic, stage.topic, ASKED_HUB));
    assert_spoofed(LINKS("<%s>; rel=self; anchor=\"#a\", <%s>; rel=hub",
                         stage.topic, ASKED_HUB));
    assert_int_equal(stage_documents(), 0);

    /* One of several hubs, in another spelling. */
    origin_links(stage.origin,
                 LINKS("<http://b.example/hub>; rel=hub, <HTTP://EXAMPLE.org:80"
                       "/h%%75b>; rel=\"x HUB\", <%s>; rel=Self",
                       stage.topic));
    assert_http(stage_post("real"), 200, "");
    assert_int_equal(stage_documents(), 1);
}

/* if the topic does not answer now, it may answer later. */
TEST(tells_a_topic_that_cannot_be_asked_from_a_spoofed_one)
{
    struct posted p;
    struct hub_request w;
    unsigned n_heads;

    origin_answers(stage.origin, 404, NULL, 1);
    assert_http(stage_post("x"), 403, "answers HEAD with 404");
    origin_answers(stage.origin, 503, NULL, 1);
    assert_http(stage_post("x"), 502, "answers HEAD with 503");
    broker.sets.config.hub_timeout_us = 500000;
    origin_hold(stage.origin, true);
    p = (struct posted){asked_links(stage.topic), "text/plain", NULL,
                        SLICE("x")};
    n_heads = origin_count(stage.origin, "HEAD");
    asked_begin(&w, asked_notification(&p));
    origin_await(stage.origin, "HEAD", n_heads + 1);
    clock_await_us(500000);
    clock_pass_us(500000);
    assert_http(asked_await(&w), 504, "did not answer HEAD in time");
    origin_hold(stage.origin, false);
    asked_put_relay("none", "http://127.0.0.1:1/none", 201);
    assert_http(asked_post("http://127.0.0.1:1/none", "a/b", NULL, "x"), 502,
                "cannot be asked by HEAD");
    asked_put_relay("private", "http://10.0.0.1/feed", 201);
    assert_http(asked_post("http://10.0.0.1/feed", "a/b", NULL, "x"), 403,
                "cannot be asked by HEAD"); /* W-160 */
    assert_int_equal(stage_documents(), 0);
}

/* W-010 */
TEST(follows_a_redirect_to_where_the_topic_is_named)
{
    origin_answers(stage.origin, 302, stage.topic, 2);
    assert_http(stage_post("x"), 200, "");
    assert_int_equal(origin_count(stage.origin, "HEAD"), 3);
}

/* A relay whose settings name another hub asks the topic again. */
TEST(asks_again_when_the_hub_has_another_name)
{
    char body[600], links[1200];

    assert_http(stage_post("one"), 200, "");
    snprintf(body, sizeof(body),
             "{\"topic\":\"%s\",\"hub\":\"https://b.example/hub\"}",
             stage.topic);
    assert_http(asked_of_relay(COMMAND_RELAY_PUT, "news", body), 200, "");

    refused(asked_links(stage.topic), "a/b", SLICE("two"), 400, "b.example");
    LINKS("<%s>; rel=self, <https://b.example/hub>; rel=hub", stage.topic);
    refused(links, "a/b", SLICE("two"), 403, "rel=hub");
    assert_int_equal(stage_documents(), 1);
}

/* The changes are in the set's log, once and in order. */
TEST(a_set_takes_in_the_changes_once, stage_open_set, stage_close)
{
    static const char *const capabilities[] = {
        NOTICE("change-notification", "http://e.example/1"),
        NOTICE("changelist", "http://e.example/2"),
        NOTICE("whatever", "http://e.example/3"), /* W-144 */
    };

    for (unsigned i = 0; i < 3; i++) {
        for (int repeat = 0; repeat < 2; repeat++) {
            assert_http(stage_post_xml(NULL, capabilities[i]), 200, "");
        }
        assert_int_equal(sets_head(&broker.sets, "demo").last, i + 1);
    }
    /* The first one again, after a restart: W-091. */
    asked_close_hub();
    sets_close(&broker.sets);
    asked_open();
    assert_http(asked_post(stage.topic, "text/xml; charset=utf-8", NULL,
                           capabilities[0]),
                200, "");
    assert_int_equal(sets_head(&broker.sets, "demo").last, 3);
    /* With a key the same document counts as a new one. */
    assert_http(stage_post_xml("k-1", capabilities[0]), 200, "");
    assert_http(stage_post_xml("k-1", capabilities[0]), 200, "");
    assert_int_equal(sets_head(&broker.sets, "demo").last, 4);
}

/* R-294, W-146: as a post to the set would be. */
TEST(a_set_refuses_what_a_post_would_be_refused_for, stage_open_set,
     stage_close)
{
    assert_http(asked_post(stage.topic, "application/json", NULL, "{}"), 415,
                "is application/xml");
    assert_http(asked_post(stage.topic, "application/xml; charset=latin-1",
                           NULL, NOTICE("x", "http://e.example/1")),
                415, "");
    assert_http(
        stage_post_xml(NULL, URLSET "<rs:md capability=\"changelist\"/>"), 400,
        "");
    assert_http(stage_post_xml(NULL, NOTICE("x", "no URI")), 422, "");
    assert_http(stage_post_xml("a key", NOTICE("x", "http://e.example/1")), 400,
                "");
    assert_int_equal(sets_head(&broker.sets, "demo").last, 0);
    /* A refusal does not hold up documents that wait behind it. */
    assert_http(stage_post_xml(NULL, NOTICE("x", "http://e.example/1")), 200,
                "");
}

/* Several at once: each is answered, and the log has them in order. */
TEST(a_set_takes_them_in_the_order_they_came, stage_open_set, stage_close)
{
    struct hub_request w[20];
    char body[1000];

    for (unsigned i = 0; i < 20; i++) {
        struct posted p = {
            asked_links(stage.topic), "application/xml", NULL, {body, 0}};

        p.body.size = (size_t)snprintf(body, sizeof(body),
                                       NOTICE("x", "http://e.example/%u"), i);
        asked_begin(&w[i], asked_notification(&p));
    }
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(asked_await(&w[i]).http, 200);
    assert_int_equal(sets_head(&broker.sets, "demo").last, 20);
}

/* The hub ends: a waiting Source is refused with STATUS_STOPPED. */
TEST(whoever_waits_at_the_end_is_told)
{
    struct hub_request w;
    struct posted p;

    origin_hold(stage.origin, true);
    (void)stage_ping();
    p = (struct posted){asked_links(stage.topic), "a/b", NULL, SLICE("one")};
    asked_begin(&w, asked_notification(&p));
    origin_await(stage.origin, "GET", 1);
    hub_stop(broker.hub);
    assert_int_equal(asked_await(&w).status, STATUS_STOPPED);
}

/* A set that was removed and made anew has another log, without the documents
 * of the old one: it takes posted and fetched ones again. */
TEST(a_set_that_was_made_anew_takes_all_in_again, stage_open_set, stage_close)
{
    static const char one[] = NOTICE("x", "http://e.example/1");
    static const char two[] = NOTICE("x", "http://e.example/2");

    assert_http(stage_post_xml(NULL, one), 200, "");
    origin_content(stage.origin, "application/xml", "\"2\"", slice_of(two));
    (void)stage_ping();
    stage_await_entries(2);

    asked_remove_set("demo");
    stage_put_set();
    assert_int_equal(sets_head(&broker.sets, "demo").last, 0);
    (void)stage_ping();
    stage_await_entries(1);
    assert_http(stage_post_xml(NULL, one), 200, "");
    assert_int_equal(sets_head(&broker.sets, "demo").last, 2);
}

/* A post whose answer keeps the log's thread until the hub begins nothing more.
 */
struct keeper {
    struct post post;
    struct foreign_sources *foreign;
    sem_t has_begun;
};

static bool
is_ending(struct foreign_sources *f)
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
keep_the_log(struct keeper *k)
{
    memset(k, 0, sizeof(*k));
    list_init(&k->post.node);
    k->post.kind = POST_CLOSE;
    k->post.set = sets_find(&broker.sets, "demo")->log;
    k->post.done = keep_until_the_end;
    k->foreign = &broker.hub->foreign_sources;
    sem_init(&k->has_begun, 0, 0);
    assert_int_equal(log_submit(broker.sets.registry->log, &k->post, NULL),
                     STATUS_OK);
    while (sem_wait(&k->has_begun))
        ;
}

/* A post that waits for the post before it is not begun any more. */
TEST(whoever_waits_for_the_log_at_the_end_is_told, stage_open_set, stage_close)
{
    struct hub_request w[3];
    struct keeper k;

    assert_http(stage_post_xml(NULL, NOTICE("x", "http://e.example/0")), 200,
                "");

    keep_the_log(&k);
    for (int i = 0; i < 3; i++) {
        static const char *const bodies[] = {
            NOTICE("x", "http://e.example/1"),
            NOTICE("x", "http://e.example/2"),
            NOTICE("x", "http://e.example/3"),
        };
        struct posted p = {asked_links(stage.topic), "application/xml", NULL,
                           slice_of(bodies[i])};

        asked_begin(&w[i], asked_notification(&p));
    }
    hub_stop(broker.hub);
    assert_int_equal(asked_await(&w[0]).status, STATUS_OK);
    assert_int_equal(asked_await(&w[1]).status, STATUS_STOPPED);
    assert_int_equal(asked_await(&w[2]).status, STATUS_STOPPED);
    assert_int_equal(sets_head(&broker.sets, "demo").last, 2);

    sem_destroy(&k.has_begun);
}

/* Other work waits for the delivery thread no longer than the write of such a
 * document takes. */
TEST(a_relay_refuses_what_is_too_large)
{
    static char body[FOREIGN_DOCUMENT_MAX + 1];
    struct posted p;

    memset(body, 'x', sizeof(body));
    p = (struct posted){
        asked_links(stage.topic), "a/b", NULL, {body, sizeof(body)}};
    assert_http(asked(asked_notification(&p)), 413,
                "has at most 8388608 bytes");
    p.body.size--;
    assert_http(asked(asked_notification(&p)), 200, "");
    assert_int_equal(stage_documents(), 1);
}

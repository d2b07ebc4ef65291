/*
 * hub_test.c - SIGKILL in the middle of deliveries and verifications.
 *
 * The moments are random; the seed is printed, and TIDINGS_SEED=N repeats the
 * choices of a run (the moments themselves are the machine's, too).
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/crossed.h"
#include "tests/support/faults.h"
#include "tests/support/hub_stage.h"
#include "tests/support/origin.h"
#include "tests/test.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

#define ROUNDS       test_size(4, 12)
#define POSTS_MAX    60 /* of a round */
#define POST_MAX     20 /* entries of one */
#define LATER_MAX_MS 20
#define CALLBACKS    24

/* Every third is in good order, the others fail now and then. */
static void
misbehave(struct callback *cb, size_t i)
{
    static const enum manner_kind kinds[] = {MANNER_RESET, MANNER_RESET_EARLY,
                                             MANNER_RESET_MIDDLE, MANNER_CLOSE};

    if (i % 3 == 1)
        CALLBACK_DOES(cb, SEEN_DELIVERY, {.times = 2 + (unsigned)i % 5},
                      {.status = 503, .times = 1}, {.times = 3},
                      {.kind = kinds[i % N(kinds)], .times = 2});
    if (i % 3 == 2)
        CALLBACK_DOES(cb, SEEN_DELIVERY,
                      {.kind = MANNER_TRICKLE, .pause_ms = 1, .times = 2});
}

FIXTURE(NULL, hub_stage_teardown);

/* W-074, W-091, W-093, R-306; design section 5, rules 1 and 3: every entry, in
 * order, once when repeats are dropped by the delivery's id. */
TEST(deliveries_go_on_where_a_kill_has_cut_them)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[CALLBACKS];
    uint64_t random = test_seed(), last = 0;
    size_t n_repeats = 0;

    for (size_t i = 0; i < N(all); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = hub_stage_join(s, target);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned n_posts = 1 + crossed_random(&random) % POSTS_MAX;

        for (size_t i = 0; i < N(all); i++)
            misbehave(all[i], i);
        for (unsigned i = 0; i < n_posts; i++)
            last = hub_stage_post(s, 1 + crossed_random(&random) % POST_MAX);
        /* Any moment is as good as another. */
        poll(NULL, 0, (int)(crossed_random(&random) % (LATER_MAX_MS + 1)));
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
    }

    for (size_t i = 0; i < N(all); i++) {
        struct callback_journal j;
        struct trace t;

        callback_await_last(all[i], last);
        hub_await_head(&s->http, HUB_SET, callback_url(all[i]));
        j = callback_journal(all[i]);
        assert_int_equal(j.first_after, 0);
        assert_int_equal(j.n_holes, 0);
        callback_trace(all[i], &t); /* nothing is missing, doubled or moved */
        assert_int_equal(t.last, last);
        assert_int_equal(t.n_repeats, 0);
        trace_fini(&t);
        n_repeats += j.n_repeats;
    }
    print_message("%" PRIu64 " entries to %d callbacks; %zu deliveries were "
                  "repeated\n",
                  last, CALLBACKS, n_repeats);
    hub_stage_end(s);
}

/* W-074, W-091, R-306: the same bytes, under the same id, also when there is
 * more by then. */
TEST(the_delivery_in_flight_is_repeated_as_it_was)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    const struct seen *first, *again;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.kind = MANNER_HANG, .times = 1});
    hub_stage_post(s, 3);
    first = callback_await(cb, SEEN_DELIVERY, 1);
    hub_stage_post(s, 4);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    again = callback_await(cb, SEEN_DELIVERY, 2);
    assert_string_equal(again->id, first->id);
    seen_assert_same_body(again, first);
    callback_await_last(cb, 7);
    assert_int_equal(callback_journal(cb).n_holes, 0);
    hub_stage_end(s);
}

/* W-070, W-074: what was granted holds. */
TEST(subscriptions_leases_and_secrets_outlive_a_kill)
{
    static const struct {
        const char *secret, *lease;
    } cases[] = {{NULL, NULL},
                 {"s3cr3t", "1000"},
                 {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "300"},
                 {"a b+c&d=e%26\xc3\xa9", "2678400"}};
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *all[N(cases)], *ended = hub_stage_join(s, "/cb/ended");
    struct hub_state before[N(cases)];

    for (size_t i = 0; i < N(cases); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu?a=%%7E", i);
        all[i] = callbacks_add(s->callbacks, target);
        hub_assert_taken(&s->http,
                         HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                       .callback = callback_url(all[i]),
                                       .secret = cases[i].secret,
                                       .lease = cases[i].lease));
        hub_await_active(&s->http, HUB_SET, callback_url(all[i]));
        assert_true(
            hub_look(&s->http, HUB_SET, callback_url(all[i]), &before[i]));
    }
    hub_assert_taken(&s->http,
                     HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET,
                                     .callback = callback_url(ended)));
    hub_await_gone(&s->http, HUB_SET, callback_url(ended));
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    assert_int_equal(hub_count(&s->http, HUB_SET), N(cases));
    for (size_t i = 0; i < N(cases); i++) {
        struct hub_state after;

        assert_true(hub_look(&s->http, HUB_SET, callback_url(all[i]), &after));
        assert_string_equal(after.id, before[i].id);
        assert_string_equal(after.state, "active");
        assert_string_equal(after.lease_end, before[i].lease_end);
    }
    hub_stage_post(s, 1);
    for (size_t i = 0; i < N(cases); i++)
        seen_assert_signature(callback_await(all[i], SEEN_DELIVERY, 1),
                              "sha256", cases[i].secret);
    seen_assert_webhook(callback_seen(all[2], SEEN_DELIVERY, 0),
                        cases[2].secret);
    assert_int_equal(callback_count(ended, SEEN_DELIVERY), 0);
    hub_stage_end(s);
}

/* W-031, W-044, W-074: a 202 is a promise; and the subscription begins where it
 * was asked for. */
TEST(a_request_that_was_taken_outlives_a_kill)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    char challenges[2][300];

    hub_stage_post(s, 2);
    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG, .times = 1});
    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                   .callback = callback_url(cb),
                                   .secret = "s3cr3t", .lease = "1234"));
    callback_await(cb, SEEN_VERIFICATION, 1);
    hub_stage_post(s, 2);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    for (size_t i = 0; i < 2; i++) {
        const struct seen *v = callback_await(cb, SEEN_VERIFICATION, i + 1);

        seen_assert_parameter(v, "hub.mode", "subscribe");
        seen_assert_parameter(v, "hub.topic", s->topic.text);
        seen_assert_parameter(v, "hub.lease_seconds", "1234");
        assert_non_null(seen_parameter(v, "hub.challenge", challenges[i],
                                       sizeof(challenges[i])));
    }
    assert_string_not_equal(challenges[0], challenges[1]); /* W-053 */
    callback_await_last(cb, 4);
    assert_int_equal(callback_journal(cb).first_after, 2);
    seen_assert_signature(callback_seen(cb, SEEN_DELIVERY, 0), "sha256",
                          "s3cr3t");
    hub_stage_end(s);
}

/* W-061, W-074 */
TEST(an_unsubscription_that_was_taken_outlives_a_kill)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = hub_stage_join(s, "/cb/1");

    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.kind = MANNER_HANG, .times = 1});
    hub_assert_taken(&s->http, HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET,
                                               .callback = callback_url(cb)));
    callback_await(cb, SEEN_VERIFICATION, 2);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);

    seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, 3), "hub.mode",
                          "unsubscribe");
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 0);
    hub_stage_end(s);
}

/* W-072, W-074: time goes on while the broker is away. */
TEST(a_lease_ends_also_while_the_broker_is_down)
{
    struct faults faults;
    struct hub_stage *s;
    struct callback *fence, *cb;

    faults_open(&faults);
    s = HUB_STAGE_OPEN(state, HUB_QUICK);
    fence = hub_stage_join(s, "/cb/fence");
    cb = callbacks_add(s->callbacks, "/cb/1");
    hub_assert_taken(&s->http, HUB_SUBSCRIBE(&s->http, .set = HUB_SET,
                                             .callback = callback_url(cb),
                                             .lease = "3600"));
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    broker_kill9(&s->broker);
    faults_set_clock(&faults, 3600);
    broker_restart(&s->broker);
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 0);
    assert_int_equal(callback_count(cb, SEEN_VERIFICATION), 1); /* kept as is */
    hub_stage_end(s);
    faults_close(&faults);
}

/* W-091, R-306: what an operator asks for once more is no repeat, but each try
 * of it is. */
TEST(a_redelivery_is_another_delivery)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");
    const struct seen *first, *second, *third;
    struct hub_state now;
    char path[200];

    hub_stage_post(s, 3);
    first = callback_await(cb, SEEN_DELIVERY, 1);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &now));

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.kind = MANNER_HANG, .times = 1});
    snprintf(path, sizeof(path),
             "/sets/" HUB_SET "/subscriptions/%s/redeliver?after=0", now.id);
    assert_int_equal(http_ask(&s->http, "POST", path, NULL), 200);
    second = callback_await(cb, SEEN_DELIVERY, 2);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);
    third = callback_await(cb, SEEN_DELIVERY, 3);

    seen_assert_same_body(second, first);
    seen_assert_same_body(third, first);
    assert_string_not_equal(second->id, first->id);
    assert_string_equal(third->id, second->id);
    callback_await_accepted(cb, 2); /* of those with ids of their own */
    broker_stop(&s->broker);
}

/* Ends that are asked for */

#define HANGING 200

/* R-306; W-074, W-091: SIGTERM waits for no callback (they have 100 seconds
 * here), and what was cut goes on where it was. */
TEST(an_end_cuts_what_hangs_and_loses_nothing)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout", "100",
                       "--hub-host-connections", "1000");
    struct callback *all[HANGING];
    uint64_t last;

    for (size_t i = 0; i < N(all); i++) {
        char target[40];

        snprintf(target, sizeof(target), "/cb/%zu", i);
        all[i] = hub_stage_join(s, target);
        CALLBACK_DOES(all[i], SEEN_DELIVERY, {.kind = MANNER_HANG, .times = 1});
    }
    hub_stage_post(s, 3);
    for (size_t i = 0; i < N(all); i++)
        callback_await(all[i], SEEN_DELIVERY, 1);
    last = hub_stage_post(s, 3);
    broker_stop(&s->broker);
    broker_restart(&s->broker);

    for (size_t i = 0; i < N(all); i++) {
        const struct seen *first = callback_seen(all[i], SEEN_DELIVERY, 0),
                          *again = callback_await(all[i], SEEN_DELIVERY, 2);

        assert_string_equal(again->id, first->id);
        seen_assert_same_body(again, first);
        callback_await_last(all[i], last);
        assert_int_equal(callback_journal(all[i]).n_holes, 0);
    }
    hub_stage_end(s);
}

/* Everything at once */

#define MIXED_ROUNDS test_size(3, 8)
#define STAYING      12 /* they renew */
#define FLIPPING     12 /* they come and go */

struct mixture {
    struct hub_stage *s;
    uint64_t random;
    struct origin *origin;
    struct callback *staying[STAYING], *flipping[FLIPPING], *failing, *reader;
    bool is_wanted[FLIPPING]; /* what was answered 202 last */
    unsigned n_documents;     /* that the relay has answered with 200 */
};

static void
subscribe(struct mixture *m, struct callback *cb, bool is_wanted)
{
    char lease[20];
    struct hub_form form = {
        .mode = is_wanted ? "subscribe" : "unsubscribe",
        .set = HUB_SET,
        .callback = callback_url(cb),
        .lease = is_wanted ? lease : NULL,
    };

    snprintf(lease, sizeof(lease), "%u",
             300 + (unsigned)(crossed_random(&m->random) % 1000));
    hub_assert_taken(&m->s->http, hub_ask(&m->s->http, &form));
}

static void
post_document(struct mixture *m)
{
    struct hub_stage *s = m->s;
    char links[900], text[40];
    const char *headers[] = {"Content-Type: text/plain", links, NULL};

    snprintf(links, sizeof(links),
             "Link: <%s>; rel=\"self\", <%s>; rel=\"hub\"",
             origin_url(m->origin), s->hub.text);
    snprintf(text, sizeof(text), "%u", m->n_documents);
    assert_int_equal(http_request(&s->http, "POST", "/hub", headers,
                                  (struct slice){text, strlen(text)}),
                     200);
    m->n_documents++;
}

static void
mix_begin(struct mixture *m, struct hub_stage *s)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    char text[400];

    *m = (struct mixture){.s = s, .random = test_seed()};
    m->origin = origin_new("/feed");
    origin_names(m->origin, origin_url(m->origin), s->hub.text);
    snprintf(text, sizeof(text), "{\"topic\":\"%s\"}", origin_url(m->origin));
    assert_int_equal(http_request(&s->http, "PUT", "/relays/feed", json,
                                  (struct slice){text, strlen(text)}),
                     201);
    m->reader = callbacks_add(s->callbacks, "/cb/reader");
    hub_assert_taken(&s->http,
                     HUB_SUBSCRIBE(&s->http, .topic = origin_url(m->origin),
                                   .callback = callback_url(m->reader)));
    callback_await(m->reader, SEEN_VERIFICATION, 1);
    m->failing = hub_stage_join(s, "/cb/failing");
    for (size_t i = 0; i < STAYING; i++) {
        snprintf(text, sizeof(text), "/cb/staying/%zu", i);
        m->staying[i] = hub_stage_join(s, text);
    }
    for (size_t i = 0; i < FLIPPING; i++) {
        snprintf(text, sizeof(text), "/cb/flipping/%zu", i);
        m->flipping[i] = callbacks_add(s->callbacks, text);
    }
}

static void
mix_round(struct mixture *m)
{
    unsigned n = 10 + crossed_random(&m->random) % 50;

    CALLBACK_DOES(m->failing, SEEN_DELIVERY, {.status = 500});
    for (unsigned i = 0; i < n; i++) {
        size_t which = crossed_random(&m->random) % FLIPPING;

        switch (crossed_random(&m->random) % 6) {
        case 0:
            subscribe(m, m->staying[which % STAYING], true);
            break;
        case 1:
        case 2:
            m->is_wanted[which] = crossed_random(&m->random) % 2;
            subscribe(m, m->flipping[which], m->is_wanted[which]);
            break;
        case 3:
            post_document(m);
            break;
        default:
            hub_stage_post(m->s, 1 + crossed_random(&m->random) % POST_MAX);
            break;
        }
    }
    poll(NULL, 0, (int)(crossed_random(&m->random) % (LATER_MAX_MS + 1)));
}

/* Every request that was answered 202 has come to its end, the newest of its
 * pair last. */
static void
assert_as_wanted(struct mixture *m)
{
    struct http *h = &m->s->http;

    for (size_t i = 0; i < FLIPPING; i++)
        if (m->is_wanted[i])
            hub_await_active(h, HUB_SET, callback_url(m->flipping[i]));
        else
            hub_await_gone(h, HUB_SET, callback_url(m->flipping[i]));
    for (size_t i = 0; i < STAYING; i++)
        hub_await_active(h, HUB_SET, callback_url(m->staying[i]));
}

/* Whatever was answered 200 was delivered, in order. */
static void
assert_documents(struct mixture *m)
{
    size_t n = 0;
    unsigned next = 0;

    callback_await_accepted(m->reader, m->n_documents);
    n = callback_count(m->reader, SEEN_DELIVERY);
    for (size_t i = 0; i < n; i++) {
        const struct seen *d = callback_seen(m->reader, SEEN_DELIVERY, i);
        unsigned number = (unsigned)strtoul(d->body, NULL, 10);

        assert_in_range(number, 0, next); /* a repeat, or the next */
        next += number == next;
    }
    assert_int_equal(next, m->n_documents);
}

/* W-031, W-036, W-044, W-061, W-074, W-090, R-296, R-306 */
TEST(nothing_that_was_answered_is_lost)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-give-up", "0.1");
    struct mixture m;
    uint64_t last;

    mix_begin(&m, s);
    for (unsigned round = 0; round < MIXED_ROUNDS; round++) {
        mix_round(&m);
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
        assert_as_wanted(&m);
    }
    CALLBACK_DOES(m.failing, SEEN_DELIVERY, {.status = 200});
    last = hub_stage_post(s, 1);
    for (size_t i = 0; i < STAYING; i++) {
        struct trace t;

        callback_await_last(m.staying[i], last);
        assert_int_equal(callback_journal(m.staying[i]).n_holes, 0);
        callback_trace(m.staying[i], &t);
        assert_int_equal(t.last, last);
        trace_fini(&t);
    }
    callback_await_last(m.failing, last); /* with holes, but it goes on */
    assert_documents(&m);
    origin_free(m.origin);
    hub_stage_end(s);
}

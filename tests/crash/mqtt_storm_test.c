/*
 * mqtt_storm_test.c - 100,000 changes through a bridge, while the MQTT broker
 * is restarted ten times and ours is killed ten times: every one arrives, in
 * order, and none twice for who can tell repeats.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/jsonpath.h"
#include "tests/support/mqtt_reader.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/source.h"
#include "tests/support/walk.h"
#include "tests/test.h"

#define ENTRIES test_size(20000, 100000) /* in all */
#define PARTS   2U                       /* sets outwards, publishers inwards */
#define EACH    (ENTRIES / PARTS)
#define ROUNDS  10U

/* Entries of a post, and of a message. */
#define POST    100U
#define MESSAGE 50U

/* Until a post is tried again. */
#define AGAIN_MS 5

/* The storm */

/* How many entries got through so far. */
typedef uint64_t progress_fn(void *user);

static void
await_progress(progress_fn *progress, void *user, uint64_t n)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;
    uint64_t now, before = 0;

    while ((now = progress(user)) < n) {
        if (now > before)
            end_ms = process_now_ms() + PATIENCE_MS;
        if (process_now_ms() > end_ms)
            fail_msg("nothing went on after %" PRIu64 " entries", now);
        before = now;
        poll(NULL, 0, AGAIN_MS);
    }
}

/* Restarts the one, kills the other, in turns and sometimes both at once. The
 * moments are evenly spread over all entries. */
static void
rage(struct bridge_stage *s, progress_fn *progress, void *user)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool is_both = i % 3 == 2;

        await_progress(progress, user,
                       (2 * i + 1) * (uint64_t)ENTRIES / (2 * ROUNDS + 1));
        mosquittod_stop(&s->mqtt);
        if (is_both) {
            broker_kill9(&s->broker);
            broker_restart(&s->broker);
        }
        mosquittod_restart(&s->mqtt);

        await_progress(progress, user,
                       (2 * i + 2) * (uint64_t)ENTRIES / (2 * ROUNDS + 1));
        if (!is_both) {
            broker_kill9(&s->broker);
            broker_restart(&s->broker);
        }
    }
}

/* Outwards */

/* A source that posts to a set, in order, each post until it is answered. */
struct poster {
    pthread_t thread;
    char url[64]; /* its own: a broker that starts again writes its anew */
    char set[8];
    atomic_uint n_posted; /* entries */
    atomic_bool is_stopping;
    struct problem why; /* what went wrong; "": nothing */
};

static const char *const sets[PARTS] = {"left", "right"};

static bool
is_posted(struct poster *p, struct http *h, unsigned from, struct slice body)
{
    char key[60], path[60];
    const char *const headers[] = {"Content-Type: application/json", key, NULL};

    snprintf(key, sizeof(key), "Idempotency-Key: %s-%u", p->set, from);
    snprintf(path, sizeof(path), "/sets/%s/changes", p->set);
    while (http_request(h, "POST", path, headers, body) != 200) {
        if (atomic_load(&p->is_stopping))
            return false;
        if (h->status != 0 && h->status != 503) { /* it is away, or ending */
            problem_set(&p->why, "a post was answered with %ld: %s", h->status,
                        problem_quote(buf_slice(&h->body)).text);
            return false;
        }
        poll(NULL, 0, AGAIN_MS);
    }
    return true;
}

static void *
post_all(void *user)
{
    struct poster *p = user;
    bool is_going_on = true;
    struct http h;
    struct buf body;

    http_open(&h, p->url);
    buf_init(&body, (size_t)1 << 20);
    for (unsigned n = 0; is_going_on && n < EACH; n += POST) {
        buf_clear(&body);
        source_entries(&body, n + 1, POST, 0);
        is_going_on = is_posted(p, &h, n + 1, buf_slice(&body));
        if (is_going_on)
            atomic_fetch_add(&p->n_posted, POST);
    }
    buf_fini(&body);
    http_close(&h);
    return NULL;
}

static uint64_t
posted(void *user)
{
    struct poster *posters = user;
    uint64_t n = 0;

    for (size_t i = 0; i < PARTS; i++)
        n += atomic_load(&posters[i].n_posted);
    return n;
}

/* Every entry of the set, in order: entry N is http://example.com/r/N. */
static void
check_set(struct mqtt_peer *hearer, const char *set)
{
    struct mqtt_reader r;
    char topic[60];

    snprintf(topic, sizeof(topic), "tidings/%s/notifications", set);
    mqtt_reader_init(&r, hearer, topic, NOTICE_XML);
    mqtt_reader_until(&r, EACH);
    assert_true(r.trace.has_digests);
    for (uint64_t seq = 1; seq <= EACH; seq++) {
        char loc[60];

        snprintf(loc, sizeof(loc), "http://example.com/r/%" PRIu64, seq);
        assert_string_equal(trace_at(&r.trace, seq)->loc, loc);
    }
    print_message("%s: %zu messages, and %zu repeats\n", set, r.n_messages,
                  r.n_repeats);
    mqtt_reader_fini(&r);
}

FIXTURE(NULL, bridge_stage_teardown);

/* Issue 5, points 1 and 6. A repeat is the same message once more, with the
 * same ends: mqtt_reader sees to that, and to the digests. */
TEST(every_change_goes_out_through_the_storm)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct poster posters[PARTS] = {{.url = ""}};

    bridge_stage_config(s,
                        "[mqtt storm]\nurl = %s\nout = left,right\n"
                        "form = xml\npacket-bytes = 16K\n" BRIDGE_QUICK,
                        s->mqtt.url);
    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.join = {.client_id = "hearer"},
                                         .filters = {"tidings/+/notifications"},
                                         .keeps_session = true});
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    for (size_t i = 0; i < PARTS; i++) {
        struct poster *p = &posters[i];

        snprintf(p->url, sizeof(p->url), "%s", s->broker.url);
        snprintf(p->set, sizeof(p->set), "%s", sets[i]);
        assert_int_equal(pthread_create(&p->thread, NULL, post_all, p), 0);
    }
    rage(s, posted, posters);
    for (size_t i = 0; i < PARTS; i++) {
        pthread_join(posters[i].thread, NULL);
        if (posters[i].why.text[0])
            fail_msg("%s", posters[i].why.text);
    }

    for (size_t i = 0; i < PARTS; i++)
        check_set(s->hearer, sets[i]);
    assert_int_equal(bridge_stage_number(s, "bridges.0.out.leftOut"), 0);
    bridge_stage_end(s);
}

/* Inwards */

/* Message M of publisher W: MESSAGE changes of http://example.com/W/N. Keys of
 * all three kinds. */
static void
say(struct mqtt_peer *teller, unsigned who, unsigned m)
{
    struct mqtt_saying saying = {.topic = who ? "feed/right" : "feed/left"};
    char key[30];
    struct buf text;

    snprintf(key, sizeof(key), "%u-%u", who, m);
    buf_init(&text, (size_t)1 << 20);
    BUF_ADD(&text, "{");
    if (m % 3 == 0)
        buf_add_format(&text, "\"id\":\"%s\",", key);
    else if (m % 3 == 1)
        saying.key = key;
    else
        saying.correlation = slice_of(key);
    BUF_ADD(&text, "\"changes\":[");
    for (unsigned i = 0; i < MESSAGE; i++)
        buf_add_format(&text,
                       "%s{\"loc\":\"http://example.com/%u/%u\","
                       "\"change\":\"updated\"}",
                       i ? "," : "", who, m * MESSAGE + i);
    BUF_ADD(&text, "]}");
    assert_false(text.failed);
    saying.payload = buf_slice(&text);
    mqtt_peer_say(teller, &saying);
    buf_fini(&text);
}

static uint64_t
arrived(void *user)
{
    struct bridge_stage *s = user;

    return bridge_stage_last(&s->http, "storm");
}

/* Each publisher's entries are there once, in its order. */
static void
check_storm(const struct trace *t)
{
    unsigned next[PARTS] = {0};

    assert_int_equal(t->last, ENTRIES);
    for (uint64_t seq = 1; seq <= t->last; seq++) {
        unsigned who, n;

        assert_int_equal(
            sscanf(trace_at(t, seq)->loc, "http://example.com/%u/%u", &who, &n),
            2);
        assert_in_range(who, 0, PARTS - 1);
        assert_int_equal(n, next[who]);
        next[who]++;
    }
}

/* Issue 5, points 3 and 6. */
TEST(every_change_comes_in_through_the_storm_and_none_twice)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct walk w;

    bridge_stage_config(
        s, "[mqtt storm]\nurl = %s\nin = feed/+ -> storm\n" BRIDGE_QUICK,
        s->mqtt.url);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    mosquittod_await_subscription(&s->mqtt, "feed/+");
    s->teller = mqtt_peer_tell(&s->mqtt, NULL);
    s->second = mqtt_peer_tell(&s->mqtt, NULL);
    for (unsigned m = 0; m < EACH / MESSAGE; m++) {
        say(s->teller, 0, m);
        say(s->second, 1, m);
    }
    rage(s, arrived, s);
    mqtt_peer_await_said(s->teller, EACH / MESSAGE);
    mqtt_peer_await_said(s->second, EACH / MESSAGE);
    bridge_stage_await_last(&s->http, "storm", ENTRIES);

    walk_open(&w, &s->broker, "storm");
    walk_all(&w);
    check_storm(&w.trace);
    walk_close(&w);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.rejected"), 0);
    bridge_stage_end(s);
}

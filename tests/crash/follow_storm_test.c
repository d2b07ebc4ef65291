/*
 * follow_storm_test.c - a million changes reach a follower through a network
 * that cuts, resets, stalls and reorders its connections, while the broker and
 * the follower are killed, lists are rotated, and old ones are removed: in the
 * end it has what the source has, and has applied every change once.
 *
 * The seed is printed, and TIDINGS_SEED=N repeats the choices of a run (the
 * moments themselves are the machine's, too).
 */
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings_follow.h"
#include "proto/problem.h"
#include "tests/support/broker.h"
#include "tests/support/cutter.h"
#include "tests/support/http.h"
#include "tests/support/keeper.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/sanitized.h"
#include "tests/test.h"

#define MANY      ((uint64_t)test_size(100000, 1000000))
#define FEWER     (MANY / 5) /* by other ways than the best */
#define RESOURCES 20000U
#define POST      5000U /* entries of a post */

/* What is retained is more than the follower may be behind: it has to be late
 * for much, never for all. */
#define LIST_ENTRIES "10000"
#define RETAINED     "20"
#define BEHIND_MAX   UINT64_C(150000)

/* The follower is killed in the first half; in the second it lives, and its
 * memory is looked at. */
#define FOLLOWER_KILLS 10U
#define BROKER_KILLS   5U

/* A message has at most 512 KiB (--message-bytes). The follower has it as it
 * comes, its fields, and the answer of a page at the same time: 16 times that,
 * and the libraries, and SQLite's cache (2 MB), are far below the peak. From
 * the middle on it may grow by what is torn in the heap by one message more. A
 * follower that kept but 16 bytes of each change would grow by more. */
#define PEAK_KIB   (64 * 1024)
#define GROWTH_KIB (6 * 1024)

/* Until it is looked again, and a post is tried again. */
#define AGAIN_MS 5

/* The changes: number `i`, from 1 on, is of one of the resources. */

static uint64_t
mix(uint64_t i)
{
    i = (i ^ (i >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    i = (i ^ (i >> 27)) * UINT64_C(0x94d049bb133111eb);
    return i ^ (i >> 31);
}

static uint32_t
resource_of(uint64_t i)
{
    return (uint32_t)(mix(i) % RESOURCES);
}

static bool
is_deletion(uint64_t i)
{
    return mix(i) / RESOURCES % 10 == 0;
}

static void
add_changes(struct buf *to, uint64_t from, unsigned n)
{
    BUF_ADD(to, "[");
    for (uint64_t i = from; i < from + n; i++) {
        buf_add_format(to, "%s{\"loc\":\"http://example.com/r/%" PRIu32 "\",",
                       i > from ? "," : "", resource_of(i));
        if (is_deletion(i))
            BUF_ADD(to, "\"change\":\"deleted\"}");
        else
            buf_add_format(to, "\"change\":\"updated\",\"length\":%" PRIu64 "}",
                           i);
    }
    BUF_ADD(to, "]");
}

/* The stage */

struct stage {
    struct broker broker;
    struct cutter *cutter;
    struct keeper keeper;
    uint64_t entries;
    unsigned transports;
    uint64_t middle_kib; /* the follower's memory, in its middle */
    struct tempdir dir;
    char database[300];
    char url[100]; /* of the set, through the cutter */

    pthread_t poster;
    char poster_url[64];
    atomic_uint_fast64_t n_posted, n_kept; /* so far, as far as was seen */
    atomic_bool is_stopping;
    struct problem why; /* what went wrong with posting; "": nothing */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    tempdir_open(&s->dir);
    snprintf(s->database, sizeof(s->database), "%s/state.db", s->dir.path);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    if (s->poster_url[0]) {
        atomic_store(&s->is_stopping, true);
        pthread_join(s->poster, NULL);
    }
    if (s->keeper.pid)
        keeper_kill9(&s->keeper);
    cutter_free(s->cutter);
    broker_close(&s->broker);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

/* The source: posts until each post is answered, and waits for who is far
 * behind. */

static bool
is_posted(struct stage *s, struct http *h, uint64_t from, struct slice body)
{
    char key[60];
    const char *const headers[] = {"Content-Type: application/json", key, NULL};

    snprintf(key, sizeof(key), "Idempotency-Key: storm-%" PRIu64, from);
    while (http_request(h, "POST", "/sets/storm/changes", headers, body) !=
           200) {
        if (atomic_load(&s->is_stopping))
            return false;
        if (h->status != 0 && h->status != 503) { /* it is away, or ending */
            problem_set(&s->why, "a post was answered with %ld: %s", h->status,
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
    struct stage *s = user;
    bool is_going_on = true;
    struct http h;
    struct buf body;

    http_open(&h, s->poster_url);
    buf_init(&body, (size_t)4 << 20);
    for (uint64_t n = 0; is_going_on && n < s->entries; n += POST) {
        buf_clear(&body);
        add_changes(&body, n + 1, POST);
        while (n + POST > atomic_load(&s->n_kept) + BEHIND_MAX &&
               !atomic_load(&s->is_stopping))
            poll(NULL, 0, AGAIN_MS);
        is_going_on = is_posted(s, &h, n + 1, buf_slice(&body));
        if (is_going_on)
            atomic_fetch_add(&s->n_posted, POST);
    }
    buf_fini(&body);
    http_close(&h);
    return NULL;
}

/* The storm */

/* Waits until the follower has so many. */
static void
await_kept(struct stage *s, uint64_t n)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;
    uint64_t now, before = 0;

    while ((now = keeper_seq(s->database)) < n) {
        atomic_store(&s->n_kept, now);
        if (now > before)
            end_ms = process_now_ms() + PATIENCE_MS;
        if (process_now_ms() > end_ms)
            fail_msg("nothing went on after %" PRIu64 " changes of %" PRIu64,
                     now, atomic_load(&s->n_posted));
        before = now;
        poll(NULL, 0, AGAIN_MS);
    }
    atomic_store(&s->n_kept, now);
}

static void
start_follower(struct stage *s)
{
    keeper_start(&s->keeper, s->url, s->database, s->entries, s->transports);
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Moments are evenly spread over the changes. */
static void
rage(struct stage *s)
{
    const unsigned moments = 2 * FOLLOWER_KILLS;
    uint64_t began = 0;

    for (unsigned i = 1; i < moments; i++) {
        await_kept(s, i * s->entries / moments);
        if (i % (moments / BROKER_KILLS) == 2) {
            broker_kill9(&s->broker);
            broker_restart(&s->broker);
        }
        if (i <= FOLLOWER_KILLS) {
            keeper_kill9(&s->keeper);
            began = keeper_seq(s->database);
            start_follower(s);
        }
        /* It has done something by then, or it was far ahead and there is
         * nothing left to do. */
        if (i == FOLLOWER_KILLS + 1) {
            await_kept(s, least(began + s->entries / moments, s->entries));
            s->middle_kib = keeper_rss_kib(&s->keeper);
        }
    }
}

/* What the source has, and how often each resource changed. */
static void
check_state(const struct stage *s)
{
    struct kept *expected = calloc(RESOURCES, sizeof(*expected));
    struct kept *kept = keeper_all(s->database, RESOURCES);

    assert_non_null(expected);
    for (uint64_t i = 1; i <= s->entries; i++) {
        struct kept *e = &expected[resource_of(i)];

        e->n++;
        e->length = is_deletion(i) ? 0 : i;
    }
    for (uint32_t i = 0; i < RESOURCES; i++) {
        assert_int_equal(kept[i].n, expected[i].n);
        assert_int_equal(kept[i].length, expected[i].length);
    }
    free(kept);
    free(expected);
}

/* `fated`: so many of 100 connections are closed or reset. */
static void
storm(struct stage *s, uint64_t entries, unsigned transports, unsigned fated)
{
    struct cutter_plan plan = {.seed = test_seed(),
                               .bytes_max = 8 << 20,
                               .closes = fated / 2,
                               .resets = fated / 2,
                               .stalls = fated / 16,
                               .holds = 20,
                               .stall_ms = 5000};
    struct cutter_counts counts;
    uint64_t rss_kib, peak_kib;

    s->entries = entries;
    s->transports = transports;
    /* What the broker tells of itself leads through the cutter, too. */
    s->cutter = cutter_new(0);
    broker_open(&s->broker, "--public-url", cutter_url(s->cutter),
                "--rotate-entries", LIST_ENTRIES, "--retain-lists", RETAINED,
                "--message-bytes", "512K", "--tail-bytes", "1M", "--heartbeat",
                "0.5", NULL);
    cutter_point(s->cutter, s->broker.port);
    cutter_plan(s->cutter, &plan);
    snprintf(s->url, sizeof(s->url), "%s/sets/storm", cutter_url(s->cutter));
    snprintf(s->poster_url, sizeof(s->poster_url), "%s", s->broker.url);
    assert_int_equal(pthread_create(&s->poster, NULL, post_all, s), 0);
    /* A set that is not there is refused: it begins with the first post. */
    while (!atomic_load(&s->n_posted) && !s->why.text[0])
        poll(NULL, 0, AGAIN_MS);
    start_follower(s);

    rage(s);
    await_kept(s, entries);
    keeper_end(&s->keeper, &rss_kib, &peak_kib);
    if (s->why.text[0])
        fail_msg("%s", s->why.text);

    check_state(s);
    counts = cutter_counts(s->cutter);
    print_message(
        "%u connections, %" PRIu64
        " bytes: %u closed, %u reset, %u stalled; the "
        "follower had %" PRIu64 " KiB, then %" PRIu64 ", at most %" PRIu64 "\n",
        counts.n_connections, counts.passed[CUTTER_DOWN], counts.n_closes,
        counts.n_resets, counts.n_stalls, s->middle_kib, rss_kib, peak_kib);
    if (IS_SANITIZED)
        return;
    if (entries == 1000000) /* fewer bytes may be spared by chance */
        assert_in_range(counts.n_closes + counts.n_resets, 10, UINT_MAX);
    assert_in_range(peak_kib, 1, PEAK_KIB);
    assert_in_range(rss_kib, 1, s->middle_kib + GROWTH_KIB);
}

FIXTURE(set_stage, clear_stage);

/* By the best way that works. */
TEST(every_change_is_applied_once_through_the_storm)
{
    storm(*state, MANY, 0, 90);
}

/* The same, W3C server-sent events. */
TEST(nothing_is_lost_or_doubled_of_events)
{
    storm(*state, FEWER, TD_EVENTS, 80);
}

/* The same, R-343. Nothing comes of an answer that does not come whole, so that
 * pauses would grow long: more of them are spared. */
TEST(nothing_is_lost_or_doubled_of_long_polls)
{
    storm(*state, FEWER, TD_LONG_POLL, 40);
}

/* The same, R-225, of the Change Lists alone. To find the one where it was, a
 * follower asks for many, each by a connection of its own, and begins again
 * when one of them breaks: most are spared. */
TEST(nothing_is_lost_or_doubled_of_lists)
{
    storm(*state, FEWER, TD_POLL, 4);
}

TEST_PROGRAM(KEEPER, keeper_main);

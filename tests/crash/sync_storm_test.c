/*
 * sync_storm_test.c - `tidings sync` of a set whose resources change all the
 * time, killed again and again, as the broker is; through a network that cuts,
 * resets, stalls and reorders connections, from a site that makes trouble;
 * while lists are rotated and old ones removed. In the end the mirror is what
 * the source is, and every change was applied once.
 *
 * The seed is printed, and TIDINGS_SEED=N repeats the choices of a run (the
 * moments themselves are the machine's, too).
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/problem.h"
#include "tests/support/booked.h"
#include "tests/support/broker.h"
#include "tests/support/changing.h"
#include "tests/support/command.h"
#include "tests/support/cutter.h"
#include "tests/support/http.h"
#include "tests/support/process.h"
#include "tests/support/sanitized.h"
#include "tests/support/site.h"
#include "tests/test.h"

#define CHANGES   ((unsigned)test_size(1500, 6000))
#define RESOURCES 700U
#define LIVES     ((unsigned)test_size(8, 24)) /* of the mirror */
#define LIFE_MS   3000U
#define POST      40U /* entries of a post, at most */

/* What is retained is more than the mirror may be behind. */
#define LIST_ENTRIES "200"
#define RETAINED     "5"
#define BEHIND_MAX   900U

/* Until it is looked again, and a post is tried again. */
#define AGAIN_MS 5

/* How many lives may go by without any progress. */
#define LIVES_LOST_MAX 30U

struct stage {
    struct broker broker;
    struct cutter *cutter; /* before the broker */
    struct site *site;
    struct cutter *site_cutter; /* before the site */
    struct changing source;
    struct tempdir home;
    char dir[300]; /* the mirror */
    char set_url[100];
    struct die die;
    pid_t pid; /* of the mirror; 0: it does not run */
    int out;
    char log[300];
    struct command command;

    pthread_t poster;
    bool is_posting;
    char poster_url[64];
    atomic_uint n_allowed; /* changes that may happen so far */
    atomic_uint n_posted;
    atomic_bool is_stopping;
    struct problem why; /* what went wrong with posting; "": nothing */
};

/* The source */

static void
add_change(struct stage *s, struct buf *to)
{
    const struct changed *c = changing_change(&s->source);
    char hash[CHANGING_HASH_SIZE];
    size_t n = s->source.n_all;

    buf_add_format(to, "%s{\"loc\":\"%s%s\",\"change\":\"%s\"",
                   to->size > 1 ? "," : "", cutter_url(s->site_cutter),
                   changing_path(c->id), c->kind);
    if (strcmp(c->kind, "deleted") != 0) {
        changing_hash(&s->source, n, hash);
        buf_add_format(to, ",\"length\":%zu,\"hash\":{\"sha-256\":\"%s\"}",
                       changing_text(&s->source, n).size, hash + 8);
    }
    BUF_ADD(to, "}");
}

static bool
is_posted(struct stage *s, struct http *h, unsigned n, struct slice body)
{
    char key[60];
    const char *const headers[] = {"Content-Type: application/json", key, NULL};

    snprintf(key, sizeof(key), "Idempotency-Key: storm-%u", n);
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

/* Changes happen, then are posted. */
static bool
change_some(struct stage *s, struct http *h, unsigned n)
{
    unsigned before = (unsigned)s->source.n_all;
    struct buf body;
    bool is_good;

    buf_init(&body, (size_t)1 << 20);
    BUF_ADD(&body, "[");
    for (unsigned i = 0; i < n; i++)
        add_change(s, &body);
    BUF_ADD(&body, "]");
    is_good = is_posted(s, h, before, buf_slice(&body));
    buf_fini(&body);
    if (is_good)
        atomic_fetch_add(&s->n_posted, n);
    return is_good;
}

static void *
post_all(void *user)
{
    struct stage *s = user;
    unsigned n_posted;
    struct http h;

    http_open(&h, s->poster_url);
    while ((n_posted = atomic_load(&s->n_posted)) < CHANGES) {
        unsigned n = 1 + (unsigned)die_roll(&s->source.die, POST);

        if (n > CHANGES - n_posted)
            n = CHANGES - n_posted;
        while (n_posted + n > atomic_load(&s->n_allowed) &&
               !atomic_load(&s->is_stopping))
            poll(NULL, 0, AGAIN_MS);
        if (atomic_load(&s->is_stopping) || !change_some(s, &h, n))
            break;
        poll(NULL, 0, (int)die_roll(&s->source.die, 4 * AGAIN_MS));
    }
    http_close(&h);
    return NULL;
}

/* The stage */

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->die.state = test_seed();
    tempdir_open(&s->home);
    snprintf(s->dir, sizeof(s->dir), "%s/m", s->home.path);
    process_log(s->log, sizeof(s->log));
    changing_open(&s->source, RESOURCES, s->die.state ^ 1, CHANGES);
    s->site = site_new();
    site_dir(s->site, CHANGING_PREFIX, s->source.files);
    s->site_cutter = cutter_new(site_port(s->site));
    /* What the broker tells of itself leads through the cutter, too. */
    s->cutter = cutter_new(0);
    broker_open(&s->broker, "--public-url", cutter_url(s->cutter),
                "--rotate-entries", LIST_ENTRIES, "--retain-lists", RETAINED,
                "--heartbeat", "0.5", NULL);
    cutter_point(s->cutter, s->broker.port);
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/storm",
             cutter_url(s->cutter));
    snprintf(s->poster_url, sizeof(s->poster_url), "%s", s->broker.url);
    return 0;
}

static void
kill_mirror(struct stage *s)
{
    kill(s->pid, SIGKILL);
    process_status(s->pid);
    close(s->out);
    s->pid = 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    atomic_store(&s->is_stopping, true);
    if (s->is_posting)
        pthread_join(s->poster, NULL);
    if (s->pid)
        kill_mirror(s);
    cutter_free(s->cutter);
    cutter_free(s->site_cutter);
    site_free(s->site);
    broker_close(&s->broker);
    changing_close(&s->source);
    tempdir_close(&s->home);
    free(s);
    return 0;
}

/* The mirror */

static void
start_mirror(struct stage *s)
{
    const char *const argv[] = {BIN_DIR "/tidings", "sync", s->set_url, s->dir,
                                "--max-delete",     "none", NULL};

    s->pid = process_start(argv, s->log, &s->out);
}

static void
assert_runs(struct stage *s, const char *const *argv)
{
    int status;

    command_start(&s->command, argv);
    status = command_end(&s->command);
    if (status)
        fail_msg("%s ended with %d: %s%s", argv[1], status, s->command.out_text,
                 s->command.err_text);
}

static void
sync_to_the_end(struct stage *s)
{
    const char *const argv[] = {
        BIN_DIR "/tidings",  "sync",         s->set_url, s->dir,
        "--until-caught-up", "--max-delete", "none",     NULL};

    assert_runs(s, argv);
}

static void
audit(struct stage *s)
{
    const char *const argv[] = {BIN_DIR "/tidings", "audit", s->dir, NULL};

    assert_runs(s, argv);
}

/* The storm */

/* A resource that is not to be had the next time, or not right. (What is cut is
 * the cutter's.) */
static void
trouble(struct stage *s)
{
    const char *path = changing_path((uint32_t)die_roll(&s->die, RESOURCES));

    switch (die_roll(&s->die, 60)) {
    case 0:
        site_status(s->site, path, 503, NULL, 1);
        break;
    case 1:
    case 2:
    case 3:
        site_spoil(s->site, path, 1);
        break;
    default:
        break;
    }
}

/* Whoever waits at the end of the storm waits for nothing else. */
static void
calm(struct stage *s)
{
    cutter_plan(s->cutter, NULL);
    cutter_plan(s->site_cutter, NULL);
    for (uint32_t id = 0; id < RESOURCES; id++)
        site_status(s->site, changing_path(id), 0, NULL, 0);
}

/* Until then the mirror lives, and the site makes trouble. */
static void
live(struct stage *s, uint64_t ms)
{
    int64_t end_ms = process_now_ms() + (int64_t)ms;

    while (process_now_ms() < end_ms) {
        char text[200];

        trouble(s);
        if (process_read(s->out, text, sizeof(text),
                         process_now_ms() + AGAIN_MS) == 0)
            fail_msg("the mirror ended by itself");
    }
}

/* One life in three is short: so is its end, wherever it is then. */
static void
live_and_die(struct stage *s, unsigned life)
{
    uint64_t ms = die_roll(&s->die, life % 3 ? LIFE_MS : 200);
    uint64_t broker_ms = die_roll(&s->die, ms + 1);

    start_mirror(s);
    if (life % 4 == 1) {
        live(s, broker_ms);
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
        ms -= broker_ms;
    }
    live(s, ms);
    kill_mirror(s);
}

/* Each life has its part of the changes. */
static void
allow(struct stage *s, unsigned life)
{
    uint64_t kept = booked_seq(s->dir);
    uint64_t allowed =
        life < LIVES ? (uint64_t)CHANGES * (life + 1) / LIVES : CHANGES;

    if (allowed > kept + BEHIND_MAX)
        allowed = kept + BEHIND_MAX;
    atomic_store(&s->n_allowed, (unsigned)allowed);
}

static void
rage(struct stage *s)
{
    unsigned life = 0, n_lost = 0;
    uint64_t kept, before = 0;

    while (life < LIVES || atomic_load(&s->n_posted) < CHANGES) {
        allow(s, life);
        live_and_die(s, life++);
        kept = booked_seq(s->dir);
        n_lost = kept > before ? 0 : n_lost + 1;
        if (s->why.text[0])
            fail_msg("%s", s->why.text);
        if (n_lost > LIVES_LOST_MAX)
            fail_msg("nothing went on after change %" PRIu64 " of %u", kept,
                     atomic_load(&s->n_posted));
        before = kept;
    }
    pthread_join(s->poster, NULL);
    s->is_posting = false;
    if (s->why.text[0])
        fail_msg("%s", s->why.text);
}

/* What the book was told are the changes, each once, in order. */
struct reading {
    struct stage *s;
    size_t n;
};

static void
read_booked(const char *loc, const char *hash, const char *position, void *user)
{
    struct reading *r = user;
    struct stage *s = r->s;
    const struct changed *c;
    char expected[CHANGING_HASH_SIZE];

    if (!loc) {
        assert_int_equal(strtoull(strrchr(position, '-') + 1, NULL, 10), r->n);
        return;
    }
    c = &s->source.all[r->n++];
    assert_true(r->n <= s->source.n_all);
    assert_string_equal(loc + strlen(cutter_url(s->site_cutter)),
                        changing_path(c->id));
    assert_int_equal(!hash, !strcmp(c->kind, "deleted"));
    if (!hash)
        return;
    changing_hash(&s->source, r->n, expected);
    assert_string_equal(hash, expected);
}

FIXTURE(set_stage, clear_stage);

/* */
TEST(the_mirror_is_what_the_source_is_after_the_storm)
{
    struct stage *s = *state;
    struct reading reading = {s, 1};
    struct cutter_counts counts;
    struct http h;

    /* The first one, in all peace: from there on everything is kept. */
    http_open(&h, s->poster_url);
    assert_true(change_some(s, &h, 1));
    http_close(&h);
    sync_to_the_end(s);
    booked_begin(s->dir);

    cutter_plan(s->cutter, &(struct cutter_plan){.seed = s->die.state,
                                                 .bytes_max = 200000,
                                                 .closes = 20,
                                                 .resets = 20,
                                                 .stalls = 5,
                                                 .holds = 20,
                                                 .stall_ms = 1000});
    cutter_plan(s->site_cutter, &(struct cutter_plan){.seed = s->die.state ^ 2,
                                                      .bytes_max = 500000,
                                                      .closes = 15,
                                                      .resets = 15,
                                                      .stalls = 5,
                                                      .holds = 10,
                                                      .stall_ms = 500});
    s->is_posting = true;
    assert_int_equal(pthread_create(&s->poster, NULL, post_all, s), 0);
    rage(s);

    calm(s);
    sync_to_the_end(s);
    changing_assert_mirrored(&s->source, s->dir,
                             cutter_url(s->site_cutter) + strlen("http://"));
    audit(s);
    booked_each(s->dir, read_booked, &reading);
    assert_int_equal(reading.n, s->source.n_all);
    assert_int_equal(booked_seq(s->dir), s->source.n_all);

    counts = cutter_counts(s->cutter);
    print_message("%u connections to the broker, %u ended; ",
                  counts.n_connections,
                  counts.n_closes + counts.n_resets + counts.n_stalls);
    counts = cutter_counts(s->site_cutter);
    print_message("%u to the site, %u ended; %u requests\n",
                  counts.n_connections,
                  counts.n_closes + counts.n_resets + counts.n_stalls,
                  site_count(s->site, NULL));
}

/*
 * kill_test.c - SIGKILL at any moment, under load, again and again.
 *
 * The moments are random; the seed is printed, and TIDINGS_SEED=N repeats the
 * choices of a run (the moments themselves are the machine's, too).
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/crossed.h"
#include "tests/support/lists.h"
#include "tests/support/stream.h"
#include "tests/test.h"

#define ROUNDS       test_size(6, 20)
#define LIST_ENTRIES 500

/* Answers of a round before the kill, at most. */
#define ANSWERS_MAX 400

/* More lists than are closed in a round. */
#define OBSTRUCTED (ANSWERS_MAX * CROSSED_POST_MAX / LIST_ENTRIES + 10)

/* And then so many milliseconds, at most: in the middle of something. */
#define LATER_MAX_MS 12

/* A subscriber that hears what was pushed before the kill */

struct hearer {
    pthread_t thread;
    struct wire *wire;
    struct trace trace;
    bool is_ended; /* the connection, not the subscriber's patience */
    struct problem why;
};

static void *
hear(void *user)
{
    struct hearer *h = user;

    stream_read(h->wire, &h->trace, UINT64_MAX, &h->is_ended, &h->why);
    return NULL;
}

/* The test */

struct stage {
    struct lists lists;
    struct crossed crossed;
    struct hearer hearer;
    uint64_t random;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->random = test_seed();
    crossed_init(&s->crossed, s->random);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    lists_close(&s->lists);
    crossed_fini(&s->crossed);
    free(s);
    return 0;
}

/* Posts, and kills: after some answers, and a moment. */
static void
post_and_kill(struct stage *s, struct publishers *p)
{
    unsigned n_answers = 1 + crossed_random(&s->random) % ANSWERS_MAX;
    int later_ms = (int)(crossed_random(&s->random) % (LATER_MAX_MS + 1));

    crossed_start(&s->crossed, p, &s->lists.broker);
    publishers_await(p, n_answers);
    poll(NULL, 0, later_ms); /* any moment is as good as another */
    broker_kill9(&s->lists.broker);
    publishers_join(p);
    if (s->hearer.wire) {
        pthread_join(s->hearer.thread, NULL);
        wire_close(s->hearer.wire);
        s->hearer.wire = NULL;
    }
}

static void
start_hearing(struct stage *s)
{
    struct hearer *h = &s->hearer;
    struct problem why = {""};

    memset(h, 0, sizeof(*h));
    h->wire = wire_connect("127.0.0.1", s->lists.broker.port);
    assert_non_null(h->wire);
    trace_init_after(&h->trace, UINT64_MAX);
    if (!stream_open(h->wire, LISTS_SET, NULL, &why))
        fail_msg("%s", why.text);
    assert_int_equal(pthread_create(&h->thread, NULL, hear, h), 0);
}

/* What it heard is there, the very same. */
static void
check_heard(struct stage *s)
{
    struct hearer *h = &s->hearer;
    const struct trace *kept = &s->lists.walk.trace;
    char digest[DIGEST_TEXT_SIZE + 1] = "";
    struct problem why = {""};

    if (!h->is_ended)
        fail_msg("before the kill: %s", h->why.text);
    if (h->trace.after != UINT64_MAX) {
        assert_in_range(h->trace.last, 0, kept->last);
        assert_true(h->trace.has_digests);
        assert_string_equal(h->trace.start_time,
                            trace_at(kept, h->trace.after)->datetime);
        digest_write(digest, trace_digest(kept, h->trace.last));
        if (!trace_check_digest(&h->trace, h->trace.last, digest, &why))
            fail_msg("pushed before the kill: %s", why.text);
    }
    trace_fini(&h->trace);
}

/* Every list but the open one is full. */
static void
check_lists(const struct walk *w)
{
    for (size_t i = 0; i + 1 < w->n_lists; i++)
        assert_int_equal(w->lists[i].last, (i + 1) * LIST_ENTRIES);
}

/* In every third round closed lists get no files until after the restart:
 * something is in the place of list `from` and those after it. */
static void
obstruct(const struct broker *b, unsigned from, bool is_wanted)
{
    char path[400];

    for (unsigned i = from; i < from + OBSTRUCTED; i++) {
        snprintf(path, sizeof(path),
                 "%s/sets/" LISTS_SET "/changes/%012u.xml.gz", b->data, i);
        if (is_wanted)
            assert_int_equal(mkdir(path, 0755), 0);
        else
            assert_int_equal(rmdir(path), 0);
    }
}

FIXTURE(set_stage, clear_stage);

/* W-125; design section 5, rules 1 and 4. */
TEST(nothing_acknowledged_is_lost_doubled_or_moved_by_a_kill)
{
    struct stage *s = *state;
    struct walk *w = &s->lists.walk;
    unsigned n_doubts = 0, n_kept = 0;

    LISTS_OPEN(&s->lists, "--rotate-entries", "500", "--index-lists", "5");
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool is_hearing = w->trace.last > 0;
        bool is_obstructed = w->n_lists > 1 && round % 3 == 2;
        uint64_t last = w->trace.last;
        unsigned n_before = (unsigned)w->n_lists;
        struct publishers p;

        if (is_obstructed) {
            lists_await_file(&s->lists, n_before - 1);
            obstruct(&s->lists.broker, n_before, true);
        }
        if (is_hearing)
            start_hearing(s);
        post_and_kill(s, &p);

        broker_restart(&s->lists.broker);
        walk_all(w);
        assert_true(w->trace.has_digests);
        if (is_hearing)
            check_heard(s);
        for (unsigned i = 0; i < CROSSED_PUBLISHERS; i++)
            n_doubts += p.each[i].n_doubt > 0;
        n_kept += crossed_check(&s->crossed, &p, &w->trace, last);
        publishers_fini(&p);
        check_lists(w);
        if (is_obstructed)
            obstruct(&s->lists.broker, n_before, false);
    }
    walk_all(w);
    lists_await_file(&s->lists, (unsigned)w->n_lists - 1);
    walk_all(w); /* now that all files exist */
    print_message("%" PRIu64 " entries in %zu lists; of %u posts in doubt, %u "
                  "were kept\n",
                  w->trace.last, w->n_lists, n_doubts, n_kept);
}

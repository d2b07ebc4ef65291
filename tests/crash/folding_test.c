/*
 * folding_test.c - the archive thread is killed while it folds, and meets a
 * full disk there; lists end, are filed and let go of meanwhile.
 *
 * The calls that meet the fault are chosen by chance (support/faults.h); the
 * seed is printed, and TIDINGS_SEED=N repeats the choices of a run. Between two
 * lives of the broker the test opens its directory and compares the state with
 * the log.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/broker.h"
#include "tests/support/faults.h"
#include "tests/support/http.h"
#include "tests/support/model.h"
#include "tests/support/patience.h"
#include "tests/support/sets.h"
#include "tests/test.h"

#define SET "demo"

#define ROUNDS       test_size(4, 12)
#define POST_ENTRIES 50
#define RESOURCES    600

/* Posts while a fault holds. */
#define BURST 4

/* The first writes and syncs of the fold after a start: at most a few steps. */
#define CALLS_MAX 90

struct stage {
    struct faults faults;
    struct broker broker;
    struct http http;
    struct model model;
    uint64_t random;
    uint64_t last; /* acknowledged */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->random = test_seed();
    model_init(&s->model);
    faults_open(&s->faults);
    broker_open(&s->broker, "--rotate-entries", "500", "--retain-lists", "3",
                NULL);
    http_open(&s->http, s->broker.url);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    faults_disarm(&s->faults);
    http_close(&s->http);
    broker_close(&s->broker);
    faults_close(&s->faults);
    model_fini(&s->model);
    free(s);
    return 0;
}

/* The status of the answer; 0: there was none. */
static long
post(void *stage)
{
    struct stage *s = stage;
    struct buf json;
    long status;

    buf_init(&json, 1 << 20);
    model_changes(&json, &s->random, POST_ENTRIES, RESOURCES);
    status = http_post(&s->http, "/sets/" SET "/changes", "application/json",
                       buf_slice(&json));
    buf_fini(&json);
    assert_true(status == 200 || status == 0);
    s->last += status ? POST_ENTRIES : 0;
    return status;
}

/* The state is the model's at some position of the log, and not at an older one
 * than before. */
static void
compare(struct stage *s, struct sets *sets, const struct head *head)
{
    char dir[400];
    struct problem why = {""};
    struct resources *r;
    uint64_t seq;

    snprintf(dir, sizeof(dir), "%s/sets/" SET, s->broker.data);
    if (resources_open(&r, dir, head->epoch, &why))
        fail_msg("%s", why.text);
    seq = resources_at(r)->seq;
    assert_in_range(seq, head->earliest, head->last);
    assert_in_range(seq, s->model.seq, head->last);
    model_fold_log(&s->model, registry_log(sets->registry),
                   sets_find(sets, SET)->log, seq);
    model_check(&s->model, r);
    resources_close(r);
}

/* What the ended broker has left: the state is whole, is that of one position,
 * of no older one than before, and what retention has let go was in it. The
 * same when the rest of the log is folded here and now. */
static void
check_state(struct stage *s, bool is_rest_wanted)
{
    struct sets sets;
    struct head head;

    sets_configure(&sets, s->broker.data);
    sets_open(&sets);
    head = sets_head(&sets, SET);
    assert_in_range(head.last, s->last, UINT64_MAX);
    s->last = head.last;
    compare(s, &sets, &head);
    if (is_rest_wanted) {
        sets_fold_all(&sets);
        compare(s, &sets, &head);
    }
    sets_close(&sets);
}

/* Waits until the broker says that all has been folded, or that it has not. */
static void
await_lag(struct stage *s, bool is_wanted)
{
    static const char none[] = "\ntidings_fold_lag_entries 0\n";
    struct patience p = {.with = "the lag of the fold"};
    bool is_none;

    do {
        patience_step(&p);
        assert_int_equal(http_get(&s->http, "/metrics"), 200);
        is_none = memmem(s->http.body.data, s->http.body.size, none,
                         sizeof(none) - 1) != NULL;
    } while (is_none == is_wanted);
}

FIXTURE(set_stage, clear_stage);

/* killed at any write or sync of the state's file. */
TEST(each_entry_is_folded_once_through_kills)
{
    struct stage *s = *state;
    uint64_t folded = 0;

    assert_int_equal(post(s), 200);
    for (unsigned i = 0; i < ROUNDS; i++) {
        faults_arm(&s->faults, PLAN_WRITE | PLAN_SYNC, "resources.db",
                   (int)(model_random(&s->random) % CALLS_MAX), PLAN_KILL);
        faults_provoke(&s->faults, post, s);
        assert_int_equal(broker_wait(&s->broker), 128 + SIGKILL);
        faults_disarm(&s->faults);
        check_state(s, false);
        broker_restart(&s->broker);
    }
    folded = s->model.seq;
    assert_int_equal(post(s), 200);
    broker_stop(&s->broker);
    check_state(s, true);
    assert_int_equal(s->model.seq, s->last);
    print_message("%" PRIu64 " entries, %" PRIu64
                  " of them folded when it was killed last\n",
                  s->last, folded);
}

/* A full disk stops the fold, and nothing else; when there is room it goes on
 * where it was. Posts that come meanwhile are taken. */
TEST(a_full_disk_only_keeps_the_state_waiting)
{
    struct stage *s = *state;

    assert_int_equal(post(s), 200);
    for (unsigned i = 0; i < 5; i++) {
        faults_arm(&s->faults, PLAN_WRITE | PLAN_SYNC, "resources.db",
                   (int)(model_random(&s->random) % 20), ENOSPC);
        faults_provoke(&s->faults, post, s);
        for (unsigned k = 0; k < BURST; k++)
            assert_int_equal(post(s), 200);
        await_lag(s, true);
        faults_disarm(&s->faults);
        await_lag(s, false);
    }
    broker_stop(&s->broker);
    check_state(s, true);
    assert_int_equal(s->model.seq, s->last);
    assert_true(broker_said(&s->broker, "could not be brought up to date"));
}

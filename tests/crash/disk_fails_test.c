/*
 * disk_fails_test.c - a disk that fails: in the middle of a commit, of a start,
 * of a closed list's file. The calls that fail are chosen (support/faults.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/crossed.h"
#include "tests/support/faults.h"
#include "tests/support/lists.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define WAL          "tidings.db-wal"
#define FILE_OF_LIST ".xml.gz"

/* Where a set's closed lists are: to be synced once a file has its name. */
#define FOLDER_OF_LISTS "/changes"

#define POST_ENTRIES 20

/* Within so many posts, each with a list of its own, every call has come. */
#define POSTS_MAX 1000

/* What a post of the one source costs the WAL: fewer writes than this. */
#define WRITES_MAX 40

struct stage {
    struct faults faults;
    struct lists lists;
    struct crossed crossed;
    uint64_t last; /* acknowledged to the one source */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    crossed_init(&s->crossed, 1);
    faults_open(&s->faults);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    faults_disarm(&s->faults);
    if (s->lists.http.handle)
        lists_close(&s->lists);
    faults_close(&s->faults);
    crossed_fini(&s->crossed);
    free(s);
    return 0;
}

/* Commits */

FIXTURE(set_stage, clear_stage);

/* log.md, commit: the outcome is not known, so nobody is answered, the broker
 * says why and ends with 1; then it is right again. */
TEST(a_commit_that_fails_is_answered_to_nobody)
{
    static const struct {
        int calls, n, outcome;
    } cases[] = {
        {PLAN_SYNC, 60, EIO},    {PLAN_SYNC, 0, EIO},    {PLAN_SYNC, 1, EIO},
        {PLAN_WRITE, 0, EIO},    {PLAN_WRITE, 33, EIO},  {PLAN_WRITE, 150, EIO},
        {PLAN_SYNC, 20, ENOSPC}, {PLAN_SYNC, 9, EDQUOT},
    };
    struct stage *s = *state;
    struct walk *w = &s->lists.walk;
    unsigned n_doubts = 0;

    LISTS_OPEN(&s->lists, "--rotate-entries", "500");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t last = w->trace.last;
        struct publishers p;

        faults_arm(&s->faults, cases[i].calls, WAL, cases[i].n,
                   cases[i].outcome);
        crossed_start(&s->crossed, &p, &s->lists.broker);
        assert_int_equal(broker_wait(&s->lists.broker), 1);
        publishers_join(&p);
        assert_true(faults_disarm(&s->faults) > 0);
        assert_true(broker_said(&s->lists.broker, "commit"));
        for (unsigned k = 0; k < CROSSED_PUBLISHERS; k++)
            n_doubts += p.each[k].n_doubt > 0;

        broker_restart(&s->lists.broker);
        walk_all(w);
        assert_true(w->trace.has_digests);
        crossed_check(&s->crossed, &p, &w->trace, last);
        publishers_fini(&p);
    }
    assert_true(n_doubts > 0);
}

/* Posts once; what is acknowledged follows what was before. */
static long
post(struct stage *s)
{
    struct receipt r;
    struct buf body;
    long status;

    buf_init(&body, 1 << 20);
    source_entries(&body, (unsigned)s->last + 1, POST_ENTRIES, 6000);
    status = source_send(&s->lists.http, LISTS_SET, "application/json",
                         buf_slice(&body), &r);
    buf_fini(&body);
    if (status == 200) {
        assert_int_equal(r.first, s->last + 1);
        s->last = r.last;
    }
    return status;
}

/* All that was acknowledged is there, and nothing else. */
static void
assert_kept(struct stage *s)
{
    struct walk *w = &s->lists.walk;

    walk_all(w);
    assert_int_equal(w->trace.last, s->last);
    for (uint64_t seq = 1; seq <= s->last; seq++) {
        char loc[64];

        snprintf(loc, sizeof(loc), "http://example.com/r/%" PRIu64, seq);
        assert_string_equal(trace_at(&w->trace, seq)->loc, loc);
    }
}

static void
refuse_at_every_write(struct stage *s, int outcome, const char *reason)
{
    unsigned n_refused = 0;

    for (;; n_refused++) {
        long status;

        assert_in_range(n_refused, 0, WRITES_MAX);
        faults_arm(&s->faults, PLAN_WRITE, WAL, (int)n_refused, outcome);
        status = post(s);
        if (faults_disarm(&s->faults) == 0)
            break;
        assert_int_equal(status, 503);
        assert_refused(&s->lists.http, 503, reason);
        if (n_refused % 4 == 1) {
            broker_kill9(&s->lists.broker);
            broker_restart(&s->lists.broker);
        }
        assert_kept(s);
        if (n_refused % 4 == 3)
            assert_int_equal(post(s), 200);
    }
    assert_in_range(n_refused, 5, WRITES_MAX);
    assert_kept(s);
}

/* Design section 4: 503 when the disk is full, at whichever write; of what was
 * refused nothing is kept, also where a kill comes before the next commit. */
TEST(a_commit_that_has_no_room_is_refused)
{
    struct stage *s = *state;

    LISTS_OPEN(&s->lists, "--rotate-entries", "50000");
    assert_int_equal(post(s), 200);
    refuse_at_every_write(s, ENOSPC, "full");
    refuse_at_every_write(s, EDQUOT, "quota");
}

/* A write may take less than it was given; the rest follows. */
TEST(a_write_that_comes_in_two_is_whole)
{
    struct stage *s = *state;

    LISTS_OPEN(&s->lists, "--rotate-entries", "30");
    for (int n = 0; n < 20; n++) {
        faults_arm_once(&s->faults, PLAN_WRITE, WAL, n, PLAN_SHORT);
        assert_int_equal(post(s), 200);
        if (n % 5 == 4) {
            broker_kill9(&s->lists.broker);
            broker_restart(&s->lists.broker);
        }
    }
    assert_kept(s);
    faults_arm(&s->faults, PLAN_WRITE, FILE_OF_LIST, 0, PLAN_SHORT);
    assert_int_equal(post(s), 200);
    assert_int_equal(post(s), 200);
    walk_all(&s->lists.walk);
    lists_await_file(&s->lists, (unsigned)s->lists.walk.n_lists - 1);
    assert_true(faults_disarm(&s->faults) > 0);
    broker_stop(&s->lists.broker);
    broker_restart(&s->lists.broker);
    assert_kept(s); /* from the files */
}

/* Starts */

/* log.md: at start, recover and checkpoint successfully before serving. */
TEST(a_start_that_cannot_recover_serves_nothing)
{
    static const struct {
        int calls, outcome;
        const char *name;
    } cases[] = {
        {PLAN_SYNC, EIO, "tidings.db"},
        {PLAN_WRITE, EIO, "tidings.db"},
        {PLAN_WRITE, ENOSPC, "tidings.db"},
    };
    struct stage *s = *state;
    struct broker *b = &s->lists.broker;
    char said[4000];

    LISTS_OPEN(&s->lists, "--rotate-entries", "50000");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(post(s), 200);
        broker_kill9(b); /* what was posted is in the WAL alone */

        faults_arm(&s->faults, cases[i].calls, cases[i].name, 0,
                   cases[i].outcome);
        assert_int_equal(broker_run(said, sizeof(said), "--listen",
                                    "127.0.0.1:0", "--data", b->data, NULL),
                         1);
        assert_true(faults_disarm(&s->faults) > 0);
        assert_non_null(strstr(said, "tidings.db"));
        assert_null(strstr(said, "ready"));

        broker_restart(b);
        assert_kept(s);
    }
}

/* Files of closed lists */

/* a list is the same before its file, without one, and
 * after it; what could not be written is written later. */
TEST(a_file_that_cannot_be_written_is_written_later)
{
    static const struct {
        int calls, n, outcome;
        const char *name;
    } cases[] = {
        {PLAN_WRITE, 0, ENOSPC, FILE_OF_LIST},
        {PLAN_SYNC, 0, EIO, FILE_OF_LIST},
        {PLAN_RENAME, 0, EACCES, FILE_OF_LIST},
        {PLAN_SYNC, 0, EIO, FOLDER_OF_LISTS},
    };
    struct stage *s = *state;

    LISTS_OPEN(&s->lists, "--rotate-entries", "20");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        faults_arm(&s->faults, cases[i].calls, cases[i].name, cases[i].n,
                   cases[i].outcome);
        assert_int_equal(post(s), 200);
        faults_await(&s->faults);
        assert_kept(s);
        assert_int_equal(post(s), 200);
        assert_kept(s);
        faults_disarm(&s->faults);
        assert_kept(s);
        lists_await_file(&s->lists, (unsigned)(s->last / 20));
        assert_kept(s);
    }
    assert_true(broker_said(&s->lists.broker, FILE_OF_LIST));
}

/* The same where there is no room for what the log says of a list: its end, or
 * that it is filed. */
TEST(a_list_is_closed_or_not_where_there_is_no_room)
{
    struct stage *s = *state;
    unsigned n_closed = 0, n_refused = 0;

    LISTS_OPEN(&s->lists, "--rotate-entries", "50000");
    for (int n = 0; n < 16; n++) {
        assert_int_equal(post(s), 200);
        faults_arm_once(&s->faults, PLAN_WRITE, WAL, n, ENOSPC);
        http_request(&s->lists.http, "POST", "/sets/" LISTS_SET "/rotate", NULL,
                     (struct slice){"", 0});
        if (s->lists.http.status == 200) {
            n_closed++;
            lists_await_file(&s->lists, n_closed);
        } else {
            assert_refused(&s->lists.http, 503, "full");
            n_refused++;
        }
        assert_kept(s);
        assert_int_equal(s->lists.walk.n_lists, n_closed + 1);
        faults_disarm(&s->faults);
    }
    assert_true(n_refused >= 2 && n_closed >= 2);
    lists_await_file(&s->lists, n_closed);
    broker_stop(&s->lists.broker);
    broker_restart(&s->lists.broker);
    assert_kept(s);
}

/* a kill in the middle of a file, before it has its name, after it, and
 * around the commit that says that the file is there. */
TEST(a_kill_while_a_list_is_filed_changes_nothing)
{
    static const struct {
        int calls;
        const char *name;
        int n, last_n;
    } cases[] = {
        {PLAN_WRITE, FILE_OF_LIST, 0, 0},
        {PLAN_SYNC, FILE_OF_LIST, 0, 0},
        {PLAN_RENAME, FILE_OF_LIST, 0, 0},
        {PLAN_SYNC, FOLDER_OF_LISTS, 0, 0},
        {PLAN_WRITE | PLAN_SYNC, WAL, 0, 24},
    };
    struct stage *s = *state;
    struct broker *b = &s->lists.broker;

    LISTS_OPEN(&s->lists, "--rotate-entries", "50000");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int n = cases[i].n; n <= cases[i].last_n; n += 3) {
            bool is_in_doubt = false;
            size_t n_lists;

            assert_int_equal(post(s), 200);
            faults_arm(&s->faults, cases[i].calls, cases[i].name, n, PLAN_KILL);
            for (int posts = 0; faults_met(&s->faults) == 0; posts++) {
                assert_in_range(posts, 0, POSTS_MAX);
                http_request(&s->lists.http, "POST",
                             "/sets/" LISTS_SET "/rotate", NULL,
                             (struct slice){"", 0});
                is_in_doubt = post(s) != 200;
            }
            assert_int_equal(broker_wait(b), 128 + SIGKILL);
            faults_disarm(&s->faults);

            broker_restart(b);
            walk_all(&s->lists.walk);
            if (is_in_doubt && s->lists.walk.trace.last > s->last)
                s->last += POST_ENTRIES;
            assert_kept(s);
            n_lists = s->lists.walk.n_lists;
            if (n_lists > 1)
                lists_await_file(&s->lists, (unsigned)n_lists - 1);
            assert_kept(s);
        }
}

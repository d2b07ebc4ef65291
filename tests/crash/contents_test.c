/*
 * contents_test.c - the broker is killed, or meets a full disk, while posts
 * bring bytes along and while the archive thread folds, forgets and takes files
 * away.
 *
 * The calls that meet the fault are chosen by chance (support/faults.h); the
 * seed is printed, and TIDINGS_SEED=N repeats the choices of a run. Between two
 * lives of the broker the test opens its directory and compares the files with
 * what was told.
 */
#include "broker/archive/contents.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/archive/folding.h"
#include "tests/support/broker.h"
#include "tests/support/faults.h"
#include "tests/support/http.h"
#include "tests/support/kept.h"
#include "tests/support/model.h"
#include "tests/support/multipart.h"
#include "tests/support/patience.h"
#include "tests/support/sets.h"
#include "tests/test.h"

#define SET "demo"

#define ROUNDS       test_size(4, 14)
#define POST_ENTRIES 5
#define RESOURCES    30
#define TEXTS        60
#define ENTRIES      100000

/* Posts while a fault holds. */
#define BURST 4

/* The first of these calls: of a few posts, and steps of the archive thread. */
#define CALLS_MAX 120

/* What was told, by seq. */
struct told {
    uint8_t resource, text;
    bool is_deleted;
};

struct stage {
    struct faults faults;
    struct broker broker;
    struct http http;
    uint64_t random;
    uint64_t last; /* of what is known to be told */
    struct told *told;
    struct told tried[POST_ENTRIES]; /* the last post */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->told = calloc(ENTRIES + 1, sizeof(*s->told));
    assert_non_null(s->told);
    s->random = test_seed();
    faults_open(&s->faults);
    broker_open(&s->broker, "--content", "inline", "--rotate-entries", "20",
                "--retain-lists", "2", NULL);
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
    free(s->told);
    free(s);
    return 0;
}

static void
tell(struct stage *s)
{
    assert_in_range(s->last + POST_ENTRIES, 1, ENTRIES);
    memcpy(&s->told[s->last + 1], s->tried, sizeof(s->tried));
    s->last += POST_ENTRIES;
}

static void
loc_of(char loc[64], const struct told *t)
{
    snprintf(loc, 64, "http://example.com/%u", t->resource);
}

static void
add_part(struct multipart_body *m, const struct told *t)
{
    char loc[64], text[KEPT_SIZE];

    loc_of(loc, t);
    kept_text(text, t->text);
    multipart_body_add(m, loc, NULL, slice_of(text));
}

/* A post that brings its bytes along; its resources are different ones. 0: it
 * was not answered. */
static long
post(void *stage)
{
    struct stage *s = stage;
    unsigned first = model_random(&s->random) % RESOURCES;
    struct multipart_body m;
    struct buf json;
    char loc[64];
    long status;

    buf_init(&json, 65536);
    for (unsigned i = 0; i < POST_ENTRIES; i++) {
        struct told *t = &s->tried[i];

        t->resource = (uint8_t)((first + i) % RESOURCES);
        t->text = (uint8_t)(model_random(&s->random) % TEXTS);
        t->is_deleted = model_random(&s->random) % 5 == 0;
        loc_of(loc, t);
        buf_add_format(&json, "%s{\"loc\":\"%s\",\"change\":\"%s\"}",
                       i ? "," : "[", loc,
                       t->is_deleted ? "deleted" : "updated");
    }
    buf_add(&json, "]", 2);
    multipart_body_open(&m, "application/json", json.data);
    for (unsigned i = 0; i < POST_ENTRIES; i++)
        if (!s->tried[i].is_deleted)
            add_part(&m, &s->tried[i]);
    multipart_body_close(&m);
    status = http_post(&s->http, "/sets/" SET "/changes", MULTIPART_TYPE,
                       buf_slice(&m.bytes));
    multipart_body_free(&m);
    buf_fini(&json);
    if (status == 200)
        tell(s);
    return status;
}

/* Files that entries tell of are there; `is_all`: and no others. */
static void
check_files(struct stage *s, uint64_t earliest, bool is_all)
{
    bool should[TEXTS] = {false}, is_overtaken[RESOURCES] = {false};
    char dir[400];

    snprintf(dir, sizeof(dir), "%s/sets/" SET, s->broker.data);
    for (uint64_t seq = s->last; seq > 0; seq--) {
        const struct told *t = &s->told[seq];

        if (!t->is_deleted && (seq > earliest || !is_overtaken[t->resource]))
            should[t->text] = true;
        is_overtaken[t->resource] = true;
    }
    for (unsigned i = 0; i < TEXTS; i++) {
        bool is_there = kept_is_there(dir, i);

        if (should[i] && !is_there)
            fail_msg("text %u is missing", i);
        if (is_all && !should[i] && is_there)
            fail_msg("text %u was left", i);
    }
}

/* All that is behind is done; then nothing is missing, nothing too much. */
static void
finish(struct stage *s, struct sets *sets, const struct head *head)
{
    struct contents *contents;
    struct folding folding;
    struct content *content;
    struct problem why = {""};

    folding_init(&folding, sets->registry);
    if (contents_new(&contents, sets->registry, &why))
        fail_msg("%s", why.text);
    folding_look(&folding);
    while (folding_some(&folding))
        ;
    contents_look(contents);
    while (contents_some(contents))
        ;
    if (contents_open(contents, sets_find(sets, SET), &content, &why))
        fail_msg("%s", why.text);
    assert_int_equal(content_at(content)->seq, head->last);
    assert_int_equal(content_at(content)->missing, 0);
    contents_free(contents);
    folding_fini(&folding);
    check_files(s, head->earliest, true);
}

/* What the ended broker has left. A post that was not answered was taken whole,
 * or not at all. */
static void
check(struct stage *s, bool is_finished)
{
    struct sets sets;
    struct head head;

    sets_configure(&sets, s->broker.data);
    sets.config.content = CONTENT_INLINE;
    sets_open(&sets);
    head = sets_head(&sets, SET);
    if (head.last == s->last + POST_ENTRIES)
        tell(s);
    assert_int_equal(head.last, s->last);
    check_files(s, head.earliest, false);
    if (is_finished)
        finish(s, &sets, &head);
    sets_close(&sets);
}

/* Waits until the broker says that all has been folded. */
static void
await_no_lag(struct stage *s)
{
    static const char none[] = "\ntidings_content_lag_entries 0\n";
    struct patience p = {.with = "the lag of content"};

    do {
        patience_step(&p);
        assert_int_equal(http_get(&s->http, "/metrics"), 200);
    } while (
        !memmem(s->http.body.data, s->http.body.size, none, sizeof(none) - 1));
}

FIXTURE(set_stage, clear_stage);

/* killed at any write, sync or rename of what is kept: no file
 * that an entry tells of is missing, and none is left in the end. */
TEST(files_and_entries_stay_together_through_kills)
{
    static const char *const names[] = {"content.db", "/content/", "arriving"};
    struct stage *s = *state;

    assert_int_equal(post(s), 200);
    for (unsigned i = 0; i < ROUNDS; i++) {
        faults_arm(&s->faults, PLAN_WRITE | PLAN_SYNC | PLAN_RENAME,
                   names[i % 3], (int)(model_random(&s->random) % CALLS_MAX),
                   PLAN_KILL);
        faults_provoke(&s->faults, post, s);
        assert_int_equal(broker_wait(&s->broker), 128 + SIGKILL);
        faults_disarm(&s->faults);
        check(s, i % 4 == 3);
        broker_restart(&s->broker);
    }
    assert_int_equal(post(s), 200);
    broker_stop(&s->broker);
    check(s, true);
    print_message("%" PRIu64 " entries\n", s->last);
}

/* A full disk refuses posts that bring bytes along, or keeps the fold waiting;
 * when there is room all goes on. */
TEST(a_full_disk_loses_nothing)
{
    static const char *const names[] = {"content.db", "arriving"};
    struct stage *s = *state;

    assert_int_equal(post(s), 200);
    for (unsigned i = 0; i < 6; i++) {
        faults_arm(&s->faults, PLAN_WRITE | PLAN_SYNC, names[i % 2],
                   (int)(model_random(&s->random) % 20), ENOSPC);
        faults_provoke(&s->faults, post, s);
        for (unsigned k = 0; k < BURST; k++)
            assert_true(post(s) != 0); /* it answers, whatever */
        faults_disarm(&s->faults);
        await_no_lag(s);
        assert_int_equal(post(s), 200);
    }
    broker_stop(&s->broker);
    check(s, true);
    assert_true(broker_said(&s->broker, "could not be brought up to date"));
}

static unsigned
n_said(struct stage *s, const char *text)
{
    FILE *log = fopen(s->broker.log, "r");
    char line[2000];
    unsigned n = 0;

    assert_non_null(log);
    while (fgets(line, sizeof(line), log))
        n += strstr(line, text) != NULL;
    fclose(log);
    return n;
}

/* What is behind while the disk is nearly full is said once, and caught up with
 * when there is room again. */
TEST(says_once_that_it_is_behind_for_want_of_disk)
{
    static const char text[] = "is behind, because the disk is nearly full";
    struct patience p = {.with = "the warning"};
    struct stage *s = *state;

    assert_int_equal(post(s), 200);
    await_no_lag(s);
    faults_arm(&s->faults, PLAN_WRITE | PLAN_SYNC, "content.db", 0, PLAN_KILL);
    faults_provoke(&s->faults, post, s);
    assert_int_equal(broker_wait(&s->broker), 128 + SIGKILL);
    faults_disarm(&s->faults);
    faults_set_disk(&s->faults, 1 << 20);
    broker_restart(&s->broker);
    while (n_said(s, text) == 0)
        patience_step(&p);
    assert_int_equal(http_get(&s->http, "/metrics"), 200); /* a look later */
    faults_set_disk(&s->faults, 0);
    await_no_lag(s);
    assert_int_equal(n_said(s, text), 1);
    broker_stop(&s->broker);
    check(s, true);
}

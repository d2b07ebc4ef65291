/*
 * sync_static_storm_test.c - `tidings sync` of a web site that has no Tidings
 * in it, whose resources change and whose lists are rewritten all the time:
 * killed again and again, once for so long that the changes no longer reach
 * back. In the end the mirror is what the source is.
 *
 * The seed is printed, and TIDINGS_SEED=N repeats the choices of a run (the
 * moments themselves are the machine's, too).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/changing.h"
#include "tests/support/command.h"
#include "tests/support/cutter.h"
#include "tests/support/listed.h"
#include "tests/support/process.h"
#include "tests/support/sanitized.h"
#include "tests/support/site.h"
#include "tests/test.h"

#define RESOURCES 300U
#define LIVES     test_size(6, 14) /* of the mirror */
#define REQUESTS  60U              /* of a life, at most */
#define ROUNDS    400U /* of each life, at most; some changes in each */
#define CHANGES   5U   /* in a round, at most */

/* What is behind is there for some lives; then it is not. */
#define WINDOW    1500U
#define FULL_LIST 50U
#define AWAY      4000U

#define CHANGES_MAX ((LIVES + 1) * ROUNDS * CHANGES + AWAY)
#define AGAIN_MS    10
#define DELAY_MS    15

struct stage {
    struct site *site;
    struct cutter *cutter; /* before it: it is slow, else lists are read faster
                              than they are rewritten */
    struct changing source;
    struct listed lists;
    struct tempdir home;
    char rs[300];
    char dir[300]; /* the mirror */
    char url[100];
    struct die die;
    pid_t pid; /* of the mirror; 0: it does not run */
    int out;
    char log[300];
    struct command command;
};

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
    changing_open(&s->source, RESOURCES, s->die.state ^ 1, CHANGES_MAX);
    snprintf(s->rs, sizeof(s->rs), "%s/rs", s->source.dir.path);
    s->site = site_new();
    site_dir(s->site, CHANGING_PREFIX, s->source.files);
    site_dir(s->site, LISTED_PREFIX, s->rs);
    s->cutter = cutter_new(site_port(s->site));
    cutter_delay(s->cutter, DELAY_MS);
    snprintf(s->url, sizeof(s->url), "%s" LISTED_PREFIX "description.xml",
             cutter_url(s->cutter));
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

    if (s->pid)
        kill_mirror(s);
    cutter_free(s->cutter);
    site_free(s->site);
    listed_close(&s->lists);
    changing_close(&s->source);
    tempdir_close(&s->home);
    free(s);
    return 0;
}

static void
start_mirror(struct stage *s)
{
    const char *const argv[] = {
        BIN_DIR "/tidings", "sync", s->url, s->dir, "--poll", "1",
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
        BIN_DIR "/tidings",  "sync",         s->url, s->dir,
        "--until-caught-up", "--max-delete", "none", NULL};

    assert_runs(s, argv);
}

static void
audit(struct stage *s)
{
    const char *const argv[] = {BIN_DIR "/tidings", "audit", s->dir, NULL};

    assert_runs(s, argv);
}

/* Something changes, and the lists are rewritten; sometimes a resource is not
 * to be had the next time. */
static void
turn_source(struct stage *s)
{
    uint32_t id = (uint32_t)die_roll(&s->die, RESOURCES);

    listed_change(&s->lists, 1 + (unsigned)die_roll(&s->die, CHANGES));
    listed_write(&s->lists, die_roll(&s->die, 10) == 0);
    if (die_roll(&s->die, 10) == 0)
        site_status(s->site, changing_path(id), 500, NULL, 1);
}

/* Lives until it has asked for so much more: one life in three ends early, and
 * each wherever it is then. The source changes meanwhile, so there is always
 * something to ask for. */
static void
live_and_die(struct stage *s, unsigned life)
{
    unsigned last = site_count(s->site, NULL) +
                    (unsigned)die_roll(&s->die, life % 3 ? REQUESTS : 4);

    start_mirror(s);
    for (unsigned round = 0; site_count(s->site, NULL) < last; round++) {
        char text[200];

        if (round < ROUNDS && die_roll(&s->die, 2))
            turn_source(s);
        if (process_read(s->out, text, sizeof(text),
                         process_now_ms() +
                             (int64_t)die_roll(&s->die, 2 * AGAIN_MS)) == 0)
            fail_msg("the mirror ended by itself");
    }
    kill_mirror(s);
}

/* The mirror is away for so long that the changes no longer reach back to what
 * it knows; on a slow machine its lives were too short to know anything. */
static void
be_away(struct stage *s)
{
    sync_to_the_end(s);
    for (unsigned n = 0; n < AWAY; n += FULL_LIST) {
        listed_change(&s->lists, FULL_LIST);
        listed_write(&s->lists, true);
    }
}

static void
storm(struct stage *s, enum listed_way way, size_t size)
{
    static const char too_late[] = "do not reach back that far";

    listed_open(&s->lists, &s->source, cutter_url(s->cutter), way, size);
    listed_change(&s->lists, RESOURCES);
    listed_write(&s->lists, true);
    for (unsigned life = 0; life < LIVES; life++) {
        live_and_die(s, life);
        if (life == LIVES / 2)
            be_away(s);
    }
    sync_to_the_end(s);
    /* One of its lives noticed, or this last one did. */
    assert_true(strstr(s->command.err_text, too_late) ||
                process_said(s->log, too_late));
    changing_assert_mirrored(&s->source, s->dir,
                             cutter_url(s->cutter) + strlen("http://"));
    audit(s);
    print_message("%zu changes, %u requests\n", s->source.n_all,
                  site_count(s->site, NULL));
}

FIXTURE(set_stage, clear_stage);

/* The latest changes, in one list. */
TEST(a_window_that_slides_is_mirrored)
{
    storm(*state, LISTED_WINDOW, WINDOW);
}

/* An index, its lists, and an archive of those that were there before.
 */
TEST(an_index_that_is_rewritten_is_mirrored)
{
    storm(*state, LISTED_INDEX, FULL_LIST);
}

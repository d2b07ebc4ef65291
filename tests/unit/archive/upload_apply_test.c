/*
 * An upload of all resources becomes changes, step by step: posts of others
 * between the steps, and crashes there.
 */
#include "broker/archive/upload_apply.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/state/upload_file.h"
#include "tests/support/chores.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define NAME "demo"

static struct stage {
    struct sets sets;
    struct state_fold folding;
    char dir[400];
    struct upload upload; /* its outcome */
    struct upload_apply *apply;
    struct problem why;
} s;

static int
open_stage(void **state)
{
    if (tempdir_setup(state))
        return -1;
    memset(&s, 0, sizeof(s));
    sets_configure(&s.sets, tempdir_path(state));
    snprintf(s.dir, sizeof(s.dir), "%s/uploads", tempdir_path(state));
    sets_open(&s.sets);
    state_fold_init(&s.folding, s.sets.registry);
    s.folding.rest_us = FOLD_AT_ONCE;
    return 0;
}

static int
close_stage(void **state)
{
    upload_apply_close(s.apply);
    chore_end(&s.folding.chore);
    sets_close(&s.sets);
    return tempdir_teardown(state);
}

/* Adds resource http://example.com/r/N with `length`. */
static void
add(struct block *b, unsigned n, uint64_t length)
{
    struct change change;
    char loc[64];

    change_init(&change);
    change.loc = (struct slice){
        loc, (size_t)snprintf(loc, sizeof(loc), "http://example.com/r/%u", n)};
    change.kind = CHANGE_CREATED;
    change.length = length;
    assert_int_equal(block_add(b, &change, NULL), STATUS_OK);
}

/* Stages the resources `from` to `to` - 1 against the position of the set now;
 * drops what was staged before. */
static void
stage_list(struct upload_file_about about, unsigned from, unsigned to,
           uint64_t length)
{
    struct upload_file *staging;
    struct block block = {.bytes = {.max = 1 << 24}};
    struct head head;

    if (registry_find(s.sets.registry, SLICE(NAME), &head)) {
        memcpy(about.epoch, head.epoch, sizeof(head.epoch));
        about.after = head.last;
    }
    upload_file_remove(s.dir, NAME);
    assert_int_equal(upload_file_begin(&staging, s.dir, NAME, &s.why),
                     STATUS_OK);
    for (unsigned n = from; n < to; n++) {
        add(&block, n, length);
        if (n % 7 == 6) { /* several blocks */
            assert_int_equal(upload_file_add(staging, &block, &s.why),
                             STATUS_OK);
            block_clear(&block);
        }
    }
    assert_int_equal(upload_file_add(staging, &block, &s.why), STATUS_OK);
    assert_int_equal(upload_file_finish(staging, &about, &s.why), STATUS_OK);
    block_fini(&block);
}

static void
stage_range(unsigned from, unsigned to, uint64_t length, unsigned max_delete)
{
    stage_list((struct upload_file_about){.max_delete = max_delete}, from, to,
               length);
}

static void
begin(void)
{
    upload_apply_close(s.apply);
    s.apply = NULL;
    snprintf(s.upload.name, sizeof(s.upload.name), "%s", NAME);
    if (upload_apply_open(&s.apply, s.sets.registry, s.dir, &s.upload, &s.why))
        fail_msg("%s", s.why.text);
}

/* Steps until it is done, or has posted `entries`. */
static enum status
step_until(uint64_t entries)
{
    bool is_done = false;
    enum status rc = STATUS_OK;

    while (!rc && !is_done && s.upload.outcome.last < entries)
        rc = upload_apply_step(s.apply, &s.folding, &is_done, &s.why);
    return rc;
}

static enum status
take(void)
{
    begin();
    return step_until(UINT64_MAX);
}

/* Takes the staged upload, and expects so many changes of each kind. */
#define assert_takes(...)                    \
    do {                                     \
        assert_int_equal(take(), STATUS_OK); \
        assert_counts(__VA_ARGS__);          \
    } while (0)

static void
assert_counts(uint64_t created, uint64_t updated, uint64_t deleted,
              uint64_t unchanged, uint64_t newer)
{
    const struct upload_counts *c = &s.upload.outcome.counts;

    assert_string_equal(s.why.text, "");
    assert_int_equal(c->created, created);
    assert_int_equal(c->updated, updated);
    assert_int_equal(c->deleted, deleted);
    assert_int_equal(c->unchanged, unchanged);
    assert_int_equal(c->newer, newer);
}

static void
post(const char *body)
{
    struct sets_outcome o = sets_post_body(
        &s.sets, NAME, "application/x-ndjson", slice_of(body), 0);

    assert_int_equal(o.rc, STATUS_OK);
}

/* The state is one thread's, so the stage has one way of folding. */
static void
fold_all(void)
{
    chore_look(&s.folding.chore);
    while (chore_step(&s.folding.chore))
        ;
}

FIXTURE(open_stage, close_stage);

/* Tests */

TEST(a_set_that_is_not_there_begins_with_all)
{
    stage_range(0, 21000, 1, 20);
    assert_takes(21000, 0, 0, 0, 0);
    assert_int_equal(s.upload.outcome.first, 1);
    assert_int_equal(s.upload.outcome.last, 21000);
    assert_int_equal(sets_head(&s.sets, NAME).last, 21000);
}

TEST(what_is_told_is_the_state_then)
{
    stage_range(0, 300, 1, 20);
    assert_int_equal(take(), STATUS_OK);
    stage_range(10, 310, 1, 20);
    assert_takes(10, 0, 10, 290, 0);
    stage_range(10, 310, 2, 20);
    assert_takes(0, 300, 0, 0, 0);
    stage_range(10, 310, 2, 20);
    assert_takes(0, 0, 0, 300, 0);
    assert_int_equal(sets_head(&s.sets, NAME).last, 620);
}

/* A commit has at most 10,000; the crash comes after the first. */
TEST(a_crash_between_commits_tells_the_rest_once)
{
    stage_range(0, 21000, 1, 20);
    begin();
    assert_int_equal(step_until(1), STATUS_OK);
    assert_int_equal(sets_head(&s.sets, NAME).last, UPLOAD_APPLY_ENTRIES);
    fold_all();
    assert_takes(/* as after a start */ 11000, 0, 0, 10000, 0);
    assert_int_equal(sets_head(&s.sets, NAME).last, 21000);
    stage_range(0, 21000, 1, 20);
    assert_takes(0, 0, 0, 21000, 0);
}

/* An accepted upload is posted to its end, even if by now more than a fifth of
 * the resources would go. */
TEST(a_crash_does_not_ask_again_whether_so_much_may_go)
{
    stage_range(0, 12500, 1, 20);
    assert_int_equal(take(), STATUS_OK);
    stage_range(0, 10000, 2, 20); /* 10,000 updates, then 2,500 deletions */
    begin();
    assert_int_equal(step_until(12501), STATUS_OK);
    assert_int_equal(sets_head(&s.sets, NAME).last, 22500);
    post("{\"loc\":\"http://example.com/r/1\",\"change\":\"deleted\"}\n");
    fold_all();
    assert_int_equal(take(), STATUS_OK);

    assert_int_equal(sets_head(&s.sets, NAME).last, 25001);
}

/* of 100 resources so many vanish, and ten come. */
TEST(holds_back_too_many_deletions_and_nothing_else)
{
    static const struct {
        unsigned vanished, max_delete;
        uint64_t accepted, left_out, held_back;
    } cases[] = {
        {20, 20, 0, 0, 0},  {21, 20, 0, 0, 21},  {21, 21, 0, 0, 0},
        {21, 20, 21, 0, 0}, {21, 20, 20, 0, 21}, {99, 20, 1000, 0, 0},
        {3, 1, 0, 0, 0},    {4, 1, 0, 0, 4},     {3, 0, 0, 0, 3},
        {3, 0, 3, 0, 0},    {1, 100, 0, 1, 1},   {1, 100, 1, 1, 0},
        {0, 20, 0, 1, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned first = 1000 * (unsigned)i, vanished = cases[i].vanished;
        uint64_t held_back = cases[i].held_back;

        stage_list((struct upload_file_about){.accepted = 1000}, first,
                   first + 100, 1);
        assert_int_equal(take(), STATUS_OK);
        stage_list(
            (struct upload_file_about){
                .max_delete = cases[i].max_delete,
                .accepted = cases[i].accepted,
                .left_out = cases[i].left_out,
            },
            first + vanished, first + 110, 1);
        assert_takes(10, 0, vanished - held_back, 100 - vanished, 0);
        assert_int_equal(s.upload.outcome.counts.held_back, held_back);
        assert_int_equal(s.upload.outcome.resources, 100);
        assert_int_equal(sets_find(&s.sets, NAME)->held_back, held_back);
    }
}

/* the additions of the first commit make the deletions a smaller share;
 * they are held back all the same. */
TEST(a_crash_does_not_release_what_was_held_back)
{
    stage_range(0, 100, 1, 20);
    assert_int_equal(take(), STATUS_OK);
    stage_range(21, 12000, 1, 20);
    begin();
    assert_int_equal(step_until(101), STATUS_OK);
    assert_int_equal(sets_head(&s.sets, NAME).last, 100 + UPLOAD_APPLY_ENTRIES);
    fold_all();
    assert_int_equal(take(), STATUS_OK);

    assert_int_equal(s.upload.outcome.counts.created, 1900);
    assert_int_equal(s.upload.outcome.counts.held_back, 21);
    assert_int_equal(sets_head(&s.sets, NAME).last, 12000);
}

/* Between two commits: the changes of the second one are older than those of
 * others, and yield to them. */
TEST(what_others_tell_between_two_commits_is_left_alone)
{
    stage_range(0, 12000, 1, 20);
    begin();
    assert_int_equal(step_until(1), STATUS_OK);
    post("{\"loc\":\"http://example.com/r/11000\",\"change\":\"created\"}\n"
         "{\"loc\":\"http://example.com/r/11001\",\"change\":\"created\"}\n"
         "{\"loc\":\"http://example.com/r/11001\",\"change\":\"deleted\"}\n"
         "{\"loc\":\"http://example.com/r/3\",\"change\":\"deleted\"}\n");
    assert_int_equal(step_until(UINT64_MAX), STATUS_OK);

    assert_counts(11998, 0, 0, 0, 2);
    assert_int_equal(sets_head(&s.sets, NAME).last, 12002);
}

/* The crash makes no difference to that: r/3 stays deleted. */
TEST(what_others_told_before_a_crash_is_left_alone)
{
    stage_range(0, 12000, 1, 20);
    begin();
    assert_int_equal(step_until(1), STATUS_OK);
    post("{\"loc\":\"http://example.com/r/3\",\"change\":\"deleted\"}\n"
         "{\"loc\":\"http://example.com/r/11000\",\"change\":\"created\"}\n");
    fold_all();
    assert_int_equal(take(), STATUS_OK);

    assert_int_equal(s.upload.outcome.counts.created, 1999);
    assert_int_equal(sets_head(&s.sets, NAME).last, 12001);
}

/* The set lets go of all closed lists but one, once they are folded. */
static void
retain_one_list(void)
{
    sets_file_all(&s.sets);
    atomic_store(&sets_find(&s.sets, NAME)->retain_lists, 1);
    sets_retain(&s.sets);
    fold_all();
    sets_retain(&s.sets);
    sets_purge(&s.sets);
}

/* The log has deleted the update; the state has it. */
TEST(news_that_the_log_has_let_go_of_are_in_the_state)
{
    s.sets.config.remove_grace_us = 0;
    sets_post(&s.sets, NAME, 0, 3);
    stage_range(0, 3, 1, 20);
    post("{\"loc\":\"http://example.com/r/1\",\"change\":\"updated\"}\n");
    sets_rotate(&s.sets, NAME);
    post("{\"loc\":\"http://example.com/r/4\",\"change\":\"created\"}\n");
    sets_rotate(&s.sets, NAME);
    retain_one_list();
    assert_int_equal(sets_head(&s.sets, NAME).earliest, 4);
    chore_end(&s.folding.chore); /* nothing is in memory any more */
    sets_close(&s.sets);
    sets_open(&s.sets);
    state_fold_init(&s.folding, s.sets.registry);
    s.folding.rest_us = FOLD_AT_ONCE;
    assert_takes(0, 2, 0, 0, 2);
    assert_int_equal(sets_head(&s.sets, NAME).last, 7);
}

/* Six more entries, of r/0 to r/3, of which the log keeps the last three; its
 * state is lost. */
static void
lose_history(void)
{
    const struct set *set;

    s.sets.config.remove_grace_us = 0;
    for (unsigned i = 0; i < 2; i++) {
        sets_post(&s.sets, NAME, i, 3);
        sets_rotate(&s.sets, NAME);
    }
    retain_one_list();
    assert_int_equal(sets_head(&s.sets, NAME).earliest,
                     sets_head(&s.sets, NAME).last - 3);
    chore_end(&s.folding.chore);
    set = sets_find(&s.sets, NAME);
    assert_int_equal(unlink(set_path(set, RESOURCES_FILE).text), 0);
    unlink(set_path(set, RESOURCES_FILE "-wal").text);
    sets_close(&s.sets); /* its memory has more entries than its files */
    sets_open(&s.sets);
    state_fold_init(&s.folding, s.sets.registry);
    s.folding.rest_us = FOLD_AT_ONCE;
}

static const struct resources_at *
state_now(void)
{
    struct resources *r;

    assert_int_equal(
        state_fold_open(&s.folding, sets_find(&s.sets, NAME), &r, &s.why),
        STATUS_OK);
    return resources_at(r);
}

/* The upload names all resources; the state is whole when it has folded
 * them. */
TEST(a_state_without_its_beginning_is_whole_again)
{
    lose_history(); /* it knows of r/1 to r/3 */
    stage_range(0, 3, 1, 100);
    assert_takes(1, 2, 1, 0, 0);
    assert_false(state_now()->is_whole);
    fold_all();
    assert_true(state_now()->is_whole);
    assert_int_equal(state_now()->n, 3);
}

/* The crash comes after the last change, before the end is noted. */
TEST(a_state_is_whole_again_after_a_crash)
{
    lose_history();
    stage_range(0, 3, 1, 100);
    begin();
    assert_int_equal(step_until(10), STATUS_OK);
    assert_int_equal(sets_head(&s.sets, NAME).last, 10);
    assert_takes(0, 0, 0, 0, 4);
    assert_false(state_now()->is_whole);
    fold_all();
    assert_true(state_now()->is_whole);
    assert_int_equal(state_now()->n, 3);
}

/* Neither the state nor the source knows resources of others from before the
 * state began that the log has forgotten. */
TEST(a_state_that_began_behind_the_body_is_not_made_whole)
{
    sets_post(&s.sets, NAME, 10, 1);
    stage_range(0, 3, 1, 100);
    lose_history();
    assert_int_equal(take(), STATUS_OK);
    fold_all();
    assert_false(state_now()->is_whole);
}

TEST(a_loc_that_is_told_twice_is_named_with_both_entries)
{
    struct upload_file *staging;
    struct block block = {.bytes = {.max = 1 << 24}};

    assert_int_equal(upload_file_begin(&staging, s.dir, NAME, &s.why),
                     STATUS_OK);
    add(&block, 1, 1);
    add(&block, 2, 1);
    assert_int_equal(upload_file_add(staging, &block, &s.why), STATUS_OK);
    block_clear(&block);
    add(&block, 3, 1);
    add(&block, 2, 2);
    assert_int_equal(upload_file_add(staging, &block, &s.why), STATUS_INVALID);

    assert_string_equal(s.why.text, "loc: named already in entry 2: "
                                    "\"http://example.com/r/2\"");
    assert_int_equal(s.why.entry, 4);
    upload_file_discard(staging);
    block_fini(&block);
}

static void
count_left(const char *name, void *user)
{
    assert_string_equal(name, NAME);
    ++*(unsigned *)user;
}

TEST(what_was_not_whole_is_gone_at_the_next_start)
{
    struct upload_file *staging;
    unsigned n = 0;
    int fd;

    assert_int_equal(upload_file_begin(&staging, s.dir, "half", &s.why),
                     STATUS_OK);
    stage_range(0, 3, 1, 20);
    assert_int_equal(upload_file_left(s.dir, count_left, &n, &s.why),
                     STATUS_OK);
    fd = open(s.dir, O_RDONLY | O_DIRECTORY);

    assert_int_equal(n, 1);
    assert_no_file(fd, "half.new");
    close(fd);
    upload_file_discard(staging);
}

/* The comparison is abandoned, and nothing was accepted. */
TEST(is_given_up_when_the_log_ends)
{
    struct file_path path;
    bool is_taken;

    stage_range(0, 1000, 1, 20);
    begin();
    log_stop(s.sets.registry->log);

    assert_int_equal(step_until(UINT64_MAX), STATUS_STOPPED);
    assert_int_equal(upload_file_path(s.dir, NAME, &path, &is_taken),
                     STATUS_OK);
    assert_false(is_taken);
    assert_int_equal(s.upload.outcome.last, 0);
}

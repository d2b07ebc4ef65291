/*
 * log_thread_room_test.c - rounds while the engine has no room, rounds that
 * follow one another, and rounds that wait for company.
 */
#include <limits.h>
#include <stdatomic.h>

#include "broker/log/log_thread.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* An engine that may have no room. */

static atomic_bool is_full;
static atomic_uint room_left; /* of a list that is not full */

static uint64_t
room(struct engine *engine)
{
    (void)engine;
    return atomic_load(&is_full) ? 0 : atomic_load(&room_left);
}

static const struct engine_ops narrow_ops = {
    .room = room,
    .next_id = fake_next_id,
    .commit = fake_commit,
    .tidy = fake_tidy,
};

static struct world *
narrow(void **state)
{
    struct world *w = *state;

    atomic_store(&is_full, false);
    atomic_store(&room_left, UINT_MAX);
    w->fake.engine.ops = &narrow_ops; /* read when the next post is there */
    return w;
}

#define NEARLY_FULL STATUS_BUSY, "the disk is nearly full"

FIXTURE(world_setup, world_teardown);

/* Design rule 5: a full disk heals, for a list's end and a file are not refused
 * with the changes that they share a round with. */
TEST(does_what_frees_room_when_there_is_none_for_changes)
{
    struct world *w = narrow(state);
    struct posted *held = hold(w, changes(w, &w->a, 4));
    struct posted *p[3], *end, *filed = make_act(w, ACT_FILED, &w->a);
    struct fake *f = &w->fake;
    unsigned n_commits = count(w, &f->n_commits) + 1; /* with that one */

    filed->act.filed.list = 1;
    filed->act.filed.marks = SLICE("marks");
    p[0] = submit(w, changes(w, &w->a, 2));
    end = submit(w, make_post(w, POST_CLOSE, &w->a));
    p[1] = submit(w, changes(w, &w->b, 2));
    submit(w, filed);
    p[2] = submit(w, changes(w, &w->a, 2));
    atomic_store(&is_full, true);
    set_shut(w, false);

    assert_kept(held, 1);
    for (int i = 0; i < 3; i++)
        assert_refused(p[i], NEARLY_FULL);
    assert_int_equal(posts_wait(end), STATUS_OK);
    assert_int_equal(end->post.ended, 1);
    assert_int_equal(posts_wait(filed), STATUS_OK);
    assert_int_equal(count(w, &f->n_commits), n_commits + 1);
    pthread_mutex_lock(&f->mutex);
    assert_int_equal(f->n_batches, 1);
    assert_int_equal(f->n_births, 1);
    assert_int_equal(f->n_ends, 1);
    assert_string_equal(f->headers[0], "a 0 to 4");
    assert_int_equal(f->filed, 1);
    assert_string_equal(f->marks, "marks");
    pthread_mutex_unlock(&f->mutex);
    assert_int_equal(head_of(&w->a).last, 4);
    assert_int_equal(head_of(&w->a).list, 2);
    assert_int_equal(atomic_load(&w->n_closed), 1);
}

/* A refused post leaves nothing behind, and is taken when there is room. */
TEST(takes_changes_again_when_there_is_room)
{
    struct world *w = narrow(state);

    assert_int_equal(post(w, &w->a, 3, NULL), STATUS_OK);
    atomic_store(&is_full, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(post(w, &w->a, 2, NULL), STATUS_BUSY);
        assert_int_equal(post(w, &w->b, 2, NULL), STATUS_BUSY);
    }
    assert_int_equal(head_of(&w->a).last, 3);
    assert_false(head_of(&w->b).exists);

    atomic_store(&is_full, false);
    assert_kept(submit(w, changes(w, &w->a, 2)), 4);
    assert_kept(submit(w, changes(w, &w->b, 2)), 1);
    assert_int_equal(w->fake.n_births, 2);
}

/* The bytes of a commit count, stamps too: a post that is too large for the
 * room that there is has to wait for more, a small one has not. */
TEST(refuses_a_post_that_is_larger_than_the_room)
{
    struct world *w = narrow(state);
    struct posted *large = changes(w, &w->a, 350); /* stamps alone are larger */
    struct posted *small = changes(w, &w->a, 100);

    atomic_store(&room_left, 40000);
    submit(w, large);
    submit(w, small);
    assert_refused(large, NEARLY_FULL);
    assert_int_equal(posts_wait(small), STATUS_OK);
}

/* Posts without room for all of them are committed one after the other. */
TEST(a_round_takes_no_more_than_there_is_room_for)
{
    struct world *w = narrow(state);
    struct posted *held, *p[4];
    unsigned n_commits;

    atomic_store(&room_left, 40000);
    held = hold(w, changes(w, &w->a, 1));
    n_commits = count(w, &w->fake.n_commits) + 1;
    for (int i = 0; i < 4; i++)
        p[i] = submit(w, changes(w, &w->a, 100));
    set_shut(w, false);
    assert_kept(held, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(posts_wait(p[i]), STATUS_OK);
    assert_in_range(count(w, &w->fake.n_commits), n_commits + 2, n_commits + 4);
}

/* log.md, commit: checkpoints are completed between two rounds also when the
 * second one waits already, or the WAL would grow as long as anybody posts. */
TEST(tidies_after_each_round_though_posts_wait)
{
    struct world *w = *state;
    struct posted *first = hold(w, changes(w, &w->a, 1));
    struct posted *second = submit(w, changes(w, &w->a, 1));
    unsigned n_tidied = count(w, &w->fake.n_tidied);

    set_held(w, true);
    set_shut(w, false);

    wait_for(w, &w->fake.n_tidied, n_tidied + 1);
    assert_true(posts_is_done(first));
    assert_false(posts_is_done(second));
    set_held(w, false);
    assert_int_equal(posts_wait(second), STATUS_OK);
}

/* Company */

#define LINGER_US 500000
#define GROUP     4

static void
submit_group(struct world *w, struct posted **group)
{
    for (int i = 0; i < GROUP; i++)
        group[i] = submit(w, changes(w, &w->a, 1));
}

static void
await_group(struct posted **group)
{
    for (int i = 0; i < GROUP; i++)
        assert_int_equal(posts_wait(group[i]), STATUS_OK);
}

/* How many commits had something to keep. */
static unsigned
count_commits(struct world *w)
{
    return count(w, &w->fake.n_commits) - count(w, &w->fake.n_idle);
}

/* R-311, --linger: a post that comes while a commit waits for company joins it:
 * one commit for all, not one for the first and one for the others. */
TEST(posts_that_come_while_a_commit_lingers_share_it)
{
    struct world *w = *state;
    struct posted *first[GROUP], *group[GROUP];

    w->options.linger_us = LINGER_US;
    submit_group(w, first);
    clock_await_us(LINGER_US);
    submit_group(w, group);
    assert_int_equal(count_commits(w), 0);
    clock_pass_us(LINGER_US);
    await_group(first);
    await_group(group);
    assert_int_equal(count_commits(w), 1);
}

/* The same for those who had to wait for the round before. */
TEST(a_round_that_follows_another_lingers_too)
{
    struct world *w = *state;
    struct posted *held = hold(w, changes(w, &w->a, 1));
    struct posted *early[GROUP], *late[GROUP];

    w->options.linger_us = LINGER_US; /* the round under way has done so */
    submit_group(w, early);
    set_shut(w, false);
    assert_int_equal(posts_wait(held), STATUS_OK);
    clock_await_us(LINGER_US);
    submit_group(w, late);
    clock_pass_us(LINGER_US);
    await_group(early);
    await_group(late);
    assert_int_equal(count_commits(w), 2);
}

/* log_thread.h: changes wait while the closed lists without a file are too
 * large. Acts are committed, and so are the changes of the thread that files
 * lists. */
TEST(holds_changes_while_lists_wait_for_their_files)
{
    struct world *w = *state;
    struct posted *p[3], *filed = make_act(w, ACT_FILED, &w->a), *own;

    assert_kept(submit(w, changes(w, &w->a, 2)), 1);
    unfiled_bytes_add(&w->unfiled, BACKLOG_MAX);
    p[0] = submit(w, changes(w, &w->a, 2));
    p[1] = submit(w, changes(w, &w->b, 2));
    filed->act.filed.list = 1;
    submit(w, filed);
    assert_int_equal(posts_wait(filed), STATUS_OK);
    own = changes(w, &w->a, 3);
    own->post.is_never_held = true;
    assert_kept(submit(w, own), 3);
    p[2] = submit(w, changes(w, &w->a, 1));
    assert_int_equal(head_of(&w->a).last, 5);
    assert_false(head_of(&w->b).exists);

    unfiled_bytes_add(&w->unfiled, -1);
    thread_wake(&w->log_thread.thread);
    assert_kept(p[0], 6);
    assert_kept(p[1], 1);
    assert_kept(p[2], 8);
}

/* Nothing waits for lists that cannot be filed, nor for a log that ends. */
TEST(holds_no_changes_in_vain)
{
    struct world *w = *state;
    struct posted *p;

    unfiled_bytes_add(&w->unfiled, BACKLOG_MAX);
    atomic_store(&w->unfiled.has_failed, true);
    assert_kept(submit(w, changes(w, &w->a, 2)), 1);
    atomic_store(&w->unfiled.has_failed, false);
    p = submit(w, changes(w, &w->a, 2));
    log_thread_stop(&w->log_thread);
    assert_kept(p, 3);
}

/* The count starts from 0 when every list has a file. A list that was closed
 * meanwhile stays counted. */
TEST(counts_anew_when_no_list_waits)
{
    struct unfiled_bytes b;
    int64_t seen;

    unfiled_bytes_init(&b, 1000, 700);
    assert_false(unfiled_bytes_is_full(&b));
    unfiled_bytes_add(&b, 300);
    assert_true(unfiled_bytes_is_full(&b));
    seen = b.bytes;
    unfiled_bytes_add(&b, 50);
    unfiled_bytes_clear(&b, seen);
    assert_int_equal(b.bytes, 1050);
    unfiled_bytes_clear(&b, 1050);
    assert_int_equal(b.bytes, 0);
    unfiled_bytes_init(&b, 0, 1 << 30);
    assert_false(unfiled_bytes_is_full(&b));
}

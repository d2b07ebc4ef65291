/*
 * commit_room_test.c - rounds while the engine has no room, rounds that follow
 * one another, and rounds that wait for company.
 */
#include <limits.h>
#include <stdatomic.h>

#include "broker/log/commit.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* An engine that may have no room. */

static atomic_bool is_full;
static atomic_uint room_left; /* of one that is not full */

static uint64_t
room(struct engine *engine)
{
    (void)engine;
    return atomic_load(&is_full) ? 0 : atomic_load(&room_left);
}

static const struct engine_ops narrow_ops = {
    .room = room,
    .commit = fake_commit,
    .tidy = fake_tidy,
};

static struct world *
narrow_open(void)
{
    struct world *w = world_open(50000, 0);

    atomic_store(&is_full, false);
    atomic_store(&room_left, UINT_MAX);
    w->fake.engine.ops = &narrow_ops; /* read when the next post is there */
    return w;
}

static void
assert_refused(struct posted *p)
{
    assert_int_equal(posts_wait(p), STATUS_BUSY);
    assert_string_equal(p->post.why.text, "the disk is nearly full");
    posts_end(p);
}

/* Design rule 5: a full disk heals, for a list's end and a file are not refused
 * with the changes that they share a round with. */
TEST(does_what_frees_room_when_there_is_none_for_changes)
{
    struct world *w = narrow_open();
    struct posted held, changes[3], end, filed;
    struct fake *f = &w->fake;
    struct head head;
    unsigned n_commits;

    posts_begin(&held, POST_CHANGES, &w->a);
    posts_add_many(&held, 1, 4);
    hold(w, &held);
    n_commits = count(w, &f->n_commits) + 1; /* when that one is done */
    for (int i = 0; i < 3; i++) {
        posts_begin(&changes[i], POST_CHANGES, i == 1 ? &w->b : &w->a);
        posts_add_many(&changes[i], 1, 2);
    }
    posts_begin(&end, POST_CLOSE, &w->a);
    posts_begin(&filed, POST_FILED, &w->a);
    filed.post.list = 1;
    filed.post.marks = SLICE("marks");
    submit(w, &changes[0]);
    submit(w, &end);
    submit(w, &changes[1]);
    submit(w, &filed);
    submit(w, &changes[2]);
    atomic_store(&is_full, true);
    set_shut(w, false);

    assert_int_equal(posts_wait(&held), STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_refused(&changes[i]);
    assert_int_equal(posts_wait(&end), STATUS_OK);
    assert_int_equal(end.post.list, 1);
    assert_int_equal(posts_wait(&filed), STATUS_OK);
    assert_int_equal(count(w, &f->n_commits), n_commits + 1);
    pthread_mutex_lock(&f->mutex);
    assert_int_equal(f->n_batches, 1);
    assert_int_equal(f->n_births, 1);
    assert_int_equal(f->n_ends, 1);
    assert_string_equal(f->headers[0], "a 0 to 4");
    assert_int_equal(f->filed, 1);
    assert_string_equal(f->marks, "marks");
    pthread_mutex_unlock(&f->mutex);
    tail_head(&w->a.tail, &head);
    assert_int_equal(head.last, 4);
    assert_int_equal(head.list, 2);
    assert_int_equal(atomic_load(&w->n_closed), 1);
    posts_end(&held);
    posts_end(&end);
    posts_end(&filed);
    world_close(w);
}

/* Who was refused leaves nothing behind, and is let in when there is room. */
TEST(takes_changes_again_when_there_is_room)
{
    struct world *w = narrow_open();
    struct head head;
    uint64_t first;

    assert_int_equal(post(w, &w->a, 3, NULL), STATUS_OK);
    atomic_store(&is_full, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(post(w, &w->a, 2, NULL), STATUS_BUSY);
        assert_int_equal(post(w, &w->b, 2, NULL), STATUS_BUSY);
    }
    tail_head(&w->a.tail, &head);
    assert_int_equal(head.last, 3);
    tail_head(&w->b.tail, &head);
    assert_false(head.exists);

    atomic_store(&is_full, false);
    assert_int_equal(post(w, &w->a, 2, &first), STATUS_OK);
    assert_int_equal(first, 4);
    assert_int_equal(post(w, &w->b, 2, &first), STATUS_OK);
    assert_int_equal(first, 1);
    assert_int_equal(w->fake.n_births, 2);
    world_close(w);
}

/* What a commit takes is counted, stamps too: what is too large for the room
 * that there is has to wait for more, what is small enough has not. */
TEST(refuses_a_post_that_is_larger_than_the_room)
{
    struct world *w = narrow_open();
    struct posted large, small;

    atomic_store(&room_left, 40000);
    posts_begin(&large, POST_CHANGES, &w->a);
    posts_add_many(&large, 1, 350); /* their stamps alone are larger */
    posts_begin(&small, POST_CHANGES, &w->a);
    posts_add_many(&small, 1, 100);
    submit(w, &large);
    submit(w, &small);
    assert_refused(&large);
    assert_int_equal(posts_wait(&small), STATUS_OK);
    posts_end(&small);
    world_close(w);
}

/* What is too much at once is committed one after the other. */
TEST(a_round_takes_no_more_than_there_is_room_for)
{
    struct world *w = narrow_open();
    struct posted held, posts[4];
    unsigned n_commits;

    atomic_store(&room_left, 40000);
    posts_begin(&held, POST_CHANGES, &w->a);
    posts_add_many(&held, 1, 1);
    hold(w, &held);
    n_commits = count(w, &w->fake.n_commits) + 1;
    for (int i = 0; i < 4; i++) {
        posts_begin(&posts[i], POST_CHANGES, &w->a);
        posts_add_many(&posts[i], 1, 100);
        submit(w, &posts[i]);
    }
    set_shut(w, false);
    assert_int_equal(posts_wait(&held), STATUS_OK);
    posts_end(&held);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(posts_wait(&posts[i]), STATUS_OK);
        posts_end(&posts[i]);
    }
    assert_in_range(count(w, &w->fake.n_commits), n_commits + 2, n_commits + 4);
    world_close(w);
}

static void
set_held(struct world *w, bool is_held)
{
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.is_held = is_held;
    pthread_cond_broadcast(&w->fake.changed);
    pthread_mutex_unlock(&w->fake.mutex);
}

/* log.md, commit: checkpoints are completed between two rounds also when the
 * second one waits already, or the WAL would grow as long as anybody posts. */
TEST(tidies_after_each_round_though_posts_wait)
{
    struct world *w = world_open(50000, 0);
    struct posted first, second;
    unsigned n_tidied;

    posts_begin(&first, POST_CHANGES, &w->a);
    posts_add_many(&first, 1, 1);
    hold(w, &first);
    posts_begin(&second, POST_CHANGES, &w->a);
    posts_add_many(&second, 2, 1);
    submit(w, &second);
    n_tidied = count(w, &w->fake.n_tidied);
    set_held(w, true);
    set_shut(w, false);

    wait_for(w, &w->fake.n_tidied, n_tidied + 1);
    assert_true(posts_is_done(&first));
    assert_false(posts_is_done(&second));
    set_held(w, false);
    assert_int_equal(posts_wait(&second), STATUS_OK);
    posts_end(&first);
    posts_end(&second);
    world_close(w);
}

/* Company */

#define LINGER_US 500000
#define GROUP     4

static void
submit_group(struct world *w, struct posted *group)
{
    for (int i = 0; i < GROUP; i++) {
        posts_begin(&group[i], POST_CHANGES, &w->a);
        posts_add_many(&group[i], 1, 1);
        submit(w, &group[i]);
    }
}

static void
await_group(struct posted *group)
{
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(posts_wait(&group[i]), STATUS_OK);
        posts_end(&group[i]);
    }
}

/* How many commits had something to keep. */
static unsigned
count_commits(struct world *w)
{
    return count(w, &w->fake.n_commits) - count(w, &w->fake.n_idle);
}

/* R-311, --linger: who comes while a commit waits for company is that company:
 * one commit for all, not one for the first and one for the others. */
TEST(posts_that_come_while_a_commit_lingers_share_it)
{
    struct world *w = world_open(50000, 0);
    struct posted first[GROUP], group[GROUP];

    w->options.linger_us = LINGER_US; /* read when the next post is there */
    submit_group(w, first);
    clock_await_us(LINGER_US);
    submit_group(w, group);
    assert_int_equal(count_commits(w), 0);
    clock_pass_us(LINGER_US);
    await_group(first);
    await_group(group);
    assert_int_equal(count_commits(w), 1);
    world_close(w);
}

/* The same for those who had to wait for the round before. */
TEST(a_round_that_follows_another_lingers_too)
{
    struct world *w = world_open(50000, 0);
    struct posted held, early[GROUP], late[GROUP];

    posts_begin(&held, POST_CHANGES, &w->a);
    posts_add_many(&held, 1, 1);
    hold(w, &held);
    w->options.linger_us = LINGER_US; /* the round under way has done so */
    submit_group(w, early);
    set_shut(w, false);
    assert_int_equal(posts_wait(&held), STATUS_OK);
    clock_await_us(LINGER_US);
    submit_group(w, late);
    clock_pass_us(LINGER_US);
    await_group(early);
    await_group(late);
    posts_end(&held);
    assert_int_equal(count_commits(w), 2);
    world_close(w);
}

#include <sched.h>

#include "broker/log/log_thread.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

FIXTURE(world_setup, world_teardown);

/* log.md: a huge post is one commit, split between lists and
 * batches, and published in one step. */
TEST(splits_a_huge_post_into_lists_and_batches)
{
    struct world *w = *state;
    struct posted *p = submit(w, changes(w, &w->a, 60000));

    assert_kept(p, 1);
    assert_int_equal(p->post.last, 60000);
    assert_int_equal(head_of(&w->a).list, 2);
    assert_int_equal(head_of(&w->a).list_after, 50000);
    assert_int_equal(w->fake.n_ends, 1);
    assert_string_equal(w->fake.headers[0], "a 0 to 50000");
    assert_true(w->fake.n_batches > 20);
    assert_int_equal(w->fake.in_commit[0],
                     w->fake.in_commit[w->fake.n_batches - 1]);
    assert_batches_are_sound(&w->fake);
}

/* A full list ends in the commit that filled it; the next one is empty until an
 * entry comes. */
TEST(ends_a_list_with_the_entry_that_fills_it)
{
    struct world *w = *state;
    struct head head;

    w->options.limits.entries = 5;
    assert_int_equal(post(w, &w->a, 5, NULL), STATUS_OK);
    head = head_of(&w->a);
    assert_int_equal(head.list, 2);
    assert_true(head_list_is_empty(&head));
    assert_int_equal(w->fake.n_ends, 1);
    assert_int_equal(post(w, &w->a, 13, NULL), STATUS_OK);
    assert_int_equal(w->fake.n_ends, 3);
    assert_batches_are_sound(&w->fake);
}

/* R-027, log.md: large entries go into batches by their size, the largest one
 * stands alone. */
TEST(splits_batches_by_bytes)
{
    static const size_t weights[] = {100000, 100000, 100000, 240000,
                                     240000, 10,     10,     250000};
    static const uint64_t lasts[] = {2, 3, 4, 7, 8};
    struct world *w = *state;
    struct posted *p = make_post(w, POST_CHANGES, &w->a);

    for (unsigned i = 0; i < 8; i++)
        posts_add(p, i, weights[i]);
    assert_kept(submit(w, p), 1);
    assert_int_equal(w->fake.n_batches, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(w->fake.batches[i]->last, lasts[i]);
    assert_batches_are_sound(&w->fake);
}

/* log.md, commit: a commit stays short for those who come next: a round takes
 * posts up to some 8 MB. */
TEST(leaves_the_rest_of_a_long_queue_to_the_next_round)
{
    struct world *w = *state;
    struct posted *p[3];

    hold(w, changes(w, &w->a, 1));
    for (int i = 0; i < 3; i++) {
        p[i] = make_post(w, POST_CHANGES, &w->a);
        for (unsigned n = 0; n < 25; n++)
            posts_add(p[i], n, 200000);
        submit(w, p[i]);
    }
    set_shut(w, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(posts_wait(p[i]), STATUS_OK);
    assert_int_equal(w->fake.n_batches, 76);
    assert_int_equal(w->fake.in_commit[1], w->fake.in_commit[50]);
    assert_int_equal(w->fake.in_commit[51], w->fake.in_commit[50] + 1);
    assert_int_equal(w->fake.in_commit[75], w->fake.in_commit[51]);
}

/* R-148, log.md: a close that comes twice for one list ends it once, also when
 * the next one has entries by then; an empty list, or a set without entries, is
 * not closed. */
TEST(closes_a_list_once_however_often_it_is_asked)
{
    static const struct {
        enum post_kind kind;
        uint64_t asked, closed;
    } steps[] = {{POST_CLOSE, 1, 1},   {POST_CLOSE, 1, 0}, {POST_CLOSE, 2, 0},
                 {POST_CHANGES, 0, 0}, {POST_CLOSE, 1, 0}, {POST_CLOSE, 3, 0},
                 {POST_CLOSE, 2, 2}};

    enum { N = sizeof(steps) / sizeof(steps[0]) };
    struct world *w = *state;
    struct posted *unborn, *p[N];

    hold(w, changes(w, &w->a, 2));
    for (int i = 0; i < N; i++) {
        p[i] = make_post(w, steps[i].kind, &w->a);
        if (steps[i].kind == POST_CHANGES)
            posts_add_many(p[i], 1, 1);
        p[i]->post.list = steps[i].asked;
        submit(w, p[i]);
    }
    unborn = submit(w, make_post(w, POST_CLOSE, &w->b));
    set_shut(w, false);
    for (int i = 0; i < N; i++) {
        assert_int_equal(posts_wait(p[i]), STATUS_OK);
        assert_int_equal(p[i]->post.ended, steps[i].closed);
    }
    assert_int_equal(posts_wait(unborn), STATUS_OK);
    assert_int_equal(unborn->post.ended, 0);
    log_thread_stop(&w->log_thread);
    assert_int_equal(w->fake.n_ends, 2);
    assert_int_equal(w->fake.n_births, 1);
    assert_int_equal(atomic_load(&w->n_closed), 1); /* once a round */
}

/* Posts and closes of one round take effect in their order. */
TEST(keeps_the_order_of_posts_and_closes)
{
    struct world *w = *state;
    struct posted *p[5];

    hold(w, make_post(w, POST_CLOSE, &w->b));
    for (int i = 0; i < 5; i++)
        p[i] = submit(w, i % 2 ? make_post(w, POST_CLOSE, &w->a)
                               : changes(w, &w->a, 2));
    set_shut(w, false);
    for (int i = 0; i < 5; i++)
        assert_int_equal(posts_wait(p[i]), STATUS_OK);
    assert_int_equal(w->fake.n_batches, 3);
    assert_int_equal(w->fake.in_commit[0], w->fake.in_commit[2]);
    assert_int_equal(w->fake.n_ends, 2);
    assert_string_equal(w->fake.headers[0], "a 0 to 2");
    assert_string_equal(w->fake.headers[1], "a 2 to 4");
    assert_batches_are_sound(&w->fake);
}

/* log.md, lists: "filed" is committed with the file's marks. */
TEST(commits_that_a_list_is_filed)
{
    struct world *w = *state;

    w->options.limits.entries = 2;
    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);
    refuse(w, 1);
    for (int i = 0; i < 2; i++) {
        struct posted *p = make_act(w, ACT_FILED, &w->a);

        p->act.filed.list = 1;
        p->act.filed.marks = SLICE("the marks");
        submit(w, p);
        assert_int_equal(posts_wait(p), i == 0 ? STATUS_BUSY : STATUS_OK);
        assert_int_equal(w->fake.filed, i);
        assert_int_equal(head_of(&w->a).filed, i);
    }
    assert_string_equal(w->fake.marks, "the marks");
}

static int
setup_with_rows_to_forget(void **state)
{
    *state = world_open(7);
    return 0;
}

/* log.md, lists: rows are forgotten a slice a commit; a log that nobody posts
 * to goes on until nothing is left, and then rests. */
TEST(goes_on_forgetting_while_nobody_posts, setup_with_rows_to_forget,
     world_teardown)
{
    struct world *w = *state;

    wait_for(w, &w->fake.n_tidied, 7);
    log_thread_stop(&w->log_thread);
    assert_int_equal(w->fake.n_commits, 7);
    assert_int_equal(w->fake.n_idle, 7);
}

/* The same after a post that left something to forget. */
TEST(goes_on_forgetting_after_a_post)
{
    struct world *w = *state;

    assert_int_equal(count(w, &w->fake.n_commits), 1);
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.to_forget = 4;
    pthread_mutex_unlock(&w->fake.mutex);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    wait_for(w, &w->fake.n_commits, 5);
    log_thread_stop(&w->log_thread);
    assert_int_equal(w->fake.n_commits, 5);
    assert_int_equal(w->fake.n_idle, 4);
}

/* A disk that is full is not asked again and again: the next post is the next
 * attempt. */
TEST(rests_after_forgetting_was_refused)
{
    struct world *w = *state;

    pthread_mutex_lock(&w->fake.mutex);
    w->fake.to_forget = 1000;
    pthread_mutex_unlock(&w->fake.mutex);
    refuse_after(w, 1, 1);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    wait_for(w, &w->fake.n_commits, 3); /* first look, post, refused */
    for (int i = 0; i < 5000; i++)
        sched_yield(); /* time to ask again, if it does */
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    log_thread_stop(&w->log_thread);
    assert_int_equal(w->fake.in_commit[0], 2);
    assert_int_equal(w->fake.in_commit[1], 4);
}

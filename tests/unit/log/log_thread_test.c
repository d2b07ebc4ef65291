#include "broker/log/log_thread.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/authority.h"
#include "broker/log/log.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* Exits with 0 if the post is answered. */
static void
post_with_an_unknown_outcome(void)
{
    struct world *w = world_open(0);

    pthread_mutex_lock(&w->fake.mutex);
    w->fake.is_unknown = true;
    pthread_mutex_unlock(&w->fake.mutex);
    posts_wait(submit(w, changes(w, &w->a, 1)));
    _exit(0);
}

/* log.md, commit: when nobody knows whether a commit is kept, no post is
 * answered, nothing is published, and the process ends with 1. */
TEST(ends_the_process_when_the_outcome_is_unknown)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        post_with_an_unknown_outcome();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

FIXTURE(world_setup, world_teardown);

/* log.md, commit: all posts that wait share one transaction; a new set comes
 * before its batches, and they carry its id. */
TEST(commits_all_that_waits_together)
{
    struct world *w = *state;
    struct posted *held = hold(w, changes(w, &w->a, 1)), *p[4];
    struct fake *f = &w->fake;

    for (int i = 0; i < 4; i++)
        p[i] = submit(w, changes(w, i % 2 ? &w->b : &w->a, 3));
    set_shut(w, false);
    assert_kept(held, 1);
    assert_kept(p[0], 2);
    assert_kept(p[1], 1);
    assert_kept(p[2], 5);
    assert_kept(p[3], 4);
    assert_int_equal(p[2]->post.last, 7);
    assert_int_equal(p[3]->post.last, 6);
    assert_string_equal(p[0]->post.epoch, held->post.epoch);
    assert_string_not_equal(p[1]->post.epoch, held->post.epoch);

    /* One batch each: consecutive entries of one commit and set. */
    pthread_mutex_lock(&f->mutex);
    assert_int_equal(f->n_batches, 3);
    assert_int_equal(f->in_commit[1], f->in_commit[2]);
    assert_int_equal(f->sets[0], 1);
    assert_int_equal(f->sets[1], 1);
    assert_int_equal(f->sets[2], 2);
    assert_int_equal(f->batches[1]->first, 2);
    assert_int_equal(f->batches[1]->last, 7);
    assert_int_equal(f->batches[2]->last, 6);
    assert_int_equal(f->n_births, 2);
    assert_string_equal(f->births[1], "b");
    pthread_mutex_unlock(&f->mutex);
}

/* Design rule 1: nothing is visible and nobody answered before the commit. */
TEST(publishes_and_answers_after_the_commit)
{
    struct world *w = *state;
    struct posted *p = hold(w, changes(w, &w->a, 2));
    struct log_copy copy;
    struct head head;
    struct batch *b;
    uint64_t last;

    assert_false(head_of(&w->a).exists);
    assert_false(posts_is_done(p));
    clock_pass_us(1000000);
    order_copy(&w->log_thread.order, 0, &copy);
    set_shut(w, false);
    assert_kept(p, 1);
    head = head_of(&w->a);
    /* While it was under way, nobody signed that there is no such entry. */
    assert_true(copy.past_us < head.last_us);
    wait_for(w, &w->fake.n_tidied, 2); /* the round is over */
    order_copy(&w->log_thread.order, 0, &copy);
    assert_int_equal(copy.past_us, clock_now_us());
    assert_true(head.exists);
    assert_int_equal(head.last, 2);
    b = tail_find(&w->a.tail, 1, &last);
    assert_ptr_equal(b, w->fake.batches[0]);
    assert_memory_equal(head.digest.bytes, b->digest.bytes, DIGEST_SIZE);
    batch_unref(b);
}

/* Design rule 5, log.md: a refused commit leaves no trace. */
TEST(takes_a_refused_commit_back_whole)
{
    struct world *w = *state;
    struct head before, after;
    uint64_t first;

    w->options.limits.entries = 4;
    assert_int_equal(post(w, &w->a, 3, NULL), STATUS_OK);
    before = head_of(&w->a);
    refuse(w, 1);
    assert_refused(submit(w, changes(w, &w->a, 6)), /* would end two lists */
                   STATUS_BUSY, "the disk is full");
    after = head_of(&w->a);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(atomic_load(&w->n_closed), 0);

    assert_int_equal(post(w, &w->a, 2, &first), STATUS_OK);
    assert_int_equal(first, 4);
    after = head_of(&w->a);
    assert_int_equal(after.last, 5);
    assert_int_equal(after.list, 2);
    assert_int_equal(atomic_load(&w->n_closed), 1);
    assert_int_equal(w->fake.n_ends, 1);
    assert_string_equal(w->fake.headers[0], "a 0 to 4");
    assert_int_equal(w->fake.batches[1]->first, 4);
    assert_memory_equal(w->fake.batches[1]->before.bytes, before.digest.bytes,
                        DIGEST_SIZE);
}

/* All or nothing: every post of a refused commit is refused. */
TEST(refuses_every_post_of_a_refused_round)
{
    struct world *w = *state;
    struct posted *held = hold(w, changes(w, &w->a, 1));
    struct posted *p[] = {changes(w, &w->a, 2), changes(w, &w->b, 2),
                          make_post(w, POST_CLOSE, &w->a)};

    refuse(w, 2);
    for (int i = 0; i < 3; i++)
        submit(w, p[i]);
    set_shut(w, false);
    assert_int_equal(posts_wait(held), STATUS_BUSY);
    for (int i = 0; i < 3; i++)
        assert_int_equal(posts_wait(p[i]), STATUS_BUSY);
    assert_int_equal(w->fake.n_batches, 0);
}

/* A set whose first commit is refused does not exist, and is born again by the
 * next one. */
TEST(bears_a_set_again_after_its_birth_was_refused)
{
    struct world *w = *state;
    uint64_t first;

    refuse(w, 1);
    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_BUSY);
    assert_false(head_of(&w->a).exists);
    assert_int_equal(post(w, &w->b, 1, NULL), STATUS_OK);

    assert_int_equal(post(w, &w->a, 2, &first), STATUS_OK);
    assert_int_equal(first, 1);
    assert_true(head_of(&w->a).exists);
    assert_int_equal(head_of(&w->a).last, 2);
    assert_int_equal(w->fake.n_births, 3);
    assert_string_equal(w->fake.births[0], "a");
    assert_string_equal(w->fake.births[2], "a");
    assert_int_equal(w->fake.sets[0], 1); /* the refused one used up no id */
    assert_int_equal(w->fake.sets[1], 2);
}

/* log.md, ending: submitted posts are committed and answered; later ones are
 * refused. */
TEST(commits_what_was_submitted_before_it_ends)
{
    struct world *w = *state;
    struct posted *p[3];

    hold(w, changes(w, &w->a, 1));
    for (int i = 0; i < 3; i++)
        p[i] = submit(w, changes(w, &w->a, 1));
    set_shut(w, false);
    log_thread_stop(&w->log_thread);
    for (int i = 0; i < 3; i++) {
        assert_true(posts_is_done(p[i]));
        assert_kept(p[i], (uint64_t)2 + i);
    }
    assert_int_equal(log_thread_submit(&w->log_thread, &p[0]->post, true, NULL),
                     STATUS_STOPPED);
}

struct counter {
    struct watch watch;
    atomic_uint wakes;
};

static void
count_wake(struct watch *watch)
{
    struct counter *c = list_entry(watch, struct counter, watch);

    atomic_fetch_add(&c->wakes, 1);
}

/* log.md, reading: a commit wakes the watchers of the sets that it changed,
 * once, and nobody else; a refused one wakes nobody. */
TEST(wakes_who_watches_the_sets_that_changed)
{
    struct counter c = {.watch.wake = count_wake};
    struct world *w = *state;

    atomic_init(&c.wakes, 0);
    log_watch(&w->a, &c.watch);
    assert_int_equal(post(w, &w->a, 3, NULL), STATUS_OK);
    assert_int_equal(atomic_load(&c.wakes), 1);
    assert_int_equal(post(w, &w->b, 1, NULL), STATUS_OK);
    refuse(w, 1);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_BUSY);
    assert_int_equal(atomic_load(&c.wakes), 1);
    log_unwatch(&w->a, &c.watch);
}

static void *
stop(void *user)
{
    struct world *w = user;

    log_thread_stop(&w->log_thread);
    return NULL;
}

static bool
is_stopping(struct thread *t)
{
    bool answer;

    pthread_mutex_lock(&t->mutex);
    answer = t->is_stopping;
    pthread_mutex_unlock(&t->mutex);
    return answer;
}

/* Also what comes between the last round and the wish to end. */
TEST(commits_what_was_submitted_between_two_rounds)
{
    struct world *w = *state;
    struct posted *p;
    pthread_t stopper;

    set_held(w, true);
    submit(w, changes(w, &w->a, 1));
    wait_for(w, &w->fake.n_tidied, 2);
    p = submit(w, changes(w, &w->a, 1));
    assert_int_equal(pthread_create(&stopper, NULL, stop, w), 0);
    AWAIT(is_stopping(&w->log_thread.thread));
    set_held(w, false);
    pthread_join(stopper, NULL);
    assert_true(posts_is_done(p));
    assert_kept(p, 2);
}

#define POSTERS 4
#define ROUNDS  50

struct poster {
    pthread_t id;
    struct world *world;
    struct log_set *set;
    uint64_t firsts[ROUNDS];
};

static void *
post_often(void *user)
{
    struct poster *p = user;

    for (int i = 0; i < ROUNDS; i++)
        if (post(p->world, p->set, 2, &p->firsts[i]))
            p->firsts[i] = 0;
    return NULL;
}

/* posts from several threads get seqs of their own, in the order
 * in which each thread was answered. */
TEST(numbers_the_posts_of_many_threads)
{
    struct world *w = *state;
    struct poster posters[POSTERS];
    bool seen[POSTERS * ROUNDS + 1] = {false};

    w->options.limits.entries = 30;
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){.world = w, .set = &w->a};
        assert_int_equal(
            pthread_create(&posters[i].id, NULL, post_often, &posters[i]), 0);
    }
    for (int i = 0; i < POSTERS; i++) {
        uint64_t before = 0;

        pthread_join(posters[i].id, NULL);
        for (int k = 0; k < ROUNDS; k++) {
            uint64_t first = posters[i].firsts[k];

            assert_true(first > before && first % 2 == 1);
            assert_in_range(first / 2, 0, POSTERS * ROUNDS - 1);
            assert_false(seen[first / 2]);
            seen[first / 2] = true;
            before = first;
        }
    }
    log_thread_stop(&w->log_thread);
    assert_batches_are_sound(&w->fake);
    assert_int_equal(w->fake.n_ends, POSTERS * ROUNDS * 2 / 30);
}

/* It asks when the turn of the post comes, not when it was submitted. */
TEST(refuses_a_post_whose_authority_has_ended)
{
    struct world *w = *state;
    struct authority *authority = authority_new(NULL, INT64_MAX);
    struct posted *held = hold(w, changes(w, &w->a, 1)), *p[3];

    for (int i = 0; i < 3; i++) {
        p[i] = changes(w, &w->a, 2);
        p[i]->post.authority = i == 1 ? authority : NULL;
        submit(w, p[i]);
    }
    authority_end(authority, 0);
    set_shut(w, false);
    assert_kept(held, 1);
    assert_kept(p[0], 2);
    assert_refused(p[1], STATUS_DENIED, AUTHORITY_MISSING);
    assert_kept(p[2], 4);
    authority_unref(authority);
}

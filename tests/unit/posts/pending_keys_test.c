#include "broker/posts/pending_keys.h"

#include <stdatomic.h>
#include <stdio.h>

#include "tests/test.h"

static struct pending_keys_post
named(const char *set, const char *key)
{
    return (struct pending_keys_post){.set = slice_of(set),
                                      .key = slice_of(key)};
}

/* One post of a set with a key at a time; others do not matter. */
TEST(holds_one_post_of_a_set_and_key)
{
    struct pending_keys_post first = named("a", "k"), again = named("a", "k"),
                             other_key = named("a", "l"),
                             other_set = named("b", "k"),
                             other_owner = named("a", "k"),
                             shifted = named("ak", "");
    struct pending_keys r = {.mutex = PTHREAD_MUTEX_INITIALIZER};

    other_owner.owner = SLICE("press");
    assert_true(pending_keys_begin(&r, &first));
    assert_true(pending_keys_begin(&r, &other_owner));
    assert_false(pending_keys_begin(&r, &again));
    pending_keys_end(&r, &again); /* it never began: `first` still runs */
    assert_false(pending_keys_begin(&r, &again));
    assert_true(pending_keys_begin(&r, &other_key));
    assert_true(pending_keys_begin(&r, &other_set));
    assert_true(pending_keys_begin(&r, &shifted));

    pending_keys_end(&r, &first);
    pending_keys_end(&r, &first);
    assert_true(pending_keys_begin(&r, &again));
    assert_false(pending_keys_begin(&r, &first));
    pending_keys_end(&r, &again);
    pending_keys_end(&r, &other_key);
    pending_keys_end(&r, &other_set);
    pending_keys_end(&r, &other_owner);
    pending_keys_end(&r, &shifted);
    pending_keys_fini(&r);
}

/* A connection that is dead without a word does not lock its source out; a post
 * that is whole is at work until the log has answered. */
TEST(a_repeat_takes_over_from_a_silent_post)
{
    struct pending_keys_post first = named("a", "k"), again = named("a", "k"),
                             third = named("a", "k");
    struct pending_keys r = {.mutex = PTHREAD_MUTEX_INITIALIZER};

    assert_true(pending_keys_begin(&r, &first));
    first.heard_us -= PENDING_KEYS_SILENCE_US;
    pending_keys_heard(&first);
    assert_false(pending_keys_begin(&r, &again));
    first.heard_us -= PENDING_KEYS_SILENCE_US;
    assert_true(pending_keys_begin(&r, &again));
    pending_keys_heard(&first); /* it goes on after all */
    assert_false(pending_keys_begin(&r, &third));
    pending_keys_end(&r, &first);
    assert_false(pending_keys_begin(&r, &third));

    pending_keys_whole(&again);
    assert_false(pending_keys_begin(&r, &third));
    pending_keys_end(&r, &again);
    assert_true(pending_keys_begin(&r, &third));
    pending_keys_end(&r, &third);
    pending_keys_fini(&r);
}

struct race {
    struct pending_keys running;
    atomic_int n_inside;
    atomic_bool is_wrong;
};

static void *
enter_and_leave(void *user)
{
    struct race *race = user;

    for (int i = 0; i < 20000; i++) {
        struct pending_keys_post post = named("a", "k");

        if (!pending_keys_begin(&race->running, &post))
            continue;
        if (atomic_fetch_add(&race->n_inside, 1))
            atomic_store(&race->is_wrong, true);
        atomic_fetch_sub(&race->n_inside, 1);
        pending_keys_end(&race->running, &post);
    }
    return NULL;
}

/* However many threads read posts. */
TEST(holds_one_among_many_threads)
{
    struct race race = {.n_inside = 0};
    pthread_t threads[4];

    pthread_mutex_init(&race.running.mutex, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, enter_and_leave, &race), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&race.is_wrong));
    pending_keys_fini(&race.running);
}

struct crowd {
    struct pending_keys *running;
    const char *set;
};

static void *
pass_through(void *user)
{
    const struct crowd *crowd = user;

    for (int i = 0; i < 20000; i++) {
        char key[16];
        struct pending_keys_post post = {.set = slice_of(crowd->set)};

        snprintf(key, sizeof(key), "%d", i % 1000);
        post.key = slice_of(key);
        if (pending_keys_begin(crowd->running, &post))
            pending_keys_heard(&post);
        pending_keys_end(crowd->running, &post);
    }
    return NULL;
}

/* Posts to different sets meet in a list all the same. (ThreadSanitizer proves
 * that no thread looks at memory that another one changes.) */
TEST(posts_of_different_sets_do_not_meet)
{
    struct pending_keys r = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct crowd crowds[] = {{&r, "a"}, {&r, "b"}, {&r, "c"}, {&r, "d"}};
    struct pending_keys_post post = named("a", "1");
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, pass_through, &crowds[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(r.posts.n, 0);
    assert_true(pending_keys_begin(&r, &post));
    pending_keys_end(&r, &post);
    pending_keys_fini(&r);
}

#include "broker/readers/marks.h"

#include <pthread.h>
#include <semaphore.h>

#include "broker/log/log_set.h"
#include "tests/test.h"

/* A watcher, and logs without a disk: a commit is what tail_publish makes
 * visible. */

#define LOGS 3

struct board {
    struct watcher watcher;
    struct watched_log watched[LOGS];
    struct log_set *logs; /* LOGS of them */
    struct tails tails;
    sem_t woken;
    atomic_uint n_wakes;
};

static void
wake(struct watcher *watcher)
{
    struct board *b = list_entry(watcher, struct board, watcher);

    atomic_fetch_add(&b->n_wakes, 1);
    sem_post(&b->woken);
}

static int
set_up(void **state)
{
    struct board *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->logs = calloc(LOGS, sizeof(*b->logs));
    assert_non_null(b->logs);
    b->tails.max = SIZE_MAX;
    sem_init(&b->woken, 0, 0);
    watcher_init(&b->watcher, wake);
    for (int i = 0; i < LOGS; i++) {
        tail_init(&b->logs[i].tail);
        watched_init(&b->watched[i], &b->watcher);
    }
    *state = b;
    return 0;
}

static int
tear_down(void **state)
{
    struct board *b = *state;

    for (int i = 0; i < LOGS; i++) {
        watched_end(&b->watched[i]);
        assert_true(list_is_empty(&b->logs[i].tail.watches));
        tail_fini(&b->logs[i].tail);
    }
    assert_null(atomic_load(&b->watcher.marked));
    assert_true(list_is_empty(&b->watcher.taken));
    free(b->tails.queue);
    sem_destroy(&b->woken);
    free(b->logs);
    free(b);
    return 0;
}

static void
commit(struct board *b, int log)
{
    struct tail *tail = &b->logs[log].tail;
    const struct head head = {.last = tail->head.last + 1};

    tail_publish(&b->tails, tail, NULL, 0, &head);
}

static uint64_t
look(struct board *b, int log)
{
    struct tail *tail = &b->logs[log].tail;
    uint64_t last;

    pthread_mutex_lock(&tail->mutex);
    last = tail->head.last;
    pthread_mutex_unlock(&tail->mutex);
    return last;
}

static void
listen_to_all(struct board *b)
{
    for (int i = 0; i < LOGS; i++)
        watched_listen(&b->watched[i], &b->logs[i]);
}

FIXTURE(set_up, tear_down);

TEST(a_log_is_marked_once_until_it_is_cleared)
{
    struct board *b = *state;

    commit(b, 0);
    assert_false(watched_is_marked(&b->watched[0])); /* nobody listens */
    listen_to_all(b);
    watched_listen(&b->watched[0], &b->logs[0]); /* does nothing */
    commit(b, 0);
    commit(b, 0);
    assert_int_equal(b->n_wakes, 1);

    watcher_take(&b->watcher);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[0]);
    assert_null(watcher_next(&b->watcher));
    commit(b, 0);
    assert_int_equal(b->n_wakes, 1);
    watched_clear(&b->watched[0]);
    assert_false(watched_is_marked(&b->watched[0]));
    watched_mark(&b->watched[0]);
    assert_int_equal(b->n_wakes, 2);
}

/* Nobody waits for ever: a busy log comes again only behind the others. */
TEST(logs_come_in_the_order_of_their_marks)
{
    struct board *b = *state;

    listen_to_all(b);
    commit(b, 2);
    commit(b, 0);
    watcher_take(&b->watcher);
    commit(b, 1);
    commit(b, 2);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[2]);
    watched_clear(&b->watched[2]);
    commit(b, 2);
    watcher_take(&b->watcher);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[0]);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[1]);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[2]);
    assert_null(watcher_next(&b->watcher));
}

/* A log on the stack must not get in there twice: it would follow itself, for
 * ever. A cleared log is in no list. */
TEST(a_log_is_on_the_stack_once)
{
    struct board *b = *state;

    watched_mark(&b->watched[0]);
    watched_clear(&b->watched[0]);
    assert_true(watched_is_marked(&b->watched[0]));
    watched_mark(&b->watched[0]);
    watcher_take(&b->watcher);
    watched_clear(&b->watched[0]);
    assert_null(watcher_next(&b->watcher));
    watched_mark(&b->watched[0]);
    watcher_take(&b->watcher);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[0]);
    assert_null(watcher_next(&b->watcher));
}

/* Its owner frees it then, perhaps while it goes through the others. */
TEST(a_log_that_ends_leaves_its_watcher)
{
    struct board *b = *state;

    listen_to_all(b);
    for (int i = 0; i < LOGS; i++)
        commit(b, i);
    watched_end(&b->watched[1]); /* on the stack */
    assert_false(watched_is_marked(&b->watched[1]));
    commit(b, 1);
    assert_false(watched_is_marked(&b->watched[1]));

    watcher_take(&b->watcher);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[0]);
    watched_end(&b->watched[2]); /* taken */
    assert_null(watcher_next(&b->watcher));
    watched_end(&b->watched[0]); /* handed out */
    assert_false(watched_is_marked(&b->watched[0]));

    watched_listen(&b->watched[1], &b->logs[2]);
    commit(b, 2);
    watcher_take(&b->watcher);
    assert_ptr_equal(watcher_next(&b->watcher), &b->watched[1]);
}

/* A commit between any two steps of a look is seen, by this look or by the one
 * for which it wakes the owner. */
TEST(a_commit_at_any_step_is_seen)
{
    enum { BEFORE, TAKEN, NEXT, CLEARED, LOOKED, STEPS };
    struct board *b = *state;

    listen_to_all(b);
    for (int at = BEFORE; at < STEPS; at++) {
        uint64_t seen = 0;
        unsigned n_looks = 0;

        commit(b, 0);
        for (; sem_trywait(&b->woken) == 0; n_looks++) {
            struct watched_log *log;

            for (int step = BEFORE; step < STEPS; step++) {
                if (step == TAKEN)
                    watcher_take(&b->watcher);
                else if (step == NEXT)
                    log = watcher_next(&b->watcher);
                else if (step == CLEARED)
                    watched_clear(log);
                else if (step == LOOKED)
                    seen = look(b, 0);
                if (step == at && n_looks == 0)
                    commit(b, 0);
            }
            assert_ptr_equal(log, &b->watched[0]);
        }
        assert_int_equal(seen, look(b, 0));
        assert_int_equal(n_looks, at < CLEARED ? 1 : 2);
    }
}

/* The same with threads: they commit, and the owner looks only when it is
 * woken. */

#define COMMITS 20000

static void *
commit_many(void *user)
{
    struct board *b = user;

    for (int i = 0; i < COMMITS; i++)
        commit(b, i % LOGS);
    return NULL;
}

TEST(no_commit_is_lost)
{
    struct board *b = *state;
    pthread_t thread;
    uint64_t seen[LOGS] = {0};
    unsigned n_looks = 0;

    listen_to_all(b);
    assert_int_equal(pthread_create(&thread, NULL, commit_many, b), 0);
    while (seen[0] + seen[1] + seen[2] < COMMITS) {
        struct watched_log *log;

        while (sem_wait(&b->woken)) /* for ever, if a wake is lost */
            ;
        watcher_take(&b->watcher);
        for (; (log = watcher_next(&b->watcher)); n_looks++) {
            int i = (int)(log - b->watched);

            watched_clear(log);
            seen[i] = look(b, i);
        }
    }
    pthread_join(thread, NULL);
    assert_in_range(n_looks, LOGS, atomic_load(&b->n_wakes));
}

/* Several threads mark logs, as the hub does for framework events. */

#define THREADS 4

static void *
mark_many(void *user)
{
    struct board *b = user;

    for (int i = 0; i < COMMITS; i++)
        watched_mark(&b->watched[i % LOGS]);
    return NULL;
}

TEST(marks_of_many_threads_are_taken_once_each)
{
    struct board *b = *state;
    pthread_t threads[THREADS];
    unsigned n_looks = 0;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mark_many, b), 0);
    for (int i = 0; i < THREADS; i++) {
        struct watched_log *log;

        for (int n = 0; n < COMMITS; n++) {
            watcher_take(&b->watcher);
            for (; (log = watcher_next(&b->watcher)); n_looks++)
                watched_clear(log);
        }
        pthread_join(threads[i], NULL);
    }
    watcher_take(&b->watcher);
    for (; watcher_next(&b->watcher); n_looks++)
        ;
    assert_int_equal(n_looks, atomic_load(&b->n_wakes));
}

/* The owner may free a log as soon as watched_end returns, also during a
 * commit. */
TEST(a_log_ends_while_it_gets_commits)
{
    struct board *b = *state;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, commit_many, b), 0);
    for (int i = 0; i < COMMITS; i++) {
        struct watched_log *log = malloc(sizeof(*log));

        assert_non_null(log);
        watched_init(log, &b->watcher);
        watched_listen(log, &b->logs[i % LOGS]);
        watched_end(log);
        free(log);
    }
    pthread_join(thread, NULL);
}

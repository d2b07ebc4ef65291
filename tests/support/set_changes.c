#include "tests/support/set_changes.h"

#include <pthread.h>

#include "broker/sets/set_change.h"
#include "tests/test.h"

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
    enum status status;
};

#define WAITER                              \
    {                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, \
        .changed = PTHREAD_COND_INITIALIZER \
    }

static void
on_done(struct set_change *a, void *user)
{
    struct waiter *w = user;

    pthread_mutex_lock(&w->mutex);
    w->status = a->post.status;
    w->is_done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    set_change_free(a);
}

static enum status
wait_for(struct waiter *w)
{
    pthread_mutex_lock(&w->mutex);
    while (!w->is_done)
        pthread_cond_wait(&w->changed, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    return w->status;
}

enum status
set_changes_try(struct sets *s, const char *name, enum set_change_mode mode,
                const char *settings)
{
    struct set_change_wish wish = {.mode = mode,
                                   .may_discard = true,
                                   .name = slice_of(name),
                                   .body = slice_of(settings)};
    struct waiter w = WAITER;

    assert_int_equal(set_change_settings(s->registry, &wish, on_done, &w, NULL),
                     STATUS_OK);
    return wait_for(&w);
}

void
set_changes_put(struct sets *s, const char *name, const char *settings)
{
    assert_int_equal(set_changes_try(s, name, SET_CHANGE_REPLACE, settings),
                     STATUS_OK);
}

void
set_changes_harvest(struct sets *s, const char *name, struct harvest *harvest)
{
    struct waiter w = WAITER;

    assert_int_equal(set_change_harvest(s->registry, slice_of(name), NULL, NULL,
                                        harvest, on_done, &w, NULL),
                     STATUS_OK);
    assert_int_equal(wait_for(&w), STATUS_OK);
}

void
set_changes_remove(struct sets *s, const char *name)
{
    struct waiter w = WAITER;

    assert_int_equal(
        set_change_remove(sets_find(s, name), NULL, on_done, &w, NULL),
        STATUS_OK);
    assert_int_equal(wait_for(&w), STATUS_OK);
}

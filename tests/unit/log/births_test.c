/*
 * births_test.c - sets that begin with a list that is full at once, while other
 * lists are being filed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "broker/log/log.h"
#include "tests/support/logs.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* The log thread stops here when it announces a commit: after the commit,
 * before it publishes those of its sets that come later. */
struct gate {
    struct watch watch;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    unsigned n_met;    /* how often it came here */
    unsigned n_passed; /* and may go on */
    struct log *log;
    enum status rc; /* the result of the look between the two */
    bool is_done;
};

static void
on_wake(struct watch *watch)
{
    struct gate *g = list_entry(watch, struct gate, watch);

    pthread_mutex_lock(&g->mutex);
    g->n_met++;
    pthread_cond_broadcast(&g->changed);
    while (g->n_passed < g->n_met)
        pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
}

static void
await(struct gate *g, unsigned n)
{
    pthread_mutex_lock(&g->mutex);
    while (g->n_met < n)
        pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
}

static void
pass(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->n_passed++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

static void *
look(void *user)
{
    struct gate *g = user;

    g->rc = log_file_list(g->log, &g->is_done, NULL);
    pass(g);
    return NULL;
}

static void
submit(struct logs *l, struct posted *p, struct log_set *set, unsigned n)
{
    posts_begin(p, POST_CHANGES, set);
    posts_add_many(p, 1, n);
    assert_int_equal(log_submit(l->log, &p->post, NULL), STATUS_OK);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* Design rule 4: between the commit that begins a set and closes its first
 * list, and the publication of the set, a look for lists without files finds
 * that list and leaves it for later. */
TEST(a_list_is_not_filed_before_its_set_is_published)
{
    struct gate g = {.watch.wake = on_wake,
                     .mutex = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER};
    struct log_set *born, *watched;
    struct list_info info;
    struct posted p[3];
    struct logs l;
    pthread_t id;
    size_t n = 1;

    logs_open(&l, tempdir_path(state), 3);
    g.log = l.log;
    born = logs_set(&l, "born");
    watched = logs_set(&l, "watched");
    log_watch(watched, &g.watch);
    submit(&l, &p[0], watched, 1);
    await(&g, 1); /* so that the next two share a commit */
    submit(&l, &p[1], watched, 1);
    submit(&l, &p[2], born, 3);
    pass(&g);
    await(&g, 2);

    assert_int_equal(pthread_create(&id, NULL, look, &g), 0);
    pthread_join(id, NULL);
    assert_int_equal(g.rc, STATUS_OK);
    assert_true(g.is_done);

    for (int i = 0; i < 3; i++) {
        assert_int_equal(posts_wait(&p[i]), STATUS_OK);
        posts_end(&p[i]);
    }
    log_unwatch(watched, &g.watch);
    logs_file_all(&l);
    assert_int_equal(log_lists(l.log, born, 1, &info, &n, NULL), STATUS_OK);
    assert_int_equal(n, 1);
    assert_true(info.is_filed);
    logs_close(&l);
}

#define SETS 300

struct filer {
    pthread_t id;
    struct log *log;
    atomic_bool is_over; /* orders nothing: a late look costs a round */
    bool is_wrong;
};

/* Files all the time, as fast as it can. */
static void *
file_all_the_time(void *user)
{
    struct filer *f = user;

    while (!atomic_load(&f->is_over) && !f->is_wrong) {
        struct problem why = {""};
        bool is_done;

        f->is_wrong = log_file_list(f->log, &is_done, &why) != STATUS_OK;
        if (f->is_wrong)
            print_error("%s\n", why.text);
    }
    return NULL;
}

/* Posts one entry to each set, all of them new. */
static void
begin_sets(struct logs *l, struct log_set **sets)
{
    static struct posted posts[SETS];

    for (int i = 0; i < SETS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "s%d", i);
        sets[i] = log_set_new(l->log, name, 0, l);
        assert_non_null(sets[i]);
        submit(l, &posts[i], sets[i], 1);
        if (i % 10 == 9) /* so that there are many commits */
            posts_wait(&posts[i]);
    }
    for (int i = 0; i < SETS; i++) {
        assert_int_equal(posts_wait(&posts[i]), STATUS_OK);
        posts_end(&posts[i]);
    }
}

/* The same for many sets, whenever they begin. */
TEST(many_sets_begin_with_a_full_list_while_lists_are_filed)
{
    struct log_set *sets[SETS];
    struct filer filer = {.is_wrong = false};
    struct logs l;

    logs_open(&l, tempdir_path(state), 1);
    filer.log = l.log;
    atomic_init(&filer.is_over, false);
    assert_int_equal(pthread_create(&filer.id, NULL, file_all_the_time, &filer),
                     0);
    begin_sets(&l, sets);
    atomic_store(&filer.is_over, true);
    pthread_join(filer.id, NULL);
    assert_false(filer.is_wrong);

    logs_file_all(&l);
    for (int i = 0; i < SETS; i++) {
        struct list_info info[2];
        size_t n = 2;

        assert_int_equal(log_lists(l.log, sets[i], 1, info, &n, NULL),
                         STATUS_OK);
        assert_int_equal(n, 1);
        assert_true(info[0].is_filed);
        assert_int_equal(info[0].last, 1);
    }
    logs_close(&l);
}

#include "tests/support/sets.h"

#include <stdio.h>
#include <string.h>

#include "broker/archive/changedumps.h"
#include "broker/archive/contents.h"
#include "broker/archive/retention.h"
#include "broker/archive/set_progress.h"
#include "broker/archive/state_fold.h"
#include "broker/posts/ingest.h"
#include "broker/sets/framework_events.h"
#include "broker/store/store.h"
#include "tests/support/chores.h"
#include "tests/support/posts.h"
#include "tests/test.h"

void
sets_configure(struct sets *s, const char *dir)
{
    char program[] = "tidingsd", option[] = "--data", path[4096];
    char *argv[] = {program, option, path, NULL};
    struct problem why = {""};
    enum config_wish wish;

    memset(s, 0, sizeof(*s));
    snprintf(s->public_url, sizeof(s->public_url), "%s", SETS_URL);
    snprintf(path, sizeof(path), "%s", dir);
    if (config_read(&s->config, 3, argv, &wish, &why))
        fail_msg("%s", why.text);
}

enum status
sets_try_open(struct sets *s, struct problem *why)
{
    const struct registry_options options = {
        .config = &s->config,
        .public_url = s->public_url,
        .progress_size = sizeof(struct set_progress),
        .few_entries = s->few_entries,
        .open_engine = store_open,
        .journal = s->journal,
        .on_acts = announcer_announce,
        .on_followed = announcer_follow,
        .announcer = s->announcer = announcer_new(),
        .on_certain = s->on_certain,
        .user = s,
    };
    enum status rc;

    assert_non_null(s->announcer);
    rc = registry_open(&s->registry, &options, why);
    if (rc) {
        announcer_free(s->announcer);
        s->announcer = NULL;
        return rc;
    }
    announcer_begin(s->announcer, s->registry);
    posts_init(&s->posts, s->registry);
    return STATUS_OK;
}

void
sets_open(struct sets *s)
{
    struct problem why = {""};

    if (sets_try_open(s, &why))
        fail_msg("%s", why.text);
}

void
sets_close(struct sets *s)
{
    registry_close(s->registry);
    posts_fini(&s->posts);
    announcer_free(s->announcer);
    s->announcer = NULL;
    s->registry = NULL;
}

/* Waits for an ingest. */
struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
};

static void
on_done(struct ingest *ingest, void *user)
{
    struct waiter *w = user;

    (void)ingest;
    pthread_mutex_lock(&w->mutex);
    w->is_done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static enum status
feed(struct ingest *in, struct slice body, size_t step, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t at = 0; !rc && at < body.size; at += step) {
        size_t rest = body.size - at;

        if (step == 0)
            return ingest_feed(in, body, why);
        rc = ingest_feed(
            in, (struct slice){body.data + at, rest < step ? rest : step}, why);
    }
    return rc;
}

struct sets_outcome
sets_post_body(struct sets *s, const char *name, const char *type,
               struct slice body, size_t step)
{
    struct waiter w = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                       .changed = PTHREAD_COND_INITIALIZER};
    struct sets_outcome o = {STATUS_OK, {""}, 0, 0};
    struct ingest *in = NULL;

    o.rc = ingest_begin(&in, &s->posts, slice_of(name), slice_of(type),
                        body.size, &o.why);
    if (!o.rc)
        o.rc = feed(in, body, step, &o.why);
    if (!o.rc)
        o.rc = ingest_end(in, on_done, &w, &o.why);
    log_wake(s->registry->log);
    if (!o.rc) {
        pthread_mutex_lock(&w.mutex);
        while (!w.is_done)
            pthread_cond_wait(&w.changed, &w.mutex);
        pthread_mutex_unlock(&w.mutex);
        o.rc = in->post.status;
        o.first = in->post.first;
        o.last = in->post.last;
        o.why = in->post.why;
    }
    ingest_free(in);
    return o;
}

struct set *
sets_unborn(struct sets *s, const char *name)
{
    struct set *set = NULL;

    assert_int_equal(
        registry_make(s->registry, slice_of(name), NULL, &set, NULL),
        STATUS_OK);
    return set;
}

static struct set *
submit(struct sets *s, const char *name, struct posted *p)
{
    struct set *set = sets_unborn(s, name);

    p->post.set = set->log;
    assert_int_equal(log_submit(s->registry->log, &p->post, NULL), STATUS_OK);
    assert_int_equal(posts_wait(p), STATUS_OK);
    posts_end(p);
    return set;
}

struct set *
sets_post(struct sets *s, const char *name, unsigned from, unsigned n)
{
    return sets_post_heavy(s, name, from, n, 0);
}

struct set *
sets_post_heavy(struct sets *s, const char *name, unsigned from, unsigned n,
                size_t weight)
{
    struct posted p;

    posts_begin(&p, POST_CHANGES, NULL);
    for (unsigned i = 0; i < n; i++)
        posts_add(&p, from + i, weight);
    return submit(s, name, &p);
}

struct set *
sets_find(struct sets *s, const char *name)
{
    struct set *set = registry_find(s->registry, slice_of(name), NULL);

    assert_non_null(set);
    return set;
}

struct head
sets_head(struct sets *s, const char *name)
{
    struct head head;

    assert_non_null(registry_find(s->registry, slice_of(name), &head));
    return head;
}

void
sets_rotate(struct sets *s, const char *name)
{
    struct posted p;

    posts_begin(&p, POST_CLOSE, NULL);
    assert_non_null(submit(s, name, &p));
}

void
sets_file_all(struct sets *s)
{
    struct problem why = {""};
    bool is_done = false;

    while (!is_done)
        if (log_file_list(s->registry->log, &is_done, &why))
            fail_msg("%s", why.text);
}

void
sets_fold_all(struct sets *s)
{
    struct state_fold folding;

    state_fold_init(&folding, s->registry);
    folding.rest_us = FOLD_AT_ONCE;
    chore_look(&folding.chore);
    while (chore_step(&folding.chore))
        ;
    chore_end(&folding.chore);
}

void
sets_retain(struct sets *s)
{
    struct chore all[] = {
        {.needs = state_fold_needs},
        {.needs = contents_needs},
        {.needs = changedumps_needs, .patience = CHANGEDUMPS_WAITING},
    };
    struct retaining retaining;
    struct list chores;

    list_init(&chores);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        list_append(&chores, &all[i].node);
    retention_init(&retaining, s->registry, &chores);
    chore_look(&retaining.chore);
}

static bool
needs_retired(void *user, const struct list_info *list)
{
    struct set *set = user;

    return set != set->registry->framework && state_fold_needs(set, list);
}

void
sets_purge(struct sets *s)
{
    struct problem why = {""};
    bool is_done = false;

    while (!is_done)
        if (log_purge(s->registry->log, needs_retired, &is_done, &why))
            fail_msg("%s", why.text);
}

/*
 * run.c - all sets of a source, followed into the book.
 */
#include "client/mirror/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/pause.h"
#include "client/mirror/feed.h"
#include "client/mirror/work.h"
#include "client/source/discover.h"

/* Most sets of a source: each is a connection. */
#define SETS_MAX 1000

#define PAUSE_MOST_MS 30000

/* Between looks for sets that came later, where the caller does not say. */
#define LOOK_MS 60000

/* A set that is followed. */
struct followed {
    struct feed *feed;
    bool has_ended;
    char told[TD_POSITION_SIZE]; /* TD_SYNC_CAUGHT_UP */
};

struct run {
    struct mirror *m;
    const char *url;
    bool until_caught_up;
    struct discovery *discovery;
    struct timer *again;
    struct timer *check; /* whatever was called back ends first */
    unsigned pause_ms;
    int64_t begun_ms;
    char **urls; /* of the sets that the last look found */
    size_t n_urls;
    bool has_too_many;
    struct followed *sets;
    size_t n_sets;
    struct failure why; /* the first that failed */
};

static void discover(struct run *run);

static void
end(struct run *run, const struct failure *why)
{
    if (why && !run->why.rc)
        run->why = *why;
    run->m->is_over = true;
}

static void
end_memory(struct run *run)
{
    struct failure why;

    failure_clear(&why);
    failure_memory(&why);
    end(run, &why);
}

/* Where it stands */

static void
tell_caught_up(struct run *run)
{
    for (size_t i = 0; i < run->n_sets; i++) {
        struct followed *set = &run->sets[i];
        const char *position = feed_position(set->feed);

        if (!feed_is_current(set->feed) || !strcmp(position, set->told))
            continue;
        snprintf(set->told, sizeof(set->told), "%s", position);
        mirror_tell(run->m, TD_SYNC_CAUGHT_UP,
                    &(struct td_sync_event){.set = feed_url(set->feed),
                                            .position = position});
    }
}

static void
on_check(void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;
    size_t n_ended = 0;
    bool is_behind = false;
    bool is_idle;

    if (m->is_over || !run->n_sets)
        return;
    for (size_t i = 0; i < run->n_sets; i++) {
        const struct followed *set = &run->sets[i];

        n_ended += set->has_ended;
        is_behind = is_behind || (!set->has_ended && feed_is_behind(set->feed));
    }
    if (m->work)
        work_hold(m->work, is_behind);
    is_idle = !m->work || work_is_idle(m->work);
    if (is_idle && !is_behind && !book_counts(m->book)->n_left)
        tell_caught_up(run);
    if (n_ended < run->n_sets)
        return;
    /* All that failed, or all that there was. */
    if (is_idle)
        end(run, NULL);
}

static void
check(struct run *run)
{
    timer_start(run->check, 0);
}

static void
on_idle(void *user)
{
    check(user);
}

static void
on_news(struct feed *feed, void *user)
{
    struct run *run = user;

    (void)feed;
    if (run->m->work)
        work_poke(run->m->work);
    check(run);
}

static void
on_feed_end(struct feed *feed, const struct failure *why, void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;

    for (size_t i = 0; i < run->n_sets; i++)
        if (run->sets[i].feed == feed)
            run->sets[i].has_ended = true;
    if (why->rc) {
        if (!run->why.rc)
            run->why = *why;
        if (run->n_sets > 1 && !m->is_over)
            mirror_tell(m, TD_SYNC_TROUBLE,
                        &(struct td_sync_event){.set = feed_url(feed),
                                                .why = why->text});
    } else {
        mirror_tell(m, TD_SYNC_PROGRESS, NULL);
    }
    check(run);
}

/* Discovery */

static void
on_set(struct offered *offered, const struct failure *missed, void *user)
{
    struct run *run = user;
    char **urls;

    if (missed || !offered->url)
        return;
    for (size_t i = 0; i < run->n_urls; i++)
        if (!strcmp(run->urls[i], offered->url))
            return;
    run->has_too_many = run->n_urls == SETS_MAX;
    if (run->has_too_many)
        return;
    urls = realloc(run->urls, (run->n_urls + 1) * sizeof(*urls));
    if (!urls) {
        end_memory(run);
        return;
    }
    run->urls = urls;
    run->urls[run->n_urls++] = offered->url;
    offered->url = NULL;
}

static bool
is_found(const struct run *run, const char *url)
{
    for (size_t i = 0; i < run->n_urls; i++)
        if (!strcmp(run->urls[i], url))
            return true;
    return false;
}

/* Sets that the mirror has, and the source no more: a mirror of one source
 * alone knows. */
static bool
tell_of_lost_sets(struct run *run)
{
    struct mirror *m = run->m;
    const char *url;
    char lost[3000];
    char text[3200];
    int64_t set = 0;
    bool is_there;

    if (!book_source(m->book, 1, &url))
        return false;
    if (url[0])
        return true;
    for (;;) {
        if (!book_next_set(m->book, set, &set, &url, &is_there))
            return false;
        if (!is_there)
            return true;
        if (is_found(run, url))
            continue;
        snprintf(lost, sizeof(lost), "%s", url);
        snprintf(text, sizeof(text),
                 "%s is not offered any more: what the mirror has of it stays; "
                 "tidings audit --repair removes it",
                 lost);
        mirror_tell(m, TD_SYNC_TROUBLE,
                    &(struct td_sync_event){.set = lost, .why = text});
    }
}

static bool
is_followed(const struct run *run, const char *url)
{
    for (size_t i = 0; i < run->n_sets; i++)
        if (!strcmp(feed_url(run->sets[i].feed), url))
            return true;
    return false;
}

/* Follows what was found and is not followed yet. A set that ended is left
 * alone until the next run. */
static bool
open_feeds(struct run *run)
{
    const struct feed_events events = {on_news, on_feed_end, run};
    struct followed *sets =
        realloc(run->sets, (run->n_sets + run->n_urls) * sizeof(*sets));

    if (!sets) {
        end_memory(run);
        return false;
    }
    run->sets = sets;
    for (size_t i = 0; i < run->n_urls; i++) {
        struct failure why;
        struct feed *feed;

        if (is_followed(run, run->urls[i]))
            continue;
        feed = feed_open(run->m, run->urls[i], run->until_caught_up, &events,
                         &why);
        if (!feed) {
            end(run, &why);
            return false;
        }
        run->sets[run->n_sets++] = (struct followed){.feed = feed};
    }
    return true;
}

static void
forget_found(struct run *run)
{
    for (size_t i = 0; i < run->n_urls; i++)
        free(run->urls[i]);
    run->n_urls = 0;
    run->has_too_many = false;
}

/* A source may have more sets by and by; a set has none. */
static void
look_later(struct run *run)
{
    unsigned poll_ms = run->m->options->poll_ms;
    bool is_set = run->n_urls == 1 && !strcmp(run->urls[0], run->url);

    if (!run->until_caught_up && !is_set)
        timer_start(run->again, poll_ms ? poll_ms : LOOK_MS);
}

/* The source is away: it is asked again later, unless this has to end. */
static void
discover_later(struct run *run, const struct failure *why)
{
    struct mirror *m = run->m;
    char text[1200];
    unsigned ms =
        pause_asked(&run->pause_ms, PAUSE_MOST_MS, why->retry_after_s);

    if (run->until_caught_up &&
        !pause_within(m->options->patience_ms, loop_now_ms() - run->begun_ms,
                      why->retry_after_s, &ms)) {
        end(run, why);
        return;
    }
    snprintf(text, sizeof(text), "%s; it is tried again", why->text);
    mirror_tell(m, TD_SYNC_TROUBLE, &(struct td_sync_event){.why = text});
    timer_start(run->again, ms);
}

/* Notes the source, for audits, and follows its sets. */
static bool
follow_first(struct run *run)
{
    struct mirror *m = run->m;

    if (!book_add_source(m->book, run->url) || !tell_of_lost_sets(run)) {
        mirror_fail_book(m);
        return false;
    }
    if (!open_feeds(run))
        return false;
    if (m->work)
        work_hold(m->work, true);
    return true;
}

static void
on_discovered(const struct failure *why, void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;
    struct failure too_many;

    run->discovery = NULL;
    if (m->is_over)
        return;
    if (run->n_sets > 0) {
        /* A look that fails says nothing of the sets that are followed: they
         * tell what is wrong themselves. */
        if (!why->rc && !run->has_too_many && !open_feeds(run))
            return;
        look_later(run);
    } else if (why->rc == TD_UNREACHABLE) {
        discover_later(run, why);
        return;
    } else if (why->rc) {
        end(run, why);
        return;
    } else if (run->has_too_many) {
        failure_clear(&too_many);
        failure_set(&too_many, TD_REFUSED,
                    "%.800s has more than %d sets: mirror them one by one",
                    run->url, SETS_MAX);
        end(run, &too_many);
        return;
    } else if (follow_first(run)) {
        look_later(run);
    }
    check(run);
}

static void
on_again(void *user)
{
    discover(user);
}

static void
discover(struct run *run)
{
    forget_found(run);
    run->discovery =
        discovery_start(run->m->client, run->url, on_set, on_discovered, run);
    if (!run->discovery)
        end_memory(run);
}

/* Life */

static bool
init(struct run *run, struct mirror *m)
{
    run->m = m;
    run->pause_ms = PAUSE_FIRST;
    run->begun_ms = loop_now_ms();
    run->again = timer_new(m->client->loop, on_again, run);
    run->check = timer_new(m->client->loop, on_check, run);
    if (m->shelf)
        m->work = work_new(m, on_idle, run);
    return run->again && run->check && (m->work || !m->shelf);
}

static void
fini(struct run *run)
{
    discovery_free(run->discovery);
    for (size_t i = 0; i < run->n_sets; i++)
        feed_close(run->sets[i].feed);
    free(run->sets);
    forget_found(run);
    free(run->urls);
    timer_free(run->again);
    timer_free(run->check);
    work_free(run->m->work);
    run->m->work = NULL;
}

/* Turns the loop to the end; what is written is kept, whatever the end is. */
static enum td_status
turn(struct run *run, struct failure *why)
{
    struct mirror *m = run->m;
    enum td_status rc;

    if (m->work)
        work_poke(m->work);
    rc = loop_until(m->client->loop, &m->is_over);
    if (!m->why.rc && (!m->work || work_finish(m->work)))
        mirror_settle(m);
    mirror_tell(m, TD_SYNC_PROGRESS, NULL);
    failure_clear(why);
    if (rc == TD_STOPPED)
        return failure_set(why, rc, "stopped");
    if (rc)
        return failure_set(why, rc, "called from a callback of this handle");
    if (m->why.rc)
        *why = m->why;
    else if (run->why.rc)
        *why = run->why;
    return why->rc;
}

enum td_status
run_source(struct mirror *m, const char *url, bool until_caught_up,
           struct failure *why)
{
    struct run run = {.url = url, .until_caught_up = until_caught_up};
    enum td_status rc = TD_MEMORY;

    m->is_over = false;
    if (init(&run, m)) {
        discover(&run);
        rc = turn(&run, why);
    } else {
        failure_memory(why);
    }
    fini(&run);
    return rc;
}

static void
on_work_done(void *user)
{
    struct mirror *m = user;

    m->is_over = true;
}

enum td_status
run_work(struct mirror *m, struct failure *why)
{
    struct run run = {.m = m};
    enum td_status rc = TD_MEMORY;

    m->is_over = false;
    m->work = work_new(m, on_work_done, m);
    if (m->work)
        rc = turn(&run, why);
    else
        failure_memory(why);
    work_free(m->work);
    m->work = NULL;
    return rc;
}

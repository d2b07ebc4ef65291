/*
 * run.c - all sets of a source, followed into the book.
 */
#include "client/mirror/run.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/pause.h"
#include "client/mirror/feed.h"
#include "client/mirror/work.h"
#include "client/source/discover.h"
#include "client/source/rounds.h"

#define PAUSE_MOST_MS 30000

/* Between looks for sets that came later, and between visits of a set that is
 * not streamed, where the caller does not say. */
#define LOOK_MS 60000

/* Of a source with many sets one is always behind. How long their histories may
 * take before downloads begin beside them. */
#define HOLD_MOST_MS 10000

/* A set of the source. */
struct followed {
    struct run *run;
    size_t number;     /* in run->rounds */
    struct feed *feed; /* NULL: it is not read now */
    bool is_visit;     /* it is read until it has caught up */
    bool has_ended;    /* the feed has, and is closed soon */
    bool is_current;   /* nothing was there behind the position */
    enum td_status rc; /* of that end */
    char position[TD_POSITION_SIZE];
    char told[TD_POSITION_SIZE]; /* TD_SYNC_CAUGHT_UP */
};

/* What the source names and could not be read. */
struct missed {
    char *url;
    bool is_told; /* by the look before, too */
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
    bool has_looked;        /* the first look found sets */
    struct rounds *rounds;  /* URLs of sets; numbers of ... */
    struct followed **sets; /* ... these */
    size_t n_sets;
    void *lists; /* URLs of their Capability Lists, a tree */
    struct missed *missed;
    size_t n_missed;
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

/* A set is not covered: the others go on. */
static void
note_failed(struct run *run, const struct failure *why)
{
    if (!run->why.rc)
        run->why = *why;
}

/* Where it stands */

static void
tell_caught_up(struct run *run)
{
    for (size_t i = 0; i < run->n_sets; i++) {
        struct followed *set = run->sets[i];

        if (set->feed) {
            set->is_current = feed_is_current(set->feed);
            snprintf(set->position, sizeof(set->position), "%s",
                     feed_position(set->feed));
        }
        if (!set->is_current || !strcmp(set->position, set->told))
            continue;
        memcpy(set->told, set->position, sizeof(set->told));
        mirror_tell(
            run->m, TD_SYNC_CAUGHT_UP,
            &(struct td_sync_event){.set = rounds_url(run->rounds, set->number),
                                    .position = set->position});
    }
}

/* Closes the feed of a set that has ended. A visit to a set whose server is
 * away is made again. */
static void
close_ended(struct run *run, struct followed *set)
{
    set->is_current = feed_is_current(set->feed);
    snprintf(set->position, sizeof(set->position), "%s",
             feed_position(set->feed));
    feed_close(set->feed);
    set->feed = NULL;
    set->has_ended = false;
    if (!set->rc || (set->rc == TD_UNREACHABLE && set->is_visit))
        rounds_rest(run->rounds, set->number, loop_now_ms());
    else
        rounds_end(run->rounds, set->number);
}

static void on_news(struct feed *feed, void *user);
static void on_feed_end(struct feed *feed, const struct failure *why,
                        void *user);

/* Opens the feeds whose turn it is. */
static bool
open_feeds(struct run *run)
{
    struct failure why;
    size_t number;
    bool is_visit;

    while (rounds_next(run->rounds, loop_now_ms(), &number, &is_visit)) {
        struct followed *set = run->sets[number];
        const struct feed_events events = {on_news, on_feed_end, set};

        set->is_visit = is_visit;
        set->feed = feed_open(run->m, rounds_url(run->rounds, number), is_visit,
                              &events, &why);
        if (!set->feed) {
            end(run, &why);
            return false;
        }
    }
    return true;
}

static void
on_check(void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;
    bool is_behind = false;
    bool is_idle;
    int64_t wait_ms;

    if (m->is_over || !run->n_sets)
        return;
    for (size_t i = 0; i < run->n_sets; i++)
        if (run->sets[i]->has_ended)
            close_ended(run, run->sets[i]);
    if (!open_feeds(run))
        return;
    for (size_t i = 0; i < run->n_sets; i++)
        is_behind = is_behind ||
                    (run->sets[i]->feed && feed_is_behind(run->sets[i]->feed));
    if (rounds_are_new(run->rounds) &&
        loop_now_ms() - run->begun_ms > HOLD_MOST_MS)
        is_behind = false;
    if (m->work)
        work_hold(m->work, is_behind);
    is_idle = !m->work || work_is_idle(m->work);
    if (is_idle && !is_behind && !book_counts(m->book)->n_left)
        tell_caught_up(run);
    /* All that failed, or all that there was. */
    if (rounds_are_over(run->rounds) && is_idle)
        end(run, NULL);
    wait_ms = rounds_wait_ms(run->rounds, loop_now_ms());
    if (wait_ms >= 0)
        timer_start(run->check, (uint64_t)wait_ms);
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
    struct run *run = ((struct followed *)user)->run;

    (void)feed;
    if (run->m->work)
        work_poke(run->m->work);
    check(run);
}

static void
on_feed_end(struct feed *feed, const struct failure *why, void *user)
{
    struct followed *set = user;
    struct run *run = set->run;
    struct mirror *m = run->m;

    set->has_ended = true;
    set->rc = why->rc;
    if (why->rc) {
        note_failed(run, why);
        if (run->n_sets + run->n_missed > 1 && !m->is_over)
            mirror_tell(m, TD_SYNC_TROUBLE,
                        &(struct td_sync_event){.set = feed_url(feed),
                                                .why = why->text});
    } else {
        mirror_tell(m, TD_SYNC_PROGRESS, NULL);
    }
    check(run);
}

/* Discovery */

static int
compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool
is_known(const char *capability_list, void *user)
{
    const struct run *run = user;

    return tfind(capability_list, &run->lists, compare) != NULL;
}

/* A set that was found, and is not followed yet. A set that ended is left alone
 * until the next run. */
static bool
add_set(struct run *run, struct offered *offered)
{
    struct followed **sets =
        realloc(run->sets, (run->n_sets + 1) * sizeof(struct followed *));
    struct followed *set = calloc(1, sizeof(*set));
    char *list = offered->capability_list;

    if (sets)
        run->sets = sets;
    if (!sets || !set || !rounds_add(run->rounds, offered->url)) {
        free(set);
        return false;
    }
    set->run = run;
    set->number = run->n_sets;
    run->sets[run->n_sets++] = set;
    if (list && !tfind(list, &run->lists, compare)) {
        if (!tsearch(list, &run->lists, compare))
            return false;
        offered->capability_list = NULL;
    }
    return true;
}

/* One line for each, until a look finds it. */
static bool
miss(struct run *run, const char *url, const struct failure *why)
{
    struct missed *missed;

    for (size_t i = 0; i < run->n_missed; i++)
        if (!strcmp(run->missed[i].url, url)) {
            run->missed[i].is_told = true;
            return true;
        }
    missed = realloc(run->missed, (run->n_missed + 1) * sizeof(*missed));
    if (!missed)
        return false;
    run->missed = missed;
    missed += run->n_missed;
    *missed = (struct missed){strdup(url), true};
    if (!missed->url)
        return false;
    run->n_missed++;
    note_failed(run, why);
    mirror_tell(run->m, TD_SYNC_TROUBLE,
                &(struct td_sync_event){.set = url, .why = why->text});
    return true;
}

static void
on_set(struct offered *offered, const struct failure *missed, void *user)
{
    struct run *run = user;
    size_t set;
    bool is_good = true;

    if (missed)
        is_good = miss(run, offered->url, missed);
    else if (!rounds_find(run->rounds, offered->url, &set))
        is_good = add_set(run, offered);
    if (!is_good)
        end_memory(run);
}

/* Forgets what the last look did not miss any more. */
static void
keep_missed(struct run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n_missed; i++) {
        struct missed missed = run->missed[i];

        if (!missed.is_told)
            free(missed.url);
        else
            run->missed[n++] = (struct missed){missed.url, false};
    }
    run->n_missed = n;
}

/* Sets that the mirror has, and the source no more: a mirror of one source
 * alone knows, if nothing was missed. */
static bool
tell_of_lost_sets(struct run *run)
{
    struct mirror *m = run->m;
    const char *url;
    char lost[3000];
    char text[3200];
    int64_t set = 0;
    size_t number;
    bool is_there;

    if (!book_source(m->book, 1, &url))
        return false;
    if (url[0] || run->n_missed > 0)
        return true;
    for (;;) {
        if (!book_next_set(m->book, set, &set, &url, &is_there))
            return false;
        if (!is_there)
            return true;
        if (rounds_find(run->rounds, url, &number))
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

/* A source may have more sets by and by; a set has none. */
static void
look_later(struct run *run)
{
    unsigned poll_ms = run->m->options->poll_ms;
    bool is_set = run->n_sets == 1 && run->n_missed == 0 &&
                  !strcmp(rounds_url(run->rounds, 0), run->url);

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
    if (m->work)
        work_hold(m->work, true);
    return true;
}

static void
on_discovered(const struct failure *why, void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;

    run->discovery = NULL;
    if (m->is_over)
        return;
    if (run->has_looked) {
        /* A look that fails says nothing of the sets that are followed: they
         * tell what is wrong themselves. */
        if (!why->rc)
            keep_missed(run);
    } else if (why->rc == TD_UNREACHABLE) {
        discover_later(run, why);
        return;
    } else if (why->rc) {
        end(run, why);
        return;
    } else if (!follow_first(run)) {
        return;
    }
    run->has_looked = true;
    look_later(run);
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
    static const struct discovery_watch watch = {.is_known = is_known};

    run->discovery =
        discovery_start(run->m->client, run->url, on_set, on_discovered, run);
    if (!run->discovery)
        end_memory(run);
    else if (run->has_looked)
        discovery_watch(run->discovery, &watch);
}

/* Life */

static bool
init(struct run *run, struct mirror *m)
{
    unsigned poll_ms = m->options->poll_ms;

    run->m = m;
    run->pause_ms = PAUSE_FIRST;
    run->begun_ms = loop_now_ms();
    run->rounds = rounds_new(run->until_caught_up, poll_ms ? poll_ms : LOOK_MS);
    run->again = timer_new(m->client->loop, on_again, run);
    run->check = timer_new(m->client->loop, on_check, run);
    if (m->shelf)
        m->work = work_new(m, on_idle, run);
    return run->rounds && run->again && run->check && (m->work || !m->shelf);
}

static void
fini(struct run *run)
{
    discovery_free(run->discovery);
    for (size_t i = 0; i < run->n_sets; i++) {
        feed_close(run->sets[i]->feed);
        free(run->sets[i]);
    }
    free(run->sets);
    rounds_free(run->rounds);
    tdestroy(run->lists, free);
    for (size_t i = 0; i < run->n_missed; i++)
        free(run->missed[i].url);
    free(run->missed);
    timer_free(run->again);
    timer_free(run->check);
    work_free(run->m->work);
    run->m->work = NULL;
}

/* Of several sets it says how many are not covered, too. */
static void
tell_why(const struct run *run, struct failure *why)
{
    size_t n = run->n_sets + run->n_missed;
    size_t n_failed = run->n_missed;

    for (size_t i = 0; i < run->n_sets; i++)
        n_failed += run->sets[i]->rc != TD_OK;
    *why = run->why;
    if (n > 1 && n_failed > 0)
        failure_set(why, run->why.rc,
                    "%zu of %zu sets of %.300s are not covered: %.600s",
                    n_failed, n, run->url, run->why.text);
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
        tell_why(run, why);
    return why->rc;
}

enum td_status
run_source(struct mirror *m, const char *url, bool until_caught_up,
           struct failure *why)
{
    struct run run = {.url = url, .until_caught_up = until_caught_up};
    enum td_status rc = TD_MEMORY;

    m->is_over = false;
    if (!client_add_source(m->client, url) && init(&run, m)) {
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

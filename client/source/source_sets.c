#include "client/source/source_sets.h"

#include "base/array.h"
#include "base/clock.h"
#include "client/lib/pause.h"

#define POLL_MS 60000

static void
end_sets(struct source_sets *t, const struct problem *why)
{
    if (t->is_over)
        return;
    t->is_over = true;
    timer_stop(&t->turn);
    timer_stop(&t->again);
    t->events.on_end(why, t->user);
}

/* Turns */

static void
on_turn(void *user)
{
    struct source_sets *t = user;
    struct problem why = {.text = ""};
    size_t set;
    int64_t wait_ms;
    bool is_visit;

    if (!t->has_looked || t->is_over)
        return;
    for (size_t i = 0; i < t->rounds.n; i++) {
        struct source_stop *stop = &t->stops[i];

        if (!stop->has_ended)
            continue;
        stop->has_ended = false;
        t->events.on_close(i, t->user);
        visit_schedule_rest(
            &t->rounds, i,
            stop->rc && !(stop->rc == STATUS_UNREACHABLE && stop->is_visit),
            clock_steady_ms());
    }
    while (visit_schedule_surplus(&t->rounds, &set)) {
        t->stops[set].has_ended = false;
        t->events.on_close(set, t->user);
    }
    while (
        visit_schedule_next(&t->rounds, clock_steady_ms(), &set, &is_visit)) {
        t->stops[set].is_visit = is_visit;
        if (!t->events.on_open(set, is_visit, &why, t->user)) {
            end_sets(t, &why);
            return;
        }
    }
    wait_ms = visit_schedule_wait_ms(&t->rounds, clock_steady_ms());
    if (wait_ms >= 0)
        timer_start(&t->turn, (uint64_t)wait_ms);
    t->events.on_turn(t->user);
}

void
source_sets_turn(struct source_sets *t)
{
    if (!t->is_over)
        timer_start(&t->turn, 0);
}

void
source_sets_share(size_t set, bool is_sharing, void *tour)
{
    struct source_sets *t = tour;

    visit_schedule_share(&t->rounds, set, is_sharing);
    source_sets_turn(t);
}

void
source_sets_trouble(const char *why, unsigned pause_ms, void *tour)
{
    struct source_sets *t = tour;

    t->events.on_trouble(NULL, why, pause_ms, t->user);
}

/* Notes a set that is not covered; the others go on. */
static void
note_failure(struct source_sets *t, const char *url, const struct problem *why)
{
    if (!t->why.rc)
        t->why = *why;
    t->events.on_trouble(url, why->text, 0, t->user);
}

void
source_sets_ended(struct source_sets *t, size_t set, const struct problem *why)
{
    struct source_stop *stop = &t->stops[set];

    stop->has_ended = true;
    stop->rc = why->rc;
    if (why->rc)
        note_failure(t, stop->url, why);
    source_sets_turn(t);
}

/* Looks */

static bool
is_known(const char *url, void *user)
{
    struct source_sets *t = user;

    return text_set_has(&t->urls, slice_of(url)) ||
           text_set_has(&t->lists, slice_of(url));
}

static void
on_set(struct offered *offered, const struct problem *missed, void *user)
{
    struct source_sets *t = user;
    struct slice url = slice_of(offered->url);
    bool is_good = true, is_new = false;

    if (t->is_over)
        return;
    if (missed)
        is_good = !text_set_add(&t->seen, url, &is_new) &&
                  !text_set_add(&t->missed, url, &is_new);
    else if (!text_set_has(&t->urls, url)) {
        size_t n = t->rounds.n;
        const char *list = offered->capability_list;
        struct source_stop stop = {.url = slice_dup(url),
                                   .own = calloc(1, t->plan.own_size),
                                   .offered = *offered};

        is_good = ONE_MORE(t->stops, &t->stops_capacity, n) && stop.url &&
                  stop.own && !text_set_add(&t->urls, url, &is_new) &&
                  visit_schedule_add(&t->rounds);
        if (is_good) {
            t->stops[n] = stop;
            *offered = (struct offered){.url = NULL};
            is_good =
                !list || !text_set_add(&t->lists, slice_of(list), &is_new);
        } else {
            free(stop.url);
            free(stop.own);
        }
    }
    if (!is_good)
        end_sets(t, &(struct problem)PROBLEM_MEMORY);
    else if (missed && is_new) /* once, until a look can read it */
        note_failure(t, offered->url, missed);
}

static size_t
count_failed(const struct source_sets *t)
{
    size_t n = t->missed.map.n;

    for (size_t i = 0; i < t->rounds.n; i++)
        n += t->stops[i].rc != STATUS_OK;
    return n;
}

static void
on_looked(const struct problem *why, void *user)
{
    struct source_sets *t = user;
    unsigned ms;

    t->discovery = NULL;
    if (t->is_over)
        return;
    /* A failed look says nothing about the sets being followed: each reports
     * its own trouble. */
    if (!why->rc) {
        /* Forgets the documents that this look did not miss. */
        text_set_fini(&t->missed);
        t->missed = t->seen;
        t->seen = (struct text_set){.map = {.n = 0}};
        if (count_failed(t) == 0)
            problem_clear(&t->why);
        if (!t->has_looked && t->events.on_found &&
            !t->events.on_found(t->user))
            return;
    } else if (!t->has_looked && why->rc == STATUS_UNREACHABLE) {
        ms = pause_asked(&t->pause_ms, PAUSE_LONGEST, why->retry_after_s);
        if (t->plan.is_once &&
            !pause_within(t->plan.patience_ms, clock_steady_ms() - t->begun_ms,
                          why->retry_after_s, &ms)) {
            end_sets(t, why);
            return;
        }
        timer_start(&t->again, ms);
        t->events.on_trouble(NULL, why->text, ms, t->user);
        return;
    } else if (!t->has_looked) {
        end_sets(t, why);
        return;
    }
    t->has_looked = true;
    /* A source may get more sets later; a single set has none. */
    if (!t->plan.is_once && !(t->rounds.n == 1 && t->missed.map.n == 0 &&
                              !strcmp(t->stops[0].url, t->plan.url)))
        timer_start(&t->again, t->plan.poll_ms);
    source_sets_turn(t);
}

static void
look_for_sets(void *user)
{
    struct source_sets *t = user;
    static const struct discovery_watch watch = {.is_known = is_known};

    text_set_fini(&t->seen);
    t->discovery =
        discovery_start(t->client, t->plan.url, 0,
                        t->has_looked ? &watch : NULL, on_set, on_looked, t);
    if (!t->discovery)
        end_sets(t, &(struct problem)PROBLEM_MEMORY);
}

/* What is known */

bool
source_sets_is_over(const struct source_sets *t)
{
    return t->has_looked && t->rounds.n_in[OVER] == t->rounds.n;
}

enum status
source_sets_why(const struct source_sets *t, struct problem *why)
{
    size_t n = t->rounds.n + t->missed.map.n;
    size_t n_failed = count_failed(t);

    *why = t->why;
    if (n > 1 && n_failed > 0)
        problem_prefix(why, t->why.rc,
                       "%zu of %zu sets of %.300s are not covered: ", n_failed,
                       n, t->plan.url);
    return why->rc;
}

/* Life cycle */

void
source_sets_fini(struct source_sets *t)
{
    discovery_free(t->discovery);
    timer_stop(&t->again);
    timer_stop(&t->turn);
    for (size_t i = 0; i < t->rounds.n; i++) {
        free(t->stops[i].url);
        free(t->stops[i].own);
        offered_fini(&t->stops[i].offered);
    }
    free(t->rounds.all);
    text_set_fini(&t->urls);
    text_set_fini(&t->lists);
    text_set_fini(&t->missed);
    text_set_fini(&t->seen);
    free(t->stops);
}

void
source_sets_init(struct source_sets *t, struct td_client *client,
                 const struct source_sets_plan *plan,
                 const struct source_sets_events *events, void *user)
{
    *t = (struct source_sets){.client = client,
                              .plan = *plan,
                              .events = *events,
                              .user = user,
                              .pause_ms = PAUSE_FIRST,
                              .begun_ms = clock_steady_ms(),
                              .rounds.is_once = plan->is_once};
    if (!t->plan.poll_ms)
        t->plan.poll_ms = POLL_MS;
    t->rounds.pause_ms = t->plan.poll_ms;
    timer_init(&t->again, client->loop, look_for_sets, t);
    timer_init(&t->turn, client->loop, on_turn, t);
    timer_start(&t->again, 0);
}

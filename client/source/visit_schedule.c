#include "client/source/visit_schedule.h"

#include <stdlib.h>

#include "base/array.h"

enum round_state { WAITING, STREAMING, SHARING, VISITED, OVER };

struct round {
    enum round_state state;
    bool was_opened;
    int64_t due_ms; /* WAITING: until then */
};

struct visit_schedule {
    bool is_once;
    unsigned pause_ms;
    struct round *all; /* by the numbers of the sets */
    size_t n, capacity;
    size_t n_streams, n_shared, n_visits, n_over, n_opened;
};

struct visit_schedule *
visit_schedule_new(bool is_once, unsigned pause_ms)
{
    struct visit_schedule *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->is_once = is_once;
    r->pause_ms = pause_ms;
    return r;
}

void
visit_schedule_free(struct visit_schedule *r)
{
    if (r)
        free(r->all);
    free(r);
}

bool
visit_schedule_add(struct visit_schedule *r)
{
    struct round *all = ONE_MORE(r->all, &r->capacity, r->n);

    if (!all)
        return false;
    r->all = all;
    all[r->n++] = (struct round){.due_ms = INT64_MIN};
    return true;
}

size_t
visit_schedule_count(const struct visit_schedule *r)
{
    return r->n;
}

/* Returns the set that has waited longest; NULL: none waits. */
static struct round *
first_waiting(const struct visit_schedule *r)
{
    struct round *first = NULL;

    if (r->n_streams + r->n_shared + r->n_visits + r->n_over == r->n)
        return NULL;
    for (size_t i = 0; i < r->n; i++)
        if (r->all[i].state == WAITING &&
            (!first || r->all[i].due_ms < first->due_ms))
            first = &r->all[i];
    return first;
}

static bool
has_stream(const struct visit_schedule *r)
{
    return !r->is_once && r->n_streams < VISIT_SCHEDULE_STREAMS;
}

bool
visit_schedule_next(struct visit_schedule *r, int64_t now_ms, size_t *set,
                    bool *is_visit)
{
    struct round *round;

    if (!has_stream(r) && r->n_visits == VISIT_SCHEDULE_VISITS)
        return false;
    round = first_waiting(r);
    if (!round || (round->due_ms > now_ms && !has_stream(r)))
        return false;
    *is_visit = !has_stream(r);
    round->state = *is_visit ? VISITED : STREAMING;
    r->n_visits += *is_visit;
    r->n_streams += !*is_visit;
    r->n_opened += !round->was_opened;
    round->was_opened = true;
    *set = (size_t)(round - r->all);
    return true;
}

static void
close_set(struct visit_schedule *r, struct round *round, enum round_state state)
{
    r->n_streams -= round->state == STREAMING;
    r->n_shared -= round->state == SHARING;
    r->n_visits -= round->state == VISITED;
    r->n_over += state == OVER && round->state != OVER;
    round->state = state;
}

void
visit_schedule_share(struct visit_schedule *r, size_t set, bool is_sharing)
{
    struct round *round = &r->all[set];

    if (round->state != (is_sharing ? STREAMING : SHARING))
        return;
    close_set(r, round, is_sharing ? SHARING : STREAMING);
    ++*(is_sharing ? &r->n_shared : &r->n_streams);
}

bool
visit_schedule_surplus(struct visit_schedule *r, size_t *set)
{
    if (r->n_streams <= VISIT_SCHEDULE_STREAMS)
        return false;
    *set = r->n - 1;
    while (r->all[*set].state != STREAMING)
        --*set;
    close_set(r, &r->all[*set], WAITING);
    r->all[*set].due_ms = INT64_MIN;
    return true;
}

void
visit_schedule_rest(struct visit_schedule *r, size_t set, int64_t now_ms)
{
    struct round *round = &r->all[set];

    close_set(r, round, r->is_once ? OVER : WAITING);
    round->due_ms = now_ms + r->pause_ms;
}

void
visit_schedule_end(struct visit_schedule *r, size_t set)
{
    close_set(r, &r->all[set], OVER);
}

int64_t
visit_schedule_wait_ms(const struct visit_schedule *r, int64_t now_ms)
{
    const struct round *round = first_waiting(r);

    if (!round || (!has_stream(r) && r->n_visits == VISIT_SCHEDULE_VISITS))
        return -1;
    return round->due_ms > now_ms ? round->due_ms - now_ms : 0;
}

bool
visit_schedule_are_over(const struct visit_schedule *r)
{
    return r->n_over == r->n;
}

bool
visit_schedule_are_new(const struct visit_schedule *r)
{
    return r->n_opened < r->n;
}

#include "client/source/visit_schedule.h"

#include "base/array.h"

bool
visit_schedule_add(struct visit_schedule *r)
{
    if (!ONE_MORE(r->all, &r->capacity, r->n))
        return false;
    r->all[r->n++] = (struct visit){.due_ms = INT64_MIN};
    r->n_in[WAITING]++;
    return true;
}

/* Returns the set that has waited longest; NULL: none waits. */
static struct visit *
first_waiting(const struct visit_schedule *r)
{
    struct visit *first = NULL;

    for (size_t i = 0; r->n_in[WAITING] > 0 && i < r->n; i++)
        if (r->all[i].state == WAITING &&
            (!first || r->all[i].due_ms < first->due_ms))
            first = &r->all[i];
    return first;
}

static bool
has_stream(const struct visit_schedule *r)
{
    return !r->is_once && r->n_in[STREAMING] < VISIT_SCHEDULE_STREAMS;
}

/* True if another set can be opened. */
static bool
has_place(const struct visit_schedule *r)
{
    return has_stream(r) || r->n_in[VISITED] < VISIT_SCHEDULE_VISITS;
}

static void
enter(struct visit_schedule *r, struct visit *round, enum visit_state state)
{
    r->n_in[round->state]--;
    r->n_in[state]++;
    round->state = state;
}

bool
visit_schedule_next(struct visit_schedule *r, int64_t now_ms, size_t *set,
                    bool *is_visit)
{
    struct visit *round = has_place(r) ? first_waiting(r) : NULL;

    *is_visit = !has_stream(r);
    if (!round || (round->due_ms > now_ms && *is_visit))
        return false;
    enter(r, round, *is_visit ? VISITED : STREAMING);
    r->n_opened += !round->was_opened;
    round->was_opened = true;
    *set = (size_t)(round - r->all);
    return true;
}

void
visit_schedule_share(struct visit_schedule *r, size_t set, bool is_sharing)
{
    struct visit *round = &r->all[set];

    if (round->state == (is_sharing ? STREAMING : SHARING))
        enter(r, round, is_sharing ? SHARING : STREAMING);
}

bool
visit_schedule_surplus(struct visit_schedule *r, size_t *set)
{
    if (r->n_in[STREAMING] <= VISIT_SCHEDULE_STREAMS)
        return false;
    *set = r->n - 1;
    while (r->all[*set].state != STREAMING)
        --*set;
    enter(r, &r->all[*set], WAITING);
    r->all[*set].due_ms = INT64_MIN;
    return true;
}

void
visit_schedule_rest(struct visit_schedule *r, size_t set, bool is_over,
                    int64_t now_ms)
{
    struct visit *round = &r->all[set];

    enter(r, round, r->is_once || is_over ? OVER : WAITING);
    round->due_ms = now_ms + r->pause_ms;
}

int64_t
visit_schedule_wait_ms(const struct visit_schedule *r, int64_t now_ms)
{
    const struct visit *round = has_place(r) ? first_waiting(r) : NULL;

    if (!round)
        return -1;
    return round->due_ms > now_ms ? round->due_ms - now_ms : 0;
}

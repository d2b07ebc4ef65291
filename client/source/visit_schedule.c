#include "client/source/visit_schedule.h"

#include "base/array.h"

enum round_state { WAITING, STREAMING, SHARING, VISITED, OVER };

#define N_STATES (OVER + 1)

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
    size_t n_in[N_STATES]; /* sets by their states */
    size_t n_opened;
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
    if (!ONE_MORE(r->all, &r->capacity, r->n))
        return false;
    r->all[r->n++] = (struct round){.due_ms = INT64_MIN};
    r->n_in[WAITING]++;
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
enter(struct visit_schedule *r, struct round *round, enum round_state state)
{
    r->n_in[round->state]--;
    r->n_in[state]++;
    round->state = state;
}

bool
visit_schedule_next(struct visit_schedule *r, int64_t now_ms, size_t *set,
                    bool *is_visit)
{
    struct round *round = has_place(r) ? first_waiting(r) : NULL;

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
    struct round *round = &r->all[set];

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
visit_schedule_rest(struct visit_schedule *r, size_t set, int64_t now_ms)
{
    struct round *round = &r->all[set];

    enter(r, round, r->is_once ? OVER : WAITING);
    round->due_ms = now_ms + r->pause_ms;
}

void
visit_schedule_end(struct visit_schedule *r, size_t set)
{
    enter(r, &r->all[set], OVER);
}

int64_t
visit_schedule_wait_ms(const struct visit_schedule *r, int64_t now_ms)
{
    const struct round *round = has_place(r) ? first_waiting(r) : NULL;

    if (!round)
        return -1;
    return round->due_ms > now_ms ? round->due_ms - now_ms : 0;
}

bool
visit_schedule_are_over(const struct visit_schedule *r)
{
    return r->n_in[OVER] == r->n;
}

bool
visit_schedule_are_new(const struct visit_schedule *r)
{
    return r->n_opened < r->n;
}

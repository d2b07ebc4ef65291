#include "tests/support/journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void
journal_init(struct journal *j)
{
    memset(j, 0, sizeof(*j));
    pthread_mutex_init(&j->lock, NULL);
}

void
journal_fini(struct journal *j)
{
    for (uint64_t i = 0; i < j->last; i++)
        free(j->locs[i]);
    free(j->locs);
    pthread_mutex_destroy(&j->lock);
}

static bool
make_room(struct journal *j, uint64_t last)
{
    size_t capacity = j->capacity ? j->capacity : 1024;
    char **more;

    while (capacity < last)
        capacity *= 2;
    if (capacity == j->capacity)
        return true;
    more = realloc(j->locs, capacity * sizeof(*more));
    if (!more)
        return false;
    memset(more + j->capacity, 0, (capacity - j->capacity) * sizeof(*more));
    j->locs = more;
    j->capacity = capacity;
    return true;
}

static bool
note(struct journal *j, uint64_t first, uint64_t last,
     const struct posted *entries, size_t n, struct problem *why)
{
    if (first == 0 || last < first || last - first + 1 != n ||
        !make_room(j, last)) {
        problem_set(why,
                    "a post of %zu entries was answered with %" PRIu64
                    " to %" PRIu64,
                    n, first, last);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char **loc = &j->locs[first - 1 + i];

        if (*loc) {
            problem_set(why, "entry %" PRIu64 " was given to %s and to %s",
                        first + i, *loc, entries[i].loc);
            return false;
        }
        *loc = strdup(entries[i].loc);
        j->n += *loc != NULL;
    }
    if (last > j->last)
        j->last = last;
    return true;
}

bool
journal_note(struct journal *j, uint64_t first, uint64_t last,
             const struct posted *entries, size_t n, struct problem *why)
{
    bool is_good;

    pthread_mutex_lock(&j->lock);
    is_good = note(j, first, last, entries, n, why);
    pthread_mutex_unlock(&j->lock);
    return is_good;
}

uint64_t
journal_last(struct journal *j)
{
    uint64_t last;

    pthread_mutex_lock(&j->lock);
    last = j->last;
    pthread_mutex_unlock(&j->lock);
    return last;
}

static bool
is_in(const struct journal *j, const struct trace *t, struct problem *why)
{
    if (j->last > t->last) {
        problem_set(why,
                    "entry %" PRIu64 " was acknowledged, the last is %" PRIu64,
                    j->last, t->last);
        return false;
    }
    for (uint64_t seq = t->after + 1; seq <= j->last; seq++) {
        const char *loc = j->locs[seq - 1];

        if (!loc || !strcmp(loc, trace_at(t, seq)->loc))
            continue;
        problem_set(why, "entry %" PRIu64 " was posted as %s, and is %s", seq,
                    loc, trace_at(t, seq)->loc);
        return false;
    }
    return true;
}

bool
journal_is_in(struct journal *j, const struct trace *t, struct problem *why)
{
    bool is_good;

    pthread_mutex_lock(&j->lock);
    is_good = is_in(j, t, why);
    pthread_mutex_unlock(&j->lock);
    return is_good;
}

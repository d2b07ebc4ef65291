#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/cutter_inside.h"
#include "tests/support/patience.h"
#include "tests/test.h"

void
cutter_must(bool is_so, const char *what)
{
    if (!is_so) { /* not the test's thread: cmocka's asserts are not for it */
        perror(what);
        abort();
    }
}

struct cutter *
cutter_new(unsigned port)
{
    struct cutter *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    c->behind = port;
    c->let = -1;
    c->left[0] = c->left[1] = CUTTER_NONE;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    cutter_wire_open(c);
    snprintf(c->url, sizeof(c->url), "http://127.0.0.1:%u", c->port);
    return c;
}

void
cutter_free(struct cutter *c)
{
    if (!c)
        return;
    cutter_wire_close(c);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

unsigned
cutter_port(const struct cutter *c)
{
    return c->port;
}

const char *
cutter_url(const struct cutter *c)
{
    return c->url;
}

/* The test changes something, and goes on when the thread has done it. */
static void
begin(struct cutter *c)
{
    pthread_mutex_lock(&c->mutex);
}

static void
end(struct cutter *c)
{
    unsigned asked = ++c->asked;

    cutter_wire_wake(c);
    while ((int)(c->done - asked) < 0)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

void
cutter_point(struct cutter *c, unsigned port)
{
    begin(c);
    c->behind = port;
    end(c);
}

void
cutter_end_all(struct cutter *c, enum cutter_end how)
{
    begin(c);
    c->has_end = true;
    c->end = how;
    end(c);
}

void
cutter_stall(struct cutter *c, enum cutter_way way)
{
    begin(c);
    c->is_stalled[way] = true;
    end(c);
}

void
cutter_go(struct cutter *c)
{
    begin(c);
    c->is_stalled[CUTTER_UP] = c->is_stalled[CUTTER_DOWN] = false;
    c->has_go = true;
    end(c);
}

void
cutter_delay(struct cutter *c, unsigned delay_ms)
{
    begin(c);
    c->delay_ms = delay_ms;
    end(c);
}

void
cutter_refuse(struct cutter *c, bool does)
{
    begin(c);
    c->refuses = does;
    end(c);
}

void
cutter_after(struct cutter *c, enum cutter_way way, uint64_t bytes,
             enum cutter_end how)
{
    begin(c);
    c->left[way] = bytes;
    c->end_then[way] = how;
    end(c);
}

void
cutter_hold(struct cutter *c)
{
    begin(c);
    c->holds = true;
    end(c);
}

void
cutter_let(struct cutter *c, unsigned i)
{
    begin(c);
    assert_true(i < c->counts.n_held);
    c->let = (int)i;
    end(c);
}

void
cutter_let_all(struct cutter *c)
{
    begin(c);
    c->holds = false;
    c->let = -2;
    end(c);
}

void
cutter_plan(struct cutter *c, const struct cutter_plan *plan)
{
    begin(c);
    c->has_plan = plan != NULL;
    c->is_new_plan = plan != NULL;
    if (plan)
        c->plan = *plan;
    end(c);
}

/* Counts */

struct cutter_counts
cutter_counts(struct cutter *c)
{
    struct cutter_counts counts;

    pthread_mutex_lock(&c->mutex);
    counts = c->counts;
    pthread_mutex_unlock(&c->mutex);
    return counts;
}

static uint64_t
n_connections(const struct cutter_counts *n)
{
    return n->n_connections;
}

static uint64_t
n_held(const struct cutter_counts *n)
{
    return n->n_held;
}

static uint64_t
n_ended(const struct cutter_counts *n)
{
    return n->n_closes + n->n_resets + n->n_stalls;
}

static uint64_t
n_up(const struct cutter_counts *n)
{
    return n->passed[CUTTER_UP];
}

static uint64_t
n_down(const struct cutter_counts *n)
{
    return n->passed[CUTTER_DOWN];
}

static void
await(struct cutter *c, uint64_t (*count)(const struct cutter_counts *n),
      uint64_t n, const char *what)
{
    struct timespec until;
    uint64_t found;
    int late = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&c->mutex);
    while ((found = count(&c->counts)) < n && !late)
        late = pthread_cond_clockwait(&c->changed, &c->mutex, CLOCK_MONOTONIC,
                                      &until);
    pthread_mutex_unlock(&c->mutex);
    if (found < n)
        fail_msg("the cutter saw %llu %s, not %llu", (unsigned long long)found,
                 what, (unsigned long long)n);
}

void
cutter_await_connections(struct cutter *c, unsigned n)
{
    await(c, n_connections, n, "connections");
}

void
cutter_await_held(struct cutter *c, unsigned n)
{
    await(c, n_held, n, "held connections");
}

void
cutter_await_ended(struct cutter *c, unsigned n)
{
    await(c, n_ended, n, "ends");
}

void
cutter_await_passed(struct cutter *c, enum cutter_way way, uint64_t bytes)
{
    await(c, way == CUTTER_UP ? n_up : n_down, bytes, "bytes");
}

#include "broker/base/spans.h"

#include <pthread.h>

#include "broker/base/metrics.h"
#include "tests/test.h"

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"

TEST(only_sampled_traces_are_wanted_and_only_while_open)
{
    static const struct {
        const char *text;
        bool is_wanted;
    } rows[] = {
        {TRACE "01", true},  {TRACE "ff", true},  {TRACE "0b", true},
        {TRACE "00", false}, {TRACE "fe", false}, {TRACE "0a", false},
        {TRACE "1", false},  {"", false},
    };

    for (int is_open = 0; is_open < 2; is_open++) {
        atomic_store(&spans_are_open, is_open);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
            assert_int_equal(spans_are_wanted(slice_of(rows[i].text)),
                             is_open && rows[i].is_wanted);
    }
    atomic_store(&spans_are_open, false);
}

static void
free_spans(struct span *span)
{
    while (span) {
        struct span *next = span->next;

        free(span);
        span = next;
    }
}

/* The oldest first; those over the limit are counted, and room comes back. */
TEST(a_limited_number_waits_in_order)
{
    struct span *taken, *one;
    uint64_t n = 0;

    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < SPANS_MAX + 3; i++)
            spans_add(&(struct span){.first = i});
        taken = spans_take();
        for (one = taken, n = 0; one; one = one->next)
            assert_int_equal(one->first, n++);
        assert_int_equal(n, SPANS_MAX);
        free_spans(taken);
        assert_null(spans_take());
    }
}

#define THREADS 4
#define EACH    1000

static void *
add_some(void *user)
{
    for (uint64_t i = 0; i < EACH; i++)
        spans_add(&(struct span){.first = i, .last = (uintptr_t)user});
    return NULL;
}

TEST(threads_add_without_a_loss)
{
    uint64_t next[THREADS] = {0}, n = 0;
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_some, (void *)i),
                         0);
    while (n < THREADS * EACH) {
        struct span *taken = spans_take();

        for (struct span *one = taken; one; one = one->next, n++)
            assert_int_equal(one->first, next[one->last]++);
        free_spans(taken);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

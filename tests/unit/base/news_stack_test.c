#include "base/news_stack.h"

#include <pthread.h>

#include "base/list.h"
#include "tests/test.h"

TEST(a_mark_is_taken_once)
{
    struct marks marks = {NULL};
    struct mark a = {NULL}, b = {NULL};

    assert_null(marks_take(&marks));
    assert_false(mark_is_set(&a));
    assert_true(marks_set(&marks, &a));
    assert_true(marks_set(&marks, &b));
    assert_false(marks_set(&marks, &a));

    assert_ptr_equal(marks_take(&marks), &b);
    assert_ptr_equal(b.next, &a);
    assert_null(a.next);
    assert_null(marks_take(&marks));
    assert_false(marks_set(&marks, &a)); /* it is not looked at yet */
    assert_true(mark_is_set(&a));
    mark_clear(&a);
    assert_false(mark_is_set(&a));
    assert_true(marks_set(&marks, &a));
    assert_ptr_equal(marks_take(&marks), &a);
}

/* It must not get in there twice: it would follow itself, for ever. */
TEST(a_mark_that_is_not_taken_stays)
{
    struct marks marks = {NULL};
    struct mark a = {NULL};

    marks_set(&marks, &a);
    mark_clear(&a);
    assert_true(mark_is_set(&a));
    assert_false(marks_set(&marks, &a));
    assert_ptr_equal(marks_take(&marks), &a);
    assert_null(a.next);
}

/* Many threads have news of a few things; a reader that looks at every wake
 * sees the last of each. */

#define THINGS  3
#define THREADS 4
#define NEWS    20000

struct thing {
    struct mark mark;
    pthread_mutex_t mutex; /* as a set's head has one */
    unsigned n;
};

struct board {
    struct marks marks;
    struct thing things[THINGS];
    atomic_uint n_wakes, n_done;
};

static void *
tell(void *user)
{
    struct board *board = user;

    for (unsigned i = 0; i < NEWS; i++) {
        struct thing *thing = &board->things[i % THINGS];

        pthread_mutex_lock(&thing->mutex);
        thing->n++;
        pthread_mutex_unlock(&thing->mutex);
        if (marks_set(&board->marks, &thing->mark))
            atomic_fetch_add(&board->n_wakes, 1);
    }
    atomic_fetch_add(&board->n_done, 1);
    return NULL;
}

static unsigned
look(struct thing *thing)
{
    unsigned n;

    pthread_mutex_lock(&thing->mutex);
    n = thing->n;
    pthread_mutex_unlock(&thing->mutex);
    return n;
}

/* Looks at all that are marked, once each. */
static unsigned
look_at_all(struct board *board, unsigned seen[THINGS])
{
    struct mark *mark = marks_take(&board->marks), *next;
    unsigned n = 0;

    for (; mark; mark = next) {
        struct thing *thing = list_entry(mark, struct thing, mark);

        next = mark->next;
        mark_clear(mark);
        seen[thing - board->things] = look(thing);
        n++;
    }
    return n;
}

TEST(no_news_is_lost)
{
    struct board board = {.n_wakes = 0};
    pthread_t threads[THREADS];
    unsigned seen[THINGS] = {0}, n_woken = 0, n_looks = 0, sum = 0;
    bool is_over = false;

    for (int i = 0; i < THINGS; i++)
        pthread_mutex_init(&board.things[i].mutex, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tell, &board), 0);
    while (!is_over) {
        is_over = atomic_load(&board.n_done) == THREADS;
        if (atomic_load(&board.n_wakes) == n_woken)
            continue; /* nobody has woken us: so there is nothing */
        n_woken = atomic_load(&board.n_wakes);
        n_looks += look_at_all(&board, seen);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    for (int i = 0; i < THINGS; i++)
        sum += seen[i];
    assert_int_equal(sum, THREADS * NEWS);
    assert_int_equal(n_looks, atomic_load(&board.n_wakes));
    for (int i = 0; i < THINGS; i++)
        pthread_mutex_destroy(&board.things[i].mutex);
}

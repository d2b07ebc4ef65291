/*
 * framework_test.c - SIGKILL under load: what is told of rotations is what
 * there was of them.
 *
 * The moments are random; the seed is printed, and TIDINGS_SEED=N repeats the
 * choices of a run.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/channel.h"
#include "tests/support/crossed.h"
#include "tests/support/lists.h"
#include "tests/test.h"

#define ROUNDS       test_size(4, 8)
#define ANSWERS_MAX  60
#define LATER_MAX_MS 12

/* How often a line is among them. */
static unsigned
times(const struct buf *lines, const char *line)
{
    size_t size = strlen(line);
    unsigned n = 0;

    for (size_t at = 0; at + size <= lines->size; at++)
        n += (at == 0 || lines->data[at - 1] == '\n') &&
             !memcmp(lines->data + at, line, size);
    return n;
}

/* In the directory of a broker that has ended: every list but the first was
 * told once to begin, no list twice to end, and none that is not there. */
static void
check_told(const struct broker *b, uint64_t *told)
{
    struct head head;
    struct sets s;
    struct buf lines;

    sets_configure(&s, b->data);
    sets_open(&s);
    head = sets_head(&s, LISTS_SET);
    buf_init(&lines, SIZE_MAX);
    channel_read(&s, sets_find(&s, LISTS_SET), 0, &lines);
    assert_int_equal(times(&lines, "created capabilitylist "), 1);
    for (uint64_t list = 1; list <= head.list + 1; list++) {
        char created[200], updated[200];
        unsigned n_updated;

        snprintf(created, sizeof(created),
                 "created changelist /sets/" LISTS_SET "/changes/%012" PRIu64
                 ".xml < /sets/" LISTS_SET "/changelist.xml\n",
                 list);
        snprintf(updated, sizeof(updated), "updated%s",
                 created + strlen("created"));
        n_updated = times(&lines, updated);
        assert_int_equal(times(&lines, created),
                         list > 1 && list <= head.list ? 1 : 0);
        /* One that began and ended in one commit is told to begin. */
        assert_in_range(n_updated, list == 1 && head.list > 1,
                        list < head.list);
    }
    assert_true(head.list >= *told);
    *told = head.list;
    buf_fini(&lines);
    sets_close(&s);
}

FIXTURE(lists_setup, lists_teardown);

TEST(every_rotation_is_told_once_whatever_was_killed)
{
    uint64_t random = test_seed();
    struct lists *l = *state;
    uint64_t told = 0, last = 0;
    struct crossed crossed;

    crossed_init(&crossed, random);
    LISTS_OPEN(l, "--rotate-entries", "40");
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned n_answers = 1 + crossed_random(&random) % ANSWERS_MAX;
        int later_ms = (int)(crossed_random(&random) % (LATER_MAX_MS + 1));
        struct publishers p;

        crossed_start(&crossed, &p, &l->broker);
        publishers_await(&p, n_answers);
        poll(NULL, 0, later_ms); /* any moment is as good as another */
        broker_kill9(&l->broker);
        publishers_join(&p);
        check_told(&l->broker, &told);
        broker_restart(&l->broker);
        walk_all(&l->walk);
        crossed_check(&crossed, &p, &l->walk.trace, last);
        last = l->walk.trace.last;
        publishers_fini(&p);
    }
    assert_true(told > ROUNDS);
    print_message("%" PRIu64 " lists\n", told);
    crossed_fini(&crossed);
}

#include "broker/push/longpoll.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/access/principal.h"
#include "broker/net/response.h"
#include "broker/net/server.h"
#include "proto/number.h"
#include "tests/clock.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define LONG_US 300000000

/* A server of one thread, each of whose requests waits: GET /SET?AFTER waits
 * for more in that set for `wait_us`, and is answered with the head's seq. */
struct world {
    struct sets sets;
    struct set_readers set_readers;
    struct polls polls;
    struct server *server;
    int64_t wait_us; /* before the request */
    struct principal *principal;
    struct task ending;
    atomic_uint n_asked, n_gone;
    unsigned n_in_turn; /* resumed in this turn; and the most of any */
    atomic_uint most_in_turn;
};

/* The time that resuming one poll takes. */
static atomic_int_fast64_t cost_us;

/* One at a time: its polls are large. */
static struct world world;

/* A request that waits. */
struct waiting {
    struct poll poll;
    struct set *set;
};

static void
on_resumed(struct poll *poll, struct request *rq)
{
    struct waiting *waiting = list_entry(poll, struct waiting, poll);
    struct set *set = waiting->set;
    struct response r;
    struct head head;
    char text[32];

    free(waiting);
    clock_pass_us(atomic_load(&cost_us));
    if (++world.n_in_turn > atomic_load(&world.most_in_turn))
        atomic_store(&world.most_in_turn, world.n_in_turn);
    if (!rq) {
        atomic_fetch_add(&world.n_gone, 1);
        return;
    }
    log_head(set->log, &head);
    snprintf(text, sizeof(text), "%u", (unsigned)head.last);
    response_init(&r, 200, "text/plain", NULL);
    r.text = slice_of(text);
    request_answer(rq, &r);
}

static void
on_request(struct request *rq, void *user)
{
    struct slice path = rq->path;
    struct waiting *waiting = calloc(1, sizeof(*waiting));
    struct head head;
    struct poll_wish wish = {.wait_us = world.wait_us, .resume = on_resumed};

    (void)user;
    request_set_authority(rq, authority_ref(&world.principal->authority));
    wish.set =
        registry_find(world.sets.registry,
                      (struct slice){path.data + 1, path.size - 1}, &head);
    assert_non_null(wish.set);
    assert_non_null(waiting);
    waiting->set = wish.set;
    assert_true(number_read(rq->query, &wish.after));
    if (!polls_wait(&world.polls, &world.set_readers, rq, &waiting->poll,
                    &wish))
        on_resumed(&waiting->poll, rq);
    atomic_fetch_add(&world.n_asked, 1);
}

static void
on_wake(struct service *service, void *user)
{
    struct read_set *one;

    (void)user;
    world.n_in_turn = 0;
    watcher_take(&world.set_readers.readers.watcher);
    while ((one = set_readers_next_marked(&world.set_readers)))
        set_readers_wake(one);
    polls_go_on(&world.polls, service);
}

static int
set_up(void **state)
{
    struct server_options options = {.host = "127.0.0.1",
                                     .threads = 1,
                                     .request_timeout_us = 10000000,
                                     .on_request = on_request,
                                     .on_wake = on_wake};

    assert_int_equal(tempdir_setup(state), 0);
    memset(&world, 0, sizeof(world));
    sets_configure(&world.sets, tempdir_path(state));
    sets_open(&world.sets);
    sets_post(&world.sets, "demo", 0, 3);
    sets_post(&world.sets, "other", 0, 3);
    set_readers_init(&world.set_readers);
    polls_init(&world.polls);
    world.wait_us = LONG_US;
    world.principal =
        principal_new(SLICE("press"), &(struct rights){0}, INT64_MAX);
    assert_int_equal(server_open(&world.server, &options, NULL), 0);
    return 0;
}

static int
tear_down(void **state)
{
    clock_run_us(0, 0);
    server_close(world.server, 0);
    assert_int_equal(world.polls.n, 0); /* each was resumed, once */
    assert_true(world.set_readers.by_set.n == 0);
    set_readers_fini(&world.set_readers);
    principal_unref(world.principal);
    sets_close(&world.sets);
    return tempdir_teardown(state);
}

static void
await(atomic_uint *count, unsigned wanted)
{
    for (unsigned n = 0; atomic_load(count) != wanted; n++) {
        clock_run_on(n == 0);
        test_yield(n);
    }
}

/* Lets a request wait. */
static struct wire *
asked(const char *target, int64_t wait_us)
{
    struct wire *w = wire_connect("127.0.0.1", server_port(world.server));
    unsigned n = atomic_load(&world.n_asked);

    assert_non_null(w);
    world.wait_us = wait_us;
    assert_true(
        wire_send_format(w, "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", target));
    await(&world.n_asked, n + 1);
    return w;
}

static void
expect(struct wire *w, const char *seq)
{
    struct wire_answer a;

    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, seq);
    wire_close(w);
}

static void
assert_waiting(struct wire *w)
{
    assert_true(wire_is_silent(w));
}

FIXTURE(set_up, tear_down);

TEST(resumes_when_its_set_has_more)
{
    struct wire *w[3] = {asked("demo?3", LONG_US), asked("other?3", LONG_US),
                         asked("demo?4", LONG_US)}; /* ahead: waits longer */

    sets_post(&world.sets, "demo", 3, 1);
    expect(w[0], "4");
    assert_waiting(w[1]);
    assert_waiting(w[2]);
    sets_post(&world.sets, "demo", 4, 1);
    expect(w[2], "5");
    sets_post(&world.sets, "other", 3, 2);
    expect(w[1], "5");
}

/* A poll does not wait for an earlier commit, whether or not others wait in the
 * set already. */
TEST(does_not_wait_for_what_is_there)
{
    struct wire *other;

    expect(asked("demo?2", LONG_US), "3");
    other = asked("demo?3", LONG_US);
    expect(asked("demo?0", LONG_US), "3");
    assert_waiting(other);
    sets_post(&world.sets, "demo", 3, 1);
    expect(other, "4");
}

/* Never before its time, however times are mixed. */
TEST(resumes_when_the_time_is_over)
{
    static const int64_t waits_us[] = {700000, 1, 400000, POLLS_SLOT_US,
                                       POLLS_SLOT_US * 2};
    int64_t start_us = clock_steady_us();
    struct wire *w[5], *longest = asked("demo?3", POLLS_WAIT_MAX_US);

    for (int i = 0; i < 5; i++)
        w[i] = asked("demo?3", waits_us[i]);
    clock_run_us(1, POLLS_SLOT_US);
    for (int i = 4; i >= 0; i--) {
        expect(w[i], "3");
        assert_true(clock_steady_us() - start_us >= waits_us[i]);
    }
    assert_true(clock_steady_us() - start_us <= 700000 + 2 * POLLS_SLOT_US);
    assert_waiting(longest);
    wire_close(longest);
    await(&world.n_gone, 1);
}

/* More than are resumed at once; all the same each is. */
TEST(resumes_a_crowd)
{
    enum { N = 2 * POLLS_AT_ONCE + 10 };
    static struct wire *w[N];

    for (int i = 0; i < N; i++)
        w[i] = asked("demo?3", LONG_US);
    sets_post(&world.sets, "demo", 3, 1);
    for (int i = 0; i < N; i++)
        expect(w[i], "4");
    assert_in_range(atomic_load(&world.most_in_turn), 1, POLLS_AT_ONCE);
}

static int
set_up_costly(void **state)
{
    atomic_store(&cost_us, POLLS_TURN_US);
    return set_up(state);
}

static int
tear_down_costly(void **state)
{
    int rc = tear_down(state);

    atomic_store(&cost_us, 0);
    return rc;
}

/* Where each takes its time, the others of the thread get their turn. */
TEST(resumes_fewer_where_that_takes_long, set_up_costly, tear_down_costly)
{
    enum { N = 20 };
    struct wire *w[N];

    for (int i = 0; i < N; i++)
        w[i] = asked("demo?3", LONG_US);
    sets_post(&world.sets, "demo", 3, 1);
    for (int i = 0; i < N; i++)
        expect(w[i], "4");
    assert_int_equal(atomic_load(&world.most_in_turn), 1);
}

TEST(forgets_who_has_gone)
{
    for (unsigned i = 0; i < 10; i++) {
        struct wire *w = asked(i % 2 ? "demo?3" : "other?3", LONG_US);

        if (i % 3)
            wire_close(w);
        else
            wire_abort(w);
    }
    clock_run_us(1, POLLS_SLOT_US);
    await(&world.n_gone, 10);
    sets_post(&world.sets, "demo", 3, 1);
}

TEST(ends_with_its_principal)
{
    struct wire *w[] = {asked("demo?3", LONG_US), asked("other?3", LONG_US)};
    struct wire_answer a;

    assert_waiting(w[0]);
    principal_end(world.principal, 0);
    clock_run_us(1, 1000000);
    for (int i = 0; i < 2; i++) {
        assert_true(wire_answer(w[i], &a, false));
        assert_int_equal(a.status, 401);
        wire_close(w[i]);
    }
    await(&world.n_gone, 2);
}

static void
end(struct task *task)
{
    (void)task;
    polls_end(&world.polls, server_service(world.server, 0));
}

TEST(resumes_all_at_the_end_and_lets_nobody_wait_after_it)
{
    struct wire *w[20];

    for (int i = 0; i < 20; i++)
        w[i] = asked(i % 2 ? "demo?3" : "other?3", LONG_US);
    world.ending.run = end;
    service_post(server_service(world.server, 0), &world.ending);
    for (int i = 0; i < 20; i++)
        expect(w[i], "3");
    expect(asked("demo?3", LONG_US), "3");
}

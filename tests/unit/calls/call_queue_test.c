/* Turns by owner, walked without a thread: a call that has its turn hangs until
 * the test releases it. */
#include "broker/calls/call_history.h"
#include "broker/calls/caller_state.h"
#include "tests/test.h"

#define CALLS_MAX 4000

static struct walk {
    struct call_queue queue;
    struct call calls[CALLS_MAX];
    char urls[CALLS_MAX][40];
    unsigned n;
} w;

/* Clients: only their addresses count. */
static char clients[64 * 100];

static const struct client *
client_nth(unsigned nth)
{
    return (const struct client *)(const void *)&clients[64 * nth];
}

static void
walk_open(unsigned connections, unsigned host_connections)
{
    memset(&w, 0, sizeof(w));
    call_queue_init(&w.queue, connections, host_connections);
}

static void
walk_close(void)
{
    struct list *held;

    while ((held = list_first(&w.queue.held)))
        call_queue_release(list_entry(held, struct call, own.node));
    call_queue_clear(&w.queue);
    assert_int_equal(w.queue.n_waiting, 0);
    assert_int_equal(w.queue.all.n_held.n, 0);
    assert_int_equal(w.queue.hosts.n + w.queue.owners.n + w.queue.lanes.n, 0);
}

static enum kind
kind_nth(unsigned nth)
{
    return (enum kind)(nth % KINDS);
}

static struct call *
add(unsigned owner, unsigned host, enum kind kind)
{
    struct call *call = &w.calls[w.n];

    snprintf(w.urls[w.n], sizeof(w.urls[w.n]), "http://h%u.example/", host);
    call->url = w.urls[w.n++];
    call->owner = client_nth(owner);
    call->is_suspect = kind == SUSPECT;
    call->is_unproven = kind == UNPROVEN;
    assert_true(call_queue_add(&w.queue, call));
    return call;
}

/* The number of calls that get their turn now, and hang. */
static unsigned
take_all(void)
{
    unsigned n = 0;

    while (call_queue_take(&w.queue))
        n++;
    assert_false(call_queue_is_due(&w.queue));
    return n;
}

static bool
has_turn(const struct call *call)
{
    return call->own.state == CALL_HELD;
}

/* W-092, W-057: one owner fills all that it can get, of each kind, at hosts of
 * its own or at one; twenty others get their turn at once, with every kind of
 * call, also at the same host. */
TEST(an_owner_that_hangs_leaves_a_place_to_each_other)
{
    static const struct {
        unsigned hosts, most;
    } rows[] = {{1000, 875}, {100, 875}, {1, 32}};

    for (unsigned r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (enum kind other = 0; other < KINDS; other++) {
            struct call *honest[3];

            walk_open(1000, 32);
            for (unsigned i = 0; i < 3000; i++)
                add(0, i % rows[r].hosts, kind_nth(i / rows[r].hosts));
            assert_in_range(take_all(), 1, rows[r].most);
            for (unsigned i = 0; i < 20; i++) {
                honest[0] = add(1 + i, 0, other);
                honest[1] = add(1 + i, 2000 + i, other);
                while (call_queue_take(&w.queue))
                    ;
                for (unsigned c = 0; c < 2; c++) {
                    assert_true(has_turn(honest[c]));
                    call_queue_release(honest[c]);
                }
            }
            walk_close();
        }
}

/* All calls of one owner alone: the others lose an eighth, and no more. */
TEST(an_owner_alone_has_seven_eighths)
{
    static const struct {
        enum kind kind;
        unsigned most;
    } rows[] = {{SOUND, 875}, {SUSPECT, 500}, {UNPROVEN, 250}};

    for (unsigned r = 0; r < KINDS; r++) {
        walk_open(1000, 32);
        for (unsigned i = 0; i < 2000; i++)
            add(0, i, rows[r].kind);
        assert_int_equal(take_all(), rows[r].most);
        walk_close();
    }
}

/* However many owners take all that they can get, the next one finds a place.
 */
TEST(many_owners_that_hang_leave_a_place_to_the_next)
{
    for (unsigned n = 1; n <= 60; n++) {
        struct call *call;
        unsigned most = 0, least = UINT_MAX;

        walk_open(1000, 1000);
        for (unsigned i = 0; i < 3960; i++)
            add(i % n, i, SOUND);
        take_all();
        for (unsigned i = 0; i < n; i++) {
            unsigned own = 0;

            for (unsigned k = i; k < 3960; k += n)
                own += has_turn(&w.calls[k]);
            most = own > most ? own : most;
            least = own < least ? own : least;
        }
        assert_in_range(most - least, 0, 1);
        call = add(99, 0, SOUND);
        assert_ptr_equal(call_queue_take(&w.queue), call);
        walk_close();
    }
}

/* An owner that has many calls gets no more turns than one with few. */
TEST(owners_take_turns_and_then_hosts)
{
    static const unsigned owners[] = {0, 1, 0, 1, 0, 0};
    struct call *order[] = {NULL, NULL, NULL, NULL, NULL, NULL};
    struct call *call;

    walk_open(1, 1);
    order[0] = add(0, 1, SOUND);
    order[4] = add(0, 1, SOUND);
    order[5] = add(0, 1, SOUND);
    order[2] = add(0, 2, SOUND);
    order[1] = add(1, 1, SOUND);
    order[3] = add(1, 1, SOUND);
    for (unsigned i = 0; i < 6; i++) {
        call = call_queue_take(&w.queue);
        assert_ptr_equal(call, order[i]);
        assert_ptr_equal(call->owner, client_nth(owners[i]));
        assert_null(call_queue_take(&w.queue));
        call_queue_release(call);
    }
    walk_close();
}

/* With any limits: a waiting owner that holds nothing gets what is free, and
 * what one owner leaves is one place at least, if there are four. */
TEST(small_limits_have_room_for_two_owners)
{
    for (unsigned limit = 1; limit <= 40; limit++) {
        struct call *call;
        unsigned n;

        walk_open(limit, limit);
        for (unsigned i = 0; i < 100; i++)
            add(0, 1, SOUND);
        n = take_all();
        assert_int_equal(n, limit < 4 ? limit : limit - 1 - (limit - 1) / 8);
        call = add(1, 1, SOUND);
        assert_int_equal(call_queue_is_due(&w.queue), limit > 3);
        if (limit > 3)
            assert_ptr_equal(call_queue_take(&w.queue), call);
        walk_close();
    }
}

/* The broker's own calls have the limits of all. */
TEST(the_broker_is_no_owner)
{
    walk_open(8, 4);
    for (unsigned i = 0; i < 20; i++)
        add(0, i % 2, SOUND)->owner = NULL;
    for (unsigned i = 0; i < 20; i++) {
        call_queue_remove(&w.queue, &w.calls[i]);
        w.calls[i].owner = NULL;
        assert_true(call_queue_add(&w.queue, &w.calls[i]));
    }
    assert_int_equal(take_all(), 8);
    walk_close();
}

/* Histories */

TEST(a_history_is_judged_by_failures_and_by_time)
{
    static const struct {
        const char *calls; /* '.': at once; 's': slow; 'f': failed at once;
                              'h': hung */
        bool is_bad;
    } rows[] = {
        {"", false},        {"....", false},    {"f", false},
        {"f.", false},      {"ff", true},       {"h", true},
        {"h.", true},       {"h.....", true},   {"h......", false},
        {"h.h.h.h.", true}, {".h.h.h.h", true}, {"h..h..h..", true},
        {"s", false},       {"sssss", true},    {"f.f.f.f.f.", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct call_history h = {0};

        for (const char *c = rows[i].calls; *c; c++)
            call_history_add(&h, *c == 'f' || *c == 'h',
                             *c == 'h'   ? 10000001
                             : *c == 's' ? 3000000
                                         : 0,
                             10000000);
        if (call_history_is_bad(&h) != rows[i].is_bad)
            fail_msg("%s", rows[i].calls);
    }
}

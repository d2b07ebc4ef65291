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

/* Hosts */

static const struct {
    const char *url, *host; /* NULL: it may not be called */
} spellings[] = {
    {"http://a.example/", "a.example:80"},
    {"http://a.example", "a.example:80"},
    {"http://a.example?x", "a.example:80"},
    {"http://a.example#x", "a.example:80"},
    {"http://a.example/other:81@x", "a.example:80"},
    {"http://a.example/a b", NULL},
    {"http://a.example/a\x7f", NULL},
    {"http://a.example/a-long-path-and-a-tab\t", NULL},
    {"http://A.Example/", "a.example:80"},
    {"HTTP://a.example/", "a.example:80"},
    {"http://a.example:80/", "a.example:80"},
    {"http://a.example:/", "a.example:80"},
    {"http://a.example:81/", "a.example:81"},
    {"http://a.example:443/", "a.example:443"},
    {"https://a.example/", "a.example:443"},
    {"https://A.EXAMPLE:443/", "a.example:443"},
    {"http://a.example:0/", NULL},
    {"http://a.example:65536/", NULL},
    {"http://user@a.example/", NULL},
    {"http://user:word@a.example/", NULL},
    {"http://a.example@b.example/", NULL},
    {"http://b.example/", "b.example:80"},
    {"http://a.example.b.example/", "a.example.b.example:80"},
    {"http://[2001:db8::1]/", "[2001:db8::1]:80"},
    {"http://[2001:DB8:0::1]:81/", "[2001:db8::1]:81"},
    {"http://[2001:db8::1/", NULL},
    {"http://192.0.2.1/", "192.0.2.1:80"},
    {"http://3221225985/", "192.0.2.1:80"},
    {"http://[::ffff:192.0.2.1]/", "192.0.2.1:80"},
    {"http://b\xc3\xbc.example/", "xn--b-eha.example:80"},
    {"http:/a.example/", NULL},
    {"http:///a.example/", NULL},
    {"ftp://a.example/", NULL},
    {"a.example", NULL},
    {"", NULL},
};

/* W-161, W-163: the queue judges each URL by itself, also if another one led to
 * the same host before. All are written into the same memory, and each host
 * stays in use, as those with kept connections do. */
TEST(a_url_leads_to_the_same_host_each_time)
{
    enum { N = sizeof(spellings) / sizeof(spellings[0]) };
    struct place *users[4 * N * N];
    unsigned n_users = 0;
    char url[64];

    walk_open(8, 4);
    for (unsigned i = 0; i < 4 * N * N; i++) {
        /* Each beside each other, twice. */
        unsigned r = i % 4 < 2 ? i / 4 % N : i / 4 / N;
        const char *expected = spellings[r].host;
        struct call call = {.url = url};
        bool is_added;

        snprintf(url, sizeof(url), "%s", spellings[r].url);
        is_added = call_queue_add(&w.queue, &call);
        if (is_added != (expected != NULL))
            fail_msg("%s", url);
        if (!is_added)
            continue;
        assert_string_equal(call.own.lane->host->key.data, expected);
        users[n_users++] = call_queue_host(&w.queue, url);
        assert_ptr_equal(users[n_users - 1], call.own.lane->host);
        call_queue_remove(&w.queue, &call);
    }
    while (n_users > 0)
        place_leave(users[--n_users]);
    assert_int_equal(w.queue.spellings.n, 0);
    walk_close();
}

/* The struct of a call that has ended serves another one. */
TEST(lanes_that_were_left_are_as_new)
{
    for (unsigned turn = 0; turn < 3; turn++) {
        w.n = 0;
        walk_open(8, 4);
        for (unsigned i = 0; i < 2000; i++) {
            struct call *call = add(i % 3, i % 7, kind_nth(i));

            assert_ptr_equal(call_queue_take(&w.queue), call);
            assert_int_equal(call->own.lane->n_held.n, 1);
            assert_ptr_equal(call->own.lane->parent->client, client_nth(i % 3));
            call_queue_release(call);
        }
        assert_int_equal(w.queue.n_spare, 1);
        walk_close();
    }
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

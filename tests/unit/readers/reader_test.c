#include "broker/readers/reader.h"

#include <string.h>

#include "proto/datetime.h"
#include "tests/test.h"
#include "tests/unit/readers/fake_log.h"

#define BUDGET ((size_t)64 << 10)

static struct world {
    struct readers readers;
    struct watched_channel channel;
    struct clients clients;
    struct filters filters;
    struct filter_class *filter; /* of who reads with one */
    bool is_removed, is_local;
    unsigned n_wakes;
} w;

static bool
look(const struct reader *reader, struct channel *channel, uint64_t *head)
{
    *channel = (struct channel){
        .kind = reader->kind, .is_local = w.is_local, .end = UINT64_MAX};
    *head = fake_log.head;
    return !w.is_removed;
}

static void
wake(struct watcher *watcher)
{
    (void)watcher;
    w.n_wakes++;
}

static const struct reader_calls calls = {
    .shared = {.part = "test",
               .make = fake_log_make,
               .work = fake_log_work,
               .is_stopping = fake_log_is_stopping},
    .look = look,
    .wants_newest = true,
};

static int
set_up(void **state)
{
    struct filter filter;

    (void)state;
    memset(&w, 0, sizeof(w));
    fake_log_begin();
    fake_log.most = 10;
    clients_init(&w.clients, 100);
    clients_limit_all(&w.clients, CLIENT_FILTERS, 1);
    filters_init(&w.filters, &w.clients);
    assert_int_equal(filter_read(&filter, SLICE("change=deleted"), NULL), 0);
    assert_int_equal(
        filters_enter(&w.filters, &filter, NULL, false, &w.filter, NULL), 0);
    readers_init(&w.readers, &calls, BUDGET, wake);
    watched_channel_init(&w.channel, &w.readers);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    assert_int_equal(w.readers.messages.held_bytes, 0);
    shared_messages_fini(&w.readers.messages);
    filters_leave(w.filter);
    pthread_mutex_destroy(&w.filters.mutex);
    clients_fini(&w.clients);
    return 0;
}

FIXTURE(set_up, tear_down);

/* A reader, and the calls of its owner's functions. */
struct owner {
    struct reader reader;
    unsigned n_ready;
};

static void
on_ready(struct reader *reader)
{
    list_entry(reader, struct owner, reader)->n_ready++;
}

static void
begin(struct owner *o, uint64_t after)
{
    o->n_ready = 0;
    reader_init(&o->reader, &w.channel, after, on_ready);
}

/* It holds the message of (after, last]. */
static void
assert_holds(const struct reader *r, uint64_t after, uint64_t last)
{
    assert_int_equal(r->state, READER_READY);
    assert_non_null(r->message);
    assert_int_equal(r->message->wish.after, after);
    assert_int_equal(r->message->last, last);
}

/* What a reader gets, by its position and the state of the log: at once, and
 * after the worker pool has done its work. */
TEST(decides_what_comes_next)
{
    static const struct {
        uint64_t head, on_disk, passing;
        uint64_t after, reached, upto;
        bool has_filter, is_removed, is_stuck, is_local, wants_heartbeat;
        enum status status;
        enum reader_state state, later;
        uint64_t last;     /* of the message; 0: none */
        uint64_t searched; /* `reached` in the end */
    } rows[] = {
        /* from memory, as much as a message may have */
        {.head = 5, .after = 2, .last = 5, .searched = 2},
        {.head = 25, .after = 2, .last = 12, .searched = 2},
        {.head = 25, .after = 2, .upto = 4, .last = 4, .searched = 2},
        /* from a disk */
        {.head = 5, .on_disk = 5, .state = READER_LATER, .last = 5},
        /* at the head */
        {.head = 5,
         .after = 5,
         .state = READER_HEAD,
         .later = READER_HEAD,
         .searched = 5},
        {.head = 5,
         .after = 7,
         .state = READER_HEAD,
         .later = READER_HEAD,
         .searched = 7},
        {.head = 5,
         .after = 2,
         .reached = 5,
         .has_filter = true,
         .state = READER_HEAD,
         .later = READER_HEAD,
         .searched = 5},
        {.head = 5,
         .after = 5,
         .wants_heartbeat = true,
         .last = 5,
         .searched = 5},
        /* the filter passes nothing: the worker pool searches on */
        {.head = 5,
         .passing = 5,
         .has_filter = true,
         .state = READER_HEAD,
         .later = READER_HEAD,
         .searched = 5},
        {.head = 35,
         .passing = 30,
         .has_filter = true,
         .state = READER_LATER,
         .last = 35,
         .searched = 30},
        {.head = 35,
         .passing = 35,
         .has_filter = true,
         .state = READER_LATER,
         .later = READER_HEAD,
         .searched = 35},
        {.head = 35,
         .passing = 30,
         .has_filter = true,
         .is_local = true,
         .last = 35,
         .searched = 30},
        /* failures */
        {.head = 5,
         .status = STATUS_GONE,
         .state = READER_GONE,
         .later = READER_GONE},
        {.head = 5,
         .on_disk = 5,
         .status = STATUS_GONE,
         .state = READER_LATER,
         .later = READER_GONE},
        {.head = 5,
         .on_disk = 5,
         .status = STATUS_NOT_FOUND,
         .state = READER_LATER,
         .later = READER_REMOVED},
        {.head = 5,
         .status = STATUS_IO,
         .state = READER_FAILED,
         .later = READER_FAILED},
        {.head = 5,
         .after = 5,
         .is_removed = true,
         .state = READER_REMOVED,
         .later = READER_REMOVED,
         .searched = 5},
        {.head = 5,
         .has_filter = true,
         .passing = 5,
         .is_stuck = true,
         .state = READER_FAILED,
         .later = READER_FAILED},
        /* the fixed end of the next message is no longer there */
        {.head = 5, .upto = 7, .state = READER_FAILED, .later = READER_FAILED},
        {.head = 5,
         .on_disk = 5,
         .upto = 7,
         .state = READER_LATER,
         .later = READER_FAILED},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct owner o;
        struct reader *r = &o.reader;

        print_message("row %zu\n", i);
        fake_log.head = rows[i].head;
        fake_log.on_disk = rows[i].on_disk;
        fake_log.passing = rows[i].passing;
        w.is_removed = rows[i].is_removed;
        fake_log.is_stuck = rows[i].is_stuck;
        w.is_local = rows[i].is_local;
        fake_log.status = rows[i].status;
        begin(&o, rows[i].after);
        r->kind = (uint8_t)i; /* shares nothing with other rows */
        if (rows[i].reached > 0)
            r->reached = rows[i].reached;
        r->upto = rows[i].upto;
        r->filter = rows[i].has_filter ? w.filter : NULL;
        r->wants_heartbeat = rows[i].wants_heartbeat;
        assert_int_equal(reader_next(r), rows[i].state);
        assert_int_equal(reader_next(r), rows[i].state); /* still */
        fake_log_run_jobs();
        assert_int_equal(o.n_ready, rows[i].state == READER_LATER);
        assert_int_equal(reader_next(r), rows[i].later);
        assert_int_equal(r->reached, rows[i].searched);
        if (rows[i].last > 0)
            assert_holds(r, rows[i].after, rows[i].last);
        else
            assert_null(r->message);
        if (rows[i].later == READER_FAILED)
            assert_int_equal(r->upto, 0);
        reader_release(r);
    }
}

/* Message after message, to the head and on from there. */
TEST(reads_to_the_head_and_on_after_news)
{
    struct owner o;
    struct reader *r = &o.reader;

    fake_log.head = 13;
    begin(&o, 0);
    assert_int_equal(reader_next(r), READER_READY);
    assert_holds(r, 0, 10);
    reader_advance(r);
    assert_int_equal(reader_rest(r), READER_READY);
    assert_int_equal(reader_next(r), READER_READY);
    assert_holds(r, 10, 13);
    reader_advance(r);
    assert_int_equal(reader_rest(r), READER_HEAD);
    fake_log.head = 14;
    assert_int_equal(reader_next(r), READER_HEAD); /* rests until news */
    watched_channel_wake(&w.channel, 9);
    assert_int_equal(o.n_ready, 1);
    assert_int_equal(reader_next(r), READER_READY);
    assert_holds(r, 13, 14);
    reader_advance(r);
    assert_int_equal(r->after, 14);
    w.is_removed = true;
    assert_int_equal(reader_rest(r), READER_REMOVED);
    assert_true(list_is_empty(&w.channel.resting));
}

/* A message that was released in part comes again with the same bytes, whatever
 * the log has now. */
TEST(a_fixed_range_comes_again)
{
    struct owner o;
    struct reader *r = &o.reader;

    fake_log.head = 3;
    begin(&o, 1);
    assert_int_equal(reader_next(r), READER_READY);
    r->upto = r->message->last;
    reader_release(r);
    fake_log.head = 9;
    r->wants_heartbeat = true; /* not between two parts of a message */
    assert_int_equal(reader_next(r), READER_READY);
    assert_holds(r, 1, 3);
    assert_false(r->message->wish.is_heartbeat);
    reader_advance(r);
    assert_int_equal(r->upto, 0);
    assert_false(r->wants_heartbeat);
    reader_move(r, 7);
    assert_int_equal(reader_next(r), READER_READY);
    assert_holds(r, 7, 9);
    reader_release(r);
}

/* A heartbeat that falls due while nothing passes is the next message. */
TEST(a_heartbeat_interrupts_a_search)
{
    struct owner o;
    struct reader *r = &o.reader;

    fake_log.head = fake_log.passing = 100;
    fake_log.on_disk = 10;
    begin(&o, 0);
    r->filter = w.filter;
    assert_int_equal(reader_next(r), READER_LATER);
    r->wants_heartbeat = true;
    fake_log.on_disk = 0;
    fake_log_run_jobs();
    assert_int_equal(o.n_ready, 1);
    assert_int_equal(reader_next(r), READER_READY);
    assert_true(r->message->wish.is_heartbeat);
    assert_holds(r, 0, 10);
    reader_advance(r);
    assert_int_equal(r->since_us, DATETIME_NONE);
}

/* Who waits for a load with another wish by then does not get its message. */
TEST(a_reader_that_changed_meanwhile_asks_anew)
{
    struct owner o[2];

    fake_log.head = fake_log.on_disk = fake_log.passing = 5;
    for (int i = 0; i < 2; i++) {
        begin(&o[i], 0);
        assert_int_equal(reader_next(&o[i].reader), READER_LATER);
    }
    assert_int_equal(fake_log.n_jobs, 1);
    o[1].reader.filter = w.filter;
    fake_log_run_jobs();
    assert_holds(&o[0].reader, 0, 5);
    assert_int_equal(o[1].reader.state, READER_HEAD);
    assert_int_equal(o[1].n_ready, 1);
    reader_release(&o[0].reader);
    reader_release(&o[1].reader);
}

static bool
are_starving(void)
{
    return !list_is_empty(&w.readers.starving[false]) ||
           !list_is_empty(&w.readers.starving[true]) ||
           !list_is_empty(&w.readers.messages.queued[false]) ||
           !list_is_empty(&w.readers.messages.queued[true]);
}

/* W-092: readers wait for room, healthy ones first; suspects have half of it,
 * and share what is there. */
TEST(waits_for_room)
{
    struct owner full, next, suspects[2];

    fake_log.weight = BUDGET;
    fake_log.most = 1;
    fake_log.head = 4;
    begin(&full, 0);
    begin(&next, 1);
    begin(&suspects[0], 2);
    begin(&suspects[1], 0);
    suspects[0].reader.is_suspect = suspects[1].reader.is_suspect = true;
    assert_int_equal(reader_next(&full.reader), READER_READY);
    assert_int_equal(reader_next(&suspects[0].reader), READER_LATER);
    assert_int_equal(reader_next(&next.reader), READER_LATER);
    assert_int_equal(reader_next(&suspects[1].reader), READER_READY);
    assert_true(are_starving());
    readers_go_on(&w.readers);
    assert_int_equal(next.n_ready, 0);

    reader_advance(&full.reader);
    reader_advance(&suspects[1].reader);
    readers_go_on(&w.readers);
    assert_int_equal(next.n_ready, 1);
    assert_holds(&next.reader, 1, 2);
    assert_int_equal(suspects[0].n_ready, 0);
    reader_release(&suspects[0].reader); /* waits no longer */
    assert_false(are_starving());
    reader_advance(&next.reader);
    readers_go_on(&w.readers);
    assert_int_equal(suspects[0].n_ready, 0);
}

/* A client alone holds seven eighths (CLIENT_BODIES): it waits, and the readers
 * of others pass it by. A reader that shares a message pays nothing. */
TEST(a_client_leaves_room_for_others)
{
    enum { N = 8 };
    struct client *greedy = client_of_owner(&w.clients, SLICE("greedy"));
    struct client *other = client_of_owner(&w.clients, SLICE("other"));
    struct owner of_greedy[N + 1], of_other[3];

    fake_log.weight = BUDGET / N;
    fake_log.most = 1;
    fake_log.head = 2 * N;
    for (unsigned i = 0; i <= N; i++) {
        begin(&of_greedy[i], i < N ? i : 0);
        of_greedy[i].reader.client = greedy;
    }
    for (unsigned i = 0; i < 3; i++) {
        begin(&of_other[i], N + i);
        of_other[i].reader.client = other;
    }
    for (unsigned i = 0; i < N - 1; i++)
        assert_int_equal(reader_next(&of_greedy[i].reader), READER_READY);
    assert_int_equal(client_held(greedy, CLIENT_BODIES), BUDGET / N * (N - 1));
    assert_int_equal(reader_next(&of_greedy[N - 1].reader), READER_LATER);
    assert_int_equal(reader_next(&of_greedy[N].reader), READER_READY);
    assert_int_equal(reader_next(&of_other[0].reader), READER_READY);
    assert_int_equal(reader_next(&of_other[1].reader), READER_LATER);
    reader_advance(&of_other[0].reader);
    assert_int_equal(client_held(other, CLIENT_BODIES), 0);
    readers_go_on(&w.readers);
    assert_int_equal(of_greedy[N - 1].n_ready, 0);
    assert_holds(&of_other[1].reader, N + 1, N + 2);

    for (unsigned i = 1; i < N - 1; i++)
        reader_advance(&of_greedy[i].reader);
    reader_advance(&of_other[1].reader);
    readers_go_on(&w.readers);
    assert_holds(&of_greedy[N - 1].reader, N - 1, N);
    for (unsigned i = 0; i <= N; i++)
        reader_release(&of_greedy[i].reader);
    assert_int_equal(client_held(greedy, CLIENT_BODIES), 0);
    client_unref(greedy);
    client_unref(other);
}

/* However many rest at the head, a wake takes some, and no reader twice. */
TEST(news_wakes_readers_in_turns)
{
    struct owner o[5];
    unsigned n = 0;

    for (int i = 0; i < 5; i++) {
        begin(&o[i], 0);
        assert_int_equal(reader_next(&o[i].reader), READER_HEAD);
    }
    reader_release(&o[4].reader); /* one leaves */
    watched_channel_wake(&w.channel, 3);
    assert_int_equal(w.n_wakes, 1);
    assert_int_equal(reader_rest(&o[0].reader), READER_HEAD);
    watcher_take(&w.readers.watcher);
    assert_ptr_equal(watcher_next(&w.readers.watcher), &w.channel.watched);
    watched_clear(&w.channel.watched);
    watched_channel_wake(&w.channel, 3);
    assert_int_equal(w.n_wakes, 1);
    for (int i = 0; i < 5; i++)
        n += o[i].n_ready;
    assert_int_equal(n, 5); /* the first looked twice, the last not at all */
    assert_int_equal(o[4].n_ready, 0);
    for (int i = 0; i < 5; i++)
        reader_release(&o[i].reader);
}

static void
free_owner(struct reader *reader)
{
    reader_release(reader);
    free(list_entry(reader, struct owner, reader));
}

/* Without memory for a job a load ends within reader_next, and its reader may
 * be freed there. */
TEST(a_load_may_end_at_once)
{
    struct owner *o = calloc(1, sizeof(*o));

    assert_non_null(o);
    fake_log.head = fake_log.on_disk = 5;
    fake_log.has_no_memory = true;
    reader_init(&o->reader, &w.channel, 0, free_owner);
    assert_int_equal(reader_next(&o->reader), READER_LATER);
    assert_int_equal(fake_log.n_made_by_worker, 1);
}

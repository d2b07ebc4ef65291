#include "broker/readers/shared_messages.h"

#include <string.h>

#include "tests/test.h"
#include "tests/unit/readers/fake_log.h"

#define BUDGET ((size_t)64 << 10)

static struct world {
    struct shared_messages messages;
    unsigned n_loaded, n_waiters;
    struct shared_message *loaded; /* the last, or freed by now */
    enum status status;            /* of the last */
    uint64_t loaded_after[8];      /* in order */
} w;

static void
on_loaded(struct shared_message *message, enum status status,
          struct list *waiters)
{
    w.loaded = message;
    w.status = status;
    while (!list_is_empty(waiters)) {
        list_remove(waiters->next);
        w.n_waiters++;
    }
    if (message)
        w.loaded_after[w.n_loaded] = message->wish.after;
    w.n_loaded++;
}

static const struct shared_calls calls = {
    .part = "test",
    .make = fake_log_make,
    .work = fake_log_work,
    .is_stopping = fake_log_is_stopping,
};

static int
set_up(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    fake_log_begin();
    shared_messages_init(&w.messages, &calls, on_loaded, BUDGET);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    assert_int_equal(w.messages.held_bytes, 0);
    assert_int_equal(w.messages.suspect_bytes, 0);
    shared_messages_fini(&w.messages);
    assert_int_equal(w.messages.n_idle, 0);
    assert_int_equal(w.messages.idle_bytes, 0);
    return 0;
}

static struct shared_wish
wish_for(uint64_t after, uint64_t upto)
{
    return (struct shared_wish){
        .channel = {.epoch = "0123456789abcdef", .end = UINT64_MAX},
        .after = after,
        .upto = upto,
    };
}

static struct shared_message *
made_for(const struct shared_wish *wish)
{
    struct shared_message *message;

    assert_int_equal(shared_messages_make(&w.messages, &message, wish),
                     STATUS_OK);
    return message;
}

static struct shared_message *
made(uint64_t after, uint64_t upto)
{
    struct shared_wish wish = wish_for(after, upto);

    return made_for(&wish);
}

static void
settle(struct shared_message *message)
{
    shared_messages_settle(&w.messages, message);
}

static struct shared_message *
found_for(const struct shared_wish *wish)
{
    struct shared_message *message =
        shared_messages_find(&w.messages, wish, fake_log.head);

    if (message)
        settle(message);
    return message;
}

static struct shared_message *
found(uint64_t after, uint64_t upto)
{
    struct shared_wish wish = wish_for(after, upto);

    return found_for(&wish);
}

FIXTURE(set_up, tear_down);

/* Messages */

/* An unheld message is found for a while; but not one that lacks newer entries,
 * except by a reader that wants that very range. */
TEST(are_found_as_long_as_they_serve)
{
    struct shared_message *message;

    fake_log.head = 3;
    message = made(0, UINT64_MAX);
    settle(message);
    assert_ptr_equal(found(0, UINT64_MAX), message);
    assert_null(found(1, UINT64_MAX));
    fake_log.head = 4;
    assert_null(found(0, UINT64_MAX));
    assert_ptr_equal(found(0, 3), message);
    assert_null(found(0, 2));
}

/* A full message serves also when there is more behind it. */
TEST(are_found_where_they_are_full)
{
    struct shared_message *message;

    fake_log.head = 20;
    fake_log.most = 10;
    message = made(0, UINT64_MAX);
    assert_int_equal(message->last, 10);
    settle(message);
    assert_ptr_equal(found(0, UINT64_MAX), message);
}

/* All that determines the bytes tells two messages apart. */
TEST(are_found_for_the_same_bytes_only)
{
    struct filter_class filters[2] = {{.id = 1}, {.id = 2}};
    struct shared_wish wish = wish_for(0, UINT64_MAX), other;
    struct shared_message *message;
    struct set set;

    fake_log.head = 3;
    wish.filter = &filters[0];
    message = made_for(&wish);
    settle(message);
    assert_ptr_equal(found_for(&wish), message);

    other = wish;
    other.channel.kind = 1;
    assert_null(found_for(&other));
    other = wish;
    other.channel.set = &set;
    assert_null(found_for(&other));
    other = wish;
    other.channel.epoch[0] = 'f';
    assert_null(found_for(&other));
    other = wish;
    other.form = 1;
    assert_null(found_for(&other));
    other = wish;
    other.filter = &filters[1];
    assert_null(found_for(&other));
    filters[1].id = 1; /* an address says nothing: the id does */
    assert_ptr_equal(found_for(&other), message);
}

/* An empty message serves every reader that begins to search at its place,
 * wherever the last message of the reader ended. */
TEST(serve_all_that_search_there_if_they_are_empty)
{
    struct filter_class filter = {.id = 1};
    struct shared_wish wish = wish_for(2, UINT64_MAX);
    struct shared_message *message;

    fake_log.head = fake_log.passing = 9;
    wish.filter = &filter;
    wish.reached = 5;
    message = made_for(&wish);
    assert_int_equal(message->size, 0);
    settle(message);
    wish.after = 4;
    assert_ptr_equal(found_for(&wish), message);
    wish.after = wish.reached = 5;
    assert_ptr_equal(found_for(&wish), message);
    wish.reached = 6;
    assert_null(found_for(&wish));
}

/* A reader finds a message and makes others before it holds the first: the
 * first stays. */
TEST(stay_while_they_are_looked_at)
{
    struct shared_message *message;
    struct shared_wish wish = wish_for(0, 1);

    fake_log.head = SHARED_MESSAGES_KEPT + 2;
    settle(made(0, 1));
    message = shared_messages_find(&w.messages, &wish, 0);
    assert_non_null(message);
    shared_messages_hold(&w.messages, message, false); /* another reader */
    shared_messages_release(&w.messages, message, false);
    for (uint64_t after = 1; after < fake_log.head; after++)
        settle(made(after, after + 1));
    assert_ptr_equal(found(0, 1), message);
    settle(message);
}

/* W-092: a held message counts once, for suspects too. Suspects may hold up to
 * a half, and share messages that they hold already. */
TEST(count_while_they_are_held)
{
    struct shared_messages *all = &w.messages;
    struct shared_message *a, *b;

    all->max_bytes = 40000;
    fake_log.weight = 20000;
    fake_log.head = 2;
    a = made(0, 1);
    b = made(1, 2);
    assert_int_equal(all->held_bytes, 0);

    shared_messages_hold(all, a, false);
    shared_messages_hold(all, a, false);
    assert_int_equal(all->held_bytes, a->size);
    assert_int_equal(all->suspect_bytes, 0);
    assert_true(shared_messages_have_room(all, NULL, true));
    shared_messages_hold(all, a, true);
    assert_int_equal(all->held_bytes, a->size);
    assert_int_equal(all->suspect_bytes, a->size);
    assert_false(shared_messages_have_room(all, NULL, true));
    assert_false(shared_messages_have_room(all, b, true));
    assert_true(shared_messages_have_room(all, a, true));
    assert_true(shared_messages_have_room(all, NULL, false));
    shared_messages_hold(all, b, false);
    assert_false(shared_messages_have_room(all, NULL, false));
    assert_true(shared_messages_have_room(all, b, false));

    shared_messages_release(all, a, false);
    shared_messages_release(all, a, false);
    assert_int_equal(all->held_bytes, a->size + b->size);
    shared_messages_release(all, a, true);
    shared_messages_release(all, b, false);
    settle(a);
    settle(b);
}

/* Of two at one place the newer, which says more, is found; a reader that needs
 * the rest of a certain message gets that one. */
TEST(are_found_newest_first)
{
    struct shared_message *shorter, *longer;
    struct shared_wish wish = wish_for(1, UINT64_MAX);

    fake_log.head = 5;
    shorter = made(1, 3);
    longer = made(1, 5);
    settle(shorter);
    settle(longer);
    assert_ptr_equal(found_for(&wish), longer);
    wish.upto = 3;
    assert_ptr_equal(found_for(&wish), shorter);
    wish.upto = 4;
    assert_null(found_for(&wish));
}

/* A heartbeat carries the clock, and an empty message says that there was
 * nothing at that moment: nobody finds them, and both count while somebody
 * holds them. */
TEST(are_not_found_without_entries)
{
    struct shared_wish empty = wish_for(5, UINT64_MAX), beat = empty;
    struct shared_message *a, *b;

    fake_log.head = 5;
    beat.is_heartbeat = true;
    a = made_for(&beat);
    b = made_for(&empty);
    shared_messages_hold(&w.messages, a, false);
    settle(a);
    assert_null(found_for(&beat));
    assert_null(found_for(&empty));
    assert_int_equal(shared_messages_bytes(&w.messages), a->size);
    settle(b); /* is freed */
    shared_messages_release(&w.messages, a, false);
    assert_int_equal(w.messages.n_idle, 0);

    settle(made(2, 5));
    beat.after = 2;
    assert_null(found_for(&beat)); /* another message at its place */
}

/* The number and the bytes of unheld messages are limited. */
TEST(are_not_kept_for_long)
{
    fake_log.head = 2 * SHARED_MESSAGES_KEPT;
    for (unsigned i = 0; i < fake_log.head; i++)
        settle(made(i, i + 1));
    assert_int_equal(w.messages.n_idle, SHARED_MESSAGES_KEPT);
    assert_null(found(0, 1));
    assert_non_null(found(fake_log.head - 1, fake_log.head));
    fake_log.weight = SHARED_MESSAGES_KEPT_BYTES / 4;
    for (unsigned i = 0; i < 8; i++)
        settle(made(i, i + 1));
    assert_int_equal(w.messages.n_idle, 4);
    assert_int_equal(w.messages.idle_bytes, SHARED_MESSAGES_KEPT_BYTES);
}

/* Loads */

struct reader {
    struct list node;
};

/* Has a reader wait for a message from the disk; a new one has a node in no
 * list. */
static void
load(struct reader *reader, uint64_t after, bool is_suspect)
{
    struct shared_wish wish = wish_for(after, UINT64_MAX);

    list_init(&reader->node);
    shared_messages_load(&w.messages, &wish, is_suspect, &reader->node);
}

/* Begins as many loads as may run at once. */
static void
load_all_that_may_run(struct reader *readers)
{
    for (uint64_t i = 0; i < SHARED_MESSAGES_LOADS; i++)
        load(&readers[i], 100 + i, false);
    assert_int_equal(fake_log.n_jobs, SHARED_MESSAGES_LOADS);
}

TEST(readers_with_the_same_wish_share_a_load)
{
    struct shared_wish wish = wish_for(0, UINT64_MAX);
    struct shared_message *message;
    struct reader readers[3];

    fake_log.head = fake_log.on_disk = 9;
    assert_int_equal(shared_messages_make(&w.messages, &message, &wish),
                     STATUS_AGAIN);
    load(&readers[0], 0, false);
    fake_log.on_disk =
        0; /* while the load runs, nobody else makes the message */
    assert_int_equal(shared_messages_make(&w.messages, &message, &wish),
                     STATUS_AGAIN);
    load(&readers[1], 0, false);
    load(&readers[2], 1, false);
    assert_int_equal(fake_log.n_jobs, 2);
    fake_log_run_job();
    assert_int_equal(w.n_loaded, 1);
    assert_int_equal(w.n_waiters, 2);
    assert_int_equal(w.status, STATUS_OK);
    assert_ptr_equal(found(0, UINT64_MAX), w.loaded);
    fake_log_run_job();
    assert_int_equal(w.n_waiters, 3);
    assert_int_equal(fake_log.n_made, 2);
}

/* However many readers are behind, few loads run at once, and no load for a
 * reader that has gone. */
TEST(a_load_without_readers_is_not_begun)
{
    struct reader readers[SHARED_MESSAGES_LOADS + 2];
    struct reader *gone = &readers[SHARED_MESSAGES_LOADS], *next = gone + 1;

    fake_log.head = fake_log.on_disk = 200;
    load_all_that_may_run(readers);
    load(gone, 1, false);
    load(next, 2, false);
    assert_int_equal(fake_log.n_jobs, SHARED_MESSAGES_LOADS);
    list_remove(&gone->node);
    list_remove(&readers[0].node); /* runs, and ends for nobody */
    fake_log_run_job();
    assert_int_equal(w.n_waiters, 0);
    assert_int_equal(fake_log.n_jobs, SHARED_MESSAGES_LOADS);
    fake_log_run_jobs();
    assert_int_equal(w.n_loaded, SHARED_MESSAGES_LOADS + 1);
    assert_int_equal(fake_log.n_made, SHARED_MESSAGES_LOADS + 1);
    assert_null(found(1, UINT64_MAX));
}

/* W-092: a suspect waits behind every healthy reader, and for room of its own;
 * a load that a healthy reader also wants is healthy. */
TEST(loads_of_suspects_come_last)
{
    struct reader readers[SHARED_MESSAGES_LOADS], suspects[2], healthy[2];
    const uint64_t *after = w.loaded_after + SHARED_MESSAGES_LOADS;
    struct shared_message *held;

    fake_log.head = fake_log.on_disk = 200;
    load_all_that_may_run(readers);
    load(&suspects[0], 1, true);
    load(&suspects[1], 2, true);
    load(&healthy[0], 3, false);
    load(&healthy[1], 2, false);
    fake_log_run_jobs();
    assert_int_equal(w.n_waiters, SHARED_MESSAGES_LOADS + 4);
    assert_int_equal(after[0], 3);
    assert_int_equal(after[1], 2);
    assert_int_equal(after[2], 1);

    fake_log.on_disk = 0;
    fake_log.weight = BUDGET / 2;
    held = made(0, 1);
    shared_messages_hold(&w.messages, held, true);
    settle(held);
    fake_log.on_disk = 200;
    load(&suspects[0], 4, true);
    assert_int_equal(fake_log.n_jobs, 0);
    load(&healthy[0], 5, false);
    assert_int_equal(fake_log.n_jobs, 1);
    fake_log_run_job();
    shared_messages_release(&w.messages, held, true);
    shared_messages_go_on(&w.messages);
    fake_log_run_job();
    assert_int_equal(w.n_waiters, SHARED_MESSAGES_LOADS + 6);
}

/* A load begins when there is room for its message. */
TEST(loads_wait_for_room)
{
    struct shared_message *held;
    struct reader reader;

    fake_log.head = 2;
    fake_log.weight = BUDGET;
    held = made(0, 1);
    shared_messages_hold(&w.messages, held, false);
    settle(held);
    fake_log.on_disk = 2;
    load(&reader, 1, false);
    assert_int_equal(fake_log.n_jobs, 0);
    shared_messages_release(&w.messages, held, false);
    shared_messages_go_on(&w.messages);
    fake_log_run_job();
    assert_int_equal(w.n_waiters, 1);
}

TEST(a_load_that_fails_says_why)
{
    struct reader reader;

    fake_log.head = fake_log.on_disk = 7;
    fake_log.status = STATUS_GONE;
    load(&reader, 0, false);
    fake_log_run_job();
    assert_null(w.loaded);
    assert_int_equal(w.status, STATUS_GONE);
    assert_int_equal(w.n_waiters, 1);
}

/* A job may end within the call that begins it. */
TEST(loads_go_on_without_memory_for_a_job)
{
    struct reader readers[SHARED_MESSAGES_LOADS], more[3];

    fake_log.head = fake_log.on_disk = 200;
    load_all_that_may_run(readers);
    for (uint64_t i = 0; i < 3; i++)
        load(&more[i], i, false);
    fake_log.has_no_memory = true;
    fake_log_run_jobs();
    assert_int_equal(w.n_waiters, SHARED_MESSAGES_LOADS + 3);
}

/* The end of the owner waits for the loads that run, and for no other. */
TEST(no_load_begins_at_the_end)
{
    struct reader readers[SHARED_MESSAGES_LOADS], last;

    fake_log.head = fake_log.on_disk = 200;
    load_all_that_may_run(readers);
    load(&last, 1, false);
    fake_log.is_stopping = true;
    fake_log_run_jobs();
    assert_int_equal(w.n_loaded, SHARED_MESSAGES_LOADS);
    list_remove(&last.node);
}

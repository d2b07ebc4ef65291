/* Messages that fail for a passing reason: held, in order, as long as it takes,
 * and never acknowledged. */
#include "broker/bridge/inbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/bridge_quiet/inbound_stage.h"

/* The disk has as much free as the test says: this is instead of libc's. With
 * plenty of room the log would not look for a while. */
#define DISK_FULL ((uint64_t)1 << 20)
#define DISK_ROOM ((uint64_t)512 << 20)
static _Atomic(uint64_t) disk_bytes = DISK_ROOM;

int
fstatvfs(int fd, struct statvfs *disk)
{
    (void)fd;
    *disk = (struct statvfs){.f_frsize = 1, .f_bavail = disk_bytes};
    return 0;
}

/* A turn of the client on a thread of its own, as one that holds messages does
 * not end. */
struct turn {
    pthread_t id;
    atomic_bool is_over;
};

static void *
run_turn(void *user)
{
    struct turn *t = user;

    quiet_mqtt_turn();
    atomic_store(&t->is_over, true);
    return NULL;
}

static void
begin_turn(struct turn *t)
{
    atomic_store(&t->is_over, false);
    assert_int_equal(pthread_create(&t->id, NULL, run_turn, t), 0);
}

/* Until something keeps it from going on. */
static void
await_stuck(struct in_stage *s)
{
    AWAIT(report(s).why.text[0]);
}

static void
end_turn(struct turn *t)
{
    assert_int_equal(pthread_join(t->id, NULL), 0);
    assert_true(atomic_load(&t->is_over));
}

/* [entry, entry, ...] with `n` of them; the caller's. */
static char *
many_entries(size_t n)
{
    static const char entry[] = "," ENTRY("2");
    struct buf text;

    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        buf_add_text(&text, entry);
    BUF_ADD(&text, "]");
    buf_add(&text, "", 1);
    assert_false(text.failed);
    text.data[0] = '[';
    return text.data;
}

/* Leaves others no more than `rest` bytes of the memory for posts. */
static size_t
take_budget(struct in_stage *s, size_t rest)
{
    size_t taken = (size_t)s->sets.config.ingest_bytes - rest;

    assert_int_equal(clients_take(&s->sets.registry->clients, NULL,
                                  CLIENT_POSTS, taken, NULL),
                     STATUS_OK);
    return taken;
}

static void
give_budget(struct in_stage *s, size_t taken)
{
    clients_give(&s->sets.registry->clients, NULL, CLIENT_POSTS, taken);
}

FIXTURE(in_stage_setup, in_stage_teardown);

/* A message without room stays, and so do all behind it, though there would be
 * room for these: the order stays, nothing is kept twice, and the turn ends
 * only when all are kept. */
TEST(holds_messages_in_order_while_there_is_no_room)
{
    char *large = many_entries(1000);
    struct in_stage *s = *state;
    struct turn turn;
    struct buf expected;
    size_t taken;

    taken = take_budget(s, 100000);
    receive("a/x", ENTRY("1"));
    receive("a/x", large);
    receive("a/x", ENTRY("3"));
    receive("plant/hof", ENTRY("4"));
    receive("a/x", "bananas");
    begin_turn(&turn);
    await_stuck(s);
    assert_string_equal(report(s).why.text,
                        "too much is being posted at the moment");
    assert_locs(s, "alpha", "1");
    assert_int_equal(last_of(s, "rest"), 0);
    assert_int_equal(report(s).rejected, 0);
    assert_false(atomic_load(&turn.is_over));
    clock_await_us(INBOX_PAUSE_US);

    give_budget(s, taken);
    clock_pass_us(INBOX_PAUSE_US);
    end_turn(&turn);
    buf_init(&expected, SIZE_MAX);
    BUF_ADD(&expected, "1");
    for (unsigned i = 0; i < 1000; i++)
        BUF_ADD(&expected, " 2");
    buf_add(&expected, " 3", 3);
    assert_locs(s, "alpha", expected.data);
    assert_locs(s, "rest", "4");
    assert_int_equal(report(s).posted, 4);
    assert_int_equal(report(s).rejected, 1);
    assert_string_equal(report(s).why.text, "");
    assert_false(quiet_mqtt->was_dropped);
    give_budget(s, take_budget(s, 0)); /* nothing is reserved */
    buf_fini(&expected);
    free(large);
}

/* More than fits at once is no failure: it goes in parts. */
TEST(takes_as_much_at_a_time_as_there_is_room_for)
{
    struct in_stage *s = *state;
    size_t taken;

    taken = take_budget(s, 200000);
    for (unsigned i = 0; i < 50; i++)
        receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    assert_int_equal(last_of(s, "alpha"), 50);
    assert_int_equal(report(s).posted, 50);
    give_budget(s, taken);
}

/* While the disk is full nothing is kept, rejected or acknowledged; then all
 * is, in order. */
TEST(holds_messages_while_the_disk_is_full)
{
    struct in_stage *s = *state;
    struct turn turn;

    RECEIVE(ENTRY("1"), .key = SLICE("k-1"));
    quiet_mqtt_turn();
    atomic_store(&disk_bytes, DISK_FULL);

    RECEIVE(ENTRY("1"), .key = SLICE("k-1")); /* a repeat needs no room */
    receive("a/x", ENTRY("2"));
    receive("plant/hof", ENTRY("3"));
    RECEIVE(ENTRY("1"),
            .key = SLICE("k-1")); /* but it waits for the earlier ones */
    receive("a/x", ENTRY("4"));
    receive("a/x", "bananas");
    begin_turn(&turn);
    await_stuck(s);
    assert_string_equal(report(s).why.text, "the disk is nearly full");
    assert_int_equal(last_of(s, "alpha"), 1);
    assert_int_equal(last_of(s, "rest"), 0);
    assert_int_equal(report(s).posted, 2);
    assert_int_equal(report(s).rejected, 0);
    assert_false(atomic_load(&turn.is_over));
    clock_await_us(INBOX_PAUSE_US);

    atomic_store(&disk_bytes, DISK_ROOM);
    clock_pass_us(INBOX_PAUSE_US);
    end_turn(&turn);
    assert_locs(s, "alpha", "1 2 4");
    assert_locs(s, "rest", "3");
    assert_int_equal(report(s).posted, 6);
    assert_int_equal(report(s).rejected, 1);
    assert_false(quiet_mqtt->was_dropped);
}

/* The bridge drops the connection before the MQTT broker considers it dead, as
 * it can write nothing; messages that were not kept come again. */
TEST(drops_the_connection_when_it_takes_too_long, in_stage_setup_closed,
     in_stage_teardown)
{
    struct in_stage *s = *state;
    size_t taken;

    s->config.keepalive_us = (int64_t)24 * 3600 * 1000000;
    in_stage_start(s);
    quiet_mqtt->keepalive_us = 0; /* the time that the MQTT broker measures */
    taken = take_budget(s, 0);
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn(); /* drops, and loses */
    assert_false(quiet_mqtt->is_connected);
    assert_string_equal(quiet_mqtt->why_dropped.text,
                        "too much is being posted at the moment");
    assert_string_equal(report(s).why.text,
                        "too much is being posted at the moment");
    quiet_mqtt_turn();

    quiet_mqtt_connect(true);
    quiet_mqtt_grant(3, 1);
    assert_int_equal(quiet_mqtt->n_proofs, 0); /* it is no better than before */
    give_budget(s, taken);
    receive("a/x", ENTRY("1"));
    quiet_mqtt_turn();
    assert_locs(s, "alpha", "1");
    assert_string_equal(report(s).why.text, "");
    assert_int_equal(quiet_mqtt->n_proofs, 1);
}

/* Later messages of that connection do not count: they get no acknowledgement,
 * so the broker must not keep them either. */
TEST(takes_nothing_by_a_connection_that_it_dropped, in_stage_setup_closed,
     in_stage_teardown)
{
    struct in_stage *s = *state;
    size_t taken;

    s->config.keepalive_us = 0;
    in_stage_start(s);
    taken = take_budget(s, 0);
    for (unsigned i = 0; i < INBOX_MESSAGES; i++)
        receive("a/x", ENTRY("1"));
    assert_true(quiet_mqtt->was_dropped);
    give_budget(s, taken);
    receive("a/x", ENTRY("2"));
    quiet_mqtt_turn();
    assert_int_equal(last_of(s, "alpha"), 0);
    assert_int_equal(report(s).received, INBOX_MESSAGES);
}

/* Held messages do not delay the end: the bridge leaves them to the MQTT
 * broker. */
TEST(ends_though_messages_are_held)
{
    struct in_stage *s = *state;
    size_t taken;

    taken = take_budget(s, 0);
    receive("a/x", ENTRY("1"));
    inbound_stop(s->in);
    assert_string_equal(quiet_mqtt->why_dropped.text,
                        "too much is being posted at the moment");
    give_budget(s, taken);
    assert_int_equal(last_of(s, "alpha"), 0);
}

/* Passes and pauses until everything is settled, all of it committed; false:
 * not in that time. */
static bool
settle(struct inbox *round, int64_t patience_us, struct problem *why)
{
    struct inbox_message *h;

    inbox_begin(round, patience_us);
    while (round->n > 0) {
        if (inbox_pass(round, why) == 0 && !inbox_pause(round))
            return false;
        while ((h = inbox_take(round))) {
            assert_int_equal(h->rc, STATUS_OK);
            inbox_message_free(h);
        }
    }
    return true;
}

static void *
run_settle(void *user)
{
    static bool is_settled;
    struct problem why = {""};

    is_settled = settle(user, (int64_t)3600 * 1000000, &why);
    return &is_settled;
}

/* Also in the middle of a pause. */
TEST(ends_in_a_pause)
{
    struct mqtt_received m;
    struct in_stage *s = *state;
    struct bridge_rights rights;
    struct inbox round;
    pthread_t id;
    size_t taken;
    void *rc;

    taken = take_budget(s, 0);
    bridge_rights_init(&rights, s->sets.registry, &s->config, "in");
    inbox_init(&round, &s->sets.posts, &rights);
    m = in_stage_message("a/x", ENTRY("1"));
    inbox_add(&round, inbox_message_new(&m, &s->inputs[0], 1000));
    assert_int_equal(pthread_create(&id, NULL, run_settle, &round), 0);
    clock_await_us(INBOX_PAUSE_US);
    inbox_end(&round);
    assert_int_equal(pthread_join(id, &rc), 0);
    assert_false(*(bool *)rc);
    assert_true(round.n > 0);
    inbox_fini(&round);
    give_budget(s, taken);
}

/* The messages of a pass are one line. Otherwise, if the disk got room again,
 * the log would keep a message right after it has refused the one before:
 * behind a refusal it keeps nothing in that pass, and everything in the
 * next. */
TEST(hands_its_messages_over_in_one_line)
{
    struct problem why = {""};
    struct mqtt_received m;
    struct in_stage *s = *state;
    struct bridge_rights rights;
    struct inbox round;

    bridge_rights_init(&rights, s->sets.registry, &s->config, "in");
    inbox_init(&round, &s->sets.posts, &rights);
    m = in_stage_message("a/x", ENTRY("1"));
    inbox_add(&round, inbox_message_new(&m, &s->inputs[0], 1000));
    m = in_stage_message("plant/hof", ENTRY("2"));
    inbox_add(&round, inbox_message_new(&m, &s->inputs[2], 1000));

    round.line.is_broken = true; /* as a refusal leaves it */
    assert_false(settle(&round, 0, &why));
    assert_string_equal(
        why.text, "an earlier post that must come first was not committed");
    assert_int_equal(last_of(s, "alpha"), 0);
    assert_int_equal(last_of(s, "rest"), 0);
    assert_true(settle(&round, 0, &why));
    assert_locs(s, "alpha", "1");
    assert_locs(s, "rest", "2");
    inbox_fini(&round);
}

/* A message that has all memory for posts to itself, and needs more, would keep
 * back all others for ever: it is bad. */
TEST(rejects_what_never_finds_room, in_stage_setup_closed, in_stage_teardown)
{
    char *large = many_entries(30000);
    struct in_stage *s = *state;
    struct turn turn;

    s->sets.config.ingest_bytes = 1 << 20;
    in_stage_start(s);
    receive("a/x", ENTRY("1"));
    receive("a/x", large);
    receive("a/x", ENTRY("3"));
    begin_turn(&turn);
    for (int64_t us = INBOX_PAUSE_US; us <= 8 * INBOX_PAUSE_US; us *= 2) {
        clock_await_us(us);
        clock_pass_us(us);
    }
    end_turn(&turn);
    assert_locs(s, "alpha", "1 3");
    assert_rejected(0, "\"status\":413", "--ingest-bytes 1048576", NULL);
    free(large);
}

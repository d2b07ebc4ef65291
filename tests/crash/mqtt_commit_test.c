/*
 * mqtt_commit_test.c - what comes in by a bridge, and a kill or a disk that
 * fails at the very moment that counts: in the commit, between the commit and
 * the acknowledgement, while messages are held (design.md, section 5; in.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/faults.h"
#include "tests/support/jsonpath.h"
#include "tests/test.h"

#define WAL "tidings.db-wal"

/* While nobody asks over HTTP, all that the broker writes to sockets is the
 * bridge's: for each packet that it queues the library wakes itself through a
 * socket; then, in the order in which they were queued, it writes them. */
#define SOCKET "socket:"

#define KILLED (128 + SIGKILL)

/* What the broker believes to be free where it has no room, and where it has;
 * with plenty the log would not look for a while. */
#define DISK_FULL ((int64_t)1 << 20)
#define DISK_ROOM ((int64_t)512 << 20)

static struct faults faults;

static int
clear_stage(void **state)
{
    if (faults.plan)
        faults_disarm(&faults);
    bridge_stage_teardown(state);
    faults_close(&faults);
    return 0;
}

/* Both inputs are granted when the second one is. */
static void
await_granted(struct bridge_stage *s)
{
    mosquittod_await_subscription(&s->mqtt, "b");
}

static struct bridge_stage *
begin(void **state, const char *keys)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);

    /* Behind Mosquitto, which meets no faults. */
    faults_open(&faults);
    faults_set_disk(&faults, DISK_ROOM);
    bridge_stage_config(
        s,
        "[mqtt a]\nurl = %s\nin = a -> left\nin = b -> right\n%s" BRIDGE_QUICK,
        s->mqtt.url, keys);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    await_granted(s);
    s->teller = mqtt_peer_tell(&s->mqtt, NULL);
    return s;
}

/* Tells change number `i`; `key`: with a key of its own. Returns when the MQTT
 * broker has it. */
static void
say(struct bridge_stage *s, const char *topic, unsigned i, bool has_key)
{
    char text[100], key[20];
    size_t n;

    snprintf(text, sizeof(text),
             "{\"loc\":\"http://example.com/r/%u\",\"change\":\"updated\"}", i);
    snprintf(key, sizeof(key), "k%u", i);
    n = mqtt_peer_say(s->teller,
                      &(struct mqtt_saying){.topic = topic,
                                            .payload = slice_of(text),
                                            .key = has_key ? key : NULL});
    mqtt_peer_await_said(s->teller, n);
}

/* The set has these changes and no others, in this order. */
static void
assert_changes(struct bridge_stage *s, const char *set, const unsigned *numbers,
               size_t n)
{
    struct jsonpath j;
    char path[80], loc[60];

    bridge_stage_await_last(&s->http, set, n);
    snprintf(path, sizeof(path), "/sets/%s/changes?after=0", set);
    assert_int_equal(http_ask(&s->http, "GET", path, NULL), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "changes.%zu.loc", i);
        snprintf(loc, sizeof(loc), "http://example.com/r/%u", numbers[i]);
        assert_string_equal(jsonpath_text(&j, path), loc);
    }
    jsonpath_close(&j);
}

#define ASSERT_CHANGES(s, set, ...)                             \
    assert_changes((s), (set), (const unsigned[]){__VA_ARGS__}, \
                   sizeof((const unsigned[]){__VA_ARGS__}) / sizeof(unsigned))

/* Killed there; starts again, with a disk and sockets that work. */
static void
await_kill(struct bridge_stage *s)
{
    assert_int_equal(broker_wait(&s->broker), KILLED);
    assert_int_equal(faults_disarm(&faults), 1);
    broker_restart(&s->broker);
}

FIXTURE(NULL, clear_stage);

/* Nothing of it is kept, and nothing is acknowledged: it comes again, with a
 * key or without, and is kept once. */
TEST(a_kill_before_the_commit_loses_nothing)
{
    struct bridge_stage *s = begin(state, "");

    for (unsigned has_key = 0; has_key <= 1; has_key++) {
        faults_arm(&faults, PLAN_WRITE, WAL, 0, PLAN_KILL);
        say(s, "a", 1 + has_key, has_key);
        await_kill(s);
        bridge_stage_await_last(&s->http, "left", 1 + has_key);
        bridge_stage_await(s, "bridges.0.in.posted", 1);
    }
    say(s, "a", 3, false);
    ASSERT_CHANGES(s, "left", 1, 2, 3);
    bridge_stage_end(s);
}

/* It is kept, and not acknowledged, so it comes again: with a key it is known,
 * without one it is kept twice, and counted. Then it is acknowledged, for good.
 */
TEST(a_kill_before_the_acknowledgement_repeats_what_has_no_key)
{
    for (unsigned has_key = 0; has_key <= 1; has_key++) {
        struct bridge_stage *s = begin(state, "");

        /* Behind the wake it is PUBACK itself. */
        faults_arm(&faults, PLAN_WRITE, SOCKET, 1, PLAN_KILL);
        say(s, "a", 1, has_key);
        await_kill(s);
        bridge_stage_await(s, "bridges.0.in.posted", 1);
        bridge_stage_await(s, "bridges.0.in.repeats", has_key ? 0 : 1);
        assert_int_equal(bridge_stage_number(s, "bridges.0.in.received"), 1);
        assert_int_equal(bridge_stage_number(s, "bridges.0.in.repeats"),
                         has_key ? 0 : 1);
        broker_stop(&s->broker); /* now it is acknowledged */

        broker_restart(&s->broker);
        say(s, "a", 2, false);
        if (has_key)
            ASSERT_CHANGES(s, "left", 1, 2);
        else
            ASSERT_CHANGES(s, "left", 1, 1, 2);
        assert_int_equal(bridge_stage_number(s, "bridges.0.in.received"), 1);
        bridge_stage_end(s);
        clear_stage(state);
    }
}

/* A problem is told, and the bad message acknowledged, in one go: if that is
 * cut off the message comes again, is rejected again, and stops nothing. */
TEST(a_kill_before_a_rejection_is_told_repeats_it)
{
    struct bridge_stage *s = begin(state, "prefix = a\n");
    struct mqtt_saying bad = {.topic = "a", .payload = SLICE("nonsense")};

    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.filters = {"a/rejected"}});
    /* PUBACK is queued, and the problem; PUBACK is written. */
    faults_arm(&faults, PLAN_WRITE, SOCKET, 2, PLAN_KILL);
    mqtt_peer_await_said(s->teller, mqtt_peer_say(s->teller, &bad));
    await_kill(s);
    mqtt_peer_await(s->hearer, "a/rejected", 1);
    say(s, "a", 1, false);
    ASSERT_CHANGES(s, "left", 1);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.rejected"), 1);
    assert_int_equal(mqtt_peer_count(s->hearer), 1);
    bridge_stage_end(s);
}

/* A commit that fails with an outcome nobody knows ends the broker, also while
 * a bridge waits for it; nothing was acknowledged. R-141 */
TEST(a_commit_that_fails_acknowledges_nothing)
{
    static const struct {
        int calls, outcome;
    } cases[] = {{PLAN_WRITE, EIO}, {PLAN_SYNC, EIO}};
    struct bridge_stage *s = begin(state, "");
    unsigned n = sizeof(cases) / sizeof(cases[0]);

    for (unsigned i = 0; i < n; i++) {
        faults_arm(&faults, cases[i].calls, WAL, 0, cases[i].outcome);
        say(s, "a", 1 + i, true);
        assert_int_equal(broker_wait(&s->broker), 1);
        assert_true(faults_disarm(&faults) > 0);
        broker_restart(&s->broker);
        bridge_stage_await(s, "bridges.0.in.posted", 1);
    }
    ASSERT_CHANGES(s, "left", 1, 2);
    bridge_stage_end(s);
}

/* Tells changes in turns to both sets, from `from` to `to`. */
static void
say_in_turns(struct bridge_stage *s, unsigned from, unsigned to)
{
    for (unsigned i = from; i <= to; i++)
        say(s, i % 2 ? "a" : "b", i, false);
}

static void
await_held(struct bridge_stage *s, const char *why)
{
    bridge_stage_await_text(s, "bridges.0.in.why", why);
}

#define NEARLY_FULL "the disk is nearly full"

/* Held, in order, until the disk has room again; then all are kept, each once,
 * by the connection by which they came. A disk may be nearly full, or refuse a
 * write without warning. */
TEST(messages_are_held_while_the_disk_is_full)
{
    struct bridge_stage *s = begin(state, "");

    say_in_turns(s, 1, 2);
    ASSERT_CHANGES(s, "left", 1);
    ASSERT_CHANGES(s, "right", 2);
    faults_set_disk(&faults, DISK_FULL);
    say_in_turns(s, 3, 10);
    await_held(s, NEARLY_FULL);
    ASSERT_CHANGES(s, "left", 1);
    ASSERT_CHANGES(s, "right", 2);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.posted"), 2);

    faults_set_disk(&faults, DISK_ROOM);
    ASSERT_CHANGES(s, "left", 1, 3, 5, 7, 9);
    ASSERT_CHANGES(s, "right", 2, 4, 6, 8, 10);
    bridge_stage_await(s, "bridges.0.in.posted", 10);

    faults_arm(&faults, PLAN_WRITE, WAL, 0, ENOSPC);
    say_in_turns(s, 11, 14);
    await_held(s, "cannot commit: database or disk is full");
    assert_true(faults_disarm(&faults) > 0);
    ASSERT_CHANGES(s, "left", 1, 3, 5, 7, 9, 11, 13);
    ASSERT_CHANGES(s, "right", 2, 4, 6, 8, 10, 12, 14);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.connections"), 1);
    bridge_stage_end(s);
}

/* The same where it takes longer than the MQTT broker would wait for us: we
 * leave before it does, and what is held there comes by another connection. */
TEST(messages_outlive_connections_while_the_disk_is_full)
{
    struct bridge_stage *s = begin(state, "keepalive = 5\n");

    faults_set_disk(&faults, DISK_FULL);
    say_in_turns(s, 1, 10);
    await_held(s, NEARLY_FULL);
    bridge_stage_await(s, "bridges.0.in.connections", 3);
    assert_int_equal(bridge_stage_number(s, "bridges.0.in.posted"), 0);
    assert_false(mosquittod_said(&s->mqtt, "exceeded timeout"));

    faults_set_disk(&faults, DISK_ROOM);
    ASSERT_CHANGES(s, "left", 1, 3, 5, 7, 9);
    ASSERT_CHANGES(s, "right", 2, 4, 6, 8, 10);
    bridge_stage_end(s);
}

/* Whoever ends, politely or not, leaves what it holds to the MQTT broker. */
TEST(an_end_while_messages_are_held_loses_nothing)
{
    struct bridge_stage *s = begin(state, "");

    faults_set_disk(&faults, DISK_FULL);
    say_in_turns(s, 1, 6);
    await_held(s, NEARLY_FULL);
    broker_stop(&s->broker);
    broker_restart(&s->broker);
    await_held(s, NEARLY_FULL);
    broker_kill9(&s->broker);
    faults_set_disk(&faults, DISK_ROOM);
    broker_restart(&s->broker);
    ASSERT_CHANGES(s, "left", 1, 3, 5);
    ASSERT_CHANGES(s, "right", 2, 4, 6);
    bridge_stage_end(s);
}

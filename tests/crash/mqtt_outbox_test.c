/*
 * mqtt_outbox_test.c - the log is the outbox of a bridge: what holds when our
 * broker dies at any write of mqtt.db, when that cannot be written, when the
 * MQTT broker stands still as ours ends, or is away while very much is posted.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/faults.h"
#include "tests/support/mqtt_reader.h"
#include "tests/support/notice.h"
#include "tests/support/process.h"
#include "tests/support/sanitized.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define LEDGER "mqtt.db"
#define NEWS   "a/news/notifications"

/* Writes of the ledger at which our broker dies, one after the other: more than
 * a lane's row takes with all that SQLite writes around it. */
#define KILLS test_size(6, 16)

/* Entries that nobody takes, each with so many bytes, in posts; and how far our
 * broker may grow by them. A queue in memory would take all of them, 120 MB. Of
 * what it may have, 32 MiB are the log's cache of batches, which fills where a
 * reader is behind the tail, and 5 MiB the step of a fold. */
#define WAITING     300000U
#define WAITING_KIB (72 << 10)
#define ENTRY_SIZE  400
#define POST        500U

static struct faults faults;

static int
set_up(void **state)
{
    *state = NULL;
    faults_open(&faults);
    return 0;
}

static int
tear_down(void **state)
{
    int rc = bridge_stage_teardown(state);

    faults_close(&faults);
    return rc;
}

static struct bridge_stage *
begin(void **state, struct mqtt_reader *r)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);

    bridge_stage_config(
        s, "[mqtt a]\nurl = %s\nout = *\nprefix = a\n" BRIDGE_QUICK,
        s->mqtt.url);
    s->hearer = mqtt_peer_hear(
        &s->mqtt, &(struct mqtt_hearing){.join = {.client_id = "hearer"},
                                         .filters = {NEWS},
                                         .keeps_session = true});
    if (r)
        mqtt_reader_init(r, s->hearer, NEWS, NOTICE_JSON);
    return s;
}

FIXTURE(set_up, tear_down);

/* The reader accepts no gap, and no repeat that ends elsewhere than the
 * first time: that was kept before it was told. */
TEST(a_kill_at_any_write_of_the_ledger_loses_nothing)
{
    struct mqtt_reader r;
    struct bridge_stage *s = begin(state, &r);

    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    source_post(&s->http, "news", 1, 1, 0);
    for (unsigned n = 0; n < KILLS; n++) {
        static const char one[] =
            "{\"loc\":\"http://example.com/1\",\"change\":\"updated\"}";
        const char *const headers[] = {"Content-Type: application/json", NULL};

        mqtt_reader_until(&r, bridge_stage_last(&s->http, "news"));
        faults_arm(&faults, PLAN_WRITE, LEDGER, n, PLAN_KILL);
        while (faults_met(&faults) == 0)
            http_request(&s->http, "POST", "/sets/news/changes", headers,
                         SLICE(one));
        assert_int_equal(broker_wait(&s->broker), 128 + 9);
        faults_disarm(&faults);
        broker_restart(&s->broker);
    }
    mqtt_reader_until(&r, bridge_stage_last(&s->http, "news"));
    print_message("%zu messages, %zu repeats\n", r.n_messages, r.n_repeats);
    bridge_stage_end(s);
    mqtt_reader_fini(&r);
}

/* As a receiver does whose position is `at`: what it has already it drops,
 * though messages may end elsewhere than they did. Until it has `last`. */
static uint64_t
go_on(struct bridge_stage *s, size_t *next, uint64_t at, uint64_t last)
{
    while (at < last) {
        struct notice n;

        notice_read(&n, NOTICE_JSON,
                    mqtt_peer_next(s->hearer, next, NEWS)->payload);
        notice_check(&n);
        assert_in_range(n.after, 0, at);
        if (n.last > at)
            at = n.last;
        notice_free(&n);
    }
    assert_int_equal(at, last);
    return at;
}

/* What is committed is told, whatever becomes of the ledger; and after a kill
 * more is told again, but nothing is passed over. */
TEST(a_ledger_that_cannot_be_written_stops_nothing)
{
    static const struct {
        int calls, outcome;
    } cases[] = {{PLAN_WRITE, ENOSPC},
                 {PLAN_WRITE, EIO},
                 {PLAN_WRITE, PLAN_SHORT},
                 {PLAN_WRITE | PLAN_SYNC, EIO}};
    struct bridge_stage *s = begin(state, NULL);
    uint64_t at = 0;
    size_t next = 0;

    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        source_post(&s->http, "news", 1, 3, 0);
        at = go_on(s, &next, at, at + 3);

        faults_arm(&faults, cases[i].calls, LEDGER, 0, cases[i].outcome);
        for (int n = 0; n < 20; n++) {
            source_post(&s->http, "news", 1, 2, 0);
            at = go_on(s, &next, at, at + 2);
        }
        faults_await(&faults);
        bridge_stage_await_said(s, "cannot keep how far a bridge has come");
        mosquittod_stop(&s->mqtt);
        source_post(&s->http, "news", 1, 5, 0);
        broker_kill9(&s->broker);
        faults_disarm(&faults);
        broker_restart(&s->broker);
        source_post(&s->http, "news", 1, 5, 0);
        mosquittod_restart(&s->mqtt);
        at = go_on(s, &next, at, at + 10);
    }

    /* With room again it is kept again, without a new start. */
    faults_arm(&faults, PLAN_WRITE, LEDGER, 0, ENOSPC);
    source_post(&s->http, "news", 1, 1, 0);
    faults_await(&faults);
    faults_disarm(&faults);
    bridge_stage_await_said(s, "how far a bridge has come is kept again");
    go_on(s, &next, at, at + 1);
    bridge_stage_end(s);
}

/* Ours ends though nothing it says is answered, and goes on from there. */
TEST(a_frozen_mqtt_broker_keeps_nobody_from_ending)
{
    struct mqtt_reader r;
    struct bridge_stage *s = begin(state, &r);
    int64_t began_ms;

    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    source_post(&s->http, "news", 1, 1, 0);
    mqtt_reader_until(&r, 1);
    mosquittod_freeze(&s->mqtt);
    /* More than all buffers between the two take. */
    for (unsigned i = 0; i < 40; i++)
        source_post(&s->http, "news", 2 + 10 * i, 10, 50000);
    began_ms = process_now_ms();
    broker_stop(&s->broker);
    print_message("ended within %" PRId64 " ms\n", process_now_ms() - began_ms);

    /* And while it tries to connect: TCP is answered, MQTT is not. */
    broker_restart(&s->broker);
    source_post(&s->http, "news", 402, 1, 0);
    broker_stop(&s->broker);

    broker_restart(&s->broker);
    mosquittod_thaw(&s->mqtt);
    mqtt_reader_until(&r, 402);
    bridge_stage_end(s);
    mqtt_reader_fini(&r);
}

/* First frozen, with a connection that stands, then away. R-310: nothing grows
 * with what waits. */
TEST(what_waits_takes_no_memory)
{
    struct mqtt_reader r;
    struct bridge_stage *s = begin(state, &r);
    size_t before_kib = 0, most_kib = 0, kib;
    unsigned n = 0;

    BRIDGE_STAGE_START(s, "--heartbeat", "3600", "--tail-bytes", "1M");
    while (n < WAITING + WAITING / 10) {
        source_post(&s->http, "news", n + 1, POST, ENTRY_SIZE);
        n += POST;
        kib = broker_rss_kib(&s->broker);
        if (n == WAITING / 10) { /* all that there is once is there */
            mqtt_reader_until(&r, n);
            before_kib = broker_rss_kib(&s->broker);
            mosquittod_freeze(&s->mqtt);
        } else if (n == WAITING / 2) {
            mosquittod_kill9(&s->mqtt);
        }
        most_kib = kib > most_kib ? kib : most_kib;
    }
    print_message("the broker grew from %zu KiB to %zu KiB\n", before_kib,
                  most_kib);
    assert_in_range(bridge_stage_number(s, "bridges.0.out.lag"), WAITING, n);
    if (!IS_SANITIZED)
        assert_in_range(most_kib, 0, before_kib + WAITING_KIB);
    /* The hearer's session was killed, too: he subscribes before we publish. */
    broker_halt(&s->broker);
    mosquittod_restart(&s->mqtt);
    mqtt_peer_leave(s->hearer);
    mqtt_peer_return(s->hearer);
    broker_go_on(&s->broker);
    mqtt_reader_until(&r, n);
    bridge_stage_end(s);
    mqtt_reader_fini(&r);
}

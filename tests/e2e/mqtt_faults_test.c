/*
 * mqtt_faults_test.c - an MQTT broker that does not let us in, takes too
 * little, or does nothing: what is said of it, and that nobody else has to
 * suffer.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/events.h"
#include "tests/support/follower.h"
#include "tests/support/jsonpath.h"
#include "tests/support/mqtt_reader.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/samples.h"
#include "tests/support/sanitized.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define STREAM "/sets/news/stream?after=0"
#define NEWS   "a/news/notifications"

/* Between two looks at a counter: looking is work for the broker, too. */
#define LOOK_MS 50

/* What part of the time an idle broker may work. Each try with TLS reads all
 * the certificates of the system anew, which a sanitizer makes ten times as
 * dear; a busy loop takes the whole. */
#define BUSY_PART (IS_SANITIZED ? 2 : 4)

/* Of so long, at least. */
#define WORK_MS 3000

static uint64_t
metric(struct bridge_stage *s, const char *name)
{
    static struct samples now;

    samples_get(&now, &s->http);
    return (uint64_t)samples_value(&now, name);
}

/* Until it is `n` or more. Returns when the last look began that saw less; 0:
 * none did. */
static int64_t
await_metric(struct bridge_stage *s, const char *name, uint64_t n)
{
    int64_t now_ms = process_now_ms(), end_ms = now_ms + PATIENCE_MS;
    int64_t less_ms = 0;

    while (metric(s, name) < n) {
        if (now_ms > end_ms)
            fail_msg("%s is not %" PRIu64 " within %d ms", name, n,
                     PATIENCE_MS);
        less_ms = now_ms;
        poll(NULL, 0, LOOK_MS);
        now_ms = process_now_ms();
    }
    return less_ms;
}

/* Heard comes before acknowledged. */
static void
await_lag(struct bridge_stage *s, uint64_t lag)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;

    while (bridge_stage_number(s, "bridges.0.out.lag") > lag) {
        if (process_now_ms() > end_ms)
            fail_msg("the lag is not %" PRIu64 " within %d ms", lag,
                     PATIENCE_MS);
        poll(NULL, 0, LOOK_MS);
    }
    assert_int_equal(bridge_stage_number(s, "bridges.0.out.lag"), lag);
}

/* From one number of failures to another, or as far from a later one, it takes
 * at least as long as the pauses do; and our broker is idle meanwhile: a loop
 * that tries again and again, or waits for nothing, takes all the time there
 * is. */
static void
assert_patient(struct bridge_stage *s, const char *name, uint64_t from,
               uint64_t to, int64_t least_ms)
{
    int64_t began_ms, worked_ms, cpu_ms, now_ms = process_now_ms();
    uint64_t n = metric(s, name), late = n < from ? 0 : n + 1 - from;
    int64_t less_ms = await_metric(s, name, from + late);

    began_ms = less_ms ? less_ms : now_ms;
    worked_ms = process_now_ms();
    cpu_ms = process_cpu_ms(s->broker.pid);
    await_metric(s, name, to + late);
    now_ms = process_now_ms();
    print_message("%s: %" PRId64 " ms\n", name, now_ms - began_ms);
    assert_true(now_ms - began_ms >= least_ms);

    for (; now_ms < worked_ms + WORK_MS; now_ms = process_now_ms())
        poll(NULL, 0, LOOK_MS);
    cpu_ms = process_cpu_ms(s->broker.pid) - cpu_ms;
    print_message("%" PRId64 " ms of CPU time in %" PRId64 " ms\n", cpu_ms,
                  now_ms - worked_ms);
    assert_true(cpu_ms <= (now_ms - worked_ms) / BUSY_PART);
}

/* Ways that do not lead in */

struct fault {
    const char *name;
    struct mosquittod_wish wish;
    const char *scheme, *host;
    const char *keys; /* of the bridge; %s: the CA, or the password's file */
    const char *why;  /* what is said */
    bool is_gone;     /* nobody listens */
};

#define PASSWORD .user = "ann", .password = "right"

static const struct fault faults[] = {
    {"wrong password",
     {PASSWORD},
     "mqtt",
     "127.0.0.1",
     "user = ann\npassword-file = %s\n",
     "not authorized"},
    {"no user", {PASSWORD}, "mqtt", "127.0.0.1", "", "not authorized"},
    {"another's certificate",
     {.is_tls = true, .tls_names = "DNS:elsewhere.example"},
     "mqtts",
     "localhost",
     "ca = %s\n",
     "certificate is not for localhost"},
    {"another's certificate, by address",
     {.is_tls = true, .tls_names = "DNS:localhost,IP:127.0.0.2"},
     "mqtts",
     "127.0.0.1",
     "ca = %s\n",
     "certificate is not for 127.0.0.1"},
    {"nobody we trust",
     {.is_tls = true},
     "mqtts",
     "localhost",
     "",
     "certificate is not good"},
    {"no certificate of ours",
     {.is_tls = true, .asks_certificate = true},
     "mqtts",
     "localhost",
     "ca = %s\n",
     "certificate"},
    {"TLS to who has none", {NULL}, "mqtts", "localhost", "", "TLS"},
    {"no TLS to who has it",
     {.is_tls = true},
     "mqtt",
     "localhost",
     "",
     "cut by the MQTT broker"},
    {"nobody there", {NULL}, "mqtt", "127.0.0.1", "", "refused", true},
};

static void
meet(struct bridge_stage *s, const struct fault *f)
{
    char keys[700], password[300];

    print_message("%s\n", f->name);
    snprintf(password, sizeof(password), "%s/password", s->dir.path);
    tempdir_write(s->dir.fd, "password", "wrong\n");
    snprintf(keys, sizeof(keys), f->keys,
             s->mqtt.is_tls ? s->mqtt.certificate.ca : password);
    bridge_stage_config(s,
                        "[mqtt a]\nurl = %s://%s:%u\nout = *\nprefix = a\n"
                        "retry-first = 0.1\nretry-max = 2\n%s",
                        f->scheme, f->host, s->mqtt.port, keys);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");

    /* After two failures the pauses are 0.2, 0.4 and 0.8 s, at least half of
     * that each. */
    assert_patient(s, "tidings_mqtt_failures_total", 2, 5, 700);
    bridge_stage_await_said(s, "cannot connect to the MQTT broker");
    assert_true(broker_said(&s->broker, f->why));
    assert_int_equal(http_get(&s->http, "/readyz"), 200);
    assert_non_null(memmem(s->http.body.data, s->http.body.size,
                           "warning: bridge a, out", 22));
    assert_non_null(
        memmem(s->http.body.data, s->http.body.size, f->why, strlen(f->why)));

    /* It is said once, not with each try. A cut in the handshake may look
     * different the next time, and is said as that, too. */
    assert_in_range(process_said_times(s->broker.log, "cannot connect"), 1, 2);
    source_post(&s->http, "news", 1, 3, 0);
    bridge_stage_end(s);
}

FIXTURE(NULL, bridge_stage_teardown);

/* Issue 5, point 6: a clear line, pauses that grow, no busy loop; and posts are
 * taken as ever. */
TEST(who_does_not_let_us_in_is_tried_patiently)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct bridge_stage *s = bridge_stage_begin(state, &faults[i].wish);

        if (faults[i].is_gone)
            mosquittod_stop(&s->mqtt);
        meet(s, &faults[i]);
        bridge_stage_teardown(state);
    }
}

/* What was in the way is taken away: with the next try we are in, and tell all
 * that was posted. */
TEST(we_are_in_as_soon_as_we_may)
{
    static const struct mosquittod_wish wish = {PASSWORD, .is_tls = true,
                                                .asks_certificate = true};
    struct bridge_stage *s = bridge_stage_begin(state, &wish);
    struct mqtt_reader r;

    tempdir_write(s->dir.fd, "password", "right\n");
    s->hearer = mqtt_peer_hear(
        &s->mqtt,
        &(struct mqtt_hearing){.join = {.client_id = "hearer",
                                        .user = "ann",
                                        .password = "right",
                                        .cert = s->mqtt.certificate.cert,
                                        .key = s->mqtt.certificate.key},
                               .filters = {NEWS},
                               .keeps_session = true});
    mqtt_reader_init(&r, s->hearer, NEWS, NOTICE_JSON);
    mosquittod_stop(&s->mqtt);
    bridge_stage_config(
        s,
        "[mqtt a]\nurl = mqtts://localhost:%u\nout = *\n"
        "prefix = a\nca = %s\ncert = %s\nkey = %s\n"
        "user = ann\npassword-file = %s/password\n" BRIDGE_QUICK,
        s->mqtt.port, s->mqtt.certificate.ca, s->mqtt.certificate.cert,
        s->mqtt.certificate.key, s->dir.path);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    source_post(&s->http, "news", 1, 30, 0);
    bridge_stage_await_said(s, "cannot connect to the MQTT broker");
    mosquittod_restart(&s->mqtt);
    mqtt_reader_until(&r, 30);
    bridge_stage_await_text(s, "bridges.0.out.state", "connected");
    assert_int_equal(http_get(&s->http, "/readyz"), 200);
    assert_null(memmem(s->http.body.data, s->http.body.size, "bridge", 6));
    bridge_stage_end(s);
    mqtt_reader_fini(&r);
}

/* Who takes too little */

/* Messages are cut between changes so that each packet is small enough; a
 * change that is too large by itself is left out, which the next message shows,
 * and a warning says. */
TEST(packets_are_no_larger_than_the_mqtt_broker_takes)
{
    static const struct {
        const char *more, *keys;
        bool is_311;
        size_t most;
    } kinds[] = {
        {"max_packet_size 16384\n", "", false, 16384}, /* it says so itself */
        {"max_packet_size 16384\n", "version = 3.1.1\npacket-bytes = 16K\n",
         true, 16384},
        {"", "packet-bytes = 16K\n", false, 16384},
        {"max_packet_size 2048\n", "", false, 2048}, /* a change each */
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct bridge_stage *s = bridge_stage_begin(
            state, &(struct mosquittod_wish){.more = kinds[i].more});
        struct mqtt_reader r, rest;

        bridge_stage_config(
            s, "[mqtt a]\nurl = %s\nout = *\nprefix = a\nform = xml\n%s",
            s->mqtt.url, kinds[i].keys);
        s->hearer = mqtt_peer_hear(
            &s->mqtt, &(struct mqtt_hearing){.filters = {"a/news/#"}});
        BRIDGE_STAGE_START(s, "--heartbeat", "3600");
        mqtt_reader_init(&r, s->hearer, NEWS, NOTICE_XML);
        r.is_311 = kinds[i].is_311;
        source_post(&s->http, "news", 1, 200, 100);
        mqtt_reader_until(&r, 200);
        assert_in_range(r.largest, kinds[i].most / 3, kinds[i].most);

        source_post(&s->http, "news", 201, 1, 20000);
        source_post(&s->http, "news", 202, 3, 0);
        mqtt_reader_init_after(&rest, s->hearer, NEWS, NOTICE_XML, 201);
        rest.at = r.at;
        rest.is_311 = kinds[i].is_311;
        mqtt_reader_until(&rest, 204);
        assert_int_equal(bridge_stage_number(s, "bridges.0.out.leftOut"), 1);
        bridge_stage_await_said(s, "left out");
        bridge_stage_end(s);
        mqtt_reader_fini(&r);
        mqtt_reader_fini(&rest);
        bridge_stage_teardown(state);
    }
}

/* An MQTT broker that refuses messages, by size or by who may write where, is
 * asked again after a pause; sets that it takes go on. */
TEST(what_is_refused_is_told_again_patiently)
{
    /* Without a limit of its queues Mosquitto 2.0.11 cuts who may not. */
    static const struct mosquittod_wish wish = {
        .acl = "topic read #\ntopic write a/status\ntopic write a/good/#\n",
        .more = "max_queued_messages 10000\n"};
    static const char refused[] = "bridge a, out: the MQTT broker refuses "
                                  "what is told of bad: not authorized\n";
    struct bridge_stage *s = bridge_stage_begin(state, &wish);
    struct mqtt_reader r;

    bridge_stage_config(
        s, "[mqtt a]\nurl = %s\nout = good,bad\nprefix = a\n" BRIDGE_QUICK,
        s->mqtt.url);
    s->hearer =
        mqtt_peer_hear(&s->mqtt, &(struct mqtt_hearing){.filters = {"a/#"}});
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    mqtt_reader_init(&r, s->hearer, "a/good/notifications", NOTICE_JSON);
    source_post(&s->http, "bad", 1, 3, 0);
    assert_patient(s, "tidings_mqtt_refused_total", 2, 5, 100);
    source_post(&s->http, "good", 1, 3, 0);
    mqtt_reader_until(&r, 3);
    await_lag(s, 3);
    assert_int_equal(bridge_stage_number(s, "bridges.0.out.connections"), 1);

    assert_int_equal(http_get(&s->http, "/readyz"), 200);
    assert_non_null(
        memmem(s->http.body.data, s->http.body.size, refused, strlen(refused)));

    /* It is said once of its messages, once of its position. */
    assert_in_range(process_said_times(s->broker.log, "refuses"), 1, 2);
    for (size_t i = 0; i < mqtt_peer_count(s->hearer); i++)
        assert_null(strstr(mqtt_peer_at(s->hearer, i)->topic, "/bad/"));
    bridge_stage_end(s);
    mqtt_reader_fini(&r);
}

/* Without a limit of its queues Mosquitto 2.0.11 cuts who may not. With each
 * try the status is refused again: that is said once, and why it was cut. */
TEST(who_cuts_because_it_refuses_is_told_of_once)
{
    static const struct mosquittod_wish wish = {.acl = "topic read #\n"};
    static const char why[] =
        "cut by the MQTT broker after it refused a message: not authorized";
    struct bridge_stage *s = bridge_stage_begin(state, &wish);

    bridge_stage_config(
        s, "[mqtt a]\nurl = %s\nout = news\nprefix = a\n" BRIDGE_QUICK,
        s->mqtt.url);
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    assert_patient(s, "tidings_mqtt_failures_total", 2, 5, 100);
    assert_int_equal(process_said_times(s->broker.log, why), 1);
    assert_int_equal(process_said_times(s->broker.log, "refuses the status"),
                     1);
    bridge_stage_end(s);
}

/* Who does nothing */

/* R-310: while the MQTT broker is stopped for seconds, with connections that
 * stand, every post is answered, and heard at once by all others. */
TEST(a_slow_mqtt_broker_slows_nobody)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct receipt receipt = {.last = 0};
    struct mqtt_reader r;
    struct follower f;
    struct events e;
    int64_t until_ms;
    unsigned n = 1;

    bridge_stage_config(s,
                        "[mqtt a]\nurl = %s\nout = *\nprefix = a\n"
                        "in = feed -> news\n",
                        s->mqtt.url);
    s->hearer =
        mqtt_peer_hear(&s->mqtt, &(struct mqtt_hearing){.filters = {NEWS}});
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    mqtt_reader_init(&r, s->hearer, NEWS, NOTICE_JSON);
    source_post(&s->http, "news", n++, 1, 0);
    mqtt_reader_until(&r, 1);
    follower_open(&f, s->broker.port, STREAM, "resourcesync.xml");
    events_open(&e, s->broker.port, STREAM, NULL);

    mosquittod_freeze(&s->mqtt);
    until_ms = process_now_ms() + 3000;
    while (n < 300 || process_now_ms() < until_ms) {
        /* Some are larger than all buffers between two processes. */
        receipt = source_post(&s->http, "news", n, 1, n % 20 ? 0 : 60000);
        n++;
        follower_until(&f, receipt.last);
        events_until(&e, receipt.last);
    }
    assert_int_equal(bridge_stage_last(&s->http, "news"), receipt.last);
    assert_true(bridge_stage_number(s, "bridges.0.out.lag") > 0);

    mosquittod_thaw(&s->mqtt);
    mqtt_reader_until(&r, receipt.last);
    print_message("%u posts meanwhile\n", n - 2);
    follower_close(&f);
    events_close(&e);
    bridge_stage_end(s);
    mqtt_reader_fini(&r);
}

/* One that answers nothing any more is given up after the keepalive, and found
 * again when it is back. */
TEST(a_dead_mqtt_broker_is_noticed)
{
    struct bridge_stage *s = bridge_stage_begin(state, NULL);
    struct mqtt_reader r;

    bridge_stage_config(s,
                        "[mqtt a]\nurl = %s\nout = *\nprefix = a\n"
                        "in = feed -> other\nkeepalive = 5\n" BRIDGE_QUICK,
                        s->mqtt.url);
    s->hearer =
        mqtt_peer_hear(&s->mqtt, &(struct mqtt_hearing){.filters = {NEWS}});
    BRIDGE_STAGE_START(s, "--heartbeat", "3600");
    mosquittod_await_subscription(&s->mqtt, "feed");
    mqtt_reader_init(&r, s->hearer, NEWS, NOTICE_JSON);
    source_post(&s->http, "news", 1, 1, 0);
    mqtt_reader_until(&r, 1);

    mosquittod_freeze(&s->mqtt);
    source_post(&s->http, "news", 2, 5, 0);
    await_metric(s, "tidings_mqtt_failures_total", 2);
    bridge_stage_await_said(s, "the connection to the MQTT broker was lost");
    mosquittod_thaw(&s->mqtt);
    mqtt_reader_until(&r, 6);
    s->teller = mqtt_peer_tell(&s->mqtt, NULL);
    mqtt_peer_say(s->teller,
                  &(struct mqtt_saying){
                      .topic = "feed",
                      .payload = SLICE("{\"loc\":\"http://example.com/1\","
                                       "\"change\":\"updated\"}")});
    bridge_stage_await_last(&s->http, "other", 1);
    bridge_stage_end(s);
    mqtt_reader_fini(&r);
}

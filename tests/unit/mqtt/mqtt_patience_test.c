/* How long an MQTT Client waits: for one that does not answer, and between its
 * tries. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/clock.h"
#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/mqtt/fake_mqtt.h"
#include "tests/unit/mqtt/fake_names.h"
#include "tests/unit/mqtt/owner.h"

/* The number behind the n-th "again_in_ms=" (from 0). */
static long
pause_of(const char *text, unsigned n)
{
    static const char key[] = "again_in_ms=";

    for (unsigned i = 0; (text = strstr(text, key)); i++) {
        text += sizeof(key) - 1;
        if (i == n)
            return strtol(text, NULL, 10);
    }
    fail_msg("there is no pause number %u", n);
    return 0;
}

/* So long a connection has to last; the client's own. */
#define SETTLED_US ((int64_t)30000000)

/* A pause of `us` at most, and of half of it at least. */
static void
assert_pause(struct fake_mqtt *f, struct owner *o, int64_t us)
{
    struct pollfd try = {f->listener, POLLIN, 0};

    owner_await_pause(o);
    clock_await_us(us);
    clock_pass_us(us / 2 - 1000);
    owner_do(o, owner_look);
    assert_int_equal(poll(&try, 1, 0), 0);
    clock_await_us(us);
    clock_pass_us(us / 2 + 1000);
    assert_int_equal(poll(&try, 1, -1), 1);
}

/* If an MQTT broker accepts and cuts soon, the pauses before tries grow up to
 * the longest, though each connection has worked; only one that also lasts
 * makes them short again. The thread does nothing meanwhile. The log has
 * warnings about the connection's loss, and of repeated ones, and others after
 * the bridge has worked. */
TEST(pauses_longer_and_longer, owner_set, owner_clear)
{
    static const long longest[] = {10, 20, 40, 80, 80, 80, 10, 20};

    enum { PROVEN = 3, LASTING = 6, N = 8 };
    struct owner *o = *state;
    char *text;

    o->config.retry.first_us = 10000;
    o->config.retry.max_us = 80000;
    owner_listen();
    owner_open(o);
    for (unsigned i = 0; i < N; i++) {
        fake_mqtt_welcome(&o->fake, true);
        owner_await(o, &o->n_connected, i + 1);
        if (i == PROVEN || i == LASTING)
            owner_do(o, owner_prove);
        if (i == LASTING) {
            clock_await_us(1000000);
            clock_pass_us(SETTLED_US);
        }
        fake_mqtt_hang_up(&o->fake);
        owner_await(o, &o->n_lost, i + 1);
        assert_pause(&o->fake, o, longest[i] * 1000);
    }
    fake_mqtt_welcome(&o->fake, true);
    owner_await(o, &o->n_connected, N + 1);
    /* Some rounds for each try: events wake the thread. */
    assert_in_range(owner_now(o, &o->n_turns), 9, 9 * 20);
    owner_set_again(o);
    text = owner_heard();

    for (unsigned i = 0; i < N; i++)
        assert_in_range(pause_of(text, i), longest[i] / 2, longest[i]);
    /* The first and the second, the one after the success, the first one after
     * that. */
    assert_int_equal(owner_count(text, "level=warning"), 4);
    assert_int_equal(owner_count(text, "level=info"), 3);
    assert_int_equal(owner_count(text, "level=debug"), 4);
    assert_int_equal(
        owner_count(text,
                    "soon after each connection: probably the session "
                    "was taken over by another client of that id (test-out)"),
        5);
    assert_int_equal(owner_count(text, "direction=out url=mqtt://127.0.0.1:"),
                     11);
    free(text);
}

/* Alternating reasons cause one warning each; a proven connection resets
 * them. */
TEST(warns_once_for_each_reason, owner_set, owner_clear)
{
    struct owner *o = *state;
    char *text;

    owner_listen();
    owner_open(o);
    for (unsigned i = 0; i < 8; i++) {
        if (i > 0)
            owner_pass_pause(o);
        if (i == 6) {
            fake_mqtt_welcome(&o->fake, true);
            owner_await(o, &o->n_connected, 1);
            owner_do(o, owner_prove);
            clock_await_us(1000000);
            clock_pass_us(SETTLED_US);
            owner_do(o, owner_drop);
            owner_await(o, &o->n_lost, 1);
            owner_pass_pause(o);
        }
        fake_mqtt_accept(&o->fake);
        fake_mqtt_read(&o->fake, 0x10);
        FAKE_MQTT_SEND(&o->fake, 0x20, 3, 0, (uint8_t)(i % 2 ? 0x88 : 0x89), 0);
        fake_mqtt_assert_end(&o->fake);
    }
    owner_await_pause(o);
    owner_set_again(o);
    text = owner_heard();

    assert_int_equal(owner_count(text, "level=warning"), 5);
    assert_int_equal(owner_count(text, "the owner wants it so"), 1);
    assert_int_equal(owner_count(text, "level=info"), 1);
    free(text);
}

/* How long a try may take; the client's own. */
#define CONNECT_US ((int64_t)10000000)

static int
fill(const struct fake_mqtt *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)f->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* Four MQTT brokers: two accept and send nothing, without TLS and with it; one
 * accepts late, so that TLS cannot write at first; one ends in the middle of
 * TLS. Each try ends, and the thread does not spin meanwhile. */
TEST(does_not_wait_for_ever, tempdir_setup, tempdir_teardown)
{
    static const char *const why[] = {
        "no answer from the MQTT broker to CONNECT",
        "TLS: no answer from the MQTT broker", "TLS: no answer from the MQTT",
        "in the TLS handshake (it may have no TLS on port "};

    enum { PLAIN, SILENT, LATE, SHUT, N };
    struct fake_mqtt f[N];
    struct owner o[N];
    struct certificate certificate;
    struct mqtt_state now;
    int filling;

    certificate_make(&certificate, tempdir_path(state), NULL);
    for (unsigned i = 0; i < N; i++) {
        fake_mqtt_open(&f[i]);
        owner_prepare(&o[i], f[i].port);
        o[i].config.is_tls = i != PLAIN;
        strcpy(o[i].config.ca, certificate.ca); /* the system's take long */
        o[i].config.retry.first_us = 100000000;
        o[i].config.retry.max_us = 100000000;
    }
    /* The backlog has room for one connection. */
    assert_int_equal(listen(f[LATE].listener, 0), 0);
    filling = fill(&f[LATE]);
    for (unsigned i = 0; i < N; i++)
        owner_open(&o[i]);
    owner_do(&o[LATE], owner_look);
    fake_mqtt_accept(&f[LATE]);
    for (unsigned i = 0; i < N; i++)
        fake_mqtt_accept(&f[i]);
    /* Of ClientHello, nothing is left: so it is an end and not a reset. */
    assert_true(recv(f[SHUT].fd, f[SHUT].packet, sizeof(f[SHUT].packet), 0) >
                0);
    while (recv(f[SHUT].fd, f[SHUT].packet, sizeof(f[SHUT].packet),
                MSG_DONTWAIT) > 0)
        continue; /* it has 1.5 KB where keys are of ML-KEM, too */
    fake_mqtt_hang_up(&f[SHUT]);
    owner_await_pause(&o[SHUT]);
    clock_await_waits_us(SHUT, CONNECT_US);
    clock_pass_us(CONNECT_US - 1000);
    for (unsigned i = 0; i < SHUT; i++) {
        owner_do(&o[i], owner_look);
        mqtt_state(o[i].mqtt, &now);
        assert_int_equal(now.condition, MQTT_CONNECTING);
    }
    clock_await_waits_us(SHUT, 1000);
    clock_pass_us(1000);
    for (unsigned i = 0; i < N; i++)
        owner_await_why(&o[i], why[i]);
    for (unsigned i = 0; i < N; i++) {
        owner_close(&o[i]);
        assert_in_range(o[i].n_turns, 1, 50);
        fake_mqtt_close(&f[i]);
    }
    close(filling);
}

/* Ends while it connects to a broker that never answers or never accepts, while
 * it waits for a name server, and while it pauses: at once. */
TEST(ends_at_once)
{
    struct fake_mqtt f;
    struct owner o;
    int filling;

    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_accept(&f);
    fake_mqtt_read(&f, 0x10);
    owner_close(&o);
    fake_mqtt_close(&f);

    fake_mqtt_open(&f);
    assert_int_equal(listen(f.listener, 0), 0);
    filling = fill(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    owner_do(&o, owner_look);
    owner_close(&o);
    fake_mqtt_close(&f);
    close(filling);

    owner_prepare(&o, 1);
    o.config.retry.first_us = o.config.retry.max_us = 100000000;
    owner_open(&o);
    owner_await_why(&o, "refused");
    owner_close(&o);

    fake_names_hold();
    owner_prepare(&o, 1);
    strcpy(o.config.host, "slow.test");
    owner_open(&o);
    owner_do(&o, owner_look);
    owner_close(&o);
    fake_names_let_go();
}

static void *
wake(void *argument)
{
    struct owner *o = argument;

    for (unsigned i = 0; i < 20000; i++)
        mqtt_wake(o->mqtt);
    return NULL;
}

/* Wakes from several threads: none is lost, and none needs more than one turn,
 * while states are asked for. */
TEST(is_woken_from_anywhere, owner_set_met, owner_clear)
{
    pthread_t threads[3];
    struct mqtt_state now;
    struct owner *o = *state;

    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wake, o), 0);
    for (unsigned i = 0; i < 50; i++) {
        owner_do(o, owner_look);
        mqtt_state(o->mqtt, &now);
        assert_int_equal(now.condition, MQTT_CONNECTED);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    owner_do(o, owner_look);
}

/* Suspension */

static struct problem for_now = {"not for now"};

static void
suspend(struct owner *o)
{
    mqtt_suspend(o->mqtt, &for_now);
}

static void
resume(struct owner *o)
{
    mqtt_resume(o->mqtt);
}

/* It waits for no pause, which the clock would not end. */
static void
assert_resumes(struct owner *o, unsigned n)
{
    struct mqtt_state state;

    owner_await_pause(o);
    owner_await_why(o, for_now.text);
    owner_do(o, resume);
    fake_mqtt_welcome(&o->fake, true);
    owner_await(o, &o->n_connected, n);
    AWAIT((mqtt_state(o->mqtt, &state), state.condition == MQTT_CONNECTED));
    assert_string_equal(state.why.text, "");
    assert_int_equal(state.connections, n);
}

TEST(says_farewell_when_it_is_suspended, owner_set_met, owner_clear)
{
    struct owner *o = *state;

    owner_do(o, suspend);
    fake_mqtt_read(&o->fake, 0xe0);
    fake_mqtt_hang_up(&o->fake);
    owner_await(o, &o->n_lost, 1);
    assert_int_equal(owner_now(o, &o->n_farewells), 1);
    assert_resumes(o, 2);
}

/* A message that must not be acknowledged has had the connection dropped. */
static void
drop_and_suspend(struct owner *o)
{
    owner_drop(o);
    suspend(o);
}

TEST(writes_nothing_if_it_was_dropped_as_well, owner_set_met, owner_clear)
{
    struct owner *o = *state;

    owner_do(o, drop_and_suspend);
    fake_mqtt_assert_end(&o->fake);
    assert_int_equal(owner_now(o, &o->n_farewells), 0);
    assert_resumes(o, 2);
}

TEST(gives_up_a_try_when_it_is_suspended, owner_set, owner_clear)
{
    struct owner *o = *state;

    owner_ask(o, true);
    owner_do(o, suspend);
    fake_mqtt_assert_end(&o->fake);
    assert_resumes(o, 1);
}

TEST(begins_suspended, owner_set, owner_clear)
{
    struct owner *o = *state;

    o->options.suspended = &for_now;
    owner_open(o);
    assert_resumes(o, 1);
}

/* A farewell that has begun goes on to its end. */
static void
suspend_and_resume(struct owner *o)
{
    suspend(o);
    resume(o);
}

TEST(connects_anew_if_it_is_resumed_in_its_farewell, owner_set_met, owner_clear)
{
    struct owner *o = *state;

    owner_do(o, suspend_and_resume);
    fake_mqtt_read(&o->fake, 0xe0);
    fake_mqtt_hang_up(&o->fake);
    fake_mqtt_welcome(&o->fake, true);
    owner_await(o, &o->n_connected, 2);
}

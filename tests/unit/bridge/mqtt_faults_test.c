/*
 * An MQTT Client with an MQTT broker that answers byte by byte, wrongly, or not
 * at all.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/clock.h"
#include "tests/unit/bridge/fake_mqtt.h"
#include "tests/unit/bridge/owner.h"

/* Names */

/* The C library's function stands behind this one. "several.test" has addresses
 * of which only the last one leads somewhere, nobody knows "unknown.test", and
 * for "slow.test" there is no answer until slow_lock is let go. */
static pthread_mutex_t slow_lock = PTHREAD_MUTEX_INITIALIZER;

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *,
                           struct addrinfo **);

static getaddrinfo_fn *
real_getaddrinfo(void)
{
    getaddrinfo_fn *real = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real;
}

int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
            struct addrinfo **found)
{
    getaddrinfo_fn *real = real_getaddrinfo();
    struct addrinfo *last = NULL;
    int error;

    if (hints && (hints->ai_flags & AI_NUMERICHOST))
        return real(host, service, hints, found);
    if (!strcmp(host, "unknown.test"))
        return EAI_NONAME;
    if (!strcmp(host, "slow.test")) {
        pthread_mutex_lock(&slow_lock);
        pthread_mutex_unlock(&slow_lock);
        return EAI_AGAIN;
    }
    if (strcmp(host, "several.test") != 0)
        return real(host, service, hints, found);
    /* Nobody listens on the second one; the first one is for nobody. */
    error = real("127.0.0.77", service, hints, found);
    if (!error)
        error = real("127.0.0.1", service, hints, &last);
    if (!error)
        (*found)->ai_next = last;
    return error;
}

/* What goes over the wire */

static void
publish(struct fake_mqtt *f, unsigned is_5, uint8_t mid)
{
    if (is_5)
        FAKE_MQTT_SEND(f, 0x32, 8, 0, 1, 'a', 0, mid, 0, 'h', 'i');
    else
        FAKE_MQTT_SEND(f, 0x32, 7, 0, 1, 'a', 0, mid, 'h', 'i');
}

/* Nothing is acknowledged before `turn` has returned, in both versions; then it
 * is. What has been dropped in a turn never is. */
static void
acknowledges_only_after_the_turn(void **state)
{
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    for (unsigned is_5 = 0; is_5 <= 1; is_5++)
        for (unsigned drops = 0; drops <= 1; drops++) {
            fake_mqtt_open(&f);
            owner_prepare(&o, f.port);
            o.config.version = is_5 ? BRIDGE_MQTT_5 : BRIDGE_MQTT_311;
            o.drops = drops;
            owner_hold(&o);
            owner_open(&o);
            fake_mqtt_welcome(&f, is_5);
            publish(&f, is_5, 7);
            owner_await_held(&o);
            assert_string_equal(o.received[0].payload, "hi");
            fake_mqtt_assert_silent(&f);

            owner_let_go(&o);
            if (drops) {
                fake_mqtt_assert_end(&f);
            } else {
                fake_mqtt_read(&f, 0x40);
                assert_int_equal(f.packet[1], 7);
            }
            owner_close(&o);
            fake_mqtt_close(&f);
        }
}

static bool
has_bytes(const struct fake_mqtt *f, const uint8_t *bytes, size_t size)
{
    return memmem(f->packet, f->size, bytes, size) != NULL;
}

/* What CONNECT says: the version, the flags, the keepalive, the session's
 * expiry, the client's id, the will, user and password. */
static void
says_who_it_is(void **state)
{
    static const uint8_t never[] = {0x11, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t status[] = "\0\001s\0\007offline\0\004user";
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    for (unsigned is_5 = 0; is_5 <= 1; is_5++)
        for (unsigned keeps = 0; keeps <= 1; keeps++) {
            fake_mqtt_open(&f);
            owner_prepare(&o, f.port);
            o.config.version = is_5 ? BRIDGE_MQTT_5 : BRIDGE_MQTT_311;
            o.config.keepalive_us = 300 * 1000000ll;
            strcpy(o.config.user, "user");
            o.options.keeps_session = keeps;
            o.options.will_topic = "s";
            o.options.will_payload = "offline";
            owner_open(&o);
            fake_mqtt_accept(&f);
            fake_mqtt_read(&f, 0x10);
            assert_int_equal(f.packet[6], is_5 ? 5 : 4);
            /* User name, will retained at QoS 1, will, clean start */
            assert_int_equal(f.packet[7],
                             0x80 | 0x20 | 0x08 | 0x04 | (keeps ? 0 : 0x02));
            assert_int_equal(f.packet[8] << 8 | f.packet[9], 300);
            assert_int_equal(has_bytes(&f, never, sizeof(never)),
                             is_5 && keeps);
            assert_true(has_bytes(&f, (const uint8_t *)"\0\010test-out", 10));
            assert_true(has_bytes(&f, status, sizeof(status) - 1));
            owner_close(&o);
            fake_mqtt_close(&f);
        }
}

/* CONNACK's properties. */
static void
keeps_to_what_the_mqtt_broker_takes(void **state)
{
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_accept(&f);
    fake_mqtt_read(&f, 0x10);
    /* Receive Maximum 3, Maximum QoS 1, no retained messages, packets of 50 */
    FAKE_MQTT_SEND(&f, 0x20, 15, 0, 0, 12, 0x21, 0, 3, 0x24, 1, 0x25, 0, 0x27,
                   0, 0, 0, 50);
    owner_await(&o, &o.n_connected, 1);
    o.message = (struct mqtt_message){.topic = "a", .qos = 1};
    owner_do(&o, owner_look);
    assert_int_equal(o.window, 3);
    assert_false(o.takes_retained);
    assert_int_equal(o.room, 50 - 2 - 3 - 2 - 1);
    assert_int_equal(owner_say(&o, "a", "text", 2), STATUS_UNSUPPORTED);
    o.message = (struct mqtt_message){.topic = "a", .is_retained = true};
    owner_do(&o, owner_publish);
    assert_int_equal(o.rc, STATUS_UNSUPPORTED);
    assert_int_equal(owner_say(&o, "a/#", "text", 1), STATUS_INVALID);
    assert_int_equal(owner_say(&o, "a", "text", 1), STATUS_OK);
    fake_mqtt_read(&f, 0x32);
    owner_close(&o);
    fake_mqtt_close(&f);
}

/* More than the library's own 20 are on their way at once. */
static void
has_as_many_in_flight_as_it_may(void **state)
{
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_welcome(&f, true);
    owner_await(&o, &o.n_connected, 1);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(owner_say(&o, "a", "text", 1), STATUS_OK);
        fake_mqtt_read(&f, 0x32);
    }
    assert_int_equal(o.n_acknowledged, 0);
    owner_close(&o);
    fake_mqtt_close(&f);
}

/* The DUP flag, until the first message without it. */
static void
tells_repeats(void **state)
{
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_welcome(&f, true);
    FAKE_MQTT_SEND(&f, 0x3a, 7, 0, 1, 'a', 0, 1, 0, '1');
    FAKE_MQTT_SEND(&f, 0x3a, 7, 0, 1, 'a', 0, 2, 0, '2');
    FAKE_MQTT_SEND(&f, 0x32, 7, 0, 1, 'a', 0, 3, 0, '3');
    owner_await(&o, &o.n_received, 3);
    assert_true(o.received[0].is_repeat);
    assert_true(o.received[1].is_repeat);
    assert_false(o.received[2].is_repeat);
    owner_close(&o);
    fake_mqtt_close(&f);
}

/* Why there is no connection */

/* CONNACK with each reason an operator can do something about. */
static void
says_why_it_was_refused(void **state)
{
    static const struct {
        bool is_5;
        uint8_t code;
        const char *words;
    } cases[] = {
        {true, 0x86, "refused by the MQTT broker: bad user name or password"},
        {true, 0x87, "refused by the MQTT broker: not authorized"},
        {true, 0x85, "refused by the MQTT broker: client identifier not valid"},
        {true, 0x84, "version not supported (version = 3.1.1 may help)"},
        {true, 0x89, "refused by the MQTT broker: server busy"},
        {true, 0xee, "refused by the MQTT broker: a reason nobody knows"},
        {false, 1, "version not supported (version = 5 may help)"},
        {false, 2, "refused by the MQTT broker: client identifier not valid"},
        {false, 3, "refused by the MQTT broker: server unavailable"},
        {false, 4, "refused by the MQTT broker: bad user name or password"},
        {false, 5, "refused by the MQTT broker: not authorized"},
    };
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_mqtt_open(&f);
        owner_prepare(&o, f.port);
        o.config.version = cases[i].is_5 ? BRIDGE_MQTT_5 : BRIDGE_MQTT_311;
        owner_open(&o);
        fake_mqtt_accept(&f);
        fake_mqtt_read(&f, 0x10);
        if (cases[i].is_5)
            FAKE_MQTT_SEND(&f, 0x20, 3, 0, cases[i].code, 0);
        else
            FAKE_MQTT_SEND(&f, 0x20, 2, 0, cases[i].code);
        owner_await_why(&o, cases[i].words);
        assert_int_equal(o.n_connected + o.n_lost, 0);
        owner_close(&o);
        fake_mqtt_close(&f);
    }
}

/* What the MQTT broker says itself stands behind it, made harmless. */
static void
quotes_a_refusal(void **state)
{
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_accept(&f);
    fake_mqtt_read(&f, 0x10);
    FAKE_MQTT_SEND(&f, 0x20, 9, 0, 0x97, 6, 0x1f, 0, 3, 'n', 'o', '!');
    owner_await_why(&o, "refused by the MQTT broker: quota exceeded: \"no!\"");
    owner_close(&o);
    fake_mqtt_close(&f);
}

/* Of MQTT 3.1.1, or nothing that MQTT is. */
static void
says_that_it_was_not_understood(void **state)
{
    static const struct {
        uint8_t bytes[9];
        size_t size;
        const char *words;
    } cases[] = {
        {{0x20, 2, 0, 0}, 4, "does not speak MQTT 5: "},
        {{0x20, 2, 0, 1}, 4, "version = 3.1.1 may help"},
        {"HTTP/1.1", 8, "instead of an answer"},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 1}, 6, "does not speak MQTT 5: "},
        {{0}, 0, "instead of an answer (it may want version = 3.1.1)"},
    };
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_mqtt_open(&f);
        owner_prepare(&o, f.port);
        owner_open(&o);
        fake_mqtt_accept(&f);
        fake_mqtt_read(&f, 0x10);
        fake_mqtt_send(&f, cases[i].bytes, cases[i].size);
        if (cases[i].size == 0 || cases[i].bytes[0] == 'H')
            fake_mqtt_hang_up(&f);
        owner_await_why(&o, cases[i].words);
        owner_close(&o);
        fake_mqtt_close(&f);
    }
}

/* MQTT 5: DISCONNECT of the MQTT broker. */
static void
says_why_it_was_disconnected(void **state)
{
    static const struct {
        uint8_t code;
        const char *words;
    } cases[] = {
        {0x8e, "session taken over: another client has the same client id"},
        {0x95, "packet too large"},
        {0x8b, "server shutting down"},
        {0x98, "administrative action"},
    };
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_mqtt_open(&f);
        owner_prepare(&o, f.port);
        owner_open(&o);
        fake_mqtt_welcome(&f, true);
        FAKE_MQTT_SEND(&f, 0xe0, 1, cases[i].code);
        owner_await(&o, &o.n_lost, 1);
        owner_await_why(&o, cases[i].words);
        owner_close(&o);
        fake_mqtt_close(&f);
    }
}

static void
says_that_nobody_is_there(void **state)
{
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    fake_mqtt_open(&f);
    fake_mqtt_close(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    owner_await_why(&o, "cannot connect to 127.0.0.1 port ");
    owner_await_why(&o, ": Connection refused");
    owner_close(&o);

    owner_prepare(&o, f.port);
    strcpy(o.config.host, "unknown.test");
    owner_open(&o);
    owner_await_why(&o, "no address is known for unknown.test: Name or ");
    owner_close(&o);
}

static void
tries_all_addresses(void **state)
{
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    strcpy(o.config.host, "several.test");
    owner_open(&o);
    fake_mqtt_welcome(&f, true);
    owner_await(&o, &o.n_connected, 1);
    owner_close(&o);
    fake_mqtt_close(&f);
}

/* Patience */

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

/* Accepts and cuts, `n` times. */
static void
cut(struct fake_mqtt *f, struct owner *o, unsigned n)
{
    unsigned lost = o->n_lost;

    for (unsigned i = 1; i <= n; i++) {
        fake_mqtt_welcome(f, true);
        owner_await(o, &o->n_connected, lost + i);
        fake_mqtt_hang_up(f);
        owner_await(o, &o->n_lost, lost + i);
    }
}

/* One that accepts and cuts at once is tried after pauses that grow, up to the
 * longest; only what was achieved makes them short again. The thread does
 * nothing meanwhile. An operator reads of it once: that it was connected, and
 * why no longer; and again after it has worked. */
static void
pauses_longer_and_longer(void **state)
{
    static const long longest[] = {10, 20, 40, 80, 80, 80, 10, 20};
    struct fake_mqtt f;
    struct owner o;
    char *text;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    o.config.retry_first_us = 10000;
    o.config.retry_max_us = 80000;
    owner_listen();
    owner_open(&o);
    cut(&f, &o, 6);
    fake_mqtt_welcome(&f, true);
    owner_await(&o, &o.n_connected, 7);
    owner_do(&o, owner_prove);
    fake_mqtt_hang_up(&f);
    owner_await(&o, &o.n_lost, 7);
    cut(&f, &o, 1);
    fake_mqtt_welcome(&f, true);
    owner_await(&o, &o.n_connected, 9);
    owner_close(&o);
    text = owner_heard();

    for (unsigned i = 0; i < 8; i++)
        assert_in_range(pause_of(text, i), longest[i] / 2, longest[i]);
    /* The first, the one after it was proven, the first one after that. */
    assert_int_equal(owner_count(text, "level=warning"), 3);
    assert_int_equal(owner_count(text, "level=info"), 3);
    assert_int_equal(owner_count(text, "level=debug"), 5);
    assert_int_equal(owner_count(text, "direction=out url=mqtt://127.0.0.1:"),
                     11);
    /* Some rounds for each try: it is woken by what happens. */
    assert_in_range(o.n_turns, 9, 9 * 20);
    free(text);
    fake_mqtt_close(&f);
}

/* Reasons that come by turns are told once each; all again after it was
 * connected. */
static void
warns_once_for_each_reason(void **state)
{
    struct fake_mqtt f;
    struct owner o;
    char *text;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_listen();
    owner_open(&o);
    for (unsigned i = 0; i < 8; i++) {
        if (i == 6) {
            fake_mqtt_welcome(&f, true);
            owner_await(&o, &o.n_connected, 1);
            owner_do(&o, owner_prove);
            owner_do(&o, owner_drop);
            owner_await(&o, &o.n_lost, 1);
        }
        fake_mqtt_accept(&f);
        fake_mqtt_read(&f, 0x10);
        FAKE_MQTT_SEND(&f, 0x20, 3, 0, (uint8_t)(i % 2 ? 0x88 : 0x89), 0);
        fake_mqtt_assert_end(&f);
    }
    fake_mqtt_accept(&f); /* so the last one was told */
    owner_close(&o);
    text = owner_heard();

    assert_int_equal(owner_count(text, "level=warning"), 5);
    assert_int_equal(owner_count(text, "the owner wants it so"), 1);
    assert_int_equal(owner_count(text, "level=info"), 1);
    free(text);
    fake_mqtt_close(&f);
}

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

/* One that takes the connection and never says a word, without TLS and with it;
 * one that takes it late, so that TLS cannot write at first; and one whose TLS
 * ends in the middle. Tries end, and meanwhile nothing goes round. (The ten
 * seconds are the client's own.) */
static void
does_not_wait_for_ever(void **state)
{
    static const char *const why[] = {
        "no answer from the MQTT broker to CONNECT",
        "TLS: no answer from the MQTT broker", "TLS: no answer from the MQTT",
        "in the TLS handshake"};

    enum { PLAIN, SILENT, LATE, SHUT, N };
    struct fake_mqtt f[N];
    struct owner o[N];
    int filling;

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        fake_mqtt_open(&f[i]);
        owner_prepare(&o[i], f[i].port);
        o[i].config.is_tls = i != PLAIN;
        o[i].config.retry_first_us = 100000000;
        o[i].config.retry_max_us = 100000000;
    }
    /* There is room for one that waits to be accepted. */
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
    fake_mqtt_hang_up(&f[SHUT]);
    for (unsigned i = 0; i < N; i++)
        owner_await_why(&o[i], why[i]);
    for (unsigned i = 0; i < N; i++) {
        assert_in_range(o[i].n_turns, 1, 50);
        owner_close(&o[i]);
        fake_mqtt_close(&f[i]);
    }
    close(filling);
}

/* Ends while it connects to one that never answers, while it waits for a name
 * server, and while it pauses. Each would last its ten seconds, or 100. */
static void
ends_at_once(void **state)
{
    struct fake_mqtt f;
    struct owner o;
    int64_t from_us;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_accept(&f);
    fake_mqtt_read(&f, 0x10);
    from_us = clock_steady_us();
    owner_close(&o);
    assert_true(clock_steady_us() - from_us < 9000000);
    fake_mqtt_close(&f);

    owner_prepare(&o, 1);
    o.config.retry_first_us = o.config.retry_max_us = 100000000;
    owner_open(&o);
    owner_await_why(&o, "refused");
    owner_close(&o);

    pthread_mutex_lock(&slow_lock);
    owner_prepare(&o, 1);
    strcpy(o.config.host, "slow.test");
    owner_open(&o);
    owner_do(&o, owner_look);
    owner_close(&o);
    pthread_mutex_unlock(&slow_lock);
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
static void
is_woken_from_anywhere(void **state)
{
    pthread_t threads[3];
    struct mqtt_state now;
    struct fake_mqtt f;
    struct owner o;

    (void)state;
    fake_mqtt_open(&f);
    owner_prepare(&o, f.port);
    owner_open(&o);
    fake_mqtt_welcome(&f, true);
    owner_await(&o, &o.n_connected, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wake, &o), 0);
    for (unsigned i = 0; i < 50; i++) {
        owner_do(&o, owner_look);
        mqtt_state(o.mqtt, &now);
        assert_int_equal(now.condition, MQTT_CONNECTED);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    owner_do(&o, owner_look);
    owner_close(&o);
    fake_mqtt_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledges_only_after_the_turn),
        cmocka_unit_test(says_who_it_is),
        cmocka_unit_test(keeps_to_what_the_mqtt_broker_takes),
        cmocka_unit_test(has_as_many_in_flight_as_it_may),
        cmocka_unit_test(tells_repeats),
        cmocka_unit_test(says_why_it_was_refused),
        cmocka_unit_test(quotes_a_refusal),
        cmocka_unit_test(says_that_it_was_not_understood),
        cmocka_unit_test(says_why_it_was_disconnected),
        cmocka_unit_test(says_that_nobody_is_there),
        cmocka_unit_test(tries_all_addresses),
        cmocka_unit_test(pauses_longer_and_longer),
        cmocka_unit_test(warns_once_for_each_reason),
        cmocka_unit_test(does_not_wait_for_ever),
        cmocka_unit_test(ends_at_once),
        cmocka_unit_test(is_woken_from_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

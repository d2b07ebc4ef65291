#include "broker/base/supervisor.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SECOND INT64_C(1000000)

/* A service manager: its socket, and the directory with its name. */
struct manager {
    struct tempdir dir;
    int fd;
    char name[280];
};

/* Binds a socket as systemd does; with `mark` in front of the name: "@" is an
 * abstract one. */
static void
bind_socket(struct manager *m, bool is_abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size;

    snprintf(m->name, sizeof(m->name), "%s%s/notify", is_abstract ? "@" : "",
             m->dir.path);
    size = strlen(m->name);
    assert_true(size < sizeof(address.sun_path));
    memcpy(address.sun_path, m->name, size);
    if (is_abstract)
        address.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(m->fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
        0);
    setenv("NOTIFY_SOCKET", m->name, 1);
}

static int
setup(void **state)
{
    struct manager *m = calloc(1, sizeof(*m));

    tempdir_open(&m->dir);
    diag_set_level(DIAG_ERROR);
    *state = m;
    return 0;
}

static int
teardown(void **state)
{
    struct manager *m = *state;

    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    close(m->fd);
    tempdir_close(&m->dir);
    free(m);
    diag_set_level(DIAG_INFO);
    return 0;
}

static void
assert_received(struct manager *m, const char *text)
{
    char got[800];
    ssize_t n = recv(m->fd, got, sizeof(got) - 1, MSG_DONTWAIT);

    assert_true(n >= 0);
    got[n] = '\0';
    assert_string_equal(got, text);
}

static bool
is_quiet(struct manager *m)
{
    char byte;

    return recv(m->fd, &byte, 1, MSG_DONTWAIT) < 0;
}

FIXTURE(setup, teardown);

TEST(messages_reach_a_path_and_an_abstract_name)
{
    struct manager *m = *state;
    struct supervisor s;

    for (int is_abstract = 0; is_abstract < 2; is_abstract++) {
        bind_socket(m, is_abstract);
        supervisor_open(&s);
        assert_int_equal(supervisor_wait_ms(&s), -1);
        supervisor_say(&s, SUPERVISOR_READY, "http://127.0.0.1:8787");
        assert_received(m, "READY=1\nSTATUS=serving at http://127.0.0.1:8787/");
        supervisor_say(&s, SUPERVISOR_STOPPING);
        assert_received(m, "STOPPING=1");
        supervisor_turn(&s, "log", 0); /* nobody asked for it */
        assert_true(is_quiet(m));
        supervisor_close(&s);
        if (!is_abstract)
            close(m->fd);
    }
}

/* systemd ignores what comes before the time of its own signal. */
TEST(a_reload_says_when_it_began)
{
    struct manager *m = *state;
    struct supervisor s;
    char expected[80];

    bind_socket(m, true);
    supervisor_open(&s);
    supervisor_say(&s, SUPERVISOR_RELOADING, clock_steady_us());
    snprintf(expected, sizeof(expected), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             clock_steady_us());
    assert_received(m, expected);
    supervisor_close(&s);
}

TEST(signs_of_life_come_four_times_a_period_and_stop_when_a_thread_hangs)
{
    struct manager *m = *state;
    struct supervisor s;

    bind_socket(m, true);
    setenv("WATCHDOG_USEC", "40000000", 1);
    supervisor_open(&s);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(supervisor_wait_ms(&s), 0);
        supervisor_turn(&s, "log", 30 * SECOND);
        assert_received(m, "WATCHDOG=1");
        assert_int_equal(supervisor_wait_ms(&s), 10000);
        clock_pass_us(9 * SECOND);
        supervisor_turn(&s, "log", 0); /* not due yet */
        assert_true(is_quiet(m));
        clock_pass_us(1 * SECOND);
    }
    supervisor_turn(&s, "log", 30 * SECOND + 1);
    assert_true(is_quiet(m));
    assert_int_equal(supervisor_wait_ms(&s), 10000);
    clock_pass_us(10 * SECOND);
    supervisor_turn(&s, "log", 1 * SECOND);
    assert_received(m, "WATCHDOG=1");
    supervisor_close(&s);
}

/* The service manager names the process whose signs of life it wants. */
TEST(a_watchdog_of_another_process_gets_no_signs)
{
    struct manager *m = *state;
    struct supervisor s;
    char own[16];

    bind_socket(m, true);
    setenv("WATCHDOG_USEC", "40000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    supervisor_open(&s);
    assert_int_equal(supervisor_wait_ms(&s), -1);
    supervisor_close(&s);
    snprintf(own, sizeof(own), "%d", (int)getpid());
    setenv("WATCHDOG_PID", own, 1);
    supervisor_open(&s);
    assert_int_equal(supervisor_wait_ms(&s), 0);
    supervisor_close(&s);
}

/* Environments that name no socket that a broker could use. */
TEST(nothing_is_sent_without_a_usable_name)
{
    static const char *const names[] = {"", "@", "/", "notify", "vsock:2:1234"};
    char longer[200];
    struct supervisor s;

    (void)state;
    setenv("WATCHDOG_USEC", "40000000", 1);
    memset(longer, 'a', sizeof(longer) - 1);
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    diag_set_level(DIAG_ERROR);
    for (size_t i = 0; i <= sizeof(names) / sizeof(names[0]); i++) {
        bool is_last = i == sizeof(names) / sizeof(names[0]);

        setenv("NOTIFY_SOCKET", is_last ? longer : names[i], 1);
        supervisor_open(&s);
        assert_int_equal(s.fd, -1);
        assert_int_equal(supervisor_wait_ms(&s), -1);
        supervisor_say(&s, SUPERVISOR_READY, "http://127.0.0.1:8787");
        supervisor_close(&s);
    }
}

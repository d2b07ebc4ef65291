#include "tests/support/broker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/places.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/test.h"

#define PROGRAM BIN_DIR "/tidingsd"

int
broker_wait(struct broker *b)
{
    int64_t end_ms = process_now_ms() + PATIENCE_MS;
    char unread[256];
    ssize_t n;
    int status;

    /* Standard output is open until the process ends. */
    while ((n = process_read(b->out, unread, sizeof(unread), end_ms)) > 0)
        ;
    if (n < 0)
        kill(b->pid, SIGABRT); /* leaves a core, where that is allowed */
    status = process_status(b->pid);
    close(b->out);
    b->pid = 0;
    if (n < 0)
        fail_msg("the broker did not end within %d ms", PATIENCE_MS);
    return status;
}

/* Waits for "tidingsd: ready at http://127.0.0.1:40123/". */
static void
wait_until_ready(struct broker *b)
{
    static const char ready[] = "tidingsd: ready at ";
    int64_t end_ms = process_now_ms() + PATIENCE_MS;
    char line[256] = "";
    size_t size = 0;
    char *end;

    while (!(end = strchr(line, '\n'))) {
        ssize_t n =
            process_read(b->out, line + size, sizeof(line) - 1 - size, end_ms);

        if (n < 0) {
            broker_kill9(b);
            fail_msg("the broker was not ready within %d ms", PATIENCE_MS);
        }
        if (n == 0)
            fail_msg("the broker ended with %d before it was ready",
                     broker_wait(b));
        size += (size_t)n;
        line[size] = '\0';
    }

    if (strncmp(line, ready, sizeof(ready) - 1) != 0 || end[-1] != '/')
        fail_msg("the broker said \"%s\"", line);
    snprintf(b->url, sizeof(b->url), "%.*s",
             (int)(end - 1 - line) - (int)(sizeof(ready) - 1),
             line + sizeof(ready) - 1);
    b->port = (unsigned)strtoul(strrchr(b->url, ':') + 1, NULL, 10);
    assert_in_range(b->port, 1, 65535);
}

static void
start(struct broker *b)
{
    assert_int_equal(b->pid, 0);
    b->pid = process_start(b->arguments, b->log, &b->out);
    wait_until_ready(b);
}

/* The life of a broker */

/* A free port, and a socket bound to it that never listens: until it is closed,
 * the kernel gives the port to nobody who asks for any. A broker that names the
 * port gets it, as both have SO_REUSEADDR. */
static int
keep_port(unsigned *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Lists that the broker builds by itself at some time would disturb a test that
 * looks at everything. */
static void
build_no_lists(const char **arguments)
{
    static const char option[] = "--resource-list-every";
    int n = 0;

    for (; arguments[n]; n++)
        if (!strcmp(arguments[n], option))
            return;
    assert_true(n + 2 < BROKER_ARGUMENTS_MAX);
    arguments[n] = option;
    arguments[n + 1] = "0";
    arguments[n + 2] = NULL;
}

void
broker_open(struct broker *b, ...)
{
    va_list options;
    int n = 5;

    *b = (struct broker){
        .arguments = {PROGRAM, "--listen", b->listen, "--data", b->data}};
    va_start(options, b);
    do {
        assert_true(n < BROKER_ARGUMENTS_MAX);
        b->arguments[n] = va_arg(options, const char *);
    } while (b->arguments[n++]);
    va_end(options);
    build_no_lists(b->arguments);

    tempdir_open(&b->dir);
    process_log(b->log, sizeof(b->log));
    snprintf(b->data, sizeof(b->data), "%s/data", b->dir.path);
    b->keeper = keep_port(&b->port);
    snprintf(b->listen, sizeof(b->listen), "127.0.0.1:%u", b->port);
    start(b);
}

void
broker_close(struct broker *b)
{
    if (b->pid)
        broker_kill9(b);
    if (b->keeper > 0)
        close(b->keeper);
    b->keeper = 0;
    tempdir_close(&b->dir);
}

void
broker_stop(struct broker *b)
{
    int status;

    kill(b->pid, SIGTERM);
    status = broker_wait(b);
    if (status)
        fail_msg("the broker ended with %d", status);
}

void
broker_kill9(struct broker *b)
{
    kill(b->pid, SIGKILL);
    process_status(b->pid);
    close(b->out);
    b->pid = 0;
}

void
broker_restart(struct broker *b)
{
    start(b);
}

/* As a fixture */

int
broker_setup(void **state)
{
    struct broker *b = malloc(sizeof(*b));

    assert_non_null(b);
    *state = b;
    broker_open(b, NULL);
    return 0;
}

int
broker_teardown(void **state)
{
    struct broker *b = *state;

    if (b->pid)
        broker_stop(b);
    broker_close(b);
    free(b);
    return 0;
}

struct broker *
broker_of(void **state)
{
    return *state;
}

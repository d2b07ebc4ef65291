/*
 * client.c - the handle: its life, its problem, its stop.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/connection.h"
#include "client/lib/fetch.h"

static pthread_once_t is_set_up = PTHREAD_ONCE_INIT;

static void
set_up(void)
{
    fetch_set_up();
    connection_set_up();
}

int64_t
client_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *
client_ca_file(void)
{
    const char *file = getenv("CURL_CA_BUNDLE");

    if (!file || !file[0])
        file = getenv("SSL_CERT_FILE");
    return file && file[0] ? file : NULL;
}

void
client_begin(struct td_client *client)
{
    client->problem[0] = '\0';
    client->status = 0;
    client->retry_after_s = 0;
}

enum td_status
client_end(struct td_client *client, enum td_status rc)
{
    uint64_t count;

    if (rc == TD_STOPPED)
        while (read(client->stop_fd, &count, sizeof(count)) < 0 &&
               errno == EINTR)
            ;
    if (rc == TD_OK || rc == TD_STOPPED)
        client->problem[0] = '\0';
    return rc;
}

enum td_status
client_fail(struct td_client *client, enum td_status rc, const char *format,
            ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(client->problem, sizeof(client->problem), format, args);
    va_end(args);

    /* Part of it is the broker's text, and it ends on terminals. */
    for (char *p = client->problem; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = ' ';
    return rc;
}

bool
client_wait(struct td_client *client, unsigned ms)
{
    struct pollfd fd = {.fd = client->stop_fd, .events = POLLIN};
    int64_t end = client_now_ms() + ms;
    int64_t left = ms;
    int n;

    do {
        n = poll(&fd, 1, (int)left);
        left = end - client_now_ms();
    } while (n == 0 ? left > 0 : n < 0 && errno == EINTR && left > 0);
    return n > 0;
}

struct td_client *
td_open(void)
{
    struct td_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    pthread_once(&is_set_up, set_up);
    client->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->fetcher = fetcher_new();
    if (client->stop_fd < 0 || !client->fetcher) {
        td_close(client);
        return NULL;
    }
    return client;
}

void
td_close(struct td_client *client)
{
    if (!client)
        return;
    fetcher_free(client->fetcher);
    if (client->stop_fd >= 0)
        close(client->stop_fd);
    free(client);
}

const char *
td_problem(const struct td_client *client)
{
    return client->problem;
}

unsigned
td_answered(const struct td_client *client, unsigned *retry_after_s)
{
    if (retry_after_s)
        *retry_after_s = client->retry_after_s;
    return client->status;
}

/* Only a write: whatever it interrupts may be anywhere, in malloc too. The
 * write cannot block, and that it fails at 2^64-2 stops does not matter. */
void
td_stop(struct td_client *client)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(client->stop_fd, &one, sizeof(one));

    (void)n;
    errno = saved;
}

#include "tests/support/turner.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/clock.h"
#include "tests/test.h"

struct turner {
    struct td_client *client;
    pthread_t thread;
    pthread_mutex_t mutex; /* its holder may use the client */
    pthread_cond_t turned; /* callbacks may have been called */
    int wake;              /* an eventfd: something was begun on the client */
    bool is_ending;
};

static void *
run(void *user)
{
    struct turner *t = user;
    bool is_ending = false;
    uint64_t count;

    while (!is_ending) {
        struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
        int timeout;

        pthread_mutex_lock(&t->mutex);
        td_service(t->client);
        pthread_cond_broadcast(&t->turned);
        fds[0].fd = td_fd(t->client);
        fds[1].fd = t->wake;
        timeout = td_timeout_ms(t->client);
        is_ending = t->is_ending;
        pthread_mutex_unlock(&t->mutex);
        if (!is_ending && poll(fds, 2, timeout) > 0 && fds[1].revents)
            (void)!read(t->wake, &count, sizeof(count));
    }
    return NULL;
}

struct turner *
turner_begin(struct td_client *client)
{
    struct turner *t = calloc(1, sizeof(*t));

    assert_non_null(t);
    t->client = client;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->turned, NULL);
    t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(t->wake >= 0);
    assert_int_equal(pthread_create(&t->thread, NULL, run, t), 0);
    return t;
}

void
turner_hold(struct turner *t)
{
    pthread_mutex_lock(&t->mutex);
}

void
turner_let(struct turner *t)
{
    const uint64_t one = 1;

    pthread_mutex_unlock(&t->mutex);
    (void)!write(t->wake, &one, sizeof(one));
}

int
turner_read(struct turner *t, const int *value)
{
    int copy;

    turner_hold(t);
    copy = *value;
    pthread_mutex_unlock(&t->mutex);
    return copy;
}

void
turner_await(struct turner *t, const int *value, int n)
{
    turner_hold(t);
    while (*value < n)
        pthread_cond_wait(&t->turned, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
}

/* Does all that is due. */
static void
settle(struct td_client *client)
{
    do
        td_service(client);
    while (td_timeout_ms(client) == 0);
}

void
turner_pass_us(struct turner *t, int64_t us)
{
    turner_hold(t);
    settle(t->client);
    clock_pass_us(us);
    settle(t->client);
    turner_let(t);
}

void
turner_end(struct turner *t)
{
    if (!t)
        return;
    turner_hold(t);
    t->is_ending = true;
    turner_let(t);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->turned);
    pthread_mutex_destroy(&t->mutex);
    close(t->wake);
    free(t);
}

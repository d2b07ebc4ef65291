#include "tests/bench/crowd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define EVENTS_MAX 512

/* After this silence the crowd waits for nothing more. */
#define SILENCE_NS 5000000000

/* epoll knows publishers by their number, subscribers by theirs and this. */
#define SUBSCRIBERS_FROM SUBSCRIBER_PUBLISHERS_MAX

static void
watch(struct crowd *c, int how, int fd, uint32_t events, uint64_t number)
{
    struct epoll_event on = {.events = events, .data.u64 = number};

    if (epoll_ctl(c->epoll, how, fd, &on))
        bench_fail("epoll: %s", strerror(errno));
}

void
crowd_open(struct crowd *c, unsigned port, const struct protocol *protocol,
           unsigned publishers, enum form form, size_t entries, size_t bytes)
{
    memset(c, 0, sizeof(*c));
    c->port = port;
    c->protocol = protocol;
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->n_publishers = publishers;
    c->quick.delay = &c->delay;
    for (unsigned i = 0; i < publishers; i++) {
        publisher_open_peer(&c->publishers[i], i, port, protocol, PURPOSE_SEND,
                            form, entries, bytes);
        watch(c, EPOLL_CTL_ADD, c->publishers[i].fd,
              EPOLLIN | EPOLLOUT | EPOLLET, i);
    }
}

void
crowd_close(struct crowd *c)
{
    for (unsigned i = 0; i < c->n_publishers; i++)
        publisher_close(&c->publishers[i]);
    for (unsigned i = 0; i < c->n_subscribers; i++)
        subscriber_close(&c->subscribers[i]);
    free(c->subscribers);
    close(c->epoll);
}

void
crowd_join(struct crowd *c, unsigned n, const char *subprotocol, bool has_slow)
{
    c->subscribers = bench_memory(realloc(
        c->subscribers, (c->n_subscribers + n) * sizeof(*c->subscribers)));
    for (; n > 0; n--, c->n_subscribers++) {
        struct subscriber *s = &c->subscribers[c->n_subscribers];
        bool is_slow = has_slow && c->n_subscribers % CROWD_SLOW_EVERY == 0;

        subscriber_open(s, c->port, c->protocol, subprotocol, is_slow,
                        is_slow ? &c->slow : &c->quick);
        watch(c, EPOLL_CTL_ADD, s->fd, EPOLLIN,
              SUBSCRIBERS_FROM + c->n_subscribers);
    }
}

void
crowd_stall(struct crowd *c, bool is_stalled)
{
    for (unsigned i = 0; i < c->n_subscribers; i++) {
        struct subscriber *s = &c->subscribers[i];

        if (s->fd >= 0 && s->receipts == &c->slow)
            watch(c, is_stalled ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, s->fd, EPOLLIN,
                  SUBSCRIBERS_FROM + i);
    }
}

void
crowd_reset(struct crowd *c)
{
    memset(&c->delay, 0, sizeof(c->delay));
    c->quick = (struct receipts){.delay = &c->delay};
    c->slow = (struct receipts){0};
    c->posted = 0;
    c->of_closed = 0;
    for (unsigned i = 0; i < c->n_subscribers; i++)
        c->subscribers[i].received = 0;
}

static void
on_event(struct crowd *c, uint64_t number)
{
    struct subscriber *s;

    if (number < SUBSCRIBERS_FROM) {
        publisher_on_event(&c->publishers[number]);
        return;
    }
    s = &c->subscribers[number - SUBSCRIBERS_FROM];
    if (s->fd >= 0 && !subscriber_read(s)) {
        c->n_closed++;
        c->of_closed += s->received;
    }
}

/* One turn of the loop. */
static void
turn(struct crowd *c, int wait_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(c->epoll, events, EVENTS_MAX, wait_ms);

    for (int i = 0; i < n; i++)
        on_event(c, events[i].data.u64);
    if (n > 0)
        c->last_ns = bench_now_ns();
    if (c->on_tick)
        c->on_tick(c, c->user);
}

/* Entries on their way to those who are still there. */
static uint64_t
outstanding(const struct crowd *c)
{
    return c->posted * (c->n_subscribers - c->n_closed) -
           (c->quick.entries + c->slow.entries - c->of_closed);
}

static struct publisher *
idle_publisher(struct crowd *c)
{
    for (unsigned i = 0; i < c->n_publishers; i++)
        if (!c->publishers[i].is_busy)
            return &c->publishers[i];
    return NULL;
}

static void
post(struct crowd *c, struct publisher *p, uint64_t time_ns)
{
    publisher_post(p, time_ns);
    c->posted += p->entries;
}

void
crowd_rest(struct crowd *c, double seconds)
{
    uint64_t end_ns = bench_now_ns() + (uint64_t)(seconds * 1e9);

    while (bench_now_ns() < end_ns)
        turn(c, 10);
}

/* Posts what is due; a post that had to wait bears the time it was due. */
static void
publish_paced(struct crowd *c, const struct pace *pace)
{
    uint64_t start_ns = bench_now_ns();
    uint64_t n = 0, total = (uint64_t)(pace->seconds * pace->rate);

    while (n < total) {
        uint64_t due_ns = start_ns + (uint64_t)((double)n * 1e9 / pace->rate);
        uint64_t now_ns = bench_now_ns();
        struct publisher *p = idle_publisher(c);

        if (now_ns >= due_ns && p) {
            post(c, p, due_ns);
            n++;
            continue;
        }
        /* The last millisecond is spun: epoll's clock is no finer. */
        turn(c, !p || due_ns - now_ns > 1000000 ? 1 : 0);
    }
}

static void
publish_saturated(struct crowd *c, const struct pace *pace)
{
    uint64_t end_ns = bench_now_ns() + (uint64_t)(pace->seconds * 1e9);
    uint64_t entries = c->publishers[0].entries;
    uint64_t window = pace->outstanding * entries * c->n_subscribers;

    while (bench_now_ns() < end_ns) {
        struct publisher *p;

        while ((p = idle_publisher(c)) &&
               outstanding(c) + entries * c->n_subscribers <= window)
            post(c, p, bench_now_ns());
        turn(c, 10);
    }
}

void
crowd_publish(struct crowd *c, const struct pace *pace)
{
    if (pace->rate > 0)
        publish_paced(c, pace);
    else
        publish_saturated(c, pace);
}

static bool
is_posting(const struct crowd *c)
{
    for (unsigned i = 0; i < c->n_publishers; i++)
        if (c->publishers[i].is_busy)
            return true;
    return false;
}

void
crowd_drain(struct crowd *c)
{
    c->last_ns = bench_now_ns();
    while ((outstanding(c) > 0 || is_posting(c)) &&
           bench_now_ns() - c->last_ns < SILENCE_NS)
        turn(c, 10);
}

uint64_t
crowd_lost(const struct crowd *c)
{
    return c->posted * c->n_subscribers - c->quick.entries - c->slow.entries;
}

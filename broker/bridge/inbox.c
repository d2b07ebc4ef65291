#include "broker/bridge/inbox.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

enum status
inbox_init(struct inbox *r, struct posts *posts, struct problem *why)
{
    *r = (struct inbox){.posts = posts};
    list_init(&r->messages);
    errno = pthread_mutex_init(&r->mutex, NULL);
    if (errno)
        goto fail;
    errno = thread_init_changed(&r->changed);
    if (errno)
        goto fail_mutex;
    return STATUS_OK;

fail_mutex:
    pthread_mutex_destroy(&r->mutex);
fail:
    problem_errno(why, "cannot make", "a bridge's round");
    return STATUS_IO;
}

void
inbox_fini(struct inbox *r)
{
    inbox_forget(r);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}

void
inbox_end(struct inbox *r)
{
    pthread_mutex_lock(&r->mutex);
    r->is_ending = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

void
inbox_add(struct inbox *r, struct inbox_message *h)
{
    list_append(&r->messages, &h->node);
    r->n++;
    r->bytes += h->payload.data ? h->payload.size : 0;
}

bool
inbox_is_full(const struct inbox *r)
{
    return r->n >= INBOX_MESSAGES || r->bytes >= INBOX_BYTES;
}

bool
inbox_is_empty(const struct inbox *r)
{
    return r->n == 0;
}

static void
drop_message(struct inbox *r, struct inbox_message *h)
{
    list_remove(&h->node);
    r->n--;
    r->bytes -= h->payload.data ? h->payload.size : 0;
    inbox_message_free(h);
}

void
inbox_forget(struct inbox *r)
{
    struct list *node, *after;

    list_foreach (node, after, &r->messages)
        drop_message(r, list_entry(node, struct inbox_message, node));
}

/* On the log thread; if there is nothing to commit, on the client's. */
static void
on_done(struct ingest *ingest, void *user)
{
    struct inbox *r = user;

    (void)ingest;
    pthread_mutex_lock(&r->mutex);
    if (--r->pending == 0)
        pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

static void
count_pending(struct inbox *r, int by)
{
    pthread_mutex_lock(&r->mutex);
    r->pending += (unsigned)by;
    pthread_mutex_unlock(&r->mutex);
}

/* Hands messages to the log, up to the first one that it cannot take now. */
static void
hand_over(struct inbox *r)
{
    struct list *node, *after;

    list_foreach (node, after, &r->messages) {
        struct inbox_message *h = list_entry(node, struct inbox_message, node);

        count_pending(r, 1);
        if (!inbox_message_begin(h, r->posts, &r->line, on_done, r))
            continue;
        count_pending(r, -1);
        if (inbox_message_is_passing(h->rc))
            break;
    }
    log_wake(registry_log(r->posts->registry));
}

/* Waits for the answers. The log always answers soon: after one fsync, or a
 * failed one. */
static void
wait_for_log(struct inbox *r)
{
    pthread_mutex_lock(&r->mutex);
    while (r->pending > 0)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

/* Pauses; returns true if the round goes on after it. */
static bool
pause_round(struct inbox *r, int64_t us)
{
    struct timespec until;
    bool goes_on;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += us / 1000000;
    until.tv_nsec += us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&r->mutex);
    while (!r->is_ending &&
           pthread_cond_timedwait(&r->changed, &r->mutex, &until) != ETIMEDOUT)
        ;
    goes_on = !r->is_ending;
    pthread_mutex_unlock(&r->mutex);
    return goes_on;
}

/* Makes one pass. Returns how many messages were settled. The others stay
 * unchanged, and *why has the failure of the first of them. */
static size_t
run_pass(struct inbox *r, struct problem *why)
{
    struct list *node, *after;
    size_t n = 0;

    hand_over(r);
    wait_for_log(r);
    r->line.is_broken = false;
    list_foreach (node, after, &r->messages) {
        struct inbox_message *h = list_entry(node, struct inbox_message, node);

        if (h->ingest) {
            h->rc = ingest_post(h->ingest)->status;
            h->why = ingest_post(h->ingest)->why;
        }
        if (inbox_message_is_passing(h->rc)) {
            *why = h->why;
            break;
        }
        r->on_settled(h, r->user);
        drop_message(r, h);
        n++;
    }
    for (; node != &r->messages; node = node->next)
        inbox_message_end(list_entry(node, struct inbox_message, node));
    return n;
}

enum status
inbox_settle(struct inbox *r, int64_t patience_us, struct problem *why)
{
    int64_t pause_us = INBOX_PAUSE_US;
    int64_t until_us = clock_steady_us() + patience_us;

    while (!inbox_is_empty(r)) {
        if (run_pass(r, why) > 0) {
            pause_us = INBOX_PAUSE_US;
            continue;
        }
        r->on_stuck(why, r->user);
        if (clock_steady_us() + pause_us > until_us ||
            !pause_round(r, pause_us))
            return STATUS_BUSY;
        pause_us = pause_us < INBOX_PAUSE_MAX_US / 2 ? 2 * pause_us
                                                     : INBOX_PAUSE_MAX_US;
    }
    return STATUS_OK;
}

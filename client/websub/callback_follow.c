/*
 * callback_follow.c - a follower that gets its notifications from a hub.
 *
 *     follower --sought--> subscriber at the topic of its set
 *         ^                    |
 *         +-- message, nudge --+
 *
 * When the follower is gone, the subscriber goes on, as a tenant of the
 * callback, until the hub has ended the subscription.
 */
#include <stdlib.h>
#include <string.h>

#include "client/follow/follower.h"
#include "client/websub/subscriber.h"

/* Notifications are the main way; a request now and then finds what they miss.
 */
#define POLL_MS 600000

struct follow {
    struct td_callback *callback;
    struct td_follower *follower;     /* NULL: gone */
    struct td_subscriber *subscriber; /* NULL: not yet, or over */
    struct tenant tenant;             /* after the follower */
    char *topic;
};

static void
free_follow(struct follow *w)
{
    td_subscriber_close(w->subscriber);
    free(w->topic);
    free(w);
}

static void
close_tenant(void *owner)
{
    struct follow *w = owner;

    callback_leave(w->callback, &w->tenant);
    free_follow(w);
}

/* Events of the subscriber */

static void
on_delivery(const struct td_delivery *delivery, void *user)
{
    struct follow *w = user;

    if (w->follower)
        push_message(w->follower, delivery->body, delivery->size);
}

static void
on_state(enum td_subscription_state state, const char *detail, void *user)
{
    struct follow *w = user;

    if (!w->follower) {
        if (state == TD_ENDED || state == TD_DENIED)
            close_tenant(w);
        return;
    }
    switch (state) {
    case TD_ACTIVE: /* nobody has notified us of earlier changes */
        push_nudge(w->follower);
        break;
    case TD_DENIED: /* no subscription is left to end */
        td_subscriber_close(w->subscriber);
        w->subscriber = NULL;
        follower_fail(w->follower, STATUS_REFUSED, "the hub denied: %s",
                      detail);
        break;
    case TD_TROUBLE:
        follower_report(w->follower, detail,
                        subscriber_pause_ms(w->subscriber));
        break;
    case TD_DISCOVERED:
    case TD_REQUESTED:
    case TD_ENDED:
        break;
    }
}

/* Events of the follower */

static bool
on_sought(struct td_follower *f, void *owner)
{
    const struct td_subscriber_options options = {
        .on_delivery = on_delivery,
        .on_state = on_state,
        .user = owner,
    };
    struct follow *w = owner;
    const char *topic = f->offered.topic;
    enum status rc;

    if (!topic)
        return follower_fail(f, STATUS_REFUSED,
                             "%.200s names no topic for change notifications",
                             f->options.url);
    if (w->topic && !strcmp(w->topic, topic))
        return true;
    td_subscriber_close(w->subscriber); /* the topic is another one */
    w->subscriber = NULL;
    free(w->topic);
    w->topic = strdup(topic);
    if (!w->topic)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    rc = subscriber_new(w->callback, topic, &options, &w->subscriber);
    if (rc)
        return follower_fail(f, rc == STATUS_MEMORY ? rc : STATUS_MALFORMED,
                             "the topic %.200s: %.200s", topic,
                             td_problem(f->client));
    return true;
}

static void
on_closed(void *owner)
{
    struct follow *w = owner;

    w->follower = NULL;
    if (!w->subscriber) {
        free_follow(w);
        return;
    }
    w->tenant = (struct tenant){.close = close_tenant, .owner = w};
    callback_stay(w->callback, &w->tenant);
    td_subscriber_end(w->subscriber);
}

enum td_status
td_callback_follow(struct td_callback *callback, const char *url,
                   const struct td_follow_options *options,
                   td_message_fn *on_message, void *user,
                   struct td_follower **follower)
{
    struct td_client *client = callback->client;
    struct td_follow_options all = {.after = NULL};
    struct follow *w = calloc(1, sizeof(*w));
    enum td_status rc;

    *follower = NULL;
    if (!w) {
        client_begin(client);
        return client_end(client, problem_memory(&client->problem));
    }
    if (options)
        all = *options;
    all.transports = TD_LONG_POLL | TD_POLL;
    if (!all.poll_ms)
        all.poll_ms = POLL_MS;
    w->callback = callback;
    rc = td_follower_open(client, url, &all, on_message, user, follower);
    if (rc) {
        free_follow(w);
        return rc;
    }
    w->follower = *follower;
    (*follower)->pusher =
        (struct pusher){.sought = on_sought, .close = on_closed, .owner = w};
    return TD_OK;
}

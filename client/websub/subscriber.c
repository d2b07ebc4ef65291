/*
 * subscriber.c - keeps a topic subscribed.
 *
 *                +--------------- failed ---------------+
 *                v                                      |
 *     PAUSING --> SEEKING --hub, self--> ASKING --verified--> HOLDING
 *                ^                         |                    |
 *                +-------- the lease is three quarters over ----+
 *
 *     any --td_subscriber_end--> ENDING --> OVER
 *     ASKING --denied--> OVER
 *     HOLDING --doubted--> SEEKING, as for a renewal: the hub decides
 *
 * `current` is the verified lease. A renewal requests another one, `next`, with
 * a callback URL of its own. After its verification, the subscriber asks the
 * hub to end the one before (W-029), which joins `leaving`.
 *
 * If somebody claims that `current` was denied (hub_subscription.h), the
 * subscriber requests the next lease at once. If the hub refuses or denies that
 * one, or refuses the topic, the denial was true. If the hub verifies it, the
 * denial was false, and its sender does not know the new callback URL.
 * Deliveries to the old one count meanwhile.
 */

#include "client/follow/follower.h"
#include "client/lib/pause.h"
#include "client/websub/callback.h"
#include "client/websub/delivery_queue.h"
#include "client/websub/hub_subscription.h"
#include "client/websub/topic_discovery.h"
#include "proto/http/websub.h"

/* Milliseconds between attempts, at most. */
#define PAUSE_MOST 300000

/* Most leases that are ending; of more, one is forgotten and runs out. */
#define LEAVING_MAX 8

#define DELIVERY_MAX (64u * 1024 * 1024)

enum state {
    STATE_SEEKING,
    STATE_ASKING,
    STATE_HOLDING,
    STATE_PAUSING,
    STATE_ENDING,
    STATE_OVER
};

struct td_subscriber {
    struct retired retired; /* the first */
    struct td_callback *callback;
    struct td_client *client;
    struct running running;
    struct td_subscriber_options options;
    char *topic_url;
    enum state state;

    struct topic_search *search;
    struct delivery_queue deliveries;
    struct timer timer; /* the next attempt, or renewal */
    struct hub_subscription *current, *next;
    struct hub_subscription *leaving[LEAVING_MAX];
    unsigned n_leases; /* ever */
    unsigned n_failed; /* attempts since the last verification */
    unsigned pause_ms;
    unsigned waits_ms; /* since the last trouble */
    bool was_active;   /* ever */
    bool is_doubted;   /* somebody claims that `current` was denied */

    /* A hub that moved for good (W-033): old and new address */
    char *moved_from, *moved_to;
    char *hub; /* of the request, as the topic names it */
};

static const struct problem no_memory = PROBLEM_MEMORY;

static void seek_topic(void *user);

/* Reports a state. False: the callee freed the subscriber. */
static bool
report_state(struct td_subscriber *s, enum td_subscription_state state,
             const char *detail)
{
    if (s->options.on_state)
        s->options.on_state(state, detail, s->options.user);
    return !s->retired.is_over;
}

/* The one function that changes the state; the diagram is above. */
static void
enter_state(struct td_subscriber *s, enum state state)
{
    timer_stop(&s->timer);
    topic_search_free(s->search);
    s->search = NULL;
    if (state != STATE_ASKING) {
        hub_subscription_free(s->next);
        s->next = NULL;
    }
    if (state == STATE_OVER) {
        hub_subscription_free(s->current);
        s->current = NULL;
        for (size_t i = 0; i < LEAVING_MAX; i++) {
            hub_subscription_free(s->leaving[i]);
            s->leaving[i] = NULL;
        }
        client_idles(s->client, &s->running, true);
    }
    s->state = state;
}

/* Reports trouble, and tries again later. */
static void
retry_later(struct td_subscriber *s, const struct problem *why)
{
    unsigned ms = pause_asked(&s->pause_ms, PAUSE_MOST, why->retry_after_s);

    s->n_failed++;
    enter_state(s, STATE_PAUSING);
    s->waits_ms = ms < PAUSE_MOST ? ms : PAUSE_MOST;
    timer_start(&s->timer, s->waits_ms);
    report_state(s, TD_TROUBLE, why->text);
}

/* Copies `why`, which may be the lease's. */
static void
be_denied(struct td_subscriber *s, const struct problem *why)
{
    struct problem copy = *why;

    enter_state(s, STATE_OVER);
    report_state(s, TD_DENIED, copy.text);
}

/* Leaving */

static bool
is_leaving(const struct td_subscriber *s)
{
    for (size_t i = 0; i < LEAVING_MAX; i++)
        if (s->leaving[i])
            return true;
    return false;
}

static void
let_go(struct td_subscriber *s, struct hub_subscription *lease, bool is_shut)
{
    size_t i = 0;

    while (i < LEAVING_MAX - 1 && s->leaving[i])
        i++;
    hub_subscription_free(s->leaving[i]);
    s->leaving[i] = lease;
    hub_subscription_leave(lease, is_shut);
}

static void
on_left(struct td_subscriber *s, struct hub_subscription *lease)
{
    for (size_t i = 0; i < LEAVING_MAX; i++)
        if (s->leaving[i] == lease)
            s->leaving[i] = NULL;
    hub_subscription_free(lease);
    if (s->state == STATE_ENDING && !is_leaving(s)) {
        enter_state(s, STATE_OVER);
        report_state(s, TD_ENDED, "");
    }
}

/* Leases */

/* True if a refusal, by the hub or the topic, proves a denial: the server has
 * said no. A page that names no hub proves nothing: a proxy or a network may
 * put it before the server. Nor does a 401, if the file of our token may get
 * another one. After the refusal of a mere renewal, the subscriber tries again.
 */
static bool
is_proof(const struct td_subscriber *s, const struct problem *why)
{
    if (why->http_status == 401 &&
        servers_may_change_token(&s->client->servers, s->topic_url))
        return false;
    return s->is_doubted && why->http_status / 100 == 4 &&
           (why->rc == STATUS_REFUSED || why->rc == STATUS_GONE);
}

static void
on_active(struct td_subscriber *s, struct hub_subscription *lease)
{
    uint64_t lease_s = lease->lease_s;
    uint64_t spread_ms = lease_s * 200, ms = lease_s * 650;
    char seconds[24];

    if (lease == s->next) {
        s->next = NULL;
        if (s->current)
            let_go(s, s->current, false);
        s->current = lease;
        s->is_doubted = false;
    } else if (lease != s->current || s->state != STATE_HOLDING) {
        return; /* a repeat for the old lease, during its renewal */
    }
    s->was_active = true;
    enter_state(s, STATE_HOLDING);
    s->n_failed = 0;
    s->pause_ms = PAUSE_FIRST;
    /* W-073: renews when about a quarter of the lease is left. */
    ms += pause_chance(spread_ms < UINT32_MAX ? (unsigned)spread_ms + 1
                                              : UINT32_MAX);
    timer_start(&s->timer, ms > 500 ? ms : 500);
    snprintf(seconds, sizeof(seconds), "%" PRIu64, lease_s);
    report_state(s, TD_ACTIVE, seconds);
}

/* Asks the hub at once. But if a request is under way, or the subscriber pauses
 * after trouble, that request or the next one decides. */
static void
on_doubted(struct td_subscriber *s, const struct hub_subscription *lease,
           const struct problem *why)
{
    char text[sizeof(why->text) + 100];

    if (lease != s->current || s->is_doubted)
        return;
    s->is_doubted = true;
    s->waits_ms = 0;
    snprintf(text, sizeof(text),
             "somebody says that the hub denies the subscription%s%s: asking "
             "the hub",
             why->text[0] ? ": " : "", why->text);
    if (report_state(s, TD_TROUBLE, text) && s->state == STATE_HOLDING)
        seek_topic(s);
}

static void
on_lease(struct hub_subscription *lease, enum hub_subscription_event event,
         const struct problem *why, void *user)
{
    struct td_subscriber *s = user;
    bool is_ours = lease == s->next || lease == s->current;

    if (lease == s->next && lease->moved) {
        free(s->moved_from);
        free(s->moved_to);
        s->moved_from = strdup(s->hub);
        s->moved_to = strdup(lease->moved); /* without memory it is not known */
    }
    switch (event) {
    case HUB_SUBSCRIPTION_ACCEPTED:
        if (is_ours)
            report_state(s, TD_REQUESTED, "");
        break;
    case HUB_SUBSCRIPTION_ACTIVE:
        on_active(s, lease);
        break;
    case HUB_SUBSCRIPTION_FAILED:
        if ((why->rc == STATUS_REFUSED && !s->was_active) || is_proof(s, why))
            be_denied(s, why);
        else
            retry_later(s, why);
        break;
    case HUB_SUBSCRIPTION_DENIED:
        if (is_ours)
            be_denied(s, why);
        else
            on_left(s, lease);
        break;
    case HUB_SUBSCRIPTION_DOUBTED:
        on_doubted(s, lease, why);
        break;
    case HUB_SUBSCRIPTION_LEFT:
        on_left(s, lease);
        break;
    }
}

/* Discovery */

static void
on_found(const struct problem *why, const struct topic *topic, void *user)
{
    struct td_subscriber *s = user;
    struct hub_subscription_plan plan = {
        .callback = s->callback,
        .deliveries = &s->deliveries,
        .lease_s = s->options.lease_s,
        .has_no_secret = s->options.has_no_secret,
        .max_bytes = s->options.max_bytes,
        .on_event = on_lease,
        .user = s,
    };
    const char *hub;

    s->search = NULL;
    if (is_proof(s, why)) {
        be_denied(s, why);
        return;
    }
    if (why->rc) {
        retry_later(s, why);
        return;
    }
    if (!report_state(s, TD_DISCOVERED, topic->self) ||
        s->state != STATE_SEEKING)
        return;
    hub = topic->hubs[s->n_failed % topic->n_hubs]; /* another each time */
    free(s->hub);
    s->hub = strdup(hub);
    if (s->moved_from && s->moved_to && !strcmp(s->moved_from, hub) &&
        s->n_failed == 0)
        hub = s->moved_to;
    enter_state(s, STATE_ASKING);
    plan.number = ++s->n_leases;
    s->next = s->hub ? hub_subscription_new(&plan, hub, topic->self) : NULL;
    if (!s->next)
        retry_later(s, &no_memory);
}

static void
seek_topic(void *user)
{
    struct td_subscriber *s = user;

    enter_state(s, STATE_SEEKING);
    s->search = topic_find(s->client, s->topic_url, on_found, s);
    if (!s->search)
        retry_later(s, &no_memory);
}

/* Runs the next step, which depends on the state. */
static void
on_timer(void *user)
{
    struct td_subscriber *s = user;

    if (s->state == STATE_ENDING) {
        enter_state(s, STATE_OVER);
        report_state(s, TD_ENDED, "");
    } else {
        seek_topic(s);
    }
}

/* Public */

static void
close_it(void *owner)
{
    td_subscriber_close(owner);
}

/* As td_subscriber_open, but td_run does not wait for it, and td_close does not
 * close it. */
static enum status
subscriber_new(struct td_callback *callback, const char *topic_url,
               const struct td_subscriber_options *options,
               struct td_subscriber **subscriber)
{
    struct td_client *client = callback->client;
    struct problem why = {""};
    struct td_subscriber *s;

    client_begin(client);
    *subscriber = NULL;
    if (!options->on_delivery)
        return client_fail(client, STATUS_INVALID, "on_delivery is missing");
    if (websub_check_url(slice_of(topic_url), "the topic's URL", &why))
        return client_fail(client, STATUS_INVALID, "%s", why.text);
    s = calloc(1, sizeof(*s));
    if (!s)
        return problem_memory(&client->problem);
    s->callback = callback;
    s->client = client;
    s->options = *options;
    if (s->options.max_bytes == 0)
        s->options.max_bytes = DELIVERY_MAX;
    s->pause_ms = PAUSE_FIRST;
    s->topic_url = strdup(topic_url);
    delivery_queue_init(&s->deliveries, client->loop, &s->options);
    timer_init(&s->timer, client->loop, on_timer, s);
    if (!s->topic_url) {
        td_subscriber_close(s);
        return problem_memory(&client->problem);
    }
    enter_state(s, STATE_PAUSING);
    timer_start(&s->timer, 0);
    *subscriber = s;
    return STATUS_OK;
}

enum td_status
td_subscriber_open(struct td_callback *callback, const char *topic_url,
                   const struct td_subscriber_options *options,
                   struct td_subscriber **subscriber)
{
    struct td_client *client = callback->client;
    enum status rc = client_add_source(client, topic_url);
    struct td_subscriber *s;

    *subscriber = NULL;
    if (!rc)
        rc = subscriber_new(callback, topic_url, options, subscriber);
    if (rc)
        return client_end(client, rc);
    s = *subscriber;
    s->running = (struct running){.close = close_it, .owner = s};
    client_runs(client, &s->running);
    return client_end(client, STATUS_OK);
}

void
td_subscriber_counts(const struct td_subscriber *subscriber,
                     struct td_subscriber_counts *counts)
{
    *counts = subscriber->deliveries.counts;
}

void
td_subscriber_end(struct td_subscriber *s)
{
    struct hub_subscription *current = s->current;
    struct hub_subscription *next = s->next;

    if (s->state == STATE_ENDING || s->state == STATE_OVER)
        return;
    s->current = s->next = NULL;
    enter_state(s, STATE_ENDING);
    if (next && next->state == LEASE_ACTIVE)
        let_go(s, next, true);
    else
        hub_subscription_free(next); /* a later verification gets 404 */
    if (current)
        let_go(s, current, true);
    if (!is_leaving(s))
        timer_start(&s->timer, 0);
}

void
td_subscriber_close(struct td_subscriber *s)
{
    if (!s)
        return;
    client_leaves(s->client, &s->running);
    topic_search_free(s->search);
    hub_subscription_free(s->current);
    hub_subscription_free(s->next);
    for (size_t i = 0; i < LEAVING_MAX; i++)
        hub_subscription_free(s->leaving[i]);
    delivery_queue_fini(&s->deliveries);
    timer_stop(&s->timer);
    free(s->topic_url);
    free(s->moved_from);
    free(s->moved_to);
    free(s->hub);
    handle_loop_retire(s->client->loop, &s->retired, NULL);
}

/*
 * A follower that gets its notifications from a hub.
 *
 *     follower --sought--> subscriber at the topic of its set
 *         ^                    |
 *         +-- message, nudge --+
 *
 * When the follower is gone, the subscriber goes on, as a tenant of the
 * callback, until the hub has ended the subscription.
 */

/* Notifications are the main way; a request now and then finds what they miss.
 */
#define POLL_MS 600000

struct callback_follow {
    struct td_callback *callback;
    struct td_follower *follower;     /* NULL: gone */
    struct td_subscriber *subscriber; /* NULL: not yet, or over */
    struct tenant tenant;             /* after the follower */
    char *topic;
};

static void
free_follow(struct callback_follow *w)
{
    td_subscriber_close(w->subscriber);
    free(w->topic);
    free(w);
}

static void
close_tenant(void *owner)
{
    struct callback_follow *w = owner;

    list_remove(&w->tenant.node);
    w->callback->is_empty = list_is_empty(&w->callback->tenants);
    free_follow(w);
}

/* Events of the subscriber */

static void
on_delivery(const struct td_delivery *delivery, void *user)
{
    struct callback_follow *w = user;

    if (w->follower)
        push_message(w->follower, delivery->body, delivery->size);
}

static void
on_state(enum td_subscription_state state, const char *detail, void *user)
{
    struct callback_follow *w = user;

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
        follower_report(w->follower, detail, w->subscriber->waits_ms);
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
    struct callback_follow *w = owner;
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
    struct callback_follow *w = owner;

    w->follower = NULL;
    if (!w->subscriber) {
        free_follow(w);
        return;
    }
    w->tenant = (struct tenant){.close = close_tenant, .owner = w};
    list_append(&w->callback->tenants, &w->tenant.node);
    w->callback->is_empty = false;
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
    struct callback_follow *w = calloc(1, sizeof(*w));
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

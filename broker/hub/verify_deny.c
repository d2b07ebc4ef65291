/*
 * verify_deny.c - sends denials to callbacks (W-041).
 *
 * A denial is sent at the end of the turn that has kept its reason
 * (verify_turn); if that commit failed, at the end of the turn that makes up
 * for it. So after a crash hub.db contains no subscription whose callback was
 * denied.
 */
#include <stdlib.h>

#include "broker/base/diag.h"
#include "broker/hub/inside.h"
#include "broker/hub/requests.h"

struct denial {
    struct list node; /* in denials; or fresh_denials, before its first try */
    struct hub *hub;
    struct call call;
    struct alarm alarm;
    unsigned tries;
    struct buf url;
};

static void
free_denial(struct denial *d)
{
    list_remove(&d->node);
    if (--d->hub->requests->n_denials == 0)
        d->hub->requests->has_warned = false;
    buf_fini(&d->url);
    free(d);
}

static void
tell_denial(struct denial *d)
{
    d->tries++;
    caller_start(d->hub->caller, &d->call);
}

static void
on_denial_alarm(struct alarm *alarm)
{
    tell_denial(list_entry(alarm, struct denial, alarm));
}

static void
on_denial_told(struct call *call)
{
    struct denial *d = list_entry(call, struct denial, call);
    int64_t at = request_next_try(d->hub, call, d->tries);

    if (at > 0)
        caller_set_alarm(d->hub->caller, &d->alarm, at);
    else
        free_denial(d);
}

void
verify_deny(struct hub *hub, struct slice callback, const struct terms *terms,
            struct slice topic_url, struct slice reason)
{
    struct denial *d = NULL;

    if (hub->requests->n_denials < DENIALS_MAX)
        d = calloc(1, sizeof(*d));
    if (!d) {
        /* 100,000 subscriptions of one topic may end at once. */
        if (!hub->requests->has_warned)
            diag(DIAG_WARNING, "hub",
                 "some callbacks get no denial: too many wait for theirs");
        hub->requests->has_warned = true;
        return;
    }
    d->hub = hub;
    list_append(&hub->requests->fresh_denials, &d->node);
    hub->requests->n_denials++;
    buf_init(&d->url, REQUEST_URL_MAX);
    websub_denial_url(&d->url, callback, topic_url, reason);
    buf_add(&d->url, "", 1);
    if (d->url.failed) {
        free_denial(d);
        return;
    }
    d->alarm.ring = on_denial_alarm;
    d->call.method = CALL_GET;
    d->call.url = d->url.data;
    d->call.timeout_us = hub->config->hub_timeout_us;
    d->call.also = hub_also(hub, terms);
    d->call.is_unproven = true; /* denials never delay deliveries */
    d->call.done = on_denial_told;
}

/* caller_start never ends a call: its `done` runs later. */
void
deny_turn(struct requests *all)
{
    struct list *node;

    while ((node = list_first(&all->fresh_denials))) {
        list_remove(node);
        list_append(&all->denials, node);
        tell_denial(list_entry(node, struct denial, node));
    }
}

void
deny_end(struct requests *all)
{
    struct list *node;

    while ((node = list_first(&all->fresh_denials)))
        free_denial(list_entry(node, struct denial, node)); /* never begun */
    while ((node = list_first(&all->denials))) {
        struct denial *d = list_entry(node, struct denial, node);

        caller_cancel(d->hub->caller, &d->call);
        caller_clear_alarm(d->hub->caller, &d->alarm);
        free_denial(d);
    }
}

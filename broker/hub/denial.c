#include "broker/hub/denial.h"

#include "broker/base/diag.h"
#include "broker/hub/hub_state.h"
#include "proto/http/websub.h"

/* Two encoded URLs and some parameters. */
#define URL_MAX (8 * WEBSUB_URL_MAX)

struct denial {
    struct list node; /* in begun; or fresh, before its first try */
    struct hub *hub;
    struct holding place; /* of the subscription's owner */
    struct call call;
    struct alarm alarm;
    unsigned tries;
    struct buf url;
};

bool
denial_goes_on(struct hub *hub, const struct call *call, unsigned tries,
               struct alarm *alarm)
{
    if (call->failure == CALL_ANSWERED || call->failure == CALL_REFUSED ||
        tries >= DENIAL_TRIES)
        return false;
    caller_set_alarm(hub->caller, alarm,
                     clock_steady_us() +
                         (hub->config->hub_retry.first_us << (tries - 1)));
    return true;
}

static void
free_denial(struct denial *d)
{
    list_remove(&d->node);
    holding_end(&d->place);
    buf_fini(&d->url);
    free(d);
}

static void
on_denial_alarm(struct alarm *alarm)
{
    struct denial *d = list_entry(alarm, struct denial, alarm);

    d->tries++;
    caller_start(d->hub->caller, &d->call);
}

static void
on_denial_sent(struct call *call)
{
    struct denial *d = list_entry(call, struct denial, call);

    if (!denial_goes_on(d->hub, call, d->tries, &d->alarm))
        free_denial(d);
}

void
denial_send(struct hub *hub, struct slice callback, struct terms *terms,
            struct slice topic_url, struct slice reason)
{
    struct clients *clients = &hub->registry->clients;
    struct denial *d = memory_new(1, sizeof(*d));
    struct problem why = {""};
    enum status rc;

    d->hub = hub;
    list_append(&hub->denials.fresh, &d->node);
    d->url.max = URL_MAX;
    holding_init(&d->place, clients,
                 subscriber_token_client(&terms->owner, clients),
                 CLIENT_DENIALS);
    rc = holding_add(&d->place, 1, &why);
    if (rc) /* 100,000 subscriptions of one topic may end at once */
        diag(DIAG_WARNING, "hub", "a callback gets no denial: %s", why.text);
    websub_denial_url(&d->url, callback, topic_url, reason);
    buf_add(&d->url, "", 1);
    if (rc || d->url.failed) {
        free_denial(d);
        return;
    }
    d->alarm.ring = on_denial_alarm;
    d->call.method = CALL_GET;
    d->call.url = d->url.data;
    d->call.timeout_us = hub->config->hub_timeout_us;
    d->call.also = hub_also(hub, terms);
    d->call.owner = d->place.client;
    d->call.is_unproven = true; /* denials never delay deliveries */
    d->call.done = on_denial_sent;
}

/* caller_start never ends a call: its `done` runs later. */
void
denials_turn(struct hub *hub)
{
    struct denial *d;

    list_drain (d, &hub->denials.fresh, node) {
        list_append(&hub->denials.begun, &d->node);
        on_denial_alarm(&d->alarm);
    }
}

void
denials_free(struct denials *all)
{
    struct denial *d;

    list_until_empty (d, &all->fresh, node)
        free_denial(d); /* never begun */
    list_until_empty (d, &all->begun, node) {
        caller_cancel(d->hub->caller, &d->call);
        caller_clear_alarm(d->hub->caller, &d->alarm);
        free_denial(d);
    }
}

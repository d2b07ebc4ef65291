#include "broker/hub/subscription.h"

#include "broker/base/metrics.h"
#include "broker/hub/delivery.h"
#include "broker/hub/denial.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"

/* An alarm looks no further ahead: leases end by the wall clock, which may be
 * set meanwhile. */
#define LEASE_LOOK_US 3600000000

/* Tables */

enum status
subscriptions_check_room(struct hub *hub, struct client *client,
                         struct slice callback, struct problem *why)
{
    uint64_t max = hub->config->hub_host_subscriptions;

    return callback_tables_check(
        &hub->subscriptions, client, callback, max,
        hub->config->client_share < 100 ? max - max / 8 : max,
        "subscriptions (--hub-host-subscriptions)", why);
}

/* The subscription of a key, or of none. */
static struct subscription *
subscription_of(struct callback_key *key)
{
    return key ? list_entry(key, struct subscription, key) : NULL;
}

struct subscription *
subscription_find(const struct topic *topic, enum subscription_kind kind,
                  struct slice callback)
{
    struct callback_key *key =
        callback_tables_find(&topic->hub->subscriptions, topic, callback);

    while (key && subscription_of(key)->kind != kind)
        key = callback_tables_same(key);
    return subscription_of(key);
}

/* Puts terms into effect, and moves what they hold into the subscription; after
 * a failure all is as before. --hub-subscriptions limits the number of filters:
 * all subscriptions are one client. */
static enum status
put_into_effect(struct subscription *s, struct terms *terms,
                struct problem *why)
{
    struct registry *registry = s->hub->registry;
    struct filter_class *class = NULL;
    struct signer *signer = NULL;
    enum status rc = STATUS_OK;

    if (terms->filter) {
        /* Too large for the stack. */
        struct filter *filter = memory_room(sizeof(*filter));
        struct client *client = client_of_hub(&registry->clients);

        rc = filter_read(filter, slice_of(terms->filter), why);
        if (!rc)
            (void)!filters_enter(&registry->filters, filter, client, true,
                                 &class, NULL);
        client_unref(client);
        free(filter);
    }
    if (!rc && terms->secret_size > 0) {
        signer = signer_new(s->hub->signature,
                            (struct slice){terms->secret, terms->secret_size});
        rc = signer ? STATUS_OK : problem_memory(why);
    }
    if (rc) {
        filters_leave(class);
        return rc;
    }
    signer_free(s->signer);
    filters_leave(s->reader.filter);
    s->signer = signer;
    s->reader.filter = class;
    terms_move(&s->terms, terms);
    s->reader.form = s->terms.form == MESSAGE_XML && s->terms.is_simple
                         ? MESSAGE_PLAIN
                         : s->terms.form;
    return STATUS_OK;
}

/* Places */

/* A hub of a set's settings is no victim: it counts for no host. */
static void
take_place(struct subscription *s, struct client *client)
{
    callback_tables_take_place(
        &s->hub->subscriptions, &s->key, client,
        slice_of(s->kind == SUBSCRIPTION_HUB ? "" : s->callback));
    s->reader.client = s->key.holding.client;
}

/* The client whose limits count: lent from the set or the owner. */
static struct client *
client_for(const struct topic *topic, struct hub_record *record)
{
    return record->kind == SUBSCRIPTION_HUB && set_creator(topic->set)
               ? set_creator(topic->set)
               : subscriber_token_client(&record->terms.owner,
                                         &topic->hub->registry->clients);
}

/* Life */

static void
free_subscription(struct subscription *s)
{
    single_delivery_cut(s);
    attempt_log_free(s);
    callback_tables_leave(&s->hub->subscriptions, &s->key);
    if (s->topic->foreign)
        s->topic->foreign->n_subscriptions--;
    list_remove(&s->moved);
    list_remove(&s->over);
    list_remove(&s->row.node);
    list_remove(&s->range.node);
    list_remove(&s->range.noted);
    terms_fini(&s->terms);
    signer_free(s->signer);
    filters_leave(s->reader.filter);
    free(s->callback);
    free(s);
}

enum status
subscription_enter(struct topic *topic, struct hub_record *record,
                   struct subscription **made, struct problem *why)
{
    struct subscription *s = memory_new(1, sizeof(*s));
    struct hub *hub = topic->hub;
    enum status rc;

    s->hub = hub;
    s->id = record->id;
    s->kind = record->kind;
    s->topic = topic;
    s->created_us = record->created_us;
    s->lease_end_us = record->lease_end_us;
    reader_init(&s->reader, &topic->news, record->after, NULL);
    s->reader.upto = record->range_last;
    s->generation = record->generation;
    list_init(&s->busy);
    list_init(&s->attempts.rows);
    list_init(&s->moved);
    list_init(&s->over);
    list_init(&s->range.node);
    list_init(&s->range.noted);
    hub_row_init(&s->row, HUB_ROW_SUBSCRIPTION, record->part);
    s->range.part = record->part;
    s->callback = slice_dup(record->callback);
    if (topic->foreign)
        topic->foreign->n_subscriptions++;
    callback_tables_enter(&hub->subscriptions, &s->key, s->id, topic,
                          &topic->subscriptions, record->callback);
    take_place(s, client_for(topic, record));
    rc = put_into_effect(s, &record->terms, why);
    if (rc) {
        free_subscription(s);
        return rc;
    }
    metrics_add(METRIC_HUB_SUBSCRIPTIONS, s->kind == SUBSCRIPTION_CALLBACK);
    *made = s;
    return STATUS_OK;
}

bool
subscription_is_denied(struct subscription *s, int64_t now_us)
{
    return s->kind == SUBSCRIPTION_CALLBACK &&
           !topic_admits(s->topic, &s->terms.owner, now_us);
}

static void on_lease(struct alarm *alarm);

static void
set_lease_alarm(struct subscription *s)
{
    int64_t left;

    if (s->kind == SUBSCRIPTION_HUB)
        return;
    left = s->lease_end_us - clock_now_us();
    if (left > LEASE_LOOK_US)
        left = LEASE_LOOK_US;
    s->lease_alarm.ring = on_lease;
    caller_set_alarm(s->hub->caller, &s->lease_alarm,
                     clock_steady_us() + (left > 0 ? left : 0));
}

static void
on_lease(struct alarm *alarm)
{
    struct subscription *s =
        list_entry(alarm, struct subscription, lease_alarm);

    if (subscription_is_over(s))
        subscription_end(s, END_EXPIRED);
    else
        set_lease_alarm(s);
}

/* It may end here. */
static void
resume_subscription(struct subscription *s)
{
    if (subscription_is_over(s)) {
        subscription_end(s, END_EXPIRED);
        return;
    }
    if (subscription_is_denied(s, clock_now_us())) {
        subscription_end(s, END_OWNER);
        return;
    }
    set_lease_alarm(s);
    delivery_begin(s);
}

/*
 * Renews a subscription without interrupting its delivery (W-035): a try in
 * flight arrives as it was begun, signed with the secret of that moment. The
 * next try has the new terms.
 *
 * A renewal by another owner moves the place: the new owner needs room.
 *
 * If the terms change the form of bodies, a fixed range is delivered in the new
 * form, and under another ID: the form is part of it (delivery.c).
 */
static enum status
renew_subscription(struct subscription *s, struct hub_record *record,
                   struct problem *why)
{
    struct terms *terms = &record->terms;
    bool is_other =
        !slice_equal(slice_of(s->terms.filter), slice_of(terms->filter)) ||
        s->terms.is_simple != terms->is_simple;
    struct client *client = client_for(s->topic, record);
    struct client *former = s->key.holding.client; /* of s->terms, too */
    enum status rc = STATUS_OK;

    if (client != former) {
        callback_tables_leave_place(&s->hub->subscriptions, &s->key);
        rc = subscriptions_check_room(s->hub, client, slice_of(s->callback),
                                      why);
        take_place(s, rc ? former : client);
    }
    if (!rc)
        rc = put_into_effect(s, terms, why);
    if (rc)
        return rc;
    s->lease_end_us = record->lease_end_us;
    if (is_other)
        s->reader.reached =
            s->reader.after; /* other entries pass the filter now */
    return STATUS_OK;
}

/*
 * Memory is ahead of hub.db from here to the end of the turn. If the disk fails
 * it stays ahead, and the hub writes the row again until hub.db has it (hub.c).
 * Nothing leaves the hub too early: a confirmation causes no answer, and a
 * delivery does not begin before a transaction has kept its range, and this row
 * with it.
 */
enum status
subscription_confirm(struct topic *topic, struct hub_record *record,
                     struct problem *why)
{
    struct subscription *s =
        subscription_find(topic, record->kind, record->callback);
    bool is_new = !s || !list_is_empty(&s->over);
    enum status rc;

    if (s && is_new) { /* it ends in this turn */
        topic->n_holds++;
        subscription_end(s, s->how);
        topic->n_holds--;
    }
    rc = is_new
             ? subscriptions_check_room(topic->hub, client_for(topic, record),
                                        record->callback, why)
             : renew_subscription(s, record, why);
    if (!rc && is_new) {
        record->part = hub_rows_part(record->kind, topic->kind,
                                     topic_name(topic), record->callback);
        record->id = hub_db_next_id(topic->hub->db, record->part);
        record->created_us = clock_now_us();
        rc = subscription_enter(topic, record, &s, why);
    }
    if (rc)
        return rc;
    set_lease_alarm(s);
    if (!is_new && record->has_after) {
        subscription_redeliver(s, record->after);
        return STATUS_OK;
    }
    hub_rows_put_subscription(topic->hub->db, s);
    if (is_new)
        delivery_begin(s);
    else
        delivery_look(s);
    return STATUS_OK;
}

void
subscription_redeliver(struct subscription *s, uint64_t after)
{
    delivery_cut(s);
    reader_move(&s->reader, after);
    s->generation++;
    list_remove(&s->moved);
    hub_rows_put_subscription(s->hub->db, s);
    delivery_look(s);
}

static const struct end {
    const char *name;
    const char *denial; /* the reason; NULL: the callback knows it */
} ends[] = {
    [END_UNSUBSCRIBED] = {"unsubscribed", NULL},
    [END_EXPIRED] = {"lease ended", NULL},
    [END_GONE] = {"410 Gone", NULL},
    [END_DELETED] = {"deleted",
                     "the operator of the hub has ended the subscription"},
    [END_REMOVED] = {"topic removed", DENIAL_TOPIC_GONE},
    [END_OWNER] = {"token ended", DENIAL_TOKEN_ENDED},
};

/*
 * Ends the subscription at once. If its set was removed nothing more is
 * delivered, because the rest of the set's log cannot be read (registry.h: a
 * removed set has its old bytes or nothing), and the callback gets a denial.
 * The framework events of the removal can be read, and are delivered before
 * (topic_end).
 */
void
subscription_end(struct subscription *s, enum subscription_end how)
{
    struct hub *hub = s->hub;
    struct topic *topic = s->topic;

    delivery_cut(s);
    caller_clear_alarm(hub->caller, &s->lease_alarm);
    hub_rows_end(hub->db, &s->row, s->id);
    DIAG(DIAG_INFO, "hub", "a subscription has ended", HUB_KEYS(s),
         diag_text("how", ends[how].name));
    if (ends[how].denial && s->kind == SUBSCRIPTION_CALLBACK) {
        struct buf url = {.max = 2 * WEBSUB_URL_MAX};

        topic_write_url(&url, topic);
        denial_send(hub, slice_of(s->callback), &s->terms, buf_slice(&url),
                    slice_of(ends[how].denial));
        buf_fini(&url);
    }
    metrics_add(METRIC_HUB_SUBSCRIPTIONS, -(s->kind == SUBSCRIPTION_CALLBACK));
    free_subscription(s);
    topic_release(topic);
}

void
subscriptions_resume(struct hub *hub, unsigned parts)
{
    struct subscription *s;

    list_walk (s, &hub->subscriptions.all, key.of_all_topics)
        if (parts >> s->row.part & 1)
            resume_subscription(s);
}

void
subscriptions_forget(struct hub *hub, unsigned parts)
{
    struct subscription *s;

    list_walk (s, &hub->subscriptions.all, key.of_all_topics) {
        struct topic *topic = s->topic;

        if (!(parts >> s->row.part & 1))
            continue;
        if (hub->caller) { /* else nothing was begun */
            delivery_cut(s);
            caller_clear_alarm(hub->caller, &s->lease_alarm);
        }
        metrics_add(METRIC_HUB_SUBSCRIPTIONS,
                    -(s->kind == SUBSCRIPTION_CALLBACK));
        free_subscription(s);
        topic_release(topic);
    }
}

/*
 * hub.c - the delivery thread, from its start to its end, and its turns.
 *
 * In a turn of the loop the thread runs commands, ends calls and rings alarms,
 * and writes every change of memory to hub.db in one transaction. The end of
 * the turn commits it, and only then do answers and deliveries go out:
 *
 *   hub_db_commit --kept----> commands are answered, requests are verified,
 *        |                    deliveries whose range is kept are sent
 *        +---not kept-------> commands are refused with 503, requests of this
 *                             turn are forgotten, deliveries wait
 *
 * What if the commit fails? Memory is not rolled back: it is the truth, and the
 * thread makes hub.db equal to it, row by row, as soon as the disk permits
 * (write_behind; with the next command, or a second later). That is sound
 * for each change:
 *
 * - A new request is the one change that is undone: its command is refused, and
 *   nothing else depends on it (verification.c).
 *
 * - A request's end, or a confirmation: no answer was sent. A crash before the
 *   commit brings the request back, and the hub verifies it again (W-074).
 *
 * - A range: no delivery begins before it is kept; deliveries_turn is not
 *   called while memory is ahead.
 *
 * - A cursor is older in hub.db: after a crash a delivery is repeated.
 *
 * - A subscription's end: no delivery from now on, whatever hub.db says. A
 *   denial waits until the end is kept (denial.c). After a crash the end
 *   is in hub.db, or its reason returns: the lease ends again, the callback
 *   answers 410 again, the operator got 503.
 */
#include "broker/hub/hub.h"

#include "broker/hub/hub_commands.h"
#include "broker/hub/hub_parts.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"
#include "broker/sets/framework_events.h"
#include "broker/sets/peers.h"

/* Turns */

/* Writes the rows that are behind as they are in memory now. */
static void
write_behind(struct hub *hub)
{
    struct hub_row *row;

    while ((row = hub_db_take_behind(hub->db))) {
        struct verification *v = list_entry(row, struct verification, row);

        if (row->ended_id != 0)
            hub_rows_delete(hub->db, row, row->ended_id);
        else if (row->kind == HUB_ROW_SUBSCRIPTION)
            hub_rows_put_subscription(
                hub->db, list_entry(row, struct subscription, row));
        else if (verification_is_replaced(v))
            hub_rows_delete(hub->db, row, v->id);
        else
            hub_rows_put_request(hub->db, v);
    }
}

/* Answers the commands of this turn: with their outcome, or with 503. */
static void
answer_commands(struct hub *hub, const struct problem *why)
{
    struct command *command;

    list_drain (command, &hub->answers.kept, task.node) {
        if (why) {
            buf_clear(&command->text);
            command->http = 503;
            command_answer_now(command, STATUS_BUSY, why);
        } else {
            command->done(command);
        }
    }
}

/* Answers those who asked for a report in this turn. They see only what
 * outlives a crash, unless hub.db cannot be written: a report must not depend
 * on the disk. */
static void
answer_reports(struct hub *hub)
{
    struct command *command;

    list_drain (command, &hub->answers.reports, task.node)
        command->done(command);
}

/* Logs the first turn that fails to write hub.db, and the next good one. */
static void
report_writing(struct hub *hub, bool is_failing, const struct problem *why)
{
    if (is_failing && !hub->is_failing)
        DIAG(DIAG_ERROR, "hub", "hub.db was not written",
             diag_text("why", why->text));
    if (!is_failing && hub->is_failing)
        diag(DIAG_WARNING, "hub", "hub.db is written again");
    hub->is_failing = is_failing;
}

static bool
may_call(void *user)
{
    const struct hub *hub = user;

    return hub_db_may_call(hub->db);
}

static void
end_turn(struct hub *hub)
{
    struct problem why = {""}, refusal = {""};
    struct subscription *s;
    bool is_begun;

    list_drain (s, &hub->over, over) /* hub_end_soon */
        subscription_end(s, s->how);
    deliveries_settle(hub);
    /* While writing fails one try a second is enough; but a request that waits
     * for its answer causes a try at once. */
    if (!list_is_empty(&hub->db->behind) && list_is_empty(&hub->answers.kept) &&
        clock_steady_us() < hub->again_us) {
        if (hub_db_is_begun(hub->db))
            hub_db_rollback(hub->db);
        verification_lost(hub);
        return;
    }
    write_behind(hub);
    is_begun = hub_db_is_begun(hub->db);
    if (hub_db_commit(hub->db, &why)) {
        hub->again_us = clock_steady_us() + HUB_TICK_US;
        report_writing(hub, true, &why);
        problem_set(&refusal, "the broker cannot store it: %s", why.text);
        verification_lost(hub);
        answer_commands(hub, &refusal);
        return;
    }
    if (is_begun)
        report_writing(hub, false, NULL);
    answer_commands(hub, NULL);
    verification_kept(hub);
    if (hub->foreign_topics.has_lost_some)
        hub_sets_changed(hub);
    hub->foreign_topics.has_lost_some = false;
    if (!may_call(hub)) /* it stood still behind the commit */
        return;
    denials_turn(hub);
    verification_turn(hub);
    deliveries_turn(hub);
    /* Another turn commits that, and ends what ended meanwhile. */
    if (hub_db_is_begun(hub->db) || !list_is_empty(&hub->over))
        hub_wake(hub);
}

static void
on_turn(struct caller *caller, void *user)
{
    (void)caller;
    end_turn(user);
    answer_reports(user);
}

/* External hubs */

/* Ending the last subscription may remove the topic from the list; so the loop
 * takes the next topic before. */
static void
end_unnamed(struct topic *topic, const struct peers *peers)
{
    struct subscription *s;

    topic->n_holds++; /* until the end of the loop */
    list_walk (s, &topic->subscriptions, key.of_topic) {
        bool stays = s->kind != SUBSCRIPTION_HUB;

        for (unsigned i = 0; !stays && peers && i < peers->n_hubs; i++)
            stays = !strcmp(s->callback, peers->hubs[i]);
        if (!stays)
            subscription_end(s, END_UNSUBSCRIBED);
    }
    topic->n_holds--;
}

/* `after` is the seq of the set's last entry when its settings named the hubs.
 * A hub gets all later entries, also those from before this thread noticed the
 * settings. If `after` is not known (at the start), and for framework events,
 * the hub gets the entries from now on. */
static void
sync_topic(struct hub *hub, enum topic_kind kind, struct set *set,
           const struct peers *peers, uint64_t after)
{
    struct problem why = {""};
    struct topic *topic;
    uint64_t last;
    bool is_there;

    if (topic_of_set(hub, kind, set, &topic, &why)) {
        if (peers && peers->n_hubs > 0)
            diag(DIAG_ERROR, "hub", "the hubs of %s get no notifications: %s",
                 set->name, why.text);
        return;
    }
    end_unnamed(topic, peers);
    is_there = topic_head(topic, &last);
    if (after != PEERS_AFTER_UNKNOWN && kind == TOPIC_CHANGES)
        last = after;
    for (unsigned i = 0; is_there && peers && i < peers->n_hubs; i++) {
        struct hub_record record = {
            .callback = slice_of(peers->hubs[i]),
            .kind = SUBSCRIPTION_HUB,
            .terms = {.lease_us = INT64_MAX},
            .lease_end_us = INT64_MAX,
            .after = last,
        };

        if (!subscription_find(topic, SUBSCRIPTION_HUB, record.callback) &&
            subscription_confirm(topic, &record, &why))
            diag(DIAG_ERROR, "hub", "%s gets no notifications of %s: %s",
                 peers->hubs[i], set->name, why.text);
        terms_fini(&record.terms);
    }
    topic_release(topic);
}

/* Foreign hubs that a set names in its settings ("hubs"): each gets every
 * notification of both of the set's topics, as a fat ping (R-293, W-013),
 * retried from a cursor of its own: a subscription of the kind
 * SUBSCRIPTION_HUB, which the settings begin and end.
 *
 * Looks at the sets whose peers have changed since the last call, and begins
 * and ends subscriptions of hubs accordingly. The first call, which must follow
 * the start of all subscriptions of hub.db, also looks at subscriptions whose
 * set no longer names a hub. This turn's transaction keeps the changes. */
static void
sync_external_hubs(struct hub *hub)
{
    struct topic *topic;
    struct peers *peers;
    struct set *set;
    uint64_t after;

    if (!(hub->parts & 1)) /* they are the owner's of part 0 */
        return;
    /* Once, ends hubs' subscriptions of sets whose settings changed without the
     * hub noticing, before a crash. Sets that name hubs come by
     * registry_next_changed. */
    if (!hub->has_synced_hubs) {
        hub->has_synced_hubs = true;
        list_walk (topic, &hub->topics, node) {
            if (topic->kind == TOPIC_FOREIGN)
                continue;
            peers = registry_peers(topic->set);
            end_unnamed(topic, peers);
            peers_unref(peers);
            topic_release(topic);
        }
    }
    while ((set = registry_next_changed(hub->registry, &after))) {
        peers = registry_peers(set);
        sync_topic(hub, TOPIC_CHANGES, set, peers, after);
        sync_topic(hub, TOPIC_FRAMEWORK, set, peers, after);
        peers_unref(peers);
    }
}

/* Writes the cursors that have moved. After a crash only the deliveries of the
 * last second are repeated. */
static void
keep_cursors(struct hub *hub)
{
    struct subscription *s;

    list_drain (s, &hub->moved, moved) {
        hub_db_be_firm(hub->db);
        hub_rows_put_range(hub->db, s);
    }
}

/* The caller's */

static void
on_wake(struct caller *caller, void *user)
{
    struct hub *hub = user;
    struct list *node;
    struct topic *topic;
    bool more = false;
    uint64_t head;

    (void)caller;
    if (atomic_exchange(&hub->parts_changed, false)) {
        keep_cursors(hub);
        end_turn(hub);
        hub_parts_settle(hub);
    }
    /* Ends the subscriptions and requests of topics that are gone. The
     * subscribers of a framework topic get the events of the removal first
     * (delivery.c). */
    if (atomic_exchange(&hub->topics_changed, false))
        list_walk (topic, &hub->topics, node) {
            bool is_framework = topic->kind == TOPIC_FRAMEWORK;

            if (topic_head(topic, &head) ||
                (is_framework && !framework_event_is_over(topic->set)))
                continue;     /* it is there, or a moment later */
            topic->n_holds++; /* until its requests have ended */
            if (is_framework)
                topic_end(topic);
            for (int i = 0; !is_framework && i < HUB_ENDS_AT_ONCE &&
                            (node = list_first(&topic->subscriptions));
                 i++)
                subscription_end(
                    list_entry(node, struct subscription, key.of_topic),
                    END_REMOVED);
            verification_topic_gone(topic);
            topic->n_holds--;
            more |= !is_framework && !list_is_empty(&topic->subscriptions);
            topic_release(topic);
        }
    if (more)
        hub_sets_changed(hub); /* in another turn */
    sync_external_hubs(hub);
    deliveries_wake(hub);
}

static void
on_tick(struct alarm *alarm)
{
    struct hub *hub = list_entry(alarm, struct hub, tick);
    int64_t now_us = clock_now_us();
    struct subscription *s;
    int n = 0;

    hub_parts_follow(hub);
    if (hub->cannot_take && !atomic_exchange(&hub->parts_changed, true))
        hub_wake(hub);
    /* Ends the subscriptions and requests whose owner has ended; if more than
     * HUB_ENDS_AT_ONCE are left, another turn ends those at once. */
    verification_look(hub);
    list_walk (s, &hub->subscriptions.all, key.of_all_topics) {
        if (!subscription_is_denied(s, now_us))
            continue;
        subscription_end(s, END_OWNER);
        if (++n == HUB_ENDS_AT_ONCE)
            break;
    }
    keep_cursors(hub);
    if (hub->parts & 1)
        hub_keys_look(&hub->keys);
    report_measure(hub);
    caller_set_alarm(hub->caller, alarm,
                     clock_steady_us() +
                         (n == HUB_ENDS_AT_ONCE ? 0 : HUB_TICK_US));
}

/* From the thread's start to its end */

static void
on_begin(struct caller *caller, void *user)
{
    struct hub *hub = user;

    hub->caller = caller;
    hub->foreign_topics.caller = caller;
    subscriptions_resume(hub, hub->parts);
    verification_look(hub);
    hub->tick.ring = on_tick;
    caller_set_alarm(caller, &hub->tick, clock_steady_us() + HUB_TICK_US);
    caller_wake(caller); /* begins a first turn */
}

/*
 * No call ends any more. Commands that were posted have run: their changes are
 * kept and answered like in every turn, and the cursors are kept. Then
 * everything that may still use the caller is freed, while the caller exists.
 */
static void
on_end(struct caller *caller, void *user)
{
    struct hub *hub = user;
    struct problem why = {"the broker is ending"};

    (void)caller;
    foreign_sources_end(&hub->foreign_sources);
    keep_cursors(hub);
    hub->again_us = 0;
    end_turn(hub);
    answer_commands(hub, &why); /* none is left; but none may be forgotten */
    answer_reports(hub);
    subscriptions_forget(hub, HUB_PARTS_ALL);
    verifications_forget(hub, HUB_PARTS_ALL);
    denials_free(&hub->denials);
}

void
hub_sets_changed(struct hub *hub)
{
    atomic_store(&hub->topics_changed, true);
    hub_wake(hub);
}

/* Commands */

enum status
hub_submit(struct hub *hub, struct command *command)
{
    enum status rc = STATUS_STOPPED;

    command->hub = hub;
    command->answers = &hub->answers;
    command->task.run = hub_command_run;

    /* Under the lock: nobody may post once caller_stop has begun. */
    pthread_mutex_lock(&hub->mutex);
    if (!hub->is_stopping) {
        caller_post(atomic_load(&hub->woken), &command->task);
        rc = STATUS_OK;
    }
    pthread_mutex_unlock(&hub->mutex);
    return rc;
}

/* Opening and closing */

static struct hub *
hub_new(struct posts *posts, const struct networks *allowed)
{
    struct clients *clients = &posts->registry->clients;
    struct hub *hub = memory_new(1, sizeof(*hub));

    hub->posts = posts;
    hub->registry = posts->registry;
    hub->config = hub->registry->config;
    hub->allowed = allowed;
    if (!hub->config->insecure_open)
        networks_add_loopback(&hub->loopback);
    list_init(&hub->topics);
    list_init(&hub->answers.kept);
    list_init(&hub->answers.reports);
    list_init(&hub->moved);
    list_init(&hub->over);
    pthread_mutex_init(&hub->mutex, NULL);
    pthread_cond_init(&hub->left, NULL);
    clients_limit_all(clients, CLIENT_SUBSCRIPTIONS,
                      hub->config->hub_subscriptions);
    clients_limit_all(clients, CLIENT_VERIFICATIONS, VERIFICATIONS_MAX);
    clients_limit_each(clients, CLIENT_VERIFICATIONS, VERIFICATIONS_PER_FROM);
    clients_limit_all(clients, CLIENT_DENIALS, DENIALS_MAX);
    clients_limit_each(clients, CLIENT_DENIALS, DENIALS_OF_ONE_MAX);
    callback_tables_init(&hub->subscriptions, clients, CLIENT_SUBSCRIPTIONS);
    callback_tables_init(&hub->verifications.tables, clients,
                         CLIENT_VERIFICATIONS);
    list_init(&hub->verifications.fresh);
    list_init(&hub->verifications.due);
    list_init(&hub->denials.fresh);
    list_init(&hub->denials.begun);
    deliveries_open(hub);
    return hub;
}

enum status
hub_open(struct hub **hub, struct posts *posts, struct tokens *tokens,
         const struct networks *allowed, const struct hub_cluster *cluster,
         struct problem *why)
{
    struct hub *h = hub_new(posts, allowed);
    struct caller *caller = NULL;
    struct caller_options options = {
        .name = "deliver",
        .allowed = allowed,
        .on_begin = on_begin,
        .on_end = on_end,
        .on_wake = on_wake,
        .on_turn = on_turn,
        .may_call = may_call,
        .user = h,
    };
    enum status rc;

    h->tokens = tokens;
    h->cluster = cluster;
    h->parts = cluster ? 0 : HUB_PARTS_ALL;
    options.connections = (unsigned)h->config->hub_connections;
    options.host_connections = (unsigned)h->config->hub_host_connections;
    rc = signature_method_of(slice_of(h->config->hub_signature), &h->signature);
    if (rc)
        rc = problem(why, rc, "--hub-signature: there is no method \"%s\"",
                     h->config->hub_signature);
    if (!rc) {
        rc = hub_db_open(&h->db, h->config->data,
                         cluster ? cluster->streams : NULL, why);
        if (!rc) {
            hub_keys_open(&h->keys, h->db);
            foreign_topics_open(&h->foreign_topics, h->registry, h->db);
            foreign_sources_open(&h->foreign_sources, &h->foreign_topics,
                                 h->posts);
        }
        if (!rc && !cluster)
            rc = hub_parts_load(h, HUB_PARTS_ALL, why);
        /* An error in hub.db is no fault of the options. */
        if (rc)
            rc = problem_prefix(why, rc == STATUS_INVALID ? STATUS_IO : rc,
                                "%s/hub.db: ", h->config->data);
    }
    if (!rc)
        rc = caller_open(&caller, &options, why);
    if (rc) {
        hub_close(h);
        return rc;
    }
    atomic_store(&h->woken, caller);
    caller_wake(caller); /* for topics marked before there was a thread to
                            wake */
    *hub = h;
    return STATUS_OK;
}

void
hub_stop(struct hub *hub)
{
    struct caller *caller = atomic_load(&hub->woken);

    pthread_mutex_lock(&hub->mutex);
    hub->is_stopping = true;
    pthread_mutex_unlock(&hub->mutex);
    if (caller)
        caller_stop(caller);
}

void
hub_close(struct hub *hub)
{
    if (!hub)
        return;
    hub_stop(hub);
    subscriptions_forget(hub, HUB_PARTS_ALL);
    verifications_forget(hub, HUB_PARTS_ALL);
    callback_tables_fini(&hub->subscriptions);
    callback_tables_fini(&hub->verifications.tables);
    denials_free(&hub->denials);
    deliveries_close(hub);
    foreign_topics_close(&hub->foreign_topics);
    foreign_sources_close(&hub->foreign_sources);
    caller_close(atomic_load(&hub->woken)); /* topics could wake it until now */
    hub_keys_close(&hub->keys);
    hub_db_close(hub->db);
    map_fini(&hub->topics_of_sets);
    pthread_cond_destroy(&hub->left);
    pthread_mutex_destroy(&hub->mutex);
    free(hub);
}

/*
 * verification.c - requests, from their command to their end.
 *
 *   taken --> fresh --(its turn is kept)--> due --> called --> confirmed
 *               |                           ^        |   \--> failed
 *               | (it is not kept)          +--alarm-+ transport error,
 *               v                                      DENIAL_TRIES
 *             forgotten, the command is refused
 *
 * A fresh request changes nothing yet. When its turn is kept, the older request
 * of its pair is dropped (one transaction changes both rows). If the commit
 * fails, the older one stays at work.
 *
 * An unsubscription is verified like a subscription, whether a subscription
 * exists or not (W-062): the answer must not show strangers which callbacks are
 * subscribed, and a client that waits for the verification gets it. If none
 * exists the confirmation changes nothing.
 *
 * A failure causes no further call: the callback knows its own answer.
 */
#include "broker/hub/verification.h"

#include "base/random.h"
#include "broker/base/metrics.h"
#include "broker/hub/denial.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"
#include "broker/sets/peers.h"
#include "broker/sources/command.h"

/* Two encoded URLs and some parameters. */
#define VERIFICATION_URL_MAX (8 * WEBSUB_URL_MAX)

/* The tables */

/* Removes it from all tables and frees it; its row in hub.db stays. */
static void
forget_verification(struct verification *r)
{
    struct hub *hub = r->hub;

    if (hub->caller) { /* else nothing was begun */
        caller_cancel(hub->caller, &r->call);
        caller_clear_alarm(hub->caller, &r->alarm);
    }
    list_remove(&r->turn);
    list_remove(&r->row.node);
    callback_tables_leave(&hub->verifications.tables, &r->key);
    topic_release(r->topic);
    terms_fini(&r->terms);
    buf_fini(&r->url);
    free(r->topic_url);
    free(r->callback);
    free(r);
}

/* Makes a verification and enters it into the tables, but into no list of the
 * turn. Takes over record->terms. */
static struct verification *
enter_verification(struct topic *topic, struct hub_record *record)
{
    struct verifications *all = &topic->hub->verifications;
    struct verification *r = memory_new(1, sizeof(*r));

    r->hub = topic->hub;
    r->id = record->id;
    r->mode = record->mode;
    r->has_after = record->has_after;
    r->after = record->after;
    r->taken_us = record->taken_us;
    r->topic = topic;
    list_init(&r->turn);
    hub_row_init(&r->row, HUB_ROW_REQUEST, record->part);
    r->url.max = VERIFICATION_URL_MAX;
    r->topic_url = slice_dup(record->topic_url);
    r->callback = slice_dup(record->callback);
    callback_tables_enter(&all->tables, &r->key, r->id, topic, &topic->requests,
                          record->callback);
    callback_tables_take_place(
        &all->tables, &r->key,
        subscriber_token_client(&record->terms.owner, all->tables.clients),
        record->callback);
    terms_move(&r->terms, &record->terms);
    return r;
}

/* The request of a key, or of none. */
static struct verification *
verification_of(struct callback_key *key)
{
    return key ? list_entry(key, struct verification, key) : NULL;
}

/* Return the first request of that pair, and the next one of the same pair; or
 * NULL. */

static struct verification *
find_request(const struct topic *topic, struct slice callback)
{
    return verification_of(callback_tables_find(
        &topic->hub->verifications.tables, topic, callback));
}

static struct verification *
same_request(const struct verification *r)
{
    return verification_of(callback_tables_same(&r->key));
}

bool
verification_is_replaced(const struct verification *r)
{
    const struct verification *other =
        find_request(r->topic, slice_of(r->callback));

    for (; other; other = same_request(other))
        if (other->id > r->id)
            return true;
    return false;
}

/* The end of a request */

static void
end_verification(struct verification *r)
{
    hub_rows_end(r->hub->db, &r->row, r->id);
    forget_verification(r);
}

void
verification_deny(struct verification *r, struct slice reason)
{
    denial_send(r->hub, slice_of(r->callback), &r->terms,
                slice_of(r->topic_url), reason);
    end_verification(r);
}

void
verification_look(struct hub *hub)
{
    int64_t now_us = clock_now_us();
    struct verification *r;

    list_walk (r, &hub->verifications.tables.all, key.of_all_topics) {
        if (!topic_admits(r->topic, &r->terms.owner, now_us))
            verification_deny(r, SLICE(DENIAL_TOKEN_ENDED));
    }
}

void
verification_topic_gone(struct topic *topic)
{
    struct verification *r;

    list_walk (r, &topic->requests, key.of_topic)
        verification_deny(r, SLICE(DENIAL_TOPIC_GONE));
}

static void
confirm_request(struct verification *r)
{
    struct hub_record record = {
        .callback = slice_of(r->callback),
        .kind = SUBSCRIPTION_CALLBACK,
        .lease_end_us = r->asked_us + r->terms.lease_us,
        .has_after = r->has_after,
        .after = r->after,
    };
    struct problem why = {""};
    struct subscription *s;
    uint64_t head;

    metrics_add(METRIC_HUB_VERIFICATIONS, 1);
    if (r->mode == WEBSUB_UNSUBSCRIBE) {
        s = subscription_find(r->topic, SUBSCRIPTION_CALLBACK, record.callback);
        if (s)
            subscription_end(s, END_UNSUBSCRIBED);
        end_verification(r);
        return;
    }
    if (!topic_head(r->topic, &head)) {
        verification_deny(r, SLICE(DENIAL_TOPIC_GONE));
        return;
    }
    terms_move(&record.terms, &r->terms);
    if (subscription_confirm(r->topic, &record, &why)) {
        terms_move(&r->terms, &record.terms);
        verification_deny(r, slice_of(why.text));
    } else {
        end_verification(r);
    }
    terms_fini(&record.terms);
}

static void
fail_verification(struct verification *r, const char *reason)
{
    DIAG(DIAG_INFO, "hub", "a callback did not confirm", HUB_KEYS(r),
         diag_text("mode", websub_mode_names[r->mode]),
         diag_text("error", reason));
    metrics_add(METRIC_HUB_VERIFICATIONS_FAILED, 1);
    end_verification(r);
}

/* Calling */

static void ask_callback(struct verification *r);

static void
on_retry(struct alarm *alarm)
{
    ask_callback(list_entry(alarm, struct verification, alarm));
}

static void
on_answer(struct call *call)
{
    struct verification *r = list_entry(call, struct verification, call);
    char reason[200];

    r->alarm.ring = on_retry;
    if (denial_goes_on(r->hub, call, r->tries, &r->alarm))
        return;
    if (call->failure != CALL_ANSWERED) {
        fail_verification(r, call->why);
    } else if (call->status / 100 == 2 && !call->is_cut &&
               slice_is(call->answer, r->challenge)) {
        /* W-055: any 2xx whose body is exactly the challenge. The caller reads
         * one byte more than that, to detect a longer body. */
        confirm_request(r);
    } else {
        snprintf(reason, sizeof(reason),
                 "the answer is %u, and not 2xx with the challenge as body",
                 call->status);
        fail_verification(r, reason);
    }
}

/* The call's turn has come: the lease counts from now (W-054). */
static enum call_turn
on_ready(struct call *call)
{
    struct verification *r = list_entry(call, struct verification, call);

    r->asked_us = clock_now_us();
    return CALL_READY;
}

/* A callback that has confirmed before is judged by its deliveries: its renewal
 * does not wait behind requests that name strangers. */
static void
ask_callback(struct verification *r)
{
    const struct subscription *s = subscription_find(
        r->topic, SUBSCRIPTION_CALLBACK, slice_of(r->callback));

    r->tries++;
    buf_clear(&r->url);
    if (!random_hex(r->challenge, sizeof(r->challenge))) { /* W-053 */
        fail_verification(r, "there are no random numbers");
        return;
    }
    websub_verification_url(&r->url, slice_of(r->callback), r->mode,
                            slice_of(r->topic_url), slice_of(r->challenge),
                            (uint64_t)(r->terms.lease_us / 1000000));
    buf_add(&r->url, "", 1);
    if (r->url.failed) {
        fail_verification(r, "its URL is too long");
        return;
    }
    r->call = (struct call){
        .method = CALL_GET,
        .url = r->url.data,
        .timeout_us = r->hub->config->hub_timeout_us,
        .max_answer = WEBSUB_CHALLENGE_SIZE + 1,
        .also = hub_also(r->hub, &r->terms),
        .owner = r->key.holding.client,
        .is_unproven = !s,
        .is_suspect = s && subscription_is_suspect(s),
        .is_once = true,
        .prepare = on_ready,
        .done = on_answer,
    };
    caller_start(r->hub->caller, &r->call);
}

/* Turns */

void
verification_kept(struct hub *hub)
{
    struct verifications *all = &hub->verifications;
    struct verification *r, *other, *next;

    /* Forgets older requests of the same pair: the transaction that kept this
     * request has deleted their rows. From the newest on: an older request may
     * be fresh, too. */
    while (!list_is_empty(&all->fresh)) {
        r = list_entry(all->fresh.prev, struct verification, turn);
        list_remove(&r->turn);
        list_prepend(&all->due, &r->turn);
        other = find_request(r->topic, slice_of(r->callback));
        for (; other; other = next) {
            next = same_request(other);
            if (other->id < r->id)
                forget_verification(other);
        }
    }
}

void
verification_turn(struct hub *hub)
{
    struct verification *r;

    list_drain (r, &hub->verifications.due, turn) {
        if (r->terms.is_simple && hub->config->hub_trust_simple) {
            r->asked_us = clock_now_us();
            confirm_request(r);
        } else {
            ask_callback(r);
        }
    }
}

/* Nobody may know whether the rows are kept: they are deleted. */
void
verification_lost(struct hub *hub)
{
    struct verification *r;

    list_until_empty (r, &hub->verifications.fresh, turn) {
        hub_db_note_stale(hub->db, HUB_ROW_REQUEST, r->id, r->row.part);
        forget_verification(r);
    }
}

/* From a command, or from hub.db */

/* Refuses a callback below our own public URL: nothing there confirms, and a
 * set or hub that takes deliveries without having confirmed would make a loop.
 * Counts the requests that wait for their verification now (W-164). */
static enum status
check_callback(struct command *command, struct client *client)
{
    struct slice callback = command->request.callback;
    struct problem *why = &command->why;
    struct hub *hub = command->hub;
    enum status rc;

    if (peers_is_ours(callback, hub->registry->options.public_url))
        return problem(why, STATUS_INVALID,
                       "the callback \"%s\" is of this broker itself",
                       problem_quote(callback).text);
    rc =
        callback_tables_check(&hub->verifications.tables, client, callback,
                              VERIFICATIONS_AT_HOST, VERIFICATIONS_PER_HOST,
                              "requests that wait for their verification", why);
    if (rc)
        command->http = 429;
    return rc;
}

/* Of terms that have their owner. */
static enum status
make_terms(struct command *command, const struct topic *topic,
           struct terms *terms)
{
    const struct config *config = command->hub->config;
    struct problem *why = &command->why;
    uint64_t asked_s = command->request.lease_s;
    struct slice secret = command->request.secret;
    struct slice filter = filter_text(&command->filter);

    if (filter.size > 0 && topic->kind != TOPIC_CHANGES)
        return problem(why, STATUS_INVALID,
                       "only a set's change notifications can be filtered");
    if (command->message_form != MESSAGE_XML && topic->kind != TOPIC_CHANGES)
        return problem(why, STATUS_INVALID,
                       "only a set's change notifications have the form %s",
                       message_forms[command->message_form].name);
    if (secret.size > WEBSUB_SECRET_MAX)
        return problem(why, STATUS_INVALID, "hub.secret: at most %d bytes",
                       WEBSUB_SECRET_MAX);
    /* The lease that the hub grants (W-070, W-071, R-300). */
    if (asked_s == 0)
        terms->lease_us = config->hub_lease_default_us;
    else if (asked_s >= (uint64_t)config->hub_lease_max_us / 1000000)
        terms->lease_us = config->hub_lease_max_us;
    else if (asked_s <= (uint64_t)config->hub_lease_min_us / 1000000)
        terms->lease_us = config->hub_lease_min_us;
    else
        terms->lease_us = (int64_t)asked_s * 1000000;
    terms->secret_size = secret.size;
    if (secret.size > 0)
        memcpy(terms->secret, secret.data, secret.size);
    terms->interval_us = command->interval_us;
    terms->is_simple = command->is_simple;
    terms->form = command->message_form;
    terms->wants_v1a = command->wants_v1a;
    terms->is_local =
        command->is_local && websub_is_loopback(command->request.callback);
    if (filter.size > 0)
        terms->filter = slice_dup(filter);
    return STATUS_OK;
}

/* A simple subscription is to the topic of its set. */
static enum status
find_topic(struct command *command, struct topic **topic)
{
    struct problem *why = &command->why;
    struct hub *hub = command->hub;
    struct set *set;

    if (!command->is_simple)
        return topic_find(hub, command->request.topic, command->principal,
                          topic, why);
    set = registry_find(hub->registry, slice_of(command->name), NULL);
    if (!set)
        return problem(why, STATUS_NOT_FOUND, "there is no set \"%s\"",
                       command->name);
    return topic_of_set(hub, TOPIC_CHANGES, set, topic, why);
}

/* The owner of part 0 alone knows the topics of relays. */
int
verification_part(struct command *command)
{
    struct topic *topic;
    enum status rc = find_topic(command, &topic);
    int part = 0;

    if (rc)
        return rc == STATUS_NOT_FOUND && !command->is_simple ? 0 : -1;
    part = (int)hub_rows_part(SUBSCRIPTION_CALLBACK, topic->kind,
                              topic_name(topic), command->request.callback);
    topic_release(topic);
    return part;
}

/* Checks the room for a new subscription, and finds where it begins: at the
 * present head, so that it misses nothing between request and verification, or
 * where the request asks for. */
static enum status
find_start(struct command *command, struct client *client,
           const struct topic *topic, uint64_t *after)
{
    struct slice callback = command->request.callback;
    struct problem *why = &command->why;
    enum status rc = STATUS_OK;

    if (command->request.mode == WEBSUB_SUBSCRIBE &&
        !subscription_find(topic, SUBSCRIPTION_CALLBACK, callback))
        rc = subscriptions_check_room(topic->hub, client, callback, why);
    if (rc)
        return rc;
    if (command->has_after)
        return topic_judge(topic, command->after, after, why);
    if (topic_head(topic, after))
        return STATUS_OK;
    return problem(why, STATUS_NOT_FOUND, "the topic is no more");
}

enum status
verification_take(struct command *command)
{
    struct problem *why = &command->why;
    struct hub *hub = command->hub;
    struct hub_record record = {
        .callback = command->request.callback,
        .mode = command->request.mode,
        .has_after = command->has_after,
        .taken_us = clock_now_us(),
    };
    struct principal *by = command->principal;
    struct verification *r = NULL, *other;
    struct client *client;
    struct topic *topic = NULL;
    struct buf url = {.max = WEBSUB_URL_MAX};
    enum status rc;

    subscriber_token_init(&record.terms.owner, slice_of(by ? by->name : ""),
                          by ? atomic_load(&by->authority.ends_us) : 0,
                          slice_of(command->from));
    if (by)
        record.terms.owner.principal = principal_ref(by);
    client =
        subscriber_token_client(&record.terms.owner, &hub->registry->clients);
    rc = check_callback(command, client);
    if (!rc)
        rc = find_topic(command, &topic);
    if (rc)
        goto out;
    topic->n_holds++; /* a failed entry ends its own hold, and the topic */
    rc = command_allow(command, RIGHT_SUBSCRIBE, topic_name(topic), why);
    if (rc)
        goto release;
    buf_add_slice(&url, command->request.topic);
    if (command->is_simple)
        topic_write_url(&url, topic);
    record.topic_url = buf_slice(&url);
    rc = find_start(command, client, topic, &record.after);
    if (!rc)
        rc = make_terms(command, topic, &record.terms);
    if (rc)
        goto release;
    record.part = hub_rows_part(SUBSCRIPTION_CALLBACK, topic->kind,
                                topic_name(topic), record.callback);
    record.id = hub_db_next_id(hub->db, record.part);
    r = enter_verification(topic, &record);
    list_append(&hub->verifications.fresh, &r->turn);
    hub_rows_put_request(hub->db, r);
    other = find_request(topic, record.callback);
    for (; other; other = same_request(other))
        if (other != r)
            hub_rows_delete(hub->db, &other->row, other->id);

release:
    topic->n_holds--;
    topic_release(topic);
out:
    buf_fini(&url);
    terms_fini(&record.terms);
    return rc;
}

void
verification_restore(struct topic *topic, struct hub_record *record)
{
    struct verification *r = enter_verification(topic, record);

    list_append(&topic->hub->verifications.due, &r->turn);
}

/* Life */

void
verifications_forget(struct hub *hub, unsigned parts)
{
    struct verification *r;

    list_walk (r, &hub->verifications.tables.all, key.of_all_topics)
        if (parts >> r->row.part & 1)
            forget_verification(r);
}

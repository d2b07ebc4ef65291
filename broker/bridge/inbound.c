/*
 * inbound.c - the effects of a crash, or of a broken connection:
 *
 *   before the commit      nothing is kept, nothing is acknowledged: the MQTT
 *                          broker has the message in the session, and sends it
 *                          again
 *   in the commit          it is kept or not, as a whole, with its key (log/
 *                          idempotency.h): the one or the other line
 *   after it, before the   it is kept, and comes again, with the DUP flag: with
 *   acknowledgement has    its key it is known, and only acknowledged; without
 *   arrived                one it is kept once more, and counted
 *   after that             the MQTT broker has forgotten it
 *
 * For a rejected message the same lines hold, with the rejection as the commit.
 * The rejection may be published twice. If the MQTT broker gets the
 * acknowledgement, but the connection breaks before it gets the problem, only
 * the log of diagnostics has it.
 *
 * While messages are held for a passing reason the turn does not end:
 * libmosquitto has queued the acknowledgements of all messages that it has
 * read, and the next write would send them. So the client writes nothing at
 * all, not even a ping, and after one and a half keepalives the MQTT broker
 * would cut the connection. Then acknowledgements of messages committed by then
 * would be lost. So the client cuts first, while few committed messages lack
 * their acknowledgement (only those of the round before the failure). Its
 * patience is a quarter of the keepalive, because libmosquitto may have been
 * silent for a whole one when the turn began. It drops the connection without a
 * write, and all messages come again with the next one, after the pause of
 * mqtt.h.
 */
#include "broker/bridge/inbound.h"

#include "base/array.h"
#include "broker/base/metrics.h"
#include "broker/bridge/inbox.h"
#include "broker/bridge/mqtt_topics.h"
#include "broker/net/response.h"
#include "proto/http/response_head.h"
#include "proto/mqtt_topic.h"
#include "proto/resourcesync/json.h"

/* The most rejections that are published and not acknowledged. A flood of bad
 * messages does not cause a rejection each. */
#define REJECTIONS_MAX 1000

/* The longest foreign text that is reported whole; longer ones are quoted
 * (problem.h). */
#define REJECTION_TEXT_MAX 1024

/* The largest report: the text of a problem, and three members in which every
 * byte may take six. */
#define REJECTION_MAX ((size_t)32 << 10)

/*
 * The subscriptions of a connection, by input.
 *
 * With every connection the client subscribes to all filters, whether the MQTT
 * broker has kept the session or not: a filter may be new, and a broker that
 * crashed may have kept an older session. It unsubscribes from filters of the
 * session that are no longer configured.
 *
 * mqtt.db lists the granted filters. Retained messages are older than the
 * subscription, so the client takes them once, when the MQTT broker grants a
 * filter that is not in mqtt.db:
 *
 *   MQTT 5      the client asks for them only then (Retain Handling), so it
 *               takes all that come; also in a later connection, from the
 *               session, if one connection was too short for all
 *   MQTT 3.1.1  they come with every subscription; the client takes those that
 *               come in the connection in which the filter was new. If it
 *               breaks before all have come, the rest are ignored
 */
struct subscriptions {
    bool is_known[BRIDGE_INPUT_MAX]; /* mqtt.db has its filter */
    int mid[BRIDGE_INPUT_MAX];       /* SUBACK has not come; 0: none is due */

    char (*stale)[sizeof(((struct bridge_input *)0)->filter)];
    size_t n_stale, stale_capacity; /* unsubscribed filters */
};

struct inbound {
    struct registry *registry;
    struct mqtt_db *db;
    const struct bridge_config *config;
    struct bridge_rights rights;
    struct mqtt *mqtt;
    struct client_id client_id;
    struct subscriptions subscriptions;
    struct inbox inbox;
    bool is_dropped;       /* the client has dropped the connection: it ignores
                              further messages, as they come again */
    unsigned n_rejections; /* published, and not acknowledged */

    /* Counters for reports, which order nothing. */
    _Atomic(uint64_t) received, posted, entries, ignored, rejected, repeats;

    pthread_mutex_t mutex;  /* protects the next two from reporting threads */
    struct problem stuck;   /* why messages are held */
    struct problem refused; /* of a filter */
};

static void
count_message(_Atomic(uint64_t) *counter, enum metric metric)
{
    add_relaxed(counter, 1);
    metrics_add(metric, 1);
}

/* Notes a reason that stops the direction; returns true if it is new. */
static bool
note_problem(struct inbound *in, struct problem *at, const struct problem *why)
{
    bool is_news;

    pthread_mutex_lock(&in->mutex);
    is_news = !at->text[0] != !why->text[0];
    *at = *why;
    pthread_mutex_unlock(&in->mutex);
    return is_news;
}

/* Rejecting */

/* Adds a text unchanged if JSON can hold it. */
static void
add_text(struct buf *to, const char *name, struct slice text)
{
    bool is_plain =
        text.size <= REJECTION_TEXT_MAX && mqtt_topic_is_valid(text);

    json_text_member(to, name,
                     is_plain ? text : slice_of(problem_quote(text).text));
}

/* Publishes why a message was rejected: application/problem+json like the
 * answer to a bad post, with three more members. `key` may be empty.
 *
 *   {"type":"about:blank","title":"Unprocessable Content","status":422,
 *    "detail":"no loc","entry":3,"line":17,
 *    "topic":"plant/7/changes","set":"plant","key":"8e03978e"}
 *
 * A failure to publish does not keep that message back: it would go to where
 * the message came from. */
static void
reject_message(struct inbound *in, struct slice topic, struct slice set,
               struct slice key, enum status rc, const struct problem *why)
{
    struct topic_name name = TOPIC_NAME(in->config->prefix, TOPIC_REJECTED);
    unsigned status = response_status_of(rc); /* as of a post over HTTP */
    struct mqtt_message message = {.topic = name.text,
                                   .qos = 1,
                                   .content_type = "application/problem+json"};
    struct problem failure = {""};
    struct buf text = {.max = REJECTION_MAX};
    int mid;

    count_message(&in->rejected, METRIC_MQTT_REJECTED);
    DIAG(DIAG_WARNING, "bridge", "a message is rejected",
         diag_text("bridge", in->config->name),
         diag_text("topic", problem_quote(topic).text),
         diag_text("set", problem_quote(set).text),
         diag_text("why", why->text));
    if (in->n_rejections >= REJECTIONS_MAX)
        return;
    json_problem_begin(&text, status, response_reason(status), why);
    add_text(&text, "topic", topic);
    add_text(&text, "set", set);
    if (key.size > 0)
        add_text(&text, "key", key);
    BUF_ADD(&text, "}\n");
    message.payload = buf_slice(&text);
    in->n_rejections++; /* before the call: an acknowledgement may come during
                           it */
    if (mqtt_publish(in->mqtt, &message, &mid, &failure))
        in->n_rejections--;
    buf_fini(&text);
    if (failure.text[0])
        DIAG(DIAG_WARNING, "bridge", "a rejection cannot be published",
             diag_text("bridge", in->config->name),
             diag_text("topic", name.text), diag_text("why", failure.text));
}

/* Settling */

/* Drops the connection, and forgets the held messages: they come again. */
static void
drop_connection(struct inbound *in, const struct problem *why)
{
    in->is_dropped = true;
    inbox_forget(&in->inbox);
    mqtt_drop(in->mqtt, why);
}

/* Settles all messages of the inbox. False: not for now, for this reason; or
 * the token has ended. */
static bool
settle_messages(struct inbound *in, struct problem *why)
{
    struct inbox *inbox = &in->inbox;
    struct inbox_message *h;

    inbox_begin(inbox, mqtt_keepalive_us(in->mqtt) / 4);
    while (inbox->n > 0) {
        bool is_stuck = inbox_pass(inbox, why) == 0;

        while ((h = inbox_take(inbox))) { /* committed, or failed for good */
            const struct post *post = h->rc ? NULL : &h->ingest->post;

            if (!post) {
                reject_message(in, slice_of(h->topic), h->set,
                               inbox_message_key(h), h->rc, &h->why);
            } else if (post->first == 0) {
                count_message(&in->ignored, METRIC_MQTT_IGNORED);
            } else {
                count_message(&in->posted, METRIC_MQTT_POSTED);
                in->entries += post->last - post->first + 1;
                if (h->is_repeat && post_n_keys(post) == 0)
                    count_message(&in->repeats, METRIC_MQTT_REPEATS);
            }
            inbox_message_free(h);
        }
        if (!is_stuck)
            continue;
        if (in->rights.is_waiting)
            return false;
        if (note_problem(in, &in->stuck, why))
            DIAG(DIAG_WARNING, "bridge",
                 "messages wait, and are not acknowledged",
                 diag_text("bridge", in->config->name),
                 diag_text("why", why->text));
        if (!inbox_pause(inbox))
            return false;
    }
    return true;
}

/* Commits the received messages, or drops the connection. When it returns,
 * either the client may write, or it writes nothing more. */
static void
settle_inbox(struct inbound *in)
{
    struct problem why = {""};

    if (in->is_dropped || in->inbox.n == 0 || in->rights.is_waiting)
        return;
    if (!settle_messages(in, &why)) {
        drop_connection(in, &why);
        return;
    }
    why = (struct problem){""};
    if (note_problem(in, &in->stuck, &why))
        DIAG(DIAG_INFO, "bridge", "messages are committed again",
             diag_text("bridge", in->config->name));
    mqtt_prove(in->mqtt);
}

/* Subscriptions */

/* Called for each filter in mqtt.db. */
static enum status
on_filter(const char *filter, void *user)
{
    struct inbound *in = user;
    struct subscriptions *s = &in->subscriptions;
    size_t i = 0;

    while (i < in->config->n_inputs &&
           strcmp(in->config->inputs[i].filter, filter))
        i++;
    if (i < in->config->n_inputs) {
        s->is_known[i] = true;
        return STATUS_OK;
    }
    if (!ONE_MORE(s->stale, &s->stale_capacity, s->n_stale))
        return STATUS_MEMORY;
    snprintf(s->stale[s->n_stale++], sizeof(s->stale[0]), "%s", filter);
    return STATUS_OK;
}

/* Handles SUBACK. STATUS_INVALID: the filter is not granted, or not at QoS 1;
 * `why` has the reason. STATUS_IO: mqtt.db could not note it. */
static enum status
note_grant(struct inbound *in, int mid, int granted, struct problem *why)
{
    const struct bridge_input *inputs = in->config->inputs;
    struct subscriptions *s = &in->subscriptions;
    enum status rc = STATUS_OK;
    size_t i = 0;

    while (i < in->config->n_inputs && s->mid[i] != mid)
        i++;
    if (i == in->config->n_inputs)
        return STATUS_OK;
    s->mid[i] = 0;
    /* The MQTT broker obeys in order: at the first SUBACK it has unsubscribed
     * from the stale filters, and mqtt.db may forget them. If that fails, the
     * next connection repeats it. */
    for (size_t n = 0; !rc && n < s->n_stale; n++)
        rc = mqtt_db_set_filter(in->db, in->config->name, s->stale[n], false,
                                why);
    s->n_stale = 0;
    if (granted >= MQTT_REASON_FAILED)
        return problem(why, STATUS_INVALID,
                       "the MQTT broker refuses the subscription to %s: %s",
                       inputs[i].filter, mqtt_reason(granted));
    /* is_known stays unchanged: retained messages come with the subscription,
     * before SUBACK or after it. After a crash before this row they come again.
     * After a later crash the session has the unacknowledged ones. */
    if (!rc && !s->is_known[i])
        rc = mqtt_db_set_filter(in->db, in->config->name, inputs[i].filter,
                                true, why);
    if (granted < 1)
        return problem(why, STATUS_INVALID,
                       "the MQTT broker grants %s at QoS 0 only, so that "
                       "messages may be lost",
                       inputs[i].filter);
    return rc;
}

/* The client's calls */

static void
on_connected(void *user, bool has_session)
{
    struct inbound *in = user;
    const struct bridge_config *config = in->config;
    struct subscriptions *s = &in->subscriptions;
    struct problem why = {""};
    enum status rc;

    (void)has_session; /* unused: struct subscriptions */
    in->is_dropped = false;
    in->n_rejections = 0;
    note_problem(in, &in->refused, &why);
    /* Subscribes and unsubscribes. After any failure the connection is
     * useless. */
    memset(s->is_known, 0, sizeof(s->is_known));
    memset(s->mid, 0, sizeof(s->mid));
    s->n_stale = 0;
    rc = mqtt_db_filters(in->db, config->name, on_filter, in, &why);
    for (size_t i = 0; !rc && i < s->n_stale; i++)
        rc = mqtt_unsubscribe(in->mqtt, s->stale[i], &why);
    for (size_t i = 0; !rc && i < config->n_inputs; i++)
        rc = mqtt_subscribe(in->mqtt, config->inputs[i].filter, !s->is_known[i],
                            &s->mid[i], &why);
    if (rc)
        drop_connection(in, &why);
}

static void
on_acknowledged(void *user, int mid, int reason)
{
    struct inbound *in = user;

    (void)mid;
    if (reason >= MQTT_REASON_FAILED)
        DIAG(DIAG_WARNING, "bridge", "the MQTT broker refuses a rejection",
             diag_text("bridge", in->config->name),
             diag_text("reason", mqtt_reason(reason)));
    if (in->n_rejections > 0)
        in->n_rejections--;
}

static void
on_subscribed(void *user, int mid, int granted)
{
    struct inbound *in = user;
    struct problem why = {""};
    enum status rc = note_grant(in, mid, granted, &why);

    if (rc) {
        DIAG(DIAG_WARNING, "bridge", "a subscription failed",
             diag_text("bridge", in->config->name), diag_text("why", why.text));
        if (rc == STATUS_INVALID)
            note_problem(in, &in->refused, &why);
        return;
    }
    /* A bridge that gets no messages works, too; but a bridge that cannot
     * commit its messages gains nothing from another connection. */
    if (!in->stuck.text[0]) /* this thread alone writes it */
        mqtt_prove(in->mqtt);
}

/* Finds the first input whose filter matches the topic, which is valid; NULL:
 * the message is ignored, as for an unsubscribed filter, or a retained message
 * of MQTT 3.1.1 of a known one. So is a message that is no change: published by
 * this bridge itself, a cleared retained one, or a rejection by another broker.
 * Such a message must not be rejected here: two bridges that receive each
 * other's messages would never stop. */
static const struct bridge_input *
find_input(const struct inbound *in, const struct mqtt_received *message)
{
    const struct bridge_config *config = in->config;
    size_t i = 0;

    if (message->payload.size == 0 ||
        topic_is_own(config->prefix, message->topic) ||
        slice_starts(message->payload, JSON_PROBLEM_START))
        return NULL;
    while (i < config->n_inputs &&
           !mqtt_filter_matches(slice_of(config->inputs[i].filter),
                                slice_of(message->topic)))
        i++;
    if (i == config->n_inputs ||
        (message->is_retained && config->version != BRIDGE_MQTT_5 &&
         in->subscriptions.is_known[i]))
        return NULL;
    return &config->inputs[i];
}

static void
on_received(void *user, const struct mqtt_received *message)
{
    struct inbound *in = user;
    struct slice topic = slice_of(message->topic);
    const struct bridge_input *input;
    struct problem why = {""};
    struct inbox_message *h;

    if (in->is_dropped)
        return;
    count_message(&in->received, METRIC_MQTT_RECEIVED);
    if (!mqtt_topic_is_valid(topic)) {
        problem_set(&why, "\"%s\" cannot be a topic's name",
                    problem_quote(topic).text);
        reject_message(in, topic, SLICE(""), SLICE(""), STATUS_INVALID, &why);
        return;
    }
    input = find_input(in, message);
    if (!input) {
        count_message(&in->ignored, METRIC_MQTT_IGNORED);
        return;
    }
    h = inbox_message_new(message, input, in->registry->config->max_body);
    if (!h) {
        problem_memory(&why);
        drop_connection(in, &why);
        return;
    }
    snprintf(h->key.owner, sizeof(h->key.owner), "%s", in->config->as);
    inbox_add(&in->inbox, h);
    if (in->inbox.n >= INBOX_MESSAGES || in->inbox.bytes >= INBOX_BYTES)
        settle_inbox(in);
}

/* Forgets unsettled messages: they are not acknowledged, and come again. */
static void
on_lost(void *user)
{
    struct inbound *in = user;

    inbox_forget(&in->inbox);
    in->n_rejections = 0;
}

static int64_t
on_turn(void *user, bool is_connected)
{
    struct inbound *in = user;

    bridge_rights_renew(&in->rights);
    if (is_connected && !in->rights.is_waiting)
        settle_inbox(in);
    if (!in->rights.is_waiting) {
        mqtt_resume(in->mqtt);
    } else {
        /* Messages that came after the end of the token are not acknowledged:
         * the connection is cut, and they come again. Without such messages it
         * ends with DISCONNECT, behind all acknowledgements. */
        if (in->inbox.n > 0)
            drop_connection(in, &in->rights.why);
        mqtt_suspend(in->mqtt, &in->rights.why);
    }
    return bridge_rights_wait_us(&in->rights);
}

static bool
on_farewell(void *user)
{
    struct inbound *in = user;

    return in->is_dropped || (in->inbox.n == 0 && in->n_rejections == 0);
}

static bool
may_connect(void *user)
{
    const struct inbound *in = user;

    return ownership_allows(&in->db->right);
}

static const struct mqtt_calls calls = {
    .connected = on_connected,
    .acknowledged = on_acknowledged,
    .received = on_received,
    .subscribed = on_subscribed,
    .lost = on_lost,
    .turn = on_turn,
    .farewell = on_farewell,
    .may_connect = may_connect,
};

/* Life cycle */

enum status
inbound_open(struct inbound **opened, struct posts *posts, struct mqtt_db *db,
             const struct bridge_config *config, struct problem *why)
{
    struct inbound *in = memory_new(1, sizeof(*in));
    struct mqtt_options options = {
        .config = config,
        .direction = "in",
        .keeps_session = true,
        .calls = &calls,
        .user = in,
        .client_id = in->client_id.text,
    };
    struct bridge_row row;
    enum status rc;

    in->registry = posts->registry;
    in->db = db;
    in->config = config;
    pthread_mutex_init(&in->mutex, NULL);
    bridge_rights_init(&in->rights, posts->registry, config, "in");
    inbox_init(&in->inbox, posts, &in->rights);
    if (in->rights.is_waiting)
        options.suspended = &in->rights.why;
    rc = mqtt_db_bridge(db, config->name, posts->registry->config->cluster_name,
                        &row, why);
    if (!rc) {
        in->client_id = client_id_of(config, row.identity, "in");
        rc = mqtt_open(&in->mqtt, &options, why);
    }
    if (rc)
        inbound_close(in);
    else
        *opened = in;
    return rc;
}

void
inbound_end(struct inbound *in)
{
    if (!in)
        return;
    /* First: the client may be in a turn that holds messages. */
    inbox_end(&in->inbox);
    mqtt_begin_stop(in->mqtt);
}

void
inbound_stop(struct inbound *in)
{
    inbound_end(in);
    if (in)
        mqtt_stop(in->mqtt);
}

void
inbound_close(struct inbound *in)
{
    if (!in)
        return;
    inbound_stop(in);
    mqtt_close(in->mqtt);
    inbox_fini(&in->inbox);
    bridge_rights_fini(&in->rights);
    free(in->subscriptions.stale);
    pthread_mutex_destroy(&in->mutex);
    free(in);
}

void
inbound_report(struct inbound *in, struct inbound_report *report)
{
    *report = (struct inbound_report){
        .received = in->received,
        .posted = in->posted,
        .entries = in->entries,
        .ignored = in->ignored,
        .rejected = in->rejected,
        .repeats = in->repeats,
    };
    mqtt_state(in->mqtt, &report->mqtt);
    pthread_mutex_lock(&in->mutex);
    report->why = in->stuck.text[0] ? in->stuck : in->refused;
    pthread_mutex_unlock(&in->mutex);
}

#include "broker/hub/subscription_report.h"

#include "broker/base/metrics.h"
#include "broker/hub/hub_state.h"
#include "broker/sets/rates.h"
#include "proto/resourcesync/json.h"

const struct json_shape subscription_shape = {
    "Subscription",
    "A subscription, or a request that waits for its verification",
    "id count, topic uri, callback uri (scheme and host), "
    "kind 'callback'|'hub', simple flag (made by POST to the set), "
    "state 'active'|'pending', created? time, leaseEnd? time, "
    "mode? string (what is requested), requested? time, "
    "position string (up to it all is delivered), lag? count (entries), "
    "delivering flag, nextTry? time, deliveries count, attempts count, "
    "failures count, skipped count, lastSuccess? time, lastFailure? time, "
    "lastStatus? count, lastError? string, "
    "form? 'xml'|'json'|'cloudevents'|'cloudevent', "
    "signature? 'v1a' (with the keys of the hub), filter? string, "
    "interval? number (seconds), hasSecret flag, owner? string (a token)"};

const struct json_shape subscriptions_shape = {
    "Subscriptions", "A page of subscriptions",
    "subscriptions [Subscription], next? count (the `after` of the next page)"};

/* The year 9999. */
#define TIME_MAX_US 253402300799000000

static void
add_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE];

    if (us <= 0 || us > TIME_MAX_US)
        return;
    buf_add_format(to, ",\"%s\":\"%.*s\"", name,
                   (int)datetime_write_short(text, us), text);
}

static void
add_flag(struct buf *to, const char *name, bool value)
{
    buf_add_format(to, ",\"%s\":%s", name, value ? "true" : "false");
}

static void
add_terms(struct buf *to, const struct topic *topic, const struct terms *terms)
{
    if (topic->kind != TOPIC_FOREIGN)
        json_text_member(to, "form", slice_of(message_form_name(terms->form)));
    if (terms->wants_v1a)
        json_text_member(to, "signature", SLICE("v1a"));
    if (terms->filter)
        json_text_member(to, "filter", slice_of(terms->filter));
    if (terms->interval_us > 0 && terms->interval_us % 1000000 == 0)
        json_number_member(to, "interval",
                           (uint64_t)terms->interval_us / 1000000);
    else if (terms->interval_us > 0)
        buf_add_format(to, ",\"interval\":%" PRId64 ".%06" PRId64,
                       terms->interval_us / 1000000,
                       terms->interval_us % 1000000);
    add_flag(to, "hasSecret", terms->secret_size > 0);
    if (terms->owner.name)
        json_text_member(to, "owner", slice_of(terms->owner.name));
}

/* Counts the entries up to `head` that the subscription has not looked at. A
 * resting one has looked at all older ones, and the hub may not have noticed
 * later ones yet; but most of the framework's log concerns others
 * (framework.h). */
static uint64_t
lag_of(const struct subscription *s, uint64_t head)
{
    bool is_of_others =
        s->reader.state == READER_HEAD && s->topic->kind == TOPIC_FRAMEWORK;
    uint64_t start = reader_start(&s->reader);

    return !is_of_others && head > start ? head - start : 0;
}

/* Adds a position, and how far the head is ahead of it. */
static void
add_position(struct buf *to, const struct topic *topic, uint64_t after,
             uint64_t lag, bool has_head)
{
    char position[POSITION_MAX];

    position_write(position, topic->epoch, after);
    json_text_member(to, "position", slice_of(position));
    if (has_head)
        json_number_member(to, "lag", lag);
}

static void
add_counters(struct buf *to, const struct delivery_history *history)
{
    json_number_member(to, "deliveries", history->n_deliveries);
    json_number_member(to, "attempts", history->n_attempts);
    json_number_member(to, "failures", history->n_failed);
    json_number_member(to, "skipped", history->n_skipped);
}

static uint64_t
more_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void
report_measure(struct hub *hub)
{
    struct list *behind, *after;
    const struct topic *topic;
    const struct subscription *s;
    uint64_t most = 0, most_of_relays = 0;

    list_each (topic, behind, &hub->topics, node) {
        uint64_t lag = 0, head;

        if (list_is_empty(&topic->busy) || !topic_head(topic, &head))
            continue;
        list_each (s, after, &topic->busy, busy)
            lag = more_of(lag, lag_of(s, head));
        most = more_of(most, lag);
        if (topic->kind == TOPIC_FOREIGN)
            most_of_relays = more_of(most_of_relays, lag);
        else if (topic->kind == TOPIC_CHANGES && lag > 0)
            rates_note_last(registry_rates(hub->registry), RATE_HUB, topic->set,
                            lag);
    }
    metrics_set(METRIC_HUB_LAG, (int64_t)most);
    metrics_set(METRIC_RELAY_LAG, (int64_t)most_of_relays);
    foreign_topics_measure(&hub->foreign_topics);
}

static void
add_callback(struct buf *to, const char *callback)
{
    struct websub_origin origin = websub_origin(slice_of(callback));

    json_text_member(to, "callback", slice_of(origin.text));
    json_text_member(to, "kind", SLICE("callback"));
}

void
report_subscription(struct buf *to, const struct subscription *s)
{
    bool is_waiting = !s->delivery && s->failures > 0, has_head;
    uint64_t head = 0;
    struct buf url;

    buf_init(&url, 2 * WEBSUB_URL_MAX);
    topic_write_url(&url, s->topic);
    buf_add_format(to, "{\"id\":%" PRIu64, s->id);
    json_text_member(to, "topic", buf_slice(&url));
    buf_fini(&url);
    if (s->kind == SUBSCRIPTION_HUB) { /* public: the Link headers name the
                                          hub */
        json_text_member(to, "callback", slice_of(s->callback));
        json_text_member(to, "kind", SLICE("hub"));
    } else {
        add_callback(to, s->callback);
    }
    add_flag(to, "simple", s->terms.is_simple);
    json_text_member(to, "state", SLICE("active"));
    add_time(to, "created", s->created_us);
    add_time(to, "leaseEnd", s->lease_end_us);
    has_head = topic_head(s->topic, &head);
    add_position(to, s->topic, s->reader.after, lag_of(s, head), has_head);
    /* In flight, or waiting for its next try. */
    add_flag(to, "delivering", s->delivery || is_waiting);
    if (is_waiting && s->retry_alarm.at_us > 0)
        add_time(to, "nextTry",
                 clock_now_us() + s->retry_alarm.at_us - clock_steady_us());
    add_counters(to, &s->history);
    add_time(to, "lastSuccess", s->history.last_success_us);
    add_time(to, "lastFailure", s->history.last_failure_us);
    if (s->history.last_status > 0)
        json_number_member(to, "lastStatus", s->history.last_status);
    if (s->history.last_error[0])
        json_text_member(to, "lastError", slice_of(s->history.last_error));
    add_terms(to, s->topic, &s->terms);
    BUF_ADD(to, "}");
}

void
report_verification(struct buf *to, const struct verification *r)
{
    static const struct delivery_history none;
    uint64_t head = 0;
    bool has_head = topic_head(r->topic, &head);

    buf_add_format(to, "{\"id\":%" PRIu64, r->id);
    json_text_member(to, "topic", slice_of(r->topic_url));
    add_callback(to, r->callback);
    add_flag(to, "simple", r->terms.is_simple);
    json_text_member(to, "state", SLICE("pending"));
    json_text_member(to, "mode", slice_of(websub_mode_name(r->mode)));
    add_time(to, "requested", r->taken_us);
    add_position(to, r->topic, r->after, head > r->after ? head - r->after : 0,
                 has_head);
    add_flag(to, "delivering", false);
    add_counters(to, &none);
    add_terms(to, r->topic, &r->terms);
    BUF_ADD(to, "}");
}

/* A set has two topics, a relay one. */
#define TOPICS_MAX 2

static size_t
topics_of(struct hub *hub, const char *name, bool is_relay,
          struct topic *topics[TOPICS_MAX])
{
    struct foreign_topic *foreign =
        is_relay ? foreign_topic_find(&hub->foreign_topics, slice_of(name))
                 : NULL;
    struct set *set =
        is_relay ? NULL : registry_find(hub->registry, slice_of(name), NULL);
    size_t n = 0;

    if (foreign && foreign->topic)
        topics[n++] = foreign->topic;
    if (set && (topics[n] = topic_look(hub, TOPIC_CHANGES, set)))
        n++;
    if (set && (topics[n] = topic_look(hub, TOPIC_FRAMEWORK, set)))
        n++;
    return n;
}

/* The next row of a list: a subscription, a request, or neither. */
struct row {
    const struct subscription *s;
    const struct verification *r;
    uint64_t id;
};

static void
add_row(struct buf *to, struct row row, size_t n)
{
    if (n > 0)
        BUF_ADD(to, ",\n");
    if (row.s)
        report_subscription(to, row.s);
    else
        report_verification(to, row.r);
}

/* Subscriptions and requests share their ids, and each topic has both in order
 * of ids: the list merges them. It does not look at other sets. */
void
report_list(struct buf *to, struct hub *hub, const char *name, bool is_relay,
            uint64_t after)
{
    struct topic *topics[TOPICS_MAX];
    size_t n_topics = topics_of(hub, name, is_relay, topics), n = 0;

    BUF_ADD(to, "{\"subscriptions\":[");
    for (;;) {
        struct row row = {NULL, NULL, UINT64_MAX};

        for (size_t i = 0; i < n_topics; i++) {
            const struct subscription *s =
                subscription_next(&topics[i]->subscriptions_by_id, after);
            const struct verification *r =
                verification_next(&topics[i]->verifications_by_id, after);

            if (s && s->id < row.id)
                row = (struct row){s, NULL, s->id};
            if (r && r->id < row.id)
                row = (struct row){NULL, r, r->id};
        }
        if (!row.s && !row.r)
            break;
        if (n == REPORT_PAGE) {
            buf_add_format(to, "],\"next\":%" PRIu64 "}\n", after);
            return;
        }
        add_row(to, row, n++);
        after = row.id;
    }
    BUF_ADD(to, "]}\n");
}

void
report_callback(struct buf *to, struct hub *hub, const char *name,
                bool is_relay, struct slice callback)
{
    static const enum subscription_kind kinds[] = {SUBSCRIPTION_CALLBACK,
                                                   SUBSCRIPTION_HUB};
    struct topic *topics[TOPICS_MAX];
    size_t n_topics = topics_of(hub, name, is_relay, topics), n = 0;

    BUF_ADD(to, "{\"subscriptions\":[");
    for (size_t i = 0; i < n_topics; i++) {
        const struct verification *r =
            verification_find(hub, topics[i], callback);

        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            const struct subscription *found =
                subscription_find(hub, topics[i], kinds[k], callback);

            if (found)
                add_row(to, (struct row){.s = found}, n++);
        }
        for (; r; r = verification_same(r))
            add_row(to, (struct row){.r = r}, n++);
    }
    BUF_ADD(to, "]}\n");
}

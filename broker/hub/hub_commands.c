#include "broker/hub/hub_commands.h"

#include "broker/base/metrics.h"
#include "broker/hub/hub_parts.h"
#include "broker/hub/hub_state.h"
#include "broker/sets/rates.h"
#include "broker/sources/document_intake.h"
#include "proto/number.h"
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

static void
add_terms(struct buf *to, const struct topic *topic, const struct terms *terms)
{
    if (topic->kind != TOPIC_FOREIGN)
        json_text_member(to, "form", slice_of(message_forms[terms->form].name));
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
    json_flag_member(to, "hasSecret", terms->secret_size > 0);
    if (terms->owner.name)
        json_text_member(to, "owner", slice_of(terms->owner.name));
}

/* Counts the entries up to `head` that the subscription has not looked at. A
 * resting one has looked at all older ones, and the hub may not have noticed
 * later ones yet; but most of the framework's log concerns others
 * (topic.h). */
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
    char epoch[EPOCH_SIZE + 1];

    topic_epoch(topic, epoch);
    json_position_member(to, "position", epoch, after);
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
    const struct topic *topic;
    const struct subscription *s;
    uint64_t most = 0, most_of_relays = 0;

    list_walk (topic, &hub->topics, node) {
        uint64_t lag = 0, head;

        if (list_is_empty(&topic->busy) || !topic_head(topic, &head))
            continue;
        list_walk (s, &topic->busy, busy)
            lag = more_of(lag, lag_of(s, head));
        most = more_of(most, lag);
        if (topic->kind == TOPIC_FOREIGN)
            most_of_relays = more_of(most_of_relays, lag);
        else if (topic->kind == TOPIC_CHANGES && lag > 0)
            rates_note_last(hub->registry->rates, RATE_HUB, topic->set, lag);
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

static void
report_subscription(struct buf *to, const struct subscription *s)
{
    bool is_waiting = !s->delivery && s->failures > 0, has_head;
    uint64_t head = 0;
    struct buf url = {.max = 2 * WEBSUB_URL_MAX};

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
    json_flag_member(to, "simple", s->terms.is_simple);
    json_text_member(to, "state", SLICE("active"));
    json_time_member(to, "created", s->created_us);
    json_time_member(to, "leaseEnd", s->lease_end_us);
    has_head = topic_head(s->topic, &head);
    add_position(to, s->topic, s->reader.after, lag_of(s, head), has_head);
    /* In flight, or waiting for its next try. */
    json_flag_member(to, "delivering", s->delivery || is_waiting);
    if (is_waiting && s->retry_alarm.at_us > 0)
        json_time_member(to, "nextTry",
                         clock_now_us() + s->retry_alarm.at_us -
                             clock_steady_us());
    add_counters(to, &s->history);
    json_time_member(to, "lastSuccess", s->history.last_success_us);
    json_time_member(to, "lastFailure", s->history.last_failure_us);
    if (s->history.last_status > 0)
        json_number_member(to, "lastStatus", s->history.last_status);
    if (s->history.last_error[0])
        json_text_member(to, "lastError", slice_of(s->history.last_error));
    add_terms(to, s->topic, &s->terms);
    BUF_ADD(to, "}");
}

static void
report_verification(struct buf *to, const struct verification *r)
{
    static const struct delivery_history none;
    uint64_t head = 0;
    bool has_head = topic_head(r->topic, &head);

    buf_add_format(to, "{\"id\":%" PRIu64, r->id);
    json_text_member(to, "topic", slice_of(r->topic_url));
    add_callback(to, r->callback);
    json_flag_member(to, "simple", r->terms.is_simple);
    json_text_member(to, "state", SLICE("pending"));
    json_text_member(to, "mode", slice_of(websub_mode_names[r->mode]));
    json_time_member(to, "requested", r->taken_us);
    add_position(to, r->topic, r->after, head > r->after ? head - r->after : 0,
                 has_head);
    json_flag_member(to, "delivering", false);
    add_counters(to, &none);
    add_terms(to, r->topic, &r->terms);
    BUF_ADD(to, "}");
}

/* Commands */

/* A set has two topics, a relay one; each has subscriptions and requests. */
#define TOPICS_MAX 2
#define ROWS_MAX   (2 * TOPICS_MAX)

/* Finds the topics of the set or relay that the command names; NULL: nobody has
 * subscribed. */
static enum status
find_topics(struct command *command, struct topic *topics[TOPICS_MAX])
{
    struct hub *hub = command->hub;
    struct slice name = slice_of(command->name);
    bool is_relay = command->is_relay;
    struct foreign_topic *foreign =
        is_relay ? foreign_topic_find(&hub->foreign_topics, name) : NULL;
    struct set *set =
        is_relay ? NULL : registry_find(hub->registry, name, NULL);

    if (!foreign && !set)
        return problem(&command->why, STATUS_NOT_FOUND, "there is no %s \"%s\"",
                       is_relay ? "relay" : "set", command->name);
    topics[0] = foreign ? foreign->topic : topic_look(hub, TOPIC_CHANGES, set);
    topics[1] = foreign ? NULL : topic_look(hub, TOPIC_FRAMEWORK, set);
    return STATUS_OK;
}

static struct callback_tables *
tables_of(struct hub *hub, enum hub_row_kind kind)
{
    return kind == HUB_ROW_REQUEST ? &hub->verifications.tables
                                   : &hub->subscriptions;
}

/* The row of a key in tables_of(kind). */
static const struct hub_row *
row_of(struct callback_key *key, enum hub_row_kind kind)
{
    return kind == HUB_ROW_REQUEST
               ? &list_entry(key, struct verification, key)->row
               : &list_entry(key, struct subscription, key)->row;
}

static void
add_row(struct buf *to, const struct hub_row *row)
{
    json_separate(to, ",\n");
    if (row->kind == HUB_ROW_REQUEST)
        report_verification(to, list_entry(row, struct verification, row));
    else
        report_subscription(to, list_entry(row, struct subscription, row));
}

/* False: another broker asks for the rows of another part. */
static bool
is_asked_for(const struct command *command, const struct hub_row *row)
{
    return command->part < 0 || (unsigned)command->part == row->part;
}

/* Appends those with ids above command->id. Subscriptions and requests share
 * their ids, and each topic has both in order of ids: the list merges them. It
 * does not look at other sets. */
static void
list_all(struct command *command, struct topic *topics[TOPICS_MAX])
{
    struct buf *to = &command->text;
    uint64_t after = command->id;
    size_t n = 0, n_lists = 0, from = 0;

    struct {
        struct list *all, *next;
        enum hub_row_kind kind;
    } lists[ROWS_MAX];

    for (size_t i = 0; i < ROWS_MAX; i++) {
        struct topic *topic = topics[i / 2];
        enum hub_row_kind kind = i % 2;
        struct list *all;

        if (!topic)
            continue;
        all =
            kind == HUB_ROW_REQUEST ? &topic->requests : &topic->subscriptions;
        lists[n_lists].all = all;
        lists[n_lists].next = callback_tables_behind(
            tables_of(command->hub, kind), all, topic, after);
        lists[n_lists++].kind = kind;
    }
    for (;;) {
        struct callback_key *first = NULL, *key;
        const struct hub_row *row;

        for (size_t i = 0; i < n_lists; i++) {
            key = list_entry(lists[i].next, struct callback_key, of_topic);
            if (lists[i].next != lists[i].all &&
                (!first || key->id < first->id)) {
                first = key;
                from = i;
            }
        }
        if (!first)
            break;
        lists[from].next = first->of_topic.next;
        row = row_of(first, lists[from].kind);
        if (!is_asked_for(command, row))
            continue;
        if (n == REPORT_PAGE) {
            buf_add_format(to, "],\"next\":%" PRIu64 "}\n", after);
            return;
        }
        n++;
        add_row(to, row);
        after = first->id;
    }
    BUF_ADD(to, "]}\n");
}

/* The same for one callback, for clients that know its URL. */
static void
list_of_callback(struct command *command, struct topic *topics[TOPICS_MAX])
{
    struct callback_key *key;

    for (size_t i = 0; i < ROWS_MAX; i++) {
        if (!topics[i / 2])
            continue;
        key = callback_tables_find(tables_of(command->hub, i % 2),
                                   topics[i / 2], command->request.callback);
        for (; key; key = callback_tables_same(key))
            if (is_asked_for(command, row_of(key, i % 2)))
                add_row(&command->text, row_of(key, i % 2));
    }
    BUF_ADD(&command->text, "]}\n");
}

#define LIST_START "{\"subscriptions\":["

/* The id of the first one of rows. False: there is none. */
static bool
first_id(struct slice rows, uint64_t *id)
{
    if (!slice_skip_start(&rows, "{\"id\":"))
        return false;
    return number_read(slice_take(&rows, ','), id);
}

/* Takes the first one, a line; behind the last one the list may go on. */
static struct slice
take_row(struct slice *rows, bool *goes_on)
{
    struct slice row = slice_take(rows, '\n');

    if (rows->size == 0) {
        *goes_on |= !slice_ends(row, "]}");
        while (row.size > 1 && row.data[row.size - 1] != ']')
            row.size--;
    }
    row.size--; /* "," or "]" */
    return row;
}

/* The list whose first row has the least id. NULL: no rows are left. */
static struct slice *
find_first(struct slice *lists, size_t n, uint64_t *least)
{
    struct slice *first = NULL;
    uint64_t id;

    for (size_t i = 0; i < n; i++)
        if (first_id(lists[i], &id) && (!first || id < *least)) {
            first = &lists[i];
            *least = id;
        }
    return first;
}

void
hub_lists_merge(struct buf *to, struct slice *lists, size_t n)
{
    uint64_t last = 0;
    struct slice *first;
    bool goes_on = false;

    for (size_t i = 0; i < n; i++)
        if (!slice_skip_start(&lists[i], LIST_START))
            lists[i].size = 0;
    BUF_ADD(to, LIST_START);
    for (int i = 0; i < REPORT_PAGE && (first = find_first(lists, n, &last));
         i++) {
        json_separate(to, ",\n");
        buf_add_slice(to, take_row(first, &goes_on));
    }
    if (goes_on || find_first(lists, n, &(uint64_t){0}))
        buf_add_format(to, "],\"next\":%" PRIu64 "}\n", last);
    else
        BUF_ADD(to, "]}\n");
}

static void
run_list(struct command *command)
{
    struct topic *topics[TOPICS_MAX];
    enum status rc = find_topics(command, topics);

    BUF_ADD(&command->text, LIST_START);
    if (!rc && command->request.callback.size > 0)
        list_of_callback(command, topics);
    else if (!rc)
        list_all(command, topics);
    if (!rc && hub_parts_collect(command))
        return;
    command_report(command, rc);
}

/* Finds the subscription, or the waiting request, that the command names: one
 * of the two, or STATUS_NOT_FOUND. STATUS_INVALID: a request does not do. */
static enum status
find_row(struct command *command, const struct hub_row **row)
{
    bool needs_active =
        command->kind == COMMAND_REDELIVER || command_calls(command);
    struct topic *topics[TOPICS_MAX];
    enum status rc = find_topics(command, topics);

    if (rc)
        return rc;
    for (enum hub_row_kind kind = 0; kind <= HUB_ROW_REQUEST; kind++) {
        struct callback_key *key =
            callback_tables_by_id(tables_of(command->hub, kind), command->id);

        if (key && (key->topic == topics[0] || key->topic == topics[1]))
            *row = row_of(key, kind);
    }
    if (!*row)
        return problem(&command->why, STATUS_NOT_FOUND,
                       "%s \"%s\" has no subscription %" PRIu64,
                       command->is_relay ? "relay" : "set", command->name,
                       command->id);
    return (*row)->kind == HUB_ROW_SUBSCRIPTION || !needs_active
               ? STATUS_OK
               : problem(&command->why, STATUS_INVALID,
                         "subscription %" PRIu64 " is not active yet",
                         command->id);
}

/* COMMAND_END and COMMAND_REDELIVER change memory at once; the answer waits for
 * the commit. If the commit fails the answer is 503, and the change happens all
 * the same. A client may repeat both without harm. */
static void
run_named(struct command *command)
{
    struct buf *to = &command->text;
    const struct hub_row *row = NULL;
    enum status rc = find_row(command, &row);
    struct subscription *s;
    struct verification *r;
    bool is_request;
    uint64_t after;

    if (!rc && command->kind == COMMAND_REDELIVER)
        rc = topic_judge(list_entry(row, struct subscription, row)->topic,
                         command->after, &after, &command->why);
    if (rc) {
        command_answer_now(command, rc, NULL);
        return;
    }
    is_request = row->kind == HUB_ROW_REQUEST;
    s = list_entry(row, struct subscription, row);
    r = list_entry(row, struct verification, row);
    if (command_calls(command)) {
        single_delivery_begin(s, command);     /* which answers it */
    } else if (command->kind == COMMAND_END) { /* denies its callback: W-042 */
        if (is_request)
            verification_deny(
                r, SLICE("the operator of the hub has refused the request"));
        else
            subscription_end(s, END_DELETED);
        command_end(command, STATUS_OK, 204);
    } else if (command->kind == COMMAND_ATTEMPTS) {
        if (is_request)
            buf_add_format(
                to, "{\"subscription\":%" PRIu64 ",\"attempts\":[]}\n", r->id);
        else
            attempt_log_report(to, s);
        command_report(command, STATUS_OK);
    } else {
        if (command->kind == COMMAND_REDELIVER)
            subscription_redeliver(s, after);
        add_row(to, row);
        BUF_ADD(to, "\n");
        if (command->kind == COMMAND_REDELIVER)
            command_end(command, STATUS_OK, 200);
        else
            command_report(command, STATUS_OK);
    }
}

/* Pings (W-121) */

/* Checks one topic of a ping. One of ours needs no fetch: the broker makes its
 * changes. */
static enum status
judge_ping(const struct command *command, struct slice url, struct problem *why)
{
    struct hub *hub = command->hub;
    struct intake_target target;
    struct topic *topic;
    enum status rc = websub_check_url(url, "hub.url", why);

    if (rc)
        return rc;
    target = intake_target_of(&hub->foreign_sources, url);
    if (!intake_target_is_none(&target))
        return command_allow(command, RIGHT_PUBLISH,
                             intake_target_name(&target), why);
    rc = topic_find(hub, url, command->principal, &topic, why);
    if (rc == STATUS_INVALID || rc == STATUS_NOT_FOUND)
        return foreign_source_unknown(url, why);
    if (rc)
        return rc;
    rc = command_allow(command, RIGHT_PUBLISH, topic_name(topic), why);
    topic_release(topic);
    return rc;
}

/* Bytes of refused topics that fit into a problem. */
#define REFUSED_MAX 960

/* Answers at once, and fetches the topics afterwards. Publishers name all feeds
 * of a site in one ping. The hub fetches the feeds that it knows, and names the
 * others in its answer, so that a publisher notices a wrong one. 204: all are
 * known; 202: some; none: the reason of the first. */
static void
run_publish(struct command *command)
{
    struct problem why = {""};
    struct buf *refused = &command->text;
    struct slice url;
    size_t at = 0, n = 0, n_refused = 0, n_named = 0, named = 0;
    enum status rc, first = STATUS_OK;

    while (websub_next_topic(&command->form, &at, &url)) {
        n++;
        rc = judge_ping(command, url, &why);
        if (!rc) {
            foreign_source_fetch(&command->hub->foreign_sources, url);
            continue;
        }
        first = first ? first : rc;
        buf_add_format(refused, "%s%s", n_refused++ ? "; " : "", why.text);
        if (refused->size <= REFUSED_MAX) {
            named = refused->size;
            n_named = n_refused;
        }
    }
    command->http = first ? 202 : 204;
    if (n_refused == n) {
        problem(&command->why, first, "%.*s", (int)named, refused->data);
        if (n_named < n)
            problem(&command->why, first, "%.*s; and %zu more", (int)named,
                    refused->data, n - n_named);
        buf_clear(refused);
    } else if (first) {
        BUF_ADD(refused, "\n");
    }
    command_answer_now(command, n_refused == n ? first : STATUS_OK, NULL);
}

void
hub_command_run(struct task *task)
{
    struct command *command = list_entry(task, struct command, task);

    if (authority_check(command->authority, clock_now_us(), &command->why)) {
        command_answer_now(command, STATUS_DENIED, NULL);
        return;
    }
    if (!hub_parts_have(command))
        return;
    switch (command->kind) {
    case COMMAND_SUBSCRIBE:
        command_end(command, verification_take(command), 202); /* W-031 */
        break;
    case COMMAND_PUBLISH:
        run_publish(command);
        break;
    case COMMAND_NOTIFY:
        foreign_source_notify(&command->hub->foreign_sources, command);
        break;
    case COMMAND_LIST:
        run_list(command);
        break;
    case COMMAND_SHOW:
    case COMMAND_END:
    case COMMAND_REDELIVER:
    case COMMAND_ATTEMPTS:
    case COMMAND_AGAIN:
    case COMMAND_TEST:
        run_named(command);
        break;
    case COMMAND_KEYS:
        hub_keys_report(&command->text, &command->hub->keys.now);
        command_report(command, STATUS_OK);
        break;
    case COMMAND_KEYS_ROTATE:
        command_end(command,
                    hub_keys_rotate(&command->hub->keys, command->id,
                                    &command->text, &command->why),
                    200);
        break;
    case COMMAND_RELAY_PUT:
    case COMMAND_RELAY_SHOW:
    case COMMAND_RELAY_LIST:
    case COMMAND_RELAY_REMOVE:
        foreign_topic_run(&command->hub->foreign_topics, command);
        break;
    case COMMAND_KINDS:
        break;
    }
}

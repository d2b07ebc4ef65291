#include "broker/hub/delivery.h"

#include "base/random.h"
#include "base/token_file.h"
#include "broker/base/metrics.h"
#include "broker/base/spans.h"
#include "broker/hub/hub_rows.h"
#include "broker/hub/hub_state.h"
#include "broker/sources/peer_tokens.h"
#include "proto/http/link_header.h"
#include "proto/http/response_head.h"
#include "proto/number.h"

/* Pause after a failure of our own: of a disk, or no memory for a
 * body. */
#define PAUSE_US ((int64_t)1000000)

/*
 * One try of a delivery: its headers, and the meaning of the answer.
 *
 *   to a callback                       to an external hub
 *   Content-Type: that of the form      Content-Type: application/xml
 *   Link: <hub>; rel="hub",             Link: <that hub>; rel="hub",
 *     <topic>; rel="self"  (one line)     <topic>; rel="self",
 *                                         <...>; rel="resourcesync"
 *   Tidings-Delivery: ID                Tidings-Delivery: ID
 *                                       Idempotency-Key: ID
 *   X-Hub-Signature: sha256=...         with a secret (W-100)
 *   webhook-id: ID                      with one that begins with whsec_
 *   webhook-timestamp: 1700000000       (W-106), or signature=v1a (W-109); the
 *   webhook-signature: v1,... v1a,...   time of this try
 *   Tidings-Test: 1                     of a test alone
 *   traceparent: 00-...                 where all entries are of one trace
 *
 * Every try of a delivery has the same ID; different deliveries have different
 * IDs:
 *
 *   9f86d081884c7d65-17-4710-4723           epoch, subscription, after, last
 *   9f86d081884c7d65-17-4710-4723-5f3a09c1  and its form, where it is not the
 *                                           plain range: a filter, not XML
 *   9f86d081884c7d65-17-4710-4723-r1        after one redelivery on request
 *   9f86d081884c7d65-17-4710-4723-s17...    of a single delivery: its time
 *
 * An ID contains no full stop: Standard Webhooks signs ID, timestamp and body
 * with full stops between them.
 */

/* All headers together: the longest ones hold two URLs and a third, or a token.
 */
#define HEADERS_MAX ((size_t)6 * WEBSUB_URL_MAX + TOKEN_MAX)

#define ATTEMPT_HEADERS_MAX 12

/* A longer text is freed after its try. */
#define SPARE_TEXT_MAX 1024

/* The broker reads so many bytes of an answer's body (W-085). */
#define ATTEMPT_ANSWER_MAX 4096

/* One try of any delivery. All zero before; the text is for buf_fini. */
struct attempt {
    struct list node; /* in deliveries.spare */
    struct buf text;
    const char *headers[ATTEMPT_HEADERS_MAX + 1]; /* NULL at the end */
};

/* FNV-1a. No secret: it only distinguishes one form from another. */
static uint32_t
digest_of(struct slice text, uint32_t digest)
{
    for (size_t i = 0; i < text.size; i++)
        digest = (digest ^ (unsigned char)text.data[i]) * 16777619u;
    return digest;
}

/* The form in which a subscription gets a range. 0: the whole range, as the
 * topic has it; else a digest of filter and form, to compare with an earlier
 * one. */
static uint32_t
attempt_form(const struct subscription *s)
{
    enum message_form form = (enum message_form)s->reader.form;
    uint32_t digest = 2166136261u;

    if (!s->reader.filter && form == MESSAGE_XML)
        return 0;
    if (s->reader.filter)
        digest = digest_of(filter_text(&s->reader.filter->filter), digest);
    if (form != MESSAGE_XML) {
        digest = digest_of(SLICE("|"), digest);
        digest = digest_of(slice_of(message_forms[form].name), digest);
    }
    return digest ? digest : 1;
}

/* Each header is terminated within the text; they follow one another. */

static void
end_header(struct attempt *a)
{
    buf_add(&a->text, "", 1);
}

static void
add_header(struct attempt *a, const char *name, const char *value)
{
    buf_add_text(&a->text, name);
    buf_add_text(&a->text, value);
    end_header(a);
}

/* All links in one header line (W-083). Callbacks of a set's topic share one
 * Link header, made once. A relay's hub may change. */
static void
add_links(struct attempt *a, const struct subscription *s)
{
    struct topic *topic = s->topic;
    bool is_kept = s->kind == SUBSCRIPTION_CALLBACK && topic->set;
    size_t from = a->text.size;
    struct buf links = {.max = HEADERS_MAX}, url = {.max = HEADERS_MAX};

    if (is_kept && topic->links) {
        add_header(a, topic->links, "");
        return;
    }
    if (s->kind == SUBSCRIPTION_HUB)
        buf_add_text(&url, s->callback);
    else
        topic_write_hub(&url, topic);
    weblink_add(&links, buf_slice(&url), "hub");
    buf_clear(&url);
    topic_write_url(&url, topic);
    weblink_add(&links, buf_slice(&url), "self");
    if (s->kind == SUBSCRIPTION_HUB && topic->set) {
        struct link_text list =
            link_to(s->hub->registry->options.public_url, LINK_CAPABILITYLIST,
                    topic->set->name, NULL, 0);

        weblink_add(&links, link_slice(&list), "resourcesync");
    }
    BUF_ADD(&a->text, "Link: ");
    buf_add_slice(&a->text, buf_slice(&links));
    a->text.failed |= links.failed || url.failed;
    buf_fini(&links);
    buf_fini(&url);
    if (is_kept && !a->text.failed)
        topic->links = slice_dup(slice_from(buf_slice(&a->text), from));
    end_header(a);
}

/* False: OpenSSL cannot sign it. */
static bool
add_signatures(struct attempt *a, const struct subscription *s,
               const struct shared_message *body, const char *id)
{
    int64_t now_s = clock_now_us() / 1000000;
    char signature[SIGNATURE_SIZE], webhook[WEBHOOK_SIGNATURE_SIZE];
    bool is_webhook = s->signer && signer_is_webhook(s->signer), is_signed;

    if (s->signer) {
        if (signer_sign(s->signer, shared_message_slice(body), signature))
            return false;
        add_header(a, "X-Hub-Signature: ", signature);
    }
    if (!is_webhook && !s->terms.wants_v1a)
        return true;
    add_header(a, "webhook-id: ", id);
    buf_add_format(&a->text, "webhook-timestamp: %" PRId64, now_s);
    end_header(a);
    BUF_ADD(&a->text, "webhook-signature:");
    if (is_webhook) {
        if (signer_sign_webhook(s->signer, slice_of(id), now_s,
                                shared_message_slice(body), webhook))
            return false;
        BUF_ADD(&a->text, " ");
        buf_add_text(&a->text, webhook);
    }
    is_signed = !s->terms.wants_v1a ||
                hub_keys_sign(&s->hub->keys, slice_of(id), now_s,
                              shared_message_slice(body), &a->text);
    end_header(a);
    return is_signed;
}

/* Makes the headers for a body. False: no memory, or OpenSSL cannot sign it. */
static bool
attempt_make(struct attempt *a, const struct subscription *s,
             const struct shared_message *body,
             const struct delivery_name *name, bool is_test)
{
    char id[DELIVERY_ID_SIZE], *token = NULL;
    size_t n = 0;

    a->text.max = HEADERS_MAX;
    buf_clear(&a->text);
    delivery_name_write(id, s, name);
    add_header(a, "Content-Type: ", body->type);
    add_links(a, s);
    add_header(a, "Tidings-Delivery: ", id);
    if (body->traceparent[0])
        add_header(a, "traceparent: ", body->traceparent);
    if (is_test)
        add_header(a, "Tidings-Test: 1", "");
    if (s->kind == SUBSCRIPTION_HUB) {
        add_header(a, "Idempotency-Key: ", id);
        /* Only a hub of the settings may get one: a callback is a
         * stranger's. */
        token = peer_tokens_header(s->hub->config->peer_tokens, s->callback);
    }
    if (token)
        add_header(a, token, "");
    token_header_free(token);
    if (!add_signatures(a, s, body, id) || a->text.failed)
        return false;
    for (const char *at = a->text.data, *end = at + a->text.size;
         at < end && n < ATTEMPT_HEADERS_MAX; at += strlen(at) + 1)
        a->headers[n++] = at; /* the text no longer moves */
    a->headers[n] = NULL;
    return true;
}

/* Sets the members of a call that all attempts of a subscription share. */
static void
attempt_begin_call(struct call *call, const struct subscription *s)
{
    call->method = CALL_POST;
    call->url = s->callback;
    call->timeout_us = s->hub->config->hub_timeout_us;
    call->max_answer = ATTEMPT_ANSWER_MAX;
    call->also = hub_also(s->hub, &s->terms);
    call->owner = s->key.holding.client;
    call->is_suspect = subscription_is_suspect(s);
}

/* The engine */

/*
 * A delivery: from when its subscription is due until its outcome. A
 * subscription has at most one. The list that holds `node` gives its state:
 *
 *   (none)    queued with the caller, or under way, or its reader waits for
 *             the body
 *   fixed     its range is written, and goes out when that is kept
 *   ended     done with
 *
 * The reader holds the body from when the delivery's turn has come.
 */
struct delivery {
    struct list node;
    struct subscription *s;
    struct call call;
    uint64_t upto; /* of the reader, when its turn came */
    struct attempt *attempt;
    int64_t span_begin_us; /* of the try; 0: it gets no span */
    bool is_going;
};

/* Releases everything that a delivery holds; the end of the turn frees it. */
static void
end_delivery(struct delivery *d)
{
    struct subscription *s = d->s;

    if (d->is_going)
        metrics_add(METRIC_HUB_IN_FLIGHT, -1);
    reader_release(&s->reader);
    if (d->attempt) {
        buf_clear_large(&d->attempt->text, SPARE_TEXT_MAX);
        list_prepend(&s->hub->deliveries.spare, &d->attempt->node);
    }
    d->attempt = NULL;
    list_put(&s->hub->deliveries.ended, &d->node);
    s->delivery = NULL;
}

/* At the end of a turn. The figure counts a body once, however many deliveries
 * hold it. */
static void
free_ended(struct hub *hub)
{
    struct delivery *d;

    metrics_set(METRIC_HUB_BODY_BYTES,
                (int64_t)hub->readers.messages.held_bytes);
    list_drain (d, &hub->deliveries.ended, node)
        free(d);
}

/* The cursor */

static void
forget_failures(struct subscription *s)
{
    s->failures = 0;
    s->failing_since_us = 0;
}

static void
move_cursor(struct subscription *s, uint64_t after)
{
    reader_move(&s->reader, after);
    list_put(&s->hub->moved, &s->moved);
    forget_failures(s);
}

/* Forgets a tried range if a renewal has changed its form: with another filter
 * the range would have other bytes. The next range has another ID. hub.db has
 * this with the new terms, or soon after. */
static void
check_form(struct subscription *s)
{
    if (s->reader.upto == 0 || s->range_form == attempt_form(s))
        return;
    s->reader.upto = 0;
    hub_rows_put_range(s->hub->db, s);
}

/* When it is due */

static void begin_delivery(struct subscription *s);

static void
on_alarm(struct alarm *alarm)
{
    begin_delivery(list_entry(alarm, struct subscription, retry_alarm));
}

static void
begin_at(struct subscription *s, int64_t at_us)
{
    s->retry_alarm.ring = on_alarm;
    caller_set_alarm(s->hub->caller, &s->retry_alarm, at_us);
}

/* reader_calls.look. A fixed range is delivered whatever the head is. */
static bool
look_at_topic(const struct reader *reader, struct channel *channel,
              uint64_t *head)
{
    const struct topic *topic = list_entry(reader->channel, struct topic, news);

    *channel = topic_channel(topic);
    if (!topic_head(topic, head)) { /* the hub is about to end it */
        /* The last event of a framework topic is known at its end. Until then
         * its readers rest, so that topic_end wakes them. */
        *head = reader_start(reader);
        return topic->kind == TOPIC_FRAMEWORK;
    }
    /* framework_look marks the topic for events behind `seen`; but no longer
     * when the set is gone. */
    if (topic->kind == TOPIC_FRAMEWORK && !topic->is_ending &&
        topic->hub->framework.seen < *head)
        *head = topic->hub->framework.seen;
    return true;
}

/* Decides the next step of a subscription that has no delivery. topic_listen
 * came before this look at the head, so a later commit finds the subscription
 * if it rests. */
static void
go_on(struct subscription *s)
{
    int64_t next_us = s->last_begun_us + s->terms.interval_us;
    enum reader_state state;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    list_remove(&s->busy);
    reader_release(&s->reader);
    state = reader_rest(&s->reader);
    if (state == READER_HEAD && s->topic->is_ending)
        hub_end_soon(s, END_REMOVED); /* it has the topic's last entry */
    if (state != READER_READY)
        return;
    list_append(&s->topic->busy, &s->busy);
    if (s->last_begun_us != 0 && s->reader.upto == 0 &&
        next_us > clock_steady_us())
        begin_at(s, next_us);
    else
        begin_delivery(s);
}

/* A delivery's turn has come */

/* Ends a delivery without a call, because of a failure of our own, and sets a
 * new try. */
static enum call_turn
leave_call_for(struct delivery *d, int64_t pause_us)
{
    begin_at(d->s, clock_steady_us() + pause_us);
    end_delivery(d);
    return CALL_NOT;
}

/* The body is held: makes the headers. */
static enum call_turn
make_attempt(struct delivery *d)
{
    struct subscription *s = d->s;
    const struct shared_message *body = s->reader.message;
    struct attempt *a =
        list_take(&s->hub->deliveries.spare, offsetof(struct attempt, node));
    const struct delivery_name name = {.after = body->wish.after,
                                       .last = body->last,
                                       .form = s->range_form,
                                       .generation = s->generation};

    if (!a)
        a = memory_new(1, sizeof(*a));
    d->attempt = a;
    if (!attempt_make(a, s, body, &name, false))
        return leave_call_for(d, PAUSE_US);
    if (spans_are_wanted(slice_of(body->traceparent)))
        d->span_begin_us = clock_now_us();
    d->call.headers = a->headers;
    d->call.body = shared_message_slice(body);
    d->is_going = true;
    metrics_add(METRIC_HUB_IN_FLIGHT, 1);
    if (s->failures == 0)
        s->last_begun_us = clock_steady_us();
    return CALL_READY;
}

/* Continues with what the reader has come to. */
static enum call_turn
take_body(struct delivery *d)
{
    struct subscription *s = d->s;
    uint64_t start, earliest;

    switch (s->reader.state) {
    case READER_READY:
        if (s->reader.upto == s->reader.message->last)
            return make_attempt(d); /* hub.db has the range */
        /* Fixes the range, once for all tries. */
        s->reader.upto = s->reader.message->last;
        s->range_form = attempt_form(s);
        hub_rows_put_range(s->hub->db, s);
        list_append(&s->hub->deliveries.fixed, &d->node);
        return CALL_LATER;
    case READER_LATER:
        return CALL_LATER;
    case READER_GONE:
        /* Moves the cursor to the earliest retained entry; the next message's
         * `after` shows the hole. Entries that the filter is known not to pass
         * do not count. */
        start = reader_start(&s->reader);
        earliest = topic_earliest(s->topic);
        if (earliest > start) {
            s->history.n_skipped += earliest - start;
            metrics_add(METRIC_HUB_SKIPPED, (int64_t)(earliest - start));
            DIAG(DIAG_WARNING, "hub",
                 "a subscription was behind the retained changes and continues "
                 "after the gap",
                 HUB_KEYS(s), diag_number("after", s->reader.after),
                 diag_number("to", earliest));
        }
        move_cursor(s, earliest > start ? earliest : start);
        break;
    case READER_HEAD:
        break;
    case READER_REMOVED: /* it ends soon */
    case READER_FAILED:
        if (d->upto != s->reader.upto)
            /* The log has changed: the next try has a range, and an ID, of its
             * own. */
            DIAG(DIAG_ERROR, "hub", "a delivery cannot be repeated as it was",
                 HUB_KEYS(s), diag_number("after", s->reader.after),
                 diag_number("last", d->upto));
        return leave_call_for(d, PAUSE_US);
    }
    end_delivery(d);
    go_on(s);
    return CALL_NOT;
}

static enum call_turn
on_call_turn(struct call *call)
{
    struct delivery *d = list_entry(call, struct delivery, call);

    /* The lease alarm ends the subscription (W-072): within an hour, if the
     * clock was set. */
    if (subscription_is_over(d->s))
        return leave_call_for(d, 60 * PAUSE_US);
    d->upto = d->s->reader.upto;
    if (reader_next(&d->s->reader) == READER_LATER)
        return CALL_LATER;
    return take_body(d);
}

/* Gives the caller the decision that on_call_turn postponed. */
static void
answer_caller(struct caller *caller, struct delivery *d, enum call_turn turn)
{
    if (turn != CALL_LATER)
        caller_go(caller, &d->call, turn == CALL_READY);
}

/* There is news for a subscription that rests, or the body that its delivery
 * waits for. */
static void
on_ready(struct reader *reader)
{
    struct subscription *s = list_entry(reader, struct subscription, reader);
    struct delivery *d = s->delivery;

    if (d)
        answer_caller(s->hub->caller, d, take_body(d));
    else
        go_on(s);
}

/* Outcomes */

/* After a failure: sets the next try, or gives up; and says so in the row. */
static void
end_badly(struct subscription *s, const struct call *call,
          struct attempt_row *row)
{
    const struct config *config = s->hub->config;
    int64_t now_us = clock_steady_us(), end_us, asked_us = 0;
    bool is_redirect = call->status >= 300 && call->status < 400;

    s->history.n_failed++;
    s->failures++;
    if (s->failing_since_us == 0)
        s->failing_since_us = now_us;
    s->history.last_failure_us = clock_now_us();
    s->history.last_status = call->status;
    if (call->failure == CALL_ANSWERED)
        snprintf(s->history.last_error, sizeof(s->history.last_error),
                 "%u %s%s", call->status, response_reason(call->status),
                 is_redirect ? ": not followed" : "");
    else
        snprintf(s->history.last_error, sizeof(s->history.last_error), "%s",
                 call->why);
    metrics_add(METRIC_HUB_FAILURES, 1);

    end_us = s->failing_since_us + config->hub_give_up_us;
    if (now_us >= end_us) {
        /* Gives up this range only, because the callback had its time (W-090).
         * Without a fixed range no call reached the callback, and nothing is
         * lost. */
        if (s->reader.upto == 0) {
            forget_failures(s);
        } else {
            row->outcome = ATTEMPT_SKIPPED;
            s->history.n_skipped += row->n_entries;
            metrics_add(METRIC_HUB_SKIPPED, (int64_t)row->n_entries);
            metrics_add(METRIC_HUB_GIVEN_UP, 1);
            DIAG(DIAG_WARNING, "hub", "a delivery was given up", HUB_KEYS(s),
                 diag_number("after", s->reader.after),
                 diag_number("last", s->reader.upto),
                 diag_text("error", s->history.last_error));
            move_cursor(s, s->reader.upto);
        }
        go_on(s);
        return;
    }
    check_form(s);
    /* The callback asks for a pause by Retry-After, with 429 and 503 only
     * (W-089). */
    if (call->failure == CALL_ANSWERED &&
        (call->status == 429 || call->status == 503))
        asked_us = call->retry_after_us;
    begin_at(s, backoff_next(now_us,
                             backoff_pause(&config->hub_retry, s->failures,
                                           random_u32()),
                             asked_us, end_us));
    row->next_us = clock_now_us() + s->retry_alarm.at_us - clock_steady_us();
}

static void
end_span(const struct delivery *d, const struct shared_message *body)
{
    struct span span = {.kind = SPAN_DELIVERY,
                        .first = body->wish.after + 1,
                        .last = body->last,
                        .begin_us = d->span_begin_us,
                        .end_us = clock_now_us(),
                        .status = d->call.status};

    memcpy(span.traceparent, body->traceparent, TRACEPARENT_SIZE);
    snprintf(span.set, sizeof(span.set), "%s", d->s->topic->set->name);
    spans_add(&span);
}

static void
on_done(struct call *call)
{
    struct delivery *d = list_entry(call, struct delivery, call);
    struct subscription *s = d->s;
    const struct shared_message *body = s->reader.message;
    bool is_answered = call->failure == CALL_ANSWERED;
    /* Any 2xx (W-085, R-297); 410 of a callback ends (W-086); all else fails,
     * redirects too (W-087). */
    bool is_delivered =
        is_answered && call->status >= 200 && call->status < 300;
    bool is_ended =
        is_answered && call->status == 410 && s->kind == SUBSCRIPTION_CALLBACK;
    struct attempt_row row = {
        .name = {s->reader.after, s->reader.upto, s->range_form, s->generation},
        .n_entries = body ? (uint32_t)body->n_entries : 0, /* a call may fail
                                                    before its turn comes */
        .tries = s->failures + 1,
        .outcome = is_delivered ? ATTEMPT_DELIVERED
                   : is_ended   ? ATTEMPT_ENDED
                                : ATTEMPT_FAILED,
    };

    if (d->span_begin_us)
        end_span(d, body);
    if (is_delivered) {
        /* Measures the time from the commit to the 2xx. Entries from before the
         * subscription say nothing about our speed, and are not measured. */
        int64_t age_us = clock_now_us() - s->created_us;
        int64_t took_us = clock_steady_us() - body->committed_us;

        if (s->failures == 0 && body->committed_us > 0 && took_us < age_us)
            metrics_observe_us(METRIC_HUB_LATENCY, took_us);
    }
    /* Asks for the cache lines of the row that this attempt overwrites: in a
     * crowd they are cold. */
    __builtin_prefetch(s->attempts.rows.next, 1);
    __builtin_prefetch(s->attempts.rows.prev, 1);
    end_delivery(d);
    if (call->failure == CALL_MEMORY) { /* our fault, not the callback's */
        begin_at(s, clock_steady_us() + PAUSE_US);
        return;
    }
    s->history.n_attempts++;
    call_history_add(&s->calls, !is_delivered && !is_ended, call->took_us,
                     call->timeout_us);
    metrics_add(METRIC_HUB_ATTEMPTS, 1);
    if (is_ended) {
        hub_end_soon(s, END_GONE);
    } else if (!is_delivered) {
        end_badly(s, call, &row);
    } else {
        s->history.n_deliveries++;
        s->history.last_success_us = clock_now_us();
        s->history.last_status = call->status;
        s->history.last_error[0] = '\0';
        metrics_add(METRIC_HUB_DELIVERIES, 1);
        move_cursor(s, s->reader.upto);
        go_on(s);
    }
    attempt_log_add(s, &row, call);
}

static void
begin_delivery(struct subscription *s)
{
    struct delivery *d = memory_new(1, sizeof(*d));

    list_init(&d->node);
    d->s = s;
    attempt_begin_call(&d->call, s);
    s->reader.is_suspect = d->call.is_suspect;
    d->call.prepare = on_call_turn;
    d->call.done = on_done;
    s->delivery = d;
    caller_start(s->hub->caller, &d->call);
}

/* Single deliveries */

struct single_delivery {
    struct subscription *s;
    struct command *command;
    struct reader reader;
    struct filter_class *filter; /* a reference: a renewal may bring another */
    struct attempt attempt;
    struct call call;
    struct attempt_row row; /* the last one: it ends in a text, of none here */
};

/* Answers the command, with the attempt if `rc` is STATUS_OK, and frees. */
static void
end_single(struct single_delivery *d, enum status rc)
{
    struct subscription *s = d->s;
    struct command *command = d->command;

    reader_release(&d->reader);
    filter_class_unref(d->filter);
    buf_fini(&d->attempt.text);
    s->single = NULL;
    free(d);
    if (!rc) {
        attempt_row_report(
            &command->text, s,
            list_entry(s->attempts.rows.prev, struct attempt_row, node));
        BUF_ADD(&command->text, "\n");
    }
    command->http = 200;
    command_answer_now(command, rc, NULL);
}

static void
on_single_done(struct call *call)
{
    struct single_delivery *d = list_entry(call, struct single_delivery, call);

    if (call->failure == CALL_MEMORY) {
        end_single(d, problem_memory(&d->command->why));
        return;
    }
    d->row.n_entries = (uint32_t)d->reader.message->n_entries;
    d->row.outcome = call->failure == CALL_ANSWERED && call->status / 100 == 2
                         ? ATTEMPT_DELIVERED
                         : ATTEMPT_FAILED;
    attempt_log_add(d->s, &d->row, call);
    end_single(d, STATUS_OK);
}

/* Its message is there. */
static void
send_single(struct single_delivery *d)
{
    struct subscription *s = d->s;
    const struct shared_message *body = d->reader.message;

    d->row.name = (struct delivery_name){.after = body->wish.after,
                                         .last = body->last,
                                         .form = attempt_form(s),
                                         .generation = s->generation,
                                         .single_us = clock_now_us()};
    if (!attempt_make(&d->attempt, s, body, &d->row.name,
                      d->row.kind == ATTEMPT_TEST)) {
        end_single(d, problem_memory(&d->command->why));
        return;
    }
    attempt_begin_call(&d->call, s);
    d->call.headers = d->attempt.headers;
    d->call.body = shared_message_slice(body);
    d->call.done = on_single_done;
    caller_start(s->hub->caller, &d->call);
}

#define NO_MESSAGE                                                     \
    "there is no such message any more: the subscription has another " \
    "filter, or the topic no document"

/* Why there is no message. */
static const struct single_end {
    enum status rc;
    const char *text;
} single_ends[] = {
    [READER_GONE] = {STATUS_GONE,
                     "the entries of that delivery are no longer retained"},
    [READER_REMOVED] = {STATUS_NOT_FOUND, "the topic is gone"},
    [READER_HEAD] = {STATUS_INVALID, NO_MESSAGE},
    [READER_FAILED] = {STATUS_INVALID, NO_MESSAGE},
};

/* Continues with what the reader has come to. */
static void
on_single_ready(struct reader *reader)
{
    struct single_delivery *d =
        list_entry(reader, struct single_delivery, reader);
    enum reader_state state = reader_next(reader);

    if (state == READER_READY)
        send_single(d);
    else if (state != READER_LATER)
        end_single(d, problem(&d->command->why, single_ends[state].rc, "%s",
                              single_ends[state].text));
}

/* Sets what the reader is to find. */
static enum status
choose_message(struct single_delivery *d, struct problem *why)
{
    const struct subscription *s = d->s;
    struct slice delivery = d->command->key;
    const struct attempt_row *row;
    uint64_t earliest, head;

    if (d->row.kind == ATTEMPT_AGAIN) {
        row = attempt_log_find(s, delivery);
        if (!row)
            return problem(why, STATUS_NOT_FOUND,
                           "the last attempts of subscription %" PRIu64
                           " have no delivery \"%s\"",
                           s->id, problem_quote(delivery).text);
        if (row->kind == ATTEMPT_TEST)
            return problem(why, STATUS_INVALID,
                           "that was a test: it has no entries to send again");
        d->reader.after = d->reader.reached = row->name.after;
        d->reader.upto = row->name.last;
        return STATUS_OK;
    }
    if (s->kind == SUBSCRIPTION_HUB)
        return problem(why, STATUS_INVALID,
                       "another hub would distribute a test to its own "
                       "subscribers");
    if (s->topic->kind == TOPIC_FOREIGN) {
        if (!topic_head(s->topic, &head) || head == 0)
            return problem(why, STATUS_INVALID,
                           "the relay has no document yet to test with");
        d->reader.after = d->reader.reached = head - 1;
        d->reader.upto = head;
        return STATUS_OK;
    }
    earliest = topic_earliest(s->topic);
    if (earliest > s->reader.after)
        d->reader.after = d->reader.reached = earliest;
    d->reader.wants_heartbeat = true;
    return STATUS_OK;
}

/* Their pace: one a second, after as many at once. */
#define SINGLES_PAUSE_US ((int64_t)1000000)
#define SINGLES_AT_ONCE  10

static enum status
keep_pace(struct subscription *s, struct problem *why)
{
    int64_t now_us = clock_steady_us();

    if (s->single)
        return problem(why, STATUS_LIMITED,
                       "a test or a repeat of this subscription is under way");
    if (s->singles_paid_us < now_us)
        s->singles_paid_us = now_us;
    if (s->singles_paid_us - now_us >= SINGLES_PAUSE_US * SINGLES_AT_ONCE)
        return problem(why, STATUS_LIMITED,
                       "a subscription gets one test or repeat a second");
    s->singles_paid_us += SINGLES_PAUSE_US;
    return STATUS_OK;
}

void
single_delivery_begin(struct subscription *s, struct command *command)
{
    enum status rc = keep_pace(s, &command->why);
    struct single_delivery *d;

    if (rc) {
        command_answer_now(command, rc, NULL);
        return;
    }
    d = s->single = memory_new(1, sizeof(*d));
    d->s = s;
    d->command = command;
    d->row.kind = command->kind == COMMAND_TEST ? ATTEMPT_TEST : ATTEMPT_AGAIN;
    d->row.tries = 1;
    d->filter = filter_class_ref(s->reader.filter);
    reader_init(&d->reader, &s->topic->news, s->reader.after, on_single_ready);
    d->reader.filter = d->filter;
    d->reader.form = s->reader.form;
    d->reader.client = s->reader.client;
    d->reader.is_suspect = subscription_is_suspect(s);
    rc = choose_message(d, &command->why);
    if (rc)
        end_single(d, rc);
    else
        on_single_ready(&d->reader);
}

void
single_delivery_cut(struct subscription *s)
{
    struct single_delivery *d = s->single;

    if (!d)
        return;
    caller_cancel(s->hub->caller, &d->call);
    end_single(d, problem(&d->command->why, STATUS_STOPPED,
                          "the subscription has ended, or the hub"));
}

/* For the hub */

void
delivery_begin(struct subscription *s)
{
    uint64_t head;

    list_init(&s->busy);
    s->reader.on_ready = on_ready;
    s->range_form = attempt_form(s);
    topic_listen(s->topic);
    if (topic_head(s->topic, &head) && s->reader.after > head) {
        DIAG(DIAG_WARNING, "hub", "a subscription is ahead of its log",
             HUB_KEYS(s), diag_number("after", s->reader.after),
             diag_number("last", head));
        move_cursor(s, head);
    }
    go_on(s);
}

void
delivery_cut(struct subscription *s)
{
    struct delivery *d = s->delivery;

    caller_clear_alarm(s->hub->caller, &s->retry_alarm);
    list_remove(&s->busy);
    forget_failures(s);
    s->last_begun_us = 0;
    if (!d) {
        reader_release(&s->reader);
        return;
    }
    caller_cancel(s->hub->caller, &d->call);
    end_delivery(d);
}

void
delivery_look(struct subscription *s)
{
    if (s->delivery)
        return;
    check_form(s);
    go_on(s);
}

void
deliveries_wake(struct hub *hub)
{
    struct watcher *watcher = &hub->readers.watcher;
    struct watched_log *watched;

    framework_look(hub);
    watcher_take(watcher);
    while ((watched = watcher_next(watcher))) {
        watched_clear(watched);
        watched_channel_wake(
            list_entry(watched, struct watched_channel, watched),
            DELIVERY_WAKES_AT_ONCE);
    }
}

void
deliveries_settle(struct hub *hub)
{
    if (!list_is_empty(&hub->deliveries.ended) &&
        !atomic_load(&hub->is_stopping))
        readers_go_on(&hub->readers);
    free_ended(hub);
}

void
deliveries_turn(struct hub *hub)
{
    struct delivery *d;

    list_drain (d, &hub->deliveries.fixed, node)
        answer_caller(hub->caller, d, make_attempt(d));
}

static void
do_job(struct shared_messages *messages, struct job *job)
{
    caller_work(list_entry(messages, struct hub, readers.messages)->caller,
                job);
}

static bool
is_stopping(struct shared_messages *messages)
{
    return atomic_load(
        &list_entry(messages, struct hub, readers.messages)->is_stopping);
}

static const struct reader_calls calls = {
    .shared =
        {
            .part = "hub",
            .make = topic_make,
            .work = do_job,
            .is_stopping = is_stopping,
        },
    .look = look_at_topic,
    .wants_newest = true,
};

static void
wake_hub(struct watcher *watcher)
{
    hub_wake(list_entry(watcher, struct hub, readers.watcher));
}

void
deliveries_open(struct hub *hub)
{
    hub->framework.log = hub->registry->framework->log;
    readers_init(&hub->readers, &calls, hub->registry->config->hub_body_bytes,
                 wake_hub);
    list_init(&hub->deliveries.fixed);
    list_init(&hub->deliveries.spare);
    list_init(&hub->deliveries.ended);
    attempt_logs_open(&hub->attempts);
}

void
deliveries_close(struct hub *hub)
{
    struct attempt *a;

    free_ended(hub);
    list_drain (a, &hub->deliveries.spare, node) {
        buf_fini(&a->text);
        free(a);
    }
    framework_close(hub);
    shared_messages_fini(&hub->readers.messages);
}

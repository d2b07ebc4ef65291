#include "broker/calls/span_export.h"

#include <pthread.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/token_file.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/base/spans.h"
#include "broker/calls/caller.h"
#include "proto/resourcesync/json.h"

#define LOOK_US    ((int64_t)1000000)
#define TIMEOUT_US ((int64_t)2000000)

/* Spans of one call, and room for these: some 700 bytes each. */
#define SPANS_AT_ONCE 512
#define BODY_MAX      ((size_t)2 << 20)

#define SPAN_ID_SIZE (PARENT_SIZE + 1)

#define AUTHORIZATION "Authorization: Bearer "

struct span_export {
    struct networks everywhere;
    struct caller *caller;
    char target[1100]; /* of the calls */
    char *authorization;
    const char *headers[3];

    /* The thread's. */
    struct call call;
    struct alarm alarm;
    struct span *spans; /* taken, and not sent yet */
    struct buf body;
    unsigned n; /* spans of the call */
    bool is_calling;
    bool has_failed; /* the last call, which was logged */

    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool is_ending, is_over; /* under the mutex */
};

/* Writing */

static void
add_attribute(struct buf *to, const char *key, const char *type,
              struct slice value)
{
    buf_add_format(to, "%s{\"key\":\"%s\",\"value\":{\"%s\":",
                   to->data[to->size - 1] == '[' ? "" : ",", key, type);
    json_text(to, value);
    BUF_ADD(to, "}}");
}

/* 64-bit numbers are texts (ProtoJSON). */
static void
add_number(struct buf *to, const char *key, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    add_attribute(to, key, "intValue", slice_of(text));
}

static void
add_span(struct buf *to, const struct span *span)
{
    bool is_post = span->kind == SPAN_POST;
    char id[SPAN_ID_SIZE];

    if (!random_hex(id, sizeof(id)))
        snprintf(id, sizeof(id), "%08" PRIx32 "%08" PRIx32, random_u32(),
                 random_u32());
    buf_add_format(
        to,
        "{\"traceId\":\"%.*s\",\"spanId\":\"%s\",\"parentSpanId\":\"%.*s\","
        "\"name\":\"%s\",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64
        "000\",\"endTimeUnixNano\":\"%" PRId64 "000\",\"attributes\":[",
        TRACE_SIZE, span->traceparent + TRACE_AT, id, PARENT_SIZE,
        span->traceparent + PARENT_AT, is_post ? "post" : "delivery",
        is_post ? 2 : 3, span->begin_us, span->end_us);
    add_attribute(to, "tidings.set", "stringValue", slice_of(span->set));
    add_number(to, "tidings.seq.first", span->first);
    add_number(to, "tidings.seq.last", span->last);
    add_attribute(to, "http.request.method", "stringValue", SLICE("POST"));
    if (span->status)
        add_number(to, "http.response.status_code", span->status);
    BUF_ADD(to, "]");
    if (span->status < 200 || span->status >= 300)
        BUF_ADD(to, ",\"status\":{\"code\":2}");
    BUF_ADD(to, "}");
}

/* Moves some spans into the body. */
static void
write_body(struct span_export *e)
{
    struct buf *to = &e->body;

    buf_clear(to);
    BUF_ADD(to, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    add_attribute(to, "service.name", "stringValue", SLICE("tidingsd"));
    add_attribute(to, "service.version", "stringValue", SLICE(TIDINGS_VERSION));
    BUF_ADD(to, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"tidings\"},"
                "\"spans\":[");
    for (e->n = 0; e->spans && e->n < SPANS_AT_ONCE; e->n++) {
        struct span *span = e->spans;

        if (e->n > 0)
            BUF_ADD(to, ",");
        add_span(to, span);
        e->spans = span->next;
        free(span);
    }
    BUF_ADD(to, "]}]}]}");
}

/* Calling */

static void go_on(struct span_export *e);

static void
on_done(struct call *call)
{
    struct span_export *e = list_entry(call, struct span_export, call);
    bool is_sent = call->failure == CALL_ANSWERED && call->status / 100 == 2;
    char status[32];

    snprintf(status, sizeof(status), "it answers %u", call->status);
    metrics_add(is_sent ? METRIC_SPANS_SENT : METRIC_SPANS_LOST, e->n);
    if (!is_sent && !e->has_failed)
        DIAG(DIAG_WARNING, "traces", "the collector does not take spans",
             diag_text("url", e->target),
             diag_text("error",
                       call->failure == CALL_ANSWERED ? status : call->why));
    if (is_sent && e->has_failed)
        DIAG(DIAG_INFO, "traces", "the collector takes spans again",
             diag_text("url", e->target));
    e->has_failed = !is_sent;
    e->is_calling = false;
    go_on(e);
}

/* Sends what there is; else looks again later, or has come to the end. */
static void
go_on(struct span_export *e)
{
    if (e->is_calling)
        return;
    if (!e->spans)
        e->spans = spans_take();
    if (e->spans) {
        write_body(e);
        e->call = (struct call){.method = CALL_POST,
                                .url = e->target,
                                .timeout_us = TIMEOUT_US,
                                .max_answer = 4096,
                                .headers = e->headers,
                                .body = buf_slice(&e->body),
                                .done = on_done};
        e->is_calling = true;
        caller_start(e->caller, &e->call);
        return;
    }
    pthread_mutex_lock(&e->mutex);
    e->is_over = e->is_ending;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->mutex);
    if (!e->is_over)
        caller_set_alarm(e->caller, &e->alarm, clock_steady_us() + LOOK_US);
}

static void
on_alarm(struct alarm *alarm)
{
    go_on(list_entry(alarm, struct span_export, alarm));
}

/* Begins, and ends. */
static void
on_wake(struct caller *caller, void *user)
{
    struct span_export *e = user;

    caller_clear_alarm(caller, &e->alarm);
    go_on(e);
}

/* Life */

static enum status
read_token(struct span_export *e, const char *path, struct problem *why)
{
    struct token *token = memory_new(1, sizeof(*token));
    size_t size = sizeof(AUTHORIZATION) + TOKEN_MAX;
    enum status rc = token_file_read(path, false, token, why);

    if (!rc) {
        e->authorization = memory_room(size);
        snprintf(e->authorization, size, AUTHORIZATION "%s", token->text);
        e->headers[1] = e->authorization;
    }
    OPENSSL_cleanse(token, sizeof(*token));
    free(token);
    return rc;
}

enum status
span_export_check(const char *url, const char *token, struct problem *why)
{
    struct span_export e = {.authorization = NULL};
    enum status rc = STATUS_OK;

    if (*token && !*url)
        return problem(why, STATUS_INVALID,
                       "--otlp-token without --otlp: no collector gets it");
    if (*token)
        rc = read_token(&e, token, why);
    free(e.authorization);
    return rc ? problem_prefix(why, rc, "--otlp-token: ") : rc;
}

enum status
span_export_open(struct span_export **export, const char *url,
                 const char *token, struct problem *why)
{
    struct span_export *e = memory_new(1, sizeof(*e));
    struct caller_options options = {.name = "traces",
                                     .allowed = &e->everywhere,
                                     .connections = 1,
                                     .host_connections = 1,
                                     .on_wake = on_wake,
                                     .user = e};
    enum status rc;

    *export = NULL;
    snprintf(e->target, sizeof(e->target), "%s/v1/traces", url);
    e->headers[0] = "Content-Type: application/json";
    e->alarm.ring = on_alarm;
    buf_init(&e->body, BODY_MAX);
    if (thread_init_changed(&e->ended)) {
        free(e);
        return problem_memory(why);
    }
    pthread_mutex_init(&e->mutex, NULL);
    rc = networks_read(SLICE("0.0.0.0/0,::/0"), &e->everywhere, why);
    if (!rc && *token)
        rc = read_token(e, token, why);
    if (!rc)
        rc = caller_open(&e->caller, &options, why);
    if (rc) {
        span_export_close(e);
        return rc;
    }
    atomic_store_explicit(&spans_are_open, true, memory_order_relaxed);
    caller_wake(e->caller);
    *export = e;
    return STATUS_OK;
}

void
span_export_close(struct span_export *e)
{
    struct timespec at;
    int64_t end_us = clock_steady_us() + TIMEOUT_US;
    struct span *span;

    if (!e)
        return;
    atomic_store_explicit(&spans_are_open, false, memory_order_relaxed);
    if (e->caller) {
        pthread_mutex_lock(&e->mutex);
        e->is_ending = true;
        caller_wake(e->caller);
        at = (struct timespec){end_us / 1000000, end_us % 1000000 * 1000};
        while (!e->is_over &&
               !pthread_cond_timedwait(&e->ended, &e->mutex, &at))
            ;
        pthread_mutex_unlock(&e->mutex);
    }
    caller_close(e->caller);
    if (!e->spans)
        e->spans = spans_take();
    while ((span = e->spans)) {
        e->spans = span->next;
        free(span);
    }
    if (e->authorization)
        OPENSSL_cleanse(e->authorization, strlen(e->authorization));
    free(e->authorization);
    buf_fini(&e->body);
    pthread_cond_destroy(&e->ended);
    pthread_mutex_destroy(&e->mutex);
    free(e);
}

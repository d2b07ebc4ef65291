#include "broker/calls/span_export.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/token_file.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/base/spans.h"
#include "broker/calls/blocking_call.h"
#include "proto/resourcesync/json.h"

#define LOOK_US    ((int64_t)1000000)
#define TIMEOUT_US ((int64_t)2000000)

/* Spans of one call, and room for these: some 700 bytes each. */
#define SPANS_AT_ONCE 512
#define BODY_MAX      ((size_t)2 << 20)

struct span_export {
    struct thread thread;
    struct blocking *calls;
    char target[1100]; /* of the calls */
    char *authorization;
    const char *headers[3];
    struct span *spans; /* taken, and not sent yet */
    struct buf body;
    bool has_failed;          /* the last call, which was logged */
    _Atomic(int64_t) over_us; /* steady: no call takes longer; relaxed */
};

/* Writing */

static void
add_attribute(struct buf *to, const char *key, const char *type,
              struct slice value)
{
    json_separate(to, ",");
    buf_add_format(to, "{\"key\":\"%s\",\"value\":{\"%s\":", key, type);
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

    buf_add_format(
        to,
        "{\"traceId\":\"%.*s\",\"spanId\":\"%08" PRIx32 "%08" PRIx32 "\","
        "\"parentSpanId\":\"%.*s\","
        "\"name\":\"%s\",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64
        "000\",\"endTimeUnixNano\":\"%" PRId64 "000\",\"attributes\":[",
        TRACE_SIZE, span->traceparent + TRACE_AT, random_u32(), random_u32(),
        PARENT_SIZE, span->traceparent + PARENT_AT,
        is_post ? "post" : "delivery", is_post ? 2 : 3, span->begin_us,
        span->end_us);
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

/* Moves some spans into the body; returns how many. */
static unsigned
write_body(struct span_export *e)
{
    struct buf *to = &e->body;
    unsigned n = 0;

    buf_clear(to);
    BUF_ADD(to, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    add_attribute(to, "service.name", "stringValue", SLICE("tidingsd"));
    add_attribute(to, "service.version", "stringValue", SLICE(TIDINGS_VERSION));
    BUF_ADD(to, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"tidings\"},"
                "\"spans\":[");
    for (; e->spans && n < SPANS_AT_ONCE; n++) {
        struct span *span = e->spans;

        json_separate(to, ",");
        add_span(to, span);
        e->spans = span->next;
        free(span);
    }
    BUF_ADD(to, "]}]}]}");
    return n;
}

/* Calling */

/* How many spans a collector has rejected that took others of them
 * (ExportTracePartialSuccess); 64-bit numbers may be texts. */
static uint64_t
read_rejected(const char *answer)
{
    static const char name[] = "\"rejectedSpans\"";
    const char *at = answer ? strstr(answer, name) : NULL;

    at = at ? at + strlen(name) : "";
    return strtoull(at + strspn(at, " \t\r\n:\""), NULL, 10);
}

static void
send_spans(struct span_export *e, int64_t left_us)
{
    unsigned n = write_body(e);
    const struct call wish = {.method = CALL_POST,
                              .url = e->target,
                              .timeout_us =
                                  left_us < TIMEOUT_US ? left_us : TIMEOUT_US,
                              .max_answer = 4096,
                              .headers = e->headers,
                              .body = buf_slice(&e->body)};
    struct buf answer = {.max = wish.max_answer + 1};
    const struct call *call = blocking_run(e->calls, &wish, &answer);
    char status[200];
    bool is_good = call->failure == CALL_ANSWERED && call->status / 100 == 2;
    uint64_t lost = n;
    bool is_sent;

    buf_add(&answer, "", 1);
    if (is_good && read_rejected(answer.data) < n)
        lost = read_rejected(answer.data);
    is_sent = lost == 0;
    snprintf(status, sizeof(status), "it answers %u %.150s", call->status,
             is_good ? answer.data : "");
    buf_fini(&answer);
    metrics_add(METRIC_SPANS_SENT, n - lost);
    metrics_add(METRIC_SPANS_LOST, lost);
    if (!is_sent && !e->has_failed)
        DIAG(DIAG_WARNING, "traces", "the collector does not take spans",
             diag_text("url", e->target),
             diag_text("error",
                       call->failure == CALL_ANSWERED ? status : call->why));
    if (is_sent && e->has_failed)
        DIAG(DIAG_INFO, "traces", "the collector takes spans again",
             diag_text("url", e->target));
    e->has_failed = !is_sent;
}

/* Ends after a last look. */
static void
run_export(struct thread *t)
{
    struct span_export *e = t->user;
    int64_t left_us;
    bool goes_on;

    do {
        goes_on = thread_wait(t, LOOK_US);
        e->spans = spans_take();
        while (e->spans &&
               (left_us = load_relaxed(&e->over_us) - clock_steady_us()) > 0)
            send_spans(e, left_us);
    } while (goes_on);
}

/* Life */

enum status
span_export_check(const char *url, const char *token, struct problem *why)
{
    char *header = NULL;
    enum status rc = STATUS_OK;

    if (*token && !*url)
        return problem(why, STATUS_INVALID,
                       "--otlp-token without --otlp: no collector gets it");
    if (*token)
        rc = token_header_read(&header, token, false, why);
    token_header_free(header);
    return rc ? problem_prefix(why, rc, "--otlp-token: ") : rc;
}

enum status
span_export_open(struct span_export **export, const char *url,
                 const char *token, struct problem *why)
{
    const struct blocking_options options = {.unix_socket = NULL};
    struct span_export *e = memory_new(1, sizeof(*e));
    enum status rc = STATUS_OK;

    *export = NULL;
    snprintf(e->target, sizeof(e->target), "%s/v1/traces", url);
    e->headers[0] = "Content-Type: application/json";
    e->over_us = INT64_MAX;
    e->body.max = BODY_MAX;
    if (*token)
        rc = token_header_read(&e->authorization, token, false, why);
    e->headers[1] = e->authorization;
    if (!rc)
        rc = blocking_open(&e->calls, &options, why);
    if (!rc)
        rc = thread_start(&e->thread, "traces", run_export, e, why);
    if (rc) {
        span_export_close(e);
        return rc;
    }
    store_relaxed(&spans_are_open, true);
    *export = e;
    return STATUS_OK;
}

void
span_export_close(struct span_export *e)
{
    struct span *span;

    if (!e)
        return;
    store_relaxed(&spans_are_open, false);
    store_relaxed(&e->over_us, clock_steady_us() + TIMEOUT_US);
    thread_stop(&e->thread);
    blocking_close(e->calls);
    while ((span = e->spans)) {
        e->spans = span->next;
        free(span);
    }
    token_header_free(e->authorization);
    buf_fini(&e->body);
    free(e);
}

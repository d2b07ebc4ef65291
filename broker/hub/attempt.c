#include "broker/hub/attempt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/token_file.h"
#include "broker/hub/hub_state.h"
#include "broker/sets/links.h"
#include "broker/sources/peer_tokens.h"
#include "proto/http/link_header.h"
#include "proto/http/response_head.h"
#include "proto/http/webhook_signature.h"
#include "proto/http/websub.h"
#include "proto/memory.h"
#include "proto/number.h"

/* All headers together: the longest ones hold two URLs and a third, or a token.
 */
#define HEADERS_MAX ((size_t)6 * WEBSUB_URL_MAX + TOKEN_MAX)

/* FNV-1a. No secret: it only distinguishes one form from another. */
static uint32_t
digest_of(struct slice text, uint32_t digest)
{
    for (size_t i = 0; i < text.size; i++)
        digest = (digest ^ (unsigned char)text.data[i]) * 16777619u;
    return digest;
}

uint32_t
attempt_form(const struct subscription *s)
{
    uint32_t digest = 2166136261u;

    if (!s->reader.filter && !s->terms.is_simple)
        return 0;
    if (s->reader.filter)
        digest = digest_of(filter_text(&s->reader.filter->filter), digest);
    if (s->terms.is_simple)
        digest = digest_of(SLICE("|plain"), digest);
    return digest ? digest : 1;
}

/* Writes the ID of the range (after, last] in the form s->range_form.
 * Terminated. */
static void
write_id(char to[DELIVERY_ID_SIZE], const struct subscription *s,
         uint64_t after, uint64_t last)
{
    const uint64_t numbers[] = {s->id, after, last};
    char *end = stpcpy(to, s->topic->epoch);

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        *end++ = '-';
        end += number_write(end, numbers[i]);
    }
    *end = '\0';
    if (s->range_form != 0)
        end += snprintf(end, DELIVERY_ID_SIZE - (size_t)(end - to),
                        "-%08" PRIx32, s->range_form);
    if (s->generation != 0)
        snprintf(end, DELIVERY_ID_SIZE - (size_t)(end - to), "-r%" PRIu32,
                 s->generation);
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

/* All links in one header line (W-083). */
static void
write_links(struct attempt *a, const struct subscription *s)
{
    struct buf links, url;

    buf_init(&links, HEADERS_MAX);
    buf_init(&url, HEADERS_MAX);
    if (s->kind == SUBSCRIPTION_HUB)
        buf_add_text(&url, s->callback);
    else
        topic_write_hub(&url, s->topic);
    weblink_add(&links, buf_slice(&url), "hub");
    buf_clear(&url);
    topic_write_url(&url, s->topic);
    weblink_add(&links, buf_slice(&url), "self");
    if (s->kind == SUBSCRIPTION_HUB && s->topic->set) {
        struct link_text list =
            link_to(registry_public_url(s->hub->registry), LINK_CAPABILITYLIST,
                    s->topic->set->name, NULL, 0);

        weblink_add(&links, link_slice(&list), "resourcesync");
    }
    BUF_ADD(&a->text, "Link: ");
    buf_add_slice(&a->text, buf_slice(&links));
    a->text.failed |= links.failed || url.failed;
    buf_fini(&links);
    buf_fini(&url);
}

/* Callbacks of a set's topic share one Link header, made once. A relay's hub
 * may change. */
static void
add_links(struct attempt *a, const struct subscription *s)
{
    struct topic *topic = s->topic;
    bool is_kept = s->kind == SUBSCRIPTION_CALLBACK && topic->set;
    size_t from = a->text.size;

    if (is_kept && topic->links)
        buf_add_text(&a->text, topic->links);
    else
        write_links(a, s);
    if (is_kept && !topic->links && !a->text.failed)
        topic->links =
            slice_dup((struct slice){a->text.data + from, a->text.size - from});
    end_header(a);
}

/* False: OpenSSL cannot sign it. */
static bool
add_signatures(struct attempt *a, const struct subscription *s,
               const struct shared_message *body, const char *id)
{
    int64_t now_s = clock_now_us() / 1000000;
    char signature[SIGNATURE_SIZE], webhook[WEBHOOK_SIGNATURE_SIZE];

    if (!s->signer)
        return true;
    if (signer_sign(s->signer, shared_message_slice(body), signature))
        return false;
    add_header(a, "X-Hub-Signature: ", signature);
    if (!signer_is_webhook(s->signer))
        return true;
    if (signer_sign_webhook(s->signer, slice_of(id), now_s,
                            shared_message_slice(body), webhook))
        return false;
    add_header(a, "webhook-id: ", id);
    buf_add_format(&a->text, "webhook-timestamp: %" PRId64, now_s);
    end_header(a);
    add_header(a, "webhook-signature: ", webhook);
    return true;
}

/* Only a hub of the settings may get one: a callback is a stranger's. */
static void
add_token(struct attempt *a, const struct subscription *s)
{
    char *header =
        s->kind == SUBSCRIPTION_HUB
            ? peer_tokens_header(s->hub->config->peer_tokens, s->callback)
            : NULL;

    if (header)
        add_header(a, header, "");
    peer_tokens_free(header);
}

/* Fills a->headers with pointers into the text, which no longer moves. */
static void
point_headers(struct attempt *a)
{
    const char *at = a->text.data, *end = at + a->text.size;
    size_t n = 0;

    while (at < end && n < ATTEMPT_HEADERS_MAX) {
        a->headers[n++] = at;
        at += strlen(at) + 1;
    }
    a->headers[n] = NULL;
}

struct attempt *
attempt_make(const struct subscription *s, const struct shared_message *body)
{
    struct attempt *a = memory_new(1, sizeof(*a));
    char id[DELIVERY_ID_SIZE];

    buf_init(&a->text, HEADERS_MAX);
    write_id(id, s, body->wish.after, body->last);
    add_header(a, "Content-Type: ", body->type);
    add_links(a, s);
    add_header(a, "Tidings-Delivery: ", id);
    if (s->kind == SUBSCRIPTION_HUB)
        add_header(a, "Idempotency-Key: ", id);
    add_token(a, s);
    if (!add_signatures(a, s, body, id) || a->text.failed) {
        attempt_free(a);
        return NULL;
    }
    point_headers(a);
    return a;
}

void
attempt_free(struct attempt *attempt)
{
    if (!attempt)
        return;
    buf_fini(&attempt->text);
    free(attempt);
}

/* Answers */

enum attempt_outcome
attempt_judge(const struct call *call, enum subscription_kind kind)
{
    if (call->failure != CALL_ANSWERED)
        return ATTEMPT_FAILED;
    if (call->status >= 200 && call->status < 300)
        return ATTEMPT_DELIVERED;
    if (call->status == 410 && kind == SUBSCRIPTION_CALLBACK)
        return ATTEMPT_ENDED;
    return ATTEMPT_FAILED;
}

int64_t
attempt_retry_after(const struct call *call)
{
    if (call->failure != CALL_ANSWERED ||
        (call->status != 429 && call->status != 503))
        return 0;
    return call->retry_after_us;
}

void
attempt_explain(const struct call *call, char *to, size_t size)
{
    bool is_redirect = call->status >= 300 && call->status < 400;

    if (call->failure == CALL_ANSWERED)
        snprintf(to, size, "%u %s%s", call->status,
                 response_reason(call->status),
                 is_redirect ? ": not followed" : "");
    else
        snprintf(to, size, "%s", call->why);
}

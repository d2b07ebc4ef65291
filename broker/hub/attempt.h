/*
 * attempt.h - one try of a delivery: its headers, and the meaning of the
 * answer.
 *
 *   to a callback                       to an external hub
 *   Content-Type: application/xml       Content-Type: application/xml
 *   Link: <hub>; rel="hub",             Link: <that hub>; rel="hub",
 *     <topic>; rel="self"  (one line)     <topic>; rel="self",
 *                                         <...>; rel="resourcesync"
 *   Tidings-Delivery: ID                Tidings-Delivery: ID
 *                                       Idempotency-Key: ID
 *   X-Hub-Signature: sha256=...         with a secret (W-100)
 *   webhook-id: ID                      with one that begins with whsec_
 *   webhook-timestamp: 1700000000       (W-106); the time of this try
 *   webhook-signature: v1,...
 *
 * Every try of a delivery has the same ID; different deliveries have different
 * IDs:
 *
 *   9f86d081884c7d65-17-4710-4723           epoch, subscription, after, last
 *   9f86d081884c7d65-17-4710-4723-5f3a09c1  and its form, where it is not the
 *                                           plain range: a filter, no links
 *   9f86d081884c7d65-17-4710-4723-r1        after one redelivery on request
 *
 * An ID contains no full stop: Standard Webhooks signs ID, timestamp and body
 * with full stops between them.
 */
#ifndef BROKER_HUB_ATTEMPT_H
#define BROKER_HUB_ATTEMPT_H

#include <stdint.h>

#include "broker/calls/caller.h"
#include "broker/hub/subscription.h"
#include "proto/buf.h"

#define DELIVERY_ID_SIZE 112

#define ATTEMPT_HEADERS_MAX 11

/* The broker reads and ignores so many bytes of an answer's body (W-085). */
#define ATTEMPT_ANSWER_MAX 4096

struct attempt {
    struct buf text;
    const char *headers[ATTEMPT_HEADERS_MAX + 1]; /* NULL at the end */
};

/* The form in which a subscription gets a range. 0: the whole range, unchanged;
 * else a digest of filter and links, to compare with an earlier form. */
uint32_t attempt_form(const struct subscription *s);

/* Makes the headers to send with the body. NULL: OpenSSL cannot sign it. */
struct attempt *attempt_make(const struct subscription *s,
                             const struct shared_message *body);
void attempt_free(struct attempt *attempt); /* NULL is allowed */

enum attempt_outcome {
    ATTEMPT_DELIVERED, /* any 2xx (W-085, R-297) */
    ATTEMPT_ENDED,     /* 410 of a callback (W-086) */
    ATTEMPT_FAILED     /* all else, redirects too (W-087) */
};

enum attempt_outcome attempt_judge(const struct call *call,
                                   enum subscription_kind kind);

/* The pause that the callback asks for by Retry-After, with 429 and 503 only
 * (W-089). 0: none. */
int64_t attempt_retry_after(const struct call *call);

/* "503 Service Unavailable", "the connection was refused"; terminated. */
void attempt_explain(const struct call *call, char *to, size_t size);

#endif

/*
 * fake_hub.h - a hub that does what the test says, one step after the other.
 *
 *     struct fake_hub hub;
 *     struct fake_request r;
 *
 *     fake_hub_open(&hub);
 *     ... a topic names hub.url, somebody subscribes ...
 *     fake_hub_take(&hub, &r);
 *     fake_hub_assert(&r, "hub.mode", "subscribe");
 *     assert_int_equal(fake_hub_verify(&hub, &r, NULL, 60), 200);
 *     fake_hub_answer(&r, 202, NULL, "");
 *     assert_int_equal(FAKE_HUB_DELIVER(&hub, &r, .body = "news"), 202);
 *     fake_hub_close(&hub);
 *
 * It listens on a port of its own of 127.0.0.1, and has no threads: all of it
 * happens when the test says so, also between a request and its answer.
 */
#ifndef TESTS_SUPPORT_FAKE_HUB_H
#define TESTS_SUPPORT_FAKE_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/urlencoded.h"
#include "tests/support/http.h"
#include "tests/test.h"

struct fake_hub {
    int listener;
    char url[64];     /* "http://127.0.0.1:40123/hub" */
    struct http http; /* its requests at callbacks, and their answers */
};

/* A request of a subscriber; its parameters stay until it is forgotten. */
struct fake_request {
    int fd; /* -1: answered */
    char head[8192];
    struct urlencoded_data form;
};

void fake_hub_open(struct fake_hub *hub);
void fake_hub_close(struct fake_hub *hub);

/* Waits for the next request and reads it; the request waits for
 * fake_hub_answer. Fails the test if it is no form POST. */
void fake_hub_take(struct fake_hub *hub, struct fake_request *request);

/* Is there no request waiting? */
bool fake_hub_is_idle(struct fake_hub *hub);

/* `headers`: more lines, each with its CRLF; NULL: none. */
void fake_hub_answer(struct fake_request *request, unsigned status,
                     const char *headers, const char *body);
void fake_hub_forget(struct fake_request *request);

/* A parameter, terminated; "" if it is not there. Lent. */
const char *fake_hub_value(const struct fake_request *request,
                           const char *name);
void fake_hub_assert(const struct fake_request *request, const char *name,
                     const char *value);

/* GET at the callback that the request names. */

/* Verification of the request, as it should be; `topic` NULL: its own. The
 * status; after 200 the answer's body is the challenge, or the test fails. */
long fake_hub_verify(struct fake_hub *hub, const struct fake_request *request,
                     const char *topic, uint64_t lease_s);
long fake_hub_deny(struct fake_hub *hub, const struct fake_request *request,
                   const char *reason);

/* Any query; the status. */
long fake_hub_query(struct fake_hub *hub, const struct fake_request *request,
                    const char *query);

/* POST there. Signed with the request's secret, if it has one, unless the
 * options differ; in the way of Standard Webhooks, too, if there is an id. */
struct fake_delivery {
    const char *body;
    const char *type;              /* NULL: "text/plain" */
    const char *id;                /* webhook-id; NULL: none */
    const char *method;            /* of the signature; NULL: sha256 */
    const char *signature;         /* X-Hub-Signature as it is; "": none */
    const char *webhook_signature; /* as it is; NULL: the right one */
    int64_t late_s;                /* the timestamp is so old */
    bool has_other_links;          /* Link headers of another topic (W-084) */
};

#define FAKE_HUB_DELIVER(hub, request, ...) \
    fake_hub_deliver((hub), (request),      \
                     &(const struct fake_delivery){__VA_ARGS__})

long fake_hub_deliver(struct fake_hub *hub, const struct fake_request *request,
                      const struct fake_delivery *delivery);

#endif

/*
 * routes.h - method + path -> handler: one row each, in routes.c.
 */
#ifndef BROKER_HTTP_ROUTES_H
#define BROKER_HTTP_ROUTES_H

#include "broker/http/http.h"
#include "broker/net/request.h"
#include "proto/slice.h"

/* What stands in a path where its row has holes: "{name}", then "{id}"; empty
 * where it has none. Without "/". */
struct holes {
    struct slice name; /* of a set or a relay, or what is none */
    struct slice id;
};

/* The holes are lent until the answer. */
typedef void handler_fn(struct http *http, struct request *rq,
                        const struct holes *holes);

handler_fn handle_changes_post;
handler_fn handle_consignment_post; /* of handle_changes_post's */
handler_fn handle_memory_get;
handler_fn handle_documents_get;
handler_fn handle_resources_put;
handler_fn handle_rotate_post;
handler_fn handle_resourcelist_post;
handler_fn handle_resourcedump_post;
handler_fn handle_stream_get;
handler_fn handle_health_get;
handler_fn handle_metrics_get;
handler_fn handle_ready_get;
handler_fn handle_sets_get;
handler_fn handle_set_get;
handler_fn handle_set_put;
handler_fn handle_set_patch;
handler_fn handle_set_delete;
handler_fn handle_hub_post;
handler_fn handle_subscribe_post;
handler_fn handle_subscriptions_get;
handler_fn handle_subscription_get;
handler_fn handle_subscription_delete;
handler_fn handle_redeliver_post;
handler_fn handle_bridges_get;
handler_fn handle_relays_get;
handler_fn handle_relay_get;
handler_fn handle_relay_put;
handler_fn handle_relay_delete;

/* What a path and a method come to. */
struct route_found {
    handler_fn *handler; /* NULL: no such path, or not with this method */
    struct holes holes;
    char allow[64]; /* "" if the path does not exist, else its methods */
};

void routes_find(enum method method, struct slice path,
                 struct route_found *found);

/* The set that a handler was called for, with its head; answers 404, or 410 if
 * it was removed, and returns NULL if it does not exist. */
struct set *routes_set(struct http *http, struct request *rq, struct slice name,
                       struct head *head);

/* The Content-Type without its parameters; empty: there is none. During
 * on_request. */
struct slice routes_media_type(struct request *rq);

/* May anybody publish to the hub, and register relays? As long as there are no
 * tokens: of an open broker only (W-124). What else is answered 403, with
 * `why`. */
MUST_CHECK enum status routes_may_publish(const struct http *http,
                                          struct problem *why);

/* Bytes of a body in which nothing is asked for. */
#define ROUTES_NOTHING_MAX 1024

/* The set of a request that says all in its path; answers what routes_set does,
 * or refuses a body that is more than an empty form with `why_not`, and returns
 * NULL. */
struct set *routes_set_of_nothing(struct http *http, struct request *rq,
                                  struct slice name, const char *why_not);

/* Receives such a request: `handlers` have the set as the request's user, and
 * these two beside their on_end. */
void routes_receive_nothing(struct http *http, struct request *rq,
                            struct slice name,
                            const struct request_handlers *handlers,
                            const char *why_not);
void routes_ignore_data(struct request *rq, struct slice bytes);
void routes_ignore_gone(struct request *rq);

/* Answers a failure: the HTTP status that goes with it, and for STATUS_GONE the
 * members that tell where to go on. `set` and `head` may be NULL. */
void routes_answer_failure(struct request *rq, enum status rc,
                           const struct problem *why, const struct set *set,
                           const struct head *head);

#endif

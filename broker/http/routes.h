/*
 * routes.h - method + path -> handler: one row each, in routes.c.
 */
#ifndef BROKER_HTTP_ROUTES_H
#define BROKER_HTTP_ROUTES_H

#include "broker/http/http.h"
#include "broker/net/request.h"
#include "proto/slice.h"

/* `set` is what stands in the path for "{set}", or empty. */
typedef void handler_fn(struct http *http, struct request *rq,
                        struct slice set);

handler_fn handle_changes_post;
handler_fn handle_memory_get;
handler_fn handle_documents_get;
handler_fn handle_rotate_post;
handler_fn handle_stream_get;
handler_fn handle_health_get;
handler_fn handle_metrics_get;
handler_fn handle_ready_get;
handler_fn handle_sets_get;
handler_fn handle_set_get;
handler_fn handle_set_put;
handler_fn handle_set_delete;

/* What a path and a method come to. */
struct route_found {
    handler_fn *handler; /* NULL: no such path, or not with this method */
    struct slice set;
    char allow[64]; /* "" if the path does not exist, else its methods */
};

void routes_find(enum method method, struct slice path,
                 struct route_found *found);

/* The set that a handler was called for, with its head; answers 404, or 410 if
 * it was removed, and returns NULL if it does not exist. */
struct set *routes_set(struct http *http, struct request *rq, struct slice name,
                       struct head *head);

/* Receives a request to a set that says all in its path: `handlers` have the
 * set as the request's user, and these two beside their on_end. A body that is
 * more than an empty form is refused with `why_not`. */
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

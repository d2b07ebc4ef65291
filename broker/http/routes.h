/*
 * routes.h - finds the handler of a request.
 *
 * The rows are in route_table.c. The router checks the request against its row
 * before it calls the handler.
 */
#pragma once

#include "broker/http/http.h"
#include "broker/net/request.h"

/* A post with fields that begin so is a CloudEvent in binary mode; those that
 * CloudEvents names. */
#define EVENT_PREFIX "ce-"
#define EVENT_FIELDS \
    "ce-specversion, ce-id, ce-source, ce-type, ce-subject, ce-time"

/* The arguments of a handler. All slices are lent until the answer. */
struct route_call {
    struct http *http;
    struct request *rq;
    struct slice name; /* of {set} or {relay} in the path; empty: none */
    struct slice id;   /* of {id} */
    struct set *set;   /* of OF_SET, with its head; else NULL */
    struct head head;
    uint64_t body_max; /* bytes, for request_receive */
    int act;           /* of a handler of several routes: enum act_kind,
                          command_kind, generation_kind, report or token_act */
    struct principal
        *principal;      /* of the request; lent until the handler returns */
    struct problem *why; /* of a failure that is returned */
};

/* Answers the request, now or later; or returns a failure, which the router
 * answers and counts. */
typedef enum status handler_fn(const struct route_call *call);

handler_fn handle_changes_post, handle_multipart_post, handle_memory_get,
    handle_documents_get, handle_resources_put, handle_rotate_post,
    handle_build_post, handle_stream_get, handle_many_get, handle_many_post,
    handle_health_get, handle_ready_get, handle_report_get, handle_set_rate_get,
    handle_sets_get, handle_set_get, handle_set_change, handle_harvest_get,
    handle_hub_form, handle_hub_notification, handle_hub_keys, handle_command,
    handle_session_delete, handle_session_post, handle_tickets_post,
    handle_backup_get, handle_backup_post, handle_token, handle_token_self,
    handle_oai, handle_reconcile;

/* What handle_report_get answers with. */
enum report {
    REPORT_STATUS,
    REPORT_CONFIG,
    REPORT_METRICS,
    REPORT_BRIDGES,
    REPORT_CLUSTER
};

/* The result of looking up a path and a method. */
struct route_found {
    const struct route *route; /* NULL: no such path, or not with this method */
    const char *pattern;       /* "/sets/{set}", of the route or the document;
                                  NULL: no such path */
    unsigned rights;           /* those of the route, or of the document */
    struct slice name, id;     /* of struct route_call */
    char allow[64]; /* "" if the path does not exist, else its methods */
    const struct route *patch; /* the route of PATCH, if there is one */
};

void routes_find(enum method method, struct slice path,
                 struct route_found *found);

/* Refuses the request by its row, or calls the handler. `principal` is lent. */
void routes_run(struct http *http, struct request *rq,
                const struct route_found *found, struct principal *principal);

/* Answers OPTIONS: 204, with the methods of the path. */
void routes_answer_options(struct http *http, struct request *rq,
                           const struct route_found *found);

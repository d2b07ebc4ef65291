/*
 * handle_relays.c - relay topics: made, shown, listed, removed.
 *
 *     PUT /relays/feed   {"topic":"https://source.org/feed","hub":"..."}
 */
#include <string.h>

#include "broker/http/hub_request.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/sets/registry.h"

/* NULL: the request was answered. */
static struct hub_request *
ask_hub(struct http *http, struct request *rq,
        const struct route_target *target, enum command_kind kind)
{
    struct hub_request *a = hub_request_new(http, rq, kind, 0);

    if (!a)
        return NULL;
    memcpy(a->command->name, target->name.data, target->name.size);
    a->command->is_relay = true;
    return a;
}

void
handle_relays_get(struct http *http, struct request *rq,
                  const struct route_target *target)
{
    struct hub_request *a = hub_request_new(http, rq, COMMAND_RELAY_LIST, 0);

    if (a)
        hub_request_receive(rq, a, target->body_max);
}

void
handle_relay_get(struct http *http, struct request *rq,
                 const struct route_target *target)
{
    struct hub_request *a = ask_hub(http, rq, target, COMMAND_RELAY_SHOW);

    if (a)
        hub_request_receive(rq, a, target->body_max);
}

static void
take_terms(struct request *rq, struct hub_request *a)
{
    hub_request_take_body(a);
    hub_request_submit(rq, a);
}

void
handle_relay_put(struct http *http, struct request *rq,
                 const struct route_target *target)
{
    struct hub_request *a = ask_hub(http, rq, target, COMMAND_RELAY_PUT);

    if (!a)
        return;
    a->whole = take_terms;
    hub_request_receive(rq, a, target->body_max);
}

void
handle_relay_delete(struct http *http, struct request *rq,
                    const struct route_target *target)
{
    struct hub_request *a = ask_hub(http, rq, target, COMMAND_RELAY_REMOVE);

    if (a)
        hub_request_receive(rq, a, target->body_max);
}

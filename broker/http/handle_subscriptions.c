/*
 * handle_subscriptions.c - the subscriptions of a set or a relay, for
 * operators: lists, shows, ends and redelivers.
 *
 *     GET    /sets/demo/subscriptions?after=17
 *     GET    /sets/demo/subscriptions?callback=https://host/path
 *     GET    /sets/demo/subscriptions/18
 *     DELETE /sets/demo/subscriptions/18
 *     POST   /sets/demo/subscriptions/18/redeliver?after=POSITION
 */
#include <string.h>

#include "broker/http/hub_request.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/sets/registry.h"

/* Reads decimal digits; false: no id of a subscription. */
static bool
read_id(struct slice text, uint64_t *id)
{
    *id = 0;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9' ||
            __builtin_mul_overflow(*id, 10, id) ||
            __builtin_add_overflow(*id, (uint64_t)(text.data[i] - '0'), id))
            return false;
    return text.size > 0;
}

/* Makes a command about the set or relay of the path; NULL: the request was
 * answered. */
static struct hub_request *
ask_hub(struct http *http, struct request *rq,
        const struct route_target *target, enum command_kind kind, size_t max)
{
    struct hub_request *a = hub_request_new(http, rq, kind, max);
    struct problem why = {""};

    if (!a)
        return NULL;
    memcpy(a->command->name, target->name.data, target->name.size);
    a->command->is_relay = !target->set;
    if (target->id.size > 0 && !read_id(target->id, &a->command->id)) {
        problem_set(&why, "there is no subscription \"%s\"",
                    problem_quote(target->id).text);
        hub_request_refuse(rq, a, STATUS_NOT_FOUND, &why);
        return NULL;
    }
    return a;
}

void
handle_subscriptions_get(struct http *http, struct request *rq,
                         const struct route_target *target)
{
    struct hub_request *a =
        ask_hub(http, rq, target, COMMAND_LIST, request_query(rq).size);
    struct problem why = {""};
    struct slice after, callback;
    bool is_bad;

    if (!a)
        return;
    if (request_parameter(rq, "after", &after, &is_bad) &&
        (is_bad || !read_id(after, &a->command->id))) {
        problem_set(&why, "after: \"%s\" is not the number of a subscription",
                    problem_quote(after).text);
        hub_request_refuse(rq, a, STATUS_MALFORMED, &why);
        return;
    }
    if (request_parameter(rq, "callback", &callback, &is_bad)) {
        if (is_bad)
            callback.size = 0;
        if (websub_check_url(callback, "callback", &why)) {
            hub_request_refuse(rq, a, STATUS_MALFORMED, &why);
            return;
        }
        a->command->request.callback = command_keep(a->command, callback);
    }
    hub_request_receive(rq, a, target->body_max);
}

void
handle_subscription_get(struct http *http, struct request *rq,
                        const struct route_target *target)
{
    struct hub_request *a = ask_hub(http, rq, target, COMMAND_SHOW, 0);

    if (a)
        hub_request_receive(rq, a, target->body_max);
}

void
handle_subscription_delete(struct http *http, struct request *rq,
                           const struct route_target *target)
{
    struct hub_request *a = ask_hub(http, rq, target, COMMAND_END, 0);

    if (a)
        hub_request_receive(rq, a, target->body_max);
}

void
handle_redeliver_post(struct http *http, struct request *rq,
                      const struct route_target *target)
{
    struct hub_request *a =
        ask_hub(http, rq, target, COMMAND_REDELIVER, request_query(rq).size);
    struct problem why = {""};
    struct slice after;
    bool is_bad;

    if (!a)
        return;
    if (!request_parameter(rq, "after", &after, &is_bad) || is_bad ||
        after.size == 0) {
        problem_set(&why, "after is missing: ?after=POSITION says where to "
                          "begin again");
        hub_request_refuse(rq, a, STATUS_MALFORMED, &why);
        return;
    }
    a->command->after = command_keep(a->command, after);
    a->command->has_after = true;
    hub_request_receive(rq, a, target->body_max);
}

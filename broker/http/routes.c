#include "broker/http/routes.h"

#include <stdio.h>
#include <string.h>

#include "broker/documents/documents.h"
#include "broker/net/response.h"
#include "broker/sets/positions.h"

/* HEAD is allowed where GET is. Documents have rows of their own, in
 * documents.c: what is not here is looked for there. */
static const struct route {
    enum method method;
    const char *path;
    handler_fn *handler;
} routes[] = {
    {METHOD_GET, "/bridges", handle_bridges_get},
    {METHOD_GET, "/healthz", handle_health_get},
    {METHOD_GET, "/metrics", handle_metrics_get},
    {METHOD_GET, "/readyz", handle_ready_get},
    {METHOD_GET, "/sets/{name}/changes", handle_memory_get},
    {METHOD_POST, "/sets/{name}/changes", handle_changes_post},
    {METHOD_PUT, "/sets/{name}/resources", handle_resources_put},
    {METHOD_POST, "/sets/{name}/rotate", handle_rotate_post},
    {METHOD_POST, "/sets/{name}/resourcelist", handle_resourcelist_post},
    {METHOD_POST, "/sets/{name}/resourcedump", handle_resourcedump_post},
    {METHOD_GET, "/sets/{name}/stream", handle_stream_get},
    {METHOD_GET, "/sets", handle_sets_get},
    {METHOD_GET, "/sets/{name}", handle_set_get},
    {METHOD_PUT, "/sets/{name}", handle_set_put},
    {METHOD_PATCH, "/sets/{name}", handle_set_patch},
    {METHOD_DELETE, "/sets/{name}", handle_set_delete},

    {METHOD_POST, "/hub", handle_hub_post},
    {METHOD_POST, "/sets/{name}/subscribe", handle_subscribe_post},
    {METHOD_GET, "/sets/{name}/subscriptions", handle_subscriptions_get},
    {METHOD_GET, "/sets/{name}/subscriptions/{id}", handle_subscription_get},
    {METHOD_DELETE, "/sets/{name}/subscriptions/{id}",
     handle_subscription_delete},
    {METHOD_POST, "/sets/{name}/subscriptions/{id}/redeliver",
     handle_redeliver_post},
    {METHOD_GET, "/relays", handle_relays_get},
    {METHOD_GET, "/relays/{name}", handle_relay_get},
    {METHOD_PUT, "/relays/{name}", handle_relay_put},
    {METHOD_DELETE, "/relays/{name}", handle_relay_delete},
    {METHOD_GET, "/relays/{name}/subscriptions", handle_subscriptions_get},
    {METHOD_GET, "/relays/{name}/subscriptions/{id}", handle_subscription_get},
    {METHOD_DELETE, "/relays/{name}/subscriptions/{id}",
     handle_subscription_delete},
    {METHOD_POST, "/relays/{name}/subscriptions/{id}/redeliver",
     handle_redeliver_post},
};

static const char *const method_names[] = {
    [METHOD_GET] = "GET, HEAD", [METHOD_HEAD] = "HEAD",
    [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",
    [METHOD_DELETE] = "DELETE", [METHOD_OPTIONS] = "OPTIONS",
    [METHOD_PATCH] = "PATCH",
};

/* Does `path` have the form of `pattern`? A hole is a whole segment, and not an
 * empty one. */
static bool
matches(const char *pattern, struct slice path, struct holes *holes)
{
    *holes = (struct holes){{NULL, 0}, {NULL, 0}};
    for (; *pattern; pattern++) {
        struct slice rest = path;
        size_t size = 1;

        if (*pattern == '{') {
            struct slice *hole = pattern[1] == 'n' ? &holes->name : &holes->id;

            *hole = slice_take(&rest, '/');
            size = hole->size;
            if (size == 0)
                return false;
            pattern += strcspn(pattern, "}");
        } else if (path.size == 0 || *path.data != *pattern) {
            return false;
        }
        path.data += size;
        path.size -= size;
    }
    return path.size == 0;
}

static void
allow(struct route_found *found, enum method method)
{
    if (found->allow[0])
        strcat(found->allow, ", ");
    strcat(found->allow, method_names[method]);
}

void
routes_find(enum method method, struct slice path, struct route_found *found)
{
    enum method wanted = method == METHOD_HEAD ? METHOD_GET : method;
    struct document_found document;
    struct holes holes;

    memset(found, 0, sizeof(*found));
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!matches(routes[i].path, path, &holes))
            continue;
        allow(found, routes[i].method);
        if (routes[i].method == wanted) {
            found->handler = routes[i].handler;
            found->holes = holes;
        }
    }
    if (found->allow[0] || documents_find(path, &document))
        return;
    allow(found, METHOD_GET);
    if (wanted == METHOD_GET) {
        found->handler = handle_documents_get;
        found->holes.name = document.set;
    }
}

struct set *
routes_set(struct http *http, struct request *rq, struct slice name,
           struct head *head)
{
    bool was_removed;
    struct set *set = registry_look(http->registry, name, head, &was_removed);
    struct problem why = {""};

    if (set)
        return set;
    if (was_removed) {
        problem_set(&why, "the set \"%s\" was removed",
                    problem_quote(name).text);
        request_answer_problem(rq, 410, &why, NULL, NULL);
    } else {
        problem_set(&why, "there is no set \"%s\"", problem_quote(name).text);
        request_answer_problem(rq, 404, &why, NULL, NULL);
    }
    return NULL;
}

struct slice
routes_media_type(struct request *rq)
{
    struct slice type = {NULL, 0};

    request_header(rq, "content-type", &type);
    return slice_trimmed(slice_take(&type, ';'));
}

enum status
routes_may_publish(const struct http *http, struct problem *why)
{
    if (http->is_open)
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "publishing to the hub, relays, and sets with an "
                   "upstreamTopic or hubs are for a broker that only its own "
                   "machine can reach; this one was started with "
                   "--insecure-open");
}

void
routes_ignore_data(struct request *rq, struct slice bytes)
{
    (void)rq;
    (void)bytes; /* nothing is asked for in it */
}

void
routes_ignore_gone(struct request *rq)
{
    (void)rq; /* the ticket tells the log's answer */
}

struct set *
routes_set_of_nothing(struct http *http, struct request *rq, struct slice name,
                      const char *why_not)
{
    struct set *set = routes_set(http, rq, name, NULL);
    struct problem why = {""};

    if (!set || request_content_length(rq) <= ROUTES_NOTHING_MAX)
        return set;
    problem_set(&why, "%s", why_not);
    routes_answer_failure(rq, STATUS_TOO_LARGE, &why, NULL, NULL);
    return NULL;
}

void
routes_receive_nothing(struct http *http, struct request *rq, struct slice name,
                       const struct request_handlers *handlers,
                       const char *why_not)
{
    struct set *set = routes_set_of_nothing(http, rq, name, why_not);

    if (!set)
        return;
    request_set_user(rq, set);
    request_receive(rq, handlers, ROUTES_NOTHING_MAX);
}

void
routes_answer_failure(struct request *rq, enum status rc,
                      const struct problem *why, const struct set *set,
                      const struct head *head)
{
    struct buf members;

    buf_init(&members, 4096);
    if (rc == STATUS_GONE && set && head)
        positions_members(set, head, &members);
    request_answer_problem(rq, response_status_of(rc), why, NULL,
                           members.size && !members.failed ? members.data
                                                           : NULL);
    buf_fini(&members);
}

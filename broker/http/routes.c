#include "broker/http/routes.h"

#include <stdio.h>
#include <string.h>

#include "broker/documents/documents.h"
#include "broker/net/response.h"
#include "broker/sets/positions.h"

/* Bytes of a body in which nothing is asked for. */
#define NOTHING_MAX 1024

/* HEAD is allowed where GET is. Documents have rows of their own, in
 * documents.c: what is not here is looked for there. */
static const struct route {
    enum method method;
    const char *path;
    handler_fn *handler;
} routes[] = {
    {METHOD_GET, "/healthz", handle_health_get},
    {METHOD_GET, "/metrics", handle_metrics_get},
    {METHOD_GET, "/readyz", handle_ready_get},
    {METHOD_GET, "/sets/{set}/changes", handle_memory_get},
    {METHOD_POST, "/sets/{set}/changes", handle_changes_post},
    {METHOD_POST, "/sets/{set}/rotate", handle_rotate_post},
    {METHOD_GET, "/sets/{set}/stream", handle_stream_get},
    {METHOD_GET, "/sets", handle_sets_get},
    {METHOD_GET, "/sets/{set}", handle_set_get},
    {METHOD_PUT, "/sets/{set}", handle_set_put},
    {METHOD_DELETE, "/sets/{set}", handle_set_delete},
};

static const char *const method_names[] = {
    [METHOD_GET] = "GET, HEAD", [METHOD_HEAD] = "HEAD",
    [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",
    [METHOD_DELETE] = "DELETE", [METHOD_OPTIONS] = "OPTIONS",
    [METHOD_OTHER] = "",
};

/* Does `path` have the form of `pattern`? *set is what stands for "{set}". */
static bool
matches(const char *pattern, struct slice path, struct slice *set)
{
    const char *hole = strchr(pattern, '{');
    const char *rest = hole ? hole + strlen("{set}") : NULL;
    size_t before = hole ? (size_t)(hole - pattern) : strlen(pattern);

    *set = (struct slice){NULL, 0};
    if (!hole)
        return slice_is(path, pattern);
    if (path.size <= before + strlen(rest) ||
        memcmp(path.data, pattern, before) ||
        memcmp(path.data + path.size - strlen(rest), rest, strlen(rest)))
        return false;
    set->data = path.data + before;
    set->size = path.size - before - strlen(rest);
    return !memchr(set->data, '/', set->size);
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
    struct slice set;

    memset(found, 0, sizeof(*found));
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!matches(routes[i].path, path, &set))
            continue;
        allow(found, routes[i].method);
        if (routes[i].method == wanted) {
            found->handler = routes[i].handler;
            found->set = set;
        }
    }
    if (found->allow[0] || documents_find(path, &document))
        return;
    allow(found, METHOD_GET);
    if (wanted == METHOD_GET) {
        found->handler = handle_documents_get;
        found->set = document.set;
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

void
routes_receive_nothing(struct http *http, struct request *rq, struct slice name,
                       const struct request_handlers *handlers,
                       const char *why_not)
{
    struct set *set = routes_set(http, rq, name, NULL);
    struct problem why = {""};

    if (!set)
        return;
    if (request_content_length(rq) > NOTHING_MAX) {
        problem_set(&why, "%s", why_not);
        routes_answer_failure(rq, STATUS_TOO_LARGE, &why, NULL, NULL);
        return;
    }
    request_set_user(rq, set);
    request_receive(rq, handlers);
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

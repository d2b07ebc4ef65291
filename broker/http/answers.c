#include "broker/http/answers.h"

#include <stdio.h>

#include "broker/http/deferral.h"
#include "broker/net/response.h"
#include "proto/resourcesync/json.h"

struct set *
answers_find_set(struct http *http, struct request *rq, struct slice name,
                 const struct principal *principal, unsigned rights,
                 struct head *head)
{
    bool was_removed;
    struct set *set = registry_look(http->registry, name, head, &was_removed);

    if (set &&
        (set_is_visible(set, principal) ||
         (!principal->is_everyone &&
          rights_include(&principal->rights,
                         rights & (RIGHT_PUBLISH | RIGHT_MANAGE), name))))
        return set;
    was_removed = !set && was_removed && principal_sees(principal, name, true);
    request_refuse(rq, was_removed ? 410 : 404,
                   was_removed ? "the set \"%s\" was removed"
                               : "there is no set \"%s\"",
                   problem_quote(name).text);
    return NULL;
}

const char *
answers_cache_control(bool is_private)
{
    return is_private ? "private, no-cache" : "no-cache";
}

enum status
answers_may_publish(const struct http *http, struct problem *why)
{
    if (http->is_near || !tokens_are_open(http->tokens))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "publishing to the hub, relays, and sets with an "
                   "upstreamTopic or hubs need tokens, or a broker that only "
                   "its own machine can reach; this one was started with "
                   "--insecure-open");
}

void
answers_failure(struct request *rq, enum status rc, const struct problem *why)
{
    request_answer_problem(rq, response_status_of(rc), why);
}

bool
answers_prefer_page(struct request *rq)
{
    struct slice text;

    return request_prefers_page(rq) && !request_parameter(rq, "raw", &text);
}

void
answers_buf(struct request *rq, unsigned status, const char *content_type,
            const char *caching, struct buf *text)
{
    struct response r;

    response_init(&r, status, content_type);
    if (caching)
        response_header(&r, "Cache-Control", "%s", caching);
    response_text(&r, text);
    request_answer(rq, &r);
    buf_fini(text);
}

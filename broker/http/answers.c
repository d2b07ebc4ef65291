#include "broker/http/answers.h"

#include "broker/net/response.h"
#include "broker/sets/positions.h"
#include "proto/http/accept_header.h"
#include "proto/number.h"

struct set *
answers_find_set(struct http *http, struct request *rq, struct slice name,
                 const struct principal *principal, unsigned rights,
                 struct head *head)
{
    struct problem why = {""};
    bool was_removed;
    struct set *set = registry_look(http->registry, name, head, &was_removed);

    if (set &&
        (set_is_visible(set, principal) ||
         (!principal->is_everyone &&
          rights_include(&principal->rights,
                         rights & (RIGHT_PUBLISH | RIGHT_MANAGE), name)))) {
        if (!set_check_rights(set, &why))
            return set;
        request_answer_problem(rq, 503, &why);
        return NULL;
    }
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
answers_count(unsigned metric, unsigned status)
{
    if (metric)
        metrics_add_label(metric, metrics_code(status), 1);
}

int
answers_choose_face(struct request *rq, const char *const *programs, size_t n)
{
    static const char *const page = "text/html";
    struct slice accept = {NULL, 0}, text;
    bool is_raw = request_parameter(rq, "raw", &text);
    struct buf names = {.max = 256};
    int chosen;

    if (!is_raw && rq->prefers_page)
        return FACE_PAGE;
    request_header(rq, "accept", &accept);
    chosen = accept_choose(accept, programs, n);
    if (chosen >= 0 || is_raw)
        return chosen < 0 ? 0 : chosen;
    if (accept_choose(accept, &page, 1) == 0)
        return FACE_PAGE;
    for (size_t i = 0; i < n; i++)
        buf_add_format(&names, "%s, ", programs[i]);
    request_refuse(rq, 406, "this is served as %.*sand %s, not as \"%s\"",
                   SLICE_ARG(buf_slice(&names)), page,
                   problem_quote(accept).text);
    buf_fini(&names);
    return FACE_NONE;
}

void
answers_buf(struct request *rq, unsigned status, const char *content_type,
            const char *caching, struct buf *text)
{
    struct response r;

    response_init(&r, status, content_type, caching);
    response_text(&r, text);
    request_answer(rq, &r);
    buf_fini(text);
}

/* The query */

enum status
query_time(struct request *rq, const char *name, bool *is_there, int64_t *us,
           struct problem *why)
{
    struct slice text = rq->query, value;
    char *room = memory_room(text.size + 1);
    /* a + stays one: it may begin a time zone */
    enum status rc = filter_parameter(text, name, room, &value, is_there, why);

    if (!rc && *is_there && datetime_read_any(value, us))
        rc = problem(why, STATUS_MALFORMED, "%s: not a W3C Datetime: \"%s\"",
                     name, problem_quote(value).text);
    free(room);
    return rc;
}

enum status
query_read(struct request *rq, const struct head *head, struct query *q,
           struct problem *why)
{
    struct slice after;
    enum status rc = filter_read(&q->filter, rq->query, why);

    q->has_since = false;
    q->has_after = request_parameter(rq, "after", &after);
    if (!rc)
        rc = query_time(rq, "since", &q->has_since, &q->since_us, why);
    if (!rc && q->has_since && q->has_after)
        rc = problem(why, STATUS_MALFORMED,
                     "since and after contradict each other: give one");
    return rc || !q->has_after ? rc
                               : positions_judge(head, after, &q->after, why);
}

enum status
query_number(struct request *rq, const char *name, uint64_t least,
             uint64_t most, uint64_t *number, bool *is_there,
             struct problem *why)
{
    struct slice value;
    bool is_given = request_parameter(rq, name, &value);

    if (is_there)
        *is_there = is_given;
    if (!is_given ||
        (number_read(value, number) && *number >= least && *number <= most))
        return STATUS_OK;
    return problem(why, STATUS_MALFORMED,
                   "%s: not a number from %" PRIu64 " to %" PRIu64 ": \"%s\"",
                   name, least, most, problem_quote(value).text);
}

enum status
query_yes(struct request *rq, const char *name, bool *is_yes,
          struct problem *why)
{
    struct slice value;

    *is_yes = false;
    if (!request_parameter(rq, name, &value))
        return STATUS_OK;
    *is_yes = slice_is(value, "yes");
    return *is_yes || slice_is(value, "no")
               ? STATUS_OK
               : problem(why, STATUS_MALFORMED, "%s: \"%s\" is not yes or no",
                         name, problem_quote(value).text);
}

struct slice
query_last_event_id(struct request *rq)
{
    struct slice id = {NULL, 0};

    if (!rq->is_upgrade &&
        !(request_header(rq, "last-event-id", &id) && id.size > 0))
        request_parameter(rq, "lastEventId", &id);
    return id;
}

struct slice
query_traceparent(struct request *rq)
{
    struct slice value = {NULL, 0};

    if (request_header(rq, "traceparent", &value) &&
        !traceparent_is_valid(value)) {
        metrics_add(METRIC_TRACEPARENTS_MALFORMED, 1);
        value.size = 0;
    }
    return slice_cut(value, TRACEPARENT_SIZE);
}

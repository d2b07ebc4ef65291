/*
 * handle_memory.c - GET change memory: the entries after a position, at once or
 * as soon as there are any.
 *
 *     read_or_wait --> page? --> answered
 *       ^    |  |       |
 *       |    |  +--+    | none, or no room, and there is time
 *       |    v job ^    v
 *       +---- resumed <-- waits (push/longpoll.h)
 */

#include "broker/documents/change_memory.h"
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/subscribers.h"
#include "broker/sets/links.h"
#include "broker/sets/positions.h"
#include "proto/number.h"

/* How often a request that waits for room tries again. */
#define ROOM_WAIT_US POLLS_SLOT_US

struct reading {
    struct job job;
    struct poll poll; /* while it waits */
    struct ticket ticket;
    struct http *http;
    struct principal *principal; /* a reference */
    int64_t wait_until_us;       /* steady clock; 0: not at all */
    struct memory_wish wish;
    struct filter_class *filter; /* the wish's, entered */
    const char *type;
    struct head head;
    struct memory_page page;
    enum status status;
    struct problem why;
};

/* The media types of change memory; the first is the default. */
static const char *const memory_types[] = {"application/json",
                                           "application/xml", "text/xml"};

static void read_or_wait(struct request *rq, struct reading *r);

/* Names the positions to continue at. */
static void
answer_gone(struct request *rq, const struct reading *r, const struct set *set,
            const struct head *head)
{
    struct buf members = {.max = 4096};

    positions_members(set, head, &members);
    request_answer_problem_with(rq, response_status_of(STATUS_GONE), &r->why,
                                NULL, members.data);
    buf_fini(&members);
}

static void
answer_memory(struct request *rq, const struct reading *r)
{
    struct response answer;
    struct head head;
    const struct set *set = r->wish.message.set;
    const char *url = set->registry->options.public_url;
    struct slice filter = {NULL, 0};
    struct buf links = {.max = RESPONSE_HEADERS_MAX};

    /* If the set was removed meanwhile, there is no position to restart at. */
    if (r->status == STATUS_GONE && log_head(set->log, &head)) {
        answer_gone(rq, r, set, &head);
        return;
    }
    if (r->status) {
        request_answer_problem(rq, response_status_of(r->status), &r->why);
        return;
    }
    response_init(&answer, 200, r->type,
                  answers_cache_control(set_is_private(set)));
    /* adds the links `self` and `next`. */
    if (r->filter)
        filter = filter_text(&r->filter->filter);
    BUF_ADD(&links, "<");
    link_memory(&links, url, set->name, r->head.epoch, r->page.after, filter);
    BUF_ADD(&links, ">; rel=\"self\", <");
    link_memory(&links, url, set->name, r->head.epoch, r->page.last, filter);
    BUF_ADD(&links, ">; rel=\"next\"");
    response_header(&answer, "Link", "%.*s", (int)links.size,
                    links.data ? links.data : "");
    buf_fini(&links);
    response_header(&answer, "Vary", REQUEST_PAGE_VARY);
    /* Of the entry that the reader has: it compares. */
    response_header(&answer, "Tidings-After-Digest", "%s",
                    digest_text(&r->page.before).text);
    if (r->wish.is_page)
        response_page(&answer);
    answer.body = r->page.body;
    request_answer(rq, &answer);
}

static void
reading_free(struct reading *r)
{
    filters_leave(r->filter);
    client_unref(r->wish.client);
    principal_unref(r->principal);
    free(r);
}

static void
read_work(struct job *job)
{
    struct reading *r = list_entry(job, struct reading, job);

    r->wish.message.patience = LOG_DISK;
    r->status = memory_open(&r->wish, &r->page, &r->why);
}

static void
on_resumed(struct poll *poll, struct request *rq)
{
    struct reading *r = list_entry(poll, struct reading, poll);
    struct set *set = NULL;

    if (rq && !request_deny(rq)) /* answers if the set was removed */
        set = answers_find_set(r->http, rq, slice_of(r->wish.message.set->name),
                               r->principal, RIGHT_SUBSCRIBE, &r->head);
    if (set && set != r->wish.message.set) {
        problem_set(&r->why, "the set was removed, and made again");
        answer_gone(rq, r, set, &r->head);
    }
    if (set != r->wish.message.set) {
        reading_free(r);
        return;
    }
    read_or_wait(rq, r);
}

/* Waits until the log goes on beyond `beyond`, for `most_us` or until the time
 * is over. If no request may wait any more, answers at once. */
static void
wait_on(struct request *rq, struct reading *r, uint64_t beyond, int64_t most_us)
{
    struct poll_wish wish = {
        .set = r->wish.message.set,
        .after = beyond,
        .wait_us = r->wait_until_us - clock_steady_us(),
        .resume = on_resumed,
    };

    if (wish.wait_us < 0)
        wish.wait_us = 0;
    if (wish.wait_us > most_us)
        wish.wait_us = most_us;
    if (push_wait(r->http->push, rq, &r->poll, &wish))
        return;
    r->wait_until_us = 0;
    read_or_wait(rq, r);
}

/* Answers with the page. If it is empty, and there is time, waits: the searched
 * part is not searched again, but the page that comes in the end covers it.
 * When a large post wakes a crowd there is no room for all pages at the same
 * time: a request with time left waits for room, too. */
static void
end_reading(struct request *rq, struct reading *r)
{
    if (r->status == STATUS_BUSY && r->wish.message.is_silent) {
        wait_on(rq, r, r->head.last, ROOM_WAIT_US);
        return;
    }
    if (r->status || r->page.body) {
        answer_memory(rq, r);
        reading_free(r);
        return;
    }
    r->wish.message.after = r->page.after;
    r->wish.has_since = false;
    r->wish.message.reached = r->page.last;
    wait_on(rq, r, r->page.last, INT64_MAX);
}

static void
read_done(struct job *job)
{
    struct reading *r = list_entry(job, struct reading, job);
    struct request *rq = ticket_request(r->ticket);

    if (rq) {
        end_reading(rq, r);
        return;
    }
    if (!r->status && r->page.body)
        r->page.body->free(r->page.body);
    reading_free(r);
}

/* Reads the query; without a position the page begins with the first retained
 * entry. Refuses a wait that is too long: if it were cut silently, the client
 * would blame its own time-out, or the broker. */
static enum status
read_wish(struct request *rq, struct reading *r, struct problem *why)
{
    int64_t wait_us = 0;
    struct slice text;
    struct query query;
    enum status rc = query_read(rq, &r->head, &query, why);

    if (rc)
        return rc;
    r->wish.message.after =
        query.has_after ? query.after : head_earliest(&r->head);
    r->wish.has_since = query.has_since;
    r->wish.since_us = query.since_us;
    r->wish.client = client_ref(request_client(rq));
    (void)!filters_enter(&r->wish.message.set->registry->filters, &query.filter,
                         r->wish.client, true, &r->filter, NULL);
    r->wish.message.filter = r->filter;
    if (request_parameter(rq, "wait", &text) &&
        (!seconds_read(text, &wait_us) || wait_us > POLLS_WAIT_MAX_US))
        return problem(why, STATUS_MALFORMED,
                       "\"%s\" is not a time to wait: that is 0 to %d seconds",
                       problem_quote(text).text,
                       (int)(POLLS_WAIT_MAX_US / 1000000));
    if (wait_us > 0)
        r->wait_until_us = clock_steady_us() + wait_us;
    return STATUS_OK;
}

/* Reads from memory at once, else on the worker pool. */
static void
read_or_wait(struct request *rq, struct reading *r)
{
    r->wish.message.is_silent = clock_steady_us() < r->wait_until_us;
    r->wish.message.patience = LOG_MEMORY;
    r->status = memory_open(&r->wish, &r->page, &r->why);
    if (r->status != STATUS_AGAIN) {
        end_reading(rq, r);
        return;
    }
    r->ticket = request_ticket(rq);
    r->job.work = read_work;
    r->job.done = read_done;
    service_work(rq->service, &r->job);
}

enum status
handle_memory_get(const struct route_call *call)
{
    int face =
        answers_choose_face(call->rq, memory_types, N_ELEMENTS(memory_types));
    struct reading *r;
    enum status rc;

    if (face == FACE_NONE)
        return STATUS_OK;
    r = memory_new(1, sizeof(*r));
    r->http = call->http;
    r->principal = principal_ref(call->principal);
    r->wish.message.set = call->set;
    r->head = call->head;
    r->wish.is_page = face == FACE_PAGE;
    if (face >= 0)
        r->type = memory_types[face];
    r->wish.message.form = face == 0 ? MESSAGE_JSON : MESSAGE_XML;
    rc = read_wish(call->rq, r, call->why);
    if (rc == STATUS_GONE) {
        r->status = rc;
        r->why = *call->why;
        answer_memory(call->rq, r);
        rc = STATUS_OK;
    } else if (!rc) {
        read_or_wait(call->rq, r);
        return STATUS_OK;
    }
    reading_free(r);
    return rc;
}

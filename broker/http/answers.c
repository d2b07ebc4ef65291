#include "broker/http/answers.h"

#include <stdlib.h>

#include "broker/net/response.h"
#include "broker/sets/positions.h"

struct set *
answers_find_set(struct http *http, struct request *rq, struct slice name,
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

enum status
answers_may_publish(const struct http *http, struct problem *why)
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
answers_failure(struct request *rq, enum status rc, const struct problem *why,
                const struct set *set, const struct head *head)
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

/* Texts that a worker writes */

struct written_text {
    struct job job;
    struct ticket ticket;
    struct http *http;
    const char *content_type;
    void (*write)(struct http *http, struct buf *to);
    struct buf text;
};

static void
write_text(struct job *job)
{
    struct written_text *m = list_entry(job, struct written_text, job);

    m->write(m->http, &m->text);
}

static void
answer_text(struct job *job)
{
    struct written_text *m = list_entry(job, struct written_text, job);
    struct request *rq = ticket_request(m->ticket);
    struct response r;

    if (rq && m->text.failed) {
        answers_failure(rq, STATUS_MEMORY, NULL, NULL, NULL);
    } else if (rq) {
        response_init(&r, 200, m->content_type);
        response_header(&r, "Cache-Control", "no-store");
        r.text = buf_slice(&m->text);
        request_answer(rq, &r);
    }
    buf_fini(&m->text);
    free(m);
}

void
answers_text(struct http *http, struct request *rq, const char *content_type,
             size_t max, void (*write)(struct http *http, struct buf *to))
{
    struct written_text *m = calloc(1, sizeof(*m));

    if (!m) {
        answers_failure(rq, STATUS_MEMORY, NULL, NULL, NULL);
        return;
    }
    m->job = (struct job){.work = write_text, .done = answer_text};
    m->ticket = request_ticket(rq);
    m->http = http;
    m->content_type = content_type;
    m->write = write;
    buf_init(&m->text, max);
    service_work(request_service(rq), &m->job);
}

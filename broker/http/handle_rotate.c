/*
 * handle_rotate.c - closes the open list of a set on demand.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/log/post.h"
#include "broker/net/response.h"
#include "broker/sets/links.h"
#include "proto/json.h"

struct closing {
    struct post post;
    struct task task;
    struct ticket ticket;
    struct set *set;
};

/* {"set":"demo","closed":3,"list":"http://.../changes/000000000003.xml"}; null
 * and no list if the open list was empty: it is not closed then. */
static void
answer_closed(struct request *rq, const struct closing *c)
{
    struct link_text list =
        link_to(registry_public_url(c->set->registry), LINK_LIST, c->set->name,
                NULL, c->post.list);
    struct response r;
    struct buf text;

    buf_init(&text, 4096);
    BUF_ADD(&text, "{\"set\":");
    json_string(&text, slice_of(c->set->name));
    if (c->post.list == 0) {
        BUF_ADD(&text, ",\"closed\":null}\n");
    } else {
        buf_add_format(&text,
                       ",\"closed\":%" PRIu64 ",\"list\":", c->post.list);
        json_string(&text, link_slice(&list));
        BUF_ADD(&text, "}\n");
    }
    response_init(&r, 200, "application/json");
    r.text = buf_slice(&text);
    request_answer(rq, &r);
    buf_fini(&text);
}

static void
on_answered(struct task *task)
{
    struct closing *c = list_entry(task, struct closing, task);
    struct request *rq = ticket_request(c->ticket);

    if (rq && c->post.status)
        answers_failure(rq, c->post.status, &c->post.why, NULL, NULL);
    else if (rq)
        answer_closed(rq, c);
    free(c);
}

/* On the log thread. */
static void
on_closed(struct post *post)
{
    struct closing *c = list_entry(post, struct closing, post);

    service_post(c->ticket.service, &c->task);
}

static void
on_end(struct request *rq)
{
    struct closing *c = calloc(1, sizeof(*c));
    struct problem why = PROBLEM_MEMORY;
    enum status rc = STATUS_MEMORY;

    if (c) {
        c->set = request_user(rq);
        c->ticket = request_ticket(rq);
        c->task.run = on_answered;
        c->post.kind = POST_CLOSE;
        c->post.set = c->set->log;
        c->post.done = on_closed;
        rc = log_submit(registry_log(c->set->registry), &c->post);
    }
    if (rc) {
        if (rc == STATUS_STOPPED)
            problem_set(&why, "the broker is ending");
        free(c);
        answers_failure(rq, rc, &why, NULL, NULL);
    }
}

static const struct request_handlers handlers = {.on_end = on_end};

void
handle_rotate_post(struct http *http, struct request *rq,
                   const struct route_target *target)
{
    (void)http;
    request_set_user(rq, target->set);
    request_receive(rq, &handlers, target->body_max);
}

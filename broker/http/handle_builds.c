/*
 * handle_builds.c - makes documents of a set on demand: closes the open list,
 * builds the Resource List or the Resource Dump.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/archive/renewal.h"
#include "broker/base/authority.h"
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/log/post.h"
#include "broker/net/response.h"
#include "broker/sets/links.h"
#include "proto/memory.h"
#include "proto/resourcesync/json.h"
#include "proto/resourcesync/position.h"

/* The open list */

struct closing {
    struct post post;
    struct task task;
    struct ticket ticket;
    struct set *set;
    struct authority *authority;
};

/* {"set":"demo","closed":3,"list":"http://.../changes/000000000003.xml"}; null
 * and no list if the open list was empty: it is not closed then. */
static void
answer_closed(struct request *rq, const struct closing *c)
{
    struct link_text list =
        link_to(registry_public_url(c->set->registry), LINK_LIST, c->set->name,
                NULL, c->post.ended);
    struct buf text;

    buf_init(&text, 4096);
    BUF_ADD(&text, "{\"set\":");
    json_text(&text, slice_of(c->set->name));
    if (c->post.ended == 0) {
        BUF_ADD(&text, ",\"closed\":null}\n");
    } else {
        buf_add_format(&text,
                       ",\"closed\":%" PRIu64 ",\"list\":", c->post.ended);
        json_text(&text, link_slice(&list));
        BUF_ADD(&text, "}\n");
    }
    answers_buf(rq, 200, "application/json", NULL, &text);
}

static void
answer_rotation(struct task *task)
{
    struct closing *c = list_entry(task, struct closing, task);
    struct request *rq = ticket_request(c->ticket);

    if (rq && c->post.status)
        answers_failure(rq, c->post.status, &c->post.why);
    else if (rq)
        answer_closed(rq, c);
    authority_unref(c->authority);
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
close_list(struct request *rq)
{
    struct closing *c = memory_new(1, sizeof(*c));

    c->set = request_user(rq);
    c->ticket = request_ticket(rq);
    c->task.run = answer_rotation;
    c->post.kind = POST_CLOSE;
    c->post.set = c->set->log;
    c->post.done = on_closed;
    c->authority = request_take_authority(rq);
    c->post.authority = c->authority;
    if (log_submit(registry_log(c->set->registry), &c->post)) {
        authority_unref(c->authority);
        free(c);
        request_refuse(rq, 503, "the broker is ending");
    }
}

static const struct request_handlers rotate_handlers = {.on_end = close_list};

void
handle_rotate_post(struct http *http, struct request *rq,
                   const struct route_target *target)
{
    (void)http;
    request_set_user(rq, target->set);
    request_receive(rq, &rotate_handlers, target->body_max);
}

/* Resource List and Resource Dump */

/* The longest time until the answer. */
#define ANSWER_US 10000000

struct building {
    struct renewal_order order;
    struct task task;
    struct ticket ticket;
    struct archiver *archiver;
    char epoch[EPOCH_SIZE + 1];
};

static void
add_link(struct buf *to, const char *name, struct link_text link)
{
    json_text_member(to, name, link_slice(&link));
}

/* {"set":"demo","generation":7,"position":"k3v9x2mq-41","resources":12,
 *  "list":"http://.../resourcelist/000000000007.xml",
 *  "current":"http://.../resourcelist.xml"}; for a dump also "dump" and
 * "packages"; before it is ready only "set" and "current". */
static void
answer_built(struct request *rq, const struct building *b)
{
    const struct generation *g = &b->order.generation;
    const struct set *set = b->order.set;
    const char *url = registry_public_url(set->registry);
    bool is_ready = b->order.status == STATUS_OK;
    struct link_text current = link_to_current(url, set->name, b->order.kind);
    char position[POSITION_MAX];
    struct buf text;

    buf_init(&text, 8192);
    BUF_ADD(&text, "{\"set\":");
    json_text(&text, slice_of(set->name));
    if (is_ready) {
        position_write(position, b->epoch, g->seq);
        buf_add_format(&text,
                       ",\"generation\":%" PRIu64
                       ",\"position\":\"%s\",\"resources\":%" PRIu64,
                       g->number, position, g->n);
        if (g->kind == GENERATION_RESOURCEDUMP)
            buf_add_format(&text, ",\"packages\":%" PRIu64, g->parts);
        add_link(&text, g->kind == GENERATION_RESOURCEDUMP ? "dump" : "list",
                 link_to_generation(url, set->name, g->kind, g->number));
    }
    add_link(&text, "current", current);
    BUF_ADD(&text, "}\n");
    answers_buf(rq, is_ready ? 200 : 202, "application/json", NULL, &text);
}

/* 409: {..., "missing":3}. The content may come, and the same request may
 * succeed later; nobody knows when, so there is no Retry-After. */
static void
answer_incomplete(struct request *rq, const struct renewal_order *order)
{
    struct response r;
    char members[64];

    snprintf(members, sizeof(members), ",\"missing\":%" PRIu64, order->missing);
    response_init(&r, 409, NULL);
    response_answer_problem(rq, &r, &order->why, members);
}

static void
answer_build(struct task *task)
{
    struct building *b = list_entry(task, struct building, task);
    struct request *rq = ticket_request(b->ticket);
    enum status rc = b->order.status;

    if (rq && rc == STATUS_NOT_FOUND)
        answer_incomplete(rq, &b->order);
    else if (rq && rc && rc != STATUS_AGAIN)
        answers_failure(rq, rc, &b->order.why);
    else if (rq)
        answer_built(rq, b);
    authority_unref(b->order.authority);
    free(b);
}

/* On the archive thread. */
static void
on_done(struct renewal_order *order)
{
    struct building *b = list_entry(order, struct building, order);

    service_post(b->ticket.service, &b->task);
}

/* The answer covers everything that was committed before this call. */
static void
order_build(struct request *rq)
{
    struct building *b = request_user(rq);
    struct head head;

    log_head(b->order.set->log, &head);
    memcpy(b->epoch, head.epoch, sizeof(b->epoch));
    b->order.wanted = head.last;
    b->order.until_us = clock_steady_us() + ANSWER_US;
    b->order.authority = authority_ref(request_authority(rq));
    request_set_user(rq, NULL); /* the archive owns it now */
    if (archiver_order(b->archiver, &b->order)) {
        authority_unref(b->order.authority);
        free(b);
        request_refuse(rq, 503, "the broker is ending");
    }
}

static void
on_gone(struct request *rq)
{
    free(request_user(rq));
}

static const struct request_handlers build_handlers = {
    .on_end = order_build,
    .on_gone = on_gone,
};

void
handle_build_post(struct http *http, struct request *rq,
                  const struct route_target *target)
{
    struct building *b = memory_new(1, sizeof(*b));

    b->archiver = http->archiver;
    b->ticket = request_ticket(rq);
    b->task.run = answer_build;
    b->order.set = target->set;
    b->order.kind = (enum generation_kind)target->act;
    b->order.done = on_done;
    request_set_user(rq, b);
    request_receive(rq, &build_handlers, target->body_max);
}

/*
 * handle_builds.c - makes documents of a set on demand: closes the open list,
 * builds the Resource List or the Resource Dump.
 */

#include "broker/archive/build_schedule.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/log/post.h"
#include "broker/net/response.h"
#include "broker/sets/set_links.h"
#include "proto/resourcesync/json.h"
#include "proto/resourcesync/position.h"

/* The open list */

struct closing {
    struct deferral deferral;
    struct post post;
    struct set *set;
};

/* {"set":"demo","closed":3,"list":"http://.../changes/000000000003.xml"}; null
 * and no list if the open list was empty: it is not closed then. */
static void
answer_closed(struct deferral *d, struct request *rq)
{
    const struct closing *c = list_entry(d, struct closing, deferral);
    struct link_text list =
        link_to(c->set->registry->options.public_url, LINK_LIST, c->set->name,
                NULL, c->post.ended);
    struct buf text = {.max = 4096};

    buf_add_format(&text, "{\"set\":\"%s\"", c->set->name);
    if (c->post.ended) {
        json_number_member(&text, "closed", c->post.ended);
        json_text_member(&text, "list", link_slice(&list));
    } else {
        BUF_ADD(&text, ",\"closed\":null");
    }
    BUF_ADD(&text, "}\n");
    answers_buf(rq, 200, "application/json", NULL, &text);
}

/* On the log thread. */
static void
on_closed(struct post *post)
{
    deferral_end(&list_entry(post, struct closing, post)->deferral,
                 post->status, &post->why);
}

static enum status
close_list(struct deferral *d, struct problem *why)
{
    struct closing *c = list_entry(d, struct closing, deferral);

    c->post.kind = POST_CLOSE;
    c->post.set = c->set->log;
    c->post.done = on_closed;
    c->post.authority = d->authority;
    return log_submit(d->http->registry->log, &c->post, why);
}

static const struct deferral_kind closing = {.begin = close_list,
                                             .answer = answer_closed};

enum status
handle_rotate_post(const struct route_call *call)
{
    struct closing *c = deferral_new(call, &closing, sizeof(*c));

    c->set = call->set;
    c->deferral.decides = true;
    return deferral_receive(&c->deferral, call, STATUS_OK);
}

/* Resource List and Resource Dump */

/* The longest time until the answer. */
#define ANSWER_US 10000000

struct building {
    struct deferral deferral;
    struct build_order order;
    char epoch[EPOCH_SIZE + 1];
};

/* {"set":"demo","generation":7,"position":"k3v9x2mq-41","resources":12,
 *  "list":"http://.../resourcelist/000000000007.xml",
 *  "current":"http://.../resourcelist.xml"}; for a dump also "dump" and
 * "packages"; before it is ready only "set" and "current".
 *
 * 409 if content lacks: {..., "missing":3}. */
static void
answer_build(struct deferral *d, struct request *rq)
{
    const struct building *b = list_entry(d, struct building, deferral);
    const struct generation *g = &b->order.generation;
    const struct set *set = b->order.set;
    bool is_ready = b->order.status == STATUS_OK;
    struct link_text current = set_link_kind(set, b->order.kind, LINK_CURRENT);
    struct link_text list = set_link_generation(set, g->kind, g->number);
    char members[64];
    struct response r;
    struct buf text = {.max = 8192};

    /* The content may come, and the same request may succeed later; nobody
     * knows when, so there is no Retry-After. */
    if (b->order.status == STATUS_NOT_FOUND) {
        snprintf(members, sizeof(members), ",\"missing\":%" PRIu64,
                 b->order.missing);
        response_init(&r, 409, NULL, NULL);
        response_answer_problem(rq, &r, &b->order.why, members);
        return;
    }
    buf_add_format(&text, "{\"set\":\"%s\"", set->name);
    if (is_ready) {
        json_number_member(&text, "generation", g->number);
        json_position_member(&text, "position", b->epoch, g->seq);
        json_number_member(&text, "resources", g->n);
        if (g->kind == GENERATION_RESOURCEDUMP)
            json_number_member(&text, "packages", g->parts);
        json_text_member(&text,
                         g->kind == GENERATION_RESOURCEDUMP ? "dump" : "list",
                         link_slice(&list));
    }
    json_text_member(&text, "current", link_slice(&current));
    BUF_ADD(&text, "}\n");
    answers_buf(rq, is_ready ? 200 : 202, "application/json", NULL, &text);
}

/* On the archive thread. */
static void
on_done(struct build_order *order)
{
    bool has_failed =
        order->status != STATUS_NOT_FOUND && order->status != STATUS_AGAIN;

    deferral_end(&list_entry(order, struct building, order)->deferral,
                 has_failed ? order->status : STATUS_OK, &order->why);
}

/* The answer covers everything that was committed before this call. */
static enum status
order_build(struct deferral *d, struct problem *why)
{
    struct building *b = list_entry(d, struct building, deferral);
    struct head head;

    log_head(b->order.set->log, &head);
    memcpy(b->epoch, head.epoch, sizeof(b->epoch));
    b->order.wanted = head.last;
    b->order.until_us = clock_steady_us() + ANSWER_US;
    b->order.authority = d->authority;
    return build_schedule_order(&d->http->archiver->schedule, &b->order, why);
}

static const struct deferral_kind building = {.begin = order_build,
                                              .answer = answer_build};

enum status
handle_build_post(const struct route_call *call)
{
    struct building *b = deferral_new(call, &building, sizeof(*b));

    b->order.set = call->set;
    b->order.kind = (enum generation_kind)call->act;
    b->order.done = on_done;
    return deferral_receive(&b->deferral, call, STATUS_OK);
}

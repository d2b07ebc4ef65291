#include "broker/hub/foreign.h"

#include <stdlib.h>

#include "broker/hub/document_intake.h"
#include "broker/hub/fetch.h"
#include "broker/hub/inside.h"
#include "broker/hub/source.h"
#include "broker/hub/topic.h"
#include "broker/net/response.h"
#include "proto/link_header.h"
#include "proto/websub.h"

static void
refuse(struct order *order, enum status status, unsigned http,
       const struct problem *why)
{
    order->http = http;
    hub_answer_now(order, status, why);
}

/* Notifications */

/* Finds the topic of a notification: its only link with rel=self. */
static enum status
read_self(struct slice links, struct slice *self, struct problem *why)
{
    struct weblink link;
    size_t n = 0;

    while (weblink_next(&links, &link))
        if (!link.is_of_another && weblink_has_rel(&link, "self")) {
            *self = link.target;
            n++;
        }
    if (links.size > 0)
        return problem(why, STATUS_MALFORMED, "Link: is malformed at \"%s\"",
                       problem_quote(links).text);
    if (n != 1)
        return problem(why, STATUS_MALFORMED,
                       "Link: a notification has one link with rel=self, its "
                       "topic; there are %zu",
                       n);
    return websub_check_url(*self, "Link rel=self", why);
}

/* Checks that one of the links with rel=hub is ours. */
static enum status
check_hub(struct slice links, struct slice hub, struct problem *why)
{
    struct weblink link;
    size_t n = 0;

    while (weblink_next(&links, &link)) {
        if (link.is_of_another || !weblink_has_rel(&link, "hub"))
            continue;
        n++;
        if (!websub_check_url(link.target, "Link rel=hub", why) &&
            source_is_same(link.target, hub))
            return STATUS_OK;
    }
    if (n == 0)
        return problem(why, STATUS_MALFORMED,
                       "Link: a notification has a link with rel=hub; there "
                       "is none");
    return problem(why, STATUS_MALFORMED,
                   "Link: no link with rel=hub is \"%s\", as this hub is "
                   "called here",
                   problem_quote(hub).text);
}

static void
not_registered(struct slice url, struct problem *why)
{
    problem_set(why,
                "\"%s\" is no topic that this hub takes in: it is of no relay, "
                "and no set has it as its upstreamTopic",
                problem_quote(url).text);
}

void
foreign_notify(struct order *order)
{
    struct hub *hub = order->hub;
    struct problem why = {""};
    struct target target;
    struct source *source;
    struct slice self;
    struct buf url;
    enum status rc = STATUS_OK;
    bool is_believed;

    if (order->body.size == 0)
        rc = problem(&why, STATUS_MALFORMED, "the notification is empty");
    if (!rc)
        rc = read_self(order->links, &self, &why);
    if (rc) {
        refuse(order, rc, 400, &why);
        return;
    }
    target = source_target(hub, self);
    if (target_is_none(&target)) {
        not_registered(self, &why);
        refuse(order, STATUS_NOT_FOUND, 403, &why);
        return;
    }
    buf_init(&url, LINK_MAX + WEBSUB_URL_MAX);
    target_write_hub(&url, hub, &target);
    rc = check_hub(order->links, buf_slice(&url), &why);
    source = rc ? NULL : source_of(hub->foreign, self, &target);
    is_believed = source && source_is_believed(source, buf_slice(&url));
    buf_fini(&url);
    if (rc) {
        refuse(order, rc, 400, &why);
    } else if (!source) {
        refuse(order, problem_memory(&why), 503, &why);
    } else if (is_believed) {
        intake_order(source, &target, order);
    } else {
        source_ask(source, order);
    }
}

/* Goes on when the Source was asked. That took a while, so the owner of the
 * topic is looked up again. */
void
foreign_go_on(struct source *source, struct order *order)
{
    struct problem why = order->why;
    struct target target = source_target(order->hub, slice_of(source->url));

    if (order->status) {
        refuse(order, order->status, order->http, &why);
    } else if (target_is_none(&target)) {
        not_registered(slice_of(source->url), &why);
        refuse(order, STATUS_NOT_FOUND, 403, &why);
    } else {
        intake_order(source, &target, order);
    }
}

/* Pings */

/* A ping for a topic of ours needs no fetch: the broker makes its changes.
 * *target is empty then. */
static enum status
judge_ping(struct hub *hub, struct slice url, struct target *target,
           struct problem *why)
{
    struct topic *topic;
    struct problem inner = {""};
    enum status rc = websub_check_url(url, "hub.url", why);

    *target = (struct target){.relay = NULL};
    if (rc)
        return rc;
    *target = source_target(hub, url);
    if (!target_is_none(target))
        return STATUS_OK;
    rc = topic_find(hub, url, &topic, &inner);
    if (!rc) {
        topic_release(topic);
        return STATUS_OK;
    }
    if (rc != STATUS_INVALID && rc != STATUS_NOT_FOUND)
        return problem(why, rc, "%s", inner.text);
    not_registered(url, why);
    return STATUS_NOT_FOUND;
}

/* Takes all topics of the ping or none: so a publisher that names a wrong one
 * notices it. */
void
foreign_publish(struct order *order)
{
    struct hub *hub = order->hub;
    struct problem why = {""};
    struct target target;
    struct slice url;
    size_t at = 0;
    enum status rc;

    while (websub_next_topic(&order->form, &at, &url)) {
        rc = judge_ping(hub, url, &target, &why);
        if (rc) {
            refuse(order, rc, response_status_of(rc), &why);
            return;
        }
    }
    if (at == 0) {
        problem_set(&why, "hub.url: is missing");
        refuse(order, STATUS_MALFORMED, 400, &why);
        return;
    }
    at = 0;
    while (websub_next_topic(&order->form, &at, &url)) {
        struct source *source = NULL;

        if (judge_ping(hub, url, &target, &why) || target_is_none(&target))
            continue;
        source = source_of(hub->foreign, url, &target);
        if (!source) {
            refuse(order, problem_memory(&why), 503, &why);
            return;
        }
        fetch_ping(source);
    }
    order->http = 204;
    hub_answer_now(order, STATUS_OK, &why);
}

/* Life */

enum status
foreign_open(struct hub *hub, struct problem *why)
{
    struct foreign *f = calloc(1, sizeof(*f));

    if (!f)
        return problem_memory(why);
    f->hub = hub;
    for (size_t i = 0; i < SOURCES_LISTS; i++)
        list_init(&f->sources[i]);
    fetch_start(f);
    intake_start(f);
    hub->foreign = f;
    return STATUS_OK;
}

void
foreign_end(struct hub *hub)
{
    intake_end(hub->foreign);
    sources_free(hub->foreign);
}

void
foreign_close(struct hub *hub)
{
    struct foreign *f = hub->foreign;

    if (!f)
        return;
    sources_free(f);
    pthread_cond_destroy(&f->landed);
    pthread_mutex_destroy(&f->mutex);
    free(f);
    hub->foreign = NULL;
}

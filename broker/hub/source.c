#include "broker/hub/source.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "broker/hub/document_intake.h"
#include "broker/hub/fetch.h"
#include "broker/hub/foreign.h"
#include "broker/hub/inside.h"
#include "broker/sets/peers.h"
#include "proto/link_header.h"
#include "proto/websub.h"

/* Targets */

static bool
comparable(struct buf *to, struct slice url)
{
    buf_init(to, 3 * WEBSUB_URL_MAX + 16);
    websub_comparable(to, url);
    return !to->failed;
}

bool
source_is_same(struct slice a, struct slice b)
{
    struct buf x, y;
    bool is = comparable(&x, a);

    is = comparable(&y, b) && is && slice_equal(buf_slice(&x), buf_slice(&y));
    buf_fini(&x);
    buf_fini(&y);
    return is;
}

struct target
source_target(struct hub *hub, struct slice url)
{
    struct target target = {.relay = relay_of_topic(hub, url)};

    if (!target.relay)
        target.set = registry_upstream(hub->registry, url);
    return target;
}

void
target_write_hub(struct buf *to, struct hub *hub, const struct target *target)
{
    if (target->relay)
        buf_add_text(to, target->relay->hub_url);
    else
        buf_add_format(to, "%s/hub", registry_public_url(hub->registry));
}

/* Life */

static struct list *
list_of(struct foreign *foreign, struct slice topic)
{
    uint32_t h = 2166136261u; /* FNV-1a: registered topics only */

    for (size_t i = 0; i < topic.size; i++)
        h = (h ^ (unsigned char)topic.data[i]) * 16777619u;
    return &foreign->sources[h % SOURCES_LISTS];
}

/* Clears its alarms, too: the caller links alarms with each other. */
static void
source_free(struct source *s)
{
    struct caller *caller = s->foreign->hub->caller;

    if (caller) { /* else nothing was begun */
        caller_clear_alarm(caller, &s->forget);
        caller_clear_alarm(caller, &s->retry);
    }
    list_remove(&s->node);
    list_remove(&s->fetch_node);
    list_remove(&s->fetched_node);
    free(s->url);
    free(s->comparable);
    free(s->believed_hub);
    free(s->etag);
    free(s->last_modified);
    free(s);
}

static bool
is_idle(const struct source *s)
{
    return !s->is_asking && !s->is_fetching && !s->is_fetch_wanted &&
           s->fetch_tries == 0 && list_is_empty(&s->fetch_node) &&
           list_is_empty(&s->fetched_node) && list_is_empty(&s->intakes);
}

static void
on_forget(struct alarm *alarm)
{
    struct source *s = list_entry(alarm, struct source, forget);
    int64_t now = clock_steady_us();

    if (is_idle(s) && now - s->used_us >= FOREIGN_BELIEVED_US)
        source_free(s);
    else
        caller_set_alarm(s->foreign->hub->caller, &s->forget,
                         now + FOREIGN_BELIEVED_US);
}

static struct source *
make(struct foreign *foreign, struct list *list, struct slice comparable_url,
     struct slice url)
{
    struct source *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    list_init(&s->node);
    list_init(&s->fetch_node);
    list_init(&s->fetched_node);
    list_init(&s->asking);
    list_init(&s->intakes);
    s->foreign = foreign;
    s->url = slice_dup(url);
    s->comparable = slice_dup(comparable_url);
    if (!s->url || !s->comparable) {
        source_free(s);
        return NULL;
    }
    list_append(list, &s->node);
    s->forget.ring = on_forget;
    caller_set_alarm(foreign->hub->caller, &s->forget,
                     clock_steady_us() + FOREIGN_BELIEVED_US);
    return s;
}

/* Makes a source with the URL as it is registered, not as the client spelled
 * it. */
static struct source *
make_registered(struct foreign *foreign, struct list *list, struct slice topic,
                struct slice url, const struct target *target)
{
    struct peers *peers = target->set ? registry_peers(target->set) : NULL;
    struct source *s;

    if (target->relay)
        url = slice_of(target->relay->topic_url);
    else if (peers && peers->upstream)
        url = slice_of(peers->upstream);
    s = make(foreign, list, topic, url);
    peers_unref(peers);
    return s;
}

struct source *
source_of(struct foreign *foreign, struct slice url,
          const struct target *target)
{
    struct source *found = NULL;
    struct list *list, *node, *after;
    struct buf topic;

    if (comparable(&topic, url)) {
        list = list_of(foreign, buf_slice(&topic));
        list_foreach (node, after, list) {
            struct source *s = list_entry(node, struct source, node);

            if (slice_is(buf_slice(&topic), s->comparable))
                found = s;
        }
        if (!found)
            found =
                make_registered(foreign, list, buf_slice(&topic), url, target);
    }
    buf_fini(&topic);
    if (found)
        found->used_us = clock_steady_us();
    return found;
}

/* The answer to HEAD */

bool
source_is_believed(const struct source *s, struct slice hub)
{
    return s->believed_hub && clock_steady_us() < s->believed_until_us &&
           source_is_same(hub, slice_of(s->believed_hub));
}

/* True if the Source's answer has a link with that rel and that target. */
static bool
names(struct slice links, const char *rel, struct slice url)
{
    struct weblink link;
    struct problem ignored = {.text = ""};

    while (weblink_next(&links, &link))
        if (!link.is_of_another && weblink_has_rel(&link, rel) &&
            !websub_check_url(link.target, rel, &ignored) &&
            source_is_same(link.target, url))
            return true;
    return false;
}

/* A Source that cannot be reached may be reachable later: 502, 504. One
 * that answers, but does not name us, refuses: 403. */
static unsigned
judge(const struct source *s, struct slice hub, struct problem *why)
{
    const struct call *call = &s->head;
    struct slice self;
    size_t n = 0;

    if (call->failure == CALL_TIMEOUT) {
        problem_set(why, "the topic did not answer HEAD in time");
        return 504;
    }
    if (call->failure) {
        problem_set(why, "the topic cannot be asked by HEAD: %s", call->why);
        return call->failure == CALL_REFUSED ? 403 : 502;
    }
    if (call->status < 200 || call->status > 299) {
        problem_set(why, "the topic answers HEAD with %u", call->status);
        return call->status >= 500 ? 502 : 403;
    }
    if (!weblink_find(call->links, "self", &self, &n) || n != 1 ||
        !names(call->links, "self", slice_of(s->url))) {
        problem_set(why, "the topic's own answer to HEAD has no Link with "
                         "rel=self that is the topic, and that alone");
        return 403;
    }
    if (!names(call->links, "hub", hub)) {
        problem_set(why,
                    "the topic's own answer to HEAD has no Link with rel=hub "
                    "that is %s",
                    problem_quote(hub).text);
        return 403;
    }
    return 200;
}

/* Applies the answer to one order that waited for it. */
static void
tell(struct source *s, struct order *order)
{
    struct hub *hub = s->foreign->hub;
    struct target target = source_target(hub, slice_of(s->url));
    struct buf url;

    buf_init(&url, LINK_MAX + WEBSUB_URL_MAX);
    target_write_hub(&url, hub, &target);
    order->http = judge(s, buf_slice(&url), &order->why);
    order->status = order->http == 200 ? STATUS_OK : STATUS_INVALID;
    if (!order->status) {
        free(s->believed_hub);
        s->believed_hub = slice_dup(buf_slice(&url));
        s->believed_until_us = clock_steady_us() + FOREIGN_BELIEVED_US;
    }
    buf_fini(&url);
    foreign_go_on(s, order);
}

static void
on_head(struct call *call)
{
    struct source *s = list_entry(call, struct source, head);
    struct list orders, *node;

    /* Orders that come from now on ask anew. */
    list_init(&orders);
    list_move(&orders, &s->asking);
    while ((node = list_first(&orders))) {
        list_remove(node);
        tell(s, list_entry(node, struct order, task.node));
    }
    s->is_asking = false;
    if (!list_is_empty(&s->asking)) {
        s->is_asking = true;
        caller_start(s->foreign->hub->caller, &s->head);
    }
}

void
source_ask(struct source *s, struct order *order)
{
    struct hub *hub = s->foreign->hub;

    list_append(&s->asking, &order->task.node);
    if (s->is_asking)
        return;
    s->is_asking = true;
    s->head = (struct call){
        .method = CALL_HEAD,
        .url = s->url,
        .timeout_us = hub->config->hub_timeout_us,
        .max_redirects = SOURCE_REDIRECTS,
        .done = on_head,
    };
    caller_start(hub->caller, &s->head);
}

/* At the end: calls were cut, jobs are done. */
void
sources_free(struct foreign *foreign)
{
    struct problem why = {"the broker is ending"};
    struct list *node;

    for (size_t i = 0; i < SOURCES_LISTS; i++)
        while ((node = list_first(&foreign->sources[i]))) {
            struct source *s = list_entry(node, struct source, node);
            struct list *waiting;

            while ((waiting = list_first(&s->asking))) {
                list_remove(waiting);
                hub_answer_now(list_entry(waiting, struct order, task.node),
                               STATUS_STOPPED, &why);
            }
            intakes_free(s);
            source_free(s);
        }
}

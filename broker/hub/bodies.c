#include "broker/hub/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/metrics.h"
#include "broker/log/batch.h"

/* A message may exceed --message-bytes a little if one entry is that large; so
 * may a relay's document. A range that was fixed under another limit is at most
 * as long as any message may be. */
#define BODY_MAX ((size_t)256 << 20)

void
bodies_init(struct bodies *bodies, size_t max_bytes)
{
    memset(bodies, 0, sizeof(*bodies));
    bodies->max_bytes = max_bytes;
    list_init(&bodies->idle);
    for (size_t i = 0; i < BODIES_BUCKETS; i++)
        list_init(&bodies->buckets[i]);
}

void
shared_body_free(struct shared_body *body)
{
    if (!body)
        return;
    free(body->data);
    free(body);
}

/* Making */

static uint64_t
start_of(const struct topic_wish *wish)
{
    return wish->reached > wish->after ? wish->reached : wish->after;
}

static uint64_t
filter_id(const struct topic_wish *wish)
{
    return wish->filter ? wish->filter->id : 0;
}

/* The commit time of the first entry of the body. 0: the entry is not in
 * memory, or the topic is a relay's, which has no batches. */
static int64_t
commit_time(const struct topic *topic, uint64_t start)
{
    struct batch *b = NULL;
    struct log_set *log;
    int64_t us = 0;

    if (topic->kind == TOPIC_RELAY)
        return 0;
    log = topic->kind == TOPIC_FRAMEWORK
              ? registry_framework(topic->set->registry)
              : topic->set->log;
    if (!log_read(registry_log(topic->set->registry), log, start, LOG_MEMORY,
                  &b, NULL) &&
        b)
        us = b->committed_us;
    batch_unref(b);
    return us;
}

static struct shared_body *
shared_body_of(const struct topic *topic, const struct topic_wish *wish)
{
    struct shared_body *body = calloc(1, sizeof(*body));

    if (!body)
        return NULL;
    list_init(&body->node);
    list_init(&body->idle);
    body->kind = topic->kind;
    body->set = topic->set;
    memcpy(body->epoch, topic->epoch, sizeof(body->epoch));
    body->filter_id = filter_id(wish);
    body->is_plain = wish->is_plain;
    body->after = wish->after;
    body->start = start_of(wish);
    return body;
}

enum status
shared_body_make(struct shared_body **result, const struct topic *topic,
                 const struct topic_wish *wish, uint64_t *last,
                 struct problem *why)
{
    struct shared_body *body = shared_body_of(topic, wish);
    const char *type = "";
    uint64_t head = 0;
    struct buf text;
    enum status rc;

    *result = NULL;
    if (!body)
        return problem_memory(why);
    buf_init(&text, BODY_MAX);
    topic_head(topic, &head); /* before reading: see is_full */
    rc = topic_read(topic, wish, &text, &type, last, why);
    if (!rc && text.failed)
        rc = problem_memory(why);
    if (rc) {
        buf_fini(&text);
        shared_body_free(body);
        return rc;
    }
    body->last = *last;
    body->is_full = wish->upto == UINT64_MAX && *last < head;
    body->committed_us = text.size > 0 ? commit_time(topic, body->start) : 0;
    snprintf(body->type, sizeof(body->type), "%s", type);
    body->data = text.data; /* taken over */
    body->size = text.size;
    *result = body;
    return STATUS_OK;
}

/* Finding */

/* Bodies that could serve the same wish are in the same bucket. */
static struct list *
bucket(struct bodies *bodies, const struct topic *topic, uint64_t filter,
       uint64_t start)
{
    uint64_t key = start * 31 + filter * 7;

    for (const char *c = topic->epoch; *c; c++)
        key = key * 31 + (unsigned char)*c;
    return &bodies->buckets[key % BODIES_BUCKETS];
}

/* An empty body serves every wish that starts at the same entry, wherever the
 * previous message ended. */
bool
shared_body_serves(const struct shared_body *body, const struct topic *topic,
                   const struct topic_wish *wish)
{
    return body->kind == topic->kind && body->set == topic->set &&
           !strcmp(body->epoch, topic->epoch) &&
           body->filter_id == filter_id(wish) &&
           body->is_plain == wish->is_plain && body->start == start_of(wish) &&
           (body->after == wish->after || body->size == 0) &&
           (wish->upto == UINT64_MAX || wish->upto == body->last);
}

/* Removes the body from the idle ones. */
static void
wake(struct bodies *bodies, struct shared_body *body)
{
    if (list_is_empty(&body->idle))
        return;
    list_remove(&body->idle);
    bodies->n_idle--;
    bodies->idle_bytes -= body->size;
}

struct shared_body *
bodies_find(struct bodies *bodies, const struct topic *topic,
            const struct topic_wish *wish, uint64_t head)
{
    struct list *all = bucket(bodies, topic, filter_id(wish), start_of(wish)),
                *node, *next;

    list_foreach (node, next, all) { /* the newest first */
        struct shared_body *body = list_entry(node, struct shared_body, node);

        if (shared_body_serves(body, topic, wish) &&
            (wish->upto != UINT64_MAX || body->is_full || body->last >= head)) {
            wake(bodies, body);
            body->guards++;
            return body;
        }
    }
    return NULL;
}

/* Keeping */

static bool
is_held(const struct shared_body *body)
{
    return body->holders[false] + body->holders[true] > 0;
}

static void
drop(struct bodies *bodies, struct shared_body *body)
{
    list_remove(&body->idle);
    list_remove(&body->node);
    bodies->n_idle--;
    bodies->idle_bytes -= body->size;
    shared_body_free(body);
}

/* If nobody holds the body, adds it to the idle ones, and drops the oldest idle
 * ones above the limits. */
static void
rest(struct bodies *bodies, struct shared_body *body)
{
    if (is_held(body) || body->guards > 0 || !list_is_empty(&body->idle))
        return;
    list_append(&bodies->idle, &body->idle);
    bodies->n_idle++;
    bodies->idle_bytes += body->size;
    while (bodies->n_idle > BODIES_KEPT ||
           bodies->idle_bytes > BODIES_KEPT_BYTES)
        drop(bodies, list_entry(bodies->idle.next, struct shared_body, idle));
}

void
bodies_fini(struct bodies *bodies)
{
    while (!list_is_empty(&bodies->idle))
        drop(bodies, list_entry(bodies->idle.next, struct shared_body, idle));
}

void
bodies_adopt(struct bodies *bodies, struct shared_body *body)
{
    struct topic key = {.set = (struct set *)(uintptr_t)body->set};

    memcpy(key.epoch, body->epoch, sizeof(key.epoch));
    list_prepend(bucket(bodies, &key, body->filter_id, body->start),
                 &body->node);
    body->guards++;
}

void
bodies_settle(struct bodies *bodies, struct shared_body *body)
{
    body->guards--;
    rest(bodies, body);
}

bool
bodies_have_room(const struct bodies *bodies, const struct shared_body *body,
                 bool is_suspect)
{
    if (is_suspect && !(body && body->holders[true] > 0) &&
        bodies->suspect_bytes >= bodies->max_bytes / 2)
        return false;
    return (body && is_held(body)) || bodies->held_bytes < bodies->max_bytes;
}

void
bodies_hold(struct bodies *bodies, struct shared_body *body, bool is_suspect)
{
    wake(bodies, body);
    if (!is_held(body)) {
        bodies->held_bytes += body->size;
        metrics_add(METRIC_HUB_BODY_BYTES, (int64_t)body->size);
    }
    if (is_suspect && body->holders[true] == 0)
        bodies->suspect_bytes += body->size;
    body->holders[is_suspect]++;
}

void
bodies_release(struct bodies *bodies, struct shared_body *body, bool is_suspect)
{
    body->holders[is_suspect]--;
    if (is_suspect && body->holders[true] == 0)
        bodies->suspect_bytes -= body->size;
    if (is_held(body))
        return;
    bodies->held_bytes -= body->size;
    metrics_add(METRIC_HUB_BODY_BYTES, -(int64_t)body->size);
    rest(bodies, body);
}

/* Counts <url> elements: one per entry. User text in a message is escaped. */
static uint64_t
count_urls(const struct shared_body *body)
{
    const char *at = body->data, *end = body->data + body->size;
    uint64_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), "<url>", 5))) {
        at += 5;
        n++;
    }
    return n;
}

uint64_t
shared_body_entries(const struct shared_body *body)
{
    if (body->filter_id != 0 || body->kind == TOPIC_FRAMEWORK)
        return body->size > 0 ? count_urls(body) : 0;
    return body->last - body->after;
}

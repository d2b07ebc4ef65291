#include "broker/hub/framework.h"

#include <stdlib.h>

#include "broker/base/diag.h"
#include "broker/hub/inside.h"
#include "broker/hub/topic.h"
#include "broker/sets/channel.h"
#include "proto/fragment.h"

/* Batches that one look takes at most. */
#define LOOK_BATCHES 64

struct framework {
    struct watch watch;
    struct hub *hub;
    struct log_set *log;
    atomic_bool has_news;
    unsigned n_topics;
    uint64_t seen; /* events up to this one were told */
};

/* Log thread, under the log's lock. */
static void
on_commit(struct watch *watch)
{
    struct framework *f = list_entry(watch, struct framework, watch);

    if (atomic_exchange(&f->has_news, true))
        return;
    hub_wake(f->hub);
}

enum status
framework_enter(struct hub *hub, struct problem *why)
{
    struct framework *f = hub->framework;

    if (!f) {
        f = calloc(1, sizeof(*f));
        if (!f)
            return problem(why, STATUS_MEMORY, "no memory for a topic");
        f->hub = hub;
        f->log = registry_framework(hub->registry);
        hub->framework = f;
    }
    f->n_topics++;
    return STATUS_OK;
}

void
framework_listen(struct hub *hub)
{
    struct framework *f = hub->framework;
    struct head head;

    if (f->watch.wake)
        return;
    f->watch.wake = on_commit;
    cursor_watch(f->log, &f->watch);
    log_head(f->log, &head);
    f->seen = head.last;
}

void
framework_leave(struct hub *hub)
{
    struct framework *f = hub->framework;

    if (--f->n_topics > 0)
        return;
    if (f->watch.wake)
        cursor_unwatch(f->log, &f->watch);
    hub->framework = NULL;
    free(f);
}

/* Event `seq` concerns this topic. */
static void
tell(struct topic *topic, uint64_t seq)
{
    struct list *node, *next;

    list_foreach (node, next, &topic->resting) {
        struct subscription *s = list_entry(node, struct subscription, node);

        if (seq > 0 && s->reached < seq - 1)
            s->reached = seq - 1;
    }
    topic_mark(topic);
}

static void
tell_all(struct hub *hub, uint64_t seq)
{
    struct list *node, *next;

    list_foreach (node, next, &hub->topics) {
        struct topic *topic = list_entry(node, struct topic, node);

        if (topic->kind == TOPIC_FRAMEWORK)
            tell(topic, seq);
    }
}

static void
tell_tag(struct hub *hub, struct slice tag, uint64_t seq)
{
    struct topic *topic = NULL;
    struct set *set;

    if (slice_is(tag, CHANNEL_TAG_SOURCE)) {
        tell_all(hub, seq);
    } else if (slice_starts(tag, CHANNEL_TAG_SET)) {
        tag.data += sizeof(CHANNEL_TAG_SET) - 1;
        tag.size -= sizeof(CHANNEL_TAG_SET) - 1;
        set = registry_find(hub->registry, tag, NULL);
        if (set)
            topic = topic_look(hub, TOPIC_FRAMEWORK, set);
        if (topic)
            tell(topic, seq);
    }
}

static void
tell_entry(struct hub *hub, const struct batch *b, uint64_t seq)
{
    uint32_t stamp = b->entries[seq - b->first].stamp;
    struct slice fragment = batch_slice(b, seq - 1, seq), type, tags;

    fragment_labels(fragment, stamp, &type, &tags);
    while (tags.size > 0) {
        const char *space = memchr(tags.data, ' ', tags.size);
        struct slice tag = {tags.data,
                            space ? (size_t)(space - tags.data) : tags.size};

        tell_tag(hub, tag, seq);
        tags.data += tag.size + (space != NULL);
        tags.size -= tag.size + (space != NULL);
    }
}

/* The events are no longer in memory, or cannot be read: all topics look
 * themselves, from where they are. */
static void
give_up(struct framework *f)
{
    struct head head;

    log_head(f->log, &head);
    f->seen = head.last;
    tell_all(f->hub, 0);
}

void
framework_look(struct hub *hub)
{
    struct framework *f = hub->framework;
    struct cursor cursor;
    unsigned n = 0;

    if (!f || !atomic_exchange(&f->has_news, false))
        return;
    cursor = (struct cursor){registry_log(hub->registry), f->log, f->seen};
    for (;;) {
        struct batch *b;
        enum status rc = cursor_next(&cursor, LOG_MEMORY, &b, NULL);

        if (rc) {
            give_up(f);
            return;
        }
        if (!b)
            return;
        for (uint64_t seq = cursor.after + 1; seq <= b->last; seq++)
            tell_entry(hub, b, seq);
        cursor.after = f->seen = b->last;
        batch_unref(b);
        if (++n == LOOK_BATCHES) { /* others, too */
            on_commit(&f->watch);
            return;
        }
    }
}

#include "broker/hub/framework.h"

#include "broker/base/diag.h"
#include "broker/hub/hub_state.h"
#include "broker/hub/topic.h"
#include "broker/sets/framework_events.h"

/* Most batches that one look takes from memory, and that a worker reads. */
#define LOOK_BATCHES 64
#define READ_BATCHES 16

/* Batches that are read from disk. */
struct reading {
    struct job job;
    struct hub *hub; /* NULL: it was closed meanwhile */
    struct log *log;
    struct log_set *set;
    uint64_t after; /* seq of the last entry that was read */
    struct batch *batches[READ_BATCHES];
    unsigned n;
    enum status status;
};

/* Log thread, under the log's lock. */
static void
on_commit(struct watch *watch)
{
    struct hub *hub = list_entry(watch, struct hub, framework.watch);

    if (!atomic_exchange(&hub->framework.has_news, true))
        hub_wake(hub);
}

/* Requests another look, also if the log woke nobody meanwhile. */
static void
look_again(struct hub *hub)
{
    atomic_store(&hub->framework.has_news, true);
    hub_wake(hub);
}

static void
end_watch(struct framework *f)
{
    if (f->watch.wake)
        log_unwatch(f->log, &f->watch);
    f->watch.wake = NULL;
}

void
framework_close(struct hub *hub)
{
    end_watch(&hub->framework);
    if (hub->framework.reading)
        hub->framework.reading->hub = NULL;
}

void
framework_listen(struct hub *hub)
{
    struct framework *f = &hub->framework;
    struct list *next, *behind;
    const struct subscription *s;
    const struct topic *topic;
    struct head head;

    if (f->watch.wake)
        return;
    f->watch.wake = on_commit;
    log_watch(f->log, &f->watch);
    log_head(f->log, &head);
    /* Where the subscription is that is furthest behind, or at the head. */
    f->seen = head.last;
    list_each (topic, next, &hub->topics, node) {
        if (topic->kind != TOPIC_FRAMEWORK)
            continue;
        list_each (s, behind, &topic->subscriptions, of_topic) {
            if (reader_start(&s->reader) < f->seen)
                f->seen = reader_start(&s->reader);
        }
    }
    if (f->seen < head.last)
        look_again(hub);
}

/* Marks a topic that event `seq` concerns, and moves its resting subscriptions
 * that have not read the event up to it: no earlier event concerns them. Only
 * the first event of a look that marks the topic moves them; later events pass
 * over nothing before they are woken. If the set is gone nothing is passed over
 * either: its tag no longer finds this topic, so its own last events, with the
 * removal among them, marked nothing here. */
static void
mark_concerned(struct topic *topic, uint64_t seq)
{
    bool is_there =
        registry_find(topic->hub->registry, slice_of(topic->set->name), NULL) ==
        topic->set;
    struct list *next;
    struct subscription *s;
    bool is_new = false;

    if (watched_is_marked(&topic->news.watched))
        return;
    list_each (s, next, &topic->news.resting, reader.node) {
        if (reader_start(&s->reader) >= seq)
            continue;
        is_new = true;
        if (is_there && s->reader.reached < seq - 1)
            s->reader.reached = seq - 1;
    }
    if (is_new)
        watched_mark(&topic->news.watched);
}

static void
mark_tagged(struct hub *hub, struct slice tag, uint64_t seq)
{
    struct topic *topic = NULL;
    struct list *next;
    struct set *set;

    if (slice_is(tag, CHANNEL_TAG_SOURCE)) {
        list_each (topic, next, &hub->topics, node) {
            if (topic->kind == TOPIC_FRAMEWORK)
                mark_concerned(topic, seq);
        }
    } else if (slice_starts(tag, CHANNEL_TAG_SET)) {
        slice_skip(&tag, sizeof(CHANNEL_TAG_SET) - 1);
        set = registry_find(hub->registry, tag, NULL);
        if (set)
            topic = topic_look(hub, TOPIC_FRAMEWORK, set);
        if (topic)
            mark_concerned(topic, seq);
    }
}

static void
mark_for_batch(struct hub *hub, const struct batch *b)
{
    for (uint64_t seq = hub->framework.seen + 1; seq <= b->last; seq++) {
        struct slice fragment = batch_slice(b, seq - 1, seq), type, tags;

        fragment_labels(fragment, b->entries[seq - b->first].stamp, &type,
                        &tags);
        while (tags.size > 0)
            mark_tagged(hub, slice_take(&tags, ' '), seq);
    }
    hub->framework.seen = b->last;
}

/* Marks all topics, because the next events are no longer retained or cannot be
 * read. Subscriptions that have not read them look themselves, and learn the
 * reason. */
static void
mark_unread(struct hub *hub, enum status rc)
{
    struct framework *f = &hub->framework;
    struct list *next;
    struct topic *topic;
    struct head head;

    log_head(f->log, &head);
    f->seen = rc == STATUS_GONE && head.earliest > f->seen ? head.earliest
                                                           : head.last;
    list_each (topic, next, &hub->topics, node) {
        if (topic->kind == TOPIC_FRAMEWORK)
            watched_mark(&topic->news.watched);
    }
    if (f->seen < head.last)
        look_again(hub);
}

/* On a worker. */
static void
read_batches(struct job *job)
{
    struct reading *r = list_entry(job, struct reading, job);

    while (r->n < READ_BATCHES) {
        struct batch *b = NULL;

        r->status = log_read(r->log, r->set, r->after, LOG_DISK, &b, NULL);
        if (r->status || !b)
            return;
        r->batches[r->n++] = b;
        r->after = b->last;
    }
}

static void
on_read(struct job *job)
{
    struct reading *r = list_entry(job, struct reading, job);
    struct hub *hub = r->hub;

    for (unsigned i = 0; i < r->n; i++) {
        if (hub)
            mark_for_batch(hub, r->batches[i]);
        batch_unref(r->batches[i]);
    }
    if (hub) {
        hub->framework.reading = NULL;
        if (r->status)
            mark_unread(hub, r->status);
        else if (!atomic_load(&hub->is_stopping))
            look_again(hub); /* the next ones */
    }
    free(r);
}

/* While a worker reads, new events wait for it: has_news stays set. */
void
framework_look(struct hub *hub)
{
    struct framework *f = &hub->framework;

    if (f->reading || !atomic_exchange(&f->has_news, false))
        return;
    if (hub->n_framework_topics == 0) {
        end_watch(f);
        return;
    }
    for (unsigned n = 0; n < LOOK_BATCHES; n++) {
        struct batch *b;
        enum status rc = log_read(registry_log(hub->registry), f->log, f->seen,
                                  LOG_MEMORY, &b, NULL);

        if (rc == STATUS_AGAIN) {
            f->reading = memory_new(1, sizeof(*f->reading));
            f->reading->hub = hub;
            f->reading->log = registry_log(hub->registry);
            f->reading->set = f->log;
            f->reading->after = f->seen;
            f->reading->job.work = read_batches;
            f->reading->job.done = on_read;
            caller_work(hub->caller, &f->reading->job);
            return;
        }
        if (rc) {
            mark_unread(hub, rc);
            return;
        }
        if (!b)
            return;
        mark_for_batch(hub, b);
        batch_unref(b);
    }
    look_again(hub); /* other work has its turn before */
}

#include "broker/hub/topic.h"

#include "broker/hub/hub_state.h"
#include "broker/readers/message.h"
#include "broker/sets/framework_events.h"
#include "broker/sets/positions.h"
#include "proto/http/websub.h"

/* Owners */

void
subscriber_token_init(struct subscriber_token *owner, struct slice name,
                      int64_t ends_us, struct slice requester)
{
    *owner = (struct subscriber_token){.ends_us = ends_us};
    snprintf(owner->requester, sizeof(owner->requester), "%.*s",
             SLICE_ARG(requester));
    if (name.size > 0)
        owner->name = slice_dup(name);
}

void
subscriber_token_fini(struct subscriber_token *owner)
{
    free(owner->name);
    principal_unref(owner->principal);
    client_unref(owner->client);
    *owner = (struct subscriber_token){.name = NULL};
}

const char *
subscriber_token_name(const struct subscriber_token *owner)
{
    return owner->name ? owner->name : "";
}

struct client *
subscriber_token_client(struct subscriber_token *owner, struct clients *clients)
{
    struct slice name = slice_of(subscriber_token_name(owner));

    if (!owner->client)
        owner->client = name.size && !slice_is(name, PRINCIPAL_EVERYONE)
                            ? client_of_owner(clients, name)
                            : client_named(clients, owner->requester);
    return owner->client;
}

/* Existing topics */

/* A set's address is no stranger's choice, and no set begins within 16 bytes of
 * another one. */
static uint64_t
hash_of(enum topic_kind kind, const struct set *set)
{
    return (uintptr_t)set / 16 + kind;
}

struct topic *
topic_look(struct hub *hub, enum topic_kind kind, const struct set *set)
{
    struct topic *topic;

    map_each_same (topic, &hub->topics_of_sets, hash_of(kind, set), of_set) {
        if (topic->kind == kind && topic->set == set)
            return topic;
    }
    return NULL;
}

static struct topic *
make_topic(struct hub *hub, enum topic_kind kind, const char *epoch)
{
    struct topic *topic = memory_new(1, sizeof(*topic));

    topic->hub = hub;
    topic->kind = kind;
    memcpy(topic->epoch, epoch, sizeof(topic->epoch));
    watched_channel_init(&topic->news, &hub->readers);
    list_append(&hub->topics, &topic->node);
    list_init(&topic->subscriptions);
    list_init(&topic->requests);
    list_init(&topic->busy);
    return topic;
}

enum status
topic_of_set(struct hub *hub, enum topic_kind kind, struct set *set,
             struct topic **result, struct problem *why)
{
    struct topic *topic = topic_look(hub, kind, set);
    struct head head, head_of_set;

    *result = topic;
    if (!log_head(set->log, &head_of_set))
        return problem(why, STATUS_NOT_FOUND, "there is no set %s", set->name);
    if (topic)
        return STATUS_OK;
    log_head(kind == TOPIC_FRAMEWORK ? set->registry->framework->log : set->log,
             &head);
    topic = make_topic(hub, kind, head.origin);
    topic->set = set;
    map_add(&hub->topics_of_sets, &topic->of_set, hash_of(kind, set));
    hub->n_framework_topics += kind == TOPIC_FRAMEWORK;
    *result = topic;
    return STATUS_OK;
}

struct topic *
topic_of_foreign(struct hub *hub, struct foreign_topic *foreign)
{
    if (!foreign->topic) {
        foreign->topic = make_topic(hub, TOPIC_FOREIGN, foreign->epoch);
        foreign->topic->foreign = foreign;
        foreign->news = &foreign->topic->news.watched;
    }
    return foreign->topic;
}

void
topic_release(struct topic *topic)
{
    if (!list_is_empty(&topic->subscriptions) ||
        !list_is_empty(&topic->requests) || topic->n_holds > 0)
        return;
    watched_end(&topic->news.watched);
    topic->hub->n_framework_topics -= topic->kind == TOPIC_FRAMEWORK;
    if (topic->kind == TOPIC_FOREIGN) {
        topic->foreign->topic = NULL;
        topic->foreign->news = NULL;
    }
    if (topic->set)
        map_remove(&topic->hub->topics_of_sets, &topic->of_set);
    list_remove(&topic->node);
    free(topic->links);
    free(topic);
}

/* By its URL */

static enum status
not_found(const struct hub *hub, struct slice url, struct problem *why)
{
    return problem(why, STATUS_NOT_FOUND,
                   "there is no topic \"%s\" here: those of sets begin with "
                   "%s/sets/",
                   problem_quote(url).text, hub->registry->options.public_url);
}

enum status
topic_find(struct hub *hub, struct slice url, const struct principal *principal,
           struct topic **topic, struct problem *why)
{
    const char *public_url = hub->registry->options.public_url;
    struct foreign_topic *foreign =
        foreign_topic_of_url(&hub->foreign_topics, url);
    struct websub_comparable ours, theirs;
    struct slice prefix, rest, name;
    struct link_text changes, framework;
    struct set *set = NULL;

    if (foreign) {
        *topic = topic_of_foreign(hub, foreign);
        return STATUS_OK;
    }
    prefix = slice_of(websub_comparable(&ours, slice_of(public_url)));
    rest = slice_of(websub_comparable(&theirs, url));
    if (prefix.size > 0 && prefix.data[prefix.size - 1] == '/')
        prefix.size--; /* the normal form adds a path */
    if (rest.size < prefix.size || memcmp(rest.data, prefix.data, prefix.size))
        return not_found(hub, url, why);
    slice_skip(&rest, prefix.size);
    if (!slice_starts(rest, "/"))
        return not_found(hub, url, why);
    if (!slice_skip_start(&rest, "/sets/"))
        return problem(why, STATUS_INVALID,
                       "\"%.60s\" is no topic: those are %s/sets/{set}"
                       "/notifications and .../framework-notifications",
                       problem_quote(url).text, public_url);
    name = slice_take_until(&rest, "/");
    if (set_name_is_valid(name))
        set = registry_find(hub->registry, name, NULL);
    if (!set || (principal && !set_is_visible(set, principal)))
        return not_found(hub, url, why);
    if (slice_is(rest, "/notifications"))
        return topic_of_set(hub, TOPIC_CHANGES, set, topic, why);
    if (slice_is(rest, "/framework-notifications"))
        return topic_of_set(hub, TOPIC_FRAMEWORK, set, topic, why);
    changes = link_to(public_url, LINK_NOTIFICATIONS, set->name, NULL, 0);
    framework =
        link_to(public_url, LINK_FRAMEWORK_NOTIFICATIONS, set->name, NULL, 0);
    return problem(why, STATUS_INVALID,
                   "\"%.60s\" is no topic: subscribe to %s, or, to hear of "
                   "lists and descriptions, to %s",
                   problem_quote(url).text, changes.text, framework.text);
}

/* URLs */

static void
write_link(struct buf *to, const struct topic *topic, enum link_kind kind)
{
    struct link_text link =
        link_to(topic->hub->registry->options.public_url, kind,
                kind == LINK_HUB ? NULL : topic->set->name, NULL, 0);

    buf_add_slice(to, link_slice(&link));
}

struct slice
topic_name(const struct topic *topic)
{
    return slice_of(topic->kind == TOPIC_FOREIGN ? topic->foreign->name
                                                 : topic->set->name);
}

bool
topic_admits(const struct topic *topic, struct subscriber_token *owner,
             int64_t now_us)
{
    struct tokens *tokens = topic->hub->tokens;
    struct principal *p = owner->principal;
    /* A private set is for tokens alone. */
    bool is_private =
        topic->kind != TOPIC_FOREIGN && set_is_private(topic->set);

    if (!tokens || (p && !principal_is_over(p, now_us)))
        return true;
    if (p)
        owner->ends_us = 0;
    principal_unref(p);
    owner->principal = NULL;
    if (principal_is_outside(subscriber_token_name(owner)))
        return now_us < owner->ends_us;
    p = tokens_owner(tokens, slice_of(subscriber_token_name(owner)), now_us);
    if (p && principal_sees(p, topic_name(topic), is_private)) {
        owner->principal = p;
        return true;
    }
    principal_unref(p);
    return false;
}

void
topic_write_url(struct buf *to, const struct topic *topic)
{
    if (topic->kind == TOPIC_FOREIGN)
        buf_add_text(to, topic->foreign->url);
    else
        write_link(to, topic,
                   topic->kind == TOPIC_CHANGES ? LINK_NOTIFICATIONS
                                                : LINK_FRAMEWORK_NOTIFICATIONS);
}

void
topic_write_hub(struct buf *to, const struct topic *topic)
{
    if (topic->kind == TOPIC_FOREIGN)
        buf_add_text(to, topic->foreign->hub_url);
    else
        write_link(to, topic, LINK_HUB);
}

/* Reading */

struct channel
topic_channel(const struct topic *topic)
{
    struct channel channel = {
        .kind = topic->kind,
        .set = topic->set,
        .source = topic->foreign,
        .end = topic->is_ending ? topic->end : UINT64_MAX,
        .is_local = topic->kind == TOPIC_FOREIGN,
    };

    memcpy(channel.epoch, topic->epoch, sizeof(channel.epoch));
    return channel;
}

/* Looks up the head of the channel's log. Returns false if the set or relay is
 * gone; a framework topic ends with its set. */
static bool
look_at_head(const struct channel *channel, struct head *head)
{
    const struct foreign_topic *foreign = channel->source;
    bool exists;

    if (channel->kind == TOPIC_FOREIGN) {
        *head = (struct head){.exists = foreign->state != FOREIGN_GONE,
                              .last = foreign->kept.last,
                              .earliest = foreign->kept.earliest};
        memcpy(head->epoch, channel->epoch, sizeof(head->epoch));
        return head->exists;
    }
    exists = log_head(channel->set->log, head);
    if (channel->kind == TOPIC_FRAMEWORK)
        log_head(channel->set->registry->framework->log, head);
    return exists;
}

static bool
channel_head(const struct channel *channel, uint64_t *last)
{
    struct head head;

    if (channel->end != UINT64_MAX) {
        *last = channel->end;
        return true;
    }
    if (!look_at_head(channel, &head))
        return false;
    *last = head.last;
    return true;
}

bool
topic_head(const struct topic *topic, uint64_t *last)
{
    const struct channel channel = topic_channel(topic);

    return channel_head(&channel, last);
}

void
topic_epoch(const struct topic *topic, char to[EPOCH_SIZE + 1])
{
    const struct channel channel = topic_channel(topic);
    struct head head;

    look_at_head(&channel, &head);
    memcpy(to, head.epoch, sizeof(head.epoch));
}

/* A log without entries has changed its origin, too. */
bool
topic_has_epoch(const struct topic *topic, struct slice epoch)
{
    const struct channel channel = topic_channel(topic);
    struct head head;

    if (slice_is(epoch, topic->epoch))
        return true;
    look_at_head(&channel, &head);
    return slice_is(epoch, head.former);
}

uint64_t
topic_earliest(const struct topic *topic)
{
    const struct channel channel = topic_channel(topic);
    struct head head;

    look_at_head(&channel, &head);
    return head.earliest;
}

/* The removal's event was committed with the removal, and is the set's last:
 * later events with its name concern another set. */
void
topic_end(struct topic *topic)
{
    if (topic->is_ending)
        return;
    topic->end = framework_event_last(topic->set);
    topic->is_ending = true;
    watched_mark(&topic->news.watched);
}

enum status
topic_judge(const struct topic *topic, struct slice position, uint64_t *after,
            struct problem *why)
{
    const struct channel channel = topic_channel(topic);
    struct head head;

    if (!look_at_head(&channel, &head))
        return problem(why, STATUS_NOT_FOUND, "there is no %s %.*s",
                       topic->kind == TOPIC_FOREIGN ? "relay" : "set",
                       SLICE_ARG(topic_name(topic)));
    return positions_judge(&head, position, after, why);
}

/* Reads from a set. A fixed range is written whole, whatever the limit is now:
 * it was within the limit of its time. */
static enum status
read_set(struct shared_message *message, enum log_patience patience,
         struct buf *to, struct problem *why)
{
    const struct shared_wish *wish = &message->wish;
    const struct channel *channel = &wish->channel;
    bool is_fixed = wish->upto != UINT64_MAX;
    struct message_wish content = {
        .set = channel->set,
        .form = (enum message_form)wish->form,
        .after = wish->after,
        .upto = wish->upto < channel->end ? wish->upto : channel->end,
        .filter = channel->kind == TOPIC_CHANGES ? wish->filter : NULL,
        .reached = wish->reached,
        .is_silent = true,
        .is_heartbeat = wish->is_heartbeat,
        .max_bytes =
            is_fixed ? SIZE_MAX : channel->set->registry->config->message_bytes,
        .patience = patience,
        .is_framework = channel->kind == TOPIC_FRAMEWORK,
    };
    struct message made;
    struct head head;
    enum status rc = message_open(&made, &content, why);

    snprintf(message->type, sizeof(message->type), "%s",
             message_forms[content.form].type);
    if (!rc) {
        message->last = made.last;
        message->n_entries = made.n_entries;
        message->committed_us = made.size > 0 ? made.committed_us : 0;
        message_copy(&made, to);
        slice_copy(message->traceparent, sizeof(message->traceparent),
                   message_traceparent(&made));
        message_close(&made);
    }
    if (rc != STATUS_GONE)
        return rc;
    if (!look_at_head(channel, &head) && channel->kind != TOPIC_FRAMEWORK)
        return STATUS_NOT_FOUND; /* `why` says that the set was removed */
    message->last = head.earliest;
    return STATUS_GONE;
}

enum status
topic_make(struct shared_message *message, enum log_patience patience,
           struct problem *why)
{
    const struct shared_wish *wish = &message->wish;
    struct foreign_topic *foreign = wish->channel.source;
    uint64_t head = 0, after = wish->after;
    const char *type = "";
    struct buf text = {.max = MESSAGE_MAX};
    enum status rc;

    channel_head(&wish->channel, &head); /* before reading: see is_full */
    if (wish->channel.kind == TOPIC_FOREIGN) {
        rc = foreign_topic_read(foreign, after, &text, &type, why);
        message->last =
            rc == STATUS_GONE
                ? foreign->kept.earliest
                : after + (text.size > 0 || after < foreign->kept.last);
        message->n_entries = text.size > 0;
        snprintf(message->type, sizeof(message->type), "%s", type);
    } else {
        rc = read_set(message, patience, &text, why);
    }
    if (!rc && text.failed)
        rc = problem_memory(why);
    if (rc) {
        buf_fini(&text);
        return rc;
    }
    message->is_full = wish->upto == UINT64_MAX && message->last < head;
    message->data = text.data; /* taken over */
    message->size = text.size;
    return STATUS_OK;
}

/* News */

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

static void
listen_to_framework(struct hub *hub)
{
    struct framework *f = &hub->framework;
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
    list_walk (topic, &hub->topics, node) {
        if (topic->kind != TOPIC_FRAMEWORK)
            continue;
        list_walk (s, &topic->subscriptions, key.of_topic) {
            if (reader_start(&s->reader) < f->seen)
                f->seen = reader_start(&s->reader);
        }
    }
    if (f->seen < head.last)
        look_again(hub);
}

void
framework_restart(struct hub *hub)
{
    framework_close(hub);
    hub->framework.reading = NULL;
    if (hub->n_framework_topics > 0)
        listen_to_framework(hub);
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
    struct subscription *s;
    bool is_new = false;

    if (watched_is_marked(&topic->news.watched))
        return;
    list_walk (s, &topic->news.resting, reader.node) {
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
    struct set *set;

    if (slice_is(tag, CHANNEL_TAG_SOURCE)) {
        list_walk (topic, &hub->topics, node) {
            if (topic->kind == TOPIC_FRAMEWORK)
                mark_concerned(topic, seq);
        }
    } else if (slice_skip_start(&tag, CHANNEL_TAG_SET)) {
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
    struct topic *topic;
    struct head head;

    log_head(f->log, &head);
    f->seen = rc == STATUS_GONE && head.earliest > f->seen ? head.earliest
                                                           : head.last;
    list_walk (topic, &hub->topics, node) {
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
        enum status rc =
            log_read(hub->registry->log, f->log, f->seen, LOG_MEMORY, &b, NULL);

        if (rc == STATUS_AGAIN) {
            f->reading = memory_new(1, sizeof(*f->reading));
            f->reading->hub = hub;
            f->reading->log = hub->registry->log;
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

void
topic_listen(struct topic *topic)
{
    if (topic->kind == TOPIC_CHANGES)
        watched_listen(&topic->news.watched, topic->set->log);
    else if (topic->kind == TOPIC_FRAMEWORK)
        listen_to_framework(topic->hub);
}

#include "broker/readers/shared_messages.h"

/* A message being made on the worker pool, or about to be. */
struct load {
    struct job job;
    struct list node; /* in messages->queued or ->running */
    struct list waiters;
    bool is_suspect; /* in messages->queued[true] */
    struct shared_messages *messages;
    struct shared_message *message;
    struct filter_class *filter; /* a reference to the wish's */
    enum status status;
    struct problem why;
};

static uint64_t
filter_id(const struct shared_wish *wish)
{
    return wish->filter ? wish->filter->id : 0;
}

static struct shared_message *
message_new(const struct shared_wish *wish)
{
    struct shared_message *message = memory_new(1, sizeof(*message));

    list_init(&message->node);
    list_init(&message->idle);
    message->wish = *wish;
    message->filter_id = filter_id(wish);
    return message;
}

static void
message_free(struct shared_message *message)
{
    if (!message)
        return;
    free(message->data);
    free(message);
}

static bool
is_same_channel(const struct channel *a, const struct channel *b)
{
    return a->kind == b->kind && a->set == b->set &&
           !strcmp(a->epoch, b->epoch);
}

bool
shared_wish_equals(const struct shared_wish *a, const struct shared_wish *b)
{
    return is_same_channel(&a->channel, &b->channel) && a->after == b->after &&
           a->upto == b->upto && a->filter == b->filter &&
           a->reached == b->reached && a->form == b->form &&
           a->is_heartbeat == b->is_heartbeat && a->since_us == b->since_us;
}

/* Finds the load that makes the message of that wish, or is about to. */
static struct load *
find_load(const struct shared_messages *messages,
          const struct shared_wish *wish)
{
    const struct list *const all[] = {
        &messages->running, &messages->queued[false], &messages->queued[true]};
    struct load *l;

    for (size_t i = 0; i < N_ELEMENTS(all); i++)
        list_walk (l, all[i], node)
            if (shared_wish_equals(&l->message->wish, wish))
                return l;
    return NULL;
}

/* Finding */

/* Messages that could serve the same wish are in the same bucket. */
static struct list *
bucket_of(struct shared_messages *messages, const struct channel *channel,
          uint64_t filter, uint64_t start)
{
    uint64_t key = start * 31 + filter * 7;

    for (const char *c = channel->epoch; *c; c++)
        key = key * 31 + (unsigned char)*c;
    return &messages->buckets[key % SHARED_MESSAGES_BUCKETS];
}

/* An empty message serves every wish that starts at the same entry, wherever
 * the previous message ended. */
bool
shared_message_serves(const struct shared_message *message,
                      const struct shared_wish *wish)
{
    const struct shared_wish *made = &message->wish;

    return is_same_channel(&made->channel, &wish->channel) &&
           message->filter_id == filter_id(wish) && made->form == wish->form &&
           shared_wish_start(made) == shared_wish_start(wish) &&
           (made->after == wish->after || message->size == 0) &&
           (wish->upto == UINT64_MAX || wish->upto == message->last);
}

/* Removes the message from the idle ones. */
static void
remove_idle(struct shared_messages *messages, struct shared_message *message)
{
    if (list_is_empty(&message->idle))
        return;
    list_remove(&message->idle);
    messages->n_idle--;
    messages->idle_bytes -= message->size;
}

struct shared_message *
shared_messages_find(struct shared_messages *messages,
                     const struct shared_wish *wish, uint64_t least)
{
    struct list *all = bucket_of(messages, &wish->channel, filter_id(wish),
                                 shared_wish_start(wish));
    struct shared_message *message;

    if (wish->is_heartbeat)
        return NULL;
    list_walk (message, all, node) { /* the newest first */
        if (shared_message_serves(message, wish) &&
            (wish->upto != UINT64_MAX || message->is_full ||
             message->last >= least)) {
            remove_idle(messages, message);
            message->guards++;
            return message;
        }
    }
    return NULL;
}

/* Keeping */

static bool
is_held(const struct shared_message *message)
{
    return message->holders[false] + message->holders[true] > 0;
}

static void
drop_oldest(struct shared_messages *messages)
{
    struct shared_message *message =
        list_entry(messages->idle.next, struct shared_message, idle);

    remove_idle(messages, message);
    list_remove(&message->node);
    message_free(message);
}

/* If nobody holds the message, adds it to the idle ones, and drops the oldest
 * idle ones above the limits. Frees a message that nobody finds. */
static void
rest_unheld(struct shared_messages *messages, struct shared_message *message)
{
    if (is_held(message) || message->guards > 0 ||
        !list_is_empty(&message->idle))
        return;
    if (list_is_empty(&message->node)) {
        message_free(message);
        return;
    }
    list_append(&messages->idle, &message->idle);
    messages->n_idle++;
    messages->idle_bytes += message->size;
    while (messages->n_idle > SHARED_MESSAGES_KEPT ||
           messages->idle_bytes > SHARED_MESSAGES_KEPT_BYTES)
        drop_oldest(messages);
}

/* Adds a new message, with a guard. */
static void
adopt_message(struct shared_messages *messages, struct shared_message *message)
{
    uint64_t start = shared_wish_start(&message->wish);

    if (!message->wish.is_heartbeat && message->last != start)
        list_prepend(bucket_of(messages, &message->wish.channel,
                               message->filter_id, start),
                     &message->node);
    message->guards++;
}

void
shared_messages_settle(struct shared_messages *messages,
                       struct shared_message *message)
{
    message->guards--;
    rest_unheld(messages, message);
}

bool
shared_messages_have_room(const struct shared_messages *messages,
                          const struct shared_message *message, bool is_suspect)
{
    if (is_suspect && !(message && message->holders[true] > 0) &&
        messages->suspect_bytes >= messages->max_bytes / 2)
        return false;
    return (message && is_held(message)) ||
           messages->held_bytes < messages->max_bytes;
}

void
shared_messages_hold(struct shared_messages *messages,
                     struct shared_message *message, bool is_suspect)
{
    remove_idle(messages, message);
    if (!is_held(message))
        messages->held_bytes += message->size;
    if (is_suspect && message->holders[true] == 0)
        messages->suspect_bytes += message->size;
    message->holders[is_suspect]++;
}

void
shared_messages_release(struct shared_messages *messages,
                        struct shared_message *message, bool is_suspect)
{
    message->holders[is_suspect]--;
    if (is_suspect && message->holders[true] == 0)
        messages->suspect_bytes -= message->size;
    if (is_held(message))
        return;
    messages->held_bytes -= message->size;
    holding_end(&message->payer);
    rest_unheld(messages, message);
}

/* Making */

/* Logs why a message could not be made, if that is a failure of ours. */
static void
report_failure(const struct shared_messages *messages,
               const struct shared_wish *wish, enum status rc,
               const struct problem *why)
{
    const struct set *set = wish->channel.set;

    if (rc && rc != STATUS_AGAIN && rc != STATUS_GONE && rc != STATUS_NOT_FOUND)
        DIAG(DIAG_ERROR, messages->calls->part, "cannot read for subscribers",
             diag_text("set", set ? set->name : ""),
             diag_text("error", why->text));
}

enum status
shared_messages_make(struct shared_messages *messages,
                     struct shared_message **result,
                     const struct shared_wish *wish)
{
    struct shared_message *message;
    struct problem why = {""};
    enum status rc;

    *result = NULL;
    if (find_load(messages, wish))
        return STATUS_AGAIN;
    message = message_new(wish);
    rc = messages->calls->make(message, LOG_MEMORY, &why);
    report_failure(messages, wish, rc, &why);
    if (rc) {
        message_free(message);
    } else {
        adopt_message(messages, message);
        *result = message;
    }
    return rc;
}

/* Loads */

/* NULL as its message: somebody has taken it. */
static void
load_free(struct load *l)
{
    list_remove(&l->node);
    filter_class_unref(l->filter);
    message_free(l->message);
    free(l);
}

/* On a worker. */
static void
make_message(struct job *job)
{
    struct load *l = list_entry(job, struct load, job);

    l->status = l->messages->calls->make(l->message, LOG_DISK, &l->why);
}

/* Finds the next load to begin; NULL: none, or no room. Frees loads that no
 * reader waits for any more. */
static struct load *
next_load(struct shared_messages *messages)
{
    for (int is_suspect = 0; is_suspect < 2; is_suspect++) {
        struct load *l;

        list_walk (l, &messages->queued[is_suspect], node) {
            if (list_is_empty(&l->waiters))
                load_free(l);
            else if (shared_messages_have_room(messages, NULL, is_suspect))
                return l;
            else
                break;
        }
    }
    return NULL;
}

/* Begins at the front each time: a load may end at once, if there is no memory
 * for a job, and change the list. */
void
shared_messages_go_on(struct shared_messages *messages)
{
    struct load *l;

    if (messages->calls->is_stopping && messages->calls->is_stopping(messages))
        return; /* begin none that the end would wait for */
    while (messages->n_running < SHARED_MESSAGES_LOADS &&
           (l = next_load(messages))) {
        l->is_suspect = false;
        list_put(&messages->running, &l->node);
        messages->n_running++;
        messages->calls->work(messages, &l->job);
    }
}

static void
on_made(struct job *job)
{
    struct load *l = list_entry(job, struct load, job);
    struct shared_messages *messages = l->messages;
    struct shared_message *message = NULL;

    list_remove(&l->node);
    messages->n_running--;
    report_failure(messages, &l->message->wish, l->status, &l->why);
    if (!l->status) {
        message = l->message;
        l->message = NULL;
        adopt_message(messages, message);
    }
    messages->loaded(message, l->status, &l->waiters);
    if (message)
        shared_messages_settle(messages, message);
    load_free(l);
    shared_messages_go_on(messages);
}

void
shared_messages_load(struct shared_messages *messages,
                     const struct shared_wish *wish, bool is_suspect,
                     struct list *waiter)
{
    struct load *l = find_load(messages, wish);

    if (!l) {
        l = memory_new(1, sizeof(*l));
        l->message = message_new(wish);
        l->messages = messages;
        l->filter = filter_class_ref(wish->filter);
        l->job.work = make_message;
        l->job.done = on_made;
        list_init(&l->waiters);
        l->is_suspect = is_suspect;
        list_append(&messages->queued[is_suspect], &l->node);
    }
    if (l->is_suspect && !is_suspect) {
        l->is_suspect = false; /* a healthy one waits for it, too */
        list_put(&messages->queued[false], &l->node);
    }
    list_append(&l->waiters, waiter);
    shared_messages_go_on(messages);
}

/* Life */

void
shared_messages_init(struct shared_messages *messages,
                     const struct shared_calls *calls, shared_loaded_fn *loaded,
                     size_t max_bytes)
{
    memset(messages, 0, sizeof(*messages));
    messages->calls = calls;
    messages->loaded = loaded;
    messages->max_bytes = max_bytes;
    list_init(&messages->idle);
    for (size_t i = 0; i < SHARED_MESSAGES_BUCKETS; i++)
        list_init(&messages->buckets[i]);
    list_init(&messages->queued[false]);
    list_init(&messages->queued[true]);
    list_init(&messages->running);
}

void
shared_messages_fini(struct shared_messages *messages)
{
    for (int i = 0; i < 2; i++)
        while (!list_is_empty(&messages->queued[i]))
            load_free(list_entry(messages->queued[i].next, struct load, node));
    while (!list_is_empty(&messages->idle))
        drop_oldest(messages);
}

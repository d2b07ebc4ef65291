#include "broker/readers/reader.h"

/* Positions */

void
reader_init(struct reader *r, struct watched_channel *channel, uint64_t after,
            void (*on_ready)(struct reader *))
{
    *r = (struct reader){.channel = channel,
                         .on_ready = on_ready,
                         .after = after,
                         .reached = after,
                         .since_us = DATETIME_NONE};
    list_init(&r->node);
}

struct shared_wish
reader_wish(const struct reader *r)
{
    return (struct shared_wish){
        .after = r->after,
        .upto = r->upto ? r->upto : UINT64_MAX,
        .filter = r->filter,
        .reached = r->reached,
        .form = r->form,
        .is_heartbeat = r->wants_heartbeat && !r->upto,
        .since_us = r->since_us,
    };
}

void
reader_release(struct reader *r)
{
    struct shared_message *message = r->message;

    list_remove(&r->node);
    r->state = READER_READY;
    r->message = NULL;
    if (message)
        shared_messages_release(&r->channel->readers->messages, message,
                                r->is_suspect);
}

void
reader_move(struct reader *r, uint64_t after)
{
    reader_release(r);
    r->after = r->reached = after;
    r->upto = 0;
}

void
reader_advance(struct reader *r)
{
    r->wants_heartbeat = false;
    r->since_us = DATETIME_NONE;
    reader_move(r, r->message->last);
}

/* The next message */

void
reader_hold(struct reader *r, struct shared_message *message)
{
    list_remove(&r->node);
    shared_messages_hold(&r->channel->readers->messages, message,
                         r->is_suspect);
    if (r->client && !message->payer.client)
        holding_restore(&message->payer, clients_of(r->client), r->client,
                        CLIENT_BODIES, message->size);
    r->message = message;
    r->state = READER_READY;
}

/* True if the reader may hold the message, or make one (NULL). A client leaves
 * room for others. A message that somebody has paid for takes none. */
static bool
has_room(const struct reader *r, const struct shared_message *message)
{
    const struct shared_messages *all = &r->channel->readers->messages;

    return shared_messages_have_room(all, message, r->is_suspect) &&
           (!r->client || (message && message->payer.client) ||
            client_leaves_room(client_held(r->client, CLIENT_BODIES),
                               all->max_bytes - all->held_bytes));
}

static enum reader_state
set_state(struct reader *r, enum reader_state state)
{
    r->state = state;
    return state;
}

static enum reader_state
wait_in(struct list *list, struct reader *r, enum reader_state state)
{
    list_append(list, &r->node);
    return set_state(r, state);
}

static enum reader_state
fail_reader(struct reader *r, enum status rc)
{
    return set_state(r, rc == STATUS_GONE        ? READER_GONE
                        : rc == STATUS_NOT_FOUND ? READER_REMOVED
                                                 : READER_FAILED);
}

/* True if a message decides the next step. False: the filter passes nothing
 * of it, and the search goes on behind it. */
static bool
take_message(struct reader *r, struct shared_message *message)
{
    if (r->upto && (message->size == 0 || message->last != r->upto)) {
        r->upto = 0; /* the log has changed */
        set_state(r, READER_FAILED);
    } else if (message->size > 0) {
        reader_hold(r, message);
    } else if (message->last <= reader_start(r)) {
        set_state(r, READER_FAILED); /* more exists, but none was read */
    } else {
        r->reached = message->last;
        return false;
    }
    return true;
}

static bool
is_at(const struct reader *r, uint64_t head)
{
    return !r->upto && !r->wants_heartbeat && reader_start(r) >= head;
}

/* Finds or makes a message, which is then guarded. STATUS_AGAIN: it must be
 * loaded. STATUS_BUSY: there is no room. */
static enum status
find_message(struct reader *r, const struct shared_wish *wish, uint64_t head,
             bool may_make, struct shared_message **found)
{
    struct readers *readers = r->channel->readers;
    struct shared_messages *messages = &readers->messages;

    *found = shared_messages_find(messages, wish,
                                  readers->calls->wants_newest ? head : 0);
    if (!has_room(r, *found)) {
        if (*found)
            shared_messages_settle(messages, *found);
        return STATUS_BUSY;
    }
    if (*found)
        return STATUS_OK;
    return may_make ? shared_messages_make(messages, found, wish)
                    : STATUS_AGAIN;
}

/* Finds the next message in memory, or makes it if `may_make`. If it can do
 * neither, the worker pool makes it, if `may_load`. After READER_LATER the
 * reader may have been freed. */
static enum reader_state
search_message(struct reader *r, bool may_make, bool may_load)
{
    struct readers *readers = r->channel->readers;

    for (;; may_make = false) {
        struct shared_wish wish = reader_wish(r);
        struct shared_message *message;
        uint64_t head;
        bool is_taken;
        enum status rc;

        if (!readers->calls->look(r, &wish.channel, &head))
            return set_state(r, READER_REMOVED);
        if (is_at(r, head))
            return wait_in(&r->channel->resting, r, READER_HEAD);
        rc = find_message(r, &wish, head, may_make || wish.channel.is_local,
                          &message);
        if (rc == STATUS_BUSY)
            return wait_in(&readers->starving[r->is_suspect], r, READER_LATER);
        if (rc == STATUS_AGAIN && !may_load)
            return set_state(r, READER_READY);
        if (rc == STATUS_AGAIN) {
            /* The load may end before this returns, and the reader be freed. */
            set_state(r, READER_LATER);
            shared_messages_load(&readers->messages, &wish, r->is_suspect,
                                 &r->node);
            return READER_LATER;
        }
        if (rc)
            return fail_reader(r, rc);
        is_taken = take_message(r, message);
        shared_messages_settle(&readers->messages, message);
        if (is_taken)
            return r->state;
    }
}

static bool
is_decided(const struct reader *r)
{
    return r->state != READER_READY || r->message;
}

enum reader_state
reader_next(struct reader *r)
{
    return is_decided(r) ? r->state : search_message(r, true, true);
}

enum reader_state
reader_try(struct reader *r)
{
    return is_decided(r) ? r->state : search_message(r, true, false);
}

enum reader_state
reader_rest(struct reader *r)
{
    struct channel channel;
    uint64_t head;

    if (!r->channel->readers->calls->look(r, &channel, &head))
        return READER_REMOVED;
    if (!is_at(r, head))
        return READER_READY;
    return wait_in(&r->channel->resting, r, READER_HEAD);
}

/* Waking */

/* Gives a reader the message it waited for. If its wish is another one by now
 * (a renewal may change the filter), it asks anew. */
static enum reader_state
take_loaded(struct reader *r, struct shared_message *message)
{
    struct readers *readers = r->channel->readers;
    struct shared_wish wish = reader_wish(r);
    uint64_t head;

    if (!readers->calls->look(r, &wish.channel, &head))
        return set_state(r, READER_REMOVED);
    if (!shared_message_serves(message, &wish) &&
        !shared_wish_equals(&message->wish, &wish))
        return search_message(r, true, true);
    if ((r->is_suspect || r->client) && !has_room(r, message))
        return wait_in(&readers->starving[r->is_suspect], r, READER_LATER);
    return take_message(r, message) ? r->state : search_message(r, false, true);
}

static void
on_loaded(struct shared_message *message, enum status status,
          struct list *waiters)
{
    struct reader *r;

    list_drain (r, waiters, node) {
        if ((message ? take_loaded(r, message) : fail_reader(r, status)) !=
            READER_LATER)
            r->on_ready(r);
    }
}

void
readers_go_on(struct readers *readers)
{
    for (int is_suspect = 0; is_suspect < 2; is_suspect++) {
        struct list waiting;
        struct reader *r;

        list_init(&waiting);
        list_move(&waiting, &readers->starving[is_suspect]);
        list_drain (r, &waiting, node) {
            if (!has_room(r, NULL))
                list_append(&readers->starving[is_suspect], &r->node);
            else if (search_message(r, true, true) != READER_LATER)
                r->on_ready(r);
        }
    }
    shared_messages_go_on(&readers->messages);
}

void
watched_channel_wake(struct watched_channel *channel, unsigned most)
{
    struct reader *r;

    list_move(&channel->waking, &channel->resting);
    list_until_empty (r, &channel->waking, node) {
        if (most-- == 0) {
            watched_mark(&channel->watched);
            return;
        }
        /* Asks for the cache lines of the next reader, and of its owner around
         * it, while on_ready of this one is busy with a socket: in a crowd they
         * are cold. */
        for (int at = -128; at <= 64; at += 64)
            __builtin_prefetch((const char *)r->node.next + at);
        list_remove(&r->node);
        r->state = READER_READY;
        r->on_ready(r);
    }
}

/* Life */

void
watched_channel_init(struct watched_channel *channel, struct readers *readers)
{
    channel->readers = readers;
    watched_init(&channel->watched, &readers->watcher);
    list_init(&channel->resting);
    list_init(&channel->waking);
}

void
readers_init(struct readers *readers, const struct reader_calls *calls,
             size_t max_bytes, void (*wake)(struct watcher *))
{
    readers->calls = calls;
    watcher_init(&readers->watcher, wake);
    shared_messages_init(&readers->messages, &calls->shared, on_loaded,
                         max_bytes);
    list_init(&readers->starving[false]);
    list_init(&readers->starving[true]);
}

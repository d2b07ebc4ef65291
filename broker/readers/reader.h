/*
 * reader.h - one reader of a channel: how far it has read, and which message
 * comes next.
 *
 *     reader_next --> READY    holds a message: the owner passes it on, and
 *                              calls reader_advance
 *                     HEAD     rests until there is news, then on_ready
 *                     LATER    waits for a load or for room, then on_ready
 *                     GONE, REMOVED, FAILED
 *
 * The state stays until the owner calls reader_advance or reader_move (to
 * continue elsewhere) or reader_release (to ask anew at the same place).
 *
 * The position has three parts. All entries up to `after` were passed on. No
 * entry from there up to `reached` passes the filter: this saves searching them
 * again. `upto`, unless it is 0, fixes the end of the next message: a message
 * that was begun, or announced, comes again with the same bytes. If it cannot,
 * the reader fails, and `upto` is 0.
 *
 * A reader whose filter passes nothing of a part of the log searches on, on the
 * worker pool: neither the owner's thread nor other readers wait for it.
 *
 * All readers of a thread share its messages (shared_messages.h), and the
 * readers of a channel its watch (marks.h): a commit costs one mark, however
 * many rest there. A thread owns all of it.
 */
#pragma once

#include "broker/readers/marks.h"
#include "broker/readers/shared_messages.h"

enum reader_state {
    READER_READY,   /* may ask; or holds a message */
    READER_HEAD,    /* has everything, and rests */
    READER_LATER,   /* its message is being made, or waits for room */
    READER_GONE,    /* the next entries are no longer retained */
    READER_REMOVED, /* the channel was removed */
    READER_FAILED   /* no memory, no disk, or no more such message (`upto`) */
};

struct reader {
    struct list node;                /* HEAD, LATER: where it waits */
    struct watched_channel *channel; /* what it reads */

    /* Called when HEAD or LATER ends: ask reader_next. It may free the
     * reader. */
    void (*on_ready)(struct reader *reader);

    struct shared_message *message; /* held; or NULL */
    struct filter_class *filter;    /* lent; NULL: all pass */
    struct client *client; /* lent; pays for messages that it is the first to
                              hold (CLIENT_BODIES); NULL: nobody does */

    uint64_t after, reached, upto; /* see above */
    int64_t since_us; /* where its next heartbeat is to be, as in shared_wish;
                         DATETIME_NONE: where it reads */
    enum reader_state state;
    uint8_t kind;         /* the owner's: for reader_calls.look */
    uint8_t form;         /* see shared_wish */
    bool is_suspect;      /* its last message could not be passed on; changes
                             only while it holds none */
    bool wants_heartbeat; /* the next message is one, unless `upto` is set */
};

/* A channel on one thread: a member of the struct that knows the channel. */
struct watched_channel {
    struct readers *readers; /* of the thread */
    struct watched_log watched;
    struct list resting; /* readers at the head */
    struct list waking;  /* those of them that have not yet looked at news */
};

struct reader_calls {
    struct shared_calls shared;

    /* Sets what the reader reads, and the last entry that it may read now.
     * False: it was removed. */
    bool (*look)(const struct reader *reader, struct channel *channel,
                 uint64_t *head);

    /* Each message is to have all entries up to the head: for readers to whom a
     * message is dear. Otherwise a reader takes one that others got before,
     * and the rest with the next. */
    bool wants_newest;
};

/* All readers of one thread. */
struct readers {
    const struct reader_calls *calls;
    struct watcher watcher;
    struct shared_messages messages;
    struct list starving[2]; /* readers that wait for room: healthy, suspect */
};

/* `max_bytes` is for messages in memory; `wake` is the watcher's. */
void readers_init(struct readers *readers, const struct reader_calls *calls,
                  size_t max_bytes, void (*wake)(struct watcher *));

/* After messages were released: lets the starving readers ask again, healthy
 * ones first, for whose client there is room, and begins loads. */
void readers_go_on(struct readers *readers);

void watched_channel_init(struct watched_channel *channel,
                          struct readers *readers);

/* After news: wakes the readers at the head, at most `most`. If more rest, it
 * marks the channel, and a later call wakes those. A reader that rests again
 * meanwhile is not woken twice. */
void watched_channel_wake(struct watched_channel *channel, unsigned most);

/* A reader that has read up to `after`; the caller sets filter and flags. */
void reader_init(struct reader *reader, struct watched_channel *channel,
                 uint64_t after, void (*on_ready)(struct reader *));

/* The entry behind which it begins to search. */
static inline uint64_t
reader_start(const struct reader *reader)
{
    return reader->reached > reader->after ? reader->reached : reader->after;
}

/* Decides what comes next. A reader that waits, or has failed, still does. */
enum reader_state reader_next(struct reader *reader);

/* The same from memory only. READY without a message: it must be loaded
 * (reader_next does). */
enum reader_state reader_try(struct reader *reader);

/* HEAD: it has everything, and rests. READY: it has not; it does not look for
 * a message yet. REMOVED: it does not rest. For a reader that asks. */
enum reader_state reader_rest(struct reader *reader);

/* The message that it wants; `channel` is not set. */
struct shared_wish reader_wish(const struct reader *reader);

/* Gives it a message which its owner has made. */
void reader_hold(struct reader *reader, struct shared_message *message);

/* Its message was passed on. */
void reader_advance(struct reader *reader);

/* It waits no longer, and holds nothing: before its owner frees it, or asks
 * anew. */
void reader_release(struct reader *reader);

/* The same, and it continues behind `after`. */
void reader_move(struct reader *reader, uint64_t after);

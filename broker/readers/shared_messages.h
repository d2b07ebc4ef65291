/*
 * shared_messages.h - messages that are made once for all readers of a thread
 * at the same position. A message is never changed, and is shared while a
 * reader holds it.
 *
 *     find --> none --> make --> adopt --> hold ... release --> idle --> freed
 *      |                  |                 ^                    |
 *      |                  +-- AGAIN: load --+  (worker pool)     |
 *      +---------------------- found -------+--------------------+
 *
 * The channel, the filter, the form and the covered range (after, last]
 * determine the bytes of a message, so a released message can be made again. If
 * a filter passes nothing of a part of the log, the message is empty: it is not
 * sent, and its `last` says how far that part reaches.
 *
 * Memory: held messages count. A new message is made while their bytes are
 * below `max_bytes`; so one message, or the messages being loaded at that
 * moment, may exceed it. Suspects (readers whose last try failed) may hold at
 * most half of it: however many of them hang, the others have room (W-092). A
 * few messages that nobody holds are kept for readers that reach the same
 * position a little later. A message without entries is only true for its
 * moment: a heartbeat, or an empty message at the head. Nobody finds it, and it
 * is freed when nobody holds it.
 *
 * Loads: a message whose entries are not in memory, or take long to search, is
 * made on the worker pool. Readers with the same wish share one load; a load
 * that no reader waits for any more is not begun. At most
 * SHARED_MESSAGES_LOADS run at once: the rest of the worker pool stays free for
 * documents when all readers are behind. A load begins when there is room for
 * its message. A load that only suspects wait for begins when there is no
 * other.
 *
 * One thread owns all of it, except that `make` runs on the worker pool.
 */
#pragma once

#include "base/loop.h"
#include "broker/log/log.h"
#include "broker/sets/filters.h"
#include "broker/sets/registry.h"
#include "proto/resourcesync/position.h"

/* Limits of the messages that are kept although nobody holds them. */
#define SHARED_MESSAGES_KEPT       32
#define SHARED_MESSAGES_KEPT_BYTES ((size_t)4 << 20)

#define SHARED_MESSAGES_LOADS   2
#define SHARED_MESSAGES_BUCKETS 512

/* What a message is read from. A value, because a load may outlive the topic
 * of its readers; sets live as long as the registry. */
struct channel {
    unsigned kind;              /* the owner's */
    struct set *set;            /* or NULL: the owner's `source` */
    void *source;               /* for `make` */
    char epoch[EPOCH_SIZE + 1]; /* distinguishes two sources */
    uint64_t end;               /* the last entry that is ever read; UINT64_MAX:
                                   there is none */
    bool is_local;              /* its owner's thread reads it, and no worker */
};

/* The message that a reader wants. */
struct shared_wish {
    struct channel channel;
    uint64_t after; /* covers the entries after this one ... */
    uint64_t upto;  /* ... to exactly this one; UINT64_MAX: as many as fit */
    struct filter_class *filter; /* lent; NULL: all pass */
    uint64_t reached;  /* beyond `after`: none up to this one passes */
    unsigned form;     /* the owner's: two forms are two messages */
    bool is_heartbeat; /* a heartbeat instead (message.h), ... */
    int64_t since_us;  /* ... at the last entry not later than this time;
                          DATETIME_NONE: at `reached` */
};

struct shared_message {
    struct list node;        /* in its bucket; alone: nobody finds it */
    struct list idle;        /* in messages->idle, least recently held first; or
                                alone */
    struct shared_wish wish; /* its filter may be gone: compare filter_id */
    uint64_t filter_id;      /* 0: none */

    /* `make` sets these. */
    uint64_t last;        /* the last entry it covers */
    bool is_full;         /* it ended at the size limit, not at the head */
    uint64_t n_entries;   /* that it has */
    int64_t committed_us; /* commit time of its first entry (batch.h); 0:
                             unknown */
    char type[128];       /* Content-Type */
    char traceparent[TRACEPARENT_SIZE + 1]; /* of all its entries; "": none, or
                                               several; empty before */
    char *data;
    size_t size; /* 0: nothing is sent */

    unsigned holders[2];  /* counts of healthy holders and of suspects */
    struct holding payer; /* the client of its first holder, with its bytes */
    unsigned guards;      /* callers that are about to hold it */
};

struct shared_messages;

/* What the owner provides. */
struct shared_calls {
    const char *part; /* of log lines */

    /* Makes the message of message->wish. The owner's thread gives LOG_MEMORY,
     * a worker LOG_DISK. STATUS_AGAIN (LOG_MEMORY): a load must make it.
     * STATUS_GONE: no longer retained. STATUS_NOT_FOUND: the channel is
     * gone. */
    enum status (*make)(struct shared_message *message,
                        enum log_patience patience, struct problem *why);

    void (*work)(struct shared_messages *messages, struct job *job);

    /* True: no load begins any more. NULL: loads always begin. */
    bool (*is_stopping)(struct shared_messages *messages);
};

/* Called after a load with its message, which is guarded; or with NULL, and the
 * status of `make`. `waiters` has the nodes of shared_messages_load that their
 * owners have not removed; the callee empties it. */
typedef void shared_loaded_fn(struct shared_message *message,
                              enum status status, struct list *waiters);

struct shared_messages {
    const struct shared_calls *calls;
    shared_loaded_fn *loaded;
    struct list buckets[SHARED_MESSAGES_BUCKETS];
    struct list idle;
    unsigned n_idle;
    size_t idle_bytes;
    size_t held_bytes, suspect_bytes; /* held by anybody; held by suspects */
    size_t max_bytes;

    struct list queued[2]; /* loads for a healthy reader; for suspects only */
    struct list running;
    unsigned n_running;
};

void shared_messages_init(struct shared_messages *messages,
                          const struct shared_calls *calls,
                          shared_loaded_fn *loaded, size_t max_bytes);

/* No message is held, and no load runs any more. */
void shared_messages_fini(struct shared_messages *messages);

/* Finds an existing message for a wish and guards it; NULL if there is none.
 * One that ended before `least`, and not at the size limit, lacks newer entries
 * and does not serve, unless the wish says where it ends. */
struct shared_message *shared_messages_find(struct shared_messages *messages,
                                            const struct shared_wish *wish,
                                            uint64_t least);

/* Makes a message from memory, and guards it. The errors are those of `make`,
 * and in the log, if they are of the broker. STATUS_AGAIN also while a load
 * makes it. */
MUST_CHECK enum status shared_messages_make(struct shared_messages *messages,
                                            struct shared_message **message,
                                            const struct shared_wish *wish);

/* Ends the guard: from now on only its holders keep the message. */
void shared_messages_settle(struct shared_messages *messages,
                            struct shared_message *message);

bool shared_wish_equals(const struct shared_wish *a,
                        const struct shared_wish *b);

/* True if the message serves this wish. */
bool shared_message_serves(const struct shared_message *message,
                           const struct shared_wish *wish);

/* True if one more message (NULL: a new one) may be held. */
bool shared_messages_have_room(const struct shared_messages *messages,
                               const struct shared_message *message,
                               bool is_suspect);

void shared_messages_hold(struct shared_messages *messages,
                          struct shared_message *message, bool is_suspect);
void shared_messages_release(struct shared_messages *messages,
                             struct shared_message *message, bool is_suspect);

/* Makes a message on the worker pool, and appends `waiter` to the list of its
 * waiters, from which the owner may remove it at any time. */
void shared_messages_load(struct shared_messages *messages,
                          const struct shared_wish *wish, bool is_suspect,
                          struct list *waiter);

/* Bytes of all messages, held or kept. */
static inline size_t
shared_messages_bytes(const struct shared_messages *messages)
{
    return messages->held_bytes + messages->idle_bytes;
}

/* Begins the loads that may run: after messages were released. */
void shared_messages_go_on(struct shared_messages *messages);

/* The entry behind which a reader begins to search. */
static inline uint64_t
shared_wish_start(const struct shared_wish *wish)
{
    return wish->reached > wish->after ? wish->reached : wish->after;
}

static inline struct slice
shared_message_slice(const struct shared_message *message)
{
    return (struct slice){message->data, message->size};
}

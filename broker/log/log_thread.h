/*
 * log_thread.h - the log thread: takes waiting posts, stamps them, makes one
 * transaction of them, publishes, answers.
 *
 * It is the only writer of the log, and the only one that assigns seqs, event
 * times and list numbers. All posts that wait when a round begins share its one
 * fsync. The thread never waits for another thread, and for a network only
 * where several brokers share a journal (journal.h): then it waits for its
 * turn, and the round has the posts that came meanwhile, too.
 *
 *     submit -> queue -> [ take -> stamp into batches -> engine commit ->
 *                          publish (tail) -> post->done ] -> again
 *
 * The announcement of the round (log_options.on_acts) is placed last. The
 * thread publishes it after it has published and answered all else.
 *
 * Lines of posts (post.h): the thread places posts of all sets in the order of
 * their submission. If a post fails before that, the thread answers it and
 * breaks its line before it looks at the next post. A placed post fails only
 * with its whole round, and so with all posts placed behind it. The next round
 * begins when the posts of the failed one are answered.
 *
 * What a crash leaves: before the commit, nothing; after it, everything, though
 * without answers: a source without an answer may post again, with the same key
 * (idempotency.h).
 */
#pragma once

#include <pthread.h>

#include "base/thread.h"
#include "broker/log/engine.h"
#include "broker/log/idempotency.h"
#include "broker/log/log.h"
#include "broker/log/order.h"
#include "broker/log/sequencer.h"
#include "broker/log/tail.h"

/* The bytes of closed lists that have no file yet.
 *
 * Their entries take room in tidings.db. While they have more bytes than a
 * limit, changes wait for their turn at the log thread: a source that posts
 * faster than lists are filed is slowed down to the pace of the filing. Acts
 * are committed as always. If a list cannot be filed, nothing waits: posts do
 * not hang on a directory that refuses a file.
 *
 * The log thread adds, the archive thread takes away. A list of a removed set
 * leaves when no list waits for its file any more.
 */

/* Relaxed: what the log thread sees too late costs a round. */
struct unfiled_bytes {
    int64_t max_bytes; /* 0: no limit */
    _Atomic(int64_t) bytes;
    atomic_bool has_failed; /* the last list could not be filed */
};

void unfiled_bytes_init(struct unfiled_bytes *b, uint64_t max_bytes,
                        uint64_t bytes);

/* A list of so many bytes was closed; less than 0: it has its file, or needs
 * none any more. */
void unfiled_bytes_add(struct unfiled_bytes *b, int64_t bytes);

/* There was no list without a file when the backlog had `seen` bytes. */
void unfiled_bytes_clear(struct unfiled_bytes *b, int64_t seen);

/* True if changes are to wait. */
bool unfiled_bytes_is_full(const struct unfiled_bytes *b);

struct log_thread {
    struct engine *engine;
    struct tails *tails;
    const struct log_options *options;
    struct unfiled_bytes *unfiled;
    const struct list *sets;     /* of the log: all */
    pthread_mutex_t *sets_mutex; /* guards it */
    struct thread thread;

    /* The queue has posts without a wake-up of the log thread. The submitter
     * that sets the flag clears it later; any other thread that clears it wakes
     * the log thread. */
    atomic_bool is_owed_a_wake;

    /* For log_health: written by the log thread, read by any. Relaxed: each
     * value stands alone. */
    atomic_bool has_room;
    _Atomic(int64_t) latest_us; /* the last event time of any set */

    /* For log_births. Release: a reader that sees a round counted also sees its
     * sets begun. */
    _Atomic(uint64_t) births;

    pthread_mutex_t mutex; /* guards the next two */
    struct list queue;     /* of posts */
    atomic_bool is_ending; /* the log thread reads it without the mutex */

    /* The log thread's: the reasons to refuse posts, and whether it reported
     * that it refuses. */
    struct post *last_again; /* the last post of the round before, which this
                                one repeats as it was; or NULL */
    bool is_full;    /* the engine has no room, or not enough yet to be well */
    bool has_failed; /* the last commit that had posts */
    bool is_refusing;

    struct order order;

    /* The round's, the log thread's own. */
    int64_t committed_us; /* on the steady clock */
    struct list waiting;  /* posts of later rounds */
    struct list held;     /* earlier ones, while the backlog is full */
    struct sequencer sequencer;
    struct idempotency_shares key_shares;
    struct post *announcement; /* the last of its posts; or NULL */
};

/* Starts the log thread; the other fields are set. */
MUST_CHECK enum status log_thread_start(struct log_thread *t,
                                        struct problem *why);

/* See log_submit and log_submit_later. */
MUST_CHECK enum status log_thread_submit(struct log_thread *t,
                                         struct post *post, bool wake,
                                         struct problem *why);

/* Has the thread look whether held posts may go on. Harmless when it stops or
 * has stopped. Any thread. */
void log_thread_look_again(struct log_thread *t);

/* Takes no more posts, commits and answers the queued ones, ends the thread.
 * Harmless if it never started, or has stopped. */
void log_thread_stop(struct log_thread *t);

/* After log_thread_stop. */
void log_thread_fini(struct log_thread *t);

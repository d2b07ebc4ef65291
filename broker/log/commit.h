/*
 * commit.h - the log thread: takes what waits, stamps it, makes one transaction
 * of it, publishes, answers.
 *
 * It is the only writer of the log, and the only one that gives seqs, event
 * times and list numbers. Everything that waits when a round begins shares the
 * round's one fsync. It never waits for a network or for another thread.
 *
 *     submit -> queue -> [ take -> stamp into batches -> engine commit ->
 *                          publish (tail) -> post->done ] -> again
 *
 * What is to be told of the round itself (log_options.on_acts) is placed into
 * it last, and published when all else is and was answered.
 *
 * Lines of posts (post.h): posts are looked at in the order they were
 * submitted, whatever sets they are for. One that fails before it is placed is
 * answered, and its line broken, before the next is looked at. One that was
 * placed fails with its round, as a whole: with all that was placed behind it;
 * and the next round begins when that one's posts are answered.
 *
 * What a crash leaves: before the commit, nothing; after it, everything, though
 * nobody was answered: a source that did not get an answer does not know, and
 * may post again, with the key that it gave the post (keys.h).
 */
#ifndef BROKER_LOG_COMMIT_H
#define BROKER_LOG_COMMIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/thread.h"
#include "broker/log/acts.h"
#include "broker/log/engine.h"
#include "broker/log/log.h"
#include "broker/log/tail.h"

struct committer {
    struct engine *engine;
    struct tails *tails;
    const struct log_options *options;
    struct thread thread;

    /* Posts are in the queue for which nobody has woken the thread. Who sets it
     * also clears it, later; another one who clears it wakes. */
    atomic_bool is_owed_a_wake;

    /* What log_health tells: written by the log thread, read by any. Relaxed:
     * each says something by itself. */
    atomic_bool has_room;
    _Atomic(int64_t) latest_us; /* the last event time of any set */

    pthread_mutex_t mutex; /* guards the next two */
    struct list queue;     /* of posts */
    bool is_ending;

    /* The log thread's: the reasons to refuse posts, and whether it reported
     * that it refuses. */
    bool is_full;    /* the engine has no room, or not enough yet to be well */
    bool has_failed; /* the last commit that had posts */
    bool is_refusing;

    /* The round's, the log thread's own. */
    int64_t committed_us; /* on the steady clock */
    struct list touched;  /* of sets */
    struct list waiting;  /* posts of later rounds */
    struct acts acts;
    struct post *told; /* what is told of it, the last of its posts; or NULL */
};

/* Starts the log thread; the other fields are set. */
MUST_CHECK enum status committer_start(struct committer *c,
                                       struct problem *why);

/* See log_submit, log_submit_later, log_submit_again and log_wake. */
MUST_CHECK enum status committer_submit(struct committer *c, struct post *post,
                                        bool wake);
void committer_submit_again(struct committer *c, struct post *post);
void committer_wake(struct committer *c);

/* Takes no more, commits and answers what was taken, ends the thread. Harmless
 * if it never started, or has stopped. */
void committer_stop(struct committer *c);

/* After committer_stop. */
void committer_fini(struct committer *c);

#endif

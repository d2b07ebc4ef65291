/*
 * post.h - a post to the log thread: a source's changes, or another act that
 * needs its place in the order of the log.
 */
#pragma once

#include "base/list.h"
#include "broker/log/act.h"
#include "broker/log/head.h"
#include "broker/log/journal.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/position.h"

struct authority;
struct client;
struct key_share;
struct log_set;

enum post_kind {
    POST_CHANGES, /* append `fragments`; a set that is new begins with them */
    POST_CLOSE, /* end the open list, unless it is empty or not number `list` */
    POST_SETTINGS, /* keep `settings`; a set that is new begins with them */
    POST_ACT,      /* do `act`. Behind a removal of its set a post gets
                      STATUS_GONE */
    POST_RECORD    /* follow `record`: a commit of another broker. Has no set */
};

/* The log commits the posts of one line in the order of submission. If one
 * fails for a reason that may pass (any but STATUS_INVALID and STATUS_GONE,
 * which the owner handles), those behind it get STATUS_BUSY. The owner waits
 * for all of them and then mends the line. The log thread owns the line while
 * posts are on their way. */
struct post_line {
    bool is_broken;
};

/* An event among the changes of a post, with a key of its own (idempotency.h):
 * its entries come next in the post, and the log adds them unless it has the
 * event. */
struct post_event {
    struct digest key;     /* of what the source calls it */
    struct digest entries; /* of its entries, as post.entries */
    size_t n_fragments;
    bool is_twin; /* an earlier event of the post is the same */

    /* The log thread's. If it has the event, where its entries are. */
    bool is_known;
    uint64_t first, last;
    int64_t last_us;
};

/* Lives inside its owner's struct. From log_submit to `done` it is the log's.
 */
struct post {
    struct list node; /* the queue's */
    enum post_kind kind;
    struct log_set *set;

    /* The post is refused if that has ended when its turn comes: STATUS_DENIED.
     * Lent; NULL: the broker's own. */
    const struct authority *authority;

    /* POST_CHANGES: fragments with holes, one after the other in `bytes`. */
    struct buf bytes;
    struct fragment *fragments;
    size_t n_fragments;

    /* POST_CHANGES: the source's key for this post and the name of its owner,
     * lent; empty: no key, no name. And a digest of its entries: a repeat has
     * the same (idempotency.h). */
    struct slice key, key_owner;
    struct digest entries;

    /* POST_CHANGES without a key: the events that its changes are; lent. */
    struct post_event *events;
    size_t n_events;

    /* POST_CHANGES in a cluster: the content of its entries, which its record
     * brings to the other brokers (contents_carry): each a struct content_fact
     * whose `seq` is the number of its fragment, from 0; its bytes are the next
     * ones of content_bytes. */
    struct buf contents, content_bytes;
    size_t carried, carried_bytes; /* the log thread's: of these, placed */

    /* POST_CHANGES: the key counts for this client, lent; NULL: for none. */
    struct client *client;
    struct key_share *key_share; /* the log thread's: idempotency.h */

    /* POST_CHANGES: of the thread that files lists, so it must not wait for
     * their files (log_thread.h). */
    bool is_never_held;

    struct post_line *line; /* POST_CHANGES; lent; NULL: in none */

    /* POST_CLOSE: the number of the list to end, 0: of whichever is open. */
    uint64_t list;
    uint64_t ended; /* the log thread writes the one that ended; 0: none */

    /* POST_RECORD: lent, with the place that it leads to. Nothing happens if
     * the log is there already. STATUS_AGAIN: records before it are missing. */
    struct slice record;
    struct journal_place place;

    const struct act *act; /* POST_ACT; lent: its kind and "given" fields */
    int64_t grace_us;      /* POST_ACT: trash stays for so long */

    /* POST_SETTINGS: a text that the log keeps and does not read, and the
     * limits that it means for the lists, from the next commit on. */
    struct slice settings;
    struct list_limits limits;

    /* POST_SETTINGS: sets both, or refuses the post: returns another status
     * than STATUS_OK and writes `why`. The log thread calls it after it has
     * published all earlier posts to the set and called their `done`, so that
     * new settings can depend on those that the set has. It calls it again if
     * the round begins anew, when the set may have others. It may read the
     * disk. NULL: the owner has set both. */
    enum status (*prepare)(struct post *post);

    /* Called on the log thread when all is on disk, or refused as a whole. */
    void (*done)(struct post *post);

    /* The outcome, set before `done`. */
    enum status status; /* STATUS_BUSY: the disk is full; STATUS_INVALID: the
                           key was given to other entries; STATUS_GONE: the set
                           was removed; STATUS_STOPPED */
    struct problem why;
    char epoch[EPOCH_SIZE + 1];
    uint64_t first, last; /* the seqs that the entries got */
    int64_t last_us;      /* T(last) */
    bool is_birth;        /* the set began with this post */
    bool is_repeat;       /* earlier posts with its keys have this outcome */
    size_t n_known;       /* events that the log had, if it had not all */
};

/* Each key of a post costs the log something. */
static inline size_t
post_n_keys(const struct post *post)
{
    return post->n_events > 0 ? post->n_events : post->key.size > 0;
}

/*
 * uploads.h - uploads of complete sets, from the request to the changes that
 * are posted.
 *
 *              service thread                    archive thread
 *   uploads_begin --> (arrives) --> uploads_hand_over --> at work --> on_done
 *         |                |                                 |
 *         |                +-- uploads_give_up               +-- the end of the
 *         +-- STATUS_RUNNING: of a set one at a time             process: goes
 *                                                                on at the next
 *                                                                start
 *
 * After the hand-over an upload no longer needs its request: its files
 * (broker/state/upload_file.h) are in DATA/uploads.
 */
#pragma once

#include <pthread.h>

#include "base/thread.h"
#include "broker/archive/chore.h"
#include "broker/archive/state_fold.h"
#include "broker/sets/registry.h"
#include "proto/resourcesync/position.h"

/* Uploads at work at once, of all sets: each takes some memory. */
#define UPLOADS_MAX 16

/* Percent of a state's resources that an upload may delete by default, and how
 * many it may delete in any case. */
#define UPLOADS_MAX_DELETE 20
#define UPLOADS_FEW        3

struct upload_apply;
struct uploads;

/* Resources of an upload. */
struct upload_counts {
    uint64_t created, updated, deleted; /* changes to post */
    uint64_t unchanged;
    uint64_t newer;     /* differ, but are left alone */
    uint64_t held_back; /* deletions not to post */
};

/* The outcome. */
struct upload_outcome {
    enum status status;
    struct problem why;
    struct upload_counts counts; /* posted, or held back */
    uint64_t resources; /* of the state before, without those that others have
                           changed meanwhile */
    char epoch[EPOCH_SIZE + 1]; /* "": the set does not exist yet */
    uint64_t first, last;       /* seqs of the posted changes, also if it
                                   failed later; 0: none */
    uint64_t head;              /* the end of the log then */
};

/* An upload at work. */
struct upload {
    struct list node;
    char name[SET_NAME_MAX + 1];
    struct client *client; /* creator of the set, if the upload makes it; owned
                              reference; NULL: the last process began it */
    struct authority *authority; /* asked at each commit; likewise */
    bool is_whole;               /* the archive thread's from now on */
    int64_t not_before_us;
    void (*on_done)(const struct upload_outcome *outcome, void *user);
    void *user;
    struct upload_outcome outcome; /* so far, of the present attempt */
};

struct uploads {
    struct chore chore;
    struct registry *registry;
    struct state_fold *folding; /* lent */
    struct thread *thread;      /* the archive thread: to be woken; lent */
    char dir[4096 + 16];        /* the folder of the uploads' files */
    pthread_mutex_t mutex;
    struct list list;
    unsigned n;
    bool is_ending;

    /* The archive thread's */
    struct upload *current;
    struct upload_apply *apply; /* of the current one */
};

/* Finds the complete uploads that the last process left. */
MUST_CHECK enum status uploads_init(struct uploads *uploads,
                                    struct registry *registry,
                                    struct state_fold *folding,
                                    struct thread *thread, struct problem *why);
void uploads_fini(struct uploads *uploads);

/* Any thread */

/* Begins an upload of `client`, which takes effect while `authority` lasts:
 * STATUS_DENIED in the outcome, perhaps behind some changes. STATUS_RUNNING:
 * the set has one at work; STATUS_BUSY: too many are at work.
 */
MUST_CHECK enum status uploads_begin(struct uploads *uploads, struct slice name,
                                     struct client *client,
                                     struct authority *authority,
                                     struct upload **upload,
                                     struct problem *why);

/* Abandons an upload that left no file. */
void uploads_give_up(struct uploads *uploads, struct upload *upload);

/* Hands over an upload that is complete on the disk (upload_file_finish). The
 * archive thread calls `on_done` once, with the outcome. The caller must not
 * touch the upload any more. STATUS_STOPPED: it goes on at the next start. */
void uploads_hand_over(struct uploads *uploads, struct upload *upload,
                       void (*on_done)(const struct upload_outcome *outcome,
                                       void *user),
                       void *user);

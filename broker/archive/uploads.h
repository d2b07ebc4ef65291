/*
 * uploads.h - what sources tell whole, from the request that brings it to the
 * changes that come of it.
 *
 *              service thread                    archive thread
 *   uploads_begin --> (arrives) --> uploads_hand_over --> at work --> on_done
 *         |                |                                 |
 *         |                +-- uploads_give_up               +-- the end of the
 *         +-- STATUS_RUNNING: of a set one at a time             process: goes
 *                                                                on at the next
 *                                                                start
 *
 * Once handed over it needs nobody who waits for it: the files of
 * broker/state/staging.h are in DATA/uploads.
 */
#ifndef BROKER_ARCHIVE_UPLOADS_H
#define BROKER_ARCHIVE_UPLOADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "broker/archive/chore.h"
#include "broker/archive/folding.h"
#include "broker/sets/registry.h"
#include "broker/state/difference.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* At work at once, of all sets: each takes some memory. */
#define UPLOADS_MAX 16

/* A state's resources that may go without being asked for, in percent. */
#define UPLOADS_MAX_DELETE 20

struct taking;
struct uploads;

/* What came of it. */
struct upload_outcome {
    enum status status;
    struct problem why;
    struct difference_counts counts; /* told; where it is refused, found */
    uint64_t resources;              /* of the state before */
    bool is_guarded;                 /* refused: too much would go */
    char epoch[EPOCH_SIZE + 1];      /* "": the set is not there, still */
    uint64_t first, last;            /* seqs of what was told, before it failed,
                                        too; 0: nothing was */
    uint64_t head;                   /* then, where the log ends */
};

/* One that is at work. */
struct upload {
    struct list node;
    char name[SET_NAME_MAX + 1];
    bool is_whole; /* the archive thread's from now on */
    int64_t not_before_us;
    void (*on_done)(const struct upload_outcome *outcome, void *user);
    void *user;
};

struct uploads {
    struct chore chore;
    struct registry *registry;
    struct folding *folding; /* lent */
    struct thread *thread;   /* the archive thread: to be woken; lent */
    char dir[4096 + 16];
    pthread_mutex_t mutex;
    struct list list;
    unsigned n;
    bool is_ending;

    struct taking *taking; /* the archive thread's: the one it is at */
    struct upload *taken;
};

/* Finds what was whole when the last process ended. */
MUST_CHECK enum status uploads_init(struct uploads *uploads,
                                    struct registry *registry,
                                    struct folding *folding,
                                    struct thread *thread, struct problem *why);
void uploads_fini(struct uploads *uploads);

/* Any thread */

/* The folder of their files. */
const char *uploads_dir(const struct uploads *uploads);

/* STATUS_RUNNING: there is one of that set; STATUS_BUSY: too many are at work.
 */
MUST_CHECK enum status uploads_begin(struct uploads *uploads, struct slice name,
                                     struct upload **upload,
                                     struct problem *why);

/* It has come to nothing, and left nothing. */
void uploads_give_up(struct uploads *uploads, struct upload *upload);

/* It is whole, on the disk: staging_finish. `on_done` is called once, on the
 * archive thread, with what came of it; the upload must not be touched any
 * more. STATUS_STOPPED: not before the next start. */
void uploads_hand_over(struct uploads *uploads, struct upload *upload,
                       void (*on_done)(const struct upload_outcome *outcome,
                                       void *user),
                       void *user);

#endif

/*
 * checking.h - posts without content to sets that keep what comes inline: is
 * all there that they tell of?
 *
 *     ingest_end --> checking_take --> [its thread: contents_find] --> the log
 *                                                             \--> refused
 *
 * A thread of its own, because nobody who reads posts may wait for a disk, and
 * the archive thread may lag. Posts are looked at in the order in which they
 * come, so those of a line keep theirs. What is found is claimed until the
 * entries that tell of it are folded.
 *
 * The resources of such a set that are told whole are looked at while they
 * arrive, as each has to be there: checking_resources.
 */
#ifndef BROKER_ARCHIVE_CHECKING_H
#define BROKER_ARCHIVE_CHECKING_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/thread.h"
#include "broker/archive/contents.h"
#include "broker/sets/registry.h"
#include "broker/state/staging.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/status.h"

struct checking {
    struct registry *registry;
    struct contents *contents;
    struct thread thread;
    pthread_mutex_t mutex;
    struct list list; /* of ingests */
    bool is_ending;
};

/* Becomes the registry's checker. */
MUST_CHECK enum status checking_init(struct checking *checking,
                                     struct registry *registry,
                                     struct contents *contents,
                                     struct problem *why);

/* Answers those that it has, and takes no more. Harmless if it never began; the
 * registry may ask it still. */
void checking_stop(struct checking *checking);
void checking_fini(struct checking *checking);

/* Resources told whole, of a set with CONTENT_INLINE. */

/* What a resource tells; STATUS_INVALID: not its SHA-256. Any thread. */
MUST_CHECK enum status checking_digest(struct slice set_name,
                                       const struct change *change,
                                       struct digest *digest,
                                       struct problem *why);

/* Are the bytes of the resources of a block there, whose `digests` are as many?
 * `first` is the number of the first one. *claim: NULL before the first block;
 * then what was found is claimed, until contents_end; behind the last one,
 * contents_sync. May block. */
MUST_CHECK enum status
checking_resources(struct registry *registry, struct contents *contents,
                   struct slice set_name, const struct block *block,
                   const struct digest *digests, uint64_t first,
                   struct content_claim **claim, struct problem *why);

#endif

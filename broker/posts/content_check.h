/*
 * content_check.h - checks posts without content to sets with CONTENT_INLINE:
 * does the set have all content that the entries describe?
 *
 *     ingest_end --> take_post --> [its thread: contents_find] --> the log
 *                                                             \--> refused
 *
 * Checks run on a thread of their own, because a thread that reads posts must
 * not wait for a disk, and the archive thread may lag. The thread checks posts
 * in the order of their arrival, so the posts of a line keep their order.
 * Pins protect the files found until the entries are folded.
 *
 * An upload of the complete set is checked while it arrives: the content of
 * each resource must be there (content_check_resources).
 */
#pragma once

#include <pthread.h>

#include "base/thread.h"
#include "broker/archive/contents.h"
#include "broker/posts/posts.h"
#include "broker/sets/registry.h"
#include "broker/state/upload_file.h"
#include "proto/resourcesync/digest.h"

struct content_check {
    struct posts *posts; /* NULL: it has not begun */
    struct contents *contents;
    struct thread thread;
    pthread_mutex_t mutex;
    struct list list; /* of ingests */
    bool is_ending;
};

/* Becomes the checker of the posts, and starts its thread. */
MUST_CHECK enum status content_check_init(struct content_check *checking,
                                          struct posts *posts,
                                          struct contents *contents,
                                          struct problem *why);

/* Answers the posts that it has, and takes no more. Harmless if it never began.
 * Posts may still come to the checker, which refuses them. */
void content_check_stop(struct content_check *checking);
void content_check_fini(struct content_check *checking);

/* An upload of a complete set with CONTENT_INLINE. */

/* Reads the digest of a resource. STATUS_INVALID: it has no SHA-256. Any
 * thread. */
MUST_CHECK enum status content_check_digest(struct slice set_name,
                                            const struct change *change,
                                            struct digest *digest,
                                            struct problem *why);

/* Resources of an upload. Lends. */
struct content_block {
    struct slice set_name;
    const struct block *resources;
    const struct digest *digests; /* one of each resource */
    uint64_t first;               /* the number of the first resource */
};

/* Checks that the content of the resources of a block is there. *pin is NULL
 * before the first block; then it keeps the files found, until contents_end.
 * The caller calls contents_sync after the last block. May block. */
MUST_CHECK enum status
content_check_resources(struct registry *registry, struct contents *contents,
                        const struct content_block *block,
                        struct content_pin **pin, struct problem *why);

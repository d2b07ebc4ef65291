/*
 * claims.h - which files of which sets somebody has claimed: contents.h.
 *
 * A file that is to go is "going" while the archive thread looks whether a row
 * tells of it and takes it away; who wants to claim that very file waits for
 * it. Nothing else waits, and the mutex is never held for a disk.
 */
#ifndef BROKER_ARCHIVE_CLAIMS_H
#define BROKER_ARCHIVE_CLAIMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/sets/registry.h"
#include "broker/state/content_files.h"
#include "proto/hash.h"

#define CLAIMS_BUCKETS 4096

struct claimed; /* a file, and how many claims it has */

struct content_claim {
    struct list node;
    struct claims *claims;
    struct set *set;
    struct claimed **files;
    size_t n_files, capacity;
    struct content_touched touched;
    bool has_ended;
    uint64_t last; /* contents_end */
};

struct claims {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct claimed *buckets[CLAIMS_BUCKETS];
    struct list all;
    bool is_shut;
    const struct set *going_set; /* NULL: nothing is */
    struct digest going;
};

void claims_init(struct claims *claims);
void claims_fini(struct claims *claims); /* those that have not ended, too */

/* Archive thread */

/* The first claim that has ended, of which `may_end` says yes, taken out of the
 * claims; NULL: none. Its files stay claimed, each until claims_release. */
struct content_claim *
claims_ended(struct claims *claims,
             bool (*may_end)(const struct content_claim *claim, void *user),
             void *user);

/* It is put back. */
void claims_keep(struct content_claim *claim);

/* Its last file is claimed by it no more; false: it has none, and was freed.
 * *digest: which. */
bool claims_release(struct content_claim *claim, struct digest *digest);

/* All of its files are, and it is freed. */
void claims_drop(struct content_claim *claim);

/* The file is going until claims_gone. false: it is claimed. */
bool claims_go(struct claims *claims, const struct set *set,
               const struct digest *digest);
void claims_gone(struct claims *claims);

/* New claims wait from the one to the other; false, and none waits: that set
 * has some (NULL: those that are there do not matter). */
bool claims_shut(struct claims *claims, const struct set *set);
void claims_unshut(struct claims *claims);

/* Any thread: contents.h */

MUST_CHECK enum status claims_begin(struct claims *claims, struct set *set,
                                    struct content_claim **claim,
                                    struct problem *why);

#endif

/*
 * claims.h - the files of sets that are claimed: contents.h.
 *
 * A file is "going" while the archive thread looks for a row that names it and
 * deletes it. A thread that wants to claim that very file waits. Nothing else
 * waits, and no thread holds the mutex while it waits for a disk.
 */
#ifndef BROKER_ARCHIVE_CLAIMS_H
#define BROKER_ARCHIVE_CLAIMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "broker/sets/registry.h"
#include "broker/state/content_files.h"
#include "proto/resourcesync/digest.h"

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
    struct map files; /* struct claimed */
    struct list all;
    bool is_shut;
    const struct set *going_set; /* NULL: nothing is */
    struct digest going;
};

void claims_init(struct claims *claims);
void claims_fini(struct claims *claims); /* open claims, too */

/* Archive thread */

/* Takes the first ended claim that `may_end` accepts out of the claims; NULL:
 * none. Its files stay claimed, each until claims_release. */
struct content_claim *
claims_ended(struct claims *claims,
             bool (*may_end)(const struct content_claim *claim));

/* Puts the claim back. */
void claims_keep(struct content_claim *claim);

/* Releases one file of the claim, and sets *digest to it. Returns false if none
 * was left; the claim is then freed. */
bool claims_release(struct content_claim *claim, struct digest *digest);

/* Releases all files of the claim and frees it. */
void claims_drop(struct content_claim *claim);

/* Marks the file as going until claims_gone. Returns false if it is claimed. */
bool claims_go(struct claims *claims, const struct set *set,
               const struct digest *digest);
void claims_gone(struct claims *claims);

/* Makes new claims wait from claims_shut to claims_unshut. Returns false, and
 * makes none wait, if `set` has claims (NULL: existing claims do not
 * matter). */
bool claims_shut(struct claims *claims, const struct set *set);
void claims_unshut(struct claims *claims);

/* Any thread: contents.h */

MUST_CHECK enum status claims_begin(struct claims *claims, struct set *set,
                                    struct content_claim **claim,
                                    struct problem *why);

#endif

/*
 * compare.h - a mirror against what its source has.
 *
 *     book of the mirror --+
 *                          +-- by loc --> findings
 *     book of the source --+
 *     files in DIR ---------- by path --> what is nobody's
 */
#ifndef CLIENT_MIRROR_COMPARE_H
#define CLIENT_MIRROR_COMPARE_H

#include "client/mirror/mirror.h"

struct comparison {
    struct td_client *client;
    struct shelf *shelf;
    struct book *mine;
    struct book *theirs;
    const struct td_audit_options *options;
    struct buf lost;    /* int64_t each: resources of `mine` whose file is not
                           there, or not what it was */
    struct buf strays;  /* paths, terminated: files that are nobody's */
    uint64_t n_removed; /* resources of `mine` that the source does not have */
    struct td_audit_result *result; /* counts are added to it */
    struct failure why;
};

/* Tells the findings. Reads only, and turns the loop meanwhile. `lost` and
 * `strays` are the caller's, to be freed. False: it cannot be done,
 * comparison->why says why. */
bool compare(struct comparison *comparison);

#endif

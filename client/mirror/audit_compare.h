/*
 * audit_compare.h - compares a mirror with its source.
 *
 *     database of the mirror --+
 *                          +-- by loc --> findings
 *     database of the source --+
 *     files in DIR ---------- by path --> files without a resource
 */
#ifndef CLIENT_MIRROR_AUDIT_COMPARE_H
#define CLIENT_MIRROR_AUDIT_COMPARE_H

#include "client/mirror/mirror.h"

struct comparison {
    struct td_client *client;
    struct mirror_dir *dir;
    struct mirror_db *mine;
    struct mirror_db *theirs;
    const struct td_audit_options *options;
    struct buf lost;    /* int64_t each: resources of `mine` whose file is
                           missing or changed */
    struct buf strays;  /* paths, terminated: files without a resource */
    uint64_t n_removed; /* resources of `mine` that the source does not have */
    struct td_audit_result *result; /* compare() adds to its counts */
    struct problem why;
};

/* Reports the findings. Only reads, and runs the loop meanwhile. The caller
 * frees `lost` and `strays`. False: the comparison failed, comparison->why
 * says why. */
bool compare(struct comparison *comparison);

#endif

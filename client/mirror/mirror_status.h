/*
 * mirror_status.h - what a mirror has, read offline, also beside the process
 * that works on it.
 *
 * The working process locks the others out of mirror.db, and nobody may hold it
 * up: this reads without a lock. A reader without a lock sees the state of the
 * last commit, unless the file changes below it. So it compares the times of
 * the file and the head of the WAL before and after, and reads again if they
 * differ. It reads some rows only (mirror_db_count_rows), never all resources.
 */
#pragma once

#include "client/mirror/mirror_db.h"

struct mirror_status_set {
    char *url;
    char position[TD_POSITION_SIZE]; /* "": none yet */
    int64_t caught_up_us; /* when the mirror last equalled it; 0: never */
    struct mirror_db_certainty certainty; /* doubt: also that deletions are held
                                             back */
};

struct mirror_status {
    char **sources; /* URLs given to td_sync */
    size_t n_sources, sources_capacity;
    struct mirror_status_set *sets;
    size_t n_sets, sets_capacity;
    struct mirror_db_counts counts;
    char filter[FILTER_TEXT_MAX + 1]; /* of its resources; "": all */
    int64_t as_of_us; /* it is the state of that time; not above 0: no */
    bool is_at_work;  /* a process works on the mirror now */
    long process;     /* its id; 0: of another machine or container */
};

/* Reads the status of the mirror in `dir`. Changes nothing there. Give
 * `*status` to mirror_status_fini in any case. STATUS_IO: it is no mirror, of
 * another version, or cannot be read; STATUS_MEMORY. */
MUST_CHECK enum status mirror_status_read(struct mirror_status *status,
                                          const char *dir, struct problem *why);
void mirror_status_fini(struct mirror_status *status);

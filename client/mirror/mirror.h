/*
 * mirror.h - what the parts of a running mirror share.
 *
 *     sync_run.c    source --> sets --> followers --> database what to have
 *     file_sync.c   database --> downloads                     what to fetch
 *     change_packages.c         packages --> files, in place of downloads
 *     file_commit.c downloads, removals --> files, database    what is on disk
 *     audit.c       two databases, files --> findings, repair
 *     reconcile.c   a copy of the database --> what the source has
 *
 * Writing in the database: feeds commit each message with its position. Other
 * writes (noted files, expected files, the resources of a baseline) share a
 * transaction: mirror_write opens it, mirror_db_commit ends it. Code that
 * begins its own transaction calls mirror_db_commit first.
 *
 * The first fault that stops all work (a full disk, no memory) is kept, and
 * ends the run: mirror_fail.
 */
#pragma once

#include "client/lib/client.h"
#include "client/lib/part_filter.h"
#include "client/mirror/mirror_db.h"
#include "client/mirror/mirror_dir.h"

struct downloads;
struct file_sync;

struct mirror {
    struct td_client *client;
    const struct td_sync_options *options; /* defaults filled in */
    struct mirror_dir *dir;                /* NULL: an audit's, no files */
    struct mirror_db db;
    struct filter filter;        /* of resources */
    struct file_sync *work;      /* NULL: nothing is fetched or removed */
    struct downloads *downloads; /* of `work` */
    struct timer progress;
    struct td_sync_event last; /* the numbers of the last event */
    uint64_t n_done;
    uint64_t bytes_done; /* without those of downloads */
    uint64_t n_unpacked; /* files from packages */
    bool has_news;       /* a feed changed the database since work looked */
    const char *copies;  /* rel of the links to other copies */
    bool is_over;        /* the run has ended */
    struct problem why;  /* why it ended */
};

/* Fills in the defaults of options that the caller of td_sync left open. */
void mirror_defaults(struct td_sync_options *to,
                     const struct td_sync_options *from);

void mirror_init(struct mirror *m, struct td_client *client,
                 const struct td_sync_options *options);

/* Closes the database and the directory; the work is the caller's. */
void mirror_fini(struct mirror *m);

/* Opens the database `name` of a mirror's state; `home` NULL: a temporary one,
 * with the name "". Its failures end the run.
 * False: `why` says why. */
bool mirror_open_db(struct mirror *m, const struct mirror_dir *home,
                    const char *name, struct problem *why);

/* Gives the mirror the filter of its options; without one it keeps that of its
 * database. False: `why` says why. */
bool mirror_take_filter(struct mirror *m, struct problem *why);

/* Ends the run; the first call sets the reason. Always false. */
bool mirror_fail(struct mirror *m, const struct problem *why);
bool mirror_fail_memory(struct mirror *m);

/* True if `b` has not failed; else mirror_fail with the limit of WHAT, or for
 * want of memory. */
bool mirror_has_all(struct mirror *m, const struct buf *b, const char *what);

/* True if mirror_write would find room; calls no mirror_fail: `why` says why
 * not. */
bool mirror_may_write(struct mirror *m, struct problem *why);

/* How the source deletes: a change names each resource; a list leaves them out;
 * a list leaves them out that may lack others, too. */
enum mirror_list { MIRROR_TOLD, MIRROR_LIST, MIRROR_LIST_IN_DOUBT };

/* True if the options hold back `n` deletions of `n_of` resources, which the
 * source deletes `by` that. `held_of`: as of survey_holds_back. */
bool mirror_holds_back(const struct mirror *m, uint64_t n, uint64_t n_of,
                       enum mirror_list by, uint64_t *held_of);

/* Begins a transaction, unless one is open. False: it failed, and mirror_fail
 * was called. */
bool mirror_write(struct mirror *m);

/* Calls on_event, if there is one. `with`: the details, or NULL. */
void mirror_report(struct mirror *m, enum td_sync_what what,
                   const struct td_sync_event *with);

/* The same with these details: MIRROR_REPORT(m, TD_SYNC_DOUBT, .why = why). */
#define MIRROR_REPORT(m, what, ...) \
    mirror_report((m), (what), &(struct td_sync_event){__VA_ARGS__})

/* Runs (sync_run.c) */

/* STATUS_OK: all sets are caught up (until_caught_up), and the rest is in the
 * counts as given up. STATUS_STOPPED. Else `why` says why; of several failed
 * sets, the first. */
enum status sync_run_source(struct mirror *m, const char *url,
                            bool until_caught_up, struct problem *why);

/* Converts a change, or a resource of a baseline, for the database; `hash` and
 * `links` hold its texts. False: no memory. */
bool mirror_describe(struct mirror *m, const struct td_change *change,
                     bool is_baseline, struct buf *hash, struct buf *links,
                     struct mirror_db_description *description);

/* Judges a run that did not fail: STATUS_DIFFERENT with a sentence if it gave
 * resources up, holds deletions back, or does not know that a set is complete.
 * STATUS_IO. */
void mirror_judge(struct mirror *m, struct problem *why);

/* Only does the work that the database has. STATUS_OK: nothing is left to do.
 */
enum status sync_run_work(struct mirror *m, struct problem *why);

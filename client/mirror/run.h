/*
 * run.h - all sets of a source, followed into the book, until there is a reason
 * to end.
 *
 *     discovery --> feeds of sets -+--> all caught up, nothing left to do: end
 *         ^    |    (tour.h)       +--> one failed: told, the others go on
 *         +----+ unreachable       +--> all failed, or mirror_fail: end
 *
 * While it follows, it looks again from time to time (td_sync_options.poll_ms):
 * a set that comes later is followed, too. What the source names and cannot be
 * read has failed. The source is noted in the book when
 * it is known to be one.
 *
 * Blocks. With m->work the files follow the book; without, the book alone is
 * brought up to date (an audit's).
 */
#ifndef CLIENT_MIRROR_RUN_H
#define CLIENT_MIRROR_RUN_H

#include "client/mirror/mirror.h"

/* TD_OK: all caught up (until_caught_up), and done as far as it can be: what
 * was left is in the counts. TD_STOPPED. Else `why` says why; of several sets
 * that failed, the first. */
enum td_status run_source(struct mirror *m, const char *url,
                          bool until_caught_up, struct failure *why);

/* Only the work that the book has. TD_OK: nothing is left to do. */
enum td_status run_work(struct mirror *m, struct failure *why);

#endif

/*
 * sync_run.h - follows all sets of a source into the database, until there is a
 * reason to end.
 *
 *     discovery --> feeds of sets -+--> all caught up, nothing left to do: end
 *         ^    |                   +--> one failed: an event, others go on
 *         +----+ unreachable       +--> all failed, or mirror_fail: end
 *
 * visit_schedule.h says which feed is next. While it follows, it looks again
 * from time to time (td_sync_options.poll_ms) and follows new sets, too. A set
 * that the source names and nobody can read has failed. sync_run_source notes
 * the source in the database once it has answered as one.
 *
 * Blocks. With m->work the files follow the database; without (an audit), only
 * the database changes.
 */
#ifndef CLIENT_MIRROR_SYNC_RUN_H
#define CLIENT_MIRROR_SYNC_RUN_H

#include "client/mirror/mirror.h"

/* STATUS_OK: all sets are caught up (until_caught_up), and the rest is in the
 * counts as given up. STATUS_STOPPED. Else `why` says why; of several failed
 * sets, the first. */
enum status sync_run_source(struct mirror *m, const char *url,
                            bool until_caught_up, struct problem *why);

/* Only does the work that the database has. STATUS_OK: nothing is left to do.
 */
enum status sync_run_work(struct mirror *m, struct problem *why);

#endif

/*
 * harvest.h - keeps a set equal to one source or several.
 *
 *     source --follower--> feed --+
 *     source --follower--> feed --+--> outbox --> state --> the set
 *       (an address may have several sets)
 *
 *     look: what a source tells, up to its end or its next heartbeat
 *
 * Each set of a source is a part of the state. A resource is in the set as long
 * as one part has it. After each look the caller gets its numbers, and the
 * broker a report (PUT SET/harvest).
 *
 * Thread: one; td_stop of the target's handle ends it.
 */
#ifndef CLIENT_HARVEST_HARVEST_H
#define CLIENT_HARVEST_HARVEST_H

#include "client/harvest/harvest_target.h"

/* Runs until it ends by itself, or td_stop. Reasons were said. */
enum harvest_end harvest_run(const struct harvest_options *options);

#endif

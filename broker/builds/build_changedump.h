/*
 * build_changedump.h - the Change Dump of one closed Change List: the same
 * entries in the same order, with the content that each of them
 * describes.
 *
 * The result is a generation (generation.h) that covers the list's interval.
 * The commit that makes it current also archives it. Its packages leave no gap:
 * each begins where the previous one ends.
 *
 *     begin --> step: plan a package --> its manifest --> its members --+
 *                  ^                                                    |
 *                  +------ the next package ----------------------------+
 *                                                                       v
 *                     failed: nothing stays        the dump's document: it is
 *                                                  current
 *
 * The build plans the end of a package before it writes it, for the manifest
 * begins with that. Archive thread.
 */
#ifndef BROKER_BUILDS_BUILD_CHANGEDUMP_H
#define BROKER_BUILDS_BUILD_CHANGEDUMP_H

#include <stdbool.h>

#include "broker/log/head.h"
#include "broker/sets/registry.h"
#include "broker/state/content.h"
#include "proto/problem.h"
#include "proto/status.h"

struct changedump;

/* Begins the dump of a closed list whose content is complete
 * (content_is_complete). STATUS_GONE: the set was removed. */
MUST_CHECK enum status build_changedump_begin(struct changedump **dump,
                                              struct set *set,
                                              const struct list_info *list,
                                              struct problem *why);

/* Goes on, by some thousand entries or some MiB; sets *is_done when the dump is
 * current. `content` is that of the set, perhaps opened again. The build is
 * freed when it is done and after a failure, which leaves nothing on the disk.
 * STATUS_INVALID: content is missing or damaged; STATUS_GONE: the set or the
 * list was removed meanwhile; STATUS_BUSY: a full disk. */
MUST_CHECK enum status build_changedump_step(struct changedump *dump,
                                             struct content *content,
                                             bool *is_done,
                                             struct problem *why);

/* Leaves nothing. NULL is allowed. */
void build_changedump_abandon(struct changedump *dump);

#endif

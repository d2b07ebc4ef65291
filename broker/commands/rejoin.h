/*
 * rejoin.h - a broker of a cluster whose copy cannot follow the journal any
 * more fetches the backup of another broker (--cluster-from): at its start, or
 * while it runs, when it ends its parts and begins them again (main.c).
 *
 *     the journal has forgotten records that the copy needs, or has others
 *         --> DATA/joining     the backup, fetched and checked
 *         --> DATA/replaced    gets the files of the old copy
 *         --> DATA             gets those of DATA/joining
 *
 * Nothing is deleted: the operator deletes DATA/replaced. While it is there,
 * the broker does not do this again. The backup must fit the journal: so a copy
 * of another history goes only where another broker agrees with the journal;
 * readers may have entries of it, so all sets then begin new epochs. A
 * copy with more records than the journal stays: it may give them back.
 *
 * DATA/restoring (STORE_RESTORING) keeps brokers out while files move. A start
 * after a crash goes on where it was cut off.
 */
#pragma once

#include "broker/config/config.h"

#define REJOIN_NEW "joining"
#define REJOIN_OLD "replaced"

/* Before broker_open, on the same thread. STATUS_OK: the broker may start; if
 * the backup cannot be had, a warning says why, and the directory is as it was.
 * STATUS_STOPPED: should_stop(user), which is asked each second, was true. Else
 * files could not be moved, and another start goes on with it. */
MUST_CHECK enum status rejoin_if_needed(const struct config *config,
                                        bool (*should_stop)(void *user),
                                        void *user, struct problem *why);

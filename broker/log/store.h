/*
 * store.h - the engine of today: tidings.db, SQLite.
 *
 * One writing connection, the log thread's; one for checkpoints, their
 * thread's; a few for readers, each in one hand at a time.
 *
 * WAL with synchronous=FULL: a COMMIT that returned is on disk. Checkpoints are
 * made by a thread of their own (PASSIVE, every 4 MB of log), then the log
 * thread makes a RESTART between commits; automatic ones would hold up commits
 * (p99 8.4 ms instead of 3.5 ms, measured), PASSIVE alone lets the WAL grow
 * without end.
 */
#ifndef BROKER_LOG_STORE_H
#define BROKER_LOG_STORE_H

#include <stdatomic.h>

#include "broker/log/engine.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Opens or creates DIR/tidings.db, recovers, and checkpoints the WAL away
 * before it returns: what a COMMIT that failed may have left is then settled.
 */
MUST_CHECK enum status store_open(struct engine **engine, const char *dir,
                                  atomic_size_t *forms_account,
                                  struct problem *why);

#endif

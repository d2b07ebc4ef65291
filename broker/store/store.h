/*
 * store.h - the engine of today: tidings.db, SQLite, and the segments beside it
 * (segments.h).
 *
 * One writing connection, the log thread's; one for checkpoints (checkpoint.h);
 * a few for readers (store_queries.h), each in one hand at a time. WAL with
 * synchronous=FULL: a COMMIT that returned is on disk.
 */
#pragma once

#include <stdatomic.h>

#include "broker/log/engine.h"

/* The name of a file in a data directory that is being restored, or whose
 * restore was cut off (broker/backup): no broker may use the directory. */
#define STORE_RESTORING "restoring"

/* Opens or creates DIR/tidings.db, recovers, and checkpoints the WAL away
 * before it returns, which settles the rest of a failed COMMIT.
 */
MUST_CHECK enum status store_open(struct engine **engine, const char *dir,
                                  atomic_size_t *forms, struct problem *why);

/* Reads the place of a copy of a cluster in its journal, as store_open and its
 * engine would. The caller has the lock of `dir`. */
struct journal_place;
MUST_CHECK enum status store_read_place(const char *dir,
                                        struct journal_place *place,
                                        struct problem *why);

/* Checks that store_open could use the directory, which exists. STATUS_OK: a
 * sound database of ours, or none in a directory where there never was one.
 * Else STATUS_IO, and `why` names the file. Writes nothing; nobody has the
 * database open. */
MUST_CHECK enum status store_check(const char *dir, struct problem *why);

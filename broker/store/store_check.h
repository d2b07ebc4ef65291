/*
 * store_check.h - checks the database of a data directory before the broker
 * writes anything.
 *
 * Opening a database changes it: SQLite copies its WAL into it, the broker
 * makes missing tables. A damaged or foreign database must stay as it is, for
 * its rescue.
 */
#ifndef BROKER_STORE_STORE_CHECK_H
#define BROKER_STORE_STORE_CHECK_H

#include "proto/problem.h"
#include "proto/status.h"

/* `path` is tidings.db in the directory `dir`; it is of version `n_steps` at
 * most (db_migrate). STATUS_OK: a sound database of ours, or none in a
 * directory where there never was one. Else STATUS_IO, and `why` names the
 * file. Writes nothing; nobody has the database open.
 *
 * Found is what SQLite can know: pages, trees, chains of pages. The entries
 * themselves are proven by their digests when they are read (store_queries.c).
 * A database above 1 GB, which would take seconds to read, is not looked at
 * page by page. */
MUST_CHECK enum status store_check(const char *dir, const char *path,
                                   int n_steps, struct problem *why);

#endif

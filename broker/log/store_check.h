/*
 * store_check.h - is the database that stands in a data directory one to go on
 * with? Asked before anything is written.
 *
 * To open a database is to change it: its WAL is copied into it, missing tables
 * are made. What is damaged, or is somebody else's, must stay as it was found,
 * for whoever is to rescue it.
 */
#ifndef BROKER_LOG_STORE_CHECK_H
#define BROKER_LOG_STORE_CHECK_H

#include "proto/problem.h"
#include "proto/status.h"

/* `path` is tidings.db in the directory `dir`; it is of version `n_steps` at
 * most (db_migrate). STATUS_OK: a sound database of ours, or none in a
 * directory where there never was one. Else STATUS_IO, and `why` names the
 * file. Writes nothing; nobody has the database open.
 *
 * Found is what SQLite can know: pages, trees, chains of pages. The entries
 * themselves are proven by their digests when they are read (store_read.c). A
 * database above 1 GB, which would take seconds to read, is not looked at page
 * by page. */
MUST_CHECK enum status store_check(const char *dir, const char *path,
                                   int n_steps, struct problem *why);

#endif

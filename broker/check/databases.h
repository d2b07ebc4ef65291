/*
 * databases.h - the databases of a data directory: one row each, in
 * databases.c.
 *
 * Each has a version: the number of steps that have built its tables
 * (base/db.h). A program takes the steps that a file lacks, and knows nothing
 * of those that a newer program has taken. So no part of the broker opens a
 * file before all versions were looked at: a start that is refused has written
 * nothing, and the newer program can go on.
 */
#pragma once

#include "base/db.h"

enum database_place {
    PLACE_TOP,    /* DATA/NAME */
    PLACE_SET,    /* DATA/sets/SET/NAME */
    PLACE_UPLOADS /* DATA/uploads: every file */
};

struct database {
    enum database_place place;
    const char *name;
    const struct db_kind *kind; /* n_steps: the newest version */
    int oldest;                 /* the oldest one that `check` can read */

    /* SQL that gives a file of an earlier version what the queries of `check`
     * expect, in temporary views. NULL: nothing. */
    int views_before;
    const char *views;
};

enum database_id {
    DATABASE_TIDINGS,
    DATABASE_HUB,
    DATABASE_MQTT,
    DATABASE_TOKENS,
    DATABASE_RESOURCES,
    DATABASE_CONTENT,
    DATABASE_TREE,
    DATABASE_UPLOAD,
    DATABASES
};
extern const struct database databases[DATABASES];

/* Checks that no database of the data directory `dir` is newer than this
 * program. Writes nothing. Skips files that are no databases: their owners
 * report them. No process has the directory open. */
MUST_CHECK enum status databases_check_versions(const char *dir,
                                                struct problem *why);

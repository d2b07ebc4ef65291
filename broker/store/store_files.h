/*
 * store_files.h - the sets of a tidings.db that nobody has open, and the files
 * that it says are there; and a copy of a tidings.db with all its entries.
 */
#pragma once

#include "base/db.h"
#include "broker/log/head.h"

struct store_files {
    /* A set and its last entry; then its closed lists that have files and are
     * retained, in order. */
    enum status (*on_set)(const char *name, const char *epoch, uint64_t last,
                          void *user, struct problem *why);
    enum status (*on_list)(const char *name, uint64_t number, void *user,
                           struct problem *why);

    /* A generation, also of a removed set; `is_served`: it is current or
     * archived, else it may be deleted soon. */
    enum status (*on_generation)(const char *name, enum generation_kind kind,
                                 uint64_t number, bool is_served, void *user,
                                 struct problem *why);
    void *user;
};

/* Reads the database `path`, until a function fails. STATUS_IO: the
 * database is damaged, or its version is not ours. */
MUST_CHECK enum status store_files_each(const char *path,
                                        const struct store_files *files,
                                        struct problem *why);

/* Puts the entries that the copy `path` of a tidings.db leaves to segments into
 * the copy itself. `segments` is the folder of the original, whose lock the
 * caller shares since before it copied (segments.h). STATUS_GONE: entries
 * cannot be read, or are damaged. */
MUST_CHECK enum status store_files_gather(const char *path, int segments,
                                          struct problem *why);

/* Sets *are to true if an open tidings.db is that of a broker of a cluster.
 * Older versions have no table of places. */
MUST_CHECK enum status store_files_are_shared(struct db *db, bool *are,
                                              struct problem *why);

/*
 * inspection.h - one look at a data directory: its findings, and how much of
 * the directory it has read.
 *
 * A broker may serve the directory meanwhile (is_live). Then databases are read
 * through SQLite's locks, in short transactions; else without any lock and
 * without a new file, while a lock of ours keeps brokers from starting.
 */
#ifndef BROKER_CHECK_INSPECTION_H
#define BROKER_CHECK_INSPECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/db.h"
#include "broker/check/databases.h"
#include "broker/check/findings.h"
#include "broker/log/head.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Room for a path below the data directory. */
#define INSPECTION_PATH 600

/* A set that tidings.db has, or of which it still has rows. */
struct inspected_set {
    uint32_t id;
    char name[SET_NAME_MAX + 1];
    bool is_removed; /* the rest is empty */
    char epoch[EPOCH_SIZE + 1];
    int64_t created_us;
    uint64_t start_list, first_list, earliest, file_bytes;
    uint64_t last; /* seq of the last entry */
};

struct inspection_counts {
    uint64_t sets, lists, builds, entries, files, bytes;
};

struct inspection {
    const char *data;
    int dir; /* the same, opened as O_PATH */
    bool is_deep;
    bool is_live;
    int segments; /* the folder, while check_log reads it; -1: none */
    struct inspected_set *sets; /* as of the last inspection_load */
    size_t n_sets, sets_capacity;
    struct findings findings; /* of the part at hand */
    struct inspection_counts counts;
};

/* Adds a finding about `path`, which is below the data directory. */
void inspection_find(struct inspection *in, enum finding_kind kind,
                     const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Opens a database to read it, and begins a transaction if a broker runs.
 * `path` NULL: its name, in the data directory. STATUS_NOT_FOUND: it is
 * missing, or empty. Otherwise a failure is a finding already: it is damaged,
 * too new, or too old. */
MUST_CHECK enum status inspection_open(struct inspection *in,
                                       enum database_id id, const char *path,
                                       struct db *db);

/* Ends a query; a failure is a finding about `path`. */
void inspection_end_rows(struct inspection *in, const char *path,
                         struct db_rows *rows);

/* Reads the sets of tidings.db. */
MUST_CHECK enum status inspection_load(struct inspection *in);

/* The same into the connection of another database: a table
 * logs(name, epoch, earliest, last), for queries that compare positions. */
MUST_CHECK enum status inspection_lend_logs(struct inspection *in,
                                            struct db *db);

/* Receives bytes of a file; a status other than STATUS_OK ends the reading. */
typedef enum status inspection_bytes_fn(struct slice bytes, void *user,
                                        struct problem *why);

/* Passes the bytes of an open file from its position on to `fn`, at most
 * INSPECTION_STEP of them at a time, and counts them. */
#define INSPECTION_STEP 262144
MUST_CHECK enum status inspection_read(struct inspection *in, int fd,
                                       inspection_bytes_fn *fn, void *user,
                                       struct problem *why);

/* Compares the same bytes with a list of digests (`hash`) and a length, or
 * LENGTH_NONE. STATUS_INVALID: they are others. */
MUST_CHECK enum status inspection_compare(struct inspection *in, int fd,
                                          struct slice hash, uint64_t length,
                                          struct problem *why);

/* The path of the folder, or of a file, of a set. */
void inspection_path(char to[INSPECTION_PATH], const char *set,
                     const char *name);

/* The same, absolute. */
void inspection_whole_path(const struct inspection *in, const char *path,
                           char *to, size_t size);

void inspection_fini(struct inspection *in);

#endif

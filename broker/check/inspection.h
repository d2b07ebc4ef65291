/*
 * inspection.h - one look at a data directory: its findings, and how much of
 * the directory it has read.
 *
 * A broker may serve the directory meanwhile (is_live). Then databases are read
 * through SQLite's locks, in short transactions; else without any lock and
 * without a new file, while a lock of ours keeps brokers from starting.
 */
#pragma once

#include "broker/check/databases.h"
#include "broker/log/head.h"

/* What a check has found: one line each, with what, where, what it
 * means, and what to do.
 *
 *     tidings-data/sets/news/changes/000000000003.xml.gz: it is missing; its
 *     entries cannot be read; restore the file from a backup
 *
 * A kind gives the last two. Beside a running broker one look may meet a file
 * that is being written or deleted: a finding counts if a second look finds the
 * same (check_command.c).
 */
enum finding_kind {
    FINDING_NEWER,    /* a database of a newer program */
    FINDING_OLDER,    /* a database that a start must bring up to date */
    FINDING_UNREAD,   /* something that could not be looked at */
    FINDING_DATABASE, /* damaged pages, missing tables */
    FINDING_LOG,      /* rows of tidings.db that contradict each other */
    FINDING_ENTRY,    /* entries in tidings.db */
    FINDING_LIST,     /* the file of a closed list */
    FINDING_MARKS,    /* the places at which a reader enters it */
    FINDING_KEYS,     /* idempotency keys */
    FINDING_BUILD,    /* files of a Resource List or dump */
    FINDING_STATE,    /* resources.db */
    FINDING_TREE,     /* tree.db */
    FINDING_CONTENT,  /* files of bytes */
    FINDING_INDEX,    /* content.db */
    FINDING_HUB,      /* subscriptions, requests, relays */
    FINDING_AHEAD,    /* a position behind the end of its log */
    FINDING_BEHIND,   /* a position before its beginning */
    FINDING_STALE,    /* a row of a topic or set that is gone */
    FINDING_BRIDGE,   /* mqtt.db */
    FINDING_TOKEN,    /* tokens.db */
    FINDING_ORPHAN,   /* a file of no row */
    FINDING_LEFT,     /* a file whose writing was cut off */
    FINDING_RESTORE,  /* a restore that has not ended */
    FINDING_MODE,     /* permissions */
    FINDING_OWNER,
    FINDING_KINDS
};

/* Lines, in the order in which they were found. All zero: none. */
struct findings {
    char **lines;
    size_t n, capacity;
    bool is_short; /* there was no memory for all */
};

/* Room for a path below the data directory. */
#define INSPECTION_PATH 600

/* A set that tidings.db has, or of which it still has rows. */
struct inspected_set {
    uint32_t id;
    char name[SET_NAME_MAX + 1];
    bool is_removed;            /* the rest is empty */
    char epoch[EPOCH_SIZE + 1]; /* head.origin */
    int64_t created_us;
    uint64_t start_list, first_list, earliest, file_bytes;
    uint64_t last; /* seq of the last entry */
};

struct inspection_counts {
    uint64_t sets, lists, builds, entries, files, bytes;
    uint64_t in_bucket; /* files that are in a bucket alone: nobody read them */
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
    struct problem why;       /* of the query at hand */
    struct inspection_counts counts;
};

/* Adds a finding about `path`, which is below the data directory. */
void inspection_find(struct inspection *in, enum finding_kind kind,
                     const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Looks whether a file is in a bucket, for which --archive has to name that. As
 * vault_find; STATUS_OK also if nobody asked. */
MUST_CHECK enum status inspection_find_in_bucket(struct inspection *in,
                                                 const char *path,
                                                 struct problem *why);

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

/* The parts of a check: a function for each kind of thing in a data directory,
 * one row each in check_command.c. Each opens what it reads, so that a second
 * look sees it anew. */

/* Names, permissions and owners of all files, and files of no row. */
void check_names(struct inspection *in);

/* Uploads that wait. */
void check_uploads(struct inspection *in);

/* Opens a database and finds what breaks its rules. Other than STATUS_OK: it
 * cannot be used, and is closed. STATUS_NOT_FOUND: it is missing, or empty. */
MUST_CHECK enum status check_rules(struct inspection *in, enum database_id id,
                                   const char *path, struct db *db);

/* A set: the entries of its log, in tidings.db and in files of closed lists,
 * one after the other; its resources and content against them; its builds. */
void check_log(struct inspection *in, const struct inspected_set *set);
void check_builds(struct inspection *in, const struct inspected_set *set);
void check_content(struct inspection *in, const struct inspected_set *set);

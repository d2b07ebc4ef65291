/*
 * book_inside.h - what the files of the book share: its statements and the
 * functions that run them. Only they know that it is SQLite.
 */
#ifndef CLIENT_MIRROR_BOOK_INSIDE_H
#define CLIENT_MIRROR_BOOK_INSIDE_H

#include <sqlite3.h>

#include "client/mirror/book.h"
#include "proto/buf.h"

enum book_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_COUNT_HAVE,
    SQL_COUNT_TODO,
    SQL_STATE,
    SQL_STATE_PUT,
    SQL_SOURCE_ADD,
    SQL_SOURCE,
    SQL_SET,
    SQL_SET_ADD,
    SQL_SET_NEXT,
    SQL_SET_REACH,
    SQL_SET_GENERATION,
    SQL_SET_NEW_GENERATION,
    SQL_RESOURCE_ADD,
    SQL_RESOURCE_GONE,
    SQL_RESOURCE_TODO,
    SQL_RESOURCE_EXPECT,
    SQL_RESOURCE_DOUBT,
    SQL_RESOURCE_HAVE,
    SQL_RESOURCE_LOST,
    SQL_RESOURCE_LEAVE,
    SQL_MEMBER,
    SQL_MEMBER_PUT,
    SQL_MEMBER_GONE,
    SQL_MEMBER_OLD,
    SQL_MEMBER_NEXT,
    SQL_LOOK,
    SQL_FIND,
    SQL_FIND_PATH,
    SQL_NEXT,
    SQL_WALK,
    SQL_BEST,
    SQL_HOUR_ADD,
    SQL_HOUR_MOST,
    SQL_HOUR_OLD,
    N_SQL
};

struct book {
    sqlite3 *db;
    sqlite3_stmt *statements[N_SQL];
    bool is_writing;
    int64_t run;     /* number of this run: is_left counts in it alone */
    int64_t version; /* the last one that the book assigned */
    bool has_version_changed;
    struct book_counts counts;
    struct book_counts counts_before; /* of the open transaction */
    int64_t version_before;
    int64_t set; /* the set with `generation`; 0: none */
    int64_t generation;
    int64_t hour_first, hour_last; /* with removals in this transaction */
    bool has_hours;
    struct buf lent; /* text and hashes of the last resource or URL */
    struct problem trouble;
};

/* Most bytes that one resource lends. */
#define BOOK_LENT_MAX (16 * 1024 * 1024)

bool book_fail(struct book *book);

/* Runs a statement to its next row or its end. */
bool book_step(struct book *book, enum book_sql which, bool *has_row);

/* Ends it, and clears its parameters. */
void book_done(struct book *book, enum book_sql which);

/* Runs it to its end, and ends it. */
bool book_run(struct book *book, enum book_sql which);

void book_bind(struct book *book, enum book_sql which, int n, int64_t value);
void book_bind_bytes(struct book *book, enum book_sql which, int n,
                     struct slice bytes);

/* Copies a column into `lent`. book_lend_end sets `*slice`, when all columns
 * are there. */
struct book_lending {
    struct slice *slices[8];
    size_t at[8];
    size_t n;
};

void book_lend(struct book *book, struct book_lending *lending,
               struct slice *slice, sqlite3_stmt *s, int column);
bool book_lend_end(struct book *book, const struct book_lending *lending);

/* Computes the work of a resource after a change of it, and deletes the
 * resource if no set has it and there is no file. `trusts_times`: the same
 * lastmod means the same content, unless a change said otherwise. `hour`: of
 * the change that may remove it, or BOOK_NO_HOUR. */
#define BOOK_NO_HOUR INT64_MIN
bool book_settle(struct book *book, int64_t id, bool trusts_times,
                 int64_t hour);

#endif

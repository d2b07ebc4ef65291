/*
 * owned_db.h - an SQLite database whose rows are those of a stream.
 *
 * The owner writes its database as it would alone. Each transaction goes to the
 * stream first, with the rows that it changed:
 *
 *     owned_db_begin    BEGIN; notes which rows the statements change
 *     ...
 *     owned_db_end      sends these rows; writes the stream's number; COMMIT
 *
 * Other brokers read the stream into the same tables (owned_db_read). The
 * number of the last row is kept in the same transaction as the rows, in the
 * table journal_place: so a copy of the file continues where the file was. The
 * rows of a database may be divided among streams (owned_file.part_of_rows),
 * each of which may have another owner; then it is journal_parts.
 *
 * If COMMIT fails, or nobody knows whether the stream has the rows, the next
 * owned_db_begin reads the stream first. If the stream has several owners
 * (owned_file.is_shared) owned_db_end reads what others have added, and sends
 * its rows behind that: SQLite and the stream have the same rows at the end,
 * since no two owners write the same one.
 *
 * A journal that was begun again from a copy has new streams. Its first owner
 * brings the rows that it has; the others take these instead of their own. So
 * does a broker that was away, when the stream has forgotten deleted rows.
 *
 * A row of the stream: its key is the table and the primary key, its value all
 * columns. A table without a declared primary key stays here. A program of an
 * earlier version may write fewer columns: the others get their default. A
 * reader refuses a row with more columns than its table has.
 *
 * A broker that was alone and has rows cannot follow a stream that has others.
 * Rows that every broker makes (db_kind.ceding) do not count: they go.
 *
 * An owned_db belongs to one thread at a time, as its database does.
 */
#pragma once

#include "base/db.h"
#include "broker/cluster/streams.h"

struct owned_db;

/* A database in the data directory; static and constant. */
struct owned_file {
    const char *name; /* "hub.db" */
    const char *part; /* in diagnostics */
    const char *stream;
    const struct db_kind *kind;
    const char *part_of_rows; /* NULL: all rows are of the stream; else those
                                 whose first column of the key is this text:
                                 others are of other streams */
    bool is_shared;           /* several owners write the stream at once; no two
                                 write the same row */
};

/* Checks that owned_file_open can use `dir`. Writes nothing. An error begins
 * with the path. */
MUST_CHECK enum status owned_file_check(const struct owned_file *file,
                                        const char *dir, struct problem *why);
/* Opens it; by the right of an owner (all lent), reads its stream to the end,
 * and sets *owned: all transactions go to the stream first. Without a lease
 * reads nothing. `right` NULL, or all NULL: leaves *owned alone. After a
 * failure, too, the caller closes both. */
MUST_CHECK enum status owned_file_open(const struct owned_file *file,
                                       struct db *db, struct owned_db **owned,
                                       const char *dir,
                                       const struct ownership_right *right,
                                       struct problem *why);

/* While another broker owns it: reads the stream into the file of `dir`, which
 * is not open. */
MUST_CHECK enum status owned_file_follow(const struct owned_file *file,
                                         const char *dir,
                                         struct streams *streams,
                                         struct problem *why);

/* Prepares a database that is open, of no transaction. All arguments are lent;
 * `stream` is the name of its stream, and `part` that of its rows, as in struct
 * owned_file. */
MUST_CHECK enum status owned_db_open(struct owned_db **owned, struct db *db,
                                     struct streams *streams,
                                     const char *stream, const char *part,
                                     struct problem *why);

/* Before the database is closed. NULL is allowed. */
void owned_db_close(struct owned_db *o);

/* Reads the stream to its end, in a transaction. A failure keeps the rows that
 * came before it. STATUS_UNREACHABLE; STATUS_DIFFERENT: the database
 * has rows, and none of them is of the stream, or more than the stream;
 * STATUS_INVALID: a newer program
 * wrote a row. */
MUST_CHECK enum status owned_db_read(struct owned_db *o, struct problem *why);

/* Reads the stream to its end, as its owner; from now on `leases` are those of
 * the appends, lent. If the stream is empty it gets the rows of this database.
 */
MUST_CHECK enum status owned_db_own(struct owned_db *o,
                                    const struct leases *leases,
                                    struct problem *why);

/* From now on appends have these leases; lent. */
void owned_db_set_leases(struct owned_db *o, const struct leases *leases);

/* The number of the last row of the stream that the database has; 0: it has
 * none. */
uint64_t owned_db_last(const struct owned_db *o);

/* True if the database has read the stream to its end, be it empty, also before
 * a restart. */
bool owned_db_has_followed(const struct owned_db *o);

/* Begins a transaction as db_begin_firm, and ends it as db_end: it is kept when
 * the stream has its rows. `o` NULL: of a broker that is alone. After a failure
 * no transaction is open. STATUS_REFUSED: this broker is no longer the owner.
 */
MUST_CHECK enum status owned_db_begin(struct db *db, struct owned_db *o,
                                      bool is_firm, struct problem *why);
MUST_CHECK enum status owned_db_end(struct db *db, struct owned_db *o,
                                    enum status rc, struct problem *why);

/* Notes (streams.h), of the owner: they change no row. */

/* Has owned_db_end send a note with the rows of this transaction, whose bytes
 * are lent until then. A number is not used again: nobody may know whether its
 * note is kept. */
void owned_db_note(struct owned_db *o, const struct stream_note *note);

/* Hands over the notes that former owners of the leases have left, behind
 * owned_db_own: the next one has a greater number than all of these. */
MUST_CHECK enum status owned_db_read_notes(struct owned_db *o, order_fn *fn,
                                           void *user, struct problem *why);

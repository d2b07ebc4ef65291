/*
 * contentrows_inside.h - shared declarations of contentrows' files.
 *
 *   contentrows.c   opening, files, missing content, forgetting
 *   contentfold.c   folding
 */
#ifndef BROKER_STATE_CONTENTROWS_INSIDE_H
#define BROKER_STATE_CONTENTROWS_INSIDE_H

#include "broker/state/contentrows.h"

void contentrows_bind(sqlite3_stmt *q, int n, uint64_t number);
/* Binds NULL for a NULL digest. */
void contentrows_bind_digest(sqlite3_stmt *q, int n,
                             const struct digest *digest);

/* false: the column holds no digest. */
bool contentrows_digest(sqlite3_stmt *q, int column, struct digest *digest);

MUST_CHECK enum status contentrows_step(struct contentrows *rows,
                                        sqlite3_stmt *q, bool *row,
                                        struct problem *why);
MUST_CHECK enum status contentrows_run(struct contentrows *rows,
                                       sqlite3_stmt *q, struct problem *why);

/* A transaction. contentrows_end commits all changes since contentrows_start,
 * and the row of `state` (NULL: unchanged), if `rc` is STATUS_OK; else none. */
MUST_CHECK enum status contentrows_start(struct contentrows *rows,
                                         struct problem *why);
MUST_CHECK enum status contentrows_end(struct contentrows *rows, enum status rc,
                                       struct contentrows_at *state,
                                       struct problem *why);

/* Counts one more entry that refers to the file. */
MUST_CHECK enum status contentrows_add_file(struct contentrows *rows,
                                            const struct digest *digest,
                                            uint64_t length,
                                            struct content_at *at,
                                            struct problem *why);

MUST_CHECK enum status contentrows_is_missing(struct contentrows *rows,
                                              uint64_t seq, bool *is_missing,
                                              struct problem *why);

#endif

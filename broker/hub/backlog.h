/*
 * backlog.h - rows of hub.db that are older than memory. A turn wrote them, but
 * its commit failed; a later turn writes them again (records.h).
 *
 *     backlog_note ...  turn --kept--> backlog_kept     forgotten
 *                            `-not---> backlog_lost     behind, with the others
 *     backlog_take      all that is behind, each row once
 *
 * If there is no memory to note a row, all rows count as behind. The delivery
 * thread's.
 */
#ifndef BROKER_HUB_BACKLOG_H
#define BROKER_HUB_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

enum records_row { RECORDS_SUBSCRIPTION, RECORDS_REQUEST, RECORDS_ALL };

struct backlog_row {
    enum records_row kind;
    uint64_t id;
};

struct backlog_rows {
    struct backlog_row *all;
    size_t n, capacity;
};

/* All zero at first. */
struct backlog {
    struct backlog_rows written; /* this turn's */
    struct backlog_rows behind;
    bool is_behind_by_more; /* than `behind` lists: no memory was left to list
                               all */
};

void backlog_fini(struct backlog *backlog);

/* Notes that this turn writes the row. STATUS_MEMORY: the turn must fail. */
MUST_CHECK enum status backlog_note(struct backlog *backlog,
                                    enum records_row kind, uint64_t id);

/* The turn has ended. */
void backlog_kept(struct backlog *backlog);
void backlog_lost(struct backlog *backlog);

/* Adds a row that is in hub.db but not in memory. If no memory is left, the row
 * stays until the next start, which finds it again. */
void backlog_add(struct backlog *backlog, enum records_row kind, uint64_t id);

bool backlog_is_empty(const struct backlog *backlog);

/* Moves out the rows that are behind, sorted, each once. The caller frees
 * `rows->all`. Returns true if all rows are behind, whatever `rows` holds. */
bool backlog_take(struct backlog *backlog, struct backlog_rows *rows);

#endif

/*
 * backlog.h - which rows of hub.db memory is ahead of: those that were written
 * in turns that were not kept, to be written again (records.h).
 *
 *     backlog_note ...  turn --kept--> backlog_kept     forgotten
 *                            `-not---> backlog_lost     behind, with the others
 *     backlog_take      all that is behind, each row once
 *
 * Where there is no memory to note a row, all rows are behind. The delivery
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
    bool is_behind_by_more; /* than those: there was no memory for all */
};

void backlog_fini(struct backlog *backlog);

/* This turn writes the row. STATUS_MEMORY: then the turn must not be kept. */
MUST_CHECK enum status backlog_note(struct backlog *backlog,
                                    enum records_row kind, uint64_t id);

/* The turn has ended. */
void backlog_kept(struct backlog *backlog);
void backlog_lost(struct backlog *backlog);

/* A row that hub.db has, and memory has not. Without memory it is left to the
 * next start, which finds it again. */
void backlog_add(struct backlog *backlog, enum records_row kind, uint64_t id);

bool backlog_is_empty(const struct backlog *backlog);

/* Gives out what is behind, sorted, each row once, and empties it; `rows->all`
 * is the caller's. true: all rows there are, whatever is in `rows`. */
bool backlog_take(struct backlog *backlog, struct backlog_rows *rows);

#endif

/*
 * logs.h - a log of a test's own: opened in a directory, posted to, read back.
 */
#ifndef TESTS_SUPPORT_LOGS_H
#define TESTS_SUPPORT_LOGS_H

#include <stdint.h>

#include "broker/log/log.h"
#include "proto/buf.h"

/* A log with its settings; to be opened with logs_open. */
struct logs {
    struct log *log;
    struct log_options options;
    struct log_set *sets[8]; /* those that existed when the log was opened */
    unsigned n_sets;
    unsigned n_closed; /* lists that ended since */
};

/* Lists of `entries` entries; all else as in the broker. */
void logs_open(struct logs *l, const char *dir, uint64_t entries);
void logs_close(struct logs *l);

/* The set of that name, if it existed at the start; otherwise a new one. */
struct log_set *logs_set(struct logs *l, const char *name);

/* Posts `n` changes, the first called http://example.com/r/FROM, and waits.
 * Returns the post's status; *first and *last (may be NULL) are the seqs. */
enum status logs_post(struct logs *l, struct log_set *set, unsigned from,
                      unsigned n, uint64_t *first, uint64_t *last);

/* The same with a source's time for each. */
enum status logs_post_at(struct logs *l, struct log_set *set, unsigned from,
                         unsigned n, int64_t source_us);

/* Asks for the open list to be closed and waits; the list that ended, or 0. */
uint64_t logs_close_list(struct logs *l, struct log_set *set);

/* Files all closed lists. */
void logs_file_all(struct logs *l);

/* Appends all fragments from entry `after` + 1 on, read batch by batch; checks
 * that no entry is missing or doubled, and that every batch's digest is that of
 * the fragments up to it. Returns the last seq. */
uint64_t logs_read_all(struct logs *l, struct log_set *set, uint64_t after,
                       struct buf *fragments);

#endif

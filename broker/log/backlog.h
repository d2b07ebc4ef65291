/*
 * backlog.h - the closed lists that have no file yet, in bytes.
 *
 * Their entries take room in tidings.db. While they have more bytes than a
 * limit, changes wait for their turn at the log thread: a source that posts
 * faster than lists are filed is slowed down to the pace of the filing. Acts
 * are committed as always. If a list cannot be filed, nothing waits: posts do
 * not hang on a directory that refuses a file.
 *
 * The log thread adds, the archive thread takes away. A list of a removed set
 * leaves when no list waits for its file any more.
 */
#ifndef BROKER_LOG_BACKLOG_H
#define BROKER_LOG_BACKLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Relaxed: what the log thread sees too late costs a round. */
struct backlog {
    int64_t max_bytes; /* 0: no limit */
    _Atomic(int64_t) bytes;
    atomic_bool has_failed; /* the last list could not be filed */
};

void backlog_init(struct backlog *b, uint64_t max_bytes, uint64_t bytes);

int64_t backlog_bytes(const struct backlog *b);

/* A list of so many bytes was closed; less than 0: it has its file, or needs
 * none any more. */
void backlog_add(struct backlog *b, int64_t bytes);

/* There was no list without a file when the backlog had `seen` bytes. */
void backlog_clear(struct backlog *b, int64_t seen);

/* A list could not be filed; or one could be again. */
void backlog_fail(struct backlog *b, bool has_failed);

/* True if changes are to wait. */
bool backlog_is_full(const struct backlog *b);

#endif

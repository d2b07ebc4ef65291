/*
 * kept_records.h - the last records of a copy, as bytes: for a journal that has
 * lost them (tidingsd cluster mend).
 *
 *     DATA/records.1    the latest
 *     DATA/records.0    those before
 *
 *     file  = entry*
 *     entry = number (8 bytes) size (4 bytes) record, big-endian
 *
 * The copy has the entries of its records, but no record can be made of them
 * again with the same digest. When the latest file is full it becomes the
 * earlier one, so a broker keeps KEPT_RECORDS_BYTES to twice that.
 *
 * No file is synced, and a failure to write one is no failure of a commit: a
 * record that is missing here only makes `cluster mend` begin the journal
 * again. A reader proves each record by the digest of the copy.
 */
#pragma once

#include "broker/log/journal.h"

#define KEPT_RECORDS_EARLIER "records.0"
#define KEPT_RECORDS_LATEST  "records.1"

/* Some seconds of posts at full rate, and hours of a usual one. */
#define KEPT_RECORDS_BYTES ((uint64_t)64 << 20)

struct kept_records {
    const char *dir; /* the data directory, lent; NULL: keeps none */
    int fd; /* of the latest file; -1: not open yet; the caller closes it */
    uint64_t size; /* of its whole entries */
};

/* Adds record number `n`, which the copy has committed. One thread, the owner
 * of the data directory. */
void kept_records_add(struct kept_records *k, uint64_t n, struct slice record);

/* Deletes the files of a directory whose records get other numbers. */
void kept_records_forget(const char *dir);

/* Hands over the records behind *place, in order and as far as they are kept
 * without a gap, and moves *place over them. Returns what `take` returned;
 * STATUS_IO; STATUS_MEMORY. */
MUST_CHECK enum status kept_records_read(const char *dir,
                                         struct journal_place *place,
                                         journal_take_fn *take, void *user,
                                         struct problem *why);

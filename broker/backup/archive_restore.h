/*
 * archive_restore.h - makes a data directory of nothing but published lists.
 *
 *     files, or the address of a broker --> lists, by set and number
 *         --> each follows the one before it, by its seqs and digests
 *         --> acts (log/act.h) --> tidings.db, files of lists
 *
 * The log has the same epochs, numbers and bytes as the log that the lists came
 * from, and goes on in a new epoch. Its states are folded from it; where the
 * first lists are missing, on the state of a Resource List. All else is not
 * published: settings, tokens, subscriptions, keys of posts. Bytes of content
 * are not restored.
 */
#pragma once

#include "proto/problem.h"

struct archive_restore {
    const char *from;       /* a directory with files of lists; or a URL */
    const char *token_file; /* for a URL; "": none */
    const char *data;       /* the new data directory */
    bool is_same_log;       /* it goes on in the same epochs */

    /* A set whose first lists are not there: "SET: ...". */
    void (*on_missing)(const char *text, void *user);
    void *user;

    uint64_t n_sets, n_lists, n_entries, n_missing; /* set by the restore */
};

/* STATUS_DIFFERENT: lists are damaged, missing in between, or of two histories.
 * STATUS_NOT_FOUND: there are none. STATUS_UNREACHABLE: the broker did not
 * answer. STATUS_INVALID: `data` is not empty. After any failure `data` is as
 * it was before. */
MUST_CHECK enum status archive_restore(struct archive_restore *restore,
                                       struct problem *why);

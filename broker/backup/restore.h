/*
 * restore.h - makes a data directory (new_data.h) of a backup (backup.h).
 */
#pragma once

#include "proto/problem.h"

struct restore_options {
    const char *dir;  /* of the backup */
    const char *data; /* the new data directory */

    /* Report a file that the backup lacks, because nobody could read it then;
     * and a damaged file: "PATH: REASON". */
    void (*on_missing)(const char *text, void *user);
    void (*on_damage)(const char *text, void *user);
    void *user;
};

struct restore_report {
    uint64_t n_files, bytes;
    uint64_t n_missing, n_damaged;
};

/* Restores all files. STATUS_INVALID: `data` is not empty. STATUS_DIFFERENT:
 * the backup is damaged. After any failure `data` is as it was before. */
MUST_CHECK enum status restore_make(const struct restore_options *options,
                                    struct restore_report *report,
                                    struct problem *why);

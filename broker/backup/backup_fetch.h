/*
 * backup_fetch.h - makes a data directory (new_data.h) of a backup that another
 * broker makes of itself and sends (backup_offer.h).
 *
 *     POST /backup --> GET /backup, until it is made
 *         --> the manifest --> each file that it names, written into the new
 *             directory and compared with its digest --> none is missing
 *
 * The bytes of the other broker are checked, and not trusted: a file that the
 * manifest does not name, or that comes twice, is an error. A broker that sends
 * fewer than 100 bytes a second for a minute is given up.
 */
#pragma once

#include "broker/backup/new_data.h"

struct backup_fetch {
    const char *url;        /* of the broker */
    const char *token_file; /* of an administrator; "": none */
    const char *ca_file;    /* of authorities, beside the system's; "": none */
    const char *path;       /* the new data directory */

    /* Instead of token_file: returns "Authorization: ..." for a URL, which
     * free() ends, by a file of URLs (peer_tokens.h). NULL: no such file. */
    char *(*authorization)(const char *peer_tokens, const char *url);
    const char *peer_tokens;

    /* Asked each second: true ends it, with STATUS_STOPPED. NULL: never. */
    bool (*is_stopped)(void *user);

    /* A file that the backup lacks, because nobody could read it then: "PATH:
     * REASON". */
    void (*on_missing)(const char *text, void *user);
    void *user;

    /* Set by the fetch. */
    struct new_data data;
    uint64_t n_files, bytes, n_missing;
};

/* Fetches all files into the new directory, and lets brokers in. The caller
 * always calls new_data_close for `data`. `token_file`: as of
 * archive_download. STATUS_INVALID: the directory is not empty, or the URL is
 * none. STATUS_UNREACHABLE: no answer, or not all of it; STATUS_REFUSED:
 * another answer; STATUS_DIFFERENT: the backup is damaged. */
MUST_CHECK enum status backup_fetch(struct backup_fetch *job,
                                    struct problem *why);

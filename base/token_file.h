/*
 * token_file.h - bearer tokens (RFC 6750), and the files that have one.
 *
 * A token file is one line. It is refused as ssh refuses a private key: a
 * regular file of our own user that its group or others can reach. A file of
 * another owner was put there by somebody who manages secrets (systemd, Docker,
 * Kubernetes), who has chosen its readers.
 *
 * No sentence of these functions has a byte of a token.
 *
 * Any thread.
 */
#pragma once

#include "proto/problem.h"

#define TOKEN_MAX 8192

/* Reads a file of secrets, which is refused as a token file is, into `to`, and
 * sets *size from its room to what there is. STATUS_IO: or it is too large. */
MUST_CHECK enum status secret_file_read(const char *path, char *to,
                                        size_t *size, struct problem *why);

/* A token, and where it is from. */
struct token_text {
    char text[TOKEN_MAX + 1];
    bool is_regular; /* from a regular file, which can be read again */
};

/* Checks that `text` is a b64token of at most TOKEN_MAX bytes. STATUS_INVALID:
 * `why` begins with `name`. */
MUST_CHECK enum status token_check(struct slice text, const char *name,
                                   struct problem *why);

/*
 * Reads the token file `path`; an end of line (LF, CR LF) behind the token does
 * not count. Waits for a pipe's writer unless `is_regular` asks for nothing but
 * regular files.
 *
 * STATUS_IO: the file is unreadable, or others can reach it; STATUS_INVALID: it
 * has no token, or more than one line. `why` names the file.
 */
MUST_CHECK enum status token_file_read(const char *path, bool is_regular,
                                       struct token_text *token,
                                       struct problem *why);

/* Reads it as a header for a request: "Authorization: Bearer TOKEN". *header:
 * end it by token_header_free; NULL after a failure. */
MUST_CHECK enum status token_header_read(char **header, const char *path,
                                         bool is_regular, struct problem *why);
void token_header_free(char *header); /* NULL is allowed */

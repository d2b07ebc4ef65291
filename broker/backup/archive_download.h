/*
 * archive_download.h - downloads all Change Lists of a Tidings broker.
 *
 * A set begins with its open list, which is its moment, and goes back from
 * number to number, until a list says that it is the first one, or the broker
 * says that it no longer has the earlier ones. Lists name the public URL that
 * the broker had when it closed them; so addresses are made of the given URL.
 */
#ifndef BROKER_BACKUP_ARCHIVE_DOWNLOAD_H
#define BROKER_BACKUP_ARCHIVE_DOWNLOAD_H

#include <stdbool.h>

#include <curl/curl.h>

#include "base/token_file.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Downloads the lists of the broker at `url`, or of one set,
 * "http://HOST/sets/NAME", into files of `dir`. `token_file` "": none; over
 * http a token is sent to loopback only: else STATUS_INVALID.
 * STATUS_UNREACHABLE: no answer; STATUS_REFUSED: another one than the list;
 * both name the URL. */
MUST_CHECK enum status archive_download(const char *url, const char *token_file,
                                        const char *dir, struct problem *why);

/* Prepares a request of `curl` to a broker. All arguments are lent; `reason`
 * has CURL_ERROR_SIZE bytes. */
void download_prepare(CURL *curl, const char *url, const struct token *token,
                      char *reason);

/* True if a token may go to `url`: by https, or to this machine. */
bool download_is_safe(const char *url);

/* Reads the token for requests to `url`; "": none, *token stays.
 * STATUS_INVALID: it would be sent without TLS. */
MUST_CHECK enum status download_token(const char *url, const char *file,
                                      struct token *token, struct problem *why);

#endif

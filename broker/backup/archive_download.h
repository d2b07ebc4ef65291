/*
 * archive_download.h - downloads all Change Lists of a Tidings broker.
 *
 * A set begins with its open list, which is its moment, and goes back from
 * number to number, until a list says that it is the first one, or the broker
 * says that it no longer has the earlier ones. Lists name the public URL that
 * the broker had when it closed them; so addresses are made of the given URL.
 */
#pragma once

#include "base/token_file.h"
#include "broker/calls/blocking_call.h"

/* Downloads the lists of the broker at `url`, or of one set,
 * "http://HOST/sets/NAME", into files of `dir`. `token_file` "": none; over
 * http a token is sent to loopback only: else STATUS_INVALID.
 * STATUS_UNREACHABLE: no answer; STATUS_REFUSED: another one than the list;
 * both name the URL. */
MUST_CHECK enum status archive_download(const char *url, const char *token_file,
                                        const char *dir, struct problem *why);

/* Returns a GET, with the patience that a download needs. All is lent. */
struct call download_request(const char *url, const char *const *headers);

/* STATUS_INVALID: a token may not go to `url`, which is neither https nor on
 * this machine. */
MUST_CHECK enum status download_check_safe(const char *url,
                                           struct problem *why);

/* Makes "Authorization: ..." of the token in a file, for requests to `url`;
 * `file` "": NULL. For token_header_free. STATUS_INVALID: as above. */
MUST_CHECK enum status download_authorization(const char *url, const char *file,
                                              char **header,
                                              struct problem *why);

/*
 * backup_offer.h - a backup that a running broker makes of itself, for a client
 * to fetch by HTTP.
 *
 *     none --make--> making --> ready --take--> sending --+--> none: sent
 *                       |         ^                       |
 *                       |         +-----------------------+ broken off
 *                       +--> failed      ready for OFFER_US --> none
 *
 * A backup that is being made or ready ends with the authority of whoever asked
 * for it.
 *
 * One at a time. It is in DIR/outgoing: most files are links, and databases are
 * copies. A thread of its own makes and deletes it, at a low priority; the
 * thread begins with the first backup.
 *
 * Any thread, except for open and close.
 */
#pragma once

#include "broker/net/body.h"

/* A backup that nobody fetches is deleted after so long. */
#define OFFER_US (600 * INT64_C(1000000))

/* In the data directory. */
#define OFFER_FOLDER "outgoing"

struct backup_offer;

/* Deletes what a broker left that did not end well. `data`, the data directory,
 * is copied. */
MUST_CHECK enum status backup_offer_open(struct backup_offer **offer,
                                         const char *data, struct problem *why);

/* After the last body has ended. Waits for the copy of one file at most. NULL
 * is allowed. */
void backup_offer_close(struct backup_offer *offer);

/* Begins to make a backup as of now, instead of one that waits to be fetched.
 * When `authority` ends there is none. NULL: never. STATUS_RUNNING: one is
 * being made or sent. */
struct authority;
MUST_CHECK enum status backup_offer_make(struct backup_offer *offer,
                                         struct authority *authority,
                                         struct problem *why);

/* Sets *body to the backup, as a tar archive: of the manifest, then of all
 * files that it names. The receiver frees it. STATUS_AGAIN: it is being made;
 * STATUS_NOT_FOUND: there is none; STATUS_RUNNING: it is being sent; else what
 * has failed, once. */
MUST_CHECK enum status backup_offer_take(struct backup_offer *offer,
                                         struct body **body,
                                         struct problem *why);

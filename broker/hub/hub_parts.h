/*
 * hub_parts.h - the parts of a cluster's hub that this broker has.
 *
 *     owner thread                 delivery thread
 *       hub_give (right) --------> hub_parts_settle: reads the stream to its
 *                                  end, makes rows of the part's notes, reads
 *                                  the part's rows, begins its deliveries
 *       hub_give (NULL) ---------> writes its cursors, cuts its deliveries, and
 *       hub_await_left <---------- forgets its rows
 *
 * The next owner of a part repeats what was under way, under the same
 * Tidings-Delivery, and nothing else. A subscription stays with its part for
 * ever (hub_rows_part). Of a command the part is found here: by the pair of
 * topic and callback, or by the row of hub.db that has the number, which a copy
 * has a few seconds late: new numbers name their part (hub_db_next_id).
 *
 * Part 0 also has the relays, with all that comes in for them, the keys of the
 * hub, pings, and the other hubs that sets name. It fetches content.
 */
#pragma once

#include "broker/hub/hub.h"
#include "broker/sources/hub_db.h"

#define HUB_PARTS_ALL ((1u << HUB_PARTS) - 1)

/* Gives the hub a part by a right, which is lent until hub_await_left has
 * returned; NULL: takes it back. Any thread. */
void hub_give(struct hub *hub, unsigned part,
              const struct ownership_right *right);

/* True if the hub has the part, and its rows. Any thread. */
bool hub_has(struct hub *hub, unsigned part);

/* False if hub.db has rows of its own, or a newer program's: it cannot take
 * parts. Any thread. */
bool hub_is_fit(struct hub *hub);

/* Waits until the hub no longer uses the right; its thread must go on. */
void hub_await_left(struct hub *hub, unsigned part);

/* The delivery thread's */

/* Reads the rows of parts into memory; also before there is a thread. */
MUST_CHECK enum status hub_parts_load(struct hub *hub, unsigned parts,
                                      struct problem *why);

/* Takes the parts that were given, and leaves the others; between two turns. */
void hub_parts_settle(struct hub *hub);

/* Reads what others have written, if it is time. */
void hub_parts_follow(struct hub *hub);

/* True if the command is to be run here; else it was carried to its owner, or
 * answered. */
bool hub_parts_have(struct command *command);

/* True if the rest of a list was asked of other brokers, which will end it. */
bool hub_parts_collect(struct command *command);

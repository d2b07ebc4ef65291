/*
 * witnesses.h - sends the checkpoints of sets to witnesses (--witness), and
 * keeps their cosignatures (C2SP tlog-witness, tlog-cosignature).
 *
 *     set has grown --> candidate: a size --POST add-checkpoint--> each witness
 *                                                                      |
 *     changes/checkpoint.witnessed <--- the candidate is signed, <--- 200
 *                                       with their cosignatures
 *
 * A set that is not private has a candidate when a list has closed (its end),
 * and each --checkpoint-every if its log has grown. All witnesses are asked for
 * the same candidate, so that it gets the cosignatures of all. An end waits some
 * seconds for a witness that answers 429 or 503, as one that reads on. The file
 * is written when each of them was asked, and again when a late one comes. A
 * set that rests causes no traffic. A private set has none: its name and its
 * size are nobody's business.
 *
 * A witness knows the sets that its operator has named. So 404 makes the
 * set wait for an hour at that witness, then longer, up to a day; other
 * refusals for a minute and longer. Each is logged once. A witness that is
 * away, slow or endless waits as a whole.
 *
 * In a cluster each broker asks for itself: the tree and the keys are the same,
 * so a witness sees one log, and each broker has the cosignatures that it
 * serves. A witness answers 409 where another broker was earlier.
 *
 * A witness may know more of a log than the broker, whose directory is an older
 * copy: see goes_on_in_new_epoch.
 *
 * Threads: each witness has one, and calls of its own: no witness delays
 * another, or anything else. `lock` guards candidates; nobody waits while
 * holding it but for the disk.
 */
#pragma once

#include "broker/sets/registry.h"
#include "proto/tlog/note.h"

#define WITNESSES_MAX 8

struct witnesses;

/* Checks the value of --witness: "URL KEY", and more of these, with commas or
 * blanks between all. STATUS_INVALID. */
MUST_CHECK enum status witnesses_check(const char *text, struct problem *why);

/* Begins to ask. `text`: that value; "": *witnesses is NULL. */
MUST_CHECK enum status witnesses_open(struct witnesses **witnesses,
                                      struct registry *registry,
                                      const char *text, struct problem *why);

/* Waits for calls under way: not longer than their time. NULL is allowed. */
void witnesses_close(struct witnesses *witnesses);

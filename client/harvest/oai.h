/*
 * oai.h - reads a provider of OAI-PMH 2.0 into a feed: one look.
 *
 *     Identify --> ListRecords or ListIdentifiers --> resumptionToken --> end
 *                    ^                                         |
 *                    +-- it does not hold: from the last stamp +
 *
 * A full pass reads all records, and what the list lacks is deleted within the
 * limits of deletions; or held back, if the provider keeps its deletions: then
 * tombstones alone delete. Another pass reads those stamped since the last one,
 * less an overlap, and posts those that differ. The next pass begins
 * at the provider's time of this one's first answer, or at ours, if that is
 * earlier: the position, "2026-11-28T12:00:00Z".
 *
 * Each record counts once: as held, as deleted, or as one that cannot be used.
 * The sum has to be the completeListSize, if the provider states it. A record
 * that is no XML is gone round.
 */
#pragma once

#include "client/harvest/harvest_feed.h"

/* True if the feed's URL answers as a provider does to Identify. It is asked
 * once. Turns the loops of all handles while it waits; false, too, if the
 * harvest is over then. */
bool oai_answers(struct td_client *client, struct harvest_feed *feed);

/* Reads the provider of feed->url: its base URL, or any request. `after`: the
 * position; reads all records if it is none, and where the provider has to.
 * TD_OK: `why` says why the list is not known to be complete; "": it is,
 * and feed->is_unproven says if deletions may be missing. TD_STOPPED: the
 * harvest is over. Else `why` says why nothing was read. While it waits, it
 * turns the loops of all handles. */
enum td_status oai_read(struct td_client *client, struct harvest_feed *feed,
                        const char *after, struct problem *why);

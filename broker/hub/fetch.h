/*
 * fetch.h - a Source has said that its topic has changed: GET, and what is new
 * is taken in (W-121, W-123).
 *
 *     fetch_ping --> waits (FETCHES_AT_ONCE) --> GET --> 304, or the same again
 *          ^                                      |  \-> taken in
 *          +---- a ping came meanwhile -----------+---- fails: again later, a
 *                                                       few times
 *
 * However often a Source pings, its topic is fetched no faster than it answers:
 * pings that come while one is fetched mean one fetch more. As at most a few
 * are under way, the memory for their bodies (--max-body each) is bounded.
 *
 * What a relay has taken in is fetched again if the turn could not be kept: the
 * Source has said it once, and was answered.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_FETCH_H
#define BROKER_HUB_FETCH_H

#include "broker/hub/source.h"

#define FETCHES_AT_ONCE 4

/* A failed fetch is tried so often in all, after --hub-retry-first and then
 * twice as long each time. Then the next ping has to bring it. */
#define FETCH_TRIES 5

void fetch_ping(struct source *source);

/* Before there is a thread. */
void fetch_start(struct foreign *foreign);

#endif

/*
 * source_fetch.h - fetches a topic after a ping of its Source, and takes in
 * what is new (W-121, W-123).
 *
 *     ping --> waits (FETCHES_AT_ONCE) --> GET --> 304, or the same again
 *                 ^                          |  \-> taken in
 *                 +-- a ping came meanwhile -+---- fails: again later, a few
 *                                                  times
 *
 * However often a Source pings, its topic is fetched no faster than the Source
 * answers: all pings during a fetch cause one more fetch. FETCHES_AT_ONCE
 * bounds the memory for the bodies (--max-body each).
 *
 * If the turn in which a relay took a document in cannot be kept, the document
 * is fetched again: the Source pinged once, was answered, and will not repeat
 * it.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_SOURCE_FETCH_H
#define BROKER_HUB_SOURCE_FETCH_H

#include "broker/hub/foreign_source.h"

#define FETCHES_AT_ONCE 4

/* So many tries of a fetch in all: the second after --hub-retry-first, each
 * later one after twice the pause. Then only the next ping fetches it. */
#define FETCH_TRIES 5

void source_fetch_ping(struct foreign_source *source);

/* Before there is a thread. */
void source_fetch_start(struct foreign_sources *foreign);

#endif

/*
 * pause.h - growing pauses between attempts, spread by chance.
 */
#pragma once

#include "proto/c.h"

/* Milliseconds of the first pause, about. */
#define PAUSE_FIRST 200

/* The longest pause, unless the server asks for longer; and the time over which
 * the clients of a broker that ends, which loses all at once, spread their
 * return. */
#define PAUSE_LONGEST  30000
#define PAUSE_FAREWELL 1000

/* A random number from 0 to `below` - 1. */
unsigned pause_chance(unsigned below);

/* The milliseconds to wait now: *pause_ms, give or take a half. Doubles
 * *pause_ms for the next time, up to `most_ms`. */
unsigned pause_take(unsigned *pause_ms, unsigned most_ms);

/* The same, but no less than the seconds that the server asked for
 * (Retry-After; 0: none), up to an hour. */
unsigned pause_asked(unsigned *pause_ms, unsigned most_ms, unsigned asked_s);

/* Default patience of a call that has to end: milliseconds of attempts without
 * anything new. */
#define PATIENCE_DEFAULT 60000

/* After `since_ms` without anything new: shortens a pause of *ms so that a last
 * attempt falls on the end of `patience_ms`. False: that is over, or the server
 * asked for a longer pause (`asked_s`). */
bool pause_within(unsigned patience_ms, int64_t since_ms, unsigned asked_s,
                  unsigned *ms);

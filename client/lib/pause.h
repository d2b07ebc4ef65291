/*
 * pause.h - growing pauses between attempts, spread by chance.
 */
#ifndef CLIENT_LIB_PAUSE_H
#define CLIENT_LIB_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds of the first pause, about. */
#define PAUSE_FIRST 200

/* A number from 0 to `below` - 1, by chance. */
unsigned pause_chance(unsigned below);

/* The milliseconds to wait now: *pause_ms, give or take a half. Doubles
 * *pause_ms for the next time, up to `most_ms`. */
unsigned pause_take(unsigned *pause_ms, unsigned most_ms);

/* The same, but no less than the seconds that the server asked for
 * (Retry-After; 0: none), up to an hour. */
unsigned pause_asked(unsigned *pause_ms, unsigned most_ms, unsigned asked_s);

/* How long whoever is to come to an end goes on with attempts: milliseconds
 * without anything new, unless it is told. */
#define PATIENCE_DEFAULT 60000

/* Nothing came for `since_ms`. A pause of *ms is shortened so that a last
 * attempt is made when `patience_ms` are over. False: they are over, or the
 * other side wants to be left alone (`asked_s`) for longer than that. */
bool pause_within(unsigned patience_ms, int64_t since_ms, unsigned asked_s,
                  unsigned *ms);

#endif

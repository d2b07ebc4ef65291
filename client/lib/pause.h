/*
 * pause.h - growing pauses between attempts, spread by chance.
 */
#ifndef CLIENT_LIB_PAUSE_H
#define CLIENT_LIB_PAUSE_H

/* Milliseconds of the first pause, about. */
#define PAUSE_FIRST 200

/* A number from 0 to `below` - 1, by chance. */
unsigned pause_chance(unsigned below);

/* The milliseconds to wait now: *pause_ms, give or take a half. Doubles
 * *pause_ms for the next time, up to `most_ms`. */
unsigned pause_take(unsigned *pause_ms, unsigned most_ms);

#endif

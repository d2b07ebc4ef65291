/*
 * rounds.h - decides which sets of a source are read at a time.
 *
 *     added --> waiting --+--> streaming                      the first 100
 *                  ^      |
 *                  |      +--> visited, until it has caught up
 *                  +-- pause --------+
 *                                    +--> over
 *
 * A set that is followed holds a connection open, and a source may have
 * thousands of sets. So the first ROUNDS_STREAMS sets are streamed; each other
 * one is visited again and again: read until it has caught up, and left alone
 * for a pause. With is_once, all sets are visited.
 *
 * Pure: the caller passes the time and opens the sets. One thread.
 */
#ifndef CLIENT_SOURCE_ROUNDS_H
#define CLIENT_SOURCE_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets of a source streamed at once: each is a connection, and brokers and
 * proxies allow one client some hundreds. */
#define ROUNDS_STREAMS 100

/* Sets visited at once. A visit is a handful of requests in sequence: several
 * visits together hide the waits for the network. */
#define ROUNDS_VISITS 16

struct rounds;

/* `is_once`: streams no set, and visits none again. `pause_ms`: between two
 * visits of a set. NULL: no memory. */
struct rounds *rounds_new(bool is_once, unsigned pause_ms);
void rounds_free(struct rounds *rounds); /* NULL is allowed */

/* Adds a waiting set; its number is the next one, from 0. False: no memory. */
bool rounds_add(struct rounds *rounds, const char *url);

/* The number of sets. */
size_t rounds_count(const struct rounds *rounds);

/* Finds a set by its URL. False: there is none. */
bool rounds_find(const struct rounds *rounds, const char *url, size_t *set);

/* The set's URL, lent until rounds_free. */
const char *rounds_url(const struct rounds *rounds, size_t set);

/* Takes the next set to be opened at `now_ms`. `*is_visit`: until it has caught
 * up. False: none now. */
bool rounds_next(struct rounds *rounds, int64_t now_ms, size_t *set,
                 bool *is_visit);

/* Ends a visit. The set waits for the next one; with is_once it is over. */
void rounds_rest(struct rounds *rounds, size_t set, int64_t now_ms);

/* Ends a set for good. */
void rounds_end(struct rounds *rounds, size_t set);

/* Milliseconds until rounds_next may find another set than at `now_ms`, if no
 * set is closed before; -1: never. */
int64_t rounds_wait_ms(const struct rounds *rounds, int64_t now_ms);

/* True if every set is over. */
bool rounds_are_over(const struct rounds *rounds);

/* True if a set waits that was never opened. */
bool rounds_are_new(const struct rounds *rounds);

#endif

/*
 * booked.h - what the book of a mirror was told, in order: kept by triggers in
 * its own database, in the transactions of the mirror. So it tells what was
 * committed, whenever the mirror was killed, and nothing else.
 *
 *     booked_begin(dir);                 while no mirror runs
 *     ... syncs, killed or not ...
 *     booked_each(dir, check, user);     while no mirror runs
 *
 * The mirror's database is DIR/.tidings/mirror.db (client/mirror/book.c).
 */
#ifndef TESTS_SUPPORT_BOOKED_H
#define TESTS_SUPPORT_BOOKED_H

#include <stdint.h>

/* Begins to keep it. */
void booked_begin(const char *dir);

/* The seq of the position that the mirror of one set is at; 0: it has none, or
 * it is not there yet. */
uint64_t booked_seq(const char *dir);

/* What was kept, oldest first: a resource was told (`hash`: of what is wanted,
 * "": untold), deleted (`hash` NULL), or a position was reached (`loc` NULL).
 */
typedef void booked_fn(const char *loc, const char *hash, const char *position,
                       void *user);
void booked_each(const char *dir, booked_fn *each, void *user);

#endif

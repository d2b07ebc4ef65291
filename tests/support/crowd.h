/*
 * crowd.h - very many subscribers of one set in one process, each of which
 * checks every byte it gets.
 *
 * The entries of a set, in one form, are one long text, however they are cut
 * into messages. The crowd keeps that text once per form: whoever is ahead adds
 * to it, all others compare. What a message says it covers must be where it
 * stands in that text, and the digest told with a seq is the same for all.
 *
 * Not of threads; fails the test at the first thing that is wrong.
 */
#ifndef TESTS_SUPPORT_CROWD_H
#define TESTS_SUPPORT_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"
#include "tests/support/notice.h"

struct crowd;

/* Room for `max` subscribers; raises the limit of open files as far as may be.
 * `entries_max`: the last seq that may come. */
struct crowd *crowd_new(size_t max, uint64_t entries_max);
void crowd_free(struct crowd *c);

/* From now on they connect over TLS. */
void crowd_speak_tls(struct crowd *c);

/* Connects one more to the stream at `path`. `is_narrow`: with a small receive
 * buffer. Returns its number, from 0. */
size_t crowd_join(struct crowd *c, unsigned port, const char *path,
                  enum notice_form form, bool is_narrow);

/* The same as an EventSource, which gets JSON. */
size_t crowd_join_events(struct crowd *c, unsigned port, const char *path,
                         bool is_narrow);
/* Connects it anew, from where it is: `path` ends in "after=EPOCH-", and its
 * seq is put behind that. At the end of a message only. */
void crowd_rejoin(struct crowd *c, size_t number, unsigned port,
                  const char *path);

/* From now on nobody reads what it gets; and again. */
void crowd_stop_reading(struct crowd *c, size_t number);
void crowd_read_again(struct crowd *c, size_t number);

/* Reads until all who read have got the entries up to `last`; fails the test if
 * nobody gets anything for `wait_ms`. 0: until all are greeted. */
void crowd_read_until(struct crowd *c, uint64_t last, int wait_ms);

/* The last entry it got. */
uint64_t crowd_last(const struct crowd *c, size_t number);

/* Bytes that have come to it and that it has not read. */
size_t crowd_unread(const struct crowd *c, size_t number);

/* All entries that somebody got, as they stand in messages of that form. */
struct slice crowd_text(const struct crowd *c, enum notice_form form);

/* The digest that was told with an entry; "" if it was with none. */
const char *crowd_digest(const struct crowd *c, uint64_t seq);

#endif

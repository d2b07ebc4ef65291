/*
 * messages.h - for tests of messages: written, and read as a receiver would.
 *
 *     FIXTURE(messages_open, messages_close);
 *
 * They have the registry of stage.h, and the last message in `text`.
 */
#ifndef TESTS_UNIT_READERS_MESSAGES_H
#define TESTS_UNIT_READERS_MESSAGES_H

#include <string.h>

#include "broker/readers/message.h"
#include "proto/input/input_formats.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

#define MIB ((size_t)1 << 20)

static const enum message_form forms[] = {MESSAGE_XML, MESSAGE_JSON};

extern struct buf text;

int messages_open(void **state);
int messages_configure(void **state); /* stage_configure */
int messages_close(void **state);

/* The set "demo", after `posts` posts of `each` entries. */
struct set *post_each(unsigned posts, unsigned each);

/* Writes what `wish` says; it must succeed. Returns the last seq. */
uint64_t write_wish(const struct message_wish *wish);

/* Writes the entries behind `after` up to `upto`; that must succeed. Returns
 * the last seq. */
uint64_t write_part(struct set *set, enum message_form form, uint64_t after,
                    uint64_t upto, size_t max_bytes,
                    enum log_patience patience);

/* The same for all that follows `after`, wherever it is. */
uint64_t write_on(struct set *set, enum message_form form, uint64_t after,
                  size_t max_bytes);

/* Writes a part, or a heartbeat, and returns the status. A failure has written
 * nothing. */
enum status try_part(struct set *set, enum message_form form, uint64_t after,
                     uint64_t upto, enum log_patience patience);
enum status try_heartbeat(struct set *set, enum message_form form, uint64_t seq,
                          enum log_patience patience);

/* Reads `text` with a receiver, which must accept it; returns what it covers.
 * receive_all: its changes must be consecutive. */
struct coverage receive(enum message_form form, change_fn *on_change,
                        void *user);
struct coverage receive_all(enum message_form form);

/* d(seq), from the beginning. */
struct digest digest_at(struct set *set, uint64_t seq);

/* `text` has the entries behind `after` up to `last`, and says so. */
void assert_covers(struct set *set, enum message_form form, uint64_t after,
                   uint64_t last);

#endif

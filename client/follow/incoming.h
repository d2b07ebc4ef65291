/*
 * incoming.h - reads a message of the broker: its coverage and its changes.
 *
 * One struct incoming reads any number of messages, one after the other.
 */
#ifndef CLIENT_FOLLOW_INCOMING_H
#define CLIENT_FOLLOW_INCOMING_H

#include <stddef.h>

#include "client/follow/changes.h"
#include "client/tidings.h"
#include "proto/coverage.h"
#include "proto/formats.h"
#include "proto/problem.h"

struct incoming {
    enum td_form form;
    struct reader *reader;
    struct coverage coverage;
    size_t n_changes;
    struct td_change *changes; /* text points into the message */
    struct changes memory;     /* memory of the changes */
};

/* STATUS_MEMORY */
enum status incoming_init(struct incoming *in, enum td_form form);
void incoming_fini(struct incoming *in);

/* Reads the message `text`, which must stay until the next one: the texts of
 * the changes point into it. STATUS_MALFORMED: it is no message of a broker;
 * `why` says more. STATUS_MEMORY. */
enum status incoming_read(struct incoming *in, struct slice text,
                          struct problem *why);

/* The bytes of change `i` that the log's digest covers, in XML. */
struct slice incoming_fragment(const struct incoming *in, size_t i);

/* Terminates the texts of the changes from `first` on. That overwrites the byte
 * after each, which only incoming_fragment needs. */
void incoming_terminate(struct incoming *in, size_t first);

#endif

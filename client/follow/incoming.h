/*
 * incoming.h - a message of the broker, read: what it covers and its changes.
 *
 * One of them is used for one message after the other.
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
    struct changes memory;     /* where they are */
};

/* TD_MEMORY */
enum td_status incoming_init(struct incoming *in, enum td_form form);
void incoming_fini(struct incoming *in);

/* Reads the message `text`, which must stay until the next one: the changes'
 * text is lent from it. TD_BROKEN: it is no message of a broker; `why` says
 * more. TD_MEMORY. */
enum td_status incoming_read(struct incoming *in, struct slice text,
                             struct problem *why);

/* In XML, the bytes of change `i` that the digest of the log is made of. */
struct slice incoming_fragment(const struct incoming *in, size_t i);

/* Terminates the text of the changes from `first` on: each is followed by a
 * byte that nobody needs any more, incoming_fragment excepted. */
void incoming_terminate(struct incoming *in, size_t first);

#endif

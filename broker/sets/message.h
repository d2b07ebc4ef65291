/*
 * message.h - a part of a set's log as a notification, in a form.
 *
 * A message is header + entries + footer. Its bytes are a function of the set,
 * the form and the two seqs it covers, whoever makes it and whenever: so it can
 * be thrown away and made again. The XML entries are the fragments as they are;
 * the JSON entries are made from them when somebody first asks, and kept with
 * the batch.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_MESSAGE_H
#define BROKER_SETS_MESSAGE_H

#include <stdint.h>

#include "broker/log/cursor.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

enum message_form {
    MESSAGE_XML,
    MESSAGE_JSON,
    MESSAGE_FORMS /* how many there are */
};

/* Which message is wanted. */
struct message_wish {
    struct set *set;
    enum message_form form;
    uint64_t after;   /* covers the entries after this one ... */
    uint64_t upto;    /* ... but none after this one; UINT64_MAX: no limit */
    size_t max_bytes; /* a message with more than one entry keeps within it */
    enum log_patience patience;
    bool has_next; /* JSON: with a `next` member (change memory) */
};

/* Appends the message that covers as much as it may hold, and sets *last to the
 * last entry it covers: `after` itself at the head of the log, where it has no
 * entries. STATUS_AGAIN: not without waiting for a disk, or for the making of a
 * large form; STATUS_GONE as by log_read. */
MUST_CHECK enum status message_write(struct buf *to,
                                     const struct message_wish *wish,
                                     uint64_t *last, struct problem *why);

/* Appends a heartbeat at position `seq`: no entries, the clock, the interval
 * quiet can be told from dead). */
MUST_CHECK enum status message_heartbeat(struct buf *to, struct set *set,
                                         enum message_form form, uint64_t seq,
                                         enum log_patience patience,
                                         struct problem *why);

#endif

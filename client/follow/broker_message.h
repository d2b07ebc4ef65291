/*
 * broker_message.h - reads a message of the broker: its coverage and its
 * lines.
 *
 * One struct broker_message reads any number of messages, one after the other.
 */
#pragma once

#include "client/tidings.h"
#include "proto/input/input_formats.h"
#include "proto/resourcesync/position.h"

struct broker_message {
    struct input_reader *reader;
    struct coverage coverage;
    size_t n_changes;
    struct buf lines; /* struct broker_line, of each change */
};

/* A change as the log has it. The log's digest covers these bytes, and the
 * follower reads the change from them alone. */
struct broker_line {
    struct slice text; /* with its line end; points into the message */
    uint64_t seq;
    int64_t us; /* event time */
};

static inline const struct broker_line *
broker_lines(const struct broker_message *in)
{
    return (const void *)in->lines.data;
}

/* STATUS_MEMORY */
enum status broker_message_init(struct broker_message *in);
void broker_message_fini(struct broker_message *in);

/* Reads the message `text`, in XML, which must stay until the next one: the
 * lines point into it. STATUS_MALFORMED: it is no message of a broker; `why`
 * says more. STATUS_MEMORY. */
enum status broker_message_read(struct broker_message *in, struct slice text,
                                struct problem *why);

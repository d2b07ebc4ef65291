/*
 * broker_message.h - reads a message of the broker: its coverage and its
 * changes.
 *
 * One struct broker_message reads any number of messages, one after the other.
 */
#pragma once

#include "client/follow/change_batch.h"
#include "client/tidings.h"
#include "proto/input/input_formats.h"
#include "proto/resourcesync/position.h"

struct broker_message {
    enum td_form form;
    struct input_reader *reader;
    struct coverage coverage;
    size_t n_changes;
    struct td_change *changes; /* TD_JSON: text points into the message, and is
                                  not terminated. TD_XML: NULL */
    struct changes memory;     /* memory of the changes */
    struct buf lines;          /* TD_XML: struct broker_line, of each change */
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

/* The number of change `i`. */
static inline uint64_t
broker_message_seq(const struct broker_message *in, size_t i)
{
    return in->form == TD_XML ? broker_lines(in)[i].seq : in->changes[i].seq;
}

/* `form`: of messages, and of the next ones. STATUS_MEMORY */
enum status broker_message_init(struct broker_message *in, enum td_form form);
enum status broker_message_use(struct broker_message *in, enum td_form form);
void broker_message_fini(struct broker_message *in);

/* Reads the message `text`, which must stay until the next one: the texts of
 * the changes point into it. STATUS_MALFORMED: it is no message of a broker;
 * `why` says more. STATUS_MEMORY. */
enum status broker_message_read(struct broker_message *in, struct slice text,
                                struct problem *why);

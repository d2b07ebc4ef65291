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
    struct td_change *changes; /* text points into the message, and is not
                                  terminated. In XML the log's digest covers
                                  it and the byte after it */
    struct changes memory;     /* memory of the changes */
};

/* STATUS_MEMORY */
enum status broker_message_init(struct broker_message *in, enum td_form form);
void broker_message_fini(struct broker_message *in);

/* Reads the message `text`, which must stay until the next one: the texts of
 * the changes point into it. STATUS_MALFORMED: it is no message of a broker;
 * `why` says more. STATUS_MEMORY. */
enum status broker_message_read(struct broker_message *in, struct slice text,
                                struct problem *why);

/*
 * input_check.h - reads changes as the broker does, before they are posted.
 *
 *     input_check_open -> input_check_read ... -> input_check_close
 *
 * The reader is the broker's own (proto/input/input_formats.h). Rights,
 * --max-body and content depend on the broker or the set: the check leaves them
 * out.
 */
#pragma once

#include "proto/input/input_formats.h"

struct input_check {
    input_fault_fn *on_fault; /* called for each fault */
    void *user;
    bool ignores_unknown; /* skips members of JSON that it does not know */
    uint64_t n_changes;   /* of all documents */
    uint64_t n_faults;    /* likewise */
    struct buf changes;   /* of the last document: JSON objects with ",\n"
                             between; only if ignores_unknown */

    struct input_reader *reader;
    struct buf fragment;
};

/* Opens a check of documents of that media type. The caller has set the first
 * three fields, and zeroed the others. False: no memory. */
bool input_check_open(struct input_check *check, const char *type);
void input_check_close(struct input_check *check);

/* Reads a document. True if it has no fault. A fault outside of the entries
 * ends the reading. */
bool input_check_read(struct input_check *check, struct slice document);

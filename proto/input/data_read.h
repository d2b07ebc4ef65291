/*
 * data_read.h - the data of a change: any JSON, made compact.
 *
 *     {"price": 3.50, "was": [4]}  -->  {"price":3.50,"was":[4]}
 *
 * White space between tokens goes, and each string has only the escapes that it
 * needs. Members and numbers stay as they were posted. So the same value has
 * one text in every format, and no control character is in it. Null counts as
 * no data.
 */
#pragma once

#include "proto/json/json_parse.h"
#include "proto/resourcesync/entry_builder.h"

struct data_read {
    struct buf text; /* compact so far; at most ENTRY_BYTES_MAX */
    unsigned depth;  /* objects and arrays that are open */
};

/* Before each value; a text of more than JSON_KEPT_BYTES loses its memory. */
void data_read_begin(struct data_read *data);

/* Adds a token; a json_event_fn. The value is whole once the depth is 0 again.
 * STATUS_INVALID: nested too deep, or longer than an entry may be; the caller
 * puts the member's name before that. */
MUST_CHECK enum status data_read_event(void *data, enum json_event event,
                                       struct slice text, struct problem *why);

/* Copies the value into `entry`. STATUS_INVALID: longer than CHANGE_DATA_MAX.
 */
MUST_CHECK enum status data_read_end(const struct data_read *data,
                                     struct entry *entry, struct problem *why);

/* Checks that a text is compact JSON already. STATUS_INVALID, STATUS_MEMORY. */
MUST_CHECK enum status data_check(struct slice text);

/* All of it for a text of JSON, which may be empty. STATUS_INVALID: it is none.
 */
MUST_CHECK enum status data_read(struct entry *entry, struct slice json,
                                 struct problem *why);

/*
 * json_slices.h - cuts JSON text into its pieces, lent, as they stand.
 *
 * For text that proto/ has accepted: it checks only what it needs to stay
 * inside the text.
 */
#pragma once

#include "proto/slice.h"

/* Looks up a member of an object by its name, which has no escapes. */
bool json_slices_member(struct slice object, const char *name,
                        struct slice *value);

/* The next member of an object, its name without the quotes: `rest` begins as
 * the object itself. False at its end, or if it is not an object. */
bool json_slices_next(struct slice *rest, struct slice *name,
                      struct slice *value);

/* The next element of an array: `rest` begins as the array itself. False at its
 * end, or if it is not an array. */
bool json_slices_element(struct slice *rest, struct slice *value);

/* The inside of a string, escapes and all; empty if the value is none. */
struct slice json_slices_text(struct slice value);

/*
 * text_set.h - texts, each once: the URLs that were seen. The set keeps copies.
 *
 * Not locked.
 */
#ifndef BASE_TEXT_SET_H
#define BASE_TEXT_SET_H

#include "base/map.h"
#include "proto/status.h"

/* All zero: empty. */
struct text_set {
    struct map map;
};

/* Adds a copy of `text`, and sets *is_new to true unless the set has it.
 * STATUS_MEMORY. */
MUST_CHECK enum status text_set_add(struct text_set *set, struct slice text,
                                    bool *is_new);

bool text_set_has(const struct text_set *set, struct slice text);
void text_set_remove(struct text_set *set, struct slice text); /* if it is in */
void text_set_fini(struct text_set *set);

#endif

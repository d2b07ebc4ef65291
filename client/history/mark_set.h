/*
 * mark_set.h - the marks of entries that were read, each as often as it was.
 *
 * A mark identifies an entry of a Change List by its resource, change, digest
 * and times. Kept positions and files have marks: they never change.
 */
#ifndef CLIENT_HISTORY_MARK_SET_H
#define CLIENT_HISTORY_MARK_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/source/document.h"

/* Returns the mark of an entry; never 0. */
uint64_t mark_of(const struct document_entry *entry);

/* Returns the sum of marks, which does not depend on their order. */
uint64_t marks_sum(const uint64_t *marks, size_t n);

struct mark_set {
    struct mark_slot *slots; /* NULL: none */
    size_t n_slots;          /* a power of two */
};

/* False: no memory. */
bool mark_set_init(struct mark_set *set, const uint64_t *marks, size_t n);
void mark_set_fini(struct mark_set *set); /* all zero is empty */

/* Takes an entry of a reading out of the set. False: it is not there, or was
 * taken as often as it is. */
bool mark_set_take(struct mark_set *set, uint64_t mark);

/* Takes back a call of mark_set_take, whatever it returned. */
void mark_set_put_back(struct mark_set *set, uint64_t mark);

/* True if it is there, taken or not. */
bool mark_set_has(const struct mark_set *set, uint64_t mark);

#endif

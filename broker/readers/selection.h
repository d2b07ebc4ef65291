/*
 * selection.h - the entries of a batch that a reader gets, in a form.
 *
 * The batch keeps results that several readers share, so that each is computed
 * once per batch and filter class (batch.h describes the threads):
 *
 *   the JSON of all entries          always, from the first request on
 *   the entries that a class gets    if the class has several readers
 *   the JSON of those entries        likewise, unless the batch has the JSON of
 *                                    all entries already
 *   the CloudEvents of either        likewise
 *   their texts without data         likewise, for a class that wants them so,
 *                                    if one of the entries has data
 *
 * The batch has a bound for all of them. A result beyond it is computed for one
 * message, and freed with the selection. The XML of an entry is otherwise its
 * fragment in the batch.
 *
 * A selection belongs to one thread and lends from the batch.
 */
#pragma once

#include "broker/log/batch.h"
#include "broker/readers/message.h"
#include "broker/sets/filters.h"

struct selection {
    struct batch *batch;
    size_t n; /* entries; numbered from 0 */

    const uint32_t *entries;  /* their indexes in the batch; NULL: all */
    const struct form *texts; /* NULL: the fragments of the batch */
    size_t gap;               /* bytes behind each text: a comma of JSON */
    bool is_dense;            /* their bytes follow each other */
    struct form *own[2];      /* what the batch does not keep */
};

/* Selects what `filter` (NULL: none) lets through of a batch. Any thread may:
 * the JSON of a full batch takes about 0.1 milliseconds (json_fragment).
 * CloudEvents name the set, which is only needed for them. STATUS_IO: the batch
 * is damaged. */
MUST_CHECK enum status selection_make(struct selection *s, struct batch *b,
                                      const struct filter_class *filter,
                                      enum message_form form,
                                      const struct set *set,
                                      struct problem *why);
void selection_fini(struct selection *s);

/* The number of the first entry after `seq`, which is at least first - 1 of the
 * batch; n: there is none. */
size_t selection_after(const struct selection *s, uint64_t seq);

/* The seq of entry `i`. */
uint64_t selection_seq(const struct selection *s, size_t i);

/* How many entries from `i` on, at most `max`, have no more than `room` bytes;
 * *size is what they have, the separators between them included. */
size_t selection_fit(const struct selection *s, size_t i, size_t max,
                     size_t room, size_t *size);

/* Sets `to` to the bytes of `n` entries from `i` on, lent, separators between
 * them and, if `is_followed`, behind them. Returns how many slices it needed:
 * at most one if they are dense, else `n`. */
size_t selection_slices(const struct selection *s, size_t i, size_t n,
                        bool is_followed, struct slice *to);

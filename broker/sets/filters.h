/*
 * filters.h - filter classes: readers with equal filters are of one class.
 *
 * What a filter lets through of a batch is worked out once for a class that
 * several readers are of, and kept with the batch (selection.h). A class is
 * gone with its last reader.
 *
 * The number of classes is limited, and each client's share of it (clients.h).
 * A stream of a client without room is refused, for it would cost work with
 * each commit; a pull gets a class that is not listed.
 *
 * A class counts for the client of its first reader until its last reader has
 * left, even if the first one leaves before. To move it to the client of
 * another reader, each reader would need a record of its own in the class, and
 * that client could have no room for it. The harm has an end: others keep at
 * most those classes that the client itself has made, no more than its share,
 * and only its streams with further filters are refused meanwhile.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_FILTERS_H
#define BROKER_SETS_FILTERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/base/clients.h"
#include "proto/filter.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Classes at a time: some 5 KB each, and a commit of a set is looked at once
 * for each class that follows it. */
#define FILTERS_MAX 2048

struct filters {
    pthread_mutex_t mutex; /* guards all, and owners of each class */
    struct list all;
    struct clients *clients; /* lent */
    unsigned n;
    uint64_t last_id;
};

struct filter_class {
    struct list node;
    struct filters *filters;
    struct holding holding; /* of the first reader's client; 0: not listed */
    uint64_t id;            /* from 1 on; never given twice */
    unsigned owners;
    atomic_uint readers;
    struct filter filter;
};

/* `clients` is lent. */
void filters_init(struct filters *filters, struct clients *clients);
void filters_fini(struct filters *filters); /* no class is left */

/* One more reader with this sealed filter; sets *class to its class, or to NULL
 * if the filter passes everything. STATUS_LIMITED: the client has its share;
 * STATUS_BUSY: there is no room, or no memory. */
MUST_CHECK enum status filters_enter(struct filters *filters,
                                     const struct filter *filter,
                                     struct client *client,
                                     struct filter_class **class,
                                     struct problem *why);

/* The same, but without room the reader gets a class of its own that is not
 * listed. STATUS_MEMORY. */
MUST_CHECK enum status filters_enter_anyhow(struct filters *filters,
                                            const struct filter *filter,
                                            struct client *client,
                                            struct filter_class **class,
                                            struct problem *why);

/* One reader less. NULL is allowed. */
void filters_leave(struct filter_class *class);

/* Work for a reader that may have gone when it ends: keeps the class alive,
 * without being a reader. NULL is allowed. */
struct filter_class *filter_class_ref(struct filter_class *class);
void filter_class_unref(struct filter_class *class);

/* A class that is not among them, in the caller's memory: its filter is still
 * to be given (filter_add, filter_seal). It takes nobody's place, and nothing
 * of it is kept with batches: for a filter that the broker itself reads with.
 * It is neither entered nor left, and has no references. */
void filter_class_alone(struct filter_class *class);

/* Have several readers use it? Only then it is worth while to keep what it lets
 * through. */
static inline bool
filter_class_is_shared(const struct filter_class *class)
{
    /* Relaxed: an old number costs some work twice, or some memory. */
    return atomic_load_explicit(&class->readers, memory_order_relaxed) > 1;
}

#endif

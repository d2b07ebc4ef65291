/*
 * filters.h - filter classes: readers with equal filters are of one class.
 *
 * For a class with several readers, the broker applies the filter to a batch
 * once, and stores the result with the batch (selection.h). A class ends with
 * its last reader.
 *
 * The number of classes is limited, and each client's share of it
 * (client_limits.h). The broker refuses a stream of a client without room, for
 * it would cost work with each commit; a pull gets a class that is not listed.
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
#pragma once

#include <pthread.h>

#include "broker/base/client_limits.h"
#include "proto/resourcesync/change_filter.h"

/* Classes at a time: some 5 KB each, and each class that follows a set costs a
 * look at each commit. */
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
    uint64_t id;            /* from 1 on; never used twice */
    unsigned owners;
    atomic_uint readers;
    struct filter filter;
};

/* `clients` is lent. After all classes nothing but the mutex is left. */
void filters_init(struct filters *filters, struct clients *clients);

/* Adds a reader with this sealed filter; sets *class to its class, or to NULL
 * if the filter passes everything. STATUS_LIMITED: the client has used up its
 * share; STATUS_BUSY: no room. `anyhow`: without room the reader gets one of
 * its own that is not listed, and no error. */
MUST_CHECK enum status filters_enter(struct filters *filters,
                                     const struct filter *filter,
                                     struct client *client, bool anyhow,
                                     struct filter_class **class,
                                     struct problem *why);

/* Removes a reader. NULL is allowed. */
void filters_leave(struct filter_class *class);

/* Keeps the class alive, without a reader, for work that may end after its
 * reader has left. NULL is allowed. */
struct filter_class *filter_class_ref(struct filter_class *class);
void filter_class_unref(struct filter_class *class);

/* Makes an unlisted class in the caller's memory, for a filter of the broker
 * itself; the caller adds its filter (filter_add, filter_seal). It takes no
 * place, and batches store no results of it. It is neither entered nor left,
 * and has no references. */
void filter_class_alone(struct filter_class *class);

/* True if several readers use the class. Only then storing its results pays. */
static inline bool
filter_class_is_shared(const struct filter_class *class)
{
    /* Relaxed: an old number costs some work twice, or some memory. */
    return load_relaxed(&class->readers) > 1;
}

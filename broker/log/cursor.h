/*
 * cursor.h - a reader: a place in a set's log, the next batch, and being woken
 * when there is one.
 */
#ifndef BROKER_LOG_CURSOR_H
#define BROKER_LOG_CURSOR_H

#include <stdint.h>

#include "base/list.h"
#include "broker/log/log.h"

struct cursor {
    struct log *log;
    struct log_set *set;
    uint64_t after; /* seq of the last entry that was read */
};

/* The batch that holds the cursor's next entry, or NULL at the head; see
 * log_read. The cursor does not move: the reader says how far it has come. */
MUST_CHECK enum status cursor_next(const struct cursor *cursor,
                                   enum log_patience patience,
                                   struct batch **batch, struct problem *why);

/* A subscription of a thread to the commits of a set. */
struct watch {
    struct list node;
    /* Called on the log thread under the set's lock: mark, wake, return. */
    void (*wake)(struct watch *watch);
};

/* From here on `watch` is woken after each commit; look at the head after this
 * call, not before it. Any thread. */
void cursor_watch(struct log_set *set, struct watch *watch);

/* When it returns, `watch` is not and will not be called. Any thread. */
void cursor_unwatch(struct log_set *set, struct watch *watch);

#endif

/*
 * entry.h - entries of documents as they are handed over, some at a time.
 *
 * What comes by a message has a text of its own; what comes from a document is
 * written down here, as a broker would write it: the JSON object or the <url>
 * of the entry, without a change where it has none (a resource).
 */
#ifndef CLIENT_FOLLOW_ENTRY_H
#define CLIENT_FOLLOW_ENTRY_H

#include "client/follow/changes.h"
#include "client/source/document.h"
#include "proto/filter.h"

/* Handed over at once at most: enough that a caller who syncs a disk for each
 * message is not slow, little enough that it is no memory to speak of. */
#define BATCH_ENTRIES 256
#define BATCH_BYTES   (256 * 1024)

struct batch {
    enum td_form form;
    struct changes changes;
    struct buf line; /* the fragment, before it becomes a text */
};

void batch_init(struct batch *batch, enum td_form form);
void batch_fini(struct batch *batch);
void batch_clear(struct batch *batch);

/* Adds an entry if it passes `filter`. `is_change`: it tells a change: it has a
 * time if it has any at all, and one that does not say of which kind is an
 * update; else a resource. `file`: its representation; NULL: none. TD_MEMORY */
enum td_status batch_add(struct batch *batch, const struct filter *filter,
                         const struct document_entry *entry, bool is_change,
                         const char *file);

static inline bool
batch_is_full(const struct batch *batch)
{
    return changes_count(&batch->changes) >= BATCH_ENTRIES ||
           batch->changes.arena.used >= BATCH_BYTES;
}

#endif

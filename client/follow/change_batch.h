/*
 * change_batch.h - batches of entries of documents, to be handed over.
 *
 * Changes in a message have texts. Entries of a document get theirs here, as a
 * broker would write them: the JSON object or the <url> of the entry, without a
 * change if it is a resource.
 */
#ifndef CLIENT_FOLLOW_CHANGE_BATCH_H
#define CLIENT_FOLLOW_CHANGE_BATCH_H

#include "client/follow/change_array.h"
#include "client/source/document.h"
#include "proto/change_filter.h"

/* Most entries and bytes of a batch: enough for a caller that syncs a disk at
 * each message, and not much memory. */
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

/* Adds an entry if it passes `filter`. `is_change`: the entry is a change, with
 * a time if it has any, and an update if it names no kind; else a resource.
 * `file`: its representation; NULL: none. STATUS_MEMORY */
enum status batch_add(struct batch *batch, const struct filter *filter,
                      const struct document_entry *entry, bool is_change,
                      const char *file);

static inline bool
batch_is_full(const struct batch *batch)
{
    return changes_count(&batch->changes) >= BATCH_ENTRIES ||
           batch->changes.arena.used >= BATCH_BYTES;
}

#endif

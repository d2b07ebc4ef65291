/*
 * change_batch.h - builds the changes of a message as struct td_change with
 * terminated strings, in memory that is used again and again.
 *
 *     changes_clear --> changes_add ... --> changes_seal
 *
 * Changes in a message of the broker have texts. Entries of a document get
 * theirs in a batch, as a broker would write them: the JSON object or the <url>
 * of the entry, without a change if it is a resource.
 */
#pragma once

#include "client/source/document.h"
#include "client/tidings.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/change_filter.h"
#include "proto/resourcesync/entry_builder.h"

struct changes {
    struct arena arena; /* strings */
    struct buf list;    /* struct td_change */
    struct buf links;   /* struct td_link, of all changes in order */
    bool failed;        /* no memory for a string */
};

void changes_init(struct changes *changes);
void changes_fini(struct changes *changes);
void changes_clear(struct changes *changes);

/* Adds `change` and its links; the caller sets `text`, `file` and, for a
 * resource, clears the kind. Lent until the next one is added; NULL: no memory.
 */
struct td_change *changes_add(struct changes *changes,
                              const struct change *change);

/* Sets the links of all changes when all are added. Lent until changes_clear.
 */
struct td_change *changes_seal(struct changes *changes);

static inline size_t
changes_count(const struct changes *changes)
{
    return changes->list.size / sizeof(struct td_change);
}

/* Batches of entries */

/* Most entries and bytes of a batch: enough for a caller that syncs a disk at
 * each message, and not much memory. */
#define BATCH_ENTRIES 256
#define BATCH_BYTES   (256 * 1024)

struct change_batch {
    enum td_form form;
    struct changes changes;
    struct buf line; /* the fragment, before it becomes a text */
};

void change_batch_init(struct change_batch *batch, enum td_form form);
void change_batch_fini(struct change_batch *batch);

/* Adds an entry if it passes `filter`. `is_change`: the entry is a change, with
 * a time if it has any, and an update if it names no kind; else a resource.
 * `file`: its representation; NULL: none. STATUS_MEMORY */
enum status change_batch_add(struct change_batch *batch,
                             const struct filter *filter,
                             const struct document_entry *entry, bool is_change,
                             const char *file);

/* Adds the entry of a stamped fragment if it passes `filter`; `entry` is memory
 * to read it into. Any thread that has both. STATUS_MALFORMED: the fragment is
 * not, byte for byte, what a broker writes; STATUS_MEMORY. */
enum status change_batch_add_fragment(struct change_batch *batch,
                                      const struct filter *filter,
                                      struct entry *entry,
                                      struct slice fragment);

/* The same for a line of the log that its digest covers: also one of another
 * version, which may write elements that this one passes over. */
enum status change_batch_add_line(struct change_batch *batch,
                                  const struct filter *filter,
                                  struct entry *entry, struct slice line);

static inline bool
change_batch_is_full(const struct change_batch *batch)
{
    return changes_count(&batch->changes) >= BATCH_ENTRIES ||
           batch->changes.arena.used >= BATCH_BYTES;
}

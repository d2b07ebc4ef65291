/*
 * change_batch.h - builds the changes of a message as struct td_change with
 * terminated strings, in memory that is used again and again.
 *
 *     change_batch_clear --> change_batch_add ... --> change_batch_seal
 *
 * Changes in a message of the broker have texts. Entries of a document get
 * theirs here, as a broker would write them: the JSON object or the <url> of the
 * entry, without a change if it is a resource.
 */
#pragma once

#include "client/source/document.h"
#include "client/tidings.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/change_filter.h"
#include "proto/resourcesync/entry_builder.h"

/* Most entries and bytes of a batch: enough for a caller that syncs a disk at
 * each message, and not much memory. */
#define BATCH_ENTRIES 256
#define BATCH_BYTES   (256 * 1024)

struct change_batch {
    enum td_form form;
    struct arena arena; /* strings */
    struct buf list;  /* struct td_change; failed, too, for want of a string */
    struct buf links; /* struct td_link, of all changes in order */
    struct buf line;  /* a fragment, before it becomes a text */
};

void change_batch_init(struct change_batch *batch, enum td_form form);
void change_batch_fini(struct change_batch *batch);
void change_batch_clear(struct change_batch *batch);

/* Adds a change and its links, without a text. Lent until the next one is added;
 * NULL: no memory. */
struct td_change *change_batch_keep(struct change_batch *batch,
                                    const struct change *change);

/* Sets the links of all changes when all are added. Lent until
 * change_batch_clear. */
struct td_change *change_batch_seal(struct change_batch *batch);

static inline size_t
change_batch_count(const struct change_batch *batch)
{
    return batch->list.size / sizeof(struct td_change);
}

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
    return change_batch_count(batch) >= BATCH_ENTRIES ||
           batch->arena.used >= BATCH_BYTES;
}

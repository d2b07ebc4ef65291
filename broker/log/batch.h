/*
 * batch.h - consecutive entries of one set: one buffer, an index, owners
 * counted.
 *
 * A batch is filled by one thread (batch_new, batch_add), then handed around
 * and never changed again; the last batch_unref frees it. Batches come from a
 * commit, from the store or from a closed list. Readers see no difference: the
 * bytes are the same, because fragments are copied everywhere as they are.
 */
#pragma once

#include "base/relaxed.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/fragment.h"

/* Most fragment bytes of one batch: a quarter of a message, which merges
 * several; where a batch ends the digest is known, so it is also where a closed
 * list's file can be entered. A fragment always fits. */
#define BATCH_BYTES_MAX 262144

/* Entries from one digest that a batch keeps to the next. */
#define BATCH_STRIDE 64

struct batch_entry {
    uint32_t offset; /* of the fragment, in bytes */
    uint32_t stamp;  /* where its stamp begins, from its first byte */
};

/* Entries of a batch in another form, made on first demand and kept with the
 * batch: one block of memory, freed with it. The makers of forms
 * (readers/selection.h) choose their meaning and their keys. */
struct form {
    struct form *next;       /* the batch's own */
    uint64_t key;            /* equal keys: equal forms */
    size_t size;             /* of the whole block, this struct included */
    size_t n;                /* entries that it has */
    const uint32_t *entries; /* which: indexes, ascending; NULL: all */
    const char *bytes;       /* the entries, separators between them; or NULL */
    const uint32_t *starts;  /* n + 1 offsets into bytes */
};

/* The limits of a batch on optional forms, by number and by bytes. A hundred
 * filters of a hundred readers must not multiply its size. */
#define BATCH_FORMS_MAX   32
#define BATCH_FORMS_BYTES (2 * (size_t)BATCH_BYTES_MAX)

struct batch {
    atomic_uint owners;
    uint64_t first;       /* seq of the first entry */
    uint64_t last;        /* first - 1 while it is empty */
    int64_t before_us;    /* T(first - 1) */
    int64_t last_us;      /* T(last) */
    int64_t committed_us; /* on the steady clock, for metrics; 0: not now, or
                             not here */
    struct digest before; /* d(first - 1) */
    struct digest digest; /* d(last) */
    uint64_t list;        /* a commit's batch: the list it belongs to */
    uint64_t list_bytes;  /* and that list's fragment bytes up to its end */
    char *bytes;
    size_t size, capacity;
    struct batch_entry *entries;
    size_t n_entries, n_capacity;
    struct digest *digests; /* after each BATCH_STRIDE entries, so that
                               batch_digest need not begin at the first */
    size_t n_digests, digests_capacity;
    _Atomic(struct form *) forms; /* the one made last; see batch_keep_form */
    atomic_size_t *forms_account; /* counts the bytes of forms; or NULL */
    bool is_read; /* the caller gave its digest to batch_append */
};

/* An empty batch for the entries after `after`. */
struct batch *batch_new(uint64_t after, int64_t before_us,
                        const struct digest *before,
                        atomic_size_t *forms_account);

/* Room for `size` more bytes and `n_entries` more entries. STATUS_MEMORY: there
 * is none for the bytes. */
MUST_CHECK enum status batch_reserve(struct batch *b, size_t size,
                                     size_t n_entries);

/* Copies a fragment in and fills its hole: the entry gets seq last + 1 and the
 * event time `us`. Room was reserved (fragment_stamp's need). */
void batch_add(struct batch *b, const char *bytes, const struct fragment *f,
               int64_t us);

/* Appends stamped fragments as they stand in a store or file; builds the index
 * and checks that the seqs go on. The digest becomes `digest`, which the caller
 * knows. STATUS_IO: the bytes are not what was written. */
MUST_CHECK enum status batch_append(struct batch *b, struct slice fragments,
                                    const struct digest *digest,
                                    struct problem *why);

/* The same for `size` bytes that the caller has put behind the batch's own, in
 * room that it reserved. */
MUST_CHECK enum status batch_append_in_place(struct batch *b, size_t size,
                                             const struct digest *digest,
                                             struct problem *why);

/* Gives back memory that was reserved and not used. */
void batch_trim(struct batch *b);

struct batch *batch_ref(struct batch *b);
void batch_unref(struct batch *b); /* NULL is allowed */

/* Memory it holds, forms not counted. */
size_t batch_weight(const struct batch *b);

/* The fragments of the entries after `after` up to `last`, both within the
 * batch (first - 1 <= after <= last <= b->last). */
struct slice batch_slice(const struct batch *b, uint64_t after, uint64_t last);

/* T(seq) and d(seq), for first - 1 <= seq <= last. */
int64_t batch_time(const struct batch *b, uint64_t seq);
struct digest batch_digest(const struct batch *b, uint64_t seq);

/* The last seq whose time is not after `us`, which is not before before_us. */
uint64_t batch_seq_at(const struct batch *b, int64_t us);

/* True if the entries match the digest; keeps the digests on the way, or takes
 * them from when the same batch was right before (below). For
 * batches from a disk: a disk that returns other bytes must not rewrite
 * history. */
bool batch_is_genuine(struct batch *b);

/* Remembers a batch that batch_add alone has filled, so that batch_is_genuine
 * need not add up its digests when it comes back from a disk. Does nothing for
 * another batch. Any thread. */
void batch_remember(const struct batch *b);

/* The form with that key, lent by the batch; NULL: none is kept. Any thread. */
const struct form *batch_form(const struct batch *b, uint64_t key);

/* Stores `form` (malloc'd as one block) and lends it; if another thread was
 * quicker, lends its form and frees ours. NULL: no room for another optional
 * form; the caller then still owns it. Any thread. */
const struct form *batch_keep_form(struct batch *b, struct form *form,
                                   bool must_keep);

/* Verified batches: which ones have had the right digest before.
 *
 * The digests of a batch from a disk are checked each time it is read. Adding
 * them up takes half of the time of reading old entries: SHA-256 goes from
 * entry to entry, at 0.24 us for one of 310 bytes. A batch that has passed is
 * therefore remembered by a code: GMAC of its bytes and its two digests, with a
 * key of this process, at an eighth of the time. The next read that has the
 * same code has the same bytes. The same for a batch that the log made, when it
 * leaves the memory (tail.h) before its list has a file.
 *
 * The digests within a batch are kept with its code, so that the file of a list
 * gets the digests of its marks (list_file.c).
 *
 * The tables have a fixed size (512 KiB of codes; digests of 4,096 batches,
 * which are 1.7 MB with entries of 310 bytes), and a new code takes the place
 * of another: a batch that was forgotten has its digests added up. They are one
 * for the process, because they change no answer, only the time of it. Any
 * thread.
 */

struct batch_code {
    uint64_t place, value; /* value 0: there is none */
};

/* The code of `bytes`, which lead from digest `before` to `digest`. */
struct batch_code batch_code_of(const struct digest *before,
                                const struct digest *digest,
                                struct slice bytes);

bool verified_batches_have(struct batch_code code);

/* Remembers the code of a batch, and a copy of the digests within it, if there
 * is memory for that. */
void verified_batches_add(struct batch_code code, const struct digest *digests,
                          size_t n);

/* Copies the digests that were remembered with the code, at most `max`, and
 * returns their number; 0: they were forgotten. */
size_t verified_batches_digests(struct batch_code code, struct digest *to,
                                size_t max);

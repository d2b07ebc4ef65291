#include "broker/log/batch.h"

#include <stdlib.h>
#include <string.h>

#include "broker/log/verified_batches.h"
#include "proto/memory.h"

struct batch *
batch_new(uint64_t after, int64_t before_us, const struct digest *before,
          atomic_size_t *forms_account)
{
    struct batch *b = memory_new(1, sizeof(*b));

    atomic_init(&b->owners, 1);
    atomic_init(&b->forms, NULL);
    b->first = after + 1;
    b->last = after;
    b->before_us = b->last_us = before_us;
    b->before = b->digest = *before;
    b->forms_account = forms_account;
    return b;
}

/* `need` rounded up so that repeated growth costs a constant per byte. */
static size_t
grown_size(size_t have, size_t need)
{
    size_t doubled = have * 2;

    return doubled > need ? doubled : need;
}

/* Room for `n` more entries. They and their digests are small blocks: an entry
 * has 64 bytes at least of the BATCH_BYTES_MAX. */
static void
reserve_entries(struct batch *b, size_t n)
{
    size_t n_entries = b->n_entries + n, n_digests = n_entries / BATCH_STRIDE;

    if (n_entries > b->n_capacity) {
        b->n_capacity = grown_size(b->n_capacity, n_entries);
        b->entries =
            memory_grow(b->entries, b->n_capacity, sizeof(*b->entries));
    }
    if (n_digests > b->digests_capacity) {
        b->digests_capacity = grown_size(b->digests_capacity, n_digests);
        b->digests =
            memory_grow(b->digests, b->digests_capacity, sizeof(*b->digests));
    }
}

enum status
batch_reserve(struct batch *b, size_t size, size_t n_entries)
{
    if (b->size + size > b->capacity) {
        size_t capacity = grown_size(b->capacity, b->size + size);
        char *bytes = memory_grow(b->bytes, 1, capacity);

        if (!bytes)
            return STATUS_MEMORY;
        b->bytes = bytes;
        b->capacity = capacity;
    }
    reserve_entries(b, n_entries);
    return STATUS_OK;
}

/* Keeps the digest of the `n`th entry, if its turn has come. Room was reserved.
 * batch_append hashes nothing: batch_is_genuine keeps those digests. */
static void
keep_digest(struct batch *b, size_t n, const struct digest *digest)
{
    if (n % BATCH_STRIDE == 0 && n / BATCH_STRIDE == b->n_digests + 1)
        b->digests[b->n_digests++] = *digest;
}

void
batch_add(struct batch *b, const char *bytes, const struct fragment *f,
          int64_t us)
{
    char *to = b->bytes + b->size;
    size_t size = fragment_stamp(to, bytes, f, us, b->last + 1);

    b->entries[b->n_entries++] =
        (struct batch_entry){.offset = (uint32_t)b->size, .stamp = f->hole};
    b->size += size;
    b->last++;
    b->last_us = us;
    digest_add(&b->digest, (struct slice){to, size});
    keep_digest(b, b->n_entries, &b->digest);
}

enum status
batch_append(struct batch *b, struct slice fragments,
             const struct digest *digest, struct problem *why)
{
    if (batch_reserve(b, fragments.size, 0))
        return problem_memory(why);
    if (fragments.size > 0)
        memcpy(b->bytes + b->size, fragments.data, fragments.size);
    return batch_append_in_place(b, fragments.size, digest, why);
}

enum status
batch_append_in_place(struct batch *b, size_t size, const struct digest *digest,
                      struct problem *why)
{
    /* Most fragments have more than 128 bytes: a first guess, grown below. */
    reserve_entries(b, size / 128 + 1);
    for (size_t end = b->size + size; b->size < end;) {
        struct slice rest = {b->bytes + b->size, end - b->size};
        struct fragment_view view;

        if (fragment_view(rest, &view) || view.seq != b->last + 1)
            return problem(why, STATUS_IO, "the stored entry %llu is damaged",
                           (unsigned long long)(b->last + 1));
        reserve_entries(b, 1);
        b->entries[b->n_entries++] = (struct batch_entry){
            .offset = (uint32_t)b->size, .stamp = view.stamp};
        b->size += view.size;
        b->last = view.seq;
        b->last_us = view.us;
    }
    b->digest = *digest;
    b->is_read = true;
    return STATUS_OK;
}

void
batch_trim(struct batch *b)
{
    /* If the move to a smaller block fails, the block is as it was. */
    if (b->capacity - b->size > b->size / 4) {
        char *bytes = memory_grow(b->bytes, 1, b->size ? b->size : 1);

        if (bytes) {
            b->bytes = bytes;
            b->capacity = b->size;
        }
    }
    if (b->n_capacity - b->n_entries > b->n_entries / 4) {
        b->n_capacity = b->n_entries ? b->n_entries : 1;
        b->entries =
            memory_grow(b->entries, b->n_capacity, sizeof(*b->entries));
    }
    if (b->n_digests == 0) {
        free(b->digests);
        b->digests = NULL;
    } else if (b->digests_capacity > b->n_digests) {
        b->digests = memory_grow(b->digests, b->n_digests, sizeof(*b->digests));
    }
    b->digests_capacity = b->n_digests;
}

struct batch *
batch_ref(struct batch *b)
{
    /* Relaxed: the caller already holds a reference. */
    atomic_fetch_add_explicit(&b->owners, 1, memory_order_relaxed);
    return b;
}

void
batch_unref(struct batch *b)
{
    struct form *form, *next;
    size_t forms = 0;

    /* Release: this owner's accesses happen before the free; acquire: the last
     * owner sees them. */
    if (!b ||
        atomic_fetch_sub_explicit(&b->owners, 1, memory_order_acq_rel) != 1)
        return;
    for (form = atomic_load_explicit(&b->forms, memory_order_relaxed); form;
         form = next) {
        next = form->next;
        forms += form->size;
        free(form);
    }
    if (forms > 0 && b->forms_account)
        atomic_fetch_sub_explicit(b->forms_account, forms,
                                  memory_order_relaxed);
    free(b->digests);
    free(b->entries);
    free(b->bytes);
    free(b);
}

size_t
batch_weight(const struct batch *b)
{
    return sizeof(*b) + b->capacity + b->n_capacity * sizeof(*b->entries) +
           b->digests_capacity * sizeof(*b->digests);
}

/* Where the entry after `seq` begins. */
static size_t
end_of(const struct batch *b, uint64_t seq)
{
    size_t n = (size_t)(seq - (b->first - 1));

    return n == b->n_entries ? b->size : b->entries[n].offset;
}

struct slice
batch_slice(const struct batch *b, uint64_t after, uint64_t last)
{
    size_t from = end_of(b, after);

    return (struct slice){b->bytes + from, end_of(b, last) - from};
}

int64_t
batch_time(const struct batch *b, uint64_t seq)
{
    const struct batch_entry *entry;

    if (seq < b->first)
        return b->before_us;
    if (seq == b->last)
        return b->last_us;
    entry = &b->entries[seq - b->first];
    return fragment_time(b->bytes + entry->offset, entry->stamp);
}

uint64_t
batch_seq_at(const struct batch *b, int64_t us)
{
    uint64_t low = b->first - 1, high = b->last;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (batch_time(b, middle) <= us)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

struct digest
batch_digest(const struct batch *b, uint64_t seq)
{
    uint64_t n = seq - b->first + 1;
    size_t kept = (size_t)(n / BATCH_STRIDE);
    struct digest d;

    if (seq == b->last)
        return b->digest;
    if (kept > b->n_digests)
        kept = b->n_digests;
    d = kept > 0 ? b->digests[kept - 1] : b->before;
    for (uint64_t at = b->first + kept * BATCH_STRIDE; at <= seq; at++)
        digest_add(&d, batch_slice(b, at - 1, at));
    return d;
}

static struct batch_code
code_of(const struct batch *b)
{
    return batch_code_of(&b->before, &b->digest,
                         (struct slice){b->bytes, b->size});
}

void
batch_remember(const struct batch *b)
{
    if (!b->is_read)
        verified_batches_add(code_of(b), b->digests, b->n_digests);
}

bool
batch_is_genuine(struct batch *b)
{
    struct batch_code code = code_of(b);
    struct digest d = b->before;

    if (verified_batches_have(code)) {
        if (b->n_digests == 0)
            b->n_digests =
                verified_batches_digests(code, b->digests, b->digests_capacity);
        return b->n_entries > 0;
    }
    b->n_digests = 0;
    for (size_t n = 1; n <= b->n_entries; n++) {
        digest_add(&d, batch_slice(b, b->first + n - 2, b->first + n - 1));
        keep_digest(b, n, &d);
    }
    if (b->n_entries == 0 || !digest_is_equal(&d, &b->digest))
        return false;
    verified_batches_add(code, b->digests, b->n_digests);
    return true;
}

/*
 * Forms are a list to which threads only ever add at the front, so readers need
 * no lock: a thread that reads a form's address (acquire) also reads everything
 * that its maker wrote before (release), its `next` included. The last owner
 * frees all forms; no thread removes one before. A thread that comes too late
 * looks through the new forms and tries again: so no key is there twice, and
 * the bounds hold for the very list that the form is added to.
 */
const struct form *
batch_form(const struct batch *b, uint64_t key)
{
    const struct form *form =
        atomic_load_explicit(&b->forms, memory_order_acquire);

    while (form && form->key != key)
        form = form->next;
    return form;
}

const struct form *
batch_keep_form(struct batch *b, struct form *form, bool must_keep)
{
    struct form *front = atomic_load_explicit(&b->forms, memory_order_acquire);

    do {
        size_t bytes = form->size, n = 1;

        for (const struct form *kept = front; kept; kept = kept->next) {
            if (kept->key == form->key) {
                free(form);
                return kept;
            }
            bytes += kept->size;
            n++;
        }
        if (!must_keep && (n > BATCH_FORMS_MAX || bytes > BATCH_FORMS_BYTES))
            return NULL;
        form->next = front;
    } while (!atomic_compare_exchange_weak_explicit(
        &b->forms, &front, form, memory_order_acq_rel, memory_order_acquire));
    if (b->forms_account)
        atomic_fetch_add_explicit(b->forms_account, form->size,
                                  memory_order_relaxed);
    return form;
}

#include "broker/log/batch.h"

#include <pthread.h>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/array.h"

struct batch *
batch_new(uint64_t after, int64_t before_us, const struct digest *before,
          atomic_size_t *forms_account)
{
    struct batch *b = memory_new(1, sizeof(*b));

    atomic_init(&b->owners, 1);
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
            return problem(why, STATUS_IO,
                           "the stored entry %" PRIu64 " is damaged",
                           b->last + 1);
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
    add_relaxed(&b->owners, 1);
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
    for (form = load_relaxed(&b->forms); form; form = next) {
        next = form->next;
        forms += form->size;
        free(form);
    }
    if (forms > 0 && b->forms_account)
        subtract_relaxed(b->forms_account, forms);
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
    return FIRST_FALSE(seq, b->first, b->last + 1, batch_time(b, seq) <= us) -
           1;
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

/* Verified batches */

/* 27 million entries in blocks of a list's file. */
#define TABLE_SIZE 65536

/* A shorter batch has its digests added up sooner than the key is set. */
#define BYTES_MIN 16384

/* Each code stands for itself, so their order does not matter. */
static _Atomic uint64_t table[TABLE_SIZE];

/* As many batches as a backlog of 1 GB has. */
#define KEPT_SIZE 4096

struct kept {
    uint64_t value; /* of a code */
    struct digest *digests;
    size_t n;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the next */
static struct kept all_kept[KEPT_SIZE];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char code_key[16];
static bool has_code_key;

static void
make_key(void)
{
    has_code_key = RAND_bytes(code_key, sizeof(code_key)) == 1;
}

struct batch_code
batch_code_of(const struct digest *before, const struct digest *digest,
              struct slice bytes)
{
    /* A nonce hides the key from those who see codes; nobody does. */
    static const unsigned char nonce[12] = {0};
    struct batch_code code = {0, 0};
    unsigned char tag[sizeof(code)];
    EVP_CIPHER_CTX *ctx;
    int n;

    pthread_once(&once, make_key);
    if (!has_code_key || bytes.size < BYTES_MIN || bytes.size > INT32_MAX)
        return code;
    ctx = EVP_CIPHER_CTX_new();
    if (ctx &&
        EVP_EncryptInit_ex(ctx, EVP_aes_128_gcm(), NULL, code_key, nonce) &&
        EVP_EncryptUpdate(ctx, NULL, &n, before->bytes, DIGEST_SIZE) &&
        EVP_EncryptUpdate(ctx, NULL, &n, digest->bytes, DIGEST_SIZE) &&
        EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *)bytes.data,
                          (int)bytes.size) &&
        EVP_EncryptFinal_ex(ctx, tag, &n) &&
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, sizeof(tag), tag))
        memcpy(&code, tag, sizeof(code));
    EVP_CIPHER_CTX_free(ctx);
    return code;
}

static _Atomic uint64_t *
place_of(struct batch_code code)
{
    return &table[code.place % TABLE_SIZE];
}

bool
verified_batches_have(struct batch_code code)
{
    return code.value && load_relaxed(place_of(code)) == code.value;
}

void
verified_batches_add(struct batch_code code, const struct digest *digests,
                     size_t n)
{
    struct kept *kept = &all_kept[code.place % KEPT_SIZE];
    struct digest *copy;

    if (!code.value)
        return;
    store_relaxed(place_of(code), code.value);
    if (n == 0)
        return;
    copy = memory_room(n * sizeof(*copy));
    memcpy(copy, digests, n * sizeof(*copy));
    pthread_mutex_lock(&mutex);
    free(kept->digests);
    *kept = (struct kept){code.value, copy, n};
    pthread_mutex_unlock(&mutex);
}

size_t
verified_batches_digests(struct batch_code code, struct digest *to, size_t max)
{
    const struct kept *kept = &all_kept[code.place % KEPT_SIZE];
    size_t n = 0;

    pthread_mutex_lock(&mutex);
    if (code.value && kept->value == code.value) {
        n = kept->n < max ? kept->n : max;
        memcpy(to, kept->digests, n * sizeof(*to));
    }
    pthread_mutex_unlock(&mutex);
    return n;
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
        add_relaxed(b->forms_account, form->size);
    return form;
}

#include "broker/log/batch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/posts.h"
#include "tests/test.h"

static struct digest
start(void)
{
    struct digest d;

    digest_sha256(&d, SLICE(POSTS_EPOCH));
    return d;
}

/* `n` light entries after `after`. */
static struct batch *
make(uint64_t after, unsigned n, atomic_size_t *account)
{
    struct digest before = start();
    struct posted p;
    struct batch *b;

    posts_begin(&p, POST_CHANGES, NULL);
    posts_add_many(&p, (unsigned)after + 1, n);
    b = posts_batch(&p, after, &before, account);
    posts_end(&p);
    return b;
}

/* Design section 1: a batch without entries stands at its position. */
TEST(begins_empty_at_a_position)
{
    struct digest before = start();
    struct batch *b = batch_new(41, 1000, &before, NULL);

    assert_int_equal(b->first, 42);
    assert_int_equal(b->last, 41);
    assert_int_equal(batch_time(b, 41), 1000);
    assert_int_equal(batch_slice(b, 41, 41).size, 0);
    assert_memory_equal(b->digest.bytes, before.bytes, DIGEST_SIZE);
    batch_unref(b);
}

/* each entry gets the next seq, in the bytes too. */
TEST(numbers_its_entries_and_stamps_them)
{
    struct batch *b = make(6, 3, NULL);

    assert_int_equal(b->first, 7);
    assert_int_equal(b->last, 9);
    assert_int_equal(b->n_entries, 3);
    for (uint64_t seq = 7; seq <= 9; seq++) {
        struct fragment_view view;

        assert_int_equal(fragment_view(batch_slice(b, seq - 1, seq), &view),
                         STATUS_OK);
        assert_int_equal(view.seq, seq);
        assert_int_equal(view.us, POSTS_TIME(seq));
        assert_int_equal(view.size, batch_slice(b, seq - 1, seq).size);
        assert_int_equal(batch_time(b, seq), POSTS_TIME(seq));
    }
    batch_unref(b);
}

/* log.md, times: a batch knows T(after), the time before its first entry. */
TEST(knows_the_time_before_its_first_entry)
{
    struct batch *b = make(6, 3, NULL);

    assert_int_equal(batch_time(b, 6), POSTS_TIME(6));
    batch_unref(b);
}

/* log.md, digests: d(n) = SHA-256(d(n-1) || fragment n), for every n. */
TEST(chains_the_digest_of_every_entry)
{
    struct batch *b = make(0, 5, NULL);
    struct digest d = start();

    for (uint64_t seq = 0; seq <= 5; seq++) {
        struct digest told = batch_digest(b, seq);

        if (seq > 0)
            digest_add(&d, batch_slice(b, seq - 1, seq));
        assert_memory_equal(told.bytes, d.bytes, DIGEST_SIZE);
    }
    assert_memory_equal(b->digest.bytes, d.bytes, DIGEST_SIZE);
    batch_unref(b);
}

/* batch_digest begins at a digest that the batch keeps, and returns the same
 * as from the first entry on. */
TEST(finds_the_digest_of_every_entry_of_many)
{
    struct batch *made = make(7, 3 * BATCH_STRIDE + 5, NULL);
    struct batch *read = batch_new(7, made->before_us, &made->before, NULL);
    struct digest d = start();
    size_t half = 8 + BATCH_STRIDE;

    assert_int_equal(
        batch_append(read, batch_slice(made, 7, half), &made->before, NULL), 0);
    assert_int_equal(batch_append(read, batch_slice(made, half, made->last),
                                  &made->digest, NULL),
                     0);
    for (int i = 0; i < 2; i++) {
        d = start();
        for (uint64_t seq = 7; seq <= made->last; seq++) {
            struct digest a = batch_digest(made, seq);
            struct digest b = batch_digest(read, seq);

            if (seq > 7)
                digest_add(&d, batch_slice(made, seq - 1, seq));
            assert_memory_equal(a.bytes, d.bytes, DIGEST_SIZE);
            assert_memory_equal(b.bytes, d.bytes, DIGEST_SIZE);
        }
        assert_int_equal(made->n_digests, 3);
        assert_int_equal(read->n_digests, i ? 3 : 0);
        assert_true(batch_is_genuine(read));
        assert_true(batch_is_genuine(made));
    }
    batch_unref(made);
    batch_unref(read);
}

/* Design section 1: every part of a batch is bytes as they stand in it. */
TEST(lends_any_part_of_itself)
{
    struct batch *b = make(10, 20, NULL);

    assert_ptr_equal(batch_slice(b, 10, 30).data, b->bytes);
    assert_int_equal(batch_slice(b, 10, 30).size, b->size);
    for (uint64_t after = 10; after <= 30; after++) {
        struct slice head = batch_slice(b, 10, after);
        struct slice rest = batch_slice(b, after, 30);

        assert_int_equal(head.size + rest.size, b->size);
        assert_ptr_equal(rest.data, head.data + head.size);
        assert_int_equal(batch_slice(b, after, after).size, 0);
    }
    batch_unref(b);
}

/* the stored bytes make the same batch again. */
TEST(comes_back_from_its_bytes_as_it_was)
{
    struct batch *made = make(100, 7, NULL), *read;

    read = batch_new(100, made->before_us, &made->before, NULL);
    assert_int_equal(
        batch_append(read, batch_slice(made, 100, 104), &made->before, NULL),
        STATUS_OK);
    assert_int_equal(
        batch_append(read, batch_slice(made, 104, 107), &made->digest, NULL),
        STATUS_OK);
    assert_int_equal(read->last, 107);
    assert_int_equal(read->last_us, made->last_us);
    assert_int_equal(read->n_entries, 7);
    assert_int_equal(read->size, made->size);
    assert_memory_equal(read->bytes, made->bytes, made->size);
    for (uint64_t seq = 100; seq <= 107; seq++) {
        struct digest a = batch_digest(made, seq), b = batch_digest(read, seq);

        assert_int_equal(batch_time(read, seq), batch_time(made, seq));
        assert_int_equal(batch_slice(read, 100, seq).size,
                         batch_slice(made, 100, seq).size);
        assert_memory_equal(a.bytes, b.bytes, DIGEST_SIZE);
    }
    batch_unref(made);
    batch_unref(read);
}

static void
assert_damaged(const struct batch *made, struct slice bytes, const char *why)
{
    struct batch *b =
        batch_new(made->first - 1, made->before_us, &made->before, NULL);
    struct problem told = {""};

    assert_int_equal(batch_append(b, bytes, &made->digest, &told), STATUS_IO);
    assert_string_equal(told.text, why);
    batch_unref(b);
}

/* seqs without gaps; a damaged batch is not served. */
TEST(refuses_bytes_that_are_not_the_entries_that_follow)
{
    struct batch *made = make(0, 4, NULL);
    struct slice all = batch_slice(made, 0, 4);
    char *broken = malloc(all.size);

    assert_non_null(broken);
    /* The first is missing; the last is cut; one is doubled; no XML at all. */
    assert_damaged(made, batch_slice(made, 1, 4),
                   "the stored entry 1 is damaged");
    assert_damaged(made, (struct slice){all.data, all.size - 1},
                   "the stored entry 4 is damaged");
    memcpy(broken, all.data, all.size);
    broken[batch_slice(made, 0, 2).size] = '>';
    assert_damaged(made, (struct slice){broken, all.size},
                   "the stored entry 3 is damaged");
    memset(broken, 0, all.size);
    assert_damaged(made, (struct slice){broken, all.size},
                   "the stored entry 1 is damaged");
    free(broken);
    batch_unref(made);
}

/* Design rule 8: a batch keeps its bytes, not its former reserve.
 */
TEST(gives_back_what_it_did_not_use)
{
    struct batch *b = make(0, 50, NULL);
    size_t size = b->size, weight;

    assert_int_equal(batch_reserve(b, 1000000, 10000), STATUS_OK);
    assert_true(batch_weight(b) > 1000000 + 10000 * sizeof(*b->entries));
    batch_trim(b);
    weight = batch_weight(b);
    assert_true(weight <= sizeof(*b) + size + size / 4 +
                              (50 + 50 / 4 + 1) * sizeof(*b->entries));
    assert_int_equal(b->size, size);
    assert_int_equal(batch_time(b, 50), POSTS_TIME(50));
    batch_trim(b);
    assert_int_equal(batch_weight(b), weight);
    batch_unref(b);
}

/* After trimming an empty batch still answers questions. */
TEST(can_be_trimmed_while_it_is_empty)
{
    struct digest before = start();
    struct batch *b = batch_new(3, 7, &before, NULL);

    assert_int_equal(batch_reserve(b, 1000, 10), STATUS_OK);
    batch_trim(b);
    assert_int_equal(batch_slice(b, 3, 3).size, 0);
    assert_int_equal(batch_time(b, 3), 7);
    batch_unref(b);
}

static struct form *
form_of(uint64_t key, size_t extra, char mark)
{
    struct form *form = malloc(sizeof(*form) + extra);
    char *bytes;

    assert_non_null(form);
    bytes = (char *)(form + 1);
    memset(bytes, mark, extra);
    *form = (struct form){
        .key = key, .size = sizeof(*form) + extra, .bytes = bytes};
    return form;
}

/* log.md, reading: forms are made once per batch and count in the tail's
 * bytes. */
TEST(keeps_the_first_form_and_counts_it_while_it_lives)
{
    atomic_size_t account;
    struct batch *b;
    struct form *first = form_of(1, 1000, 'a'), *second = form_of(1, 500, 'b');
    size_t size = first->size;

    atomic_init(&account, 0);
    b = make(0, 1, &account);
    assert_null(batch_form(b, 1));
    assert_ptr_equal(batch_keep_form(b, first, true), first);
    assert_ptr_equal(batch_keep_form(b, second, true), first);
    assert_ptr_equal(batch_form(b, 1), first);
    assert_int_equal(atomic_load(&account), size);
    batch_ref(b);
    batch_unref(b);
    assert_int_equal(atomic_load(&account), size);
    batch_unref(b);
    assert_int_equal(atomic_load(&account), 0);
}

/* A form for each key; forms that need not be kept are bounded in number and
 * bytes. */
TEST(keeps_forms_by_key_within_bounds)
{
    atomic_size_t account;
    struct form *large = form_of(3, BATCH_FORMS_BYTES, 'l');
    struct form *own;
    uint64_t key = 100;
    struct batch *b;

    atomic_init(&account, 0);
    b = make(0, 1, &account);
    assert_null(batch_keep_form(b, large, false)); /* stays ours */
    assert_ptr_equal(batch_keep_form(b, large, true), large);
    assert_ptr_equal(batch_form(b, 3), large);
    own = form_of(4, 1, 'o');
    assert_null(batch_keep_form(b, own, false)); /* no bytes are left */
    free(own);
    batch_unref(b);
    assert_int_equal(atomic_load(&account), 0);

    b = make(0, 1, &account);
    while (batch_keep_form(b, own = form_of(key, 8, 'x'), false))
        assert_ptr_equal(batch_form(b, key++), own);
    assert_int_equal(key, 100 + BATCH_FORMS_MAX);
    free(own);
    assert_ptr_equal(batch_keep_form(b, form_of(101, 8, 'y'), false),
                     batch_form(b, 101)); /* it is there already */
    assert_int_equal(batch_form(b, 101)->bytes[0], 'x');
    assert_null(batch_form(b, 99));
    batch_unref(b);
    assert_int_equal(atomic_load(&account), 0);
}

#define THREADS 4

struct racer {
    pthread_t id;
    struct batch *batch;
    char mark;
    const struct form *kept;
    char seen;
};

static void *
race(void *user)
{
    struct racer *r = user;

    for (int i = 0; i < 1000; i++)
        batch_unref(batch_ref(r->batch));
    r->kept = batch_keep_form(r->batch, form_of(1, 64, r->mark), true);
    r->seen = batch_form(r->batch, 1)->bytes[63];
    batch_unref(r->batch);
    return NULL;
}

/* Design section 3: batches are shared between threads; all get the same form,
 * complete, and the last owner frees the batch. */
TEST(is_shared_by_threads_that_make_the_form_at_once)
{
    struct racer racers[THREADS];
    atomic_size_t account;
    struct batch *b;

    atomic_init(&account, 0);
    b = make(0, 3, &account);
    for (int i = 0; i < THREADS; i++)
        racers[i] =
            (struct racer){.batch = batch_ref(b), .mark = (char)('a' + i)};
    batch_unref(b);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&racers[i].id, NULL, race, &racers[i]),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(racers[i].id, NULL);
    for (int i = 1; i < THREADS; i++) {
        assert_ptr_equal(racers[i].kept, racers[0].kept);
        assert_int_equal(racers[i].seen, racers[0].seen);
    }
    assert_int_equal(atomic_load(&account), 0);
}

/* design.md section 1: the largest fragment fits in a batch of its own. */
TEST(has_room_for_the_largest_fragment)
{
    assert_true(FRAGMENT_MAX <= BATCH_BYTES_MAX);
}

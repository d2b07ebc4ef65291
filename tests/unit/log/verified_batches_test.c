
#include <stdlib.h>

#include "broker/log/batch.h"
#include "tests/support/posts.h"
#include "tests/test.h"

#define ENTRIES 400

/* The batch that a disk gives back for `made`. */
static struct batch *
read_back(const struct batch *made, struct slice bytes)
{
    struct batch *b = batch_new(made->first - 1, 0, &made->before, NULL);

    assert_non_null(b);
    assert_int_equal(batch_append(b, bytes, &made->digest, NULL), STATUS_OK);
    return b;
}

static struct batch_code
code_of(const struct batch *b)
{
    return batch_code_of(&b->before, &b->digest,
                         (struct slice){b->bytes, b->size});
}

/* a batch that was right once is still checked when it is read again. */
TEST(tells_later_damage_of_a_batch_that_was_right)
{
    struct posted p;
    struct digest before;
    struct batch *made, *again, *damaged;
    char *copy;

    digest_sha256(&before, SLICE(POSTS_EPOCH));
    posts_begin(&p, POST_CHANGES, NULL);
    posts_add_many(&p, 1, ENTRIES);
    made = posts_batch(&p, 0, &before, NULL);
    posts_end(&p);
    copy = malloc(made->size);
    assert_non_null(copy);
    memcpy(copy, made->bytes, made->size);

    again = read_back(made, (struct slice){copy, made->size});
    assert_false(verified_batches_have(code_of(again)));
    assert_true(batch_is_genuine(again));
    assert_true(verified_batches_have(code_of(again)));
    assert_true(batch_is_genuine(again));

    *((char *)memmem(copy, made->size, "<loc>", 5) + 5) ^= 1;
    damaged = read_back(made, (struct slice){copy, made->size});
    assert_false(batch_is_genuine(damaged));
    assert_false(batch_is_genuine(damaged));

    /* The digests before and behind it are a part of what is right. */
    again->before.bytes[0] ^= 1;
    assert_false(batch_is_genuine(again));
    again->before.bytes[0] ^= 1;
    again->digest.bytes[31] ^= 1;
    assert_false(batch_is_genuine(again));
    batch_unref(made);
    batch_unref(again);
    batch_unref(damaged);
    free(copy);
}

/* The log knows a batch of its own when it comes back from the disk, and takes
 * the digests within it instead of adding them up again. A batch that only says
 * so is not known. */
TEST(knows_a_batch_that_was_made_and_its_digests)
{
    struct posted p;
    struct digest before, none;
    struct batch *made, *again;

    digest_sha256(&before, SLICE(POSTS_EPOCH));
    posts_begin(&p, POST_CHANGES, NULL);
    posts_add_many(&p, 2, ENTRIES); /* the batch of no other test */
    made = posts_batch(&p, 0, &before, NULL);
    posts_end(&p);
    again = read_back(made, (struct slice){made->bytes, made->size});
    assert_int_equal(verified_batches_digests(code_of(again), &none, 1), 0);
    batch_remember(again);
    assert_false(verified_batches_have(code_of(again)));
    batch_remember(made);

    assert_true(verified_batches_have(code_of(again)));
    assert_int_equal(again->n_digests, 0);
    assert_true(batch_is_genuine(again));
    assert_int_equal(again->n_digests, ENTRIES / BATCH_STRIDE);
    assert_memory_equal(again->digests, made->digests,
                        again->n_digests * sizeof(*again->digests));
    assert_int_equal(verified_batches_digests(code_of(again), &none, 1), 1);
    assert_memory_equal(&none, made->digests, sizeof(none));
    batch_unref(made);
    batch_unref(again);
}

/* Short batches have their digests added up each time. */
TEST(has_no_code_for_a_short_batch)
{
    struct digest d;
    struct batch_code code;

    digest_sha256(&d, SLICE(POSTS_EPOCH));
    code = batch_code_of(&d, &d, SLICE("short"));
    assert_int_equal(code.value, 0);
    verified_batches_add(code, &d, 1);
    assert_false(verified_batches_have(code));
}

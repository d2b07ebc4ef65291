#include "broker/posts/posts.h"
#include "tests/test.h"

static enum status
ignore(const struct change *change, void *user, struct problem *why)
{
    unsigned *n = user;

    (void)change;
    (void)why;
    ++*n;
    return STATUS_OK;
}

#define BODY "{\"loc\":\"http://example.com/\",\"change\":\"created\"}"

/* Readers are used again, each for its format, whether the last post succeeded
 * or not. */
TEST(keeps_readers_for_the_next_post)
{
    const struct format *json = format_of(SLICE("application/json"));
    const struct format *xml = format_of(SLICE("application/xml"));
    struct input_reader *first, *second;
    unsigned n = 0, other = 0;
    struct parser_pool kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

    first = parser_pool_take(&kept, json, ignore, &n);
    assert_non_null(first);
    assert_int_not_equal(input_reader_feed(first, SLICE("{]"), NULL),
                         STATUS_OK);
    parser_pool_give(&kept, first);

    second = parser_pool_take(&kept, xml, ignore, &n);
    assert_ptr_not_equal(second, first);
    assert_ptr_equal(parser_pool_take(&kept, json, ignore, &other), first);
    assert_int_equal(input_reader_feed(first, SLICE(BODY), NULL), STATUS_OK);
    assert_int_equal(input_reader_end(first, NULL), STATUS_OK);
    assert_int_equal(other, 1);
    assert_int_equal(n, 0);
    parser_pool_give(&kept, first);
    parser_pool_give(&kept, second);
    parser_pool_give(&kept, NULL);
    parser_pool_fini(&kept);
}

#define READERS 100

/* A burst of posts leaves no more readers than are needed again; all of them
 * are freed. */
TEST(frees_readers_that_are_too_many)
{
    const struct format *json = format_of(SLICE("application/json"));
    struct input_reader *taken[READERS];
    unsigned n = 0;
    struct parser_pool kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

    for (int i = 0; i < READERS; i++) {
        taken[i] = parser_pool_take(&kept, json, ignore, &n);
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(taken[i], taken[k]);
    }
    for (int i = 0; i < READERS; i++)
        parser_pool_give(&kept, taken[i]);
    parser_pool_fini(&kept);
}

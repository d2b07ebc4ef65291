#include "broker/push/deflater.h"

#include "tests/support/gzip.h"
#include "tests/test.h"

/* A message as they are: entries that differ in some places. */
static void
add_entries(struct buf *to, size_t size)
{
    for (unsigned i = 0; to->size < size; i++)
        buf_add_format(to, "{\"loc\":\"http://example.com/r/%u\",\"seq\":%u}",
                       i, i * 7919);
    to->size = size;
}

static void
add_noise(struct buf *to, size_t size)
{
    uint32_t x = 1;

    while (to->size < size) {
        x = x * 1664525 + 1013904223;
        buf_add(to, (char *)&x + 3, 1); /* its best byte */
    }
}

/* RFC 7692 section 7.2.2: the receiver appends 00 00 ff ff and inflates. */
TEST(what_it_packs_inflates_to_the_message)
{
    static const size_t sizes[] = {DEFLATER_LEAST, 1000, 65536, 1000000};
    struct deflater d = {NULL};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf message, packed, again;

        buf_init(&message, SIZE_MAX);
        buf_init(&packed, SIZE_MAX);
        buf_init(&again, SIZE_MAX);
        add_entries(&message, sizes[i]);
        assert_true(deflater_pack(&d, buf_slice(&message), &packed));
        assert_in_range(packed.size, 1, message.size / 2);
        gzip_add_message(&again, buf_slice(&packed));
        assert_true(slice_equal(buf_slice(&again), buf_slice(&message)));
        buf_fini(&message);
        buf_fini(&packed);
        buf_fini(&again);
    }
    deflater_fini(&d);
}

/* No context takeover. The bytes are those of a deflater that has packed
 * nothing before. */
TEST(a_message_does_not_depend_on_the_one_before)
{
    struct deflater used = {NULL}, fresh = {NULL};
    struct buf message, noise, first, again;

    buf_init(&message, SIZE_MAX);
    buf_init(&noise, SIZE_MAX);
    buf_init(&first, SIZE_MAX);
    buf_init(&again, SIZE_MAX);
    add_entries(&message, 3000);
    add_noise(&noise, 100000);
    add_entries(&noise, 150000);

    assert_true(deflater_pack(&used, buf_slice(&noise), &first));
    first.size = 0;
    assert_true(deflater_pack(&used, buf_slice(&message), &first));
    assert_true(deflater_pack(&fresh, buf_slice(&message), &again));
    assert_true(slice_equal(buf_slice(&first), buf_slice(&again)));

    buf_fini(&message);
    buf_fini(&noise);
    buf_fini(&first);
    buf_fini(&again);
    deflater_fini(&used);
    deflater_fini(&fresh);
}

/* A refusal leaves the deflater as it was. */
TEST(leaves_small_and_random_messages_alone)
{
    struct deflater d = {NULL};
    struct buf small, noise, packed;

    buf_init(&small, SIZE_MAX);
    buf_init(&noise, SIZE_MAX);
    buf_init(&packed, SIZE_MAX);
    add_entries(&small, DEFLATER_LEAST - 1);
    add_noise(&noise, 70000);
    assert_false(deflater_pack(&d, buf_slice(&small), &packed));
    assert_false(deflater_pack(&d, buf_slice(&noise), &packed));
    add_entries(&small, DEFLATER_LEAST);
    assert_int_equal(packed.size, 0);
    assert_true(deflater_pack(&d, buf_slice(&small), &packed));
    buf_fini(&small);
    buf_fini(&noise);
    buf_fini(&packed);
    deflater_fini(&d);
}

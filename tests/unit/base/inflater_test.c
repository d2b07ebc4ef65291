#include "base/inflater.h"

#include "broker/push/deflater.h"
#include "tests/test.h"

#define MOST 262144

static void
pack(struct buf *packed, char fill, size_t size)
{
    struct deflater d = {NULL};
    struct buf message;

    buf_init(&message, SIZE_MAX);
    buf_init(packed, SIZE_MAX);
    memset(buf_room(&message, size), fill, size);
    message.size = size;
    assert_true(deflater_pack(&d, buf_slice(&message), packed));
    deflater_fini(&d);
    buf_fini(&message);
}

/* RFC 7692 section 7.2.2 */
TEST(inflates_what_was_deflated)
{
    static const size_t sizes[] = {300, 16383, 16384, 16385, 200000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf packed, again;

        pack(&packed, 'a', sizes[i]);
        buf_init(&again, MOST);
        assert_int_equal(inflate_message(buf_slice(&packed), &again, NULL), 0);
        assert_int_equal(again.size, sizes[i]);
        assert_memory_equal(again.data, again.data + 1, again.size - 1);
        assert_int_equal(again.data[0], 'a');
        buf_fini(&packed);
        buf_fini(&again);
    }
}

/* Few bytes become many: no more memory than the maximum. */
TEST(stops_at_the_maximum)
{
    struct problem why = {""};
    struct buf packed, again;

    pack(&packed, 'a', 10000000);
    assert_true(packed.size < 100000);
    buf_init(&again, MOST);
    assert_int_equal(inflate_message(buf_slice(&packed), &again, &why),
                     STATUS_TOO_LARGE);
    assert_string_equal(why.text, "the message is too large");
    assert_true(again.capacity <= MOST);
    buf_fini(&packed);
    buf_fini(&again);
}

TEST(refuses_what_was_not_deflated)
{
    struct problem why = {""};
    struct buf again;

    buf_init(&again, MOST);
    assert_int_equal(inflate_message(SLICE("\xff\xff\xff"), &again, &why),
                     STATUS_MALFORMED);
    assert_string_equal(why.text, "the message is not deflated as it says");
    buf_fini(&again);
}

/*
 * seek_test.c - the place in a list where reading begins, so that the entries
 * before it need not be read.
 */

#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define BATCHES 40
#define ENTRIES 5
#define WEIGHT  10000

/* The place for each of many offsets is one between two entries, before the
 * offset, and less than `near` bytes before it. */
static void
assert_places(struct sets *s, const struct list_info *info, uint64_t near)
{
    struct log *log = s->registry->log;
    struct log_set *set = sets_find(s, "demo")->log;

    for (uint64_t offset = 0; offset < info->bytes; offset += 7919) {
        struct list_place place = {0, 0};
        uint64_t is_at = 0;

        assert_int_equal(log_seek(log, set, info, offset, &place, NULL),
                         STATUS_OK);
        assert_true(place.at <= offset);
        assert_true(offset - place.at < near);

        /* place.at is where entry place.after + 1 begins. */
        for (uint64_t seq = info->after; seq < place.after;) {
            struct batch *b;

            assert_int_equal(log_read(log, set, seq, LOG_DISK, &b, NULL),
                             STATUS_OK);
            if (b->last < place.after) {
                is_at += batch_slice(b, seq, b->last).size;
                seq = b->last;
            } else {
                is_at += batch_slice(b, seq, place.after).size;
                seq = place.after;
            }
            batch_unref(b);
        }
        assert_int_equal(is_at, place.at);
    }
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(finds_a_place_near_every_byte_of_a_list)
{
    struct list_info info;
    struct head head;
    struct buf header;
    struct sets s;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    sets_post(&s, "demo", 1, 3); /* so that the list does not begin at 1 */
    sets_rotate(&s, "demo");
    for (unsigned i = 0; i < BATCHES; i++)
        sets_post_heavy(&s, "demo", 1 + i * ENTRIES, ENTRIES, WEIGHT);

    head = sets_head(&s, "demo");
    info = head_open_list(&head);
    assert_true(info.bytes > BATCHES * ENTRIES * WEIGHT);
    assert_places(&s, &info, info.bytes / BATCHES + 1000);

    sets_rotate(&s, "demo");
    buf_init(&header, SIZE_MAX);
    assert_int_equal(log_list(s.registry->log, sets_find(&s, "demo")->log, 2,
                              &info, &header, NULL),
                     STATUS_OK);
    assert_places(&s, &info, info.bytes / BATCHES + 1000);
    sets_file_all(&s);
    assert_places(&s, &info, 131072 + info.bytes / BATCHES + 1000);
    sets_close(&s);

    sets_open(&s);
    assert_places(&s, &info, 131072 + info.bytes / BATCHES + 1000);
    buf_fini(&header);
    sets_close(&s);
}

#include <stdio.h>
#include <unistd.h>

#include "broker/readers/message.h"
#include "proto/resourcesync/document_write.h"
#include "tests/test.h"
#include "tests/unit/readers/messages.h"

FIXTURE(messages_open, messages_close);

/* R-291, log.md: a message keeps within its bytes, unless one entry alone is
 * larger; following `last` gives every entry once. */
TEST(keeps_within_its_bytes)
{
    struct set *set;

    sets_post(&s, "demo", 1, 300);
    sets_post_heavy(&s, "demo", 301, 3, 30000);
    sets_post(&s, "demo", 304, 1);
    set = sets_post_heavy(&s, "demo", 305, 12, 3000);
    for (size_t f = 0; f < 2; f++)
        for (size_t max = 6000; max < 200000; max = max * 3 / 2) {
            uint64_t after = 0;

            while (after < 316) {
                uint64_t last = write_on(set, forms[f], after, max);

                assert_true(last > after);
                assert_true(text.size <= max || last == after + 1);
                assert_covers(set, forms[f], after, last);
                after = last;
            }
            assert_int_equal(after, 316);
        }
}

/* A message is as large as it may be: one more entry would not fit. */
TEST(takes_as_much_as_fits)
{
    struct set *set = post_each(30, 7);

    for (size_t f = 0; f < 2; f++) {
        uint64_t last = write_on(set, forms[f], 3, 20000);

        assert_in_range(last, 4, 209);
        /* Room is set aside for the largest header and the footer. */
        assert_true(text.size + DOCUMENT_FRAME_MAX + 300 > 20000);
        write_part(set, forms[f], 3, last + 1, MIB, LOG_MEMORY);
        assert_true(text.size + DOCUMENT_FRAME_MAX > 20000);
    }
}

/* at most 50,000 entries, over lists and batches. */
TEST(keeps_within_the_entries_of_a_document)
{
    struct set *set = post_each(2, 26000);

    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(write_on(set, forms[f], 0, 64 * MIB), 50000);
        assert_covers(set, forms[f], 0, 50000);
        assert_int_equal(write_on(set, forms[f], 20000, 64 * MIB), 52000);
    }
}

/* message.h: the bytes are a function of set, form and seqs: the same from
 * memory, from the store, and from the file, however each cuts its batches. */
TEST(has_the_same_bytes_from_every_tier, messages_configure, messages_close)
{
    static const uint64_t ranges[][2] = {
        {0, 999},   {0, 700},   {1, 2},     {499, 501}, {500, 500},
        {333, 800}, {500, 999}, {998, 999}, {0, 1},     {123, 456}};

    static const enum log_patience tiers[] = {LOG_MEMORY, LOG_DISK, LOG_DISK};

    enum { N = sizeof(ranges) / sizeof(ranges[0]) };
    struct buf memory[2][N];

    s.config.rotate_entries = 500;
    sets_open(&s);
    post_each(37, 27);
    for (int tier = 0; tier < 3; tier++) { /* memory, store, then files */
        struct set *set = sets_find(&s, "demo");

        for (size_t f = 0; f < 2; f++)
            for (size_t i = 0; i < N; i++) {
                assert_int_equal(write_part(set, forms[f], ranges[i][0],
                                            ranges[i][1], MIB, tiers[tier]),
                                 ranges[i][1]);
                if (tier == 0) {
                    buf_init(&memory[f][i], SIZE_MAX);
                    buf_add_slice(&memory[f][i], buf_slice(&text));
                }
                assert_true(
                    slice_equal(buf_slice(&text), buf_slice(&memory[f][i])));
            }
        if (tier > 0) {
            sets_file_all(&s);
            sets_post(&s, "other", 1, 1); /* commits, which forget */
        }
        stage_restart();
    }
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < N; i++)
            buf_fini(&memory[f][i]);
}

/* It also ends at the same entry when it is cut by bytes. */
TEST(is_cut_at_the_same_entry_from_every_tier)
{
    struct set *set = post_each(33, 11);
    uint64_t ends[2][40];

    for (int tier = 0; tier < 2; tier++) {
        for (size_t f = 0; f < 2; f++)
            for (size_t i = 0; i < 40; i++) {
                uint64_t end = write_on(set, forms[f], 9 * i, 9000 + 777 * i);

                if (tier == 0)
                    ends[f][i] = end;
                assert_int_equal(end, ends[f][i]);
            }
        stage_restart();
        set = sets_find(&s, "demo");
    }
}

/* message.h: a message whose end is named has all up to it or fails: a page of
 * change memory, or a frame that is made again, is not shorter because a part
 * cannot be read. One without ends where that part begins. */
TEST(fails_rather_than_end_before_its_end, messages_configure, messages_close)
{
    char path[5000];
    struct set *set;

    s.config.rotate_entries = 500;
    sets_open(&s);
    post_each(2, 500);
    sets_file_all(&s);
    for (int i = 0; i < 20; i++) /* each commit forgets a slice */
        sets_post(&s, "other", 1, 1);
    snprintf(path, sizeof(path), "%s/sets/demo/changes/000000000002.xml.gz",
             s.config.data);
    assert_int_equal(unlink(path), 0);
    stage_restart();
    set = sets_find(&s, "demo");
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(try_part(set, forms[f], 0, 1000, LOG_DISK), STATUS_IO);
        assert_int_equal(write_on(set, forms[f], 0, MIB), 500);
        assert_covers(set, forms[f], 0, 500);
    }
}

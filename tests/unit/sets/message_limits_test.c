

#include "broker/sets/message.h"
#include "proto/document.h"
#include "tests/test.h"
#include "tests/unit/sets/messages.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* R-291, log.md: a message keeps within its bytes, unless one entry alone is
 * larger; following `last` gives every entry once. */
TEST(keeps_within_its_bytes)
{
    struct sets s;
    struct set *set;
    struct buf text;

    sets_configure(&s, tempdir_path(state));
    sets_open(&s);
    sets_post(&s, "demo", 1, 300);
    sets_post_heavy(&s, "demo", 301, 3, 30000);
    sets_post(&s, "demo", 304, 1);
    set = sets_post_heavy(&s, "demo", 305, 12, 3000);
    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++)
        for (size_t max = 6000; max < 200000; max = max * 3 / 2) {
            uint64_t after = 0;

            while (after < 316) {
                uint64_t last = write_on(&text, set, forms[f], after, max);

                assert_true(last > after);
                assert_true(text.size <= max || last == after + 1);
                assert_covers(&s, set, &text, forms[f], after, last);
                after = last;
            }
            assert_int_equal(after, 316);
        }
    buf_fini(&text);
    sets_close(&s);
}

/* A message is as large as it may be: one more entry would not fit. */
TEST(takes_as_much_as_fits)
{
    struct sets s;
    struct set *set = open_in(&s, state, 30, 7);
    struct buf text, more;

    buf_init(&text, SIZE_MAX);
    buf_init(&more, SIZE_MAX);
    for (size_t f = 0; f < 2; f++) {
        uint64_t last = write_on(&text, set, forms[f], 3, 20000), wider;

        assert_in_range(last, 4, 209);
        assert_int_equal(write_message(&more, set, forms[f], 3, last + 1, MIB,
                                       LOG_MEMORY, &wider),
                         STATUS_OK);
        /* Room is set aside for the largest header and the footer. */
        assert_true(more.size + DOCUMENT_FRAME_MAX > 20000);
        assert_true(text.size + DOCUMENT_FRAME_MAX + 300 > 20000);
    }
    buf_fini(&text);
    buf_fini(&more);
    sets_close(&s);
}

/* at most 50,000 entries, over lists and batches. */
TEST(keeps_within_the_entries_of_a_document)
{
    struct sets s;
    struct set *set = open_in(&s, state, 2, 30000);
    struct buf text;
    uint64_t last;

    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++) {
        last = write_on(&text, set, forms[f], 0, 64 * MIB);
        assert_int_equal(last, 50000);
        assert_covers(&s, set, &text, forms[f], 0, 50000);
        last = write_on(&text, set, forms[f], 20000, 64 * MIB);
        assert_int_equal(last, 60000);
    }
    buf_fini(&text);
    sets_close(&s);
}

/* message.h: the bytes are a function of set, form and seqs: the same from
 * memory, from the store, and from the file, however each cuts its batches. */
TEST(has_the_same_bytes_from_every_tier)
{
    static const uint64_t ranges[][2] = {
        {0, 999},   {0, 700},   {1, 2},     {499, 501}, {500, 500},
        {333, 800}, {500, 999}, {998, 999}, {0, 1},     {123, 456}};

    enum { N = sizeof(ranges) / sizeof(ranges[0]) };
    struct buf memory[2][N], text;
    struct set *set;
    struct sets s;
    uint64_t last;

    sets_configure(&s, tempdir_path(state));
    s.config.rotate_entries = 500;
    sets_open(&s);
    for (unsigned i = 0; i < 37; i++)
        set = sets_post(&s, "demo", 27 * i, 27);
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < N; i++) {
            buf_init(&memory[f][i], SIZE_MAX);
            assert_int_equal(write_message(&memory[f][i], set, forms[f],
                                           ranges[i][0], ranges[i][1], MIB,
                                           LOG_MEMORY, &last),
                             STATUS_OK);
            assert_int_equal(last, ranges[i][1]);
        }

    buf_init(&text, SIZE_MAX);
    for (int tier = 0; tier < 2; tier++) { /* store, then files */
        sets_close(&s);
        sets_open(&s);
        set = sets_find(&s, "demo");
        for (size_t f = 0; f < 2; f++)
            for (size_t i = 0; i < N; i++) {
                assert_int_equal(write_message(&text, set, forms[f],
                                               ranges[i][0], ranges[i][1], MIB,
                                               LOG_DISK, &last),
                                 STATUS_OK);
                assert_int_equal(last, ranges[i][1]);
                assert_true(
                    slice_equal(buf_slice(&text), buf_slice(&memory[f][i])));
            }
        sets_file_all(&s);
        sets_post(&s, "other", 1, 1); /* commits, which forget */
    }
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < N; i++)
            buf_fini(&memory[f][i]);
    buf_fini(&text);
    sets_close(&s);
}

/* Also where it ends when it is cut by bytes. */
TEST(is_cut_at_the_same_entry_from_every_tier)
{
    uint64_t ends[2][40];
    struct buf text;
    struct set *set;
    struct sets s;

    set = open_in(&s, state, 33, 11);
    buf_init(&text, SIZE_MAX);
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < 40; i++)
            ends[f][i] = write_on(&text, set, forms[f], 9 * i, 9000 + 777 * i);
    sets_close(&s);
    sets_open(&s);
    set = sets_find(&s, "demo");
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < 40; i++)
            assert_int_equal(
                write_on(&text, set, forms[f], 9 * i, 9000 + 777 * i),
                ends[f][i]);
    buf_fini(&text);
    sets_close(&s);
}

/* message.h: who names the end gets that or STATUS_AGAIN: a page of change
 * memory, or a frame that is made again, is not shorter because the form of its
 * last part has to be made first. */
TEST(says_again_rather_than_end_before_its_end)
{
    struct sets s;
    struct set *set = open_in(&s, state, 1, 5);
    struct buf text;
    uint64_t last;

    sets_post(&s, "demo", 6, 600);
    buf_init(&text, SIZE_MAX);
    assert_int_equal(
        write_message(&text, set, MESSAGE_JSON, 0, 605, MIB, LOG_MEMORY, &last),
        STATUS_AGAIN);
    assert_int_equal(text.size, 0);
    assert_int_equal(
        write_message(&text, set, MESSAGE_JSON, 0, 605, MIB, LOG_DISK, &last),
        STATUS_OK);
    assert_int_equal(last, 605);
    assert_covers(&s, set, &text, MESSAGE_JSON, 0, 605);
    buf_fini(&text);
    sets_close(&s);
}

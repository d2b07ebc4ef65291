#include "broker/push/resume_text.h"

#include <stdlib.h>

#include "tests/test.h"

#define LOG     "0123456789abcdef"
#define FOREIGN "0123456789abcdee"

static struct resume_text
text_of(size_t n, uint64_t seq)
{
    struct resume_text text = {
        .made_us = 1763900000000000, .newest = 7, .n = n};

    text.entries = calloc(n + 1, sizeof(*text.entries));
    assert_non_null(text.entries);
    for (size_t i = 0; i < n; i++)
        text.entries[i] = (struct resume_entry){
            .number = 3 * i + 1, .seq = seq + i, .mark = (uint8_t)i};
    return text;
}

static void
write_text(struct buf *to, const struct resume_text *text)
{
    buf_init(to, RESUME_TEXT_MAX);
    assert_true(resume_text_write(to, LOG, text));
    assert_false(to->failed);
}

TEST(reads_what_it_wrote)
{
    static const uint64_t seqs[] = {0, 127, 128, 2000000, UINT64_MAX - 1000};

    for (size_t i = 0; i < sizeof(seqs) / sizeof(seqs[0]); i++)
        for (size_t n = 0; n < 20; n++) {
            struct resume_text text = text_of(n, seqs[i]), again;
            struct buf bytes;

            write_text(&bytes, &text);
            assert_int_equal(
                resume_text_read(&again, LOG, buf_slice(&bytes), NULL), 0);
            assert_int_equal(again.made_us, text.made_us);
            assert_int_equal(again.newest, 7);
            assert_int_equal(again.n, n);
            for (size_t j = 0; j < n; j++) {
                const struct resume_entry *e =
                    resume_text_find(&again, text.entries[j].number);

                assert_non_null(e);
                assert_true(e->seq == text.entries[j].seq);
                assert_int_equal(e->mark, text.entries[j].mark);
            }
            assert_null(resume_text_find(&again, 2));
            free(text.entries);
            free(again.entries);
            buf_fini(&bytes);
        }
}

/* It stands in a header and in a URL as it is. */
TEST(has_characters_of_urls)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
                                  "stuvwxyz0123456789-_";
    struct resume_text text = text_of(100, 12345);
    struct buf bytes;

    write_text(&bytes, &text);
    for (size_t i = 0; i < bytes.size; i++)
        assert_non_null(strchr(allowed, bytes.data[i]));
    free(text.entries);
    buf_fini(&bytes);
}

TEST(holds_1000_sets_with_a_million_entries)
{
    struct resume_text text = text_of(1000, 1000000);
    struct buf bytes;

    write_text(&bytes, &text);
    assert_in_range(bytes.size, 1, RESUME_TEXT_MAX);
    bytes.size = 0;
    free(text.entries);
    text = text_of(3000, 1000000);
    assert_false(resume_text_write(&bytes, LOG, &text));
    assert_int_equal(bytes.size, 0);
    free(text.entries);
    buf_fini(&bytes);
}

static void
assert_refused(const char *log, struct slice text)
{
    struct problem why = {""};
    struct resume_text read;

    assert_int_equal(resume_text_read(&read, log, text, &why), STATUS_INVALID);
    assert_string_equal(why.text,
                        "resume: damaged, or not a text of this broker");
    free(read.entries);
}

/* Never a guess: each character counts. */
TEST(refuses_damaged_and_foreign_texts)
{
    struct resume_text text = text_of(5, 1000);
    struct buf bytes;

    write_text(&bytes, &text);
    assert_refused(FOREIGN, buf_slice(&bytes));
    for (size_t i = 0; i < bytes.size; i++) {
        char was = bytes.data[i];

        bytes.data[i] = was == 'x' ? 'y' : 'x';
        assert_refused(LOG, buf_slice(&bytes));
        bytes.data[i] = was;
        assert_refused(LOG, (struct slice){bytes.data, i});
    }
    assert_refused(LOG, SLICE("a.b"));
    assert_refused(LOG, SLICE("9f2c5b7d01e4a683-4"));
    buf_add(&bytes, "A", 1);
    assert_refused(LOG, buf_slice(&bytes));
    free(text.entries);
    buf_fini(&bytes);
}

#include "broker/log/deflate_blocks.h"

#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "tests/test.h"

/* Bytes of `n_symbols` kinds, of which the first are the most frequent; with
 * `repeats` parts of what was before come again. */
static void
fill_text(char *to, size_t size, unsigned n_symbols, bool repeats,
          uint32_t *noise)
{
    for (size_t i = 0; i < size; i++) {
        *noise = *noise * 1664525 + 1013904223;
        if (repeats && i > 2000 && (*noise >> 24) < 16) {
            size_t n = 3 + (*noise >> 8 & 127),
                   from = i - 1 - (*noise >> 8) % 1900;

            for (; n > 0 && i < size - 1; n--)
                to[i++] = to[from++];
        }
        to[i] =
            (char)((*noise >> 16) * (uint64_t)(*noise & 0xffff) * n_symbols >>
                   32);
    }
}

/* RFC 1951: pieces side by side are a stream, from each piece on; zlib reads
 * them all. Lengths and codes vary, so that each number of free bits comes. */
TEST(makes_pieces_that_follow_each_other)
{
    static const struct {
        const char *name;
        size_t size;
        unsigned n_symbols;
        bool repeats;
        unsigned times;
    } rows[] = {
        {"nothing", 0, 1, false, 1},
        {"one byte", 1, 200, false, 3},
        {"a few bytes", 40, 200, false, 20},
        {"a paragraph", 700, 60, true, 200},
        {"one byte again and again", 100000, 1, false, 2},
        {"two kinds of bytes", 5000, 2, false, 50},
        {"text", 65000, 60, true, 30},
        {"more than a piece", 200000, 90, true, 6},
        {"too many symbols for a block", 131072, 12, false, 4},
        {"noise", 150000, 256, false, 4},
    };
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(1);
    static const char last_block[2] = {3, 0};
    char *plain = malloc(200000), *back = malloc(200001);
    uint32_t noise = 1;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("%s\n", rows[i].name);
        for (unsigned n = 0; n < 2 * rows[i].times; n++) {
            struct slice text = {
                plain,
                rows[i].size + n * (rows[i].size < 200000 && rows[i].size > 0)};
            struct buf all;
            size_t first;

            fill_text(plain, text.size, rows[i].n_symbols, rows[i].repeats,
                      &noise);
            buf_init(&all, SIZE_MAX);
            assert_int_equal(
                deflate_blocks(n % 2 ? compressor : NULL, text, &all, NULL), 0);
            first = all.size;
            assert_int_equal(deflate_blocks(compressor, text, &all, NULL), 0);
            buf_add(&all, last_block, sizeof(last_block));
            for (size_t from = 0; from <= first; from += first) {
                size_t expected = from ? text.size : 2 * text.size;
                z_stream z = {.next_in = (Bytef *)all.data + from,
                              .avail_in = (uInt)(all.size - from)};

                back = realloc(back, expected + 1);
                z.next_out = (Bytef *)back;
                z.avail_out = (uInt)expected + 1;
                assert_int_equal(inflateInit2(&z, -15), Z_OK);
                assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
                assert_int_equal(z.total_out, expected);
                for (size_t at = 0; at < expected; at += text.size)
                    assert_memory_equal(back + at, plain, text.size);
                inflateEnd(&z);
            }
            buf_fini(&all);
        }
    }
    libdeflate_free_compressor(compressor);
    free(plain);
    free(back);
}

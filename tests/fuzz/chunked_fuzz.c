#include "proto/http/chunked.h"

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* Reads `step` bytes at a time. *taken: how many were taken. */
static enum chunked_next
read_cut(struct slice bytes, size_t step, struct buf *data, size_t *taken,
         struct problem *why)
{
    enum chunked_next next = CHUNKED_MORE;
    size_t all = bytes.size;
    struct chunked body;

    body = (struct chunked){0};
    while (next == CHUNKED_MORE && bytes.size > 0) {
        struct slice piece = fuzz_take(&bytes, step);
        struct slice got = {NULL, 0};

        while ((next = chunked_read(&body, &piece, &got, why)) ==
               CHUNKED_DATA) {
            FUZZ_ASSERT(got.size > 0 && got.data + got.size == piece.data);
            buf_add_slice(data, got);
        }
        FUZZ_ASSERT(next != CHUNKED_MORE || piece.size == 0);
        FUZZ_ASSERT(body.line <= CHUNKED_TRAILERS_MAX + 1);
        FUZZ_ASSERT(body.extensions <= CHUNKED_EXTENSIONS_MAX + 1);
        bytes.data -= piece.size;
        bytes.size += piece.size;
    }
    *taken = all - bytes.size;
    return next;
}

/* Written again in other chunks, the data is the same. */
static void
check_written(struct slice data)
{
    struct slice rest = data;
    struct buf text, again;
    size_t taken;

    buf_init(&text, SIZE_MAX);
    buf_init(&again, SIZE_MAX);
    while (rest.size > 0) {
        struct slice piece = fuzz_take(&rest, 1 + data.size % 20);

        buf_add_format(&text, "%zX\r\n", piece.size);
        buf_add_slice(&text, piece);
        BUF_ADD(&text, "\r\n");
    }
    BUF_ADD(&text, "0\r\n\r\n");
    FUZZ_ASSERT(read_cut(buf_slice(&text), 3, &again, &taken, NULL) ==
                CHUNKED_END);
    FUZZ_ASSERT(taken == text.size);
    FUZZ_ASSERT(slice_equal(buf_slice(&again), data));
    buf_fini(&text);
    buf_fini(&again);
}

FUZZ_TARGET(chunked, bytes)
{
    struct problem why = {""}, why_cut = {""};
    size_t taken, taken_cut;
    enum chunked_next next;
    struct buf data, cut;

    buf_init(&data, SIZE_MAX);
    buf_init(&cut, SIZE_MAX);
    next = read_cut(bytes, SIZE_MAX, &data, &taken, &why);
    FUZZ_ASSERT(read_cut(bytes, 1 + bytes.size % 7, &cut, &taken_cut,
                         &why_cut) == next);
    FUZZ_ASSERT(slice_equal(buf_slice(&data), buf_slice(&cut)));
    FUZZ_ASSERT(taken == taken_cut);
    FUZZ_ASSERT(!strcmp(why.text, why_cut.text));
    if (next == CHUNKED_BROKEN) {
        fuzz_check_problem(&why);
    } else if (next == CHUNKED_END) {
        FUZZ_ASSERT(taken >= 5 && !memcmp(bytes.data + taken - 2, "\r\n", 2));
        check_written(buf_slice(&data));
    }
    buf_fini(&data);
    buf_fini(&cut);
}

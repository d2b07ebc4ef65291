#include "tests/support/gzip.h"

#include <string.h>

#include <zlib.h>

#include "tests/test.h"

/* Writes what comes out of `size` bytes, which are `bytes` again and again. */
static void
add_member(struct buf *to, struct slice bytes, size_t size)
{
    z_stream z = {.zalloc = Z_NULL};
    size_t given = 0;
    int code = Z_OK;

    assert_int_equal(
        deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY),
        Z_OK);
    while (code != Z_STREAM_END) {
        char *out = buf_room(to, 65536);
        size_t n = size - given < bytes.size ? size - given : bytes.size;

        assert_non_null(out);
        if (z.avail_in == 0) {
            z.next_in = (unsigned char *)(uintptr_t)bytes.data;
            z.avail_in = (unsigned)n;
            given += n;
        }
        z.next_out = (unsigned char *)out;
        z.avail_out = 65536;
        code = deflate(&z, given == size ? Z_FINISH : Z_NO_FLUSH);
        assert_true(code == Z_OK || code == Z_STREAM_END ||
                    code == Z_BUF_ERROR);
        to->size += 65536 - z.avail_out;
    }
    deflateEnd(&z);
}

void
gzip_add(struct buf *to, struct slice bytes)
{
    add_member(to, bytes, bytes.size);
}

void
gzip_add_bomb(struct buf *to, char byte, size_t size)
{
    static char block[65536];

    memset(block, byte, sizeof(block));
    add_member(to, (struct slice){block, sizeof(block)}, size);
}

void
gzip_add_message(struct buf *to, struct slice packed)
{
    static const unsigned char tail[] = {0, 0, 0xff, 0xff};
    z_stream z = {.zalloc = Z_NULL};
    const struct slice parts[] = {packed, {(const char *)tail, sizeof(tail)}};
    int code;

    assert_int_equal(inflateInit2(&z, -MAX_WBITS), Z_OK);
    for (size_t i = 0; i < 2; i++) {
        z.next_in = (unsigned char *)(uintptr_t)parts[i].data;
        z.avail_in = (unsigned)parts[i].size;
        do {
            char *out = buf_room(to, 65536);

            assert_non_null(out);
            z.next_out = (unsigned char *)out;
            z.avail_out = 65536;
            code = inflate(&z, Z_SYNC_FLUSH);
            assert_true(code == Z_OK || code == Z_BUF_ERROR);
            to->size += 65536 - z.avail_out;
        } while (z.avail_out == 0);
        assert_int_equal(z.avail_in, 0);
    }
    inflateEnd(&z);
}

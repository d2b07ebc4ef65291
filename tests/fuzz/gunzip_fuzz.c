#include "base/gunzip.h"

#include <zlib.h>

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* More than one step of gunzip.c lets out, and little to inflate. */
#define OUT_MAX ((size_t)400000)

static enum status
collect(struct slice bytes, void *user, struct problem *why)
{
    (void)why;
    FUZZ_ASSERT(bytes.size > 0);
    buf_add_slice(user, bytes);
    return STATUS_OK;
}

static enum status
inflate_in_steps(struct slice bytes, size_t step, struct buf *to)
{
    struct gunzip *g = gunzip_new(OUT_MAX, GUNZIP_GZIP, collect, to);
    struct problem why = {""};
    enum status rc = STATUS_OK;

    FUZZ_ASSERT(g);
    while (!rc && bytes.size > 0)
        rc = gunzip_feed(g, fuzz_take(&bytes, step), &why);
    while (!rc && gunzip_is_behind(g))
        rc = gunzip_step(g, &why);
    if (!rc)
        rc = gunzip_end(g, &why);
    gunzip_free(g);
    FUZZ_ASSERT(to->size <= OUT_MAX);
    if (rc)
        fuzz_check_problem(&why);
    return rc;
}

/* The same by zlib alone, all at once: members, and nothing behind them. */
static bool
inflate_whole(struct slice bytes, struct buf *to)
{
    z_stream z = {.zalloc = Z_NULL};
    int code = Z_STREAM_END;
    static unsigned char out[OUT_MAX + 1];

    FUZZ_ASSERT(inflateInit2(&z, 16 + MAX_WBITS) == Z_OK);
    z.next_out = out;
    z.avail_out = OUT_MAX + 1;
    z.next_in = (unsigned char *)(uintptr_t)bytes.data;
    z.avail_in = (unsigned)bytes.size;
    do {
        inflateReset(&z);
        code = inflate(&z, Z_FINISH);
    } while (code == Z_STREAM_END && z.avail_in > 0 && z.avail_out > 0);
    buf_add(to, out, OUT_MAX + 1 - z.avail_out);
    inflateEnd(&z);
    return code == Z_STREAM_END && z.avail_in == 0 && to->size <= OUT_MAX;
}

FUZZ_TARGET(gunzip, bytes)
{
    struct buf parts, pieces, whole;
    enum status rc;

    buf_init(&parts, SIZE_MAX);
    buf_init(&pieces, SIZE_MAX);
    buf_init(&whole, SIZE_MAX);
    rc = inflate_in_steps(bytes, 1 + bytes.size % 61, &parts);
    /* If the input has two faults, the number of bytes inflated in between
     * decides which comes first. */
    FUZZ_ASSERT(!inflate_in_steps(bytes, SIZE_MAX, &pieces) == !rc);
    FUZZ_ASSERT(inflate_whole(bytes, &whole) == !rc);
    if (!rc) {
        FUZZ_ASSERT(slice_equal(buf_slice(&parts), buf_slice(&whole)));
        FUZZ_ASSERT(slice_equal(buf_slice(&pieces), buf_slice(&whole)));
    }
    buf_fini(&whole);
    buf_fini(&pieces);
    buf_fini(&parts);
}

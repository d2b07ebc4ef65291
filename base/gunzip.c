#include "base/gunzip.h"

#include <zlib.h>

#include "proto/buf.h"

/* The most input and output of one step. Reading 256 KB of entries takes 1.2 ms
 * (measured): the other connections of a thread wait so long. The input has a
 * limit of its own, because it can be a crowd of members without content. */
#define STEP_IN  65536
#define STEP_OUT 262144

/* Passed on at once; small enough for the processor's cache. */
#define PIECE_SIZE 16384

/* zlib.h: inflate needs a window of 32 KB and some 7 KB more. */
#define ZLIB_BYTES 40960

/* The first byte of a member. No XML, JSON or text begins with it. */
#define MEMBER_MAGIC 0x1f

/* The method of zlib's format, in the lower half of its first byte. */
#define ZLIB_METHOD 8

struct gunzip {
    z_stream z;
    gunzip_fn *on_bytes;
    void *user;
    uint64_t max_bytes;
    uint64_t n_out; /* bytes passed on so far */
    enum gunzip_form
        form;        /* after the first byte GUNZIP_GZIP also of deflate */
    bool is_between; /* a member has ended, and no other has begun */
    bool is_full;    /* the last piece was full: zlib may hold more */
    struct buf rest; /* input that was fed and not inflated, from `at` on */
    size_t at;
    unsigned char piece[PIECE_SIZE];
};

struct gunzip *
gunzip_new(uint64_t max_bytes, enum gunzip_form form, gunzip_fn *on_bytes,
           void *user)
{
    struct gunzip *g = memory_new(1, sizeof(*g));

    if (!g)
        return NULL;
    g->on_bytes = on_bytes;
    g->user = user;
    g->max_bytes = max_bytes;
    g->form = form;
    buf_init(&g->rest, SIZE_MAX);
    /* 16: gzip, and nothing else. */
    if (inflateInit2(&g->z, 16 + MAX_WBITS) != Z_OK) {
        free(g);
        return NULL;
    }
    return g;
}

void
gunzip_free(struct gunzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->z);
    buf_fini(&g->rest);
    free(g);
}

static enum status
pass_on(struct gunzip *g, struct slice bytes, struct problem *why)
{
    if (bytes.size > g->max_bytes - g->n_out)
        return problem(why, STATUS_TOO_LARGE, "more than %" PRIu64 " bytes%s",
                       g->max_bytes,
                       g->form == GUNZIP_GZIP ? " when inflated" : "");
    g->n_out += bytes.size;
    return bytes.size ? g->on_bytes(bytes, g->user, why) : STATUS_OK;
}

/* Inflates one piece at most, and passes it on. */
static enum status
inflate_piece(struct gunzip *g, size_t *size, struct problem *why)
{
    int code;

    g->z.next_out = g->piece;
    g->z.avail_out = PIECE_SIZE;
    code = inflate(&g->z, Z_NO_FLUSH);
    *size = PIECE_SIZE - g->z.avail_out;
    g->is_full = g->z.avail_out == 0;

    switch (code) {
    case Z_OK:
    case Z_BUF_ERROR: /* there was nothing to do */
        break;
    case Z_STREAM_END:
        g->is_between = true;
        g->is_full = false;
        break;
    case Z_MEM_ERROR:
        return problem_memory(why);
    default:
        return problem(why, STATUS_MALFORMED, "not gzip: %s",
                       g->z.msg ? g->z.msg : "damaged");
    }

    return pass_on(g, (struct slice){(const char *)g->piece, *size}, why);
}

/* Inflates a part of `input`, and moves it behind that part. */
static enum status
inflate_step(struct gunzip *g, struct slice *input, struct problem *why)
{
    size_t size = input->size < STEP_IN ? input->size : STEP_IN;
    size_t n_out = 0;
    enum status rc = STATUS_OK;

    if (g->form == GUNZIP_EITHER && size > 0)
        g->form = *input->data == MEMBER_MAGIC ? GUNZIP_GZIP : GUNZIP_PLAIN;
    if (g->form == GUNZIP_DEFLATE && size > 0) {
        g->form = GUNZIP_GZIP;
        inflateReset2(&g->z, (*input->data & 15) == ZLIB_METHOD ? MAX_WBITS
                                                                : -MAX_WBITS);
    }
    if (g->form != GUNZIP_GZIP) {
        rc = pass_on(g, (struct slice){input->data, size}, why);
        slice_skip(input, size);
        return rc;
    }
    /* zlib does not write to its input; its type is older than const. */
    g->z.next_in = (unsigned char *)(uintptr_t)input->data;
    g->z.avail_in = (unsigned)size;
    while (!rc && (g->z.avail_in > 0 || g->is_full) &&
           n_out + PIECE_SIZE <= STEP_OUT) {
        size_t piece = 0;

        if (g->is_between &&
            (*g->z.next_in != MEMBER_MAGIC || inflateReset(&g->z) != Z_OK))
            rc = problem(why, STATUS_MALFORMED,
                         "not gzip: something else follows its end");
        g->is_between &= rc != STATUS_OK;
        if (!rc)
            rc = inflate_piece(g, &piece, why);
        n_out += piece;
    }
    slice_skip(input, size - g->z.avail_in);
    return rc;
}

enum status
gunzip_feed(struct gunzip *g, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;
    bool is_first = g->rest.size == 0;

    if (is_first)
        rc = inflate_step(g, &bytes, why);
    if (rc)
        return rc;
    buf_add_slice(&g->rest, bytes);
    if (g->rest.failed)
        return problem_memory(why);
    return is_first ? STATUS_OK : gunzip_step(g, why);
}

bool
gunzip_is_behind(const struct gunzip *g)
{
    return g && (g->rest.size > 0 || g->is_full);
}

enum status
gunzip_step(struct gunzip *g, struct problem *why)
{
    struct slice input = {g->rest.size > 0 ? g->rest.data + g->at : "",
                          g->rest.size - g->at};
    enum status rc = inflate_step(g, &input, why);

    g->at = g->rest.size - input.size;
    if (input.size == 0) {
        buf_clear(&g->rest);
        g->at = 0;
    } else if (g->at > g->rest.size / 2) {
        /* Moved at most once for each time it was read. */
        memmove(g->rest.data, input.data, input.size);
        g->rest.size = input.size;
        g->at = 0;
    }
    return rc;
}

enum status
gunzip_all(struct gunzip *g, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && (bytes.size > 0 || g->is_full))
        rc = inflate_step(g, &bytes, why);
    return rc;
}

enum status
gunzip_into(struct slice bytes, void *next, struct problem *why)
{
    return gunzip_all(next, bytes, why);
}

enum status
gunzip_end(const struct gunzip *g, struct problem *why)
{
    if (g->form == GUNZIP_GZIP && !g->is_between)
        return problem(why, STATUS_MALFORMED,
                       "not gzip: it ends before its end");
    return STATUS_OK;
}

size_t
gunzip_held(const struct gunzip *g)
{
    return sizeof(*g) + ZLIB_BYTES + g->rest.capacity;
}

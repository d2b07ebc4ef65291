#include "broker/sets/gunzip.h"

#include <inttypes.h>
#include <stdlib.h>

#include <zlib.h>

#include "proto/buf.h"

/* What one step takes in and lets out at most. Reading 256 KB of entries takes
 * 1.2 ms (measured): so long do the other connections of a thread wait. The
 * input has a limit of its own, because it can also be a crowd of members
 * without content. */
#define STEP_IN  65536
#define STEP_OUT 262144

/* Comes out at once; stays in the processor's cache. */
#define PIECE_SIZE 16384

/* zlib.h: inflate needs a window of 32 KB and some 7 KB more. */
#define ZLIB_BYTES 40960

/* The first byte of a member. */
#define MEMBER_MAGIC 0x1f

struct gunzip {
    z_stream z;
    gunzip_fn *on_bytes;
    void *user;
    uint64_t max_bytes;
    uint64_t n_out;  /* came out so far */
    bool is_between; /* a member has ended, and no other begun */
    bool is_full;    /* the last piece was: zlib may hold more */
    struct buf rest; /* fed, and not read before `at` */
    size_t at;
    unsigned char piece[PIECE_SIZE];
};

struct gunzip *
gunzip_new(uint64_t max_bytes, gunzip_fn *on_bytes, void *user)
{
    struct gunzip *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->on_bytes = on_bytes;
    g->user = user;
    g->max_bytes = max_bytes;
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
begin_member(struct gunzip *g, struct problem *why)
{
    if (*g->z.next_in != MEMBER_MAGIC || inflateReset(&g->z) != Z_OK)
        return problem(why, STATUS_MALFORMED,
                       "not gzip: something else follows its end");
    g->is_between = false;
    return STATUS_OK;
}

/* Lets out one piece, or what there is. */
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

    g->n_out += *size;
    if (g->n_out > g->max_bytes)
        return problem(why, STATUS_TOO_LARGE,
                       "a post has at most %" PRIu64 " bytes when inflated",
                       g->max_bytes);
    if (*size == 0)
        return STATUS_OK;
    return g->on_bytes((struct slice){(const char *)g->piece, *size}, g->user,
                       why);
}

/* Reads from `input`, and moves it past what was read. */
static enum status
step(struct gunzip *g, struct slice *input, struct problem *why)
{
    size_t size = input->size < STEP_IN ? input->size : STEP_IN;
    size_t n_out = 0;
    enum status rc = STATUS_OK;

    /* zlib does not write to its input; its type is older than const. */
    g->z.next_in = (unsigned char *)(uintptr_t)input->data;
    g->z.avail_in = (unsigned)size;
    while (!rc && (g->z.avail_in > 0 || g->is_full) && n_out < STEP_OUT) {
        size_t piece = 0;

        if (g->is_between)
            rc = begin_member(g, why);
        if (!rc)
            rc = inflate_piece(g, &piece, why);
        n_out += piece;
    }
    input->data += size - g->z.avail_in;
    input->size -= size - g->z.avail_in;
    return rc;
}

enum status
gunzip_feed(struct gunzip *g, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;
    bool is_first = g->rest.size == 0;

    if (is_first)
        rc = step(g, &bytes, why);
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
    return g->rest.size > 0 || g->is_full;
}

enum status
gunzip_step(struct gunzip *g, struct problem *why)
{
    struct slice input = {g->rest.size > 0 ? g->rest.data + g->at : "",
                          g->rest.size - g->at};
    enum status rc = step(g, &input, why);

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
gunzip_end(const struct gunzip *g, struct problem *why)
{
    if (!g->is_between)
        return problem(why, STATUS_MALFORMED,
                       "not gzip: it ends before its end");
    return STATUS_OK;
}

size_t
gunzip_held(const struct gunzip *g)
{
    return sizeof(*g) + ZLIB_BYTES + g->rest.capacity;
}

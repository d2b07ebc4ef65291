#include "client/source/unpack.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include <zlib.h>

/* Comes out at once; stays in the processor's cache. */
#define PIECE_SIZE 16384

/* The first byte of a member (RFC 1952); no XML begins with it. */
#define MAGIC 0x1f

enum form { FORM_UNKNOWN, FORM_PLAIN, FORM_GZIP };

struct unpack {
    unpack_fn *on_bytes;
    void *user;
    uint64_t max_bytes;
    uint64_t n_out;
    enum form form;
    bool is_between; /* a member has ended, and no other begun */
    z_stream z;
    unsigned char piece[PIECE_SIZE];
};

struct unpack *
unpack_new(uint64_t max_bytes, unpack_fn *on_bytes, void *user)
{
    struct unpack *u = calloc(1, sizeof(*u));

    if (!u)
        return NULL;
    u->max_bytes = max_bytes;
    u->on_bytes = on_bytes;
    u->user = user;
    return u;
}

void
unpack_free(struct unpack *u)
{
    if (!u)
        return;
    if (u->form == FORM_GZIP)
        inflateEnd(&u->z);
    free(u);
}

static enum status
let_out(struct unpack *u, struct slice bytes, struct problem *why)
{
    if (bytes.size == 0)
        return STATUS_OK;
    if (bytes.size > u->max_bytes - u->n_out)
        return problem(why, STATUS_TOO_LARGE, "more than %" PRIu64 " bytes",
                       u->max_bytes);
    u->n_out += bytes.size;
    return u->on_bytes(bytes, u->user, why);
}

/* Lets out one piece, or what there is. */
static enum status
inflate_piece(struct unpack *u, struct problem *why)
{
    int code;

    if (u->is_between) {
        if (*u->z.next_in != MAGIC || inflateReset(&u->z) != Z_OK)
            return problem(why, STATUS_MALFORMED,
                           "not gzip: something else follows its end");
        u->is_between = false;
    }
    u->z.next_out = u->piece;
    u->z.avail_out = PIECE_SIZE;
    code = inflate(&u->z, Z_NO_FLUSH);
    switch (code) {
    case Z_OK:
    case Z_BUF_ERROR: /* there was nothing to do */
        break;
    case Z_STREAM_END:
        u->is_between = true;
        break;
    case Z_MEM_ERROR:
        return problem(why, STATUS_MEMORY, "no memory");
    default:
        return problem(why, STATUS_MALFORMED, "not gzip: %s",
                       u->z.msg ? u->z.msg : "damaged");
    }
    return let_out(
        u, (struct slice){(const char *)u->piece, PIECE_SIZE - u->z.avail_out},
        why);
}

static enum status
inflate_all(struct unpack *u, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;
    bool is_full = true; /* zlib may hold more than it let out */

    while (!rc && bytes.size > 0) {
        size_t size = bytes.size < UINT32_MAX ? bytes.size : UINT32_MAX;

        /* zlib does not write to its input; its type is older than const. */
        u->z.next_in = (unsigned char *)(uintptr_t)bytes.data;
        u->z.avail_in = (unsigned)size;
        while (!rc && (u->z.avail_in > 0 || (is_full && !u->is_between))) {
            rc = inflate_piece(u, why);
            is_full = u->z.avail_out == 0;
        }
        bytes.data += size;
        bytes.size -= size;
    }
    return rc;
}

enum status
unpack_feed(struct unpack *u, struct slice bytes, struct problem *why)
{
    if (bytes.size == 0)
        return STATUS_OK;
    if (u->form == FORM_UNKNOWN) {
        u->form = *bytes.data == MAGIC ? FORM_GZIP : FORM_PLAIN;
        /* 16: gzip, and nothing else. */
        if (u->form == FORM_GZIP &&
            inflateInit2(&u->z, 16 + MAX_WBITS) != Z_OK) {
            u->form = FORM_UNKNOWN;
            return problem(why, STATUS_MEMORY, "no memory");
        }
    }
    return u->form == FORM_GZIP ? inflate_all(u, bytes, why)
                                : let_out(u, bytes, why);
}

enum status
unpack_end(struct unpack *u, struct problem *why)
{
    if (u->form == FORM_GZIP && !u->is_between)
        return problem(why, STATUS_MALFORMED,
                       "not gzip: it ends before its end");
    return STATUS_OK;
}

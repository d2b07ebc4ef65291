#include "broker/check/packed_file.h"

#include <zlib.h>

#define PIECE_SIZE   65536
#define TRAILER_SIZE 8

struct unpacking {
    const struct packed_file *file;
    struct buf packed;
    z_stream z;
    uint32_t crc;
    uint64_t plain;  /* bytes so far */
    size_t n_places; /* passed */
    bool has_false_place;
    uint8_t out[PIECE_SIZE];
};

static enum status
on_packed(struct slice bytes, void *user, struct problem *why)
{
    struct unpacking *u = user;

    buf_add_slice(&u->packed, bytes);
    return !u->packed.failed ? STATUS_OK
           : u->packed.is_starved
               ? problem_memory(why)
               : problem(why, STATUS_MALFORMED, "it is longer than it may be");
}

/* True if the bits between the last block and the next byte are 0. A block that
 * is stored begins at a byte, behind the three bits of its header (RFC 1951
 * section 3.2.4); and the last one is followed by a byte. */
static bool
is_padding_clear(const struct unpacking *u)
{
    const uint8_t *next = u->z.next_in;
    unsigned n = (unsigned)u->z.data_type & 7; /* bits left of the last byte */
    unsigned bits = n > 0 ? next[-1] >> (8 - n) : 0;
    bool is_last = u->z.data_type & 64;

    if (!is_last && ((bits | (unsigned)next[0] << n) & 6) != 0)
        return true; /* not stored */
    return is_last || n >= 3 ? bits >> (is_last ? 0 : 3) == 0
                             : next[0] >> (3 - n) == 0;
}

/* The stream is between two blocks. */
static enum status
pass_boundary(struct unpacking *u, struct problem *why)
{
    const struct packed_file *file = u->file;
    uint64_t here = (uint64_t)((const char *)u->z.next_in - u->packed.data);
    uint64_t at, plain;

    if (!is_padding_clear(u))
        return problem(why, STATUS_MALFORMED,
                       "bits that nobody needs are set before byte %llu",
                       (unsigned long long)here);
    if ((u->z.data_type & 7) == 0 &&
        file->place(u->n_places, &at, &plain, file->user) && at == here) {
        u->n_places++;
        u->has_false_place |= plain != u->plain;
    }
    return STATUS_OK;
}

static enum status
inflate_all(struct unpacking *u, struct problem *why)
{
    const struct packed_file *file = u->file;
    enum status rc = pass_boundary(u, why);
    int code = Z_OK;

    while (!rc && code == Z_OK) {
        size_t size;

        u->z.next_out = u->out;
        u->z.avail_out = sizeof(u->out);
        code = inflate(&u->z, Z_BLOCK);
        size = sizeof(u->out) - u->z.avail_out;
        if (code != Z_OK && code != Z_STREAM_END)
            return problem(why, STATUS_MALFORMED, "not gzip: %s",
                           u->z.msg ? u->z.msg : "it ends too soon");
        if (size > file->max_plain - u->plain)
            return problem(why, STATUS_MALFORMED,
                           "it is longer than it may be");
        u->plain += size;
        u->crc = (uint32_t)crc32(u->crc, u->out, (uInt)size);
        if (size > 0)
            rc = file->on_plain((struct slice){(const char *)u->out, size},
                                file->user, why);
        if (!rc && code == Z_OK && u->z.data_type & 128)
            rc = pass_boundary(u, why);
    }
    return rc;
}

static enum status
unpack(struct unpacking *u, bool *are_places_right, struct problem *why)
{
    const struct packed_file *file = u->file;
    struct slice rest = buf_slice(&u->packed);
    uint64_t at, plain, sums = 0;
    enum status rc;

    if (rest.size <= file->head.size + TRAILER_SIZE ||
        memcmp(rest.data, file->head.data, file->head.size) != 0)
        return problem(why, STATUS_MALFORMED,
                       "not gzip as the broker writes it: its first %zu bytes "
                       "are not those that it should have",
                       file->head.size);
    slice_skip(&rest, file->head.size);
    u->z.next_in = (uint8_t *)(uintptr_t)rest.data;
    u->z.avail_in = (uInt)rest.size;
    if (inflateInit2(&u->z, -15) != Z_OK)
        return problem_memory(why);
    rc = inflate_all(u, why);
    inflateEnd(&u->z);
    if (!rc && u->z.avail_in != TRAILER_SIZE)
        rc = problem(why, STATUS_MALFORMED,
                     "not gzip: something else follows its end");
    for (int i = TRAILER_SIZE - 1; !rc && i >= 0; i--)
        sums = sums << 8 | u->z.next_in[i];
    if (!rc && sums != (u->plain << 32 | u->crc))
        rc = problem(why, STATUS_MALFORMED, "its checksum is wrong");
    *are_places_right = !u->has_false_place &&
                        !file->place(u->n_places, &at, &plain, file->user);
    return rc;
}

enum status
packed_file_read(struct inspection *in, int fd, const struct packed_file *file,
                 bool *are_places_right, struct problem *why)
{
    struct unpacking *u = calloc(1, sizeof(*u));
    enum status rc;

    if (!u)
        return problem_memory(why);
    u->file = file;
    u->crc = (uint32_t)crc32(0, NULL, 0);
    /* Deflate makes random bytes a little longer. */
    buf_init(&u->packed, file->head.size + file->max_plain +
                             file->max_plain / 64 + PIECE_SIZE);
    rc = inspection_read(in, fd, on_packed, u, why);
    if (!rc)
        rc = unpack(u, are_places_right, why);
    buf_fini(&u->packed);
    free(u);
    return rc;
}

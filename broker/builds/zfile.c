#include "broker/builds/zfile.h"

#include <unistd.h>

#include <zlib.h>

/* Plain bytes of a block. */
#define BLOCK_BYTES ((uint64_t)262144)

/* One more, for the end of the last block. */
#define BLOCKS_MAX (ZFILE_PLAIN_MAX / BLOCK_BYTES + 1)
_Static_assert(ZFILE_HEADER_SIZE == 64 + 8 * BLOCKS_MAX, "room for all blocks");

/* The same as for closed Change Lists (list_file.c). */
#define LEVEL 6

/* Written, and lent, in steps of this size. */
#define STEP_BYTES 65536

/*
 * The header (RFC 1952), integers little-endian:
 *
 *   0   10  1f 8b 08 04, no time, no flags, no system
 *  10    2  XLEN
 *  12    4  subfield "td" and its length
 *  16    4  version, 1
 *  20    4  blocks
 *  24    8  plain bytes
 *  32   32  their SHA-256
 *  64    8  of each block: where it begins in the file, and in the plain bytes;
 *           then zeros
 *
 * and behind the deflate stream CRC-32 and plain bytes, 4 each.
 */
#define AT_BLOCKS    64
#define HEADER_SIZE  ZFILE_HEADER_SIZE
#define TRAILER_SIZE 8
#define VERSION      1

struct block {
    uint32_t at;
    uint32_t plain;
};

static void
put_number(uint8_t *to, uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(n >> (8 * i));
}

static uint64_t
get_number(const uint8_t *from, int bytes)
{
    uint64_t n = 0;

    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | from[i];
    return n;
}

/* Writing */

struct zfile_writer {
    struct file_new file;
    z_stream z;
    bool is_deflating;           /* `z` was begun */
    struct digest_check *sha256; /* of the plain bytes */
    uint32_t crc;
    uint64_t plain, packed; /* bytes so far */
    struct block blocks[BLOCKS_MAX];
    size_t n_blocks;
    uint8_t out[STEP_BYTES];
};

static void
writer_free(struct zfile_writer *w)
{
    if (w->is_deflating)
        deflateEnd(&w->z);
    digest_check_free(w->sha256);
    free(w);
}

void
zfile_abandon(struct zfile_writer *w)
{
    if (!w)
        return;
    file_abandon(&w->file);
    writer_free(w);
}

static void
begin_block(struct zfile_writer *w)
{
    w->blocks[w->n_blocks++] =
        (struct block){(uint32_t)w->packed, (uint32_t)w->plain};
}

static enum status
append_bytes(struct zfile_writer *w, const void *bytes, size_t size,
             struct problem *why)
{
    w->packed += size;
    return file_append(&w->file, (struct slice){bytes, size}, why);
}

enum status
zfile_begin(struct zfile_writer **writer, int dir_fd, const char *name,
            struct problem *why)
{
    static const uint8_t zeros[HEADER_SIZE];
    struct zfile_writer *w = memory_new(1, sizeof(*w));
    enum status rc;

    if (!w)
        return problem_memory(why);
    rc = file_begin(&w->file, dir_fd, name, why);
    if (rc) {
        writer_free(w);
        return rc;
    }
    w->crc = (uint32_t)crc32(0, NULL, 0);
    w->sha256 = digest_check_new(SLICE(""), LENGTH_NONE, true);
    w->is_deflating = deflateInit2(&w->z, LEVEL, Z_DEFLATED, -15, 8,
                                   Z_DEFAULT_STRATEGY) == Z_OK;
    rc = w->is_deflating ? append_bytes(w, zeros, sizeof(zeros), why)
                         : problem_memory(why);
    if (rc) {
        zfile_abandon(w);
        return rc;
    }
    begin_block(w);
    *writer = w;
    return STATUS_OK;
}

/* Compresses `plain`; `flush` as zlib's. */
static enum status
deflate_bytes(struct zfile_writer *w, struct slice plain, int flush,
              struct problem *why)
{
    enum status rc = STATUS_OK;

    w->z.next_in = (Bytef *)(uintptr_t)plain.data;
    w->z.avail_in = (uInt)plain.size;
    do {
        w->z.next_out = w->out;
        w->z.avail_out = sizeof(w->out);
        deflate(&w->z, flush);
        rc = append_bytes(w, w->out, sizeof(w->out) - w->z.avail_out, why);
    } while (!rc && w->z.avail_out == 0);
    return rc;
}

enum status
zfile_add(struct zfile_writer *w, struct slice bytes, struct problem *why)
{
    enum status rc;

    if (bytes.size > ZFILE_PLAIN_MAX - w->plain)
        return problem(why, STATUS_INVALID,
                       "%s would have more than %" PRIu64 " bytes",
                       w->file.name, ZFILE_PLAIN_MAX);
    /* The plain size marks the end of the last block. */
    if (w->plain - w->blocks[w->n_blocks - 1].plain >= BLOCK_BYTES &&
        w->n_blocks < BLOCKS_MAX) {
        rc = deflate_bytes(w, (struct slice){NULL, 0}, Z_FULL_FLUSH, why);
        if (rc)
            return rc;
        begin_block(w);
    }
    w->crc =
        (uint32_t)crc32(w->crc, (const Bytef *)bytes.data, (uInt)bytes.size);
    rc = digest_check_add(w->sha256, bytes, why);
    w->plain += bytes.size;
    return rc ? rc : deflate_bytes(w, bytes, Z_NO_FLUSH, why);
}

static struct zfile_header
make_header(const struct zfile *zfile, const struct block *blocks,
            size_t n_blocks)
{
    struct zfile_header h = {{0x1f, 0x8b, 8, 4, [9] = 255, [12] = 't', 'd'}};

    put_number(h.bytes + 10, HEADER_SIZE - 12, 2);
    put_number(h.bytes + 14, HEADER_SIZE - 16, 2);
    put_number(h.bytes + 16, VERSION, 4);
    put_number(h.bytes + 20, n_blocks, 4);
    put_number(h.bytes + 24, zfile->plain, 8);
    memcpy(h.bytes + 32, zfile->digest.bytes, DIGEST_SIZE);
    for (size_t i = 0; i < n_blocks; i++) {
        put_number(h.bytes + AT_BLOCKS + 8 * i, blocks[i].at, 4);
        put_number(h.bytes + AT_BLOCKS + 8 * i + 4, blocks[i].plain, 4);
    }
    return h;
}

enum status
zfile_finish(struct zfile_writer *w, struct zfile *zfile, struct problem *why)
{
    uint8_t trailer[TRAILER_SIZE];
    struct zfile_header header;
    enum status rc = deflate_bytes(w, (struct slice){NULL, 0}, Z_FINISH, why);

    put_number(trailer, w->crc, 4);
    put_number(trailer + 4, w->plain, 4);
    if (!rc)
        rc = append_bytes(w, trailer, sizeof(trailer), why);
    *zfile = (struct zfile){.plain = w->plain, .packed = w->packed};
    if (!rc)
        rc = digest_check_end(w->sha256, why);
    digest_check_sha256(w->sha256, &zfile->digest);
    /* The header goes into the room at the beginning. */
    header = make_header(zfile, w->blocks, w->n_blocks);
    if (!rc && pwrite(w->file.fd, header.bytes, sizeof(header.bytes), 0) !=
                   (ssize_t)sizeof(header.bytes))
        rc = problem_errno(why, "cannot write", w->file.name);
    if (rc)
        file_abandon(&w->file);
    else
        rc = file_finish(&w->file, why);
    writer_free(w);
    return rc;
}

/* Reading */

struct header {
    struct zfile zfile;
    struct block blocks[BLOCKS_MAX];
    size_t n_blocks;
    uint32_t crc;
};

/* True if the blocks are in order and within the file. */
static bool
blocks_are_sound(const struct header *h)
{
    if (h->blocks[0].at != HEADER_SIZE || h->blocks[0].plain != 0)
        return false;
    for (size_t i = 1; i < h->n_blocks; i++)
        if (h->blocks[i].at <= h->blocks[i - 1].at ||
            h->blocks[i].plain <= h->blocks[i - 1].plain)
            return false;
    return h->blocks[h->n_blocks - 1].at < h->zfile.packed &&
           h->blocks[h->n_blocks - 1].plain <= h->zfile.plain;
}

/* False: the file is damaged. */
static bool
read_header(int fd, struct header *h)
{
    uint8_t header[HEADER_SIZE], trailer[TRAILER_SIZE];
    off_t size = lseek(fd, 0, SEEK_END);

    if (size < (off_t)(HEADER_SIZE + TRAILER_SIZE) ||
        !file_read_at(fd, header, sizeof(header), 0) ||
        !file_read_at(fd, trailer, sizeof(trailer),
                      (uint64_t)size - TRAILER_SIZE) ||
        memcmp(header, "\x1f\x8b\x08\x04", 4) || memcmp(header + 12, "td", 2) ||
        get_number(header + 10, 2) != HEADER_SIZE - 12 ||
        get_number(header + 16, 4) != VERSION)
        return false;
    h->zfile.packed = (uint64_t)size;
    h->zfile.plain = get_number(header + 24, 8);
    memcpy(h->zfile.digest.bytes, header + 32, DIGEST_SIZE);
    h->n_blocks = (size_t)get_number(header + 20, 4);
    h->crc = (uint32_t)get_number(trailer, 4);
    if (h->n_blocks == 0 || h->n_blocks > BLOCKS_MAX ||
        h->zfile.plain > ZFILE_PLAIN_MAX)
        return false;
    for (size_t i = 0; i < h->n_blocks; i++)
        h->blocks[i] = (struct block){
            (uint32_t)get_number(header + AT_BLOCKS + 8 * i, 4),
            (uint32_t)get_number(header + AT_BLOCKS + 8 * i + 4, 4)};
    return blocks_are_sound(h);
}

enum status
zfile_look(int fd, struct zfile *zfile, struct zfile_header *header,
           struct problem *why)
{
    struct header h;

    if (!read_header(fd, &h))
        return problem(why, STATUS_IO, "the file is damaged");
    *zfile = h.zfile;
    if (header)
        *header = make_header(zfile, h.blocks, h.n_blocks);
    return STATUS_OK;
}

bool
zfile_block(const struct zfile_header *header, size_t n, uint64_t *at,
            uint64_t *plain)
{
    const uint8_t *block = header->bytes + AT_BLOCKS + 8 * n;

    if (n >= get_number(header->bytes + 20, 4))
        return false;
    *at = get_number(block, 4);
    *plain = get_number(block + 4, 4);
    return true;
}

struct zbody {
    struct body body;
    int fd;
    z_stream z;
    bool is_inflating; /* `z` was begun */
    uint64_t at;       /* place in the file of the next bytes for `in` */
    uint64_t skip;     /* plain bytes to pass over first */
    uint64_t left;     /* plain bytes still to lend */
    bool is_whole;     /* read from the first byte: `crc` covers all */
    uint32_t crc;
    struct header header;
    uint8_t in[16384];
    uint8_t out[STEP_BYTES];
};

/* Inflates until `out` is full or the stream ends. */
static enum status
inflate_some(struct zbody *b, size_t *size)
{
    int result = Z_OK;

    b->z.next_out = b->out;
    b->z.avail_out = sizeof(b->out);
    while (b->z.avail_out > 0 && result == Z_OK) {
        uint64_t end = b->header.zfile.packed - TRAILER_SIZE;

        if (b->z.avail_in == 0 && b->at < end) {
            size_t n = end - b->at < sizeof(b->in) ? (size_t)(end - b->at)
                                                   : sizeof(b->in);

            if (!file_read_at(b->fd, b->in, n, b->at))
                return STATUS_IO;
            b->at += n;
            b->z.next_in = b->in;
            b->z.avail_in = (uInt)n;
        }
        result = inflate(&b->z, Z_NO_FLUSH);
    }
    *size = sizeof(b->out) - b->z.avail_out;
    return result == Z_OK || result == Z_STREAM_END ? STATUS_OK : STATUS_IO;
}

static enum body_result
zbody_next(struct body *body, bool may_block, struct slice *piece)
{
    struct zbody *b = (struct zbody *)body;
    size_t size, from;

    if (b->left == 0)
        return BODY_END;
    if (!may_block)
        return BODY_WAITS;
    if (!b->is_inflating && inflateInit2(&b->z, -15) != Z_OK)
        return BODY_FAILED;
    b->is_inflating = true;
    do {
        if (inflate_some(b, &size) || size == 0)
            return BODY_FAILED;
        from = b->skip < size ? (size_t)b->skip : size;
        b->skip -= from;
    } while (from == size);
    if (size - from > b->left)
        return BODY_FAILED; /* longer than its header says */
    b->left -= size - from;
    if (b->is_whole)
        b->crc = (uint32_t)crc32(b->crc, b->out, (uInt)size);
    if (b->is_whole && b->left == 0 && b->crc != b->header.crc)
        return BODY_FAILED;
    *piece = (struct slice){(const char *)b->out + from, size - from};
    return BODY_DATA;
}

static void
zbody_seek(struct body *body, uint64_t first)
{
    struct zbody *b = (struct zbody *)body;
    const struct block *blocks = b->header.blocks;
    size_t i = b->header.n_blocks - 1;

    while (i > 0 && blocks[i].plain > first)
        i--;
    b->at = blocks[i].at;
    b->skip = first - blocks[i].plain;
    b->left = b->header.zfile.plain - first;
    b->is_whole = first == 0;
}

static void
zbody_free(struct body *body)
{
    struct zbody *b = (struct zbody *)body;

    if (b->is_inflating)
        inflateEnd(&b->z);
    close(b->fd);
    free(b);
}

enum status
zfile_body(int fd, struct body **body, struct problem *why)
{
    struct zbody *b = memory_new(1, sizeof(*b));

    if (!b)
        return problem_memory(why);
    if (!read_header(fd, &b->header)) {
        free(b);
        return problem(why, STATUS_IO, "the file is damaged");
    }
    b->body = (struct body){b->header.zfile.plain, zbody_next, zbody_free,
                            zbody_seek};
    b->fd = fd;
    b->crc = (uint32_t)crc32(0, NULL, 0);
    zbody_seek(&b->body, 0);
    *body = &b->body;
    return STATUS_OK;
}

#include "broker/log/deflate_blocks.h"

#include <libdeflate.h>

#include <zlib.h>

/* libdeflate makes one block of as much at its fastest level, unless the bytes
 * compress badly. */
#define PIECE_BYTES 69000

/* Of text that libdeflate does not compress in one block. */
#define ZLIB_LEVEL 6

/* RFC 1951 section 3.2.7 */
#define END_OF_BLOCK    256
#define LENGTHS_MAX     320 /* 288 of literals and lengths, 32 of distances */
#define CODE_LENGTHS    19
#define CODE_LENGTH_MAX 15

enum block_type { STORED, FIXED, DYNAMIC };

/* The bits of a stream, in order; behind the last one are zeros. */
struct bits {
    const uint8_t *bytes;
    size_t size, at;
};

static unsigned
take_bits(struct bits *b, unsigned n)
{
    unsigned value = 0;

    for (unsigned i = 0; i < n; i++, b->at++)
        if (b->at / 8 < b->size)
            value |= (unsigned)(b->bytes[b->at / 8] >> b->at % 8 & 1) << i;
    return value;
}

/* Lengths of the codes of `n` symbols: how many there are of each length. */
struct code {
    uint16_t n_of[CODE_LENGTH_MAX + 1];
    uint16_t symbols[CODE_LENGTHS]; /* by code; of the code of lengths only */
};

static void
read_code_of_lengths(struct bits *b, unsigned n, struct code *c)
{
    static const uint8_t order[CODE_LENGTHS] = {
        16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[CODE_LENGTHS] = {0};
    unsigned n_symbols = 0;

    *c = (struct code){{0}, {0}};
    for (unsigned i = 0; i < n; i++)
        lengths[order[i]] = (uint8_t)take_bits(b, 3);
    for (unsigned length = 1; length <= 7; length++)
        for (unsigned i = 0; i < CODE_LENGTHS; i++)
            if (lengths[i] == length) {
                c->symbols[n_symbols++] = (uint16_t)i;
                c->n_of[length]++;
            }
}

/* Reads the lengths of the codes of `n` symbols. False: that is no header of a
 * block. */
static bool
read_lengths(struct bits *b, const struct code *c, unsigned n,
             uint8_t lengths[LENGTHS_MAX])
{
    for (unsigned i = 0; i < n;) {
        unsigned value = 0, first = 0, index = 0, symbol = CODE_LENGTHS;
        unsigned times = 1, length;

        /* A symbol of the code of lengths; CODE_LENGTHS: there is none. */
        for (unsigned bits = 1; bits <= CODE_LENGTH_MAX; bits++) {
            value |= take_bits(b, 1);
            if (value < first + c->n_of[bits]) {
                symbol = c->symbols[index + value - first];
                break;
            }
            index += c->n_of[bits];
            first = (first + c->n_of[bits]) << 1;
            value <<= 1;
        }
        length = symbol;
        if (symbol == CODE_LENGTHS || b->at > 8 * b->size)
            return false;
        if (symbol == 16) {
            length = i > 0 ? lengths[i - 1] : 0;
            times = 3 + take_bits(b, 2);
        } else if (symbol > 16) {
            length = 0;
            times = symbol == 17 ? 3 + take_bits(b, 3) : 11 + take_bits(b, 7);
        }
        for (; times > 0 && i < n; times--)
            lengths[i++] = (uint8_t)length;
    }
    return true;
}

/* The number of zeros at the end of the code of END_OF_BLOCK, which is not all
 * zeros; else -1. */
static int
zeros_of_end(const uint8_t *lengths, unsigned n)
{
    unsigned wanted = lengths[END_OF_BLOCK], code = 0, zeros = 0;

    for (unsigned length = 1; length <= wanted; length++) {
        code <<= 1;
        for (unsigned i = 0; i < n; i++)
            code +=
                lengths[i] == length && (length < wanted || i < END_OF_BLOCK);
    }
    if (wanted == 0 || code == 0)
        return -1;
    while (!(code >> zeros & 1))
        zeros++;
    return (int)zeros;
}

/* The number of bits of the last byte that a stream of one block leaves free;
 * -1: it is not known. */
static int
free_bits(const uint8_t *bytes, size_t size)
{
    struct bits b = {bytes, size, 0};
    uint8_t lengths[LENGTHS_MAX];
    unsigned n_literals, n_distances, n_lengths;
    struct code code;
    int zeros;

    if (!take_bits(&b, 1)) /* there are more blocks */
        return -1;
    switch (take_bits(&b, 2)) {
    case STORED:
        return 0;
    case DYNAMIC:
        break;
    default: /* of FIXED the last code is all zeros */
        return -1;
    }
    n_literals = 257 + take_bits(&b, 5);
    n_distances = 1 + take_bits(&b, 5);
    n_lengths = 4 + take_bits(&b, 4);
    read_code_of_lengths(&b, n_lengths, &code);
    if (!read_lengths(&b, &code, n_literals + n_distances, lengths))
        return -1;
    zeros = zeros_of_end(lengths, n_literals);
    if (zeros < 0)
        return -1;
    /* The zeros with which the stream ends, without those of the code. */
    for (zeros = -zeros; size > 0 && bytes[size - 1] == 0; size--)
        zeros += 8;
    for (int bit = 7; size > 0 && !(bytes[size - 1] >> bit & 1); bit--)
        zeros++;
    return zeros >= 0 && zeros < 8 ? zeros : -1;
}

/* Compresses with zlib. */
static enum status
deflate_anything(struct slice plain, struct buf *to, struct problem *why)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)plain.data,
                  .avail_in = (uInt)plain.size};
    size_t room = 0;
    char *at;

    if (deflateInit2(&z, ZLIB_LEVEL, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return problem_memory(why);
    room = deflateBound(&z, plain.size) + 16; /* for the flush */
    at = buf_room(to, room);
    if (at) {
        z.next_out = (Bytef *)at;
        z.avail_out = (uInt)room;
        deflate(&z, Z_FULL_FLUSH);
        to->size += room - z.avail_out;
    }
    deflateEnd(&z);
    return at ? STATUS_OK : problem_memory(why);
}

/* Compresses one piece: in halves where it takes several blocks. */
static enum status
deflate_piece(struct libdeflate_compressor *compressor, struct slice plain,
              struct buf *to, struct problem *why)
{
    static const char aligned[] = {0, 0, 0, (char)0xff, (char)0xff};
    size_t room = libdeflate_deflate_compress_bound(compressor, plain.size);
    uint8_t *at = (uint8_t *)buf_room(to, room);
    size_t size, half = plain.size / 2;
    int n_free;

    if (!at)
        return problem_memory(why);
    size = libdeflate_deflate_compress(compressor, plain.data, plain.size, at,
                                       room);
    if (size > 0 && !(at[0] & 1) && half > 0) {
        enum status rc = deflate_piece(
            compressor, (struct slice){plain.data, half}, to, why);

        return rc ? rc
                  : deflate_piece(
                        compressor,
                        (struct slice){plain.data + half, plain.size - half},
                        to, why);
    }
    n_free = size > 0 ? free_bits(at, size) : -1;
    if (n_free < 0)
        return deflate_anything(plain, to, why);
    at[0] &= 0xfe;
    to->size += size;
    buf_add(to, aligned + (n_free >= 3), sizeof(aligned) - (n_free >= 3));
    return to->failed ? problem_memory(why) : STATUS_OK;
}

enum status
deflate_blocks(struct libdeflate_compressor *compressor, struct slice plain,
               struct buf *to, struct problem *why)
{
    size_t n_pieces = plain.size / PIECE_BYTES + 1, at = 0;
    enum status rc = STATUS_OK;

    if (!compressor)
        return deflate_anything(plain, to, why);
    for (size_t i = 0; !rc && i < n_pieces; i++) {
        size_t end = plain.size * (i + 1) / n_pieces;

        rc = deflate_piece(compressor,
                           (struct slice){plain.data + at, end - at}, to, why);
        at = end;
    }
    return rc;
}

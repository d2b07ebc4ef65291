/*
 * deflate_blocks.h - pieces of a deflate stream, each by itself.
 *
 * libdeflate is three to four times as fast as zlib, at the same size, but it
 * only makes whole streams. A list's file needs a stream with places where a
 * reader can begin. So a piece is compressed as a stream of its own, and its
 * end is made open:
 *
 *     libdeflate    1 | type, codes, symbols | end of block | zeros to a byte
 *     here          0 | type, codes, symbols | end of block | 0 00 zeros
 *                   00 00 ff ff
 *
 * The first bit no longer says that the block is the last one. An empty stored
 * block behind it (RFC 1951 section 3.2.4) ends on a byte. Its first three bits
 * are zeros, as the rest of the last byte; how many bits of that byte are free
 * follows from the code that ends the block, which the block's header has
 * (section 3.2.7). Bytes for which libdeflate needs several blocks are
 * compressed in halves; zlib compresses those for which it takes fixed codes.
 *
 * The bytes are a function of the plain bytes. Another release of a library may
 * make others.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

struct libdeflate_compressor;

/* Appends `plain` to `to`, compressed: blocks that need nothing before them,
 * do not end the stream, and end with a byte. `compressor` may be NULL: then
 * zlib compresses. */
MUST_CHECK enum status deflate_blocks(struct libdeflate_compressor *compressor,
                                      struct slice plain, struct buf *to,
                                      struct problem *why);

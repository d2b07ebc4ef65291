/*
 * gzip.h - zlib, as a source or a subscriber of the broker uses it.
 */
#ifndef TESTS_SUPPORT_GZIP_H
#define TESTS_SUPPORT_GZIP_H

#include <stddef.h>

#include "proto/buf.h"
#include "proto/slice.h"

/* Appends `bytes` as one member of RFC 1952. */
void gzip_add(struct buf *to, struct slice bytes);

/* Appends a member that inflates to `size` times `byte`, without ever holding
 * those: about a thousandth of `size`. */
void gzip_add_bomb(struct buf *to, char byte, size_t size);

/* Appends the message that a compressed WebSocket message stands for (RFC 7692
 * section 7.2.2). */
void gzip_add_message(struct buf *to, struct slice packed);

#endif

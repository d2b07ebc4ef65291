/*
 * gzip.h - gzip as a source makes it, by zlib itself.
 */
#ifndef TESTS_SUPPORT_GZIP_H
#define TESTS_SUPPORT_GZIP_H

#include <stddef.h>

#include "proto/buf.h"
#include "proto/slice.h"

/* Appends `bytes` as one member of RFC 1952. */
void gzip_add(struct buf *to, struct slice bytes);

/* Appends a member that inflates to `size` times `byte`, without ever holding
 * that: about a thousandth of it. */
void gzip_add_bomb(struct buf *to, char byte, size_t size);

#endif

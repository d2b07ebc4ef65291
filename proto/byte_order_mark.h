/*
 * byte_order_mark.h - the byte order mark before a document in UTF-8.
 *
 * It says nothing, but some systems do not write UTF-8 without it. XML allows
 * it (appendix F); before JSON it may be passed over (RFC 8259 section 8.1).
 */
#ifndef PROTO_BYTE_ORDER_MARK_H
#define PROTO_BYTE_ORDER_MARK_H

#include "proto/slice.h"

#define BOM_SIZE 3

/* Takes what there is of a mark off the beginning of a document, of which
 * `bytes` comes next. `*seen` is 0 at first, and BOM_SIZE once the document
 * goes on; false: it begins with a part of a mark and something else. */
static inline bool
bom_skip(unsigned *seen, struct slice *bytes)
{
    static const char mark[] = "\xef\xbb\xbf";

    while (*seen < BOM_SIZE && bytes->size > 0) {
        if (bytes->data[0] != mark[*seen]) {
            bool is_whole = *seen == 0;

            *seen = BOM_SIZE;
            return is_whole;
        }
        ++*seen;
        bytes->data++;
        bytes->size--;
    }
    return true;
}

#endif

/*
 * body.h - the body of an answer, handed out piece by piece.
 *
 * A body is a source of bytes: the receiver asks for the next piece when it has
 * room. A source that would have to read a disk says BODY_WAITS, and is asked
 * again on a worker thread, where it may. At most one thread asks at a time.
 * The kernel's page cache counts as memory.
 *
 * A receiver that can send from a file (sendfile) asks with next_in_file
 * instead of next, and the bytes of the file do not come into the broker's
 * memory.
 */
#pragma once

#include "broker/base/client_limits.h"
#include "proto/buf.h"

enum body_result {
    BODY_DATA, /* *piece is lent until the next call on this body */
    BODY_END,
    BODY_WAITS, /* nothing in memory: ask again with may_block */
    BODY_FAILED /* the rest cannot be read: cut the connection */
};

/* `size` bytes from `at` on in the open file `fd`. */
struct file_part {
    int fd;
    uint64_t at;
    size_t size;
};

struct body {
    uint64_t size; /* bytes in all, known before the first piece */
    enum body_result (*next)(struct body *body, bool may_block,
                             struct slice *piece);
    void (*free)(struct body *body); /* at the end, or when the receiver gives
                                        up */
    /* Begins at byte `first` (< size) instead: called at most once, before the
     * first piece, and reads nothing by itself. NULL: only by reading on. */
    void (*seek)(struct body *body, uint64_t first);
    /* As next, but the piece stays in its file. The body closes the file. The
     * first and the last byte of the piece are in the page cache, so sendfile
     * hardly ever waits for the disk. A file that becomes shorter takes the end
     * of the piece with it. NULL: the body is no file. */
    enum body_result (*next_in_file)(struct body *body, bool may_block,
                                     struct file_part *piece);
};

/* Frees *body unless it is NULL, which it is then. */
static inline void
body_free(struct body **body)
{
    if (*body)
        (*body)->free(*body);
    *body = NULL;
}

/* A body of bytes in memory; takes over what `text` holds (text is empty
 * afterwards). NULL: text->failed. */
struct body *body_of_buf(struct buf *text);

/* The same. Its memory counts as `held`, which it takes over, until it is
 * freed. */
struct body *body_of_held(struct buf *text, const struct holding *held);

/* A body of bytes that stay as long as the program. */
struct body *body_of_constant(struct slice bytes);

/* The first `size` bytes of an open file, which is taken over. */
struct body *body_of_file(int fd, uint64_t size);

/* `size` bytes of `whole` from `first` on, all within it; takes over `whole`.
 */
struct body *body_part(struct body *whole, uint64_t first, uint64_t size);

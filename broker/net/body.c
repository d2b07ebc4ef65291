#include "broker/net/body.h"

#include <sys/uio.h>
#include <unistd.h>

/* A file is read in pieces of this size. */
#define FILE_PIECE 65536

/* A piece that stays in the file may be longer: a socket seldom has room for
 * more. Each piece costs three system calls, and its end a short packet. */
#define FILE_PART 1048576

/* Bytes in memory are one piece. */
struct memory {
    struct body body; /* first: a pointer to it is a pointer to this */
    struct buf text;  /* owns the bytes; empty if they are constant */
    struct holding held;
    struct slice piece; /* size 0: it was lent */
};

static enum body_result
memory_next(struct body *body, bool may_block, struct slice *piece)
{
    struct memory *m = (struct memory *)body;

    (void)may_block;
    if (m->piece.size == 0)
        return BODY_END;
    *piece = m->piece;
    m->piece.size = 0;
    return BODY_DATA;
}

static void
memory_free(struct body *body)
{
    struct memory *m = (struct memory *)body;

    holding_end(&m->held);
    buf_fini(&m->text);
    free(m);
}

struct body *
body_of_constant(struct slice bytes)
{
    struct memory *m = memory_new(1, sizeof(*m));

    m->body.size = bytes.size;
    m->body.next = memory_next;
    m->body.free = memory_free;
    m->piece = bytes;
    return &m->body;
}

struct body *
body_of_held(struct buf *text, const struct holding *held)
{
    struct memory *m;

    if (text->failed)
        return NULL;
    m = (struct memory *)body_of_constant(buf_slice(text));
    m->text = *text;
    m->held = *held;
    buf_init(text, text->max);
    return &m->body;
}

struct body *
body_of_buf(struct buf *text)
{
    return body_of_held(text, &(struct holding){.n = 0});
}

/* A file */

struct file_body {
    struct body body;
    int fd;
    uint64_t at;
    char *piece;
};

/* Returns how many bytes were read, 0 or -1: none. Unless it may block, it
 * takes only what is in the page cache; some file systems then take none. */
static ssize_t
read_at(int fd, void *to, size_t size, uint64_t at, bool may_block)
{
    struct iovec into = {to, size};
    ssize_t n;

    do
        n = preadv2(fd, &into, 1, (off_t)at, may_block ? 0 : RWF_NOWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

static size_t
at_most(const struct file_body *f, size_t size)
{
    uint64_t left = f->body.size - f->at;

    return left < size ? (size_t)left : size;
}

static bool
has_buffer(struct file_body *f)
{
    if (!f->piece)
        f->piece = memory_room(FILE_PIECE);
    return f->piece != NULL;
}

static enum body_result
file_next(struct body *body, bool may_block, struct slice *piece)
{
    struct file_body *f = (struct file_body *)body;
    ssize_t n;

    if (f->at == f->body.size)
        return BODY_END;
    if (!has_buffer(f))
        return BODY_FAILED;
    n = read_at(f->fd, f->piece, at_most(f, FILE_PIECE), f->at, may_block);
    /* A job may wait for the disk. If its read fails too, the file is damaged,
     * or shorter than before. */
    if (n <= 0)
        return may_block ? BODY_FAILED : BODY_WAITS;
    f->at += (uint64_t)n;
    *piece = (struct slice){f->piece, (size_t)n};
    return BODY_DATA;
}

static enum body_result
file_next_in_file(struct body *body, bool may_block, struct file_part *piece)
{
    struct file_body *f = (struct file_body *)body;
    size_t size = at_most(f, FILE_PART), done = 0;
    bool is_cached;
    char byte;

    if (!size)
        return BODY_END;
    if (may_block) { /* reads the piece into the page cache */
        while (has_buffer(f) && done < size) {
            size_t left = size - done;
            ssize_t n =
                read_at(f->fd, f->piece, left < FILE_PIECE ? left : FILE_PIECE,
                        f->at + done, true);

            if (n <= 0)
                break; /* the file does not have it */
            done += (size_t)n;
        }
        free(f->piece);
        f->piece = NULL;
        is_cached = done == size;
    } else {
        /* The kernel reads and drops a file from its beginning on, so the first
         * and the last byte show whether it is in the page cache. */
        is_cached = read_at(f->fd, &byte, 1, f->at, false) == 1 &&
                    read_at(f->fd, &byte, 1, f->at + size - 1, false) == 1;
    }
    if (!is_cached)
        return may_block ? BODY_FAILED : BODY_WAITS;
    *piece = (struct file_part){f->fd, f->at, size};
    f->at += size;
    return BODY_DATA;
}

static void
file_seek(struct body *body, uint64_t first)
{
    ((struct file_body *)body)->at = first;
}

static void
file_free(struct body *body)
{
    struct file_body *f = (struct file_body *)body;

    close(f->fd);
    free(f->piece);
    free(f);
}

struct body *
body_of_file(int fd, uint64_t size)
{
    struct file_body *f = memory_new(1, sizeof(*f));

    f->body = (struct body){
        .size = size,
        .next = file_next,
        .free = file_free,
        .seek = file_seek,
        .next_in_file = file_next_in_file,
    };
    f->fd = fd;
    return &f->body;
}

/* A part of another body */

struct part {
    struct body body;
    struct body *whole;
    uint64_t before; /* bytes still to drop */
    uint64_t left;   /* bytes still to lend */
};

static enum body_result
part_next(struct body *body, bool may_block, struct slice *piece)
{
    struct part *p = (struct part *)body;
    enum body_result result;

    if (p->left == 0)
        return BODY_END;
    /* Dropping may read many megabytes: not on a service thread. */
    if (p->before > 0 && !may_block)
        return BODY_WAITS;
    do {
        result = p->whole->next(p->whole, may_block, piece);
        if (result != BODY_DATA)
            return result;
        if (p->before >= piece->size) {
            p->before -= piece->size;
            piece->size = 0;
        }
    } while (p->before > 0 && piece->size == 0);
    slice_skip(piece, (size_t)p->before);
    p->before = 0;
    if (piece->size > p->left)
        piece->size = (size_t)p->left;
    p->left -= piece->size;
    return BODY_DATA;
}

static enum body_result
part_next_in_file(struct body *body, bool may_block, struct file_part *piece)
{
    struct part *p = (struct part *)body;
    enum body_result result;

    if (p->left == 0)
        return BODY_END;
    result = p->whole->next_in_file(p->whole, may_block, piece);
    if (result != BODY_DATA)
        return result;
    if (piece->size > p->left)
        piece->size = (size_t)p->left;
    p->left -= piece->size;
    return BODY_DATA;
}

static void
part_free(struct body *body)
{
    struct part *p = (struct part *)body;

    body_free(&p->whole);
    free(p);
}

struct body *
body_part(struct body *whole, uint64_t first, uint64_t size)
{
    struct part *p = memory_new(1, sizeof(*p));

    p->body = (struct body){.size = size, .next = part_next, .free = part_free};
    p->whole = whole;
    p->left = size;
    if (whole->seek) {
        p->body.next_in_file = whole->next_in_file ? part_next_in_file : NULL;
        whole->seek(whole, first);
    } else {
        p->before = first;
    }
    return &p->body;
}

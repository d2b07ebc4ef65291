#include "broker/base/body.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* A file is read in pieces of this size. */
#define FILE_PIECE 65536

/* Bytes in memory are one piece. */
struct memory {
    struct body body; /* first: a pointer to it is a pointer to this */
    struct buf text;
    bool is_told;
};

static enum body_result
memory_next(struct body *body, bool may_block, struct slice *piece)
{
    struct memory *m = (struct memory *)body;

    (void)may_block;
    if (m->is_told || m->text.size == 0)
        return BODY_END;
    m->is_told = true;
    *piece = buf_slice(&m->text);
    return BODY_DATA;
}

static void
memory_free(struct body *body)
{
    struct memory *m = (struct memory *)body;

    buf_fini(&m->text);
    free(m);
}

struct body *
body_of_buf(struct buf *text)
{
    struct memory *m;

    if (text->failed)
        return NULL;
    m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;

    m->body.size = text->size;
    m->body.next = memory_next;
    m->body.free = memory_free;
    m->text = *text;
    buf_init(text, text->max);
    return &m->body;
}

/* A file */

struct file_body {
    struct body body;
    int fd;
    uint64_t at;
    char *piece;
};

static enum body_result
file_next(struct body *body, bool may_block, struct slice *piece)
{
    struct file_body *f = (struct file_body *)body;
    size_t size = FILE_PIECE;
    ssize_t n;

    if (f->at == f->body.size)
        return BODY_END;
    if (!may_block)
        return BODY_WAITS;
    if (!f->piece && !(f->piece = malloc(FILE_PIECE)))
        return BODY_FAILED;
    if (size > f->body.size - f->at)
        size = (size_t)(f->body.size - f->at);
    do
        n = pread(f->fd, f->piece, size, (off_t)f->at);
    while (n < 0 && errno == EINTR);
    if (n <= 0) /* damaged, or shorter than it was */
        return BODY_FAILED;
    f->at += (uint64_t)n;
    *piece = (struct slice){f->piece, (size_t)n};
    return BODY_DATA;
}

static void
file_seek(struct body *body, uint64_t first)
{
    struct file_body *f = (struct file_body *)body;

    f->at = first;
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
    struct file_body *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->body = (struct body){size, file_next, file_free, file_seek};
    f->fd = fd;
    return &f->body;
}

/* A part of another one */

struct part {
    struct body body;
    struct body *whole;
    uint64_t before; /* bytes still to be dropped */
    uint64_t left;   /* bytes still to be lent */
};

static enum body_result
part_next(struct body *body, bool may_block, struct slice *piece)
{
    struct part *p = (struct part *)body;
    enum body_result result;

    if (p->left == 0)
        return BODY_END;
    /* What is dropped may be many megabytes: not where others wait. */
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
    piece->data += p->before;
    piece->size -= (size_t)p->before;
    p->before = 0;
    if (piece->size > p->left)
        piece->size = (size_t)p->left;
    p->left -= piece->size;
    return BODY_DATA;
}

static void
part_free(struct body *body)
{
    struct part *p = (struct part *)body;

    p->whole->free(p->whole);
    free(p);
}

struct body *
body_part(struct body *whole, uint64_t first, uint64_t size)
{
    struct part *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->body = (struct body){size, part_next, part_free, NULL};
    p->whole = whole;
    p->left = size;
    if (whole->seek)
        whole->seek(whole, first);
    else
        p->before = first;
    return &p->body;
}

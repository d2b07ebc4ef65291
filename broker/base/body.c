#include "broker/base/body.h"

#include <stdlib.h>

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

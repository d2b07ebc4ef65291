#include "broker/documents/entry_pieces.h"

#include "proto/vocab.h"

static enum body_result
next_piece(struct body *body, bool may_block, struct slice *piece)
{
    struct pieces *p = (struct pieces *)(void *)body;

    if (p->is_begun) {
        if (p->blocks && !may_block)
            return BODY_WAITS;
        buf_clear(&p->text);
        if (p->fill(p) || p->text.failed)
            return BODY_FAILED;
        if (p->text.size == 0)
            return BODY_END;
    }
    p->is_begun = true;
    *piece = buf_slice(&p->text);
    return BODY_DATA;
}

static void
free_pieces(struct body *body)
{
    struct pieces *p = (struct pieces *)(void *)body;

    buf_fini(&p->text);
    p->free(p);
}

void
pieces_init(struct pieces *p, enum status (*fill)(struct pieces *pieces),
            void (*free)(struct pieces *pieces), bool blocks)
{
    p->body.next = next_piece;
    p->body.free = free_pieces;
    buf_init(&p->text, DOCUMENT_BYTES_MAX);
    p->fill = fill;
    p->free = free;
    p->blocks = blocks;
}

#include "broker/documents/document.h"

#include <stdlib.h>

#include "proto/datetime.h"

void
document_close(struct document *document)
{
    if (document->body)
        document->body->free(document->body);
    if (document->gzip)
        document->gzip->free(document->gzip);
    document->body = document->gzip = NULL;
}

enum status
document_of_text(struct document *document, struct buf *text, enum status rc,
                 struct problem *why)
{
    struct digest tag;

    if (!rc) {
        digest_start(&tag, buf_slice(text));
        *document = (struct document){
            .body = body_of_buf(text),
            .tag = tag,
            .modified_us = DATETIME_NONE,
        };
        if (!document->body)
            rc = problem_memory(why);
    }
    buf_fini(text);
    return rc;
}

void
document_begin(struct buf *text, const struct document_wish *wish,
               enum document_root root, enum capability capability,
               int64_t from_us, const char *rel, struct link_text href)
{
    struct link_text up = set_link(wish->set, LINK_CAPABILITYLIST);
    const struct document_link links[] = {
        {"up", link_slice(&up), NULL},
        {rel, link_slice(&href), NULL},
    };
    const struct document_head head = {
        .root = root,
        .capability = capability,
        .links = links,
        .n_links = rel ? 2 : 1,
        .from_us = from_us,
        .until_us = DATETIME_NONE,
    };

    document_header(text, &head);
}

/* Made while it is read */

static enum body_result
next_piece(struct body *body, bool may_block, struct slice *piece)
{
    struct pieces *p = (struct pieces *)(void *)body;

    if (p->is_begun) {
        if (p->blocks && !may_block)
            return BODY_WAITS;
        if (p->is_ended)
            return BODY_END;
        buf_clear(&p->text);
        if (p->fill(p) || p->text.failed)
            return BODY_FAILED;
        p->is_ended = p->text.size == 0;
        if (p->is_ended)
            document_footer(&p->text, p->root);
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
    if (p->free)
        p->free(p);
    free(p);
}

void
pieces_init(struct pieces *p, enum document_root root,
            enum status (*fill)(struct pieces *pieces),
            void (*free)(struct pieces *pieces), bool blocks)
{
    p->body.next = next_piece;
    p->body.free = free_pieces;
    buf_init(&p->text, DOCUMENT_BYTES_MAX);
    p->root = root;
    p->fill = fill;
    p->free = free;
    p->blocks = blocks;
}

#include "broker/documents/document.h"

void
document_close(struct document *document)
{
    body_free(&document->body);
    body_free(&document->gzip);
    buf_fini(&document->links);
    buf_fini(&document->type);
}

enum status
document_of_text(struct document *document, struct buf *text, enum status rc,
                 struct problem *why)
{
    struct digest tag;

    if (!rc) {
        digest_sha256(&tag, buf_slice(text));
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
               int64_t from_us, const char *rel, struct link_text href,
               const struct coverage *state)
{
    struct link_text up = set_link(wish->set, LINK_CAPABILITYLIST);
    const struct document_link links[] = {
        {"up", link_slice(&up)},
        {rel, rel ? link_slice(&href) : SLICE("")},
    };
    const struct document_head head = {
        .root = root,
        .capability = capability,
        .links = links,
        .n_links = N_ELEMENTS(links),
        .at_us = state ? state->until_us : 0,
        .from_us = from_us,
        .coverage = state,
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

/* Lines */

void
lines_init(struct lines *l, struct body *body)
{
    l->body = body;
    l->piece = (struct slice){NULL, 0};
    buf_init(&l->line, FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
}

enum status
lines_next(struct lines *l, struct slice *line)
{
    enum body_result result;
    const char *end;

    buf_clear(&l->line);
    while (!(end = l->piece.size ? memchr(l->piece.data, '\n', l->piece.size)
                                 : NULL)) {
        buf_add_slice(&l->line, l->piece);
        l->piece.size = 0;
        result = l->body ? l->body->next(l->body, true, &l->piece) : BODY_END;
        if (result == BODY_END)
            return l->line.size ? STATUS_IO : STATUS_NOT_FOUND;
        if (result != BODY_DATA || l->line.failed)
            return STATUS_IO;
    }
    *line = (struct slice){l->piece.data, (size_t)(end + 1 - l->piece.data)};
    slice_skip(&l->piece, line->size);
    if (l->line.size > 0) {
        buf_add_slice(&l->line, *line);
        *line = buf_slice(&l->line);
    }
    return l->line.failed ? STATUS_IO : STATUS_OK;
}

struct slice
lines_between(struct slice line, const char *before, const char *after)
{
    const char *end =
        slice_skip_past(&line, before) ? slice_find(line, after) : NULL;

    return end ? slice_between(line.data, end) : (struct slice){NULL, 0};
}

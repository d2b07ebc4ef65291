#include "broker/documents/memory.h"

#include <stdlib.h>

#include "broker/sets/message.h"

/* A page, counted in the answers' budget until its reader has it. */
struct page {
    struct body body;
    struct registry *registry;
    struct buf text;
    bool is_given;
};

static enum body_result
page_next(struct body *body, bool may_block, struct slice *piece)
{
    struct page *p = (struct page *)(void *)body;

    (void)may_block;
    if (p->is_given)
        return BODY_END;
    p->is_given = true;
    *piece = buf_slice(&p->text);
    return BODY_DATA;
}

static void
page_free(struct body *body)
{
    struct page *p = (struct page *)(void *)body;

    registry_release(p->registry, BUDGET_ANSWERS, p->text.capacity);
    buf_fini(&p->text);
    free(p);
}

enum status
memory_open(struct set *set, uint64_t after, enum log_patience patience,
            struct body **body, uint64_t *last, struct problem *why)
{
    const struct message_wish wish = {
        .set = set,
        .form = MESSAGE_JSON,
        .after = after,
        .upto = UINT64_MAX,
        .max_bytes = registry_config(set->registry)->message_bytes,
        .patience = patience,
        .has_next = true,
    };
    struct page *p = calloc(1, sizeof(*p));
    enum status rc;

    if (!p)
        return problem(why, STATUS_BUSY, "the broker has no memory left");
    buf_init(&p->text, (size_t)1 << 30);
    rc = message_write(&p->text, &wish, last, why);
    if (!rc &&
        !registry_reserve(set->registry, BUDGET_ANSWERS, p->text.capacity))
        rc = problem(why, STATUS_BUSY, "too much is being read at the moment");
    if (rc) {
        buf_fini(&p->text);
        free(p);
        return rc;
    }
    p->registry = set->registry;
    p->body.size = p->text.size;
    p->body.next = page_next;
    p->body.free = page_free;
    *body = &p->body;
    return STATUS_OK;
}

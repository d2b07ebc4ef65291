#include "broker/documents/change_memory.h"

#include "broker/documents/html_document.h"

/* html_depth of "/sets/NAME/changes". */
#define MEMORY_DEPTH 2

/* A page of change memory. Its memory counts as held until its client has read
 * it. */
struct page {
    struct body body;
    struct holding holding;
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

    holding_end(&p->holding);
    buf_fini(&p->text);
    free(p);
}

/* Reserves room for the page. A reader that can wait repeats the request, so
 * its refusal does not count. */
static enum status
take_text(struct page *p, uint64_t n, const struct memory_wish *wish,
          struct problem *why)
{
    if (!wish->is_silent)
        return holding_add(&p->holding, n, why);
    return holding_try(&p->holding, n) ? STATUS_OK : STATUS_BUSY;
}

/* Replaces the message by a page of it. */
static enum status
make_page(struct buf *text, const struct memory_wish *wish, struct problem *why)
{
    const struct html_wish page = {
        .public_url = registry_public_url(wish->set->registry),
        .set = wish->set->name,
        .depth = MEMORY_DEPTH,
    };
    struct lines lines;
    struct buf html;
    enum status rc;

    lines_init(&lines, NULL);
    lines.piece = buf_slice(text);
    buf_init(&html, HTML_BYTES_MAX);
    rc = html_document_write(&html, &page, &lines, why);
    lines_fini(&lines);
    if (rc) {
        buf_fini(&html);
        return rc;
    }
    buf_fini(text);
    *text = html;
    return STATUS_OK;
}

enum status
memory_open(const struct memory_wish *wish, struct memory_page *page,
            struct problem *why)
{
    struct registry *registry = wish->set->registry;
    struct message_wish message = {
        .set = wish->set,
        .form = wish->form,
        .after = wish->after,
        .upto = UINT64_MAX,
        .filter = wish->filter,
        .reached = wish->reached,
        .is_silent = wish->is_silent,
        .max_bytes = registry_config(registry)->message_bytes,
        .patience = wish->patience,
        .has_next = true,
    };
    struct page *p;
    enum status rc = STATUS_OK;

    if (wish->is_page && wish->patience == LOG_MEMORY)
        return STATUS_AGAIN; /* it takes longer than the message */
    if (wish->has_since)
        rc = log_since(registry_log(registry), wish->set->log, wish->since_us,
                       wish->patience, &message.after, why);
    if (rc)
        return rc;
    p = memory_new(1, sizeof(*p));
    buf_init(&p->text, (size_t)1 << 30);
    holding_init(&p->holding, registry_clients(registry), wish->client,
                 CLIENT_ANSWERS);
    /* Without room for the largest page none is made in vain. */
    rc = take_text(p, message.max_bytes, wish, why);
    if (!rc)
        rc = message_write(&p->text, &message, &page->last, why);
    if (!rc && wish->is_page && p->text.size)
        rc = make_page(&p->text, wish, why);
    if (!rc && p->text.capacity > p->holding.n)
        rc = take_text(p, p->text.capacity - p->holding.n, wish, why);
    else if (!rc)
        holding_release(&p->holding, p->holding.n - p->text.capacity);
    page->body = NULL;
    page->after = message.after;
    if (rc || p->text.size == 0) {
        holding_end(&p->holding);
        buf_fini(&p->text);
        free(p);
        return rc;
    }
    p->body.size = p->text.size;
    p->body.next = page_next;
    p->body.free = page_free;
    page->body = &p->body;
    return STATUS_OK;
}

#include "broker/documents/change_memory.h"

#include "broker/documents/html_document.h"
#include "broker/sets/positions.h"

/* html_depth of "/sets/NAME/changes". */
#define MEMORY_DEPTH 2

/* Reserves room for the page. A reader that can wait repeats the request, so
 * its refusal does not count. */
static enum status
take_text(struct holding *held, uint64_t n, const struct memory_wish *wish,
          struct problem *why)
{
    if (!wish->message.is_silent)
        return holding_add(held, n, why);
    return holding_try(held, n) ? STATUS_OK : STATUS_BUSY;
}

/* Replaces the message by a page of it. */
static enum status
make_page(struct buf *text, const struct memory_wish *wish, struct problem *why)
{
    const struct html_wish page = {
        .public_url = wish->message.set->registry->options.public_url,
        .set = wish->message.set->name,
        .depth = MEMORY_DEPTH,
    };
    struct buf html = {.max = HTML_BYTES_MAX};
    enum status rc =
        html_document_write(&html, &page, NULL, buf_slice(text), why);

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
    struct set *set = wish->message.set;
    struct registry *registry = set->registry;
    struct message_wish message = wish->message;
    struct coverage covered;
    struct holding held; /* the page, until its client has read it */
    struct buf text = {.max = (size_t)1 << 30};
    enum status rc = STATUS_OK;

    if (wish->is_page && message.patience == LOG_MEMORY)
        return STATUS_AGAIN; /* it takes longer than the message */
    if (wish->has_since)
        rc = positions_since(set, wish->since_us, message.patience,
                             &message.after, why);
    if (rc)
        return rc;
    message.upto = UINT64_MAX;
    message.max_bytes = registry->config->message_bytes;
    message.has_next = true;
    message.covered = &covered;
    holding_init(&held, &registry->clients, wish->client, CLIENT_ANSWERS);
    /* Without room for the largest page none is made in vain. */
    rc = take_text(&held, message.max_bytes, wish, why);
    if (!rc)
        rc = message_write(&text, &message, &page->last, why);
    if (!rc && wish->is_page && text.size)
        rc = make_page(&text, wish, why);
    if (!rc && text.capacity > held.n)
        rc = take_text(&held, text.capacity - held.n, wish, why);
    else if (!rc)
        holding_release(&held, held.n - text.capacity);
    page->after = message.after;
    page->body = !rc && text.size ? body_of_held(&text, &held) : NULL;
    if (page->body)
        page->before = covered.before;
    if (!page->body) {
        holding_end(&held);
        buf_fini(&text);
    }
    return rc;
}

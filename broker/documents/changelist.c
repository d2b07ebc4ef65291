/*
 * changelist.c - Change Lists, open and closed, and the Change List Index.
 *
 * A list is header + fragments + footer, wherever the fragments are kept: in
 * memory, in the store, in the list's file. So a closed list has the same bytes
 * before and after its file exists, and nobody waits for the file.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/base/diag.h"
#include "broker/documents/listing.h"
#include "broker/sets/header.h"
#include "broker/sets/links.h"
#include "proto/document.h"

/* Entries are lent in pieces of this size, copied: a batch that a slow reader
 * held would be hundreds of kilobytes. */
#define PIECE_BYTES 65536

struct list_body {
    struct body body;
    struct log *log;
    struct log_set *set;
    struct buf header;

    enum { AT_HEADER, AT_ENTRIES, AT_FOOTER, AT_END } at;

    uint64_t after, last; /* the entries still to come */
    size_t offset;        /* bytes of them that were lent already */
    char *piece;
};

/* Lends the next bytes of the entries that a batch holds. The same bytes follow
 * `after` whatever batch they are found in, but another one may end sooner. */
static void
lend(struct list_body *l, const struct batch *b, struct slice *piece)
{
    uint64_t last = b->last < l->last ? b->last : l->last;
    struct slice bytes = batch_slice(b, l->after, last);
    size_t offset = l->offset < bytes.size ? l->offset : bytes.size;
    size_t size = bytes.size - offset;

    if (size > PIECE_BYTES)
        size = PIECE_BYTES;
    memcpy(l->piece, bytes.data + offset, size);
    *piece = (struct slice){l->piece, size};
    l->offset += size;
    if (l->offset >= bytes.size) {
        l->after = last;
        l->offset -= bytes.size;
    }
}

static enum body_result
next_entries(struct list_body *l, bool may_block, struct slice *piece)
{
    *piece = (struct slice){NULL, 0};
    while (piece->size == 0 && l->after < l->last) {
        struct problem why = {"the entries end too soon"};
        struct batch *b = NULL;
        enum status rc = log_read(l->log, l->set, l->after,
                                  may_block ? LOG_DISK : LOG_MEMORY, &b, &why);

        if (rc == STATUS_AGAIN)
            return BODY_WAITS;
        if (rc || !b) {
            diag(DIAG_ERROR, "documents", "a list of %s breaks off: %s",
                 log_set_name(l->set), why.text);
            return BODY_FAILED;
        }
        lend(l, b, piece);
        batch_unref(b);
    }
    return BODY_DATA;
}

static enum body_result
list_body_next(struct body *body, bool may_block, struct slice *piece)
{
    struct list_body *l = (struct list_body *)(void *)body;

    switch (l->at) {
    case AT_HEADER:
        *piece = buf_slice(&l->header);
        l->at = AT_ENTRIES;
        return BODY_DATA;
    case AT_ENTRIES:
        if (l->after < l->last)
            return next_entries(l, may_block, piece);
        l->at = AT_FOOTER;
        /* fall through */
    case AT_FOOTER:
        *piece = document_footer_of(DOCUMENT_URLSET);
        l->at = AT_END;
        return BODY_DATA;
    case AT_END:
        break;
    }
    return BODY_END;
}

static void
list_body_free(struct body *body)
{
    struct list_body *l = (struct list_body *)(void *)body;

    buf_fini(&l->header);
    free(l->piece);
    free(l);
}

enum status
changelist_open(const struct document_wish *wish, struct body **body,
                struct problem *why)
{
    struct log *log = registry_log(wish->registry);
    struct list_info info;
    struct list_body *l;
    enum status rc = STATUS_OK;

    if (wish->number > wish->head.list)
        return problem(why, STATUS_NOT_FOUND, "there is no such Change List");
    if (wish->number < wish->head.first_list)
        return problem(why, STATUS_GONE, "this Change List is no longer kept");
    if (wish->number < wish->head.list && wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    l = calloc(1, sizeof(*l));
    if (!l)
        return problem(why, STATUS_MEMORY, "no memory for a document");
    buf_init(&l->header, DOCUMENT_FRAME_MAX);
    l->piece = malloc(PIECE_BYTES);
    if (wish->number < wish->head.list) {
        rc =
            log_list(log, wish->set->log, wish->number, &info, &l->header, why);
    } else {
        info = lists_open(&wish->head);
        header_write(&l->header, registry_public_url(wish->registry),
                     wish->set->name, wish->head.epoch, &info);
    }
    if (!rc && (l->header.failed || !l->piece))
        rc = problem(why, STATUS_MEMORY, "no memory for a document");
    if (rc) {
        list_body_free(&l->body);
        return rc;
    }
    l->log = log;
    l->set = wish->set->log;
    l->after = info.after;
    l->last = info.last;
    l->body.size =
        l->header.size + info.bytes + document_footer_of(DOCUMENT_URLSET).size;
    l->body.next = list_body_next;
    l->body.free = list_body_free;
    *body = &l->body;
    return STATUS_OK;
}

/* The capability's fixed address: the Change List itself while there is one,
 * the Change List Index from the first rotation on. */
enum status
changelist_current_open(const struct document_wish *wish, struct body **body,
                        struct problem *why)
{
    struct document_wish list = *wish;
    struct link_text archive =
        link_to(registry_public_url(wish->registry), LINK_CHANGELIST_ARCHIVE,
                wish->set->name, NULL, 0);
    uint64_t closed = registry_config(wish->registry)->index_lists;
    struct listing_wish index = {
        .document = wish,
        .root = DOCUMENT_SITEMAPINDEX,
        .capability = CAP_CHANGELIST,
        .archives = archive.text,
        .first = wish->head.list - wish->head.first_list > closed
                     ? wish->head.list - closed
                     : wish->head.first_list,
        .last = wish->head.list,
        .has_from = true,
    };

    if (wish->head.list > wish->head.start_list)
        return listing_open(&index, body, why);
    list.number = wish->head.list;
    return changelist_open(&list, body, why);
}

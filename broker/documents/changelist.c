/*
 * changelist.c - Change Lists, open and closed.
 *
 * A list is header + fragments + footer, wherever the fragments are kept: in
 * memory, in the store, in the list's file. So a closed list has the same bytes
 * before and after its file exists, and no reader waits for the file.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/diag.h"
#include "broker/documents/documents.h"
#include "broker/sets/changelist_header.h"
#include "broker/sets/links.h"
#include "proto/resourcesync/document_write.h"

/* Entries are lent in pieces of this size, as copies: a slow reader that held a
 * batch would hold hundreds of kilobytes. */
#define PIECE_BYTES 65536

struct list_body {
    struct body body;
    struct log *log;
    struct log_set *set;
    struct list_info info;
    struct buf header;

    enum { AT_HEADER, AT_PLACE, AT_ENTRIES, AT_FOOTER, AT_END } at;

    uint64_t skip;        /* bytes of the present part to skip */
    uint64_t after, last; /* the entries still to come are (after, last] */
    uint64_t offset;      /* bytes of these entries lent so far */
    char *piece;          /* NULL: nothing was lent yet */
};

/* Lends the next bytes of the entries in a batch. The bytes behind `after` are
 * the same in every batch, but another batch may end sooner. */
static enum body_result
next_entries(struct list_body *l, bool may_block, struct slice *piece)
{
    *piece = (struct slice){NULL, 0};
    if (!l->piece && !(l->piece = memory_room(PIECE_BYTES)))
        return BODY_FAILED;
    while (piece->size == 0 && l->after < l->last) {
        struct problem why = {"the entries end too soon"};
        struct batch *b = NULL;
        struct slice bytes;
        uint64_t last;
        enum status rc = log_read(l->log, l->set, l->after,
                                  may_block ? LOG_DISK : LOG_MEMORY, &b, &why);

        if (rc == STATUS_AGAIN)
            return BODY_WAITS;
        if (rc || !b) {
            DIAG(DIAG_ERROR, "documents", "cannot read a list to its end",
                 diag_text("set", log_set_name(l->set)),
                 diag_text("error", why.text));
            return BODY_FAILED;
        }
        last = b->last < l->last ? b->last : l->last;
        bytes = batch_slice(b, l->after, last);
        if (l->offset < bytes.size) {
            size_t rest = bytes.size - (size_t)l->offset;

            *piece = (struct slice){l->piece,
                                    rest < PIECE_BYTES ? rest : PIECE_BYTES};
            memcpy(l->piece, bytes.data + l->offset, piece->size);
            l->offset += piece->size;
        }
        if (l->offset >= bytes.size) {
            l->after = last;
            l->offset -= bytes.size;
        }
        batch_unref(b);
    }
    return BODY_DATA;
}

/* The unread rest of a part of the document that is in memory. */
static struct slice
rest_of(struct list_body *l, struct slice part)
{
    slice_skip(&part, (size_t)l->skip);
    l->skip = 0;
    return part;
}

static enum body_result
list_body_next(struct body *body, bool may_block, struct slice *piece)
{
    struct list_body *l = (struct list_body *)(void *)body;

    switch (l->at) {
    case AT_HEADER:
        *piece = rest_of(l, buf_slice(&l->header));
        l->at = AT_ENTRIES;
        return BODY_DATA;
    case AT_PLACE: { /* the first entry to read: not all before it */
        struct problem why = {""};
        struct list_place place;

        if (!may_block)
            return BODY_WAITS;
        if (log_seek(l->log, l->set, &l->info, l->skip, &place, &why)) {
            diag(DIAG_ERROR, "documents",
                 "a part of a list of %s is not found: %s",
                 log_set_name(l->set), why.text);
            return BODY_FAILED;
        }
        l->after = place.after;
        l->offset = l->skip - place.at;
        l->skip = 0;
        l->at = AT_ENTRIES;
    }
        /* fall through */
    case AT_ENTRIES:
        if (l->after < l->last)
            return next_entries(l, may_block, piece);
        l->at = AT_FOOTER;
        /* fall through */
    case AT_FOOTER:
        *piece = rest_of(l, document_footer_of(DOCUMENT_URLSET));
        l->at = AT_END;
        return BODY_DATA;
    case AT_END:
        break;
    }
    return BODY_END;
}

static void
list_body_seek(struct body *body, uint64_t first)
{
    struct list_body *l = (struct list_body *)(void *)body;

    l->skip = first;
    if (first < l->header.size)
        return;
    l->at = AT_PLACE;
    l->skip -= l->header.size;
    if (l->skip < l->info.bytes)
        return;
    l->at = AT_FOOTER;
    l->skip -= l->info.bytes;
}

static void
list_body_free(struct body *body)
{
    struct list_body *l = (struct list_body *)(void *)body;

    buf_fini(&l->header);
    free(l->piece);
    free(l);
}

/* Opens the file of a closed list, which is its gzip. If it cannot be read
 * there is no gzip, but the list itself may still be served. The file must end
 * like the gzip of this list: with its size (RFC 1952, ISIZE). A cut file or
 * another one does not.
 *
 * The second since which a list is final, for HTTP, whose dates have whole
 * seconds: the first one that began after its file was written, and so after
 * the list was closed. Every copy of the open list has an earlier date, even
 * one of the same second. The file system keeps the time. Until that second has
 * begun there is no date (RFC 9110 section 8.8.2.1).
 *
 * In a cluster there is none ever: each broker writes a file of its own, and
 * one that is behind may serve the open list after another one has closed it.
 * The ETag is the same everywhere. */
static bool
open_file(struct document *document, struct list_body *l, struct problem *why)
{
    unsigned char end[4];
    struct stat st;
    int64_t final_us;
    bool is_whole;
    int fd = -1;

    if (log_list_file(l->log, l->set, l->info.number, &fd, why))
        return false;
    is_whole = !fstat(fd, &st) && S_ISREG(st.st_mode) &&
               st.st_size >= (off_t)sizeof(end) &&
               pread(fd, end, sizeof(end), st.st_size - (off_t)sizeof(end)) ==
                   sizeof(end);
    for (int i = 0; is_whole && i < 4; i++)
        is_whole = end[i] == (unsigned char)(l->body.size >> (8 * i));
    if (!is_whole) {
        problem_set(why, "%012" PRIu64 ".xml.gz is damaged", l->info.number);
        close(fd);
        return false;
    }
    final_us = ((int64_t)st.st_mtim.tv_sec + 1) * 1000000;
    if (final_us <= clock_now_us() && !log_is_shared(l->log))
        document->modified_us = final_us;
    document->gzip = body_of_file(fd, (uint64_t)st.st_size);
    return true;
}

static enum status
read_header(struct list_body *l, const struct document_wish *wish,
            struct problem *why)
{
    if (wish->number < wish->head.list)
        return log_list(l->log, l->set, wish->number, &l->info, &l->header,
                        why);
    l->info = head_open_list(&wish->head);
    changelist_header_write(&l->header, wish->registry->options.public_url,
                            wish->set->name, &wish->head, &l->info);
    return STATUS_OK;
}

enum status
changelist_open(const struct document_wish *wish, struct document *document,
                struct problem *why)
{
    struct problem damage = {""};
    struct list_body *l;
    enum status rc;

    if (wish->number > wish->head.list)
        return problem(why, STATUS_NOT_FOUND, "there is no such Change List");
    if (wish->number < wish->head.first_list)
        return problem(why, STATUS_GONE, "this Change List is no longer kept");
    if (wish->number < wish->head.list && wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    l = memory_new(1, sizeof(*l));
    buf_init(&l->header, DOCUMENT_FRAME_MAX);
    l->log = wish->registry->log;
    l->set = wish->set->log;
    rc = read_header(l, wish, why);
    if (rc) {
        list_body_free(&l->body);
        return rc;
    }
    l->after = l->info.after;
    l->last = l->info.last;
    l->body = (struct body){
        .size = l->header.size + l->info.bytes +
                document_footer_of(DOCUMENT_URLSET).size,
        .next = list_body_next,
        .free = list_body_free,
        .seek = list_body_seek,
    };
    /* Makes the tag from header and digest, which determine all bytes: the
     * header names epoch, first and last entry, and the digest proves them. So
     * the tag stays the same when the file is written (log.md). */
    *document = (struct document){
        .tag = l->info.digest,
        .modified_us = DATETIME_NONE,
        .is_final = l->info.until_us != DATETIME_NONE,
        .may_be_packed = true,
    };
    digest_add(&document->tag, buf_slice(&l->header));
    document->body = &l->body;
    if (l->info.is_filed && !open_file(document, l, &damage)) {
        diag(DIAG_ERROR, "documents", "a list of %s: %s", log_set_name(l->set),
             damage.text);
        /* It is served in spite of a bad file, from memory or from the rest of
         * the file. Reads its beginning and its end, so that most bad lists are
         * refused rather than broken off. */
        for (size_t i = 0; i < 2 && !rc; i++) {
            struct batch *b = NULL;

            rc = log_read(l->log, l->set,
                          i == 0 ? l->info.after : l->info.last - 1, LOG_DISK,
                          &b, why);
            batch_unref(b);
        }
    }
    if (rc) {
        list_body_free(&l->body);
        *document = (struct document){NULL};
    }
    return rc;
}

/* Opens the open list, for clients that want the newest whatever its number. At
 * this address another list will follow. */
enum status
changelist_latest_open(const struct document_wish *wish,
                       struct document *document, struct problem *why)
{
    struct document_wish list = *wish;
    struct link_text lasting =
        link_to(wish->registry->options.public_url, LINK_LIST, wish->set->name,
                NULL, wish->head.list);
    enum status rc;

    list.number = wish->head.list;
    rc = changelist_open(&list, document, why);
    document->may_be_packed = false;
    memcpy(document->lasting, lasting.text, sizeof(document->lasting));
    return rc;
}

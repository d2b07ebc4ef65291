/*
 * history_document.c - takes a document that has come, or its failure.
 *
 *     an index at the top, its pages --> parts --> HISTORY_SEARCH
 *     a list, its pages -----------> kept -------> HISTORY_TELL
 *     the root of a part ----------> known ------> HISTORY_SEARCH goes on
 *     older ones ------------------> found ------> HISTORY_SEARCH goes on
 */
#include "client/history/history_state.h"
#include "client/lib/pause.h"
#include "proto/link_header.h"
#include "proto/uri.h"

/* Pages of one list, or of an index. */
#define PAGES_MAX 10000

/* A link in the HTTP header counts like one in the root. */
static void
note_next(struct history *h, const struct document_fetch_answer *answer)
{
    struct slice target;
    struct buf url;

    if (h->root.next ||
        !weblink_find(slice_of(answer->link), "next", &target, NULL))
        return;
    buf_init(&url, 4 * URI_CHARACTERS_MAX);
    uri_resolve(&url, slice_of(answer->url), target);
    if (!url.failed)
        h->root.next = slice_dup(buf_slice(&url));
    buf_fini(&url);
}

/* The first page of the list, or of the index at the top. */
static const char *
first_page(const struct history *h)
{
    return h->parts.n ? h->parts.all[h->i].url : h->offered->change_list;
}

static bool
fail_reading(struct history *h, enum status rc)
{
    if (rc == STATUS_MEMORY)
        return history_fail(h, STATUS_MEMORY, NO_MEMORY);
    return history_fail(h, STATUS_MALFORMED, "%s: more than %d pages",
                        first_page(h), PAGES_MAX);
}

/* Loads the next page, if the document has one. True: it has begun, or the
 * history has ended. */
static bool
reads_next_page(struct history *h)
{
    size_t n = h->pages.n;
    enum status rc;

    if (!h->root.next || !strcmp(h->root.next, first_page(h)))
        return false;
    rc = history_parts_add(&h->pages, slice_of(h->root.next), 0, 0);
    if (rc || h->pages.n > PAGES_MAX) {
        fail_reading(h, rc);
        return true;
    }
    if (h->pages.n == n)
        return false; /* a circle of pages */
    h->kept.page++;
    history_load(h, DOCUMENT_PAGE);
    return true;
}

/* Records the root of the part `i`. False: the history has ended. */
static bool
note_part(struct history *h, const struct document_head *head, int64_t begin_us)
{
    struct history_part *part = &h->parts.all[h->i];

    part->is_probed = true;
    part->begin_us = begin_us;
    part->has_seqs = head->has_td_range && head->td.epoch[0];
    part->after = head->td.after;
    if (part->from_us == DATETIME_NONE)
        part->from_us = begin_us;
    if (part->until_us == DATETIME_NONE)
        part->until_us = head->until_us;
    if (!part->prev) {
        part->prev = h->root.prev;
        h->root.prev = NULL;
    }
    if (!h->now.is_time && part->has_seqs && h->now.at.epoch[0] &&
        strcmp(h->now.at.epoch, head->td.epoch) != 0)
        return history_fail(h, STATUS_GONE, "the log is another one by now: %s",
                            head->td.epoch);
    return true;
}

/* True if the list has changed since the search chose it. If the source began a
 * new list at its address, or moved a window on, entries are missing between
 * those handed over and this list; another look may find them. */
static bool
has_moved_on(const struct history *h)
{
    const struct history_part *part = &h->parts.all[h->i];
    const struct document_head *head = &h->head;
    bool is_open = part->until_us == DATETIME_NONE;
    int64_t was = part->is_probed ? part->begin_us : part->from_us;
    int64_t is = part->is_probed || is_open ? h->begin_us : head->from_us;

    /* The search chose it only if the index alone put its begin at the place.
     */
    if (h->state == HISTORY_TOP || (h->state == HISTORY_SEARCH &&
                                    (!h->now.is_time || was > h->now.time_us)))
        return false;
    if (!h->now.is_time)
        return head->has_td_range && head->td.after > h->now.at.seq &&
               (!h->now.at.epoch[0] ||
                !strcmp(head->td.epoch, h->now.at.epoch));
    return was != DATETIME_NONE && is != DATETIME_NONE && is > was &&
           is > h->now.time_us;
}

/* Takes a list that is complete, with all its pages. */
static bool
finish_list(struct history *h)
{
    list_entries_finish(&h->kept, h->begin_us);
    if (h->begin_us == DATETIME_NONE)
        h->begin_us = h->kept.first_us;
    if (has_moved_on(h) && history_again(h))
        return false;
    h->is_loaded = h->i + 1 == h->parts.n;
    h->next = h->root.next;
    h->root.next = NULL;
    return note_part(h, &h->head, h->begin_us);
}

static void
end_list(struct history *h, const struct document_fetch_answer *answer)
{
    if (h->document != DOCUMENT_PAGE) {
        h->head = *answer->head;
        h->begin_us = h->head.from_us;
        history_tag(h->seen_etag, h, answer->etag);
        if (!answer->etag[0] || h->i + 1 < h->parts.n || h->is_top_closed)
            h->seen_etag[0] = '\0';
    } else {
        h->seen_etag[0] = '\0'; /* an ETag covers one page */
        if (answer->head->from_us != DATETIME_NONE &&
            answer->head->from_us < h->begin_us)
            h->begin_us = answer->head->from_us;
    }
    note_next(h, answer);
    /* Lists with seqs are parts of their own. */
    if ((!h->head.has_td_range && reads_next_page(h)) || !finish_list(h))
        return;
    if (h->state == HISTORY_TOP) {
        h->state = HISTORY_SEARCH;
        h->has_looked = true;
    }
    if (h->state == HISTORY_SEARCH)
        h->i = h->parts.n;
    else
        h->state = HISTORY_TELL;
    timer_start(h->timer, 0);
}

static void
take_links(struct history *h)
{
    if (!h->index) {
        h->index = h->root.index;
        h->root.index = NULL;
    }
    if (!h->archives) {
        h->archives = h->root.archives;
        h->root.archives = NULL;
    }
}

/* Takes all pages of the index: the last one may name the newest list. */
static void
end_index(struct history *h, const struct document_fetch_answer *answer)
{
    note_next(h, answer);
    if (reads_next_page(h))
        return;
    h->state = HISTORY_SEARCH;
    if (history_take_older(h))
        timer_start(h->timer, 0);
}

static void
end_top(struct history *h, const struct document_fetch_answer *answer)
{
    enum status rc = STATUS_OK;
    bool is_index =
        h->root.is_known ? h->root.is_index : answer->head->is_index;

    take_links(h);
    if (is_index) {
        end_index(h, answer);
        return;
    }
    h->is_top_closed = answer->head->until_us != DATETIME_NONE;
    rc = history_parts_add(&h->parts, slice_of(h->offered->change_list),
                           DATETIME_NONE, DATETIME_NONE);
    if (rc)
        history_fail(h, STATUS_MEMORY, NO_MEMORY);
    else
        end_list(h, answer);
}

/* Takes a page of the index or of a list, or the first one of a list. */
static void
end_page(struct history *h, const struct document_fetch_answer *answer)
{
    bool is_of_index = h->parts.n == 0;

    if (h->root.is_known && h->root.is_index != is_of_index)
        history_fail(h, STATUS_MALFORMED,
                     is_of_index ? "%s is an index, but one of its pages is a "
                                   "list"
                                 : "%s is an index within an index",
                     first_page(h));
    else if (is_of_index)
        end_index(h, answer);
    else
        end_list(h, answer);
}

static void
end_probe(struct history *h, const struct document_fetch_answer *answer)
{
    if (h->root.is_known && h->root.is_index) {
        history_fail(h, STATUS_MALFORMED, "%s is an index within an index",
                     h->parts.all[h->i].url);
        return;
    }
    if (!note_part(h, answer->head,
                   answer->head->from_us != DATETIME_NONE
                       ? answer->head->from_us
                       : h->root.first_us))
        return;
    h->i++; /* the search looks at this part again */
    timer_start(h->timer, 0);
}

static void
end_older(struct history *h)
{
    if (h->i_older < h->older.n || history_take_older(h))
        timer_start(h->timer, 0);
}

/* Handles a document that cannot be had. */
static void
end_failed(struct history *h, const struct problem *why)
{
    bool is_lost = why->http_status == 404 || why->http_status == 410;

    if (history_waits(h, why))
        return;
    if (h->document == DOCUMENT_OLDER && why->rc == STATUS_REFUSED)
        end_older(h); /* there are no older ones, then */
    else if (h->document == DOCUMENT_TOP || why->rc != STATUS_REFUSED ||
             !is_lost)
        history_end(h, why);
    else if (!history_again(h)) /* it may have another address by now */
        history_fail(h, STATUS_GONE, "%s", why->text);
}

void
history_end_document(struct history *h,
                     const struct document_fetch_answer *answer,
                     const struct problem *why)
{
    if (why->rc) {
        end_failed(h, why);
        return;
    }
    h->pause_ms = PAUSE_FIRST;
    if (answer->is_unchanged) {
        history_end_well(h);
        return;
    }
    switch (h->document) {
    case DOCUMENT_TOP:
        end_top(h, answer);
        break;
    case DOCUMENT_OLDER:
        end_older(h);
        break;
    case DOCUMENT_PROBE:
        end_probe(h, answer);
        break;
    case DOCUMENT_PART:
    case DOCUMENT_PAGE:
        end_page(h, answer);
        break;
    }
}

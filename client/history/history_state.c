/*
 * history_state.c - what a history has read; its further attempts; its ends.
 */
#include "client/history/history_state.h"

#include <unistd.h>

#include "base/clock.h"
#include "client/dumps/download.h"
#include "client/lib/pause.h"

void
history_clear_root(struct history *h)
{
    free(h->root.next);
    free(h->root.prev);
    h->root = (struct history_root){.first_us = DATETIME_NONE};
}

static void
forget_documents(struct history *h)
{
    history_parts_fini(&h->parts);
    history_parts_fini(&h->older.documents);
    history_parts_fini(&h->found);
    history_parts_fini(&h->list.pages);
    free(h->older.index);
    free(h->older.archives);
    free(h->list.next);
    h->older.index = h->older.archives = h->list.next = NULL;
}

void
history_close_package(struct history *h)
{
    if (h->package) {
        zip_reader_close(h->package);
        download_forget(h->scratch.fd, HISTORY_PACKAGE);
    }
    h->package = NULL;
    h->is_expecting = h->is_taking = false;
}

void
history_free(void *history)
{
    struct history *h = history;

    if (!h)
        return;
    document_fetch_free(h->page);
    download_free(h->download);
    history_close_package(h);
    scratch_close(&h->scratch, false);
    timer_stop(&h->timer);
    history_clear_root(h);
    list_entries_fini(&h->list.kept);
    mark_set_fini(&h->list.past.known);
    mark_set_fini(&h->list.last);
    forget_documents(h);
    handle_loop_retire(h->client->loop, &h->retired, NULL);
}

bool
history_end(struct history *h, const struct problem *why)
{
    h->on_end(why, &h->now, h->user);
    history_free(h);
    return false;
}

bool
history_fail(struct history *h, enum status rc, const char *format, ...)
{
    struct problem why = {.text = ""};
    va_list args;

    va_start(args, format);
    problem_vset(&why, rc, format, args);
    va_end(args);
    return history_end(h, &why);
}

bool
history_overflows(struct history *h, enum status rc)
{
    return rc == STATUS_MEMORY
               ? history_fail(h, STATUS_MEMORY, NO_MEMORY)
               : history_fail(h, STATUS_MALFORMED,
                              "more Change Lists than are kept");
}

void
history_tag(char to[256], const struct history *h, const char *etag)
{
    size_t n = h->parts.n;
    uint64_t hash = FNV1A_BEGIN;

    /* While no part is known, the document at the top may be the list. */
    hash = fnv1a_text(hash, n ? h->parts.all[n - 1].url
                              : h->plan.offered->change_list);
    if (n > 1)
        hash = fnv1a_text(hash, h->parts.all[n - 2].url);
    if (strlen(etag) + 18 > 256)
        to[0] = '\0';
    else
        snprintf(to, 256, "%016" PRIx64 " %s", hash, etag);
}

const char *
history_last_etag(const struct history *h)
{
    char tag[256];
    size_t size;

    history_tag(tag, h, "");
    size = strlen(tag);
    return strncmp(h->notes->etag, tag, size) ? NULL : h->notes->etag + size;
}

uint64_t
history_url(const struct history *h, size_t i)
{
    return fnv1a(FNV1A_BEGIN, slice_of(h->parts.all[i].url));
}

bool
history_was_read(const struct history *h, size_t i)
{
    struct read_list read;

    return read_lists_find(h->plan.lists, history_url(h, i), &read) &&
           read.row == h->parts.all[i].row;
}

bool
history_is_recognised(const struct history *h)
{
    return h->list.past.n > 0 && h->list.kept.found != LIST_BY_TIME &&
           h->list.kept.found != LIST_LOST;
}

void
history_begins(struct history *h, int64_t us)
{
    if (!h->notes->doubt.rc)
        h->notes->begins_us = us;
}

void
history_doubt(struct history *h, const char *format, ...)
{
    va_list args;

    if (h->notes->doubt.rc)
        return;
    va_start(args, format);
    problem_vset(&h->notes->doubt, STATUS_GONE, format, args);
    va_end(args);
}

bool
history_end_well(struct history *h)
{
    struct problem why = {.text = ""};
    struct read_list known;
    enum status rc = STATUS_OK;

    /* Notes the lists that are older than the place: a later history does not
     * take them for new ones. */
    for (size_t i = 0; h->plan.lists && h->now.is_time && i < h->parts.n && !rc;
         i++) {
        struct read_list list = {.url = history_url(h, i),
                                 .row = h->parts.all[i].row,
                                 .is_skipped = true};

        if (list.url != h->now.list && !h->parts.all[i].is_read &&
            !read_lists_find(h->plan.lists, list.url, &known))
            rc = read_lists_note(h->plan.lists, &list, NULL, &why);
    }
    if (!rc) {
        if (h->list.etag[0])
            memcpy(h->notes->etag, h->list.etag, sizeof(h->list.etag));
        h->notes->until_us = h->list.head.until_us;
        h->notes->is_closed = h->is_top_closed;
    }
    return history_end(h, &why);
}

/*
 * Asks again: for a document, after a pause; or for all of them, when the lists
 * have moved on.
 *
 *     document fails for now --> rewound to before it --> pause --> the same
 *     lists moved on ----------> all forgotten --> (pause) --> HISTORY_TOP
 *
 * Sources write their documents one after the other: a list may have moved
 * before the index or the archive says so. So the history looks again a few
 * times before it believes documents that do not fit together.
 */

/* Looks at lists that have moved on, while no entry was new: the first at once,
 * then after pauses, together some three seconds. */
#define LOOKS_MAX 5

static void
wait_before_retry(struct history *h, unsigned ms)
{
    h->retry.due_ms = clock_steady_ms() + ms;
    timer_start(&h->timer, ms);
}

bool
history_is_due(struct history *h)
{
    int64_t left = h->retry.due_ms - clock_steady_ms();

    if (!h->retry.due_ms)
        return true;
    if (left > 0) {
        timer_start(&h->timer, (uint64_t)left);
        return false;
    }
    h->retry.due_ms = 0;
    return true;
}

/* Another look */

bool
history_again(struct history *h)
{
    if (h->has_delivered)
        h->retry.n_looks = 0;
    if (h->retry.n_looks == LOOKS_MAX)
        return false;
    if (h->retry.n_looks == 0)
        h->retry.look_pause_ms = PAUSE_FIRST;
    forget_documents(h);
    h->i = h->older.i = 0;
    h->search = (struct history_search){.has_looked = false};
    h->list.is_loaded = h->has_delivered = h->older.has_parts =
        h->is_top_closed = false;
    h->list.etag[0] = '\0';
    h->state = HISTORY_TOP;
    wait_before_retry(h,
                      h->retry.n_looks++ == 0
                          ? 0
                          : pause_take(&h->retry.look_pause_ms, PAUSE_LONGEST));
    return true;
}

/* Another attempt */

bool
history_waits(struct history *h, const struct problem *why)
{
    bool goes_on;
    unsigned ms;

    if (why->rc != STATUS_UNREACHABLE || !h->plan.on_wait)
        return false;
    ms = pause_asked(&h->retry.pause_ms, PAUSE_LONGEST, why->retry_after_s);
    goes_on = h->plan.on_wait(why, &ms, h->user);
    if (h->retired.is_over)
        return true;
    if (!goes_on) {
        h->is_paused = true; /* until it is freed */
        return true;
    }
    h->retry.has_failed = true;
    wait_before_retry(h, ms);
    return true;
}

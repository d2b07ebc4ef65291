/*
 * history.c - the life of a history, and its requests for documents.
 *
 * It reads a whole list before it hands over any entry: only then it knows the
 * order, and a list that breaks off has handed over nothing.
 */
#include "client/history/history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client/dumps/download.h"
#include "client/history/history_inside.h"
#include "client/lib/pause.h"

/* Ends */

static void
clear_root(struct history *h)
{
    char **const links[] = {&h->root.next, &h->root.prev, &h->root.index,
                            &h->root.archives};

    for (size_t i = 0; i < 4; i++)
        free(*links[i]);
    h->root = (struct history_root){.first_us = DATETIME_NONE};
}

static void
forget_documents(struct history *h)
{
    history_parts_fini(&h->parts);
    history_parts_fini(&h->older);
    history_parts_fini(&h->found);
    history_parts_fini(&h->pages);
    free(h->index);
    free(h->archives);
    free(h->next);
    h->index = h->archives = h->next = NULL;
}

void
history_forget(struct history *h)
{
    forget_documents(h);
    h->i = h->i_older = h->candidate = 0;
    h->is_loaded = h->has_candidate = h->has_looked = h->has_told =
        h->has_older = h->is_top_closed = false;
    h->n_at = h->n_met = 0;
    h->seen_etag[0] = '\0';
}

void
history_free(struct history *h)
{
    if (!h)
        return;
    if (h->is_freed)
        *h->is_freed = true;
    document_fetch_free(h->page);
    download_free(h->download);
    scratch_close(&h->scratch, false);
    timer_free(h->timer);
    clear_root(h);
    list_entries_fini(&h->kept);
    forget_documents(h);
    free(h->met);
    free(h);
}

bool
history_end(struct history *h, const struct problem *why)
{
    bool is_freed = false;

    h->is_freed = &is_freed;
    h->on_end(why, &h->now, h->user);
    if (is_freed)
        return false;
    h->is_freed = NULL;
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

/* FNV-1a */
static uint64_t
add_url(uint64_t hash, const char *url)
{
    do
        hash = (hash ^ (unsigned char)*url) * 0x100000001b3;
    while (*url++);
    return hash;
}

void
history_tag(char to[256], const struct history *h, const char *etag)
{
    size_t n = h->parts.n;
    uint64_t hash = 0xcbf29ce484222325;

    /* While no part is known, the document at the top may be the list. */
    hash = add_url(hash, n ? h->parts.all[n - 1].url : h->offered->change_list);
    if (n > 1)
        hash = add_url(hash, h->parts.all[n - 2].url);
    if (strlen(etag) + 18 > 256)
        to[0] = '\0';
    else
        snprintf(to, 256, "%016" PRIx64 " %s", hash, etag);
}

/* Moves the place to the list's `until`, if that is later and has passed: the
 * source declares that nothing happened until then. */
static void
advance_position(struct history *h)
{
    int64_t until = h->head.until_us;

    if (!h->now.is_time || until == DATETIME_NONE || until <= h->now.time_us)
        return;
    if (until / 1000000 >= clock_now_us() / 1000000)
        return;
    h->now.time_us = until;
    h->now.n_at = h->now.mark = 0;
}

bool
history_end_well(struct history *h)
{
    struct problem why = {.text = ""};

    if (h->etag && h->seen_etag[0])
        memcpy(*h->etag, h->seen_etag, sizeof(h->seen_etag));
    if (h->is_closed)
        *h->is_closed = h->is_top_closed;
    problem_clear(&why);
    return history_end(h, &why);
}

/* Reading a document */

static void
on_page(const struct document_fetch_answer *answer, const struct problem *why,
        void *user)
{
    struct history *h = user;

    h->page = NULL;
    history_end_document(h, answer, why);
}

static const char *
url_of(const struct history *h)
{
    switch (h->document) {
    case DOCUMENT_TOP:
        return h->offered->change_list;
    case DOCUMENT_OLDER:
        return h->older.all[h->i_older - 1].url;
    case DOCUMENT_PAGE:
        return h->pages.all[h->pages.n - 1].url;
    case DOCUMENT_PROBE:
    case DOCUMENT_PART:
        break;
    }
    return h->parts.all[h->i].url;
}

/* Forgets the previous list before another one is read. */
static void
clear_list(struct history *h)
{
    list_entries_fini(&h->kept);
    history_parts_fini(&h->pages);
    free(h->next);
    h->next = NULL;
    h->is_loaded = false;
    h->i_kept = 0;
}

/* The ETag of the last time, if this may be the same list; else NULL. */
static const char *
etag_of(const struct history *h, enum history_document document)
{
    char tag[256];
    size_t size;

    if (!h->etag || (document != DOCUMENT_TOP &&
                     (document != DOCUMENT_PART || h->state != HISTORY_SEARCH)))
        return NULL;
    history_tag(tag, h, "");
    size = strlen(tag);
    return strncmp(*h->etag, tag, size) ? NULL : *h->etag + size;
}

bool
history_load(struct history *h, enum history_document document)
{
    struct document_fetch_request request;

    h->document = document;
    clear_root(h);
    if (document == DOCUMENT_TOP || document == DOCUMENT_PART)
        clear_list(h);
    history_mark(h);
    request = (struct document_fetch_request){.url = url_of(h),
                                              .etag = etag_of(h, document),
                                              .silence_s = h->silence_s};
    if ((document == DOCUMENT_PART || document == DOCUMENT_PROBE) &&
        h->parts.all[h->i].is_package)
        return history_load_package(h, request.url);
    h->page =
        document_fetch_start(h->client, &request, &history_events, on_page, h);
    return h->page || history_fail(h, STATUS_MEMORY, NO_MEMORY);
}

/* The way through */

/* True if a list seems to be missing before the part `i`: while a source moves
 * a list to an archive, neither document may name it. */
static bool
has_hole(const struct history *h)
{
    const struct history_part *part = &h->parts.all[h->i];

    return h->now.is_time && h->i > 0 && h->i < h->parts.n &&
           part[-1].until_us != DATETIME_NONE &&
           part->from_us != DATETIME_NONE &&
           part->from_us > part[-1].until_us && part->from_us > h->now.time_us;
}

static void
read_part(struct history *h)
{
    if (has_hole(h) && history_again(h))
        return;
    if (h->i >= h->parts.n) {
        advance_position(h);
        history_end_well(h);
    } else if (h->is_loaded && h->i + 1 == h->parts.n) {
        h->state = HISTORY_TELL;
        timer_start(h->timer, 0);
    } else {
        history_load(h, DOCUMENT_PART);
    }
}

static void
on_timer(void *user)
{
    struct history *h = user;

    /* Paused and resumed within a document: that goes on by itself. */
    if (h->is_paused || h->page || h->download || !history_is_due(h))
        return;
    if (h->has_failed) {
        h->has_failed = false;
        history_rewind(h);
        history_load(h, h->document);
        return;
    }
    switch (h->state) {
    case HISTORY_TOP:
        if (h->offered->change_list) {
            history_load(h, DOCUMENT_TOP);
            break;
        }
        h->state = HISTORY_SEARCH;
        /* fall through */
    case HISTORY_SEARCH:
        history_search(h);
        break;
    case HISTORY_READ:
        read_part(h);
        break;
    case HISTORY_TELL:
        history_tell(h);
        break;
    }
}

struct history *
history_start(struct td_client *client, const struct history_plan *plan,
              history_entry_fn *on_each, history_end_fn *on_over, void *user)
{
    struct history *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->client = client;
    h->offered = plan->offered;
    h->etag = plan->etag;
    h->is_closed = plan->is_closed;
    h->silence_s = plan->silence_s;
    h->now = plan->after;
    h->on_entry = on_each;
    h->on_wait = plan->on_wait;
    h->on_end = on_over;
    h->pause_ms = PAUSE_FIRST;
    h->user = user;
    list_entries_init(&h->kept);
    clear_root(h);
    h->head.from_us = h->head.until_us = DATETIME_NONE;
    h->scratch = SCRATCH_NONE;
    h->scratch_path = plan->scratch;
    h->timer = timer_new(client->loop, on_timer, h);
    if (!h->timer) {
        history_free(h);
        return NULL;
    }
    timer_start(h->timer, 0);
    return h;
}

void
history_pause(struct history *h)
{
    h->is_paused = true;
}

void
history_resume(struct history *h)
{
    h->is_paused = false;
    timer_start(h->timer, 0);
}

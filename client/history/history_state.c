/*
 * history_state.c - what a history has read, and its ends.
 */
#include "client/history/history_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/dumps/download.h"

void
history_clear_root(struct history *h)
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
    history_clear_root(h);
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

bool
history_overflows(struct history *h, enum status rc)
{
    return rc == STATUS_MEMORY
               ? history_fail(h, STATUS_MEMORY, NO_MEMORY)
               : history_fail(h, STATUS_MALFORMED,
                              "more Change Lists than are kept");
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

/*
 * discovery_queue.c - the pages that a discovery still has to read, and the
 * sets that it has found.
 *
 * The discovery reads no page twice, so circles end; and no page is farther
 * than DEPTH_MAX others from the URL, so chains end.
 */
#include "client/source/discovery_queue.h"

#include <stdlib.h>
#include <string.h>

/* A set has two pages at most; the other pages lead to sets. */
#define PAGES_MAX (2 * DISCOVERY_SETS_MAX + 5000)

/* The longest useful way has nine pages: page, Capability List, up to a part,
 * its index, index in an index, part, list of lists, Capability List, set. */
#define DEPTH_MAX 16

void
page_request_free(struct page_request *job)
{
    if (job)
        offered_fini(&job->offered);
    free(job);
}

void
discover_break(struct discovery *d, const char *text)
{
    if (d->rc)
        return;
    d->rc = STATUS_MALFORMED;
    d->broken = text;
}

struct page_request *
discover_job(struct discovery *d, enum role role, struct slice url,
             bool *is_known)
{
    const char *fragment =
        url.size > 0 ? memchr(url.data, '#', url.size) : NULL;
    struct page_request *job;
    bool is_new;

    if (is_known)
        *is_known = false;
    if (fragment)
        url.size = (size_t)(fragment - url.data);
    if (!slice_starts(url, "http://") && !slice_starts(url, "https://"))
        return NULL;
    if (text_set_add(&d->seen, url, &is_new)) {
        d->rc = STATUS_MEMORY;
        return NULL;
    }
    if (!is_new) {
        if (is_known)
            *is_known = true;
        return NULL;
    }
    if (d->n_pages++ == PAGES_MAX) {
        discover_break(d, "more documents than any source has");
        return NULL;
    }
    if (d->job && d->job->depth == DEPTH_MAX) {
        discover_break(d, "its documents lead from one to the next, and to "
                          "no end");
        return NULL;
    }
    job = calloc(1, sizeof(*job) + url.size + 1);
    if (!job) {
        d->rc = STATUS_MEMORY;
        return NULL;
    }
    job->role = role;
    job->depth = d->job ? d->job->depth + 1 : 0;
    memcpy(job->url, url.data, url.size);
    return job;
}

void
discover_later(struct discovery *d, struct page_request *job)
{
    if (!job)
        return;
    *d->tail = job;
    d->tail = &job->next;
    d->page.n_led++;
}

void
discover_add(struct discovery *d, enum role role, struct slice url)
{
    discover_later(d, discover_job(d, role, url, NULL));
}

void
discover_next(struct discovery *d, struct page_request *job)
{
    job->next = d->jobs;
    if (!d->jobs)
        d->tail = &job->next;
    d->jobs = job;
}

struct page_request *
discover_pop(struct discovery *d)
{
    struct page_request *job = d->jobs;

    if (!job)
        return NULL;
    d->jobs = job->next;
    if (!d->jobs)
        d->tail = &d->jobs;
    job->next = NULL;
    return job;
}

/* Sets */

/* Calls on_set. False: the discovery was freed. */
static bool
call_back(struct discovery *d, struct offered *offered,
          const struct problem *missed)
{
    bool is_freed = false;

    d->is_freed = &is_freed;
    d->on_set(offered, missed, d->user);
    if (is_freed)
        return false;
    d->is_freed = NULL;
    return true;
}

/* True if on_set received that URL before, or the caller knows it. Else notes
 * it. */
static bool
is_reported(struct discovery *d, const char *url)
{
    bool is_new;

    if (text_set_add(&d->reported, slice_of(url), &is_new)) {
        d->rc = STATUS_MEMORY;
        return false;
    }
    return !is_new;
}

bool
discover_knows(struct discovery *d, struct slice url)
{
    char *known;
    bool is;

    if (!d->watch || !d->watch->is_known)
        return false;
    known = slice_dup(url);
    if (!known) {
        d->rc = STATUS_MEMORY;
        return false;
    }
    is = d->watch->is_known(known, d->user);
    if (is && !is_reported(d, known))
        d->n_sets++;
    free(known);
    return is;
}

bool
discover_report(struct discovery *d, struct offered *offered)
{
    struct offered set = *offered;
    bool is_here = true;

    *offered = (struct offered){.url = NULL};
    if (set.url && !is_reported(d, set.url)) {
        if (d->date && !set.date && !(set.date = strdup(d->date)))
            d->rc = STATUS_MEMORY;
        if (d->n_sets++ >= DISCOVERY_SETS_MAX)
            discover_break(d, "more sets than any source has");
        else
            is_here = call_back(d, &set, NULL);
    }
    offered_fini(&set);
    return is_here;
}

bool
discover_miss(struct discovery *d, const struct problem *why)
{
    struct offered missed = {.url = NULL};
    bool is_here;

    if (!d->missed.rc)
        d->missed = *why;
    /* on_set may move the URL out, and the job keeps its own. */
    missed.url = strdup(d->job->url);
    if (!missed.url) {
        d->rc = STATUS_MEMORY;
        return true;
    }
    is_here = call_back(d, &missed, why);
    offered_fini(&missed);
    return is_here;
}

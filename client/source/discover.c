/*
 * discover.c - from any URL to sets: pages are read one after the other, and
 * what each leads to is put in line.
 *
 *     url --> ANY --+-- a set's JSON ----------> CAPABILITIES --> told
 *                   +-- Capability List -------> [SET] ---------> told
 *                   +-- Source Description ----> CAPABILITIES, DESCRIPTION ...
 *                   +-- a list, dump, index ---> UP ------------> told
 *                   +-- a page that links to --> CAPABILITIES
 *                   +-- nothing of that -------> WELL_KNOWN ----> CAPABILITIES
 *
 * No page is asked for twice, so circles end.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/source/discover_inside.h"

/* Of a set there are two pages at most; the rest leads to sets. */
#define PAGES_MAX (2 * DISCOVERY_SETS_MAX + 5000)

#define ACCEPT_ANY                                                      \
    "Accept: application/json, application/xml;q=0.9, text/xml;q=0.9, " \
    "text/html;q=0.8, */*;q=0.5"

/* Jobs */

static int
compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void
job_free(struct job *job)
{
    if (job)
        offered_fini(&job->offered);
    free(job);
}

struct job *
discover_job(struct discovery *d, enum role role, struct slice url,
             bool is_again)
{
    const char *fragment =
        url.size > 0 ? memchr(url.data, '#', url.size) : NULL;
    struct job *job;
    char *known;
    void *found;

    if (fragment)
        url.size = (size_t)(fragment - url.data);
    if (!slice_starts(url, "http://") && !slice_starts(url, "https://"))
        return NULL;
    known = slice_dup(url);
    found = known ? tsearch(known, &d->seen, compare) : NULL;
    if (!found) {
        free(known);
        d->rc = TD_MEMORY;
        return NULL;
    }
    if (*(char **)found != known) {
        free(known);
        if (!is_again)
            return NULL;
    }
    if (d->n_pages++ == PAGES_MAX) {
        d->rc = TD_BROKEN;
        return NULL;
    }
    job = calloc(1, sizeof(*job) + url.size + 1);
    if (!job) {
        d->rc = TD_MEMORY;
        return NULL;
    }
    job->role = role;
    memcpy(job->url, url.data, url.size);
    return job;
}

void
discover_later(struct discovery *d, struct job *job)
{
    if (!job)
        return;
    *d->tail = job;
    d->tail = &job->next;
    d->n_led++;
}

void
discover_next(struct discovery *d, struct job *job)
{
    job->next = d->jobs;
    if (!d->jobs)
        d->tail = &job->next;
    d->jobs = job;
}

static struct job *
pop(struct discovery *d)
{
    struct job *job = d->jobs;

    if (!job)
        return NULL;
    d->jobs = job->next;
    if (!d->jobs)
        d->tail = &d->jobs;
    job->next = NULL;
    return job;
}

/* Ends */

static void
clear_page(struct discovery *d)
{
    char **const links[] = {&d->set, &d->up, &d->index, &d->archives};

    for (size_t i = 0; i < 4; i++) {
        free(*links[i]);
        *links[i] = NULL;
    }
    offered_fini(&d->offered);
    d->kind = KIND_UNKNOWN;
}

void
discovery_free(struct discovery *d)
{
    if (!d)
        return;
    if (d->is_freed)
        *d->is_freed = true;
    page_free(d->page);
    timer_free(d->timer);
    clear_page(d);
    job_free(d->job);
    while (d->jobs)
        job_free(pop(d));
    tdestroy(d->seen, free);
    free(d->date);
    free(d->url);
    free(d);
}

static void
end(struct discovery *d, const struct failure *why)
{
    bool is_freed = false;

    d->is_freed = &is_freed;
    d->on_end(why, d->user);
    if (is_freed)
        return;
    d->is_freed = NULL;
    discovery_free(d);
}

static void
end_with(struct discovery *d, enum td_status rc, const char *text)
{
    struct failure why;

    failure_clear(&why);
    if (rc)
        failure_set(&why, rc, "%.800s: %s", d->url, text);
    end(d, &why);
}

/* What became of it all: there is nothing left to read. */
static void
end_all(struct discovery *d)
{
    struct failure why = d->first;

    if (d->n_sets > 0) {
        end_with(d, TD_OK, "");
    } else if (d->n_pages == 0) {
        end_with(d, TD_INVALID, "no URL of http or https");
    } else if (d->first.rc && !d->has_page) {
        if (why.status == 410) /* not refused: it was there once */
            why.rc = TD_GONE;
        end(d, &why);
    } else {
        end_with(d, TD_REFUSED, "there is nothing of ResourceSync there");
    }
}

/* True: it goes on. False: it has ended, by d->rc or because on_set freed it.
 */
static bool
goes_on(struct discovery *d)
{
    switch (d->rc) {
    case TD_OK:
        return true;
    case TD_MEMORY:
        end_with(d, TD_MEMORY, "no memory");
        return false;
    default:
        end_with(d, d->rc, "more sets or documents than any source has");
        return false;
    }
}

bool
discover_tell(struct discovery *d, struct offered *offered)
{
    struct offered set = *offered;
    bool is_freed = false;

    *offered = (struct offered){.url = NULL};
    if (!set.url) {
        offered_fini(&set);
        return true;
    }
    if (d->n_sets++ == DISCOVERY_SETS_MAX) {
        offered_fini(&set);
        d->rc = TD_BROKEN;
        return true;
    }
    if (d->date && !set.date && !(set.date = strdup(d->date)))
        d->rc = TD_MEMORY;
    d->is_freed = &is_freed;
    d->on_set(&set, d->user);
    offered_fini(&set);
    if (is_freed)
        return false;
    d->is_freed = NULL;
    return true;
}

/* The page is not to be had. False: it has ended. */
static bool
end_failed(struct discovery *d, const struct failure *why)
{
    bool is_for_good = why->rc == TD_REFUSED;

    /* Where a link "up" leads to nowhere, the list is still a list; a server
     * that is busy may know better later. */
    if (d->job->role == ROLE_UP)
        is_for_good |= why->rc == TD_BROKEN || why->status == 0;
    if (d->job->role == ROLE_SET)
        is_for_good |= why->rc == TD_BROKEN;
    if (why->rc == TD_MEMORY || !is_for_good) {
        end(d, why);
        return false;
    }
    return discover_end_refused(d, why);
}

static void
on_page(const struct page_answer *answer, const struct failure *why, void *user)
{
    struct discovery *d = user;
    bool is_here = true;

    d->page = NULL;
    d->has_page |= !why->rc && d->job->role == ROLE_ANY;
    if (!why->rc && !d->date && answer->date[0] &&
        !(d->date = strdup(answer->date)))
        d->rc = TD_MEMORY;
    if (why->rc)
        is_here = end_failed(d, why);
    else if (!d->rc)
        is_here = discover_end_page(d, answer);
    if (!is_here || !goes_on(d))
        return;
    clear_page(d);
    job_free(d->job);
    d->job = NULL;
    timer_start(d->timer, 0);
}

static void
on_timer(void *user)
{
    struct discovery *d = user;
    struct page_request request = {.silence_s = d->silence_s};

    d->job = pop(d);
    if (!d->job) {
        end_all(d);
        return;
    }
    d->n_led = 0;
    request.url = d->job->url;
    request.takes_text = d->job->role == ROLE_ANY || d->job->role == ROLE_SET;
    request.accept = request.takes_text ? ACCEPT_ANY : NULL;
    d->page = page_start(d->client, &request, &discover_events, on_page, d);
    if (!d->page)
        end_with(d, TD_MEMORY, "no memory");
}

struct discovery *
discovery_start(struct td_client *client, const char *url,
                discovery_set_fn *on_set, discovery_end_fn *on_end, void *user)
{
    struct discovery *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->client = client;
    d->on_set = on_set;
    d->on_end = on_end;
    d->user = user;
    d->tail = &d->jobs;
    d->url = strdup(url);
    d->timer = timer_new(client->loop, on_timer, d);
    if (d->url)
        discover_later(d, discover_job(d, ROLE_ANY, slice_of(url), false));
    if (!d->url || !d->timer || d->rc) {
        discovery_free(d);
        return NULL;
    }
    timer_start(d->timer, 0);
    return d;
}

void
discovery_silence(struct discovery *d, unsigned silence_s)
{
    d->silence_s = silence_s;
}

void
discovery_watch(struct discovery *d, const struct discovery_watch *watch)
{
    d->watch = watch;
}

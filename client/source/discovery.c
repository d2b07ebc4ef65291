/*
 * discovery.c - goes from any URL to sets: reads pages one after the other, and
 * queues the pages that each leads to.
 *
 *     url --> ANY --+-- a set's JSON ----------> CAPABILITIES --> on_set
 *                   +-- Capability List -------> [SET] ---------> on_set
 *                   +-- Source Description ----> CAPABILITIES, DESCRIPTION ...
 *                   +-- a list, dump, index ---> UP ------------> on_set
 *                   +-- a page that links to --> CAPABILITIES
 *                   +-- none of these, or
 *                       the host's root -------> WELL_KNOWN ----> CAPABILITIES
 *     no set so far: ROBOTS --> SITEMAP --> UP ------------> on_set
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client/lib/pause.h"
#include "client/source/discovery_state.h"

/* Attempts to get a page from a server that is down or busy, and most
 * milliseconds before the next one; the discovery reads other pages meanwhile.
 * A server that asks for a longer pause gets no further request. */
#define ATTEMPTS_MAX  3
#define PAUSE_MOST_MS 5000

#define ACCEPT_ANY                                                      \
    "Accept: application/json, application/xml;q=0.9, text/xml;q=0.9, " \
    "text/html;q=0.8, */*;q=0.5"

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
    d->has_parts = false;
}

void
discovery_free(struct discovery *d)
{
    if (!d)
        return;
    if (d->is_freed)
        *d->is_freed = true;
    document_fetch_free(d->page);
    timer_free(d->timer);
    clear_page(d);
    page_request_free(d->job);
    while (d->jobs)
        page_request_free(discover_pop(d));
    tdestroy(d->seen, free);
    tdestroy(d->told, free);
    free(d->date);
    free(d->robots);
    free(d->url);
    free(d);
}

static void
end_discovery(struct discovery *d, const struct problem *why)
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
end_with(struct discovery *d, enum status rc, const char *text)
{
    struct problem why = {.text = ""};

    problem_clear(&why);
    if (rc)
        problem(&why, rc, "%.800s: %s", d->url, text);
    end_discovery(d, &why);
}

/* Ends the discovery: no page is left to read. */
static void
end_all(struct discovery *d)
{
    struct problem why = d->first;

    if (d->n_sets > 0) {
        end_with(d, STATUS_OK, "");
    } else if (d->n_pages == 0) {
        end_with(d, STATUS_INVALID, "no URL of http or https");
    } else if (d->missed.rc) {
        why = d->missed;
        end_discovery(d, &why);
    } else if (d->first.rc && !d->has_page) {
        if (why.http_status == 410) /* not refused: it was there once */
            why.rc = STATUS_GONE;
        end_discovery(d, &why);
    } else if (d->n_known > 0) {
        end_with(d, STATUS_MALFORMED,
                 "its documents lead in a circle, and to no set");
    } else if (d->has_source) {
        end_with(d, STATUS_REFUSED, "the source has no sets yet");
    } else {
        end_with(d, STATUS_REFUSED,
                 "it leads to no document of ResourceSync and to no Sitemap");
    }
}

/* True if the page exists, but no set below its path: then it stands for all
 * sets of the host. */
static bool
takes_all_now(struct discovery *d)
{
    if (d->n_sets > 0 || d->missed.rc || d->takes_all || d->n_passed == 0 ||
        !d->has_page)
        return false;
    d->takes_all = true;
    tdestroy(d->seen, free);
    d->seen = NULL;
    discover_ask_host(d);
    return true;
}

/* True if the discovery goes on. False: it has ended with d->rc.
 */
static bool
goes_on(struct discovery *d)
{
    switch (d->rc) {
    case STATUS_OK:
        return true;
    case STATUS_MEMORY:
        end_with(d, STATUS_MEMORY, NO_MEMORY);
        return false;
    default:
        end_with(d, d->rc, d->broken);
        return false;
    }
}

/* Queues the current page once more, at the end. False: no attempt is left. */
static bool
ask_again(struct discovery *d, const struct problem *why)
{
    struct page_request *job = d->job;
    unsigned ms;

    if (why->rc != STATUS_UNREACHABLE || ++job->n_attempts == ATTEMPTS_MAX ||
        why->retry_after_s * 1000ull > PAUSE_MOST_MS)
        return false;
    ms = pause_asked(&d->pause_ms, PAUSE_MOST_MS, why->retry_after_s);
    job->due_ms = clock_steady_ms() + ms;
    d->job = NULL;
    discover_later(d, job);
    return true;
}

/* Handles a page that cannot be had. If a document names it, reports it as
 * missed and goes on with the others. At the URL itself or the host's
 * well-known address, a failure that may pass ends the discovery. False: it has
 * ended. */
static bool
end_failed(struct discovery *d, const struct problem *why)
{
    bool is_for_good = why->rc == STATUS_REFUSED;

    /* If a link "up" leads nowhere, the list is still a list; a busy server may
     * answer later. */
    if (d->job->role == ROLE_UP)
        is_for_good |= why->rc == STATUS_MALFORMED || why->http_status == 0;
    if (d->job->role == ROLE_SET)
        is_for_good |= why->rc == STATUS_MALFORMED;
    if (d->job->role == ROLE_SITEMAP && why->rc != STATUS_MEMORY) {
        d->has_sitemap = true; /* the reader of the list reports it */
        return true;
    }
    if (is_for_good)
        return discover_end_refused(d, why);
    if (why->rc != STATUS_MEMORY && d->job->depth > 0 &&
        d->job->role != ROLE_WELL_KNOWN) {
        if (ask_again(d, why))
            return true;
        return discover_miss(d, why);
    }
    end_discovery(d, why);
    return false;
}

static void
on_page(const struct document_fetch_answer *answer, const struct problem *why,
        void *user)
{
    struct discovery *d = user;
    bool is_here = true;

    d->page = NULL;
    d->has_page |= !why->rc && d->job->depth == 0;
    if (!why->rc && !d->date && answer->date[0] &&
        !(d->date = strdup(answer->date)))
        d->rc = STATUS_MEMORY;
    if (why->rc)
        is_here = end_failed(d, why);
    else if (!d->rc)
        is_here = discover_end_page(d, answer);
    if (!is_here || !goes_on(d))
        return;
    clear_page(d);
    page_request_free(d->job);
    d->job = NULL;
    timer_start(d->timer, 0);
}

static void
on_timer(void *user)
{
    struct discovery *d = user;
    struct document_fetch_request request = {.silence_s = d->silence_s};
    int64_t ms = d->jobs ? d->jobs->due_ms - clock_steady_ms() : 0;

    if (ms > 0) {
        timer_start(d->timer, (uint64_t)ms);
        return;
    }
    if (!d->jobs && !takes_all_now(d) && !discover_ask_robots(d)) {
        if (discover_tell_robots(d) && goes_on(d))
            end_all(d);
        return;
    }
    d->job = discover_pop(d);
    if (!d->job) { /* no memory */
        goes_on(d);
        return;
    }
    d->n_led = 0;
    request.url = d->job->url;
    request.takes_text = d->job->role == ROLE_ANY || d->job->role == ROLE_SET;
    request.accept = request.takes_text ? ACCEPT_ANY : NULL;
    /* Many hosts have a page for people at every address. */
    request.takes_text |=
        d->job->role == ROLE_WELL_KNOWN || d->job->role == ROLE_ROBOTS;
    d->page =
        document_fetch_start(d->client, &request, &discover_events, on_page, d);
    if (!d->page)
        end_with(d, STATUS_MEMORY, NO_MEMORY);
}

struct discovery *
discovery_start(struct td_client *client, const char *url,
                discovery_set_fn *on_set, discovery_end_fn *on_end, void *user)
{
    struct discovery *d = calloc(1, sizeof(*d));
    bool is_known;

    if (!d)
        return NULL;
    d->client = client;
    d->on_set = on_set;
    d->on_end = on_end;
    d->user = user;
    d->pause_ms = PAUSE_FIRST;
    d->tail = &d->jobs;
    d->url = strdup(url);
    d->timer = timer_new(client->loop, on_timer, d);
    if (d->url)
        discover_later(d, discover_job(d, ROLE_ANY, slice_of(url), &is_known));
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

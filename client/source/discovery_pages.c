/*
 * discovery_pages.c - judges the pages of a source, and follows their links.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client/source/discovery_state.h"
#include "proto/link_header.h"
#include "proto/page_links.h"
#include "proto/uri.h"

#define WELL_KNOWN "/.well-known/resourcesync"

/* Notes */

static void
tell_item(struct discovery *d, struct slice rel, struct slice href,
          struct slice type, const struct document_entry *entry)
{
    const struct discovery_item item = {
        .rel = rel,
        .href = href,
        .type = type,
        .from_us = entry ? entry->from_us : DATETIME_NONE,
        .until_us = entry ? entry->until_us : DATETIME_NONE,
    };

    if (d->watch && d->watch->on_item && rel.size > 0)
        d->watch->on_item(&item, d->user);
}

static void
keep_text(struct discovery *d, char **to, struct slice text)
{
    if (*to)
        return;
    *to = slice_dup(text);
    if (!*to)
        d->rc = STATUS_MEMORY;
}

static void
take_link(struct discovery *d, struct slice rel, struct slice href)
{
    if (!offered_take(&d->offered, rel, href))
        d->rc = STATUS_MEMORY;
}

/* Documents */

static enum status
on_link(const struct document_link *link, void *user)
{
    struct discovery *d = user;

    tell_item(d, link->rel, link->href, link->type, NULL);
    if (slice_is(link->rel, "up"))
        keep_text(d, &d->up, link->href);
    else if (slice_is(link->rel, "index"))
        keep_text(d, &d->index, link->href);
    else if (slice_is(link->rel, "archives"))
        keep_text(d, &d->archives, link->href);
    else if (slice_is(link->rel, "urn:tidings:1:set"))
        keep_text(d, &d->set, link->href);
    else
        take_link(d, link->rel, link->href);
    return d->rc ? STATUS_STOPPED : STATUS_OK;
}

static enum kind
kind_of(const struct discovery *d, const struct document_head *head,
        const struct document_entry *entry)
{
    if (head->has_capability && head->capability == CAP_DESCRIPTION)
        return KIND_DESCRIPTION;
    if (head->has_capability)
        return head->capability == CAP_CAPABILITYLIST ? KIND_CAPABILITIES
                                                      : KIND_LIST;
    if (d->job->role == ROLE_DESCRIPTION || d->job->role == ROLE_WELL_KNOWN)
        return KIND_DESCRIPTION;
    if (d->job->role == ROLE_CAPABILITIES)
        return KIND_CAPABILITIES;
    if (!entry || entry->capability.size == 0)
        return KIND_LIST;
    return slice_is(entry->capability, "capabilitylist") ? KIND_DESCRIPTION
                                                         : KIND_CAPABILITIES;
}

/* Queues a document that the current page names as a part of the source. */
static void
lead_to(struct discovery *d, enum role role, struct slice loc)
{
    bool is_known;
    struct page_request *job;

    if (role == ROLE_CAPABILITIES && discover_knows(d, loc))
        return;
    job = discover_job(d, role, loc, &is_known);
    d->n_known += is_known;
    if (job)
        job->is_hosts = d->job->is_hosts;
    discover_later(d, job);
}

/* True if `loc` is below the path of the URL. The well-known address is one of
 * the whole host, and a server may use another name for itself. */
static bool
is_meant(struct discovery *d, struct slice loc)
{
    const char *path = strchr(strstr(d->url, "://") + 3, '/');
    size_t size = path ? strcspn(path, "?#") : 0;
    char below[URI_CHARACTERS_MAX + 2];

    while (size > 0 && path[size - 1] == '/')
        size--;
    if (!d->job->is_hosts || d->takes_all || size == 0 ||
        size > URI_CHARACTERS_MAX)
        return true;
    snprintf(below, sizeof(below), "%.*s/", (int)size, path);
    if (memmem(loc.data, loc.size, below, size + 1))
        return true;
    d->n_passed++;
    return false;
}

static void
take_description(struct discovery *d, const struct document_entry *entry,
                 const struct document_head *head)
{
    struct slice loc = entry->change.loc;
    bool is_part = head->is_index || slice_is(entry->capability, "description");

    if (!is_part && !is_meant(d, loc))
        return;
    tell_item(d, entry->capability, loc, entry->change.type, entry);
    lead_to(d, is_part ? ROLE_DESCRIPTION : ROLE_CAPABILITIES, loc);
}

static void
take_capability(struct discovery *d, const struct document_entry *entry,
                const struct document_head *head)
{
    struct slice loc = entry->change.loc;

    tell_item(d, entry->capability, loc, entry->change.type, entry);
    if (!head->is_index && !slice_is(entry->capability, "capabilitylist")) {
        take_link(d, entry->capability, loc);
        return;
    }
    d->has_parts = true;
    lead_to(d, ROLE_CAPABILITIES, loc);
}

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct discovery *d = user;

    if (d->job->role == ROLE_ROBOTS) {
        lead_to(d, ROLE_SITEMAP, entry->change.loc);
        return d->rc ? STATUS_STOPPED : STATUS_OK;
    }
    if (d->kind == KIND_UNKNOWN)
        d->kind = kind_of(d, head, entry);
    if (d->kind == KIND_LIST ||
        (d->kind == KIND_DESCRIPTION && d->job->role == ROLE_UP))
        return STATUS_STOPPED; /* its root is enough */
    if (d->kind == KIND_DESCRIPTION)
        take_description(d, entry, head);
    else
        take_capability(d, entry, head);
    return d->rc ? STATUS_STOPPED : STATUS_OK;
}

const struct document_events discover_events = {on_link, on_entry};

/* Handlers of pages, after all of the page was read. False: freed. */

/* Takes a Capability List. */
static bool
end_capabilities(struct discovery *d)
{
    struct page_request *job = d->job;
    struct page_request *next;
    bool is_known;

    if (job->goes_up && d->up)
        discover_later(
            d, discover_job(d, ROLE_DESCRIPTION, slice_of(d->up), &is_known));
    keep_text(d, &d->offered.capability_list, slice_of(job->url));
    if (job->role == ROLE_UP) { /* prefer the set's data to one list's */
        free(job->offered.url);
        job->offered.url = NULL;
        offered_merge(&d->offered, &job->offered);
    }
    offered_merge(&job->offered, &d->offered);
    if (d->set && !job->offered.position && !d->rc) {
        next = discover_job(d, ROLE_SET, slice_of(d->set), &is_known);
        if (next) {
            offered_merge(&next->offered, &job->offered);
            discover_next(d, next);
            return true;
        }
    }
    if (!job->offered.url)
        keep_text(d, &job->offered.url, slice_of(d->set ? d->set : job->url));
    if (d->has_parts && !offered_is_something(&job->offered))
        return true; /* an index of Capability Lists is no set */
    return discover_tell(d, &job->offered);
}

/* Offers a document that is part of no set: the document itself, or its index.
 */
static void
offer_alone(struct discovery *d, const struct document_head *head)
{
    static const char *const archives[] = {
        [CAP_RESOURCELIST] = "resourcelist-archive",
        [CAP_RESOURCEDUMP] = "resourcedump-archive",
        [CAP_CHANGELIST] = "changelist-archive",
        [CAP_CHANGEDUMP] = "changedump-archive",
        [CAP_CHANGEDUMP_MANIFEST] = NULL,
    };
    enum capability capability =
        head->has_capability ? head->capability : CAP_RESOURCELIST;
    const char *url = d->index ? d->index : d->job->url;

    offered_fini(&d->offered);
    tell_item(d, slice_of(capability_name(capability)), slice_of(url),
              (struct slice){NULL, 0}, NULL);
    take_link(d, slice_of(capability_name(capability)), slice_of(url));
    if (d->archives && capability <= CAP_CHANGEDUMP_MANIFEST &&
        archives[capability])
        take_link(d, slice_of(archives[capability]), slice_of(d->archives));
    keep_text(d, &d->offered.url, slice_of(d->job->url));
}

static bool
end_list(struct discovery *d, const struct document_head *head)
{
    struct page_request *job = d->job;
    struct page_request *next = NULL;
    bool is_known = false;

    if (job->role == ROLE_SITEMAP && !d->up) {
        d->has_sitemap = true;
        return true;
    }
    if (job->role != ROLE_UP)
        offer_alone(d, head);
    offered_merge(&job->offered, &d->offered);
    if ((job->role == ROLE_ANY || job->role == ROLE_UP ||
         job->role == ROLE_SITEMAP) &&
        d->up && d->kind == KIND_LIST)
        next = discover_job(d, ROLE_UP, slice_of(d->up), &is_known);
    if (is_known && !d->robots)
        discover_break(d, "its links \"up\" lead in a circle");
    if (is_known || d->rc)
        return true; /* another Sitemap has led there */
    if (!next)
        return !offered_is_something(&job->offered) ||
               discover_tell(d, &job->offered);
    offered_merge(&next->offered, &job->offered);
    discover_next(d, next);
    return true;
}

static bool
end_document(struct discovery *d, const struct document_head *head)
{
    if (d->kind == KIND_UNKNOWN)
        d->kind = kind_of(d, head, NULL);
    if (d->kind == KIND_CAPABILITIES)
        return end_capabilities(d);
    if (d->kind == KIND_LIST || d->job->role == ROLE_UP)
        return end_list(d, head);
    d->has_source = true;
    if (d->index) { /* a part: others have other sets (R-048) */
        struct page_request *index;
        bool is_known;

        index =
            discover_job(d, ROLE_DESCRIPTION, slice_of(d->index), &is_known);
        if (index)
            index->is_hosts = d->job->is_hosts;
        discover_later(d, index);
    }
    return true;
}

/* Other pages */

static bool
on_json_link(struct slice rel, struct slice href, struct slice type, void *user)
{
    struct discovery *d = user;

    tell_item(d, rel, href, type, NULL);
    take_link(d, rel, href);
    return d->rc != STATUS_MEMORY;
}

static bool
on_json_set(struct slice rel, struct slice href, struct slice type, void *user)
{
    struct discovery *d = user;
    bool is_known;
    struct page_request *job;

    (void)type;
    if (slice_is(rel, "set") && discover_knows(d, href)) {
        d->n_led++;
        return true;
    }
    job = discover_job(d, ROLE_ANY, href, &is_known);
    if (slice_is(rel, "next")) {
        if (is_known)
            discover_break(d, "the pages of its sets lead in a circle");
        else if (d->n_led == 0)
            discover_break(d, "a page of its sets has none, and a next page");
        else if (job && d->job->depth > 0)
            job->depth = d->job->depth; /* all pages of sets are equally near */
    }
    discover_later(d, job);
    return !d->rc;
}

/* Takes the set's own description. False: freed. */
static bool
end_set(struct discovery *d, struct slice json)
{
    struct page_request *job = d->job;
    struct page_request *next = NULL;
    size_t size = strlen(job->url);
    bool is_known;

    if (d->watch && d->watch->on_description)
        d->watch->on_description(json, d->user);
    while (size > 0 && job->url[size - 1] == '/')
        job->url[--size] = '\0';
    offered_merge(&job->offered, &d->offered);
    if (!job->offered.url)
        keep_text(d, &job->offered.url, slice_of(job->url));
    if (job->role == ROLE_ANY && job->offered.capability_list)
        next = discover_job(d, ROLE_CAPABILITIES,
                            slice_of(job->offered.capability_list), &is_known);
    if (!next)
        return discover_tell(d, &job->offered);
    offered_merge(&next->offered, &job->offered);
    discover_next(d, next);
    return true;
}

static void
on_page_link(const struct pagelink *link, void *user)
{
    struct discovery *d = user;
    bool is_known;

    if (pagelink_has_rel(link, "resourcesync"))
        discover_later(
            d, discover_job(d, ROLE_CAPABILITIES, link->href, &is_known));
}

void
discover_ask_host(struct discovery *d)
{
    const char *host = strstr(d->url, "://") + 3;
    struct page_request *job = NULL;
    struct buf url;
    bool is_known;

    buf_init(&url, 4 * URI_CHARACTERS_MAX);
    buf_add(&url, d->url, (size_t)(host - d->url) + strcspn(host, "/?#"));
    BUF_ADD(&url, WELL_KNOWN);
    if (!url.failed)
        job = discover_job(d, ROLE_WELL_KNOWN, buf_slice(&url), &is_known);
    if (job)
        job->is_hosts = true;
    discover_later(d, job);
    buf_fini(&url);
}

static bool
is_root(const char *url)
{
    const char *path = strchr(strstr(url, "://") + 3, '/');

    return !path || strspn(path, "/") == strcspn(path, "?#");
}

bool
discover_ask_robots(struct discovery *d)
{
    struct page_request *job;
    bool is_known;
    size_t size;

    if (d->n_sets > 0 || d->missed.rc || d->n_passed > 0 || d->robots ||
        d->n_pages == 0 || (!d->has_page && !is_root(d->url)))
        return false;
    size = (size_t)(strstr(d->url, "://") + 3 - d->url);
    size += strcspn(d->url + size, "/?#");
    if (asprintf(&d->robots, "%.*s/robots.txt", (int)size, d->url) < 0) {
        d->robots = NULL;
        d->rc = STATUS_MEMORY;
        return false;
    }
    job = discover_job(d, ROLE_ROBOTS, slice_of(d->robots), &is_known);
    if (job)
        job->depth = 1;
    discover_later(d, job);
    return job != NULL;
}

bool
discover_tell_robots(struct discovery *d)
{
    struct offered offered = {.url = NULL};

    if (!d->has_sitemap)
        return true;
    keep_text(d, &offered.url, slice_of(d->robots));
    if (!offered_take(&offered, slice_of(capability_name(CAP_RESOURCELIST)),
                      slice_of(d->robots)))
        d->rc = STATUS_MEMORY;
    tell_item(d, slice_of(capability_name(CAP_RESOURCELIST)),
              slice_of(d->robots), (struct slice){NULL, 0}, NULL);
    return discover_tell(d, &offered);
}

static void
read_link_header(struct discovery *d,
                 const struct document_fetch_answer *answer)
{
    struct slice rest = slice_of(answer->link);
    struct weblink link;
    struct buf target;
    bool is_known;

    while (weblink_next(&rest, &link)) {
        if (link.is_of_another || !weblink_has_rel(&link, "resourcesync"))
            continue;
        buf_init(&target, 4 * URI_CHARACTERS_MAX);
        uri_resolve(&target, slice_of(answer->url), link.target);
        if (!target.failed)
            discover_later(d, discover_job(d, ROLE_CAPABILITIES,
                                           buf_slice(&target), &is_known));
        buf_fini(&target);
    }
}

/* Takes a page for people, which is a resource. If it names one Capability
 * List, that covers it (R-261); several belong to its source, and need not be
 * all. False: freed. */
static bool
end_other(struct discovery *d, const struct document_fetch_answer *answer)
{
    struct problem why = {.text = ""};

    if (d->job->depth > 0) {
        problem_clear(&why);
        problem(&why, STATUS_MALFORMED, "%.300s is no document of ResourceSync",
                d->job->url);
        return discover_miss(d, &why);
    }
    read_link_header(d, answer);
    if (pagelinks_read(answer->text, slice_of(answer->type),
                       slice_of(answer->url), on_page_link, d,
                       NULL) == STATUS_MEMORY &&
        !d->rc)
        d->rc = STATUS_MEMORY;
    if (d->n_led > 1)
        for (struct page_request *job = d->jobs; job; job = job->next)
            job->goes_up = true;
    if (d->n_led == 0 || is_root(d->url))
        discover_ask_host(d);
    return true;
}

bool
discover_end_page(struct discovery *d,
                  const struct document_fetch_answer *answer)
{
    enum status rc;

    if (d->job->role == ROLE_ROBOTS)
        return true; /* its Sitemaps are queued */
    if (!answer->is_document && d->job->role == ROLE_WELL_KNOWN) {
        /* A page for people: the host has no description. */
        if (!strstr(answer->type, "html"))
            discover_break(d, "its host's " WELL_KNOWN " cannot be read");
        return true;
    }
    if (!answer->is_document) {
        rc = offered_describe(&d->offered, answer->text, on_json_link, d);
        if (!rc)
            return end_set(d, answer->text);
        if (rc == STATUS_MEMORY && !d->rc)
            d->rc = STATUS_MEMORY;
    }
    if (d->job->role == ROLE_SET) { /* not a description, but a set exists */
        if (!d->job->offered.url)
            keep_text(d, &d->job->offered.url,
                      slice_of(d->job->offered.capability_list));
        return discover_tell(d, &d->job->offered);
    }
    if (answer->is_document)
        return end_document(d, answer->head);
    rc = offered_each_set(answer->text, on_json_set, d);
    if (rc == STATUS_MALFORMED)
        return end_other(d, answer);
    if (rc && !d->rc)
        d->rc = STATUS_MEMORY;
    d->has_source = true;
    return true;
}

bool
discover_end_refused(struct discovery *d, const struct problem *why)
{
    struct offered *offered = &d->job->offered;

    if (offered->url || offered->capability_list) {
        if (!offered->url)
            keep_text(d, &offered->url, slice_of(offered->capability_list));
        return discover_tell(d, offered);
    }
    if (d->job->role == ROLE_ROBOTS)
        return true;
    if (d->job->depth > 0 && d->job->role != ROLE_WELL_KNOWN)
        return why->http_status == 410 || discover_miss(d, why);
    if (!d->first.rc)
        d->first = *why;
    if (d->job->role == ROLE_ANY)
        discover_ask_host(d);
    return true;
}

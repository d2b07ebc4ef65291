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
 *           and then GUESS (/sitemap.xml) ---> UP ---------> on_set
 */
#include "client/source/discovery.h"

#include "base/clock.h"
#include "client/lib/pause.h"
#include "client/source/document_fetch.h"
#include "proto/http/html_links.h"
#include "proto/input/page_links.h"

/* Attempts to get a page from a server that is down or busy, and most
 * milliseconds before the next one; the discovery reads other pages meanwhile.
 * A server that asks for a longer pause gets no further request. */
#define ATTEMPTS_MAX  3
#define PAUSE_MOST_MS 5000

#define ACCEPT_ANY                                                      \
    "Accept: application/json, application/xml;q=0.9, text/xml;q=0.9, " \
    "text/html;q=0.8, */*;q=0.5"

#define WELL_KNOWN "/.well-known/resourcesync"

/* Most bytes of what was tried in vain. */
#define TRIED_MAX 700

/* The kind of page that the discovery expects. */
enum role {
    ROLE_ANY,
    ROLE_UP, /* the target of a list's link "up" */
    ROLE_WELL_KNOWN,
    ROLE_DESCRIPTION,
    ROLE_CAPABILITIES,
    ROLE_SET, /* JSON */
    ROLE_ROBOTS,
    ROLE_SITEMAP, /* named by a robots.txt */
    ROLE_GUESS    /* /sitemap.xml, or what a page calls its Sitemap */
};

/* The kind of page that it is. */
enum kind { KIND_UNKNOWN, KIND_DESCRIPTION, KIND_CAPABILITIES, KIND_LIST };

struct page_request {
    struct list node; /* in the queue */
    enum role role;
    unsigned depth; /* pages between the URL and this one */
    unsigned n_attempts;
    int64_t due_ms; /* waits until then */
    bool is_hosts;  /* found at the well-known address, not by the URL */
    bool goes_up;   /* reads its Source Description, too */
    struct offered offered; /* values from earlier pages */
    char url[];
};

/* The page that is read now. */
struct discovery_page {
    struct document_fetch *fetch;
    enum kind kind;
    size_t n_led;   /* pages that it led to */
    bool has_parts; /* it names Capability Lists */
    struct offered offered;
    char *set; /* links of the root */
    char *up;
    char *index;
    char *archives;
};

struct discovery {
    struct retired retired; /* the first */
    struct td_client *client;
    discovery_set_fn *on_set;
    discovery_end_fn *on_end;
    void *user;
    struct discovery_watch watch;
    char *url;
    const char *path;   /* of the URL: what follows its host */
    unsigned silence_s; /* of a page; 0: document_fetch.h's default */
    struct timer timer; /* the next request */
    unsigned pause_ms;  /* before the next retry */

    struct list jobs;         /* struct page_request */
    struct text_set seen;     /* URLs */
    struct text_set reported; /* URLs of sets that on_set received or the caller
                             knows */
    size_t n_pages;
    size_t n_sets;         /* passed to on_set, or known */
    size_t n_known;        /* links to documents already seen */
    size_t n_passed;       /* sets not below the URL's path */
    bool takes_all;        /* takes these, too */
    char *robots;          /* the host's robots.txt; NULL: not asked for */
    bool has_sitemap;      /* robots.txt names a Sitemap of no set */
    bool has_guessed;      /* the host's /sitemap.xml was asked for */
    struct buf tried;      /* pages that led to nothing, and what came */
    struct problem unread; /* the page at the URL is no page for people, and no
                              document that can be read */
    bool has_source;      /* a Source Description or a list of sets was read: it
                             names all sets */
    char *date;           /* of the first page that has one */
    struct problem first; /* the first refusal */
    struct problem missed; /* why the first missed document is missed */
    bool has_page;         /* a page was read at the URL */
    enum status rc;        /* failure in the middle of a page */
    struct problem broken; /* the reason, if rc is STATUS_MALFORMED */

    struct discovery_page page;
    struct page_request *job; /* of the page */
};

/*
 * The pages that the discovery still has to read, and the sets that it has
 * found. It reads no page twice, so circles end; and no page is farther than
 * DEPTH_MAX others from the URL, so chains end.
 */

/* A set has two pages at most; the other pages lead to sets. */
#define PAGES_MAX (2 * DISCOVERY_SETS_MAX + 5000)

/* The longest useful way has nine pages: page, Capability List, up to a part,
 * its index, index in an index, part, list of lists, Capability List, set. */
#define DEPTH_MAX 16

static void
page_request_free(struct page_request *job)
{
    if (job) {
        list_remove(&job->node);
        offered_fini(&job->offered);
    }
    free(job);
}

/* Returns `is_good`; else notes that there was no memory. */
static bool
has_memory(struct discovery *d, bool is_good)
{
    if (!is_good)
        d->rc = STATUS_MEMORY;
    return is_good;
}

/* Ends with TD_BROKEN because of `text`. */
static void
discover_break(struct discovery *d, const char *text)
{
    if (!d->rc)
        d->rc =
            problem(&d->broken, STATUS_MALFORMED, "%.800s: %s", d->url, text);
}

/* Makes a job for a page. NULL: the page is or was queued (then sets *is_known,
 * unless that is NULL), or no memory or too many pages (d->rc). */
static struct page_request *
discover_job(struct discovery *d, enum role role, struct slice url,
             bool *is_known)
{
    struct page_request *job = NULL;
    bool is_new = false;

    url = slice_take(&url, '#');
    if (slice_starts(url, "http://") || slice_starts(url, "https://")) {
        if (has_memory(d, !text_set_add(&d->seen, url, &is_new)) && !is_new &&
            is_known)
            *is_known = true;
    }
    if (!is_new)
        return NULL;
    if (d->n_pages++ == PAGES_MAX)
        discover_break(d, "more documents than any source has");
    else if (d->job && d->job->depth == DEPTH_MAX)
        discover_break(d, "its documents lead from one to the next, and to "
                          "no end");
    else
        has_memory(d, (job = calloc(1, sizeof(*job) + url.size + 1)));
    if (!job)
        return NULL;
    list_init(&job->node);
    job->role = role;
    job->depth = d->job ? d->job->depth + 1 : 0;
    memcpy(job->url, url.data, url.size);
    return job;
}

static void
discover_later(struct discovery *d, struct page_request *job)
{
    if (!job)
        return;
    list_append(&d->jobs, &job->node);
    d->page.n_led++;
}

/* Queues a page, unless it is or was queued. */
static void
discover_add(struct discovery *d, enum role role, struct slice url)
{
    discover_later(d, discover_job(d, role, url, NULL));
}

/* Reads the page next; it gets the values found so far. */
static bool
discover_next(struct discovery *d, struct page_request *job)
{
    offered_merge(&job->offered, &d->job->offered);
    list_prepend(&d->jobs, &job->node);
    return true;
}

/* The next page in the queue; NULL: it is empty. */
static struct page_request *
next_job(const struct discovery *d)
{
    return list_front(&d->jobs, offsetof(struct page_request, node));
}

/* Keeps the text, unless there is one. */
static void
keep_text(struct discovery *d, char **to, struct slice text)
{
    if (!*to)
        has_memory(d, (*to = slice_dup(text)));
}

/* Sets */

/* True if on_set received that URL before, or the caller knows it. Else notes
 * it. */
static bool
is_reported(struct discovery *d, const char *url)
{
    bool is_new;

    return has_memory(d, !text_set_add(&d->reported, slice_of(url), &is_new)) &&
           !is_new;
}

/* True if the caller knows the set: it counts as found. */
static bool
discover_knows(struct discovery *d, struct slice url)
{
    char *known;
    bool is;

    if (!d->watch.is_known || !has_memory(d, (known = slice_dup(url))))
        return false;
    is = d->watch.is_known(known, d->user);
    if (is && !is_reported(d, known))
        d->n_sets++;
    free(known);
    return is;
}

/* Passes the set to on_set, unless on_set received it before, and empties
 * `offered`. False: freed. */
static bool
discover_report(struct discovery *d, struct offered *offered)
{
    struct offered set = *offered;

    *offered = (struct offered){.url = NULL};
    if (set.url && !is_reported(d, set.url)) {
        if (d->date)
            keep_text(d, &set.date, slice_of(d->date));
        if (d->n_sets++ >= DISCOVERY_SETS_MAX)
            discover_break(d, "more sets than any source has");
        else
            d->on_set(&set, NULL, d->user);
    }
    offered_fini(&set);
    return !d->retired.is_over;
}

/* Reports the current page to on_set as unreadable. False: freed. */
static bool
discover_miss(struct discovery *d, const struct problem *why)
{
    struct offered missed = {.url = NULL};

    if (!d->missed.rc)
        d->missed = *why;
    /* on_set may move the URL out, and the job keeps its own. */
    missed.url = strdup(d->job->url);
    if (!has_memory(d, missed.url))
        return true;
    d->on_set(&missed, why, d->user);
    offered_fini(&missed);
    return !d->retired.is_over;
}

/* Notes */

static void
report_item(struct discovery *d, struct slice rel, struct slice href,
            struct slice type, const struct document_entry *entry)
{
    const struct discovery_item item = {
        .rel = rel,
        .href = href,
        .type = type,
        .from_us = entry ? entry->from_us : DATETIME_NONE,
        .until_us = entry ? entry->until_us : DATETIME_NONE,
    };

    if (d->watch.on_item && rel.size > 0)
        d->watch.on_item(&item, d->user);
}

static void
take_link(struct discovery *d, struct slice rel, struct slice href)
{
    has_memory(d, offered_take(&d->page.offered, rel, href));
}

/* Documents */

static enum status
on_link(const struct link *link, void *user)
{
    struct discovery *d = user;

    report_item(d, link->rel, link->href, link->type, NULL);
    if (slice_is(link->rel, "up"))
        keep_text(d, &d->page.up, link->href);
    else if (slice_is(link->rel, "index"))
        keep_text(d, &d->page.index, link->href);
    else if (slice_is(link->rel, "archives"))
        keep_text(d, &d->page.archives, link->href);
    else if (slice_is(link->rel, "urn:tidings:1:set"))
        keep_text(d, &d->page.set, link->href);
    else if (slice_is_word(link->rel, "resourcesync")) /* of a feed */
        discover_add(d, ROLE_CAPABILITIES, link->href);
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
    bool is_known = false;
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
    size_t size = strcspn(d->path, "?#");
    char below[URI_CHARACTERS_MAX + 2];

    while (size > 0 && d->path[size - 1] == '/')
        size--;
    if (!d->job->is_hosts || d->takes_all || size == 0 ||
        size > URI_CHARACTERS_MAX)
        return true;
    snprintf(below, sizeof(below), "%.*s/", (int)size, d->path);
    if (memmem(loc.data, loc.size, below, size + 1))
        return true;
    d->n_passed++;
    return false;
}

static bool
is_feed(const struct document_head *head)
{
    return head->kind == DOCUMENT_RSS || head->kind == DOCUMENT_ATOM;
}

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct discovery *d = user;
    struct slice loc = entry->change.loc;
    bool is_part;

    if (d->job->role == ROLE_ROBOTS) {
        lead_to(d, ROLE_SITEMAP, loc);
        return d->rc ? STATUS_STOPPED : STATUS_OK;
    }
    if (d->page.kind == KIND_UNKNOWN)
        d->page.kind = kind_of(d, head, entry);
    if (is_feed(head)) /* its links may follow */
        return d->rc ? STATUS_STOPPED : STATUS_OK;
    if (d->page.kind == KIND_LIST ||
        (d->page.kind == KIND_DESCRIPTION && d->job->role == ROLE_UP))
        return STATUS_STOPPED; /* its root is enough */
    is_part = head->is_index ||
              slice_is(entry->capability, d->page.kind == KIND_DESCRIPTION
                                              ? "description"
                                              : "capabilitylist");
    if (d->page.kind == KIND_DESCRIPTION && !is_part && !is_meant(d, loc))
        return d->rc ? STATUS_STOPPED : STATUS_OK;
    report_item(d, entry->capability, loc, entry->change.type, entry);
    if (d->page.kind == KIND_CAPABILITIES && !is_part) {
        has_memory(d,
                   offered_take_row(&d->page.offered, entry->capability, loc));
    } else {
        d->page.has_parts |= d->page.kind == KIND_CAPABILITIES;
        lead_to(d,
                d->page.kind == KIND_DESCRIPTION && is_part ? ROLE_DESCRIPTION
                                                            : ROLE_CAPABILITIES,
                loc);
    }
    return d->rc ? STATUS_STOPPED : STATUS_OK;
}

static const struct document_events page_events = {on_link, on_entry};

/* Handlers of pages, after all of the page was read. False: freed. */

/* Takes a Capability List. */
static bool
end_capabilities(struct discovery *d)
{
    struct page_request *job = d->job;
    struct page_request *next;

    if (job->goes_up && d->page.up)
        discover_add(d, ROLE_DESCRIPTION, slice_of(d->page.up));
    keep_text(d, &d->page.offered.capability_list, slice_of(job->url));
    if (job->role == ROLE_UP) { /* prefer the set's data to one list's */
        free(job->offered.url);
        job->offered.url = NULL;
        offered_merge(&d->page.offered, &job->offered);
    }
    offered_merge(&job->offered, &d->page.offered);
    if (d->page.set && !job->offered.position && !d->rc) {
        next = discover_job(d, ROLE_SET, slice_of(d->page.set), NULL);
        if (next)
            return discover_next(d, next);
    }
    keep_text(d, &job->offered.url,
              slice_of(d->page.set ? d->page.set : job->url));
    if (d->page.has_parts && !offered_is_something(&job->offered))
        return true; /* an index of Capability Lists is no set */
    return discover_report(d, &job->offered);
}

/* Offers the document `url`, which is part of no set. */
static void
offer_document(struct discovery *d, enum capability capability, const char *url)
{
    struct slice rel = slice_of(capability_names[capability]);

    report_item(d, rel, slice_of(url), (struct slice){NULL, 0}, NULL);
    take_link(d, rel, slice_of(url));
}

/* Offers a document that is part of no set: the document itself, or its index.
 */
static void
offer_alone(struct discovery *d, const struct document_head *head)
{
    enum capability capability =
        head->has_capability ? head->capability : CAP_RESOURCELIST;
    char archive[64];

    offered_fini(&d->page.offered);
    offer_document(d, capability, d->page.index ? d->page.index : d->job->url);
    if (d->page.archives) {
        snprintf(archive, sizeof(archive), "%s-archive",
                 capability_names[capability]);
        take_link(d, slice_of(archive), slice_of(d->page.archives));
    }
    keep_text(d, &d->page.offered.url, slice_of(d->job->url));
    d->page.offered.kind = document_kind_name(head->kind);
}

static bool
end_list(struct discovery *d, const struct document_head *head)
{
    struct page_request *job = d->job;
    struct page_request *next = NULL;
    bool is_known = false;

    if (job->role == ROLE_SITEMAP && !d->page.up) {
        d->has_sitemap = true;
        return true;
    }
    if (job->role != ROLE_UP)
        offer_alone(d, head);
    offered_merge(&job->offered, &d->page.offered);
    if (job->role != ROLE_WELL_KNOWN && job->role != ROLE_DESCRIPTION &&
        job->role != ROLE_CAPABILITIES && d->page.up &&
        d->page.kind == KIND_LIST)
        next = discover_job(d, ROLE_UP, slice_of(d->page.up), &is_known);
    if (is_known && !d->robots)
        discover_break(d, "its links \"up\" lead in a circle");
    if (is_known || d->rc)
        return true; /* another Sitemap has led there */
    if (!next)
        return !offered_is_something(&job->offered) ||
               discover_report(d, &job->offered);
    return discover_next(d, next);
}

static bool
end_document(struct discovery *d, const struct document_head *head)
{
    if (d->page.kind == KIND_UNKNOWN)
        d->page.kind = kind_of(d, head, NULL);
    if (d->page.kind == KIND_CAPABILITIES)
        return end_capabilities(d);
    if (d->page.kind == KIND_LIST || d->job->role == ROLE_UP)
        return end_list(d, head);
    d->has_source = true;
    if (d->page.index) { /* a part: others have other sets (R-048) */
        struct page_request *index =
            discover_job(d, ROLE_DESCRIPTION, slice_of(d->page.index), NULL);

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

    report_item(d, rel, href, type, NULL);
    take_link(d, rel, href);
    return d->rc != STATUS_MEMORY;
}

static bool
on_json_set(struct slice rel, struct slice href, struct slice type, void *user)
{
    struct discovery *d = user;
    bool is_known = false;
    struct page_request *job;

    (void)type;
    if (slice_is(rel, "set") && discover_knows(d, href)) {
        d->page.n_led++;
        return true;
    }
    job = discover_job(d, ROLE_ANY, href, &is_known);
    if (slice_is(rel, "next")) {
        if (is_known)
            discover_break(d, "the pages of its sets lead in a circle");
        else if (d->page.n_led == 0)
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

    if (d->watch.on_description)
        d->watch.on_description(json, d->user);
    while (size > 0 && job->url[size - 1] == '/')
        job->url[--size] = '\0';
    offered_merge(&job->offered, &d->page.offered);
    keep_text(d, &job->offered.url, slice_of(job->url));
    if (job->role == ROLE_ANY && job->offered.capability_list)
        next = discover_job(d, ROLE_CAPABILITIES,
                            slice_of(job->offered.capability_list), NULL);
    return next ? discover_next(d, next) : discover_report(d, &job->offered);
}

static void
on_page_link(const struct pagelink *link, void *user)
{
    struct discovery *d = user;

    if (slice_has_word(link->rel, "resourcesync"))
        discover_add(d, ROLE_CAPABILITIES, link->href);
    else if (slice_has_word(link->rel, "sitemap"))
        discover_add(d, ROLE_GUESS, link->href);
}

/* Notes a page that led to nothing (R-409). */
static void
note_tried(struct discovery *d, const char *url, const char *what)
{
    if (d->tried.size + strlen(url) + strlen(what) + 4 > TRIED_MAX)
        return;
    buf_add_format(&d->tried, "; %s%s%s", strstr(what, url) ? "" : url,
                   strstr(what, url) ? "" : ": ", what);
    has_memory(d, !d->tried.failed);
}

static bool
is_root(const struct discovery *d)
{
    return strspn(d->path, "/") == strcspn(d->path, "?#");
}

/* Queues an address of the host. False: it is or was queued. */
static bool
ask_at_host(struct discovery *d, enum role role, const char *path)
{
    struct page_request *job;
    char *url;

    if (!has_memory(d, asprintf(&url, "%.*s%s", (int)(d->path - d->url), d->url,
                                path) >= 0))
        return false;
    job = discover_job(d, role, slice_of(url), NULL);
    if (job) {
        job->depth = 1;
        job->is_hosts = role == ROLE_WELL_KNOWN;
    }
    discover_later(d, job);
    if (role == ROLE_ROBOTS)
        d->robots = url;
    else
        free(url);
    return job != NULL;
}

/* Queues the host's robots.txt (R-262), and then its /sitemap.xml (R-409), each
 * once, if nothing else leads to a set. False: nothing was queued. */
static bool
ask_sitemaps(struct discovery *d)
{
    if (d->n_sets > 0 || d->missed.rc || d->n_passed > 0 || d->n_pages == 0 ||
        d->has_guessed || (!d->has_page && !is_root(d)))
        return false;
    if (!d->robots && ask_at_host(d, ROLE_ROBOTS, "/robots.txt"))
        return true;
    d->has_guessed = true;
    return !d->has_sitemap && !d->rc &&
           ask_at_host(d, ROLE_GUESS, "/sitemap.xml");
}

static void
read_link_header(struct discovery *d,
                 const struct document_fetch_answer *answer)
{
    has_memory(d, pagelinks_of_header(slice_of(answer->link),
                                      slice_of(answer->url), on_page_link, d));
}

/* Takes a page for people, which is a resource. If it names one Capability
 * List, that covers it (R-261); several belong to its source, and need not be
 * all. False: freed. */
static bool
end_other(struct discovery *d, const struct document_fetch_answer *answer)
{
    struct problem why = {.text = ""};
    struct slice text = buf_slice(answer->text);
    struct page_request *request;
    enum status rc;

    if (d->job->depth > 0) {
        problem(&why, STATUS_MALFORMED, "%.300s is no document of ResourceSync",
                d->job->url);
        return discover_miss(d, &why);
    }
    if (slice_find(text, "<OAI-PMH") && !html_is_page(text))
        discover_break(d, "a provider of OAI-PMH: `tidings harvest` reads it");
    /* XML or gzip, but no page: it was meant as a document. */
    while (text.size > 0 && memchr(" \t\r\n\xEF\xBB\xBF", text.data[0], 7))
        slice_skip(&text, 1);
    if (text.size > 0 && !html_is_page(buf_slice(answer->text)) &&
        memchr("<\x1f\xfe\xff", text.data[0], 4))
        problem(&d->unread, STATUS_MALFORMED, "%s", answer->unread);
    else
        note_tried(d, d->job->url, "a page that names none");
    read_link_header(d, answer);
    rc = pagelinks_read(buf_slice(answer->text), slice_of(answer->type),
                        slice_of(answer->url), on_page_link, d, &why);
    if (rc == STATUS_TOO_LARGE)
        discover_break(d, why.text);
    else if (rc == STATUS_MEMORY && !d->rc)
        d->rc = STATUS_MEMORY;
    if (d->page.n_led > 1)
        list_walk (request, &d->jobs, node)
            request->goes_up = true;
    if (d->page.n_led == 0 || is_root(d))
        ask_at_host(d, ROLE_WELL_KNOWN, WELL_KNOWN);
    return true;
}

/* Takes a list of sets in JSON, or another page. False: freed. */
static bool
end_json(struct discovery *d, const struct document_fetch_answer *answer)
{
    struct slice text = buf_slice(answer->text);
    struct problem why = {""};
    enum status rc = offered_each_set(text, on_json_set, d, &why);

    if (rc == STATUS_MALFORMED &&
        !(slice_starts(slice_without_spaces(text), "{") &&
          problem_buf(&why, answer->text, "it")))
        return end_other(d, answer);
    if (rc == STATUS_MEMORY && !d->rc)
        d->rc = STATUS_MEMORY;
    else if (rc && !d->rc)
        d->rc = problem(&d->broken, STATUS_MALFORMED, "%.800s: %s", d->job->url,
                        why.text);
    d->has_source = true;
    return true;
}

/* Takes a page that was read. False: freed. */
static bool
end_page(struct discovery *d, const struct document_fetch_answer *answer)
{
    struct slice text;
    enum status rc;

    if (d->job->role == ROLE_ROBOTS) { /* its Sitemaps are queued */
        if (!answer->is_document)
            note_tried(d, d->job->url, "names no Sitemap");
        return true;
    }
    if (!answer->is_document && d->job->role == ROLE_WELL_KNOWN) {
        /* A page for people: the host has no description. */
        note_tried(d, d->job->url, "a page");
        if (!strstr(answer->type, "html"))
            discover_break(d, answer->unread);
        return true;
    }
    if (!answer->is_document) {
        text = buf_slice(answer->text);
        rc = offered_describe(&d->page.offered, text, on_json_link, d);
        if (!rc)
            return end_set(d, text);
        if (rc == STATUS_MEMORY && !d->rc)
            d->rc = STATUS_MEMORY;
    }
    if (d->job->role == ROLE_SET) { /* not a description, but a set exists */
        keep_text(d, &d->job->offered.url,
                  slice_of(d->job->offered.capability_list));
        return discover_report(d, &d->job->offered);
    }
    if (answer->is_document && is_feed(answer->head)) {
        read_link_header(d, answer);
        if (d->page.n_led > 0) /* that covers it (R-261) */
            return true;
    }
    if (answer->is_document)
        return end_document(d, answer->head);
    return end_json(d, answer);
}

/* Takes a final refusal of the page. False: freed. */
static bool
end_refused(struct discovery *d, const struct problem *why)
{
    struct offered *offered = &d->job->offered;

    if (offered->url || offered->capability_list) {
        keep_text(d, &offered->url, slice_of(offered->capability_list));
        return discover_report(d, offered);
    }
    note_tried(d, d->job->url, why->text);
    if (d->job->role == ROLE_ROBOTS || d->job->role == ROLE_GUESS)
        return true;
    if (d->job->depth > 0 && d->job->role != ROLE_WELL_KNOWN)
        return why->http_status == 410 || discover_miss(d, why);
    if (!d->first.rc)
        d->first = *why;
    if (d->job->role == ROLE_ANY)
        ask_at_host(d, ROLE_WELL_KNOWN, WELL_KNOWN);
    return true;
}

/* Ends */

static void
clear_page(struct discovery *d)
{
    char **const links[] = {&d->page.set, &d->page.up, &d->page.index,
                            &d->page.archives};

    for (size_t i = 0; i < 4; i++)
        free(*links[i]);
    offered_fini(&d->page.offered);
    d->page = (struct discovery_page){.kind = KIND_UNKNOWN};
}

void
discovery_free(void *discovery)
{
    struct discovery *d = discovery;

    if (!d)
        return;
    document_fetch_free(d->page.fetch);
    timer_stop(&d->timer);
    clear_page(d);
    page_request_free(d->job);
    while (next_job(d))
        page_request_free(next_job(d));
    text_set_fini(&d->seen);
    text_set_fini(&d->reported);
    buf_fini(&d->tried);
    free(d->date);
    free(d->robots);
    free(d->url);
    handle_loop_retire(d->client->loop, &d->retired, NULL);
}

static void
end_discovery(struct discovery *d, const struct problem *why)
{
    d->on_end(why, d->user);
    discovery_free(d);
}

static void
end_because(struct discovery *d, enum status rc, const char *text)
{
    struct problem why = {.text = ""};

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
        end_because(d, STATUS_OK, "");
    } else if (d->n_pages == 0) {
        end_because(d, STATUS_INVALID, "no URL of http or https");
    } else if (d->missed.rc) {
        why = d->missed;
        end_discovery(d, &why);
    } else if (d->unread.rc) {
        end_discovery(d, &d->unread);
    } else if (d->first.rc && !d->has_page) {
        if (why.http_status == 410) /* not refused: it was there once */
            why.rc = STATUS_GONE;
        if (d->tried.size > 2) /* it begins with the same */
            problem(&why, why.rc, "%.*s", (int)d->tried.size - 2,
                    d->tried.data + 2);
        end_discovery(d, &why);
    } else if (d->n_known > 0) {
        end_because(d, STATUS_MALFORMED,
                    "its documents lead in a circle, and to no set");
    } else if (d->has_source) {
        end_because(d, STATUS_REFUSED, "the source has no sets yet");
    } else {
        char text[TRIED_MAX + 100];

        snprintf(
            text, sizeof(text),
            "it leads to no document of ResourceSync and to no Sitemap%.*s",
            SLICE_ARG(buf_slice(&d->tried)));
        end_because(d, STATUS_REFUSED, text);
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
    text_set_fini(&d->seen);
    ask_at_host(d, ROLE_WELL_KNOWN, WELL_KNOWN);
    return true;
}

/* True if the discovery goes on. False: it has ended with d->rc.
 */
static bool
goes_on(struct discovery *d)
{
    enum status rc = d->rc; /* the end frees `d` */

    if (rc == STATUS_MEMORY)
        end_because(d, rc, NO_MEMORY);
    else if (rc)
        end_discovery(d, &d->broken);
    return !rc;
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
    if (d->job->role == ROLE_GUESS)
        is_for_good |= why->rc != STATUS_MEMORY && !ask_again(d, why);
    if (d->job == NULL) /* asked again */
        return true;
    if (is_for_good)
        return end_refused(d, why);
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

    d->page.fetch = NULL;
    d->has_page |= !why->rc && d->job->depth == 0;
    if (!why->rc && answer->date[0])
        keep_text(d, &d->date, slice_of(answer->date));
    if (why->rc)
        is_here = end_failed(d, why);
    else if (!d->rc)
        is_here = end_page(d, answer);
    if (!is_here || !goes_on(d))
        return;
    clear_page(d);
    page_request_free(d->job);
    d->job = NULL;
    timer_start(&d->timer, 0);
}

static void
on_timer(void *user)
{
    struct discovery *d = user;
    struct document_fetch_request request = {.silence_s = d->silence_s};
    const struct page_request *next = next_job(d);
    int64_t ms = next ? next->due_ms - clock_steady_ms() : 0;

    if (ms > 0) {
        timer_start(&d->timer, (uint64_t)ms);
        return;
    }
    if (!next && !takes_all_now(d) && !ask_sitemaps(d)) {
        /* One of the Sitemaps of the robots.txt is of no set: then that is a
         * Resource List. */
        if (d->has_sitemap) {
            keep_text(d, &d->page.offered.url, slice_of(d->robots));
            offer_document(d, CAP_RESOURCELIST, d->robots);
            if (!discover_report(d, &d->page.offered))
                return;
        }
        if (goes_on(d))
            end_all(d);
        return;
    }
    d->job = next_job(d);
    if (!d->job) { /* no memory */
        goes_on(d);
        return;
    }
    list_remove(&d->job->node);
    d->page.n_led = 0;
    request.url = d->job->url;
    request.takes_text = d->job->role == ROLE_ANY || d->job->role == ROLE_SET;
    request.accept = request.takes_text ? ACCEPT_ANY : NULL;
    /* Many hosts have a page for people at every address. */
    request.takes_text |=
        d->job->role == ROLE_WELL_KNOWN || d->job->role == ROLE_ROBOTS;
    d->page.fetch =
        document_fetch_start(d->client, &request, &page_events, on_page, d);
    if (!d->page.fetch)
        end_because(d, STATUS_MEMORY, NO_MEMORY);
}

struct discovery *
discovery_start(struct td_client *client, const char *url, unsigned silence_s,
                const struct discovery_watch *watch, discovery_set_fn *on_set,
                discovery_end_fn *on_end, void *user)
{
    struct discovery *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->client = client;
    d->silence_s = silence_s;
    if (watch)
        d->watch = *watch;
    d->on_set = on_set;
    d->on_end = on_end;
    d->user = user;
    d->pause_ms = PAUSE_FIRST;
    list_init(&d->jobs);
    buf_init(&d->tried, 2 * TRIED_MAX);
    d->url = strdup(url);
    if (d->url) {
        const char *host = strstr(d->url, "://");

        host = host ? host + 3 : d->url;
        d->path = host + strcspn(host, "/?#");
    }
    timer_init(&d->timer, client->loop, on_timer, d);
    if (d->url)
        discover_add(d, ROLE_ANY, slice_of(url));
    if (!d->url || d->rc) {
        discovery_free(d);
        return NULL;
    }
    timer_start(&d->timer, 0);
    return d;
}

/*
 * discovery_state.h - a discovery while it reads, for this folder only:
 *
 *     discovery.c         reads one page after the other
 *     discovery_pages.c   finds what a page leads to
 *     discovery_queue.c   the pages to read, and the sets found
 *
 * Each calls only those below it.
 */
#ifndef CLIENT_SOURCE_DISCOVERY_STATE_H
#define CLIENT_SOURCE_DISCOVERY_STATE_H

#include "client/source/capabilities.h"
#include "client/source/discovery.h"
#include "client/source/document_fetch.h"

/* The kind of page that the discovery expects. */
enum role {
    ROLE_ANY,
    ROLE_UP, /* the target of a list's link "up" */
    ROLE_WELL_KNOWN,
    ROLE_DESCRIPTION,
    ROLE_CAPABILITIES,
    ROLE_SET, /* JSON */
    ROLE_ROBOTS,
    ROLE_SITEMAP /* named by a robots.txt */
};

/* The kind of page that it is. */
enum kind { KIND_UNKNOWN, KIND_DESCRIPTION, KIND_CAPABILITIES, KIND_LIST };

struct page_request {
    struct page_request *next;
    enum role role;
    unsigned depth; /* pages between the URL and this one */
    unsigned n_attempts;
    int64_t due_ms; /* waits until then */
    bool is_hosts;  /* found at the well-known address, not by the URL */
    bool goes_up;   /* reads its Source Description, too */
    struct offered offered; /* values from earlier pages */
    char url[];
};

struct discovery {
    struct td_client *client;
    discovery_set_fn *on_set;
    discovery_end_fn *on_end;
    void *user;
    const struct discovery_watch *watch;
    char *url;
    unsigned silence_s;  /* of a page; 0: document_fetch.h's default */
    struct timer *timer; /* the next request */
    unsigned pause_ms;   /* before the next retry */
    bool *is_freed;      /* set if a callback frees this */

    struct page_request *jobs;
    struct page_request **tail;
    void *seen; /* a tree of URLs */
    void *told; /* a tree of the URLs of sets that on_set received or the caller
                   knows */
    size_t n_pages;
    size_t n_sets;        /* passed to on_set, or known */
    size_t n_known;       /* links to documents already seen */
    size_t n_passed;      /* sets not below the URL's path */
    bool takes_all;       /* takes these, too */
    char *robots;         /* the host's robots.txt; NULL: not asked for */
    bool has_sitemap;     /* robots.txt names a Sitemap of no set */
    bool has_source;      /* a Source Description or a list of sets was read: it
                             names all sets */
    char *date;           /* of the first page that has one */
    struct problem first; /* the first refusal */
    struct problem missed; /* why the first missed document is missed */
    bool has_page;         /* a page was read at the URL */
    enum status rc;        /* failure in the middle of a page */
    const char *broken;    /* the reason, if rc is STATUS_MALFORMED */

    /* The current page */
    struct document_fetch *page;
    struct page_request *job;
    enum kind kind;
    size_t n_led;   /* pages that it led to */
    bool has_parts; /* it names Capability Lists */
    struct offered offered;
    char *set; /* links of the root */
    char *up;
    char *index;
    char *archives;
};

/* Makes a job for a page. NULL: the page is or was queued (*is_known), or no
 * memory or too many pages (d->rc). */
struct page_request *discover_job(struct discovery *d, enum role role,
                                  struct slice url, bool *is_known);
void discover_later(struct discovery *d,
                    struct page_request *job); /* or NULL */
void discover_next(struct discovery *d, struct page_request *job);

/* Takes the next page from the queue; NULL: it is empty. */
struct page_request *discover_pop(struct discovery *d);
void page_request_free(struct page_request *request); /* NULL is allowed */

/* True if the caller knows the set: it counts as found. */
bool discover_knows(struct discovery *d, struct slice url);

/* Passes the set to on_set, unless on_set received it before, and empties
 * `offered`. False: freed. */
bool discover_tell(struct discovery *d, struct offered *offered);

/* Reports the current page to on_set as unreadable. False: freed. */
bool discover_miss(struct discovery *d, const struct problem *why);

/* Ends with TD_BROKEN because of `text` (static). */
void discover_break(struct discovery *d, const char *text);

/* Queues the host's well-known address. */
void discover_ask_host(struct discovery *d);

/* Queues the host's robots.txt, once, if nothing else leads to a set.
 * False: nothing was queued. */
bool discover_ask_robots(struct discovery *d);

/* Passes the robots.txt to on_set as a Resource List, if one of its Sitemaps is
 * of no set. False: freed. */
bool discover_tell_robots(struct discovery *d);

/* Callbacks for the contents of a page. */
extern const struct document_events discover_events;

/* Takes a page that was read. False: freed. */
bool discover_end_page(struct discovery *d,
                       const struct document_fetch_answer *answer);

/* Takes a final refusal of the page. False: freed. */
bool discover_end_refused(struct discovery *d, const struct problem *why);

#endif

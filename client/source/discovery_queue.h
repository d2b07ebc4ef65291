/*
 * discovery_queue.h - a discovery while it reads: the pages that it still has
 * to read, and the sets that it has found. discovery.c reads the pages.
 */
#ifndef CLIENT_SOURCE_DISCOVERY_QUEUE_H
#define CLIENT_SOURCE_DISCOVERY_QUEUE_H

#include "base/text_set.h"
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
    ROLE_SITEMAP, /* named by a robots.txt */
    ROLE_GUESS    /* /sitemap.xml, or what a page calls its Sitemap */
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
    const char *broken;    /* the reason, if rc is STATUS_MALFORMED */

    struct discovery_page page;
    struct page_request *job; /* of the page */
};

/* Makes a job for a page. NULL: the page is or was queued (*is_known, unless
 * that is NULL), or no memory or too many pages (d->rc). */
struct page_request *discover_job(struct discovery *d, enum role role,
                                  struct slice url, bool *is_known);
void discover_later(struct discovery *d,
                    struct page_request *job); /* or NULL */
void discover_next(struct discovery *d, struct page_request *job);

/* Queues a page, unless it is or was queued. */
void discover_add(struct discovery *d, enum role role, struct slice url);

/* Takes the next page from the queue; NULL: it is empty. */
struct page_request *discover_pop(struct discovery *d);
void page_request_free(struct page_request *request); /* NULL is allowed */

/* True if the caller knows the set: it counts as found. */
bool discover_knows(struct discovery *d, struct slice url);

/* Passes the set to on_set, unless on_set received it before, and empties
 * `offered`. False: freed. */
bool discover_report(struct discovery *d, struct offered *offered);

/* Reports the current page to on_set as unreadable. False: freed. */
bool discover_miss(struct discovery *d, const struct problem *why);

/* Ends with TD_BROKEN because of `text` (static). */
void discover_break(struct discovery *d, const char *text);

#endif

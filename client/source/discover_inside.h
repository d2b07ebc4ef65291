/*
 * discover_inside.h - a discovery: discover.c keeps what is to be read in line,
 * discover_pages.c knows what pages lead to. Only these two include it.
 */
#ifndef CLIENT_SOURCE_DISCOVER_INSIDE_H
#define CLIENT_SOURCE_DISCOVER_INSIDE_H

#include "client/source/discover.h"
#include "client/source/offered.h"
#include "client/source/page.h"

/* What a page is expected to be. */
enum role {
    ROLE_ANY,
    ROLE_UP, /* of the document that is offered otherwise */
    ROLE_WELL_KNOWN,
    ROLE_DESCRIPTION,
    ROLE_CAPABILITIES,
    ROLE_SET, /* JSON */
    ROLE_ROBOTS,
    ROLE_SITEMAP /* that a robots.txt names */
};

/* What it is. */
enum kind { KIND_UNKNOWN, KIND_DESCRIPTION, KIND_CAPABILITIES, KIND_LIST };

struct job {
    struct job *next;
    enum role role;
    unsigned depth; /* pages between the URL and this one */
    unsigned n_attempts;
    int64_t due_ms;         /* not before */
    bool is_hosts;          /* it came from the well-known address, unasked */
    bool goes_up;           /* its Source Description is read, too */
    struct offered offered; /* what is known of the set already */
    char url[];
};

struct discovery {
    struct td_client *client;
    discovery_set_fn *on_set;
    discovery_end_fn *on_end;
    void *user;
    const struct discovery_watch *watch;
    char *url;
    unsigned silence_s;  /* of a page; 0: as page.h has it */
    struct timer *timer; /* the next job */
    unsigned pause_ms;   /* before the next retry */
    bool *is_freed;      /* set if a callback frees this */

    struct job *jobs;
    struct job **tail;
    void *seen; /* URLs, a tree */
    void *told; /* URLs of sets that on_set received, or that its caller
                   knows, a tree */
    size_t n_pages;
    size_t n_sets;         /* passed to on_set, or known */
    size_t n_known;        /* links to documents that were seen */
    size_t n_passed;       /* sets that are not below the URL's path */
    bool takes_all;        /* these, too */
    char *robots;          /* the host's robots.txt; NULL: not asked for */
    bool has_sitemap;      /* it names a Sitemap of no set */
    bool has_source;       /* a Source Description was read, or a list of the
                              sets: they are all sets that there are */
    char *date;            /* of the first page that has one */
    struct failure first;  /* the first refusal */
    struct failure missed; /* why the first missed document is missed */
    bool has_page;         /* a page was read at the URL */
    enum td_status rc;     /* failure in the middle of a page */
    const char *broken;    /* the reason, if rc is TD_BROKEN */

    /* The page that is read */
    struct page *page;
    struct job *job;
    enum kind kind;
    size_t n_led;   /* pages that it led to */
    bool has_parts; /* it names Capability Lists */
    struct offered offered;
    char *set; /* links of the root */
    char *up;
    char *index;
    char *archives;
};

/* A page to be read, unless it was or will be (*is_known); NULL: then, or no
 * memory, or too many (d->rc). */
struct job *discover_job(struct discovery *d, enum role role, struct slice url,
                         bool *is_known);
void discover_later(struct discovery *d, struct job *job); /* or NULL */
void discover_next(struct discovery *d, struct job *job);

/* True if the caller knows the set: it counts as found. */
bool discover_knows(struct discovery *d, struct slice url);

/* Passes the set to on_set, unless on_set received it before, and empties
 * `offered`. False: freed. */
bool discover_tell(struct discovery *d, struct offered *offered);

/* Reports the current page to on_set as unreadable. False: freed. */
bool discover_miss(struct discovery *d, const struct failure *why);

/* Breaks off: the source makes no sense, `text` (static) says why. */
void discover_break(struct discovery *d, const char *text);

/* Asks the host what it has. */
void discover_ask_host(struct discovery *d);

/* Asks the host for its robots.txt, once, where nothing else leads to a set
 * . False: nothing is asked. */
bool discover_ask_robots(struct discovery *d);

/* Passes the robots.txt to on_set as a Resource List, if one of its Sitemaps is
 * of no set. False: freed. */
bool discover_tell_robots(struct discovery *d);

/* Callbacks for the contents of a page. */
extern const struct document_events discover_events;

/* A page was read. False: freed. */
bool discover_end_page(struct discovery *d, const struct page_answer *answer);

/* The page cannot be had, for good. False: freed. */
bool discover_end_refused(struct discovery *d, const struct failure *why);

#endif

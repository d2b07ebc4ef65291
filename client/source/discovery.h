/*
 * discovery.h - finds the sets of a source and their offers, from any URL.
 *
 *     SET-URL of Tidings (JSON, its links)     --+
 *     Source Description or its index, also      |
 *       /.well-known/resourcesync of a host    --+--> Capability Lists --> sets
 *     a Capability List                        --+
 *     a page with rel="resourcesync"             |
 *       (HTML, Link header)                    --+
 *     a Resource List, Change List, dump, index: |
 *       by `up`, else alone                    --+
 *     a host with nothing of these: the Sitemaps |
 *       of /robots.txt, by `up`, else alone    --+
 *
 * The address of a set, of its Capability List or of one of its lists stands
 * for that set. Every other address stands for the whole source: a part of the
 * Source Description leads to its index and so to the other parts; a page that
 * names several sets names some of them, and their Source Description the rest;
 * at the root of a host the discovery reads the well-known address, too.
 *
 * It finds channels and documents by links alone, and never builds paths; the
 * exceptions are the well-known address and /robots.txt.
 * Our own relations: urn:tidings:1:memory, :stream, :events, :streams,
 * :checkpoint, :set.
 */
#pragma once

#include "client/lib/client.h"

/* One set. Absolute URLs; NULL: not offered. The struct owns its strings. */
struct offered {
    char *url;  /* the set's name: SET-URL, else its Capability List, else the
                   document found */
    char *name; /* of a set of Tidings; else NULL */
    char *title;
    char *capability_list;
    char *resource_list;
    char *more_lists; /* Resource Lists beside it, each behind a space */
    char *unread;     /* another list of the Capability List, which is not read,
                         as words */
    char *resource_dump;
    char *change_list;
    char *change_dump;
    char *resource_list_archive;
    char *resource_dump_archive;
    char *change_list_archive;
    char *change_dump_archive;
    char *topic;   /* change-notification; a GET of the topic names its hubs */
    char *memory;  /* change memory */
    char *stream;  /* WebSocket */
    char *events;  /* server-sent events */
    char *streams; /* either, of many sets of the broker */
    char *checkpoint; /* the signed one of its log */
    char *position;   /* of the last entry, if the set gives it */
    char *earliest;   /* the first position that a follower may begin at */
    const char *kind; /* document_kind_name of a list that stands alone; NULL:
                         there is none, or it is one of several. Static */
    char *date; /* the time of the source's answer by the server's clock, as
                   in HTTP */
};

void offered_fini(struct offered *offered);

/* Merging what several documents say of a set: the first to state a value is
 * believed (capabilities.c). */

/* Stores the link if `rel` is a capability or one of our relations and `href`
 * is http or https; drops the fragment. Ignores others. False: no memory. */
bool offered_take(struct offered *o, struct slice rel, struct slice href);

/* The same for a row of a Capability List, which may have several of one
 * capability. */
bool offered_take_row(struct offered *o, struct slice rel, struct slice href);

/* Moves values that `o` lacks from `other`, and frees the others. */
void offered_merge(struct offered *o, struct offered *other);

/* True if it has more than a Capability List: a list, dump or channel. */
bool offered_is_something(const struct offered *o);

/* {"name":...,"position":...,"links":[{"rel":...,"href":...},...]}: stores the
 * texts, and calls back for each link in order, without storing it.
 * STATUS_MALFORMED: no description of a set; else as json_fields_read. */
typedef bool offered_link_fn(struct slice rel, struct slice href,
                             struct slice type, void *user);
MUST_CHECK enum status offered_describe(struct offered *o, struct slice json,
                                        offered_link_fn *on_link, void *user);

/* {"sets":[{"href":...},...],"next":...}: calls back with "set" or "next" as
 * rel. STATUS_MALFORMED: no list of sets; else as json_fields_read. */
MUST_CHECK enum status offered_each_set(struct slice json,
                                        offered_link_fn *on_link, void *user,
                                        struct problem *why);

struct discovery;

/* Called once for each set of the source, in its order; may move `offered` out
 * and clear it. `missed` is NULL for a set. Else the source names offered->url
 * (a Capability List, a set, a Source Description), and `missed` says why it
 * cannot be read: the source may have more sets. Documents that the server
 * reports as gone (410) are left out. */
typedef void discovery_set_fn(struct offered *offered,
                              const struct problem *missed, void *user);

/* The end. why->rc: STATUS_OK: on_set received at least one set, or is_known
 * knew one. STATUS_REFUSED: the URL leads to no ResourceSync document and no
 * Sitemap; STATUS_INVALID: no URL of http or https; STATUS_UNREACHABLE;
 * STATUS_MALFORMED: a document cannot be read, or the documents lead in a
 * circle or to no end; STATUS_MEMORY. */
typedef void discovery_end_fn(const struct problem *why, void *user);

/* No source has more sets; more are STATUS_MALFORMED. */
#define DISCOVERY_SETS_MAX 10000

/* A link or an entry that the discovery met. Strings are lent until on_item
 * returns. Missing values are empty, or DATETIME_NONE. */
struct discovery_item {
    struct slice rel; /* a capability, or a relation */
    struct slice href;
    struct slice type;
    int64_t from_us, until_us;
};

/* For callers that look for new sets alone, or that report all links, entries
 * and the set's own JSON. Each callback may be NULL. */
struct discovery_watch {
    /* Called before the discovery reads a set, or a Capability List, that a
     * document of the source names. True: the caller knows the set; on_set does
     * not receive it. Capability Lists that a page names are read each time:
     * they lead to the Source Description. */
    bool (*is_known)(const char *url, void *user);
    void (*on_item)(const struct discovery_item *item, void *user);
    void (*on_description)(struct slice json, void *user);
};

/* `silence_s` ends a page; 0: document_fetch.h's default. `watch` may be NULL.
 * NULL: no memory. Calls nothing before it returns. The discovery frees itself
 * after on_end. */
struct discovery *discovery_start(struct td_client *client, const char *url,
                                  unsigned silence_s,
                                  const struct discovery_watch *watch,
                                  discovery_set_fn *on_set,
                                  discovery_end_fn *on_end, void *user);
void discovery_free(void *discovery); /* a struct discovery; not after on_end */

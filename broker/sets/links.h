/*
 * links.h - every URL of the broker, from its public URL.
 *
 * One row each, in links.c.
 */
#pragma once

#include "broker/log/head.h"
#include "proto/resourcesync/vocab.h"

/* Longest URL: a public URL of 511 bytes, a set's name, a path. */
#define LINK_URL_MAX 700

enum link_kind {
    LINK_DESCRIPTION, /* or the index of several: source_description.h */
    LINK_CAPABILITYLIST,
    LINK_CHANGELIST, /* the capability's fixed address */
    LINK_LIST,       /* Change List `number` */
    LINK_CHANGELIST_ARCHIVE,
    LINK_MEMORY, /* change memory: the entries after seq `number` */
    LINK_LANDING,
    LINK_LATEST,  /* the open list */
    LINK_CHANGES, /* change memory from its beginning; POST: changes */
    LINK_STREAM,
    LINK_STREAMS, /* the stream of many sets: names none */
    LINK_OAI,     /* OAI-PMH */
    LINK_CHECKPOINT,
    LINK_RECONCILE,              /* comparisons by Negentropy */
    LINK_SET,                    /* description of the set, as JSON */
    LINK_HUB,                    /* names no set */
    LINK_NOTIFICATIONS,          /* topic: the set's changes */
    LINK_FRAMEWORK_NOTIFICATIONS /* topic: framework events of the set
 */
};

struct link_text {
    char text[LINK_URL_MAX];
    size_t size;
};

/* `public_url` has no slash at its end. `set` may be NULL in a link without a
 * set, `epoch` in one without a position. */
struct link_text link_to(const char *public_url, enum link_kind kind,
                         const char *set, const char *epoch, uint64_t number);

/* A URL as the format says. */
struct link_text link_format(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The kinds of generations (log/head.h): in links.c, one row each. */
struct kind_names {
    const char *folder; /* of URLs and on the disk alike: "resourcelist" */
    const char *title;  /* for people: "Resource List" */
    enum capability capability, archive;
};
extern const struct kind_names links_kinds[GENERATION_KINDS];

/* The channels of a set's changes beside its documents. The Capability List and
 * the set's JSON name them, so that no client has to build a path. */
struct channel_link {
    const char *rel; /* an absolute URI */
    enum link_kind kind;
    const char *type; /* media type; NULL: no single type */
};

/* The relation of the stream of many sets, in Source Descriptions, too. */
#define LINK_STREAM_OF_MANY "urn:tidings:1:streams"

/* In links.c, one row each; a row with rel NULL is the end. */
extern const struct channel_link links_channels[];

/* Appends the URL of the change memory after seq `number`, with the text of a
 * filter (may be empty). */
void link_memory(struct buf *to, const char *public_url, const char *set,
                 const char *epoch, uint64_t number, struct slice filter);

static inline struct slice
link_slice(const struct link_text *link)
{
    return (struct slice){link->text, link->size};
}

/*
 * source.c - Source Description and Capability Lists: only what works.
 */
#include "broker/documents/documents.h"
#include "broker/sets/links.h"
#include "proto/document.h"
#include "proto/vocab.h"

struct listing {
    struct buf *text;
    const char *public_url;
};

/* Hands the finished text over as a body. */
static enum status
finish(struct buf *text, struct body **body, struct problem *why)
{
    document_footer(text, DOCUMENT_URLSET);
    *body = body_of_buf(text);
    return *body ? STATUS_OK
                 : problem(why, STATUS_MEMORY, "no memory for a document");
}

static bool
add_set(struct set *set, void *user)
{
    struct listing *listing = user;
    struct link_text loc =
        link_to(listing->public_url, LINK_CAPABILITYLIST, set->name, NULL, 0);
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .has_capability = 1,
        .capability = CAP_CAPABILITYLIST,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };

    document_entry(listing->text, DOCUMENT_URLSET, &entry);
    return true;
}

/* The Source Description: one entry per set. */
enum status
source_open(const struct document_wish *wish, struct body **body,
            struct problem *why)
{
    const struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_DESCRIPTION,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
    struct buf text;
    struct listing listing = {&text, registry_public_url(wish->registry)};
    enum status rc;

    buf_init(&text, DOCUMENT_BYTES_MAX);
    document_header(&text, &head);
    registry_each(wish->registry, add_set, &listing);
    rc = finish(&text, body, why);
    buf_fini(&text);
    return rc;
}

static void
add_capability(struct buf *text, struct link_text loc,
               enum capability capability)
{
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .has_capability = 1,
        .capability = capability,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };

    document_entry(text, DOCUMENT_URLSET, &entry);
}

/* The Capability List of a set. The archive is there from the first closed list
 * on, and listed from then on. */
enum status
source_set_open(const struct document_wish *wish, struct body **body,
                struct problem *why)
{
    const char *url = registry_public_url(wish->registry);
    const char *set = wish->set->name;
    struct link_text up = link_to(url, LINK_DESCRIPTION, NULL, NULL, 0);
    struct document_link links[] = {{"up", link_slice(&up), NULL}};
    const struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CAPABILITYLIST,
        .links = links,
        .n_links = 1,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
    struct buf text;
    enum status rc;

    buf_init(&text, DOCUMENT_BYTES_MAX);
    document_header(&text, &head);
    add_capability(&text, link_to(url, LINK_CHANGELIST, set, NULL, 0),
                   CAP_CHANGELIST);
    if (wish->head.list > 1)
        add_capability(&text,
                       link_to(url, LINK_CHANGELIST_ARCHIVE, set, NULL, 0),
                       CAP_CHANGELIST_ARCHIVE);
    rc = finish(&text, body, why);
    buf_fini(&text);
    return rc;
}

/*
 * description.c - Source Description and Capability Lists: only what works.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/documents/documents.h"
#include "broker/documents/pieces.h"
#include "broker/sets/bridged.h"
#include "broker/sets/hubs.h"
#include "broker/sets/links.h"
#include "proto/document.h"
#include "proto/vocab.h"

/* Rows of links_channels at most. */
#define CHANNELS_MAX 16

/* The Source Description: the sets that exist when it is opened. A set's struct
 * lives as long as the registry. */
struct description {
    struct pieces pieces;
    const char *public_url;
    struct set **sets;
    size_t n, capacity;
    size_t next;
    uint64_t left;       /* bytes of the entries still to come */
    struct digest proof; /* becomes the tag when the last was written */
    struct digest tag;
    bool is_ended; /* the footer was written */
    bool failed;   /* no memory for all sets */
};

static void
write_set(struct buf *text, const char *public_url, const struct set *set)
{
    struct link_text loc =
        link_to(public_url, LINK_CAPABILITYLIST, set->name, NULL, 0);
    struct link_text about = registry_described_by(set);
    const struct document_link describedby = {"describedby", link_slice(&about),
                                              NULL};
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .has_capability = 1,
        .capability = CAP_CAPABILITYLIST,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .links = &describedby,
        .n_links = about.size > 0,
    };

    document_entry(text, DOCUMENT_URLSET, &entry);
}

/* Appends the entry of a set, and adds it to the digest of all. */
static struct slice
add_entry(struct description *d, const struct set *set, struct digest *all)
{
    struct buf *text = &d->pieces.text;
    size_t before = text->size;
    struct slice entry;

    write_set(text, d->public_url, set);
    entry = (struct slice){text->data + before, text->size - before};
    digest_add(all, entry);
    return entry;
}

/* What is told of a set may be told otherwise, or the set removed, while
 * somebody reads slowly. Then the bytes are not those that were measured and
 * tagged: the answer is cut off, and asked for again. */
static enum status
fill(struct pieces *pieces)
{
    struct description *d = (struct description *)(void *)pieces;
    size_t end = d->n - d->next < PIECES_STEP ? d->n : d->next + PIECES_STEP;

    if (d->next == d->n) {
        if (memcmp(&d->proof, &d->tag, sizeof(d->tag)))
            return STATUS_GONE;
        if (!d->is_ended)
            document_footer(&pieces->text, DOCUMENT_URLSET);
        d->is_ended = true;
        return STATUS_OK;
    }
    while (d->next < end) {
        struct slice entry = add_entry(d, d->sets[d->next++], &d->proof);

        if (entry.size > d->left)
            return STATUS_GONE;
        d->left -= entry.size;
    }
    return STATUS_OK;
}

static void
description_free(struct pieces *pieces)
{
    struct description *d = (struct description *)(void *)pieces;

    free(d->sets);
    free(d);
}

static bool
add_set(struct set *set, const struct head *head, void *user)
{
    struct description *d = user;

    (void)head;
    if (d->n == d->capacity) {
        size_t n = d->capacity ? d->capacity * 2 : 64;
        struct set **sets = realloc(d->sets, n * sizeof(*sets));

        d->failed = !sets;
        if (!sets)
            return false;
        d->sets = sets;
        d->capacity = n;
    }
    d->sets[d->n++] = set;
    return true;
}

/* One entry per set. The landing page tells people of the
 * Source. */
enum status
source_open(const struct document_wish *wish, struct document *document,
            struct problem *why)
{
    struct link_text about = link_to(registry_public_url(wish->registry),
                                     LINK_LANDING, NULL, NULL, 0);
    const struct document_link describedby = {"describedby", link_slice(&about),
                                              NULL};
    const struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_DESCRIPTION,
        .links = &describedby,
        .n_links = 1,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
    struct description *d;
    struct buf *text;
    size_t header;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN; /* no disk is read, but there may be many sets */
    d = calloc(1, sizeof(*d));
    if (!d)
        return problem(why, STATUS_MEMORY, "no memory for a document");
    text = &d->pieces.text;
    pieces_init(&d->pieces, fill, description_free, false);
    d->public_url = registry_public_url(wish->registry);
    registry_each(wish->registry, add_set, d);
    document_header(text, &head);
    header = text->size;
    digest_start(&d->proof, buf_slice(text));
    d->tag = d->proof;
    for (size_t i = 0; i < d->n; i++) { /* written once to be measured */
        d->left += add_entry(d, d->sets[i], &d->tag).size;
        text->size = header;
    }
    d->pieces.body.size =
        header + d->left + document_footer_of(DOCUMENT_URLSET).size;
    if (d->failed || text->failed) {
        d->pieces.body.free(&d->pieces.body);
        return problem(why, STATUS_MEMORY, "no memory for a document");
    }
    *document = (struct document){
        .body = &d->pieces.body,
        .tag = d->tag,
        .modified_us = DATETIME_NONE,
    };
    return STATUS_OK;
}

/* `hubs`: where one can subscribe to it, if it is a topic; or NULL. */
static void
add_capability(struct buf *text, struct link_text loc,
               enum capability capability, const struct hubs *hubs)
{
    struct document_link links[HUBS_MAX];
    struct document_entry entry = {
        .loc = link_slice(&loc),
        .has_capability = 1,
        .capability = capability,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .links = links,
        .n_links = hubs ? hubs->n : 0,
    };

    for (size_t i = 0; i < entry.n_links; i++)
        links[i] =
            (struct document_link){"hub", link_slice(&hubs->urls[i]), NULL};

    document_entry(text, DOCUMENT_URLSET, &entry);
}

/* The root's links: upward, to what people read, and to every
 * channel, so that push and pull are found together. */
static void
write_root(struct buf *text, const char *url, const struct set *set)
{
    struct link_text up = link_to(url, LINK_DESCRIPTION, NULL, NULL, 0);
    struct link_text about = registry_described_by(set);
    struct link_text targets[CHANNELS_MAX];
    struct bridged bridged;
    struct document_link links[CHANNELS_MAX + BRIDGES_MAX + 2] = {
        {"up", link_slice(&up), NULL}};
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CAPABILITYLIST,
        .links = links,
        .n_links = 1,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };

    if (about.size)
        links[head.n_links++] =
            (struct document_link){"describedby", link_slice(&about), NULL};
    for (size_t i = 0; i < CHANNELS_MAX && links_channels[i].rel; i++) {
        const struct channel *c = &links_channels[i];

        targets[i] = link_to(url, c->kind, set->name, NULL, 0);
        links[head.n_links++] = (struct document_link){
            c->rel, link_slice(&targets[i]), NULL, c->type};
    }
    bridged_of(set, &bridged);
    for (size_t i = 0; i < bridged.n; i++) {
        const struct bridged_link *link = &bridged.links[i];

        links[head.n_links++] = (struct document_link){
            BRIDGED_REL, {link->text, link->size}, NULL, link->type};
    }
    document_header(text, &head);
}

/* The Capability List of a set: its lists, and the topics of its two channels,
 * which differ. The archive is there from the first closed list
 * on, and listed from then on. */
enum status
source_set_open(const struct document_wish *wish, struct document *document,
                struct problem *why)
{
    const char *url = registry_public_url(wish->registry);
    const char *set = wish->set->name;
    struct hubs hubs;
    struct buf text;
    enum status rc;

    hubs_of(wish->set, &hubs);
    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_root(&text, url, wish->set);
    add_capability(&text, link_to(url, LINK_CHANGELIST, set, NULL, 0),
                   CAP_CHANGELIST, NULL);
    if (wish->head.list > wish->head.first_list)
        add_capability(&text,
                       link_to(url, LINK_CHANGELIST_ARCHIVE, set, NULL, 0),
                       CAP_CHANGELIST_ARCHIVE, NULL);
    add_capability(&text, link_to(url, LINK_NOTIFICATIONS, set, NULL, 0),
                   CAP_CHANGE_NOTIFICATION, &hubs);
    add_capability(&text,
                   link_to(url, LINK_FRAMEWORK_NOTIFICATIONS, set, NULL, 0),
                   CAP_FRAMEWORK_NOTIFICATION, &hubs);
    document_footer(&text, DOCUMENT_URLSET);
    rc = document_of_text(document, &text, why);
    buf_fini(&text);
    return rc;
}

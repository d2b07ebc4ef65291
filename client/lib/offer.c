/*
 * offer.c - what a set offers.
 *
 *     SET-URL, as JSON ---> its links ---+
 *         | no such thing                v
 *         v                        Capability List ---> Change List
 *     Source Description of the host ----^
 *
 * A server may lack any of them; what there is, is told. Documents are found by
 * links alone, the Source Description by its well-known address.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/answer.h"
#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/scan.h"
#include "client/lib/set_url.h"
#include "client/lib/sitemap.h"
#include "proto/uri.h"
#include "proto/vocab.h"

#define WELL_KNOWN "/.well-known/resourcesync"

/* A description of a set is small; a Capability List has a row per capability
 * and channel. What a broken server says beyond that is cut off. */
#define ITEMS_MAX 256
#define TEXT_MAX  1024
#define JSON_MAX  (1024 * 1024)

struct offer {
    struct td_client *client;
    struct set_url url;
    struct buf json;
    struct td_offer told;
    struct td_item items[ITEMS_MAX];
    char capability_list[URI_CHARACTERS_MAX + 1];
    char change_list[URI_CHARACTERS_MAX + 1];
    char title[TEXT_MAX];
    char position[64];
    char earliest[64];
    char digest[80];
    struct sitemap_head changes; /* of the Change List */
    char refused[TEXT_MAX];      /* how the server refused to tell of the set */
};

/* Items: strings of the heap */

static char *
copy(struct slice text)
{
    return text.size ? slice_dup(text) : NULL;
}

static bool
is_equal(const char *a, struct slice b)
{
    return a && slice_is(b, a);
}

/* The same from two documents is one item, which knows what either said. */
static struct td_item *
item_of(struct offer *o, struct slice rel, struct slice href)
{
    struct td_item *item;

    for (size_t i = 0; i < o->told.n_items; i++)
        if (is_equal(o->items[i].rel, rel) && is_equal(o->items[i].href, href))
            return &o->items[i];
    if (o->told.n_items == ITEMS_MAX)
        return NULL;
    item = &o->items[o->told.n_items];
    *item = (struct td_item){.rel = copy(rel), .href = copy(href)};
    if (!item->rel || !item->href) {
        free((char *)item->rel);
        free((char *)item->href);
        return NULL;
    }
    o->told.n_items++;
    return item;
}

static void
fill(const char **member, struct slice text)
{
    if (!*member)
        *member = copy(text);
}

static void
add_item(struct offer *o, const struct sitemap_entry *entry)
{
    struct td_item *item;

    if (!entry->rel.size || uri_check(entry->href, "href", NULL))
        return;
    item = item_of(o, entry->rel, entry->href);
    if (!item)
        return;
    fill(&item->type, entry->type);
    fill(&item->from, entry->from);
    fill(&item->until, entry->until);
}

static void
free_items(struct offer *o)
{
    for (size_t i = 0; i < o->told.n_items; i++) {
        free((char *)o->items[i].rel);
        free((char *)o->items[i].href);
        free((char *)o->items[i].type);
        free((char *)o->items[i].from);
        free((char *)o->items[i].until);
    }
}

/* Where to go on. */
static void
keep(char to[URI_CHARACTERS_MAX + 1], struct slice href)
{
    if (!to[0] && href.size <= URI_CHARACTERS_MAX &&
        (slice_starts(href, "http://") || slice_starts(href, "https://")))
        snprintf(to, URI_CHARACTERS_MAX + 1, "%.*s", SLICE_ARG(href));
}

static void
note(struct offer *o, const struct sitemap_entry *entry)
{
    add_item(o, entry);
    if (slice_is(entry->rel, "capabilitylist"))
        keep(o->capability_list, entry->href);
    if (slice_is(entry->rel, "changelist"))
        keep(o->change_list, entry->href);
}

/* Getting */

/* `*is_there` is false where the server has no such document; what was read,
 * answer->body, is the caller's (buf_fini) in any case. */
static enum td_status
get(struct offer *o, const char *url, const char *accept, size_t max_bytes,
    struct fetch_answer *answer, bool *is_there)
{
    const char *headers[] = {accept, NULL};
    struct fetch_request request = {url, headers, NULL, max_bytes};
    enum td_status rc = fetch_run(o->client, &request, answer);

    *is_there = !rc && answer->status == 200;
    if (rc || *is_there || fetch_meaning(answer->status) != TD_UNREACHABLE)
        return rc;
    return fetch_refused(o->client, answer);
}

static enum td_status
get_document(struct offer *o, const char *url, struct sitemap_head *head,
             sitemap_fn *on_entry)
{
    struct problem why = {.text = ""};
    struct fetch_answer answer;
    bool is_there;
    enum td_status rc = get(o, url, "Accept: application/xml",
                            DOCUMENT_BYTES_MAX, &answer, &is_there);

    if (is_there &&
        sitemap_read(buf_slice(&answer.body), head, on_entry, o, &why))
        rc = client_fail(o->client, TD_BROKEN, "%s cannot be read: %s", url,
                         why.text);
    buf_fini(&answer.body);
    return rc;
}

/* The description of the set */

/* {"rel":"stream","href":"...","type":"..."} */
static void
take_link(struct offer *o, struct slice link)
{
    char rel[TEXT_MAX] = "";
    char href[URI_CHARACTERS_MAX + 1] = "";
    char type[TEXT_MAX] = "";
    struct answer_member members[] = {
        {.name = "rel", .text = rel, .size = sizeof(rel)},
        {.name = "href", .text = href, .size = sizeof(href)},
        {.name = "type", .text = type, .size = sizeof(type)},
    };
    struct sitemap_entry entry = {.is_link = true};

    if (!answer_read(link, members, 3) || !rel[0])
        return;
    entry.rel = slice_of(rel);
    entry.href = slice_of(href);
    entry.type = slice_of(type);
    note(o, &entry);
}

static void
take_description(struct offer *o)
{
    struct answer_member members[] = {
        {.name = "title", .text = o->title, .size = sizeof(o->title)},
        {.name = "position", .text = o->position, .size = sizeof(o->position)},
        {.name = "earliest", .text = o->earliest, .size = sizeof(o->earliest)},
        {.name = "digest", .text = o->digest, .size = sizeof(o->digest)},
    };
    struct slice rest;
    struct slice link;

    if (!answer_read(buf_slice(&o->json), members, 4))
        return;
    o->told.description = o->json.data;
    o->told.description_size = o->json.size;
    if (scan_member(buf_slice(&o->json), "links", &rest))
        while (scan_element(&rest, &link))
            take_link(o, link);
}

static enum td_status
get_description(struct offer *o)
{
    struct fetch_answer answer;
    bool is_there;
    enum td_status rc = get(o, o->url.text, "Accept: application/json",
                            JSON_MAX, &answer, &is_there);

    o->json = answer.body;
    if (is_there && o->json.size && o->json.data[0] == '{')
        take_description(o);
    if (!rc && !is_there) {
        fetch_refused(o->client, &answer);
        snprintf(o->refused, sizeof(o->refused), ": %s", td_problem(o->client));
    }
    return rc;
}

/* Documents */

/* The Source Description names the Capability Lists of all sets by the server's
 * own idea of its address; ours is the one below this set's path. */
static enum status
on_source(const struct sitemap_entry *entry, void *user)
{
    struct offer *o = user;
    char path[SET_URL_MAX + 2];
    size_t size = (size_t)snprintf(path, sizeof(path), "%s/", o->url.path);

    if (!entry->is_link && slice_is(entry->rel, "capabilitylist") &&
        memmem(entry->href.data, entry->href.size, path, size))
        note(o, entry);
    return STATUS_OK;
}

static enum status
on_capability(const struct sitemap_entry *entry, void *user)
{
    note(user, entry);
    return STATUS_OK;
}

static enum status
on_list(const struct sitemap_entry *entry, void *user)
{
    (void)entry;
    (void)user;
    return STATUS_OK;
}

static enum td_status
get_documents(struct offer *o)
{
    char source[SET_URL_MAX + sizeof(WELL_KNOWN)];
    struct sitemap_head head;
    enum td_status rc = TD_OK;

    if (!o->capability_list[0]) {
        snprintf(source, sizeof(source), "%s://%s" WELL_KNOWN,
                 o->url.is_tls ? "https" : "http", o->url.authority);
        rc = get_document(o, source, &head, on_source);
    }
    if (!rc && o->capability_list[0])
        rc = get_document(o, o->capability_list, &head, on_capability);
    if (!rc && o->change_list[0])
        rc = get_document(o, o->change_list, &o->changes, on_list);
    return rc;
}

/* "" is untold. */
static const char *
told(const char *text)
{
    return text[0] ? text : NULL;
}

enum td_status
td_describe(struct td_client *client, const char *set_url,
            td_offer_fn *on_offer, void *user)
{
    struct offer *o;
    enum td_status rc;

    client_begin(client);
    o = calloc(1, sizeof(*o));
    if (!o)
        return client_end(client, client_fail(client, TD_MEMORY, "no memory"));
    o->client = client;
    buf_init(&o->json, 0);
    rc = set_url_read(client, set_url, &o->url);
    if (!rc)
        rc = get_description(o);
    if (!rc)
        rc = get_documents(o);
    if (!rc && !o->told.n_items && !o->told.description)
        rc = client_fail(client, TD_REFUSED, "there is no set at %s%s",
                         o->url.text, o->refused);
    if (!rc) {
        o->told.set_url = o->url.text;
        o->told.title = told(o->title);
        o->told.position = told(o->position);
        o->told.earliest = told(o->earliest);
        o->told.digest = told(o->digest);
        o->told.from = told(o->changes.from);
        o->told.n_lists = !o->change_list[0]    ? 0
                          : o->changes.is_index ? o->changes.n_entries
                                                : 1;
        o->told.items = o->items;
        on_offer(&o->told, user);
    }
    free_items(o);
    buf_fini(&o->json);
    free(o);
    return client_end(client, rc);
}

/*
 * document.c - reads the elements of a document, by their places.
 *
 *   <urlset>                       or <sitemapindex>
 *     <rs:ln rel="up" href="..."/>
 *     <rs:md capability="changelist" from="..." td:epoch="..."/>
 *     <url>                        or <sitemap>
 *       <loc>...</loc>
 *       <rs:md change="updated" datetime="..." td:seq="..."/>
 *     </url>
 *   </urlset>
 */
#include "client/source/document.h"

#include <stdlib.h>

#include "client/source/document_inside.h"

/* True for the Sitemap's namespace, two older spellings of it, and none. */
static bool
is_sitemap(xml_name ns)
{
    return !ns || document_is(ns, NS_SITEMAP) ||
           document_is(ns, "https://www.sitemaps.org/schemas/sitemap/0.9") ||
           document_is(ns, "http://www.google.com/schemas/sitemap/0.84");
}

static bool
is_rs(const struct xml_element *element, const char *name)
{
    return document_is(element->ns, NS_RS) && document_is(element->name, name);
}

static enum status
start_root(struct document *d, const struct xml_element *element,
           struct problem *why)
{
    d->head.is_index = document_is(element->name, "sitemapindex");
    if (!is_sitemap(element->ns) ||
        (!d->head.is_index && !document_is(element->name, "urlset")))
        return problem(why, STATUS_MALFORMED, "no urlset and no sitemapindex");
    d->head.has_root = true;
    d->ns = element->ns;
    d->place = PLACE_ROOT;
    return STATUS_OK;
}

static enum status
hand_over_link(struct document *d, const struct xml_element *element)
{
    document_clear_entry(d);
    if (!d->events.on_link || !document_read_ln(d, element))
        return STATUS_OK;
    d->fn_rc = d->events.on_link(&d->links[0], d->user);
    return d->fn_rc;
}

static enum status
start_in_root(struct document *d, const struct xml_element *element)
{
    if (element->ns == d->ns && (document_is(element->name, "url") ||
                                 document_is(element->name, "sitemap"))) {
        document_clear_entry(d);
        d->place = PLACE_ENTRY;
        return STATUS_OK;
    }
    d->n_passed++;
    if (is_rs(element, "md"))
        document_read_root(d, element);
    else if (is_rs(element, "ln"))
        return hand_over_link(d, element);
    return STATUS_OK;
}

static void
start_in_entry(struct document *d, const struct xml_element *element)
{
    static const char *const texts[] = {
        [TEXT_LOC] = "loc",
        [TEXT_LASTMOD] = "lastmod",
        [TEXT_CHANGEFREQ] = "changefreq",
        [TEXT_PRIORITY] = "priority",
    };

    for (size_t i = 0; element->ns == d->ns && i < 4; i++)
        if (document_is(element->name, texts[i])) {
            d->place = PLACE_TEXT;
            d->text_of = (enum document_text)i;
            buf_clear(&d->text);
            return;
        }
    d->n_passed++;
    if (is_rs(element, "md"))
        document_read_md(d, element);
    else if (is_rs(element, "ln"))
        document_read_ln(d, element);
}

static enum status
on_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct document *d = user;

    if (d->n_passed > 0) {
        d->n_passed++;
        return STATUS_OK;
    }
    switch (d->place) {
    case PLACE_NOWHERE:
        return start_root(d, element, why);
    case PLACE_ROOT:
        return start_in_root(d, element);
    case PLACE_ENTRY:
        start_in_entry(d, element);
        break;
    case PLACE_TEXT:
        d->n_passed++;
        break;
    }
    return STATUS_OK;
}

/* a deleted resource has no representation. */
static void
strip_deleted(struct change *change)
{
    change->hash = change->type = change->encoding = (struct slice){NULL, 0};
    change->length = LENGTH_NONE;
}

static enum status
end_entry(struct document *d)
{
    struct change *change = &d->fill.change;

    if (change->loc.size == 0) {
        d->head.n_unfit++;
        return STATUS_OK;
    }
    if (d->entry.has_kind && change->kind == CHANGE_DELETED)
        strip_deleted(change);
    d->entry.change = *change;
    d->entry.when_us = change->datetime_us != DATETIME_NONE
                           ? change->datetime_us
                           : change->lastmod_us;
    d->entry.links = d->links;
    d->entry.n_links = change->n_links;
    d->head.n_entries++;
    if (d->events.on_entry)
        d->fn_rc = d->events.on_entry(&d->entry, &d->head, d->user);
    return d->fn_rc;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct document *d = user;

    (void)why;
    if (d->n_passed > 0) {
        d->n_passed--;
        return STATUS_OK;
    }
    switch (d->place) {
    case PLACE_TEXT:
        document_read_text(d);
        d->place = PLACE_ENTRY;
        return STATUS_OK;
    case PLACE_ENTRY:
        d->place = PLACE_ROOT;
        return end_entry(d);
    default:
        return STATUS_OK;
    }
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    struct document *d = user;

    (void)why;
    if (d->place == PLACE_TEXT && d->n_passed == 0)
        buf_add_slice(&d->text, text);
    return STATUS_OK;
}

/* A robots.txt */

/* True if the URL is that of a host's robots.txt. */
static bool
is_robots(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;

    return path && !strcmp(path, "/robots.txt");
}

static enum status
end_line(struct document *d)
{
    enum status rc = STATUS_OK;

    document_clear_entry(d);
    if (!d->text.failed && document_read_line(d)) {
        d->head.has_root = d->head.is_index = true;
        rc = end_entry(d);
    }
    buf_clear(&d->text);
    return rc;
}

/* Splits bytes into lines. A line too long for `text` is ignored. */
static enum status
on_lines(struct document *d, struct slice bytes)
{
    enum status rc = STATUS_OK;

    while (!rc && bytes.size > 0) {
        size_t n = 0;

        while (n < bytes.size && bytes.data[n] != '\n' && bytes.data[n] != '\r')
            n++;
        buf_add(&d->text, bytes.data, n);
        if (n < bytes.size) {
            rc = end_line(d);
            n++;
        }
        bytes = (struct slice){bytes.data + n, bytes.size - n};
    }
    return rc;
}

static enum status
end_lines(struct document *d, struct problem *why)
{
    enum status rc = end_line(d);

    if (!rc && !d->head.has_root)
        return problem(why, STATUS_MALFORMED, "it names no Sitemap");
    return rc;
}

static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct document *d = user;
    enum status rc = d->xml ? xml_feed(d->xml, bytes, why) : on_lines(d, bytes);

    if (!d->xml)
        return rc;
    if (rc && why)
        why->line = xml_line(d->xml);
    return rc;
}

static struct document *
new_document(uint64_t max_bytes, bool is_lines, const char *base,
             const struct document_events *events, void *user)
{
    static const struct xml_events xml_events = {on_start, on_end, on_text};
    struct document *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->events = *events;
    d->user = user;
    d->head.at_us = d->head.completed_us = DATETIME_NONE;
    d->head.from_us = d->head.until_us = DATETIME_NONE;
    d->head.td.from_us = d->head.td.until_us = DATETIME_NONE;
    d->head.td.now_us = DATETIME_NONE;
    entry_init(&d->fill);
    buf_init(&d->text, DOCUMENT_TEXT_MAX);
    buf_init(&d->url, DOCUMENT_TEXT_MAX);
    d->base = slice_dup(slice_of(base));
    if (!is_lines)
        d->xml = xml_new(&xml_events, d, NULL, NULL, 0);
    d->gunzip = gunzip_new(max_bytes, true, on_bytes, d);
    if (!d->base || (!d->xml && !is_lines) || !d->gunzip) {
        document_free(d);
        return NULL;
    }
    return d;
}

struct document *
document_new(const char *base, const struct document_events *events, void *user)
{
    return document_new_moved(base, base, events, user);
}

struct document *
document_new_moved(const char *url, const char *base,
                   const struct document_events *events, void *user)
{
    return new_document(DOCUMENT_UNPACKED_MAX,
                        is_robots(url) || is_robots(base), base, events, user);
}

struct document *
document_new_within(uint64_t max_bytes, const char *base,
                    const struct document_events *events, void *user)
{
    return new_document(max_bytes, is_robots(base), base, events, user);
}

void
document_free(struct document *d)
{
    if (!d)
        return;
    gunzip_free(d->gunzip);
    xml_free(d->xml);
    entry_fini(&d->fill);
    buf_fini(&d->text);
    buf_fini(&d->url);
    free(d->base);
    free(d);
}

/* Sets the result. An invalid text, for the parser, is a malformed document. */
static enum status
judge(struct document *d, enum status rc)
{
    d->rc = d->fn_rc ? d->fn_rc : rc == STATUS_INVALID ? STATUS_MALFORMED : rc;
    return d->rc;
}

enum status
document_feed(struct document *d, struct slice bytes, struct problem *why)
{
    return d->rc ? d->rc : judge(d, gunzip_all(d->gunzip, bytes, why));
}

enum status
document_end(struct document *d, struct problem *why)
{
    enum status rc = d->rc;

    if (!rc)
        rc = gunzip_end(d->gunzip, why);
    if (!rc && !d->xml) {
        rc = end_lines(d, why);
    } else if (!rc) {
        rc = xml_end(d->xml, why);
        if (rc && why)
            why->line = xml_line(d->xml);
    }
    return judge(d, rc);
}

const struct document_head *
document_head(const struct document *d)
{
    return &d->head;
}

struct change
document_change(const struct document_entry *entry,
                struct link links[CHANGE_LINKS_MAX])
{
    struct change change = entry->change;
    size_t n =
        entry->n_links < CHANGE_LINKS_MAX ? entry->n_links : CHANGE_LINKS_MAX;

    if (!entry->has_kind)
        change.kind = CHANGE_UPDATED;
    for (size_t i = 0; i < n; i++) {
        const struct document_link *from = &entry->links[i];

        links[i] = (struct link){.rel = from->rel,
                                 .href = from->href,
                                 .hash = from->hash,
                                 .type = from->type,
                                 .modified_us = from->modified_us,
                                 .length = from->length,
                                 .pri = from->pri};
    }
    change.links = links;
    change.n_links = n;
    return change;
}

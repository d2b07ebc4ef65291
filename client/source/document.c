/*
 * document.c - reads documents: the values of elements, by their places.
 *
 *   <urlset>                       or <sitemapindex>
 *     <rs:ln rel="up" href="..."/>
 *     <rs:md capability="changelist" from="..." td:epoch="..."/>
 *     <url>                        or <sitemap>
 *       <loc>...</loc>
 *       <rs:md change="updated" datetime="..." td:seq="..."/>
 *     </url>
 *   </urlset>
 *
 * It reads values as their authors may have meant them: a time without a zone
 * is UTC, a hash of an unknown algorithm is ignored, a loc that was broken into
 * lines is one loc.
 */
#include "client/source/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gunzip.h"
#include "proto/number.h"
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/xml.h"
#include "proto/uri.h"

/* A loc of 2,048 characters, in bytes, with white space around it. */
#define DOCUMENT_TEXT_MAX 16384

/*
 * The place of the parser:
 *
 *   NOWHERE --> ROOT --> ENTRY --> TEXT    <loc> and the like: text alone
 *
 * and from any place into ignored elements, whose depth is `n_passed`.
 */
enum document_place { PLACE_NOWHERE, PLACE_ROOT, PLACE_ENTRY, PLACE_TEXT };

enum document_text { TEXT_LOC, TEXT_LASTMOD, TEXT_CHANGEFREQ, TEXT_PRIORITY };

struct document {
    struct document_events events;
    void *user;
    char *base;
    struct gunzip *gunzip;
    struct xml *xml;   /* NULL: it is a robots.txt */
    enum status rc;    /* the failure that ended the reading */
    enum status fn_rc; /* the failure of a callback */

    struct document_head head;
    xml_name ns; /* the root's */
    enum document_place place;
    unsigned n_passed;
    enum document_text text_of;
    bool is_starved; /* no memory for a part of the entry */
    struct buf text; /* of an element, or a line of a robots.txt */
    struct buf url;  /* the URL being resolved */

    /* The entry; `fill.links` and `links` are the same links. */
    struct entry fill;
    struct document_entry entry;
    struct document_link links[CHANGE_LINKS_MAX];
};

static bool
is_text(xml_name text, const char *word)
{
    return text && slice_is(xml_slice(text), word);
}

/* Values */

static bool
is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static struct slice
trim_spaces(struct slice text)
{
    while (text.size > 0 && is_space(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* The reader skips what it cannot understand, but never an entry that it has no
 * memory for: a mirror would delete the file of a missing entry. */
static void
starve(struct document *d, enum status rc)
{
    if (rc == STATUS_MEMORY)
        d->is_starved = true;
}

/* Copies `text` for the life of the entry; returns "" if it is too long. */
static struct slice
keep_text(struct document *d, struct slice text)
{
    struct slice copy = {NULL, 0};

    if (text.size > 0)
        starve(d, entry_copy(&d->fill, text, &copy, NULL));
    return copy;
}

/* Times */

#define TIME_MAX 64

/* Accepts "2026-04-05 10:00:00", "2026-04-05T10:00:00" and
 * "2026-04-05T10:00:00+0200": no W3C Datetimes, but clear enough. */
static int64_t
mended_time(struct slice text)
{
    char mended[TIME_MAX + 2];
    int64_t us;
    size_t size = text.size;

    if (size < 19 || size > TIME_MAX)
        return DATETIME_NONE;
    memcpy(mended, text.data, size);
    if (mended[10] == ' ' || mended[10] == 't')
        mended[10] = 'T';
    if (size > 23 && (mended[size - 5] == '+' || mended[size - 5] == '-')) {
        memmove(mended + size - 1, mended + size - 2, 2);
        mended[size - 2] = ':';
        size++;
    } else if (mended[size - 1] == 'z') {
        mended[size - 1] = 'Z';
    } else if (size == 19 || mended[size - 3] != ':') {
        mended[size++] = 'Z';
    }
    return datetime_read_any((struct slice){mended, size}, &us) ? DATETIME_NONE
                                                                : us;
}

static int64_t
time_of(struct slice text)
{
    int64_t us;

    text = trim_spaces(text);
    return datetime_read_any(text, &us) ? mended_time(text) : us;
}

/* Texts */

/* Copies the text of a URL: a blank becomes %20, a line break and the white
 * space around it nothing. */
static void
add_url_text(struct buf *to, struct slice text)
{
    while (text.size > 0) {
        size_t size = 0;
        bool is_broken = false;

        while (size < text.size && is_space(text.data[size])) {
            is_broken |= text.data[size] == '\n' || text.data[size] == '\r';
            size++;
        }
        for (size_t i = 0; i < size && !is_broken; i++)
            BUF_ADD(to, "%20");
        text.data += size;
        text.size -= size;
        size = 0;
        while (size < text.size && !is_space(text.data[size]))
            size++;
        buf_add(to, text.data, size);
        text.data += size;
        text.size -= size;
    }
}

/* Returns the absolute URL, or "" if `text` is no URL. */
static struct slice
url_of(struct document *d, struct slice text)
{
    struct slice url = {NULL, 0};
    struct buf raw;

    text = trim_spaces(text);
    if (text.size == 0)
        return url;
    buf_init(&raw, DOCUMENT_TEXT_MAX);
    add_url_text(&raw, text);
    buf_clear(&d->url);
    /* An absolute URL names its resource unchanged, including dot segments. */
    if (!raw.failed && !uri_check(buf_slice(&raw), "url", NULL))
        buf_add_slice(&d->url, buf_slice(&raw));
    else if (!raw.failed)
        uri_resolve(&d->url, slice_of(d->base), buf_slice(&raw));
    if (!raw.failed && !d->url.failed &&
        !uri_check(buf_slice(&d->url), "url", NULL))
        url = keep_text(d, buf_slice(&d->url));
    if (raw.is_starved || d->url.is_starved)
        d->is_starved = true;
    buf_fini(&raw);
    return url;
}

/* Returns those of several digests that are valid: adds each word if the list
 * stays valid with it. */
static struct slice
hash_of(struct document *d, struct slice text)
{
    struct slice kept = {NULL, 0};

    text = trim_spaces(text);
    while (text.size > 0) {
        struct buf list;
        size_t size = 0;

        while (size < text.size && !is_space(text.data[size]))
            size++;
        buf_init(&list, 1024);
        buf_add_slice(&list, kept);
        BUF_ADD(&list, " ");
        buf_add(&list, text.data, size);
        if (!list.failed)
            starve(d, entry_hash(&d->fill, buf_slice(&list), &kept, NULL));
        else if (list.is_starved)
            d->is_starved = true;
        buf_fini(&list);
        text = trim_spaces((struct slice){text.data + size, text.size - size});
    }
    return kept;
}

static uint64_t
length_of(struct slice text)
{
    uint64_t length;

    return entry_length(trim_spaces(text), &length, NULL) ? LENGTH_NONE
                                                          : length;
}

static struct slice
type_of(struct document *d, struct slice text)
{
    text = trim_spaces(text);
    return is_media_type(text) ? keep_text(d, text) : (struct slice){NULL, 0};
}

/* R-020: a path in a package, "/" and a name. */
static struct slice
path_of(struct document *d, struct slice text)
{
    return text.size > 1 ? keep_text(d, text) : (struct slice){NULL, 0};
}

/* Elements */

static bool
is_tidings(const struct xml_attribute *a)
{
    return is_text(a->ns, NS_TIDINGS);
}

/* True for ResourceSync's attributes: some sources add the prefix. */
static bool
is_plain(const struct xml_attribute *a)
{
    return !a->ns || is_text(a->ns, NS_RS);
}

/* Reads at, completed, from or until. False: it is another attribute. */
static bool
read_interval(const struct xml_attribute *a, int64_t *at, int64_t *completed,
              int64_t *from, int64_t *until)
{
    int64_t *to = is_text(a->name, "at")          ? at
                  : is_text(a->name, "completed") ? completed
                  : is_text(a->name, "from")      ? from
                  : is_text(a->name, "until")     ? until
                                                  : NULL;

    if (to)
        *to = time_of(xml_value(a));
    return to != NULL;
}

static void
read_root(struct document *d, const struct xml_element *md)
{
    struct document_head *head = &d->head;
    struct coverage *td = &head->td;
    bool has_after = false;
    bool has_last = false;

    for (size_t i = 0; i < md->n_attributes; i++) {
        const struct xml_attribute *a = &md->attributes[i];
        struct slice value = xml_value(a);

        if (is_tidings(a) && is_text(a->name, "epoch")) {
            if (epoch_is_valid(value))
                memcpy(td->epoch, value.data, EPOCH_SIZE);
        } else if (is_tidings(a) && is_text(a->name, "after")) {
            has_after = number_read(value, &td->after);
        } else if (is_tidings(a) && is_text(a->name, "last")) {
            has_last = number_read(value, &td->last);
        } else if (is_tidings(a) && is_text(a->name, "digest")) {
            td->has_digest = !digest_read(value, &td->digest);
        } else if (is_plain(a) && is_text(a->name, "capability")) {
            head->has_capability =
                !capability_of(trim_spaces(value), &head->capability);
        } else if (is_plain(a)) {
            read_interval(a, &head->at_us, &head->completed_us, &head->from_us,
                          &head->until_us);
        }
    }
    head->has_td_range = has_after && has_last && td->after <= td->last;
    td->from_us = head->from_us;
    td->until_us = head->until_us;
}

static void
read_tidings(struct document *d, const struct xml_attribute *a)
{
    struct change *change = &d->fill.change;
    struct slice value = xml_value(a);

    if (is_text(a->name, "seq")) {
        if (!number_read(value, &change->seq))
            change->seq = 0;
    } else if (is_text(a->name, "datetime")) {
        change->source_us = time_of(value);
    } else if (is_text(a->name, "tags")) {
        (void)!entry_tags(&d->fill, value, NULL);
    }
}

static void
read_foreign(struct document *d, const struct xml_attribute *a,
             struct entry_attributes to)
{
    struct attribute attribute = {
        .ns = xml_slice(a->ns),
        .prefix = xml_slice(a->prefix),
        .name = xml_slice(a->name),
    };

    enum status rc = entry_copy(&d->fill, xml_value(a), &attribute.value, NULL);

    if (!rc)
        rc = entry_attribute(&d->fill, to, &attribute, NULL);
    starve(d, rc);
}

/* An entry should have one rs:md. If it has more, later values replace earlier
 * ones, and the foreign attributes of a later one replace all earlier ones: so
 * no name is there twice, and the attributes are contiguous even if those of a
 * link came in between. */
static void
read_md(struct document *d, const struct xml_element *md)
{
    struct change *change = &d->fill.change;
    struct document_entry *entry = &d->entry;
    const struct attribute *foreign = NULL;
    size_t n_foreign = 0;
    struct entry_attributes to = {&foreign, &n_foreign};

    for (size_t i = 0; i < md->n_attributes; i++) {
        const struct xml_attribute *a = &md->attributes[i];
        struct slice value = xml_value(a);

        if (is_tidings(a) && is_text(a->name, "digest"))
            entry->has_digest = !digest_read(value, &entry->digest);
        else if (is_tidings(a))
            read_tidings(d, a);
        else if (!is_plain(a))
            read_foreign(d, a, to);
        else if (is_text(a->name, "change"))
            entry->has_kind =
                !change_kind_of(trim_spaces(value), &change->kind);
        else if (is_text(a->name, "datetime"))
            change->datetime_us = time_of(value);
        else if (is_text(a->name, "hash"))
            change->hash = hash_of(d, value);
        else if (is_text(a->name, "length"))
            change->length = length_of(value);
        else if (is_text(a->name, "type"))
            change->type = type_of(d, value);
        else if (is_text(a->name, "encoding"))
            change->encoding = keep_text(d, trim_spaces(value));
        else if (is_text(a->name, "capability"))
            entry->capability = keep_text(d, trim_spaces(value));
        else if (is_text(a->name, "path"))
            entry->path = path_of(d, value);
        else
            read_interval(a, &entry->at_us, &entry->completed_us,
                          &entry->from_us, &entry->until_us);
    }
    if (n_foreign > 0) {
        change->attributes = foreign;
        change->n_attributes = n_foreign;
    }
}

static bool
read_ln(struct document *d, const struct xml_element *ln)
{
    struct document_link *link;
    struct link *same;
    struct entry_attributes to;

    if (entry_link(&d->fill, &same, NULL))
        return false;
    to = (struct entry_attributes){&same->attributes, &same->n_attributes};
    link = &d->links[d->fill.change.n_links - 1];
    *link = (struct document_link){
        .length = LENGTH_NONE,
        .modified_us = DATETIME_NONE,
    };
    for (size_t i = 0; i < ln->n_attributes; i++) {
        const struct xml_attribute *a = &ln->attributes[i];
        struct slice value = xml_value(a);

        if (is_tidings(a) && is_text(a->name, "digest"))
            link->has_digest = !digest_read(value, &link->digest);
        else if (is_tidings(a))
            continue;
        else if (!is_plain(a))
            read_foreign(d, a, to);
        else if (is_text(a->name, "rel"))
            link->rel = keep_text(d, trim_spaces(value));
        else if (is_text(a->name, "href"))
            link->href = url_of(d, value);
        else if (is_text(a->name, "type"))
            link->type = type_of(d, value);
        else if (is_text(a->name, "hash"))
            link->hash = hash_of(d, value);
        else if (is_text(a->name, "length"))
            link->length = length_of(value);
        else if (is_text(a->name, "modified"))
            link->modified_us = time_of(value);
        else if (is_text(a->name, "encoding"))
            same->encoding = keep_text(d, trim_spaces(value));
        else if (is_text(a->name, "path"))
            link->path = path_of(d, value);
        else if (is_text(a->name, "pri") &&
                 entry_pri(trim_spaces(value), &link->pri, NULL))
            link->pri = 0;
    }
    if (link->rel.size == 0 || link->href.size == 0) {
        d->fill.change.n_links--;
        return false;
    }
    same->rel = link->rel;
    same->href = link->href;
    same->type = link->type;
    same->hash = link->hash;
    same->length = link->length;
    same->modified_us = link->modified_us;
    same->pri = link->pri;
    return true;
}

static void
read_text(struct document *d)
{
    struct change *change = &d->fill.change;
    struct slice text = trim_spaces(buf_slice(&d->text));

    if (d->text.is_starved)
        d->is_starved = true;
    if (d->text.failed)
        return;
    switch (d->text_of) {
    case TEXT_LOC:
        if (change->loc.size == 0)
            change->loc = url_of(d, text);
        break;
    case TEXT_LASTMOD:
        change->lastmod_us = time_of(text);
        change->is_lastmod_date = datetime_is_date(text);
        break;
    case TEXT_CHANGEFREQ:
        if (is_changefreq(text))
            change->changefreq = keep_text(d, text);
        break;
    case TEXT_PRIORITY:
        if (is_priority(text))
            change->priority = keep_text(d, text);
        break;
    }
}

/* "Sitemap: URL", in any case, perhaps after a byte order mark and before a
 * comment (RFC 9309 section 2.2.4, sitemaps.org). */
static bool
read_line(struct document *d)
{
    static const char name[] = "sitemap:";
    struct slice line = buf_slice(&d->text);
    const char *comment;

    if (slice_starts(line, "\xEF\xBB\xBF"))
        line = (struct slice){line.data + 3, line.size - 3};
    comment = line.size > 0 ? memmem(line.data, line.size, " #", 2) : NULL;
    if (comment)
        line.size = (size_t)(comment - line.data);
    line = trim_spaces(line);
    if (line.size < sizeof(name) ||
        strncasecmp(line.data, name, sizeof(name) - 1) != 0)
        return false;
    line = (struct slice){line.data + sizeof(name) - 1,
                          line.size - (sizeof(name) - 1)};
    d->fill.change.loc = url_of(d, trim_spaces(line));
    return d->fill.change.loc.size > 0;
}

static void
clear_entry(struct document *d)
{
    entry_clear(&d->fill);
    d->entry = (struct document_entry){
        .when_us = DATETIME_NONE,
        .at_us = DATETIME_NONE,
        .completed_us = DATETIME_NONE,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
}

/* Places */

/* True for the Sitemap's namespace, two older spellings of it, and none. */
static bool
is_sitemap(xml_name ns)
{
    return !ns || is_text(ns, NS_SITEMAP) ||
           is_text(ns, "https://www.sitemaps.org/schemas/sitemap/0.9") ||
           is_text(ns, "http://www.google.com/schemas/sitemap/0.84");
}

static bool
is_rs(const struct xml_element *element, const char *name)
{
    return is_text(element->ns, NS_RS) && is_text(element->name, name);
}

static enum status
start_root(struct document *d, const struct xml_element *element,
           struct problem *why)
{
    d->head.is_index = is_text(element->name, "sitemapindex");
    if (!is_sitemap(element->ns) ||
        (!d->head.is_index && !is_text(element->name, "urlset")))
        return problem(why, STATUS_MALFORMED, "no urlset and no sitemapindex");
    d->head.has_root = true;
    d->ns = element->ns;
    d->place = PLACE_ROOT;
    return STATUS_OK;
}

static enum status
hand_over_link(struct document *d, const struct xml_element *element)
{
    clear_entry(d);
    if (!d->events.on_link || !read_ln(d, element))
        return STATUS_OK;
    d->fn_rc = d->events.on_link(&d->links[0], d->user);
    return d->fn_rc;
}

static enum status
start_in_root(struct document *d, const struct xml_element *element)
{
    if (element->ns == d->ns &&
        (is_text(element->name, "url") || is_text(element->name, "sitemap"))) {
        clear_entry(d);
        d->place = PLACE_ENTRY;
        return STATUS_OK;
    }
    d->n_passed++;
    if (is_rs(element, "md"))
        read_root(d, element);
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
        if (is_text(element->name, texts[i])) {
            d->place = PLACE_TEXT;
            d->text_of = (enum document_text)i;
            buf_clear(&d->text);
            return;
        }
    d->n_passed++;
    if (is_rs(element, "md"))
        read_md(d, element);
    else if (is_rs(element, "ln"))
        read_ln(d, element);
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

/* R-145: a deleted resource has no representation. */
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

    if (d->n_passed > 0) {
        d->n_passed--;
        return STATUS_OK;
    }
    switch (d->place) {
    case PLACE_TEXT:
        read_text(d);
        d->place = PLACE_ENTRY;
        return STATUS_OK;
    case PLACE_ENTRY:
        d->place = PLACE_ROOT;
        return d->is_starved ? problem_memory(why) : end_entry(d);
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

    clear_entry(d);
    if (!d->text.failed && read_line(d)) {
        d->head.has_root = d->head.is_index = true;
        rc = end_entry(d);
    }
    if (d->is_starved || d->text.is_starved)
        rc = STATUS_MEMORY;
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
        return rc == STATUS_MEMORY ? problem_memory(why) : rc;
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
judge_status(struct document *d, enum status rc)
{
    d->rc = d->fn_rc ? d->fn_rc : rc == STATUS_INVALID ? STATUS_MALFORMED : rc;
    return d->rc;
}

enum status
document_feed(struct document *d, struct slice bytes, struct problem *why)
{
    return d->rc ? d->rc : judge_status(d, gunzip_all(d->gunzip, bytes, why));
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
    if (!rc && d->is_starved) /* for a link of the root */
        rc = problem_memory(why);
    return judge_status(d, rc);
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

/*
 * document_values.c - reads the attributes and texts of a document.
 *
 * It reads values as their authors may have meant them: a time without a zone
 * is UTC, a hash of an unknown algorithm is ignored, a loc that was broken into
 * lines is one loc.
 */
#include <stdio.h>

#include "client/source/document_inside.h"
#include "proto/number.h"
#include "proto/uri.h"

static bool
is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static struct slice
trim(struct slice text)
{
    while (text.size > 0 && is_space(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* Copies `text` for the life of the entry; returns "" if it is too long. */
static struct slice
keep(struct document *d, struct slice text)
{
    struct slice copy = {NULL, 0};

    if (text.size > 0 && entry_copy(&d->fill, text, &copy, NULL))
        return (struct slice){NULL, 0};
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

    text = trim(text);
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

    text = trim(text);
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
        url = keep(d, buf_slice(&d->url));
    buf_fini(&raw);
    return url;
}

/* Returns those of several digests that are valid: adds each word if the list
 * stays valid with it. */
static struct slice
hash_of(struct document *d, struct slice text)
{
    struct slice kept = {NULL, 0};

    text = trim(text);
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
            (void)!entry_hash(&d->fill, buf_slice(&list), &kept, NULL);
        buf_fini(&list);
        text = trim((struct slice){text.data + size, text.size - size});
    }
    return kept;
}

static uint64_t
length_of(struct slice text)
{
    uint64_t length;

    return entry_length(trim(text), &length, NULL) ? LENGTH_NONE : length;
}

static struct slice
type_of(struct document *d, struct slice text)
{
    text = trim(text);
    return is_media_type(text) ? keep(d, text) : (struct slice){NULL, 0};
}

/* R-020: a path in a package, "/" and a name. */
static struct slice
path_of(struct document *d, struct slice text)
{
    return text.size > 1 ? keep(d, text) : (struct slice){NULL, 0};
}

/* Elements */

static bool
is_tidings(const struct xml_attribute *a)
{
    return document_is(a->ns, NS_TIDINGS);
}

/* True for ResourceSync's attributes: some sources add the prefix. */
static bool
is_plain(const struct xml_attribute *a)
{
    return !a->ns || document_is(a->ns, NS_RS);
}

/* Reads at, completed, from or until. False: it is another attribute. */
static bool
read_interval(const struct xml_attribute *a, int64_t *at, int64_t *completed,
              int64_t *from, int64_t *until)
{
    int64_t *to = document_is(a->name, "at")          ? at
                  : document_is(a->name, "completed") ? completed
                  : document_is(a->name, "from")      ? from
                  : document_is(a->name, "until")     ? until
                                                      : NULL;

    if (to)
        *to = time_of(xml_value(a));
    return to != NULL;
}

void
document_read_root(struct document *d, const struct xml_element *md)
{
    struct document_head *head = &d->head;
    struct coverage *td = &head->td;
    bool has_after = false;
    bool has_last = false;

    for (size_t i = 0; i < md->n_attributes; i++) {
        const struct xml_attribute *a = &md->attributes[i];
        struct slice value = xml_value(a);

        if (is_tidings(a) && document_is(a->name, "epoch")) {
            if (epoch_is_valid(value))
                memcpy(td->epoch, value.data, EPOCH_SIZE);
        } else if (is_tidings(a) && document_is(a->name, "after")) {
            has_after = number_read(value, &td->after);
        } else if (is_tidings(a) && document_is(a->name, "last")) {
            has_last = number_read(value, &td->last);
        } else if (is_tidings(a) && document_is(a->name, "digest")) {
            td->has_digest = !digest_read(value, &td->digest);
        } else if (is_plain(a) && document_is(a->name, "capability")) {
            head->has_capability =
                !capability_of(trim(value), &head->capability);
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

    if (document_is(a->name, "seq")) {
        if (!number_read(value, &change->seq))
            change->seq = 0;
    } else if (document_is(a->name, "datetime")) {
        change->source_us = time_of(value);
    } else if (document_is(a->name, "tags")) {
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

    if (!entry_copy(&d->fill, xml_value(a), &attribute.value, NULL))
        (void)!entry_attribute(&d->fill, to, &attribute, NULL);
}

/* An entry should have one rs:md. If it has more, later values replace earlier
 * ones, and the foreign attributes of a later one replace all earlier ones: so
 * no name is there twice, and the attributes are contiguous even if those of a
 * link came in between. */
void
document_read_md(struct document *d, const struct xml_element *md)
{
    struct change *change = &d->fill.change;
    struct document_entry *entry = &d->entry;
    const struct attribute *foreign = NULL;
    size_t n_foreign = 0;
    struct entry_attributes to = {&foreign, &n_foreign};

    for (size_t i = 0; i < md->n_attributes; i++) {
        const struct xml_attribute *a = &md->attributes[i];
        struct slice value = xml_value(a);

        if (is_tidings(a))
            read_tidings(d, a);
        else if (!is_plain(a))
            read_foreign(d, a, to);
        else if (document_is(a->name, "change"))
            entry->has_kind = !change_kind_of(trim(value), &change->kind);
        else if (document_is(a->name, "datetime"))
            change->datetime_us = time_of(value);
        else if (document_is(a->name, "hash"))
            change->hash = hash_of(d, value);
        else if (document_is(a->name, "length"))
            change->length = length_of(value);
        else if (document_is(a->name, "type"))
            change->type = type_of(d, value);
        else if (document_is(a->name, "encoding"))
            change->encoding = keep(d, trim(value));
        else if (document_is(a->name, "capability"))
            entry->capability = keep(d, trim(value));
        else if (document_is(a->name, "path"))
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

bool
document_read_ln(struct document *d, const struct xml_element *ln)
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

        if (is_tidings(a) && document_is(a->name, "digest"))
            link->has_digest = !digest_read(value, &link->digest);
        else if (is_tidings(a))
            continue;
        else if (!is_plain(a))
            read_foreign(d, a, to);
        else if (document_is(a->name, "rel"))
            link->rel = keep(d, trim(value));
        else if (document_is(a->name, "href"))
            link->href = url_of(d, value);
        else if (document_is(a->name, "type"))
            link->type = type_of(d, value);
        else if (document_is(a->name, "hash"))
            link->hash = hash_of(d, value);
        else if (document_is(a->name, "length"))
            link->length = length_of(value);
        else if (document_is(a->name, "modified"))
            link->modified_us = time_of(value);
        else if (document_is(a->name, "encoding"))
            same->encoding = keep(d, trim(value));
        else if (document_is(a->name, "path"))
            link->path = path_of(d, value);
        else if (document_is(a->name, "pri") &&
                 entry_pri(trim(value), &link->pri, NULL))
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

void
document_read_text(struct document *d)
{
    struct change *change = &d->fill.change;
    struct slice text = trim(buf_slice(&d->text));

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
            change->changefreq = keep(d, text);
        break;
    case TEXT_PRIORITY:
        if (is_priority(text))
            change->priority = keep(d, text);
        break;
    }
}

/* "Sitemap: URL", in any case, perhaps after a byte order mark and before a
 * comment (RFC 9309 section 2.2.4, sitemaps.org). */
bool
document_read_line(struct document *d)
{
    static const char name[] = "sitemap:";
    struct slice line = buf_slice(&d->text);
    const char *comment;

    if (slice_starts(line, "\xEF\xBB\xBF"))
        line = (struct slice){line.data + 3, line.size - 3};
    comment = line.size > 0 ? memmem(line.data, line.size, " #", 2) : NULL;
    if (comment)
        line.size = (size_t)(comment - line.data);
    line = trim(line);
    if (line.size < sizeof(name) ||
        strncasecmp(line.data, name, sizeof(name) - 1) != 0)
        return false;
    line = (struct slice){line.data + sizeof(name) - 1,
                          line.size - (sizeof(name) - 1)};
    d->fill.change.loc = url_of(d, trim(line));
    return d->fill.change.loc.size > 0;
}

void
document_clear_entry(struct document *d)
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

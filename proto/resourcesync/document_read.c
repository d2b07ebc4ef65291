/*
 * document_read.c - reads documents: the values of elements, by their places.
 *
 *   <urlset>                       or <sitemapindex>, <rss>, <feed>
 *     <rs:ln rel="up" href="..."/>
 *     <rs:md capability="changelist" from="..." td:epoch="..."/>
 *     <url>                        or <sitemap>, <item>, <entry>
 *       <loc>...</loc>
 *       <rs:md change="updated" datetime="..." td:seq="..."/>
 *     </url>
 *   </urlset>
 */
#include "proto/resourcesync/document_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/memory.h"
#include "proto/number.h"
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/text_encoding.h"
#include "proto/resourcesync/xml.h"
#include "proto/uri.h"

/* A loc of 2,048 characters, in bytes, with white space around it. */
#define DOCUMENT_TEXT_MAX 16384

/* The names that the reader knows. The parser interns them, so that it compares
 * addresses. */
enum word {
    W_NS_SITEMAP,
    W_NS_RS,
    W_NS_TIDINGS,
    W_NS_XML,
    W_URLSET,
    W_SITEMAPINDEX,
    W_URL,
    W_SITEMAP,
    W_RSS,
    W_RDF,
    W_FEED,
    W_CHANNEL,
    W_ITEM,
    W_ENTRY,
    W_MD,
    W_LN,
    W_LOC,
    W_LASTMOD,
    W_CHANGEFREQ,
    W_PRIORITY,
    W_LINK,
    W_GUID,
    W_ID,
    W_PUBDATE,
    W_DATE,
    W_UPDATED,
    W_MODIFIED,
    W_PUBLISHED,
    W_CAPABILITY,
    W_AT,
    W_COMPLETED,
    W_FROM,
    W_UNTIL,
    W_CHANGE,
    W_DATETIME,
    W_HASH,
    W_LENGTH,
    W_TYPE,
    W_ENCODING,
    W_PATH,
    W_REL,
    W_HREF,
    W_PRI,
    W_BASE,
    W_IS_PERMALINK,
    W_EPOCH,
    W_AFTER,
    W_LAST,
    W_DIGEST,
    W_SEQ,
    W_TAGS,
    W_PREFIX_RS, /* as prefixes and namespaces, for the scanner */
    W_PREFIX_TD,
    N_WORDS
};

static const char *const words[N_WORDS] = {
    [W_NS_SITEMAP] = NS_SITEMAP,
    [W_NS_RS] = NS_RS,
    [W_NS_TIDINGS] = NS_TIDINGS,
    [W_NS_XML] = "http://www.w3.org/XML/1998/namespace",
    [W_URLSET] = "urlset",
    [W_SITEMAPINDEX] = "sitemapindex",
    [W_URL] = "url",
    [W_SITEMAP] = "sitemap",
    [W_RSS] = "rss",
    [W_RDF] = "RDF",
    [W_FEED] = "feed",
    [W_CHANNEL] = "channel",
    [W_ITEM] = "item",
    [W_ENTRY] = "entry",
    [W_MD] = "md",
    [W_LN] = "ln",
    [W_LOC] = "loc",
    [W_LASTMOD] = "lastmod",
    [W_CHANGEFREQ] = "changefreq",
    [W_PRIORITY] = "priority",
    [W_LINK] = "link",
    [W_GUID] = "guid",
    [W_ID] = "id",
    [W_PUBDATE] = "pubDate",
    [W_DATE] = "date",
    [W_UPDATED] = "updated",
    [W_MODIFIED] = "modified",
    [W_PUBLISHED] = "published",
    [W_CAPABILITY] = "capability",
    [W_AT] = "at",
    [W_COMPLETED] = "completed",
    [W_FROM] = "from",
    [W_UNTIL] = "until",
    [W_CHANGE] = "change",
    [W_DATETIME] = "datetime",
    [W_HASH] = "hash",
    [W_LENGTH] = "length",
    [W_TYPE] = "type",
    [W_ENCODING] = "encoding",
    [W_PATH] = "path",
    [W_REL] = "rel",
    [W_HREF] = "href",
    [W_PRI] = "pri",
    [W_BASE] = "base",
    [W_IS_PERMALINK] = "isPermaLink",
    [W_EPOCH] = "epoch",
    [W_AFTER] = "after",
    [W_LAST] = "last",
    [W_DIGEST] = "digest",
    [W_SEQ] = "seq",
    [W_TAGS] = "tags",
    [W_PREFIX_RS] = "rs",
    [W_PREFIX_TD] = "td",
};

/* What a namespace is to the reader. */
enum space {
    SPACE_NONE,
    SPACE_SITEMAP,
    SPACE_RS,
    SPACE_TIDINGS,
    SPACE_ATOM,
    SPACE_RSS, /* 1.0 */
    SPACE_RDF,
    SPACE_DUBLIN_CORE,
    SPACE_DRAFT, /* of ResourceSync in 2012 */
    SPACE_FOREIGN
};

/* Known namespaces, without "http://", "www." and the last "/". `is_begin`:
 * those that go on with "/" or "." are meant, too. */
static const struct spelling {
    const char *text;
    enum space space;
    bool is_begin;
} spellings[] = {
    {"sitemaps.org/schemas/sitemap/0", SPACE_SITEMAP, true},
    {"sitemap.org/schemas/sitemap/0", SPACE_SITEMAP, true},
    {"google.com/schemas/sitemap/0", SPACE_SITEMAP, true},
    {"openarchives.org/rs/terms", SPACE_RS, false},
    {"w3.org/2005/atom", SPACE_ATOM, false},
    {"purl.org/atom/ns#", SPACE_ATOM, false},
    {"purl.org/rss/1.0", SPACE_RSS, false},
    {"w3.org/1999/02/22-rdf-syntax-ns#", SPACE_RDF, false},
    {"purl.org/dc/elements/1.1", SPACE_DUBLIN_CORE, false},
    {"purl.org/dc/terms", SPACE_DUBLIN_CORE, false},
};

/*
 * The place of the parser:
 *
 *   NOWHERE --> ROOT --> ENTRY --> TEXT    <loc> and the like: text alone
 *
 * and from any place into ignored elements, whose depth is `n_passed`. The
 * channel of a feed is passed through: its children are those of the root.
 */
enum document_place { PLACE_NOWHERE, PLACE_ROOT, PLACE_ENTRY, PLACE_TEXT };

enum document_text {
    TEXT_LOC,
    TEXT_LASTMOD,
    TEXT_CHANGEFREQ,
    TEXT_PRIORITY,
    TEXT_GUID,     /* the loc, if there is no other */
    TEXT_PUBLISHED /* the lastmod, if there is no other */
};

enum document_form { FORM_UNKNOWN, FORM_XML, FORM_TEXT, FORM_ROBOTS };

struct document_reader {
    struct document_events events;
    void *user;
    char *base;
    enum document_form form;
    struct text_encoding *encoding;
    struct xml *xml;
    xml_name names[N_WORDS];
    enum status rc;    /* the failure that ended the reading */
    enum status fn_rc; /* the failure of a callback */

    struct document_head head;
    const struct root *root; /* NULL: none yet */
    xml_name root_ns;
    enum document_place place;
    unsigned n_passed;
    bool is_in_channel; /* of RSS, whose links count there alone */
    enum document_text text_of;
    bool is_starved;    /* no memory for a part of the entry */
    bool has_md;        /* the root's */
    uint64_t line;      /* of a text */
    uint64_t n_skipped; /* lines before the root that the parser does not see */
    uint64_t entry_line;
    xml_name last_ns; /* the last namespace that was looked up ... */
    enum space last_space;
    struct buf text; /* of an element, or a line */
    struct buf url;  /* the URL being resolved */
    struct buf raw;

    /* The entry; `fill.links` and `links` are the same links. */
    struct entry fill;
    struct document_entry entry;
    struct document_link links[CHANGE_LINKS_MAX];
    bool is_stray;
    bool has_date;      /* its lastmod is not that of TEXT_PUBLISHED */
    bool is_change_bad; /* a change of no known kind */
    char *outer_base;   /* the base outside of it; NULL: the same */
    struct slice bad;   /* the loc or change that cannot be used */
    struct slice guid;  /* see TEXT_GUID */
};

static inline bool
is_word(const struct document_reader *d, xml_name name, enum word word)
{
    return name == d->names[word];
}

/* The report */

/* The line, in the document as it was sent. */
static uint64_t
current_line(const struct document_reader *d)
{
    uint64_t line = d->form == FORM_XML ? xml_line(d->xml) : d->line;

    return line + text_encoding_lines(d->encoding) + d->n_skipped;
}

static void
mend(struct document_reader *d, enum list_mended kind, struct slice text)
{
    list_report_mended(&d->head.report, kind, text, current_line(d));
}

/* The same with the name of an attribute. */
static void
mend_attribute(struct document_reader *d, const char *name, struct slice value)
{
    char text[LIST_EXAMPLE_MAX + 1];
    int size = snprintf(text, sizeof(text), "%s=%.*s", name, SLICE_ARG(value));

    mend(d, LIST_ATTRIBUTE,
         (struct slice){text, (size_t)size < sizeof(text) ? (size_t)size
                                                          : sizeof(text) - 1});
}

static void
leave_out(struct document_reader *d, enum list_left_out kind, struct slice text)
{
    list_report_left_out(&d->head.report, kind, text, d->entry_line);
}

/* Namespaces */

static enum space
look_up_space(struct document_reader *d, xml_name ns)
{
    struct slice text = xml_slice(ns);
    const char *after = memmem(text.data, text.size, "://", 3);

    if (namespace_is_draft(text))
        return SPACE_DRAFT;
    if (after)
        text = (struct slice){after + 3,
                              text.size - (size_t)(after + 3 - text.data)};
    if (text.size > 4 && !strncasecmp(text.data, "www.", 4))
        slice_skip(&text, 4);
    while (text.size > 0 && text.data[text.size - 1] == '/')
        text.size--;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        const struct spelling *s = &spellings[i];
        size_t size = strlen(s->text);

        if (text.size < size || strncasecmp(text.data, s->text, size) ||
            (text.size > size &&
             (!s->is_begin || !strchr("/.", text.data[size]))))
            continue;
        if (s->space == SPACE_SITEMAP || s->space == SPACE_RS)
            mend(d, LIST_NAMESPACE, xml_slice(ns));
        return s->space;
    }
    return SPACE_FOREIGN;
}

static enum space
space_of(struct document_reader *d, xml_name ns)
{
    if (!ns)
        return SPACE_NONE;
    if (is_word(d, ns, W_NS_SITEMAP))
        return SPACE_SITEMAP;
    if (is_word(d, ns, W_NS_RS))
        return SPACE_RS;
    if (is_word(d, ns, W_NS_TIDINGS))
        return SPACE_TIDINGS;
    if (ns != d->last_ns) {
        uint64_t n = d->head.report.mended[LIST_NAMESPACE];

        d->last_ns = ns;
        d->last_space = look_up_space(d, ns);
        if (n > 0) /* counted once */
            d->head.report.mended[LIST_NAMESPACE] = n;
    }
    return d->last_space;
}

/* Values */

/* The reader skips what it cannot understand, but never an entry that it has no
 * memory for: a mirror would delete the file of a missing entry. */
static void
starve(struct document_reader *d, enum status rc)
{
    if (rc == STATUS_MEMORY)
        d->is_starved = true;
}

/* Copies `text` for the life of the entry; returns "" if it is too long. */
static struct slice
keep_text(struct document_reader *d, struct slice text)
{
    struct slice copy = {NULL, 0};

    if (text.size > 0)
        starve(d, entry_copy(&d->fill, text, &copy, NULL));
    return copy;
}

/* Reads a time; `is_whole`: the standard demands a complete one. */
static int64_t
time_of(struct document_reader *d, struct slice text, bool is_whole,
        bool *is_date)
{
    bool is_feed = d->head.kind == DOCUMENT_RSS; /* dates of mail are right */
    int64_t us;
    bool has_no_time;

    text = slice_without_spaces(text);
    if (is_date)
        *is_date = datetime_is_date(text);
    if (!(is_whole ? datetime_read(text, &us) : datetime_read_any(text, &us)))
        return us;
    if (datetime_read_any(text, &us)) {
        if (datetime_read_loose(text, &us, &has_no_time))
            us = DATETIME_NONE;
        else if (is_date)
            *is_date = has_no_time;
    }
    if (!is_feed || us == DATETIME_NONE)
        mend(d, LIST_TIME, text);
    return us;
}

/* True if names of resources are taken as they are. */
static bool
is_verbatim(const struct document_reader *d)
{
    return d->head.td.epoch[0] || d->base[0] == '\0';
}

/* A URL of http or https, with a host that can be looked up. */
static bool
is_sendable(struct slice url)
{
    struct slice host = url;

    if (url.size < 8 || (strncasecmp(url.data, "http://", 7) &&
                         strncasecmp(url.data, "https://", 8)))
        return false;
    slice_take(&host, '/');
    slice_take(&host, '/');
    host = slice_take_until(&host, "/?#");
    return !memchr(host.data, '%', host.size);
}

/* Returns the absolute URL that `text` means, or "" if it is none. `is_loc`: of
 * a resource or list, so of http or https. */
static struct slice
url_of(struct document_reader *d, struct slice text, bool is_loc)
{
    struct slice url = {NULL, 0};

    text = slice_without_spaces(text);
    if (text.size == 0)
        return url;
    if (is_verbatim(d) && !uri_check(text, "url", NULL))
        return keep_text(d, text);
    buf_clear(&d->raw);
    buf_clear(&d->url);
    uri_add_sendable(&d->raw, text);
    /* An absolute URL names its resource unchanged, including dot segments. */
    if (!d->raw.failed && !uri_check(buf_slice(&d->raw), "url", NULL))
        buf_add_slice(&d->url, buf_slice(&d->raw));
    else if (!d->raw.failed && d->form != FORM_TEXT)
        uri_resolve(&d->url, slice_of(d->base), buf_slice(&d->raw));
    if (!d->raw.failed && !d->url.failed &&
        !uri_check(buf_slice(&d->url), "url", NULL) &&
        (!is_loc || is_verbatim(d) || is_sendable(buf_slice(&d->url))))
        url = keep_text(d, buf_slice(&d->url));
    if (d->raw.is_starved || d->url.is_starved)
        d->is_starved = true;
    /* Relative references are no fault in a feed. */
    if (url.size > 0 && !slice_equal(url, text) &&
        (d->head.kind != DOCUMENT_ATOM ||
         !slice_equal(buf_slice(&d->raw), text)))
        mend(d, LIST_URL, text);
    return url;
}

/* Keeps the beginning of a text that cannot be used. */
static void
keep_bad(struct document_reader *d, struct slice text)
{
    if (text.size > LIST_EXAMPLE_MAX)
        text.size = LIST_EXAMPLE_MAX;
    d->bad = text.size > 0 ? keep_text(d, text) : SLICE("...");
}

/* Sets the loc of the entry, or keeps the text that cannot be used. */
static void
take_loc(struct document_reader *d, struct slice text)
{
    text = slice_without_spaces(text);
    if (d->fill.change.loc.size > 0) {
        mend(d, LIST_ATTRIBUTE, text);
        return;
    }
    d->fill.change.loc = url_of(d, text, true);
    if (d->fill.change.loc.size == 0 && text.size > 0)
        keep_bad(d, text);
}

/* Returns those of several digests that are valid: adds each word if the list
 * stays valid with it. */
static struct slice
hash_of(struct document_reader *d, struct slice text)
{
    struct slice kept = {NULL, 0};
    struct slice whole = text;

    text = slice_without_spaces(text);
    while (text.size > 0) {
        struct buf list;
        size_t size = 0;
        struct slice before = kept;

        while (size < text.size && !slice_is_space(text.data[size]))
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
        if (kept.data == before.data)
            mend(d, LIST_ATTRIBUTE, whole);
        text = slice_without_spaces(
            (struct slice){text.data + size, text.size - size});
    }
    return kept;
}

static uint64_t
length_of(struct document_reader *d, struct slice text)
{
    uint64_t length;

    if (!entry_length(slice_without_spaces(text), &length, NULL))
        return length;
    mend(d, LIST_ATTRIBUTE, text);
    return LENGTH_NONE;
}

static struct slice
type_of(struct document_reader *d, struct slice text)
{
    text = slice_without_spaces(text);
    if (is_media_type(text))
        return keep_text(d, text);
    mend(d, LIST_ATTRIBUTE, text);
    return (struct slice){NULL, 0};
}

/* R-020: a path in a package, "/" and a name. */
static struct slice
path_of(struct document_reader *d, struct slice text)
{
    return text.size > 1 ? keep_text(d, text) : (struct slice){NULL, 0};
}

/* A word of the Sitemap protocol, which others write with capitals, or a comma
 * for the point; "" if it is none. */
static struct slice
word_of(struct document_reader *d, struct slice text,
        bool is_good(struct slice))
{
    char mended[20];
    struct slice word = {mended, text.size};

    if (is_good(text))
        return keep_text(d, text);
    mend(d, LIST_WORD, text);
    if (text.size >= sizeof(mended))
        return (struct slice){NULL, 0};
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        mended[i] = (char)(c == ','               ? '.'
                           : c >= 'A' && c <= 'Z' ? c | 0x20
                                                  : c);
    }
    return is_good(word) ? keep_text(d, word) : (struct slice){NULL, 0};
}

/* Elements */

/* Is it an attribute of ResourceSync? Some sources add the prefix. */
static bool
is_plain(struct document_reader *d, const struct xml_attribute *a,
         enum space space)
{
    if (space == SPACE_RS)
        mend(d, LIST_ATTRIBUTE, xml_slice(a->name));
    return space == SPACE_NONE || space == SPACE_RS;
}

/* Reads at, completed, from or until. False: it is another attribute. */
static bool
read_interval(struct document_reader *d, const struct xml_attribute *a,
              int64_t *at, int64_t *completed, int64_t *from, int64_t *until)
{
    int64_t *to = is_word(d, a->name, W_AT)          ? at
                  : is_word(d, a->name, W_COMPLETED) ? completed
                  : is_word(d, a->name, W_FROM)      ? from
                  : is_word(d, a->name, W_UNTIL)     ? until
                                                     : NULL;

    if (to)
        *to = time_of(d, xml_value(a), true, NULL);
    return to != NULL;
}

/* Reads what a broker says of its log. */
static void
read_root_tidings(struct document_reader *d, const struct xml_attribute *a,
                  bool *has_after, bool *has_last)
{
    struct coverage *td = &d->head.td;
    struct slice value = xml_value(a);
    bool is_good = true;

    if (is_word(d, a->name, W_EPOCH)) {
        is_good = epoch_is_valid(value);
        if (is_good)
            memcpy(td->epoch, value.data, EPOCH_SIZE);
    } else if (is_word(d, a->name, W_AFTER)) {
        is_good = *has_after = number_read(value, &td->after);
    } else if (is_word(d, a->name, W_LAST)) {
        is_good = *has_last = number_read(value, &td->last);
    } else if (is_word(d, a->name, W_DIGEST)) {
        is_good = td->has_digest = !digest_read(value, &td->digest);
    }
    if (!is_good)
        mend(d, LIST_ATTRIBUTE, value);
}

static void
read_capability(struct document_reader *d, struct slice value)
{
    struct document_head *head = &d->head;
    char folded[64];

    value = slice_without_spaces(value);
    head->kind = DOCUMENT_RESOURCESYNC;
    head->has_capability = !capability_of(value, &head->capability);
    if (head->has_capability)
        return;
    mend(d, LIST_WORD, value);
    if (!slice_copy(folded, sizeof(folded), value))
        return;
    for (char *c = folded; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c |= 0x20;
    head->has_capability = !capability_of(slice_of(folded), &head->capability);
}

static void
read_root(struct document_reader *d, const struct xml_element *md)
{
    struct document_head *head = &d->head;
    bool has_after = false;
    bool has_last = false;

    if (d->has_md)
        mend(d, LIST_ATTRIBUTE, SLICE("rs:md"));
    d->has_md = true;
    for (size_t i = 0; i < md->n_attributes; i++) {
        const struct xml_attribute *a = &md->attributes[i];
        enum space space = space_of(d, a->ns);

        if (space == SPACE_TIDINGS)
            read_root_tidings(d, a, &has_after, &has_last);
        else if (!is_plain(d, a, space))
            continue;
        else if (is_word(d, a->name, W_CAPABILITY))
            read_capability(d, xml_value(a));
        else
            read_interval(d, a, &head->at_us, &head->completed_us,
                          &head->from_us, &head->until_us);
    }
    head->has_td_range =
        has_after && has_last && head->td.after <= head->td.last;
    head->td.from_us = head->from_us;
    head->td.until_us = head->until_us;
}

static void
read_tidings(struct document_reader *d, const struct xml_attribute *a)
{
    struct change *change = &d->fill.change;
    struct slice value = xml_value(a);

    if (is_word(d, a->name, W_SEQ)) {
        if (!number_read(value, &change->seq)) {
            change->seq = 0;
            mend(d, LIST_ATTRIBUTE, value);
        }
    } else if (is_word(d, a->name, W_DATETIME)) {
        change->source_us = time_of(d, value, true, NULL);
    } else if (is_word(d, a->name, W_TAGS)) {
        (void)!entry_tags(&d->fill, value, NULL);
    } else if (is_word(d, a->name, W_DIGEST)) {
        d->entry.has_digest = !digest_read(value, &d->entry.digest);
        if (!d->entry.has_digest)
            mend(d, LIST_ATTRIBUTE, value);
    }
}

static void
read_foreign(struct document_reader *d, const struct xml_attribute *a,
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

/* R-417: the reader never guesses the meaning of an unknown word. R-404: in a
 * list of resources it is out of place, and a "deleted" one makes no sense. */
static void
read_change(struct document_reader *d, struct slice value)
{
    struct change *change = &d->fill.change;
    bool is_of_resources = d->head.has_capability &&
                           (d->head.capability == CAP_RESOURCELIST ||
                            d->head.capability == CAP_RESOURCEDUMP_MANIFEST);

    value = slice_without_spaces(value);
    d->entry.has_kind = !change_kind_of(value, &change->kind);
    if (!d->entry.has_kind) {
        d->entry.has_kind = !change_kind_meant(value, &change->kind);
        if (d->entry.has_kind)
            mend(d, LIST_WORD, value);
    }
    if (!d->entry.has_kind ||
        (is_of_resources && change->kind == CHANGE_DELETED)) {
        d->is_change_bad = true;
        keep_bad(d, value);
    } else if (is_of_resources) {
        mend_attribute(d, "change", value);
        d->entry.has_kind = false;
    }
}

/* The time of a change is that of the last one in a list of resources. */
static void
read_datetime(struct document_reader *d, struct slice value)
{
    struct change *change = &d->fill.change;

    if (!d->head.has_capability || d->head.capability != CAP_RESOURCELIST) {
        change->datetime_us = time_of(d, value, true, NULL);
        return;
    }
    mend_attribute(d, "datetime", value);
    if (change->lastmod_us == DATETIME_NONE)
        change->lastmod_us = time_of(d, value, true, &change->is_lastmod_date);
}

/* An entry should have one rs:md. If it has more, later values replace earlier
 * ones, and the foreign attributes of a later one replace all earlier ones: so
 * no name is there twice, and the attributes are contiguous even if those of a
 * link came in between. */
static void
read_md(struct document_reader *d, const struct xml_element *md)
{
    struct change *change = &d->fill.change;
    struct document_entry *entry = &d->entry;
    const struct attribute *foreign = NULL;
    size_t n_foreign = 0;
    struct entry_attributes to = {&foreign, &n_foreign};

    for (size_t i = 0; i < md->n_attributes; i++) {
        const struct xml_attribute *a = &md->attributes[i];
        struct slice value = xml_value(a);
        enum space space = space_of(d, a->ns);

        if (space == SPACE_TIDINGS)
            read_tidings(d, a);
        else if (!is_plain(d, a, space))
            read_foreign(d, a, to);
        else if (is_word(d, a->name, W_CHANGE))
            read_change(d, value);
        else if (is_word(d, a->name, W_DATETIME))
            read_datetime(d, value);
        else if (is_word(d, a->name, W_HASH))
            change->hash = hash_of(d, value);
        else if (is_word(d, a->name, W_LENGTH))
            change->length = length_of(d, value);
        else if (is_word(d, a->name, W_TYPE))
            change->type = type_of(d, value);
        else if (is_word(d, a->name, W_ENCODING))
            change->encoding = keep_text(d, slice_without_spaces(value));
        else if (is_word(d, a->name, W_CAPABILITY))
            entry->capability = keep_text(d, slice_without_spaces(value));
        else if (is_word(d, a->name, W_PATH))
            entry->path = path_of(d, value);
        else
            read_interval(d, a, &entry->at_us, &entry->completed_us,
                          &entry->from_us, &entry->until_us);
    }
    if (n_foreign > 0) {
        change->attributes = foreign;
        change->n_attributes = n_foreign;
    }
}

static bool
read_ln(struct document_reader *d, const struct xml_element *ln)
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
        enum space space = space_of(d, a->ns);

        if (space == SPACE_TIDINGS) {
            if (!is_word(d, a->name, W_DIGEST))
                continue;
            link->has_digest = !digest_read(value, &link->digest);
            if (!link->has_digest)
                mend(d, LIST_ATTRIBUTE, value);
        } else if (!is_plain(d, a, space))
            read_foreign(d, a, to);
        else if (is_word(d, a->name, W_REL))
            link->rel = keep_text(d, slice_without_spaces(value));
        else if (is_word(d, a->name, W_HREF))
            link->href = url_of(d, value, false);
        else if (is_word(d, a->name, W_TYPE))
            link->type = type_of(d, value);
        else if (is_word(d, a->name, W_HASH))
            link->hash = hash_of(d, value);
        else if (is_word(d, a->name, W_LENGTH))
            link->length = length_of(d, value);
        else if (is_word(d, a->name, W_MODIFIED))
            link->modified_us = time_of(d, value, true, NULL);
        else if (is_word(d, a->name, W_ENCODING))
            same->encoding = keep_text(d, slice_without_spaces(value));
        else if (is_word(d, a->name, W_PATH))
            link->path = path_of(d, value);
        else if (is_word(d, a->name, W_PRI) &&
                 entry_pri(slice_without_spaces(value), &link->pri, NULL))
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

static struct slice
attribute_of(const struct document_reader *d, const struct xml_element *element,
             enum word name, xml_name ns)
{
    for (size_t i = 0; i < element->n_attributes; i++)
        if (is_word(d, element->attributes[i].name, name) &&
            element->attributes[i].ns == ns)
            return xml_value(&element->attributes[i]);
    return (struct slice){NULL, 0};
}

/* An Atom link of an entry: the first alternate is its resource. */
static void
read_atom_link(struct document_reader *d, const struct xml_element *element)
{
    struct slice rel = attribute_of(d, element, W_REL, NULL);

    if (d->fill.change.loc.size == 0 &&
        (rel.size == 0 || slice_is_word(rel, "alternate")))
        take_loc(d, attribute_of(d, element, W_HREF, NULL));
}

static void
read_text(struct document_reader *d)
{
    struct change *change = &d->fill.change;
    struct slice text = slice_without_spaces(buf_slice(&d->text));

    if (d->text.is_starved)
        d->is_starved = true;
    switch (d->text_of) {
    case TEXT_LOC:
        if (!d->text.failed)
            take_loc(d, text);
        else
            keep_bad(d, text);
        break;
    case TEXT_LASTMOD:
    case TEXT_PUBLISHED:
        if (d->has_date && d->text_of == TEXT_PUBLISHED)
            break;
        d->has_date = d->text_of == TEXT_LASTMOD;
        change->lastmod_us = time_of(d, text, false, &change->is_lastmod_date);
        break;
    case TEXT_CHANGEFREQ:
        change->changefreq = word_of(d, text, is_changefreq);
        break;
    case TEXT_PRIORITY:
        change->priority = word_of(d, text, is_priority);
        break;
    case TEXT_GUID:
        if (slice_starts(text, "http://") || slice_starts(text, "https://"))
            d->guid = keep_text(d, text);
        break;
    }
}

static void
clear_entry(struct document_reader *d)
{
    entry_clear(&d->fill);
    d->entry = (struct document_entry){
        .when_us = DATETIME_NONE,
        .at_us = DATETIME_NONE,
        .completed_us = DATETIME_NONE,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
    d->is_stray = d->has_date = d->is_change_bad = false;
    d->bad = d->guid = (struct slice){NULL, 0};
    d->entry_line = current_line(d);
}

/* Places */

/* Roots, and the entries in each; all of them also without a namespace. */
static const struct root {
    enum word name;
    enum space space;
    enum document_kind kind;
    enum word entry;
    enum space entry_space;
} roots[] = {
    {W_URLSET, SPACE_SITEMAP, DOCUMENT_SITEMAP, W_URL, SPACE_SITEMAP},
    {W_SITEMAPINDEX, SPACE_SITEMAP, DOCUMENT_SITEMAP, W_SITEMAP, SPACE_SITEMAP},
    {W_RSS, SPACE_NONE, DOCUMENT_RSS, W_ITEM, SPACE_NONE},
    {W_RDF, SPACE_RDF, DOCUMENT_RSS, W_ITEM, SPACE_RSS},
    {W_FEED, SPACE_ATOM, DOCUMENT_ATOM, W_ENTRY, SPACE_ATOM},
};

/* The texts of an entry. */
static const struct text_element {
    enum word name;
    enum space space;
    enum document_text text;
} text_elements[] = {
    {W_LOC, SPACE_SITEMAP, TEXT_LOC},
    {W_LASTMOD, SPACE_SITEMAP, TEXT_LASTMOD},
    {W_CHANGEFREQ, SPACE_SITEMAP, TEXT_CHANGEFREQ},
    {W_PRIORITY, SPACE_SITEMAP, TEXT_PRIORITY},
    {W_LINK, SPACE_RSS, TEXT_LOC},
    {W_GUID, SPACE_RSS, TEXT_GUID},
    {W_PUBDATE, SPACE_RSS, TEXT_LASTMOD},
    {W_DATE, SPACE_DUBLIN_CORE, TEXT_LASTMOD},
    {W_MODIFIED, SPACE_DUBLIN_CORE, TEXT_LASTMOD},
    {W_UPDATED, SPACE_ATOM, TEXT_LASTMOD},
    {W_MODIFIED, SPACE_ATOM, TEXT_LASTMOD},
    {W_PUBLISHED, SPACE_ATOM, TEXT_PUBLISHED},
    {W_ID, SPACE_ATOM, TEXT_GUID},
};

/* The namespace of an element; one without any is of the root's. */
static enum space
element_space(struct document_reader *d, const struct xml_element *element)
{
    enum space space = space_of(d, element->ns);

    if (!d->root || (space != SPACE_NONE && element->ns != d->root_ns))
        return space;
    return d->head.kind == DOCUMENT_RSS    ? SPACE_RSS
           : d->head.kind == DOCUMENT_ATOM ? SPACE_ATOM
                                           : SPACE_SITEMAP;
}

/* R-407: what the namespaces of 2012 mean is not what ours mean. */
static enum status
refuse_drafts(struct document_reader *d, const struct xml_element *element,
              struct problem *why)
{
    xml_name ns = element->ns;
    size_t i = 0;

    while (space_of(d, ns) != SPACE_DRAFT) {
        if (i == element->n_attributes)
            return STATUS_OK;
        ns = element->attributes[i++].ns;
    }
    return namespace_refuse_draft(xml_slice(ns), why);
}

static enum status
start_root(struct document_reader *d, const struct xml_element *element,
           struct problem *why)
{
    enum space space = space_of(d, element->ns);

    for (size_t i = 0; !d->root && i < sizeof(roots) / sizeof(*roots); i++)
        if (is_word(d, element->name, roots[i].name) &&
            (space == roots[i].space || space == SPACE_NONE ||
             roots[i].name == W_RSS))
            d->root = &roots[i];
    if (!d->root)
        return problem_quoting(why, STATUS_MALFORMED,
                               "no urlset and no sitemapindex, but the root",
                               xml_slice(element->name));
    if (space == SPACE_NONE && d->root->space != SPACE_NONE)
        mend(d, LIST_NAMESPACE, SLICE(""));
    d->root_ns = element->ns;
    d->head.is_index = d->root->name == W_SITEMAPINDEX;
    d->head.kind = d->root->kind;
    d->head.has_root = true;
    d->place = PLACE_ROOT;
    return STATUS_OK;
}

/* Makes xml:base of the element the base. Returns the former one, for
 * pop_base; NULL: it stays. */
static char *
push_base(struct document_reader *d, const struct xml_element *element)
{
    struct slice base = attribute_of(d, element, W_BASE, d->names[W_NS_XML]);
    char *before = d->base;
    char *copy;

    if (base.size == 0)
        return NULL;
    buf_clear(&d->raw);
    buf_clear(&d->url);
    uri_add_sendable(&d->raw, base);
    uri_resolve(&d->url, slice_of(before), buf_slice(&d->raw));
    copy = d->url.failed ? NULL : slice_dup(buf_slice(&d->url));
    if (!copy) {
        d->is_starved = true;
        return NULL;
    }
    d->base = copy;
    return before;
}

static void
pop_base(struct document_reader *d, char *before)
{
    if (!before)
        return;
    free(d->base);
    d->base = before;
}

static enum status
hand_over_link(struct document_reader *d, const struct xml_element *element)
{
    char *before = push_base(d, element);
    bool is_link;

    clear_entry(d);
    is_link = d->events.on_link && read_ln(d, element);
    pop_base(d, before);
    if (is_link)
        d->fn_rc = d->events.on_link(&d->links[0], d->user);
    return d->fn_rc;
}

/* R-403: the root decides what its entries are; one of the other kind is
 * read, and left out. */
static bool
is_entry(struct document_reader *d, const struct xml_element *element,
         enum space space)
{
    if (d->head.kind >= DOCUMENT_TEXT)
        return is_word(d, element->name, d->root->entry) &&
               space == (d->head.kind == DOCUMENT_RSS ? SPACE_RSS : SPACE_ATOM);
    return space == SPACE_SITEMAP && (is_word(d, element->name, W_URL) ||
                                      is_word(d, element->name, W_SITEMAP));
}

static enum status
start_in_root(struct document_reader *d, const struct xml_element *element,
              enum space space)
{
    if (is_entry(d, element, space)) {
        clear_entry(d);
        d->is_stray = !is_word(d, element->name, d->root->entry);
        if (space != SPACE_SITEMAP)
            d->outer_base = push_base(d, element);
        d->place = PLACE_ENTRY;
        return STATUS_OK;
    }
    if (space == SPACE_RSS && is_word(d, element->name, W_CHANNEL)) {
        free(push_base(d, element));
        d->is_in_channel = true;
        return STATUS_OK; /* its children are the root's */
    }
    d->n_passed++;
    if (space == SPACE_RS && is_word(d, element->name, W_MD))
        read_root(d, element);
    else if ((space == SPACE_RS && is_word(d, element->name, W_LN)) ||
             (space == SPACE_ATOM && is_word(d, element->name, W_LINK) &&
              (d->is_in_channel || d->head.kind == DOCUMENT_ATOM)))
        return hand_over_link(d, element);
    return STATUS_OK;
}

static void
start_in_entry(struct document_reader *d, const struct xml_element *element,
               enum space space)
{
    for (size_t i = 0; i < sizeof(text_elements) / sizeof(*text_elements); i++)
        if (is_word(d, element->name, text_elements[i].name) &&
            space == text_elements[i].space) {
            d->place = PLACE_TEXT;
            d->text_of = text_elements[i].text;
            buf_clear(&d->text);
            if (slice_is_word(attribute_of(d, element, W_IS_PERMALINK, NULL),
                              "false"))
                d->text.failed = true; /* a name, and no URL */
            return;
        }
    d->n_passed++;
    if (space == SPACE_RS && is_word(d, element->name, W_MD)) {
        read_md(d, element);
    } else if (space == SPACE_RS && is_word(d, element->name, W_LN)) {
        read_ln(d, element);
    } else if (space == SPACE_ATOM && is_word(d, element->name, W_LINK) &&
               d->head.kind == DOCUMENT_ATOM) {
        char *before = push_base(d, element);

        read_atom_link(d, element);
        pop_base(d, before);
    }
}

static enum status
on_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct document_reader *d = user;
    enum status rc = STATUS_OK;

    if (d->n_passed > 0 || d->place == PLACE_TEXT) {
        d->n_passed++;
        return STATUS_OK;
    }
    rc = refuse_drafts(d, element, why);
    if (rc)
        return rc;
    if (d->place == PLACE_NOWHERE) {
        rc = start_root(d, element, why);
        free(push_base(d, element));
    } else if (d->place == PLACE_ROOT) {
        rc = start_in_root(d, element, element_space(d, element));
    } else {
        start_in_entry(d, element, element_space(d, element));
    }
    return rc;
}

/* R-145: a deleted resource has no representation. */
static void
strip_deleted(struct change *change)
{
    change->hash = change->type = change->encoding = (struct slice){NULL, 0};
    change->length = LENGTH_NONE;
}

static enum status
end_entry(struct document_reader *d)
{
    struct change *change = &d->fill.change;

    if (change->loc.size == 0 && d->guid.size > 0)
        take_loc(d, d->guid);
    if (d->is_starved)
        return STATUS_MEMORY;
    if (d->is_stray || d->is_change_bad || change->loc.size == 0) {
        leave_out(d,
                  d->is_stray        ? LIST_STRAY
                  : d->is_change_bad ? LIST_BAD_CHANGE
                  : d->bad.size > 0  ? LIST_BAD_LOC
                                     : LIST_NO_LOC,
                  d->is_stray && d->bad.size == 0 ? change->loc : d->bad);
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
    struct document_reader *d = user;
    enum status rc = STATUS_OK;

    if (d->n_passed > 0) {
        d->n_passed--;
        return STATUS_OK;
    }
    if (d->place == PLACE_ROOT) {
        d->is_in_channel = false;
    } else if (d->place == PLACE_TEXT) {
        read_text(d);
        d->place = PLACE_ENTRY;
    } else if (d->place == PLACE_ENTRY) {
        d->place = PLACE_ROOT;
        rc = end_entry(d);
        pop_base(d, d->outer_base);
        d->outer_base = NULL;
        if (rc == STATUS_MEMORY && !d->fn_rc)
            problem_memory(why);
    }
    return rc;
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    struct document_reader *d = user;

    (void)why;
    if (d->place == PLACE_TEXT && d->n_passed == 0)
        buf_add_slice(&d->text, text);
    return STATUS_OK;
}

/* Lines: a robots.txt, or a text of URLs */

/* "Sitemap: URL", in any case, perhaps with blanks before the colon and before
 * a comment (RFC 9309 section 2.2.4, sitemaps.org). False: another line. */
static bool
read_robots_line(struct document_reader *d, struct slice line)
{
    static const char name[] = "sitemap";
    const char *comment;

    comment = line.size > 0 ? memmem(line.data, line.size, " #", 2) : NULL;
    if (comment)
        line.size = (size_t)(comment - line.data);
    if (line.size < sizeof(name) ||
        strncasecmp(line.data, name, sizeof(name) - 1) != 0)
        return false;
    slice_skip(&line, sizeof(name) - 1);
    slice_skip_blanks(&line);
    if (!slice_take_char(&line, ':'))
        return false;
    line = slice_without_spaces(line);
    if (line.size == 0)
        return false;
    take_loc(d, line);
    d->head.has_root = d->head.is_index = true;
    return true;
}

/* True if the beginning of a text is that of a URL, or may become it. */
static bool
is_url_begin(struct slice text)
{
    static const char begin[] = "http";
    size_t size = text.size < 4 ? text.size : 4;

    return size == 0 || !strncasecmp(text.data, begin, size);
}

static enum status
refuse_text(struct problem *why)
{
    return problem(why, STATUS_MALFORMED, "neither XML nor a list of URLs");
}

static enum status
end_line(struct document_reader *d, struct problem *why)
{
    struct slice line = slice_without_spaces(buf_slice(&d->text));
    bool is_entry = line.size > 0 && line.data[0] != '#';
    enum status rc = STATUS_OK;

    clear_entry(d);
    if (d->form == FORM_ROBOTS) {
        is_entry = !d->text.failed && read_robots_line(d, line);
    } else if (is_entry && !d->head.has_root && !is_url_begin(line)) {
        rc = refuse_text(why);
    } else if (is_entry && d->text.failed) {
        keep_bad(d, line);
    } else if (is_entry) {
        take_loc(d, line);
    }
    if (!rc && is_entry && d->form == FORM_TEXT)
        d->head.has_root = true;
    if (!rc && is_entry)
        rc = end_entry(d);
    if (!d->fn_rc && (d->is_starved || d->text.is_starved))
        rc = problem_memory(why);
    buf_clear(&d->text);
    return rc;
}

/* Splits bytes into lines. A line too long for `text` has only its beginning
 * there. */
static enum status
take_lines(struct document_reader *d, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && bytes.size > 0) {
        size_t n = 0;

        while (n < bytes.size && bytes.data[n] != '\n' && bytes.data[n] != '\r')
            n++;
        buf_add(&d->text, bytes.data, n);
        if (n < bytes.size) {
            rc = end_line(d, why);
            d->line += bytes.data[n] == '\n';
            n++;
        } else if (d->form == FORM_TEXT && !d->head.has_root &&
                   d->text.size >= 4 && d->text.data[0] != '#' &&
                   !is_url_begin(slice_without_spaces(buf_slice(&d->text)))) {
            rc = refuse_text(why);
        }
        slice_skip(&bytes, n);
    }
    return rc;
}

/* Bytes */

static enum status
take_text(struct slice text, void *user, struct problem *why)
{
    struct document_reader *d = user;

    while (d->form == FORM_UNKNOWN && text.size > 0 &&
           slice_is_space(text.data[0])) {
        d->n_skipped += text.data[0] == '\n'; /* of a declaration */
        slice_skip(&text, 1);
    }
    if (text.size == 0)
        return STATUS_OK;
    if (d->form == FORM_UNKNOWN) {
        d->form = text.data[0] == '<' ? FORM_XML : FORM_TEXT;
        if (d->form == FORM_TEXT)
            d->head.kind = DOCUMENT_TEXT;
    }
    if (text_encoding_is_behind_space(d->encoding) &&
        d->head.report.mended[LIST_WHITE_SPACE] == 0)
        mend(d, LIST_WHITE_SPACE, SLICE(""));
    if (text_encoding_name(d->encoding)[0] &&
        d->head.report.mended[LIST_ENCODING] == 0)
        mend(d, LIST_ENCODING, slice_of(text_encoding_name(d->encoding)));
    return d->form == FORM_XML ? xml_feed(d->xml, text, why)
                               : take_lines(d, text, why);
}

struct document_reader *
document_reader_new(const char *base, bool is_robots,
                    const struct document_events *events, void *user)
{
    static const struct xml_events xml_events = {on_start, on_end, on_text};
    struct document_reader *d = memory_new(1, sizeof(*d));

    if (!d)
        return NULL;
    d->events = *events;
    d->user = user;
    d->line = 1;
    d->head.at_us = d->head.completed_us = DATETIME_NONE;
    d->head.from_us = d->head.until_us = DATETIME_NONE;
    d->head.td.from_us = d->head.td.until_us = DATETIME_NONE;
    d->head.td.now_us = DATETIME_NONE;
    if (is_robots) {
        d->form = FORM_ROBOTS;
        d->head.kind = DOCUMENT_ROBOTS;
    }
    entry_init(&d->fill);
    buf_init(&d->text, DOCUMENT_TEXT_MAX);
    buf_init(&d->url, DOCUMENT_TEXT_MAX);
    buf_init(&d->raw, DOCUMENT_TEXT_MAX);
    d->base = slice_dup(slice_of(base));
    d->xml = xml_new(&xml_events, d, words, d->names, N_WORDS);
    d->encoding = text_encoding_new(take_text, d);
    if (!d->base || !d->xml || !d->encoding) {
        document_reader_free(d);
        return NULL;
    }
    return d;
}

void
document_reader_free(struct document_reader *d)
{
    if (!d)
        return;
    text_encoding_free(d->encoding);
    xml_free(d->xml);
    entry_fini(&d->fill);
    buf_fini(&d->text);
    buf_fini(&d->url);
    buf_fini(&d->raw);
    free(d->outer_base);
    free(d->base);
    free(d);
}

/* Sets the result. An invalid text, for the parser, is a malformed document. */
static enum status
judge_status(struct document_reader *d, enum status rc)
{
    d->rc = d->fn_rc ? d->fn_rc : rc == STATUS_INVALID ? STATUS_MALFORMED : rc;
    return d->rc;
}

enum status
document_reader_feed(struct document_reader *d, struct slice bytes,
                     struct problem *why)
{
    enum status rc = d->rc;

    if (!rc && bytes.size > 0) {
        rc = text_encoding_feed(d->encoding, bytes, why);
        if (rc && why && !d->fn_rc)
            why->line = current_line(d);
    }
    return judge_status(d, rc);
}

enum status
document_reader_end(struct document_reader *d, struct problem *why)
{
    enum status rc = d->rc;

    if (!rc)
        rc = text_encoding_end(d->encoding, why);
    if (!rc && (d->form == FORM_TEXT || d->form == FORM_ROBOTS)) {
        rc = end_line(d, why);
        if (!rc && !d->head.has_root)
            rc = problem(why, STATUS_MALFORMED, "it names no %s",
                         d->form == FORM_TEXT ? "resource" : "Sitemap");
    } else if (!rc && d->form == FORM_UNKNOWN) {
        rc = problem(why, STATUS_MALFORMED, "it is empty");
    } else if (!rc) {
        rc = xml_end(d->xml, why);
        if (rc && why)
            why->line = current_line(d);
    }
    if (!rc && d->is_starved) /* for a link of the root */
        rc = problem_memory(why);
    return judge_status(d, rc);
}

const struct document_head *
document_reader_head(const struct document_reader *d)
{
    return &d->head;
}

const char *
document_kind_name(enum document_kind kind)
{
    static const char *const names[] = {
        [DOCUMENT_SITEMAP] = "sitemap",
        [DOCUMENT_RESOURCESYNC] = "resourcesync",
        [DOCUMENT_TEXT] = "text",
        [DOCUMENT_RSS] = "rss",
        [DOCUMENT_ATOM] = "atom",
        [DOCUMENT_ROBOTS] = "robots",
    };

    return names[kind];
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

/*
 * urlset_read.c - reads a <urlset>: its header, then one change after the
 * other.
 *
 *   <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="...">
 *     <rs:ln rel="up" href="..."/>
 *     <rs:md capability="change-notification" from="..." until="..."/>
 *     <url><loc>...</loc><rs:md change="created" .../></url>
 *   </urlset>
 *
 * Strict where ResourceSync speaks (its names, their places, their number),
 * deaf to what is foreign: elements of other namespaces are skipped whole.
 */
#include <stdlib.h>

#include "proto/memory.h"
#include "proto/number.h"
#include "proto/resourcesync/input_reader.h"
#include "proto/resourcesync/urlset_scan.h"
#include "proto/resourcesync/xml.h"
#include "proto/uri.h"

/* A loc of 2,048 characters, in bytes, with white space around it. */
#define TEXT_MAX 16384

/* The names that the XML reader knows. The parser interns them, so that the
 * reader compares addresses. */
enum word {
    W_NS_SITEMAP,
    W_NS_RS,
    W_NS_TIDINGS,
    W_URLSET,
    W_URL,
    W_LOC,
    W_LASTMOD,
    W_CHANGEFREQ,
    W_PRIORITY,
    W_MD,
    W_LN,
    W_CAPABILITY,
    W_FROM,
    W_UNTIL,
    W_AT,
    W_COMPLETED,
    W_CHANGE,
    W_DATETIME,
    W_HASH,
    W_LENGTH,
    W_TYPE,
    W_ENCODING,
    W_REL,
    W_HREF,
    W_PRI,
    W_MODIFIED,
    W_TAGS,
    W_SEQ,
    W_EPOCH,
    W_AFTER,
    W_LAST,
    W_DIGEST,
    W_NOW,
    W_HEARTBEAT,
    N_WORDS
};

static const char *const md_words[N_WORDS] = {
    [W_NS_SITEMAP] = NS_SITEMAP,
    [W_NS_RS] = NS_RS,
    [W_NS_TIDINGS] = NS_TIDINGS,
    [W_URLSET] = "urlset",
    [W_URL] = "url",
    [W_LOC] = "loc",
    [W_LASTMOD] = "lastmod",
    [W_CHANGEFREQ] = "changefreq",
    [W_PRIORITY] = "priority",
    [W_MD] = "md",
    [W_LN] = "ln",
    [W_CAPABILITY] = "capability",
    [W_FROM] = "from",
    [W_UNTIL] = "until",
    [W_AT] = "at",
    [W_COMPLETED] = "completed",
    [W_CHANGE] = "change",
    [W_DATETIME] = "datetime",
    [W_HASH] = "hash",
    [W_LENGTH] = "length",
    [W_TYPE] = "type",
    [W_ENCODING] = "encoding",
    [W_REL] = "rel",
    [W_HREF] = "href",
    [W_PRI] = "pri",
    [W_MODIFIED] = "modified",
    [W_TAGS] = "tags",
    [W_SEQ] = "seq",
    [W_EPOCH] = "epoch",
    [W_AFTER] = "after",
    [W_LAST] = "last",
    [W_DIGEST] = "digest",
    [W_NOW] = "now",
    [W_HEARTBEAT] = "heartbeat",
};

struct md_reader {
    struct input_reader *reader;
    xml_name names[N_WORDS];
};

static inline bool
is_word(const struct md_reader *md, xml_name name, enum word word)
{
    return name == md->names[word];
}

/* Is it a namespace in which nothing is foreign? */
static inline bool
is_ours(const struct md_reader *md, xml_name ns)
{
    return is_word(md, ns, W_NS_RS) || is_word(md, ns, W_NS_SITEMAP);
}

/* Attributes of rs:md and rs:ln, of documents and entries: nearly all of
 * ResourceSync is said there. */

/* An attribute that may not be where it is. Its name is the document's. */
static enum status
md_refuse(const char *element, const struct xml_attribute *attribute,
          const char *reason, struct problem *why)
{
    return problem(why, STATUS_INVALID, "%s: attribute \"%s%s%s\" %s", element,
                   attribute->prefix
                       ? problem_quote(xml_slice(attribute->prefix)).text
                       : "",
                   attribute->prefix ? ":" : "",
                   problem_quote(xml_slice(attribute->name)).text, reason);
}

/* The attributes of the document's <rs:md> that only our own documents have. */
static enum status
document_tidings(struct md_reader *md, const struct xml_attribute *a,
                 struct problem *why)
{
    struct coverage *coverage = &md->reader->coverage;
    struct slice value = xml_value(a);
    bool is_good = true;

    if (!input_reader_is_for_messages(md->reader))
        return STATUS_OK;
    if (is_word(md, a->name, W_EPOCH)) {
        is_good = epoch_is_valid(value);
        if (is_good)
            memcpy(coverage->epoch, value.data, EPOCH_SIZE);
    } else if (is_word(md, a->name, W_AFTER)) {
        is_good = number_read(value, &coverage->after);
    } else if (is_word(md, a->name, W_LAST)) {
        is_good = number_read(value, &coverage->last);
    } else if (is_word(md, a->name, W_DIGEST)) {
        is_good = !digest_read(value, &coverage->digest);
        coverage->has_digest = is_good;
    } else if (is_word(md, a->name, W_NOW)) {
        is_good = !datetime_read(value, &coverage->now_us);
    } else if (is_word(md, a->name, W_HEARTBEAT)) {
        is_good = seconds_read(value, &coverage->heartbeat_us);
    }
    if (!is_good)
        return md_refuse("rs:md", a, "has a bad value", why);
    return STATUS_OK;
}

static enum status
document_capability(struct input_reader *reader, struct slice value,
                    struct problem *why)
{
    enum capability capability = CAP_CHANGE_NOTIFICATION;
    bool is_known = !capability_of(value, &capability);

    if (reader->use == INPUT_RESOURCES) {
        if (!is_known || capability != CAP_RESOURCELIST)
            return problem_quoting(why, STATUS_INVALID,
                                   "capability: not resourcelist", value);
        reader->capability = (int)capability;
        return STATUS_OK;
    }
    if (!is_known && !reader->takes_any_capability)
        return problem_quoting(why, STATUS_INVALID, "capability: unknown",
                               value);
    if (capability != CAP_CHANGELIST && capability != CAP_CHANGE_NOTIFICATION) {
        if (!reader->takes_any_capability)
            return problem_quoting(
                why, STATUS_INVALID,
                "capability: neither changelist nor change-notification",
                value);
        capability = CAP_CHANGE_NOTIFICATION;
    }
    reader->capability = (int)capability;
    return STATUS_OK;
}

/* The time of a document: R-015 of changes, R-086 of resources. */
static enum status
document_time(struct md_reader *md, const struct xml_attribute *a,
              struct problem *why)
{
    struct coverage *coverage = &md->reader->coverage;
    bool is_from = is_word(md, a->name, W_FROM);
    bool is_until = is_word(md, a->name, W_UNTIL);
    bool is_of_changes = is_from || is_until;
    const char *name = is_word(md, a->name, W_AT) ? "at" : "completed";
    int64_t us;

    if (is_of_changes != (md->reader->use != INPUT_RESOURCES))
        return md_refuse("rs:md", a,
                         is_of_changes
                             ? "is for lists of changes, not of resources"
                             : "is for lists of resources, not of changes",
                         why);
    if (!is_of_changes)
        return entry_time(name, xml_value(a), &us, why);
    return entry_time(is_from ? "from" : "until", xml_value(a),
                      is_from ? &coverage->from_us : &coverage->until_us, why);
}

static enum status
md_read_document(struct md_reader *md, const struct xml_element *element,
                 struct problem *why)
{
    struct input_reader *reader = md->reader;
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];
        struct slice value = xml_value(a);

        if (is_word(md, a->ns, W_NS_TIDINGS)) {
            rc = document_tidings(md, a, why);
        } else if (a->ns && is_ours(md, a->ns)) {
            rc = md_refuse("rs:md", a, "must not have a prefix", why);
        } else if (a->ns) {
            continue;
        } else if (is_word(md, a->name, W_CAPABILITY)) {
            rc = document_capability(reader, value, why);
        } else if (is_word(md, a->name, W_FROM) ||
                   is_word(md, a->name, W_UNTIL) ||
                   is_word(md, a->name, W_AT) ||
                   is_word(md, a->name, W_COMPLETED)) {
            rc = document_time(md, a, why);
        } else {
            rc = md_refuse("rs:md", a, "is not for a document", why);
        }
    }
    if (!rc && reader->capability < 0)
        rc = problem(why, STATUS_INVALID, "rs:md: no capability");
    if (!rc)
        rc = input_reader_interval(reader, why);
    return rc;
}

static enum status
foreign_attribute(struct md_reader *md, const struct xml_attribute *a,
                  struct entry_attributes to, struct problem *why)
{
    struct entry *entry = &md->reader->entry;
    struct attribute attribute = {
        .ns = xml_slice(a->ns),
        .prefix = xml_slice(a->prefix),
        .name = xml_slice(a->name),
    };
    enum status rc = entry_copy(entry, xml_value(a), &attribute.value, why);

    if (rc)
        return rc;
    return entry_attribute(entry, to, &attribute, why);
}

/* td:* of an entry: tags, and in our own documents what the stamp holds. */
static enum status
entry_tidings(struct md_reader *md, const struct xml_attribute *a,
              struct problem *why)
{
    struct change *change = &md->reader->entry.change;

    if (is_word(md, a->name, W_TAGS))
        return entry_tags(&md->reader->entry, xml_value(a), why);
    if (md->reader->use != INPUT_MESSAGE)
        return STATUS_OK;
    if (is_word(md, a->name, W_SEQ) && !number_read(xml_value(a), &change->seq))
        return md_refuse("rs:md", a, "is not a number", why);
    if (is_word(md, a->name, W_DATETIME))
        return entry_time("td:datetime", xml_value(a), &change->source_us, why);
    return STATUS_OK;
}

/* An attribute that both a change and a link may have. */
static enum status
common_attribute(struct md_reader *md, const char *element, struct link *link,
                 const struct xml_attribute *a, struct problem *why)
{
    struct entry *entry = &md->reader->entry;
    struct entry_common to = entry_common(entry, link);
    struct slice value = xml_value(a);

    if (a->ns && is_ours(md, a->ns))
        return md_refuse(element, a, "must not have a prefix", why);
    if (a->ns)
        return foreign_attribute(md, a, to.attributes, why);
    if (is_word(md, a->name, W_HASH))
        return entry_hash(entry, value, to.hash, why);
    if (is_word(md, a->name, W_LENGTH))
        return entry_length(value, to.length, why);
    if (is_word(md, a->name, W_TYPE))
        return entry_text(entry, "type", value, to.type, why);
    if (is_word(md, a->name, W_ENCODING))
        return entry_text(entry, "encoding", value, to.encoding, why);
    return md_refuse(element, a, "is not for a change", why);
}

static enum status
md_read_entry(struct md_reader *md, const struct xml_element *element,
              struct problem *why)
{
    struct entry *entry = &md->reader->entry;
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];
        struct slice value = xml_value(a);

        if (is_word(md, a->ns, W_NS_TIDINGS))
            rc = entry_tidings(md, a, why);
        else if (!a->ns && is_word(md, a->name, W_CHANGE))
            rc = entry_kind(entry, value, why);
        else if (!a->ns && is_word(md, a->name, W_DATETIME))
            rc = entry_time("datetime", value, &entry->change.datetime_us, why);
        else
            rc = common_attribute(md, "rs:md", NULL, a, why);
    }
    return rc;
}

static enum status
link_attributes(struct md_reader *md, const struct xml_element *element,
                struct link *link, struct problem *why)
{
    struct entry *entry = &md->reader->entry;
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];
        struct slice value = xml_value(a);

        if (is_word(md, a->ns, W_NS_TIDINGS))
            continue;
        if (!a->ns && is_word(md, a->name, W_REL))
            rc = entry_text(entry, "rel", value, &link->rel, why);
        else if (!a->ns && is_word(md, a->name, W_HREF))
            rc = entry_text(entry, "href", value, &link->href, why);
        else if (!a->ns && is_word(md, a->name, W_PRI))
            rc = entry_pri(value, &link->pri, why);
        else if (!a->ns && is_word(md, a->name, W_MODIFIED))
            rc = entry_time("modified", value, &link->modified_us, why);
        else
            rc = common_attribute(md, "rs:ln", link, a, why);
    }
    return rc;
}

static enum status
ln_read_entry(struct md_reader *md, const struct xml_element *element,
              struct problem *why)
{
    struct link *link;
    enum status rc = entry_link(&md->reader->entry, &link, why);

    if (rc)
        return rc;
    return link_attributes(md, element, link, why);
}

static enum status
ln_read_document(struct md_reader *md, const struct xml_element *element,
                 struct problem *why)
{
    struct entry *entry = &md->reader->entry;
    struct link link = {.pri = 0};
    enum status rc;

    entry_clear(entry);
    rc = link_attributes(md, element, &link, why);
    if (!rc && (link.rel.size == 0 || link.href.size == 0))
        rc = problem(why, STATUS_INVALID, "rs:ln: no %s",
                     link.rel.size == 0 ? "rel" : "href");
    if (!rc && !is_relation(link.rel))
        rc = problem_quoting(
            why, STATUS_INVALID,
            "rel: neither a relation's name nor an absolute URI", link.rel);
    if (!rc)
        rc = uri_check(link.href, "href", why);
    return rc;
}

/* Elements */

/*
 * Where the parser stands; urlset_start goes down, urlset_end goes up:
 *
 *   DOCUMENT --> ROOT --> URL --> TEXT     <loc> and the like: text alone
 *                  |       +----> EMPTY    <rs:md>, <rs:ln> of an entry
 *                  +------------> EMPTY    those of the document
 *
 * and from anywhere into foreign elements, which `n_foreign` counts.
 */
enum place { PLACE_DOCUMENT, PLACE_ROOT, PLACE_URL, PLACE_TEXT, PLACE_EMPTY };

struct urlset {
    struct md_reader md;
    struct xml *xml;

    enum place place;
    unsigned n_foreign;
    bool has_md;       /* the document's */
    bool has_entry_md; /* the entry's */
    unsigned depth;    /* elements that are open */
    bool is_faulty;    /* the rest of the entry is skipped */
    unsigned seen;     /* children of the entry, a bit each */
    enum word text_of; /* the element of `text` */
    struct buf text;
    struct urlset_scan scan;
};

/* elements of the Sitemap protocol have no attributes; its root may have
 * foreign ones (xsi:schemaLocation). */
static enum status
check_plain(const struct urlset *u, const struct xml_element *element,
            const char *name, struct problem *why)
{
    for (size_t i = 0; i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];

        if (!is_word(&u->md, element->name, W_URLSET) || !a->ns ||
            is_ours(&u->md, a->ns))
            return md_refuse(name, a, "is not allowed", why);
    }
    return STATUS_OK;
}

static enum status
refuse_element(const struct urlset *u, const struct xml_element *element,
               struct problem *why)
{
    return problem(why, STATUS_INVALID, "the element %s%s may not stand here",
                   is_word(&u->md, element->ns, W_NS_RS) ? "rs:" : "",
                   problem_quote(xml_slice(element->name)).text);
}

static enum status
start_document(struct urlset *u, const struct xml_element *element,
               struct problem *why)
{
    if (!is_word(&u->md, element->name, W_URLSET) ||
        !is_word(&u->md, element->ns, W_NS_SITEMAP))
        return problem(why, STATUS_INVALID,
                       "the root is not urlset in the namespace %s",
                       NS_SITEMAP);
    u->place = PLACE_ROOT;
    return check_plain(u, element, "urlset", why);
}

static enum status
start_in_root(struct urlset *u, const struct xml_element *element,
              struct problem *why)
{
    enum status rc;

    if (is_word(&u->md, element->ns, W_NS_RS)) {
        u->place = PLACE_EMPTY;
        if (u->md.reader->n_entries > 0)
            return problem(why, STATUS_INVALID,
                           "rs:%s of the document after its first entry",
                           problem_quote(xml_slice(element->name)).text);
        if (is_word(&u->md, element->name, W_MD)) {
            if (u->has_md)
                return problem(why, STATUS_INVALID, "more than one rs:md");
            u->has_md = true;
            return md_read_document(&u->md, element, why);
        }
        if (is_word(&u->md, element->name, W_LN))
            return ln_read_document(&u->md, element, why);
        return refuse_element(u, element, why);
    }
    if (!is_word(&u->md, element->name, W_URL))
        return refuse_element(u, element, why);
    if (!u->has_md && u->md.reader->use != INPUT_RESOURCES)
        return problem(why, STATUS_INVALID,
                       "no rs:md with a capability before the first entry");

    rc = input_reader_entry_begin(u->md.reader, why);
    if (rc)
        return rc;
    u->place = PLACE_URL;
    u->has_entry_md = false;
    u->seen = 0;
    return check_plain(u, element, "url", why);
}

static enum status
start_in_url(struct urlset *u, const struct xml_element *element,
             struct problem *why)
{
    static const enum word texts[] = {W_LOC, W_LASTMOD, W_CHANGEFREQ,
                                      W_PRIORITY};

    if (is_word(&u->md, element->ns, W_NS_RS)) {
        u->place = PLACE_EMPTY;
        if (is_word(&u->md, element->name, W_MD)) {
            if (u->has_entry_md)
                return problem(why, STATUS_INVALID, "more than one rs:md");
            u->has_entry_md = true;
            return md_read_entry(&u->md, element, why);
        }
        if (is_word(&u->md, element->name, W_LN))
            return ln_read_entry(&u->md, element, why);
        return refuse_element(u, element, why);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!is_word(&u->md, element->name, texts[i]))
            continue;
        if (u->seen & 1u << i)
            return problem(why, STATUS_INVALID, "more than one %s",
                           (const char *)element->name);
        u->seen |= 1u << i;
        u->place = PLACE_TEXT;
        u->text_of = texts[i];
        buf_clear(&u->text);
        return check_plain(u, element, (const char *)element->name, why);
    }
    return refuse_element(u, element, why);
}

/* what the namespaces of 2012 mean is not what ours mean. Without this
 * check their elements would be foreign, and the document a Sitemap. */
static enum status
refuse_drafts(const struct urlset *u, const struct xml_element *element,
              struct problem *why)
{
    xml_name ns = element->ns;
    size_t i = 0;

    while (!ns || is_ours(&u->md, ns) || !namespace_is_draft(xml_slice(ns))) {
        if (i == element->n_attributes)
            return STATUS_OK;
        ns = element->attributes[i++].ns;
    }
    return namespace_refuse_draft(xml_slice(ns), why);
}

static enum status
start_element(struct urlset *u, const struct xml_element *element,
              struct problem *why)
{
    enum status rc =
        u->n_foreign == 0 ? refuse_drafts(u, element, why) : STATUS_OK;

    if (rc)
        return rc;
    if (u->n_foreign == 0 && u->place == PLACE_DOCUMENT)
        return start_document(u, element, why);
    if (u->n_foreign > 0 || (element->ns && !is_ours(&u->md, element->ns))) {
        if (u->place == PLACE_TEXT)
            return refuse_element(u, element, why);
        u->n_foreign++;
        return STATUS_OK;
    }
    /* Without a namespace it is neither ours nor somebody else's. */
    if (!element->ns)
        return refuse_element(u, element, why);

    switch (u->place) {
    case PLACE_ROOT:
        return start_in_root(u, element, why);
    case PLACE_URL:
        return start_in_url(u, element, why);
    default:
        return refuse_element(u, element, why);
    }
}

static enum status
end_text(struct urlset *u, struct problem *why)
{
    struct entry *entry = &u->md.reader->entry;
    struct change *change = &entry->change;
    struct slice text = slice_without_spaces(buf_slice(&u->text));

    u->place = PLACE_URL;
    switch (u->text_of) {
    case W_LOC:
        return entry_text(entry, "loc", text, &change->loc, why);
    case W_LASTMOD:
        return entry_lastmod(text, change, why);
    case W_CHANGEFREQ:
        return entry_text(entry, "changefreq", text, &change->changefreq, why);
    default:
        return entry_text(entry, "priority", text, &change->priority, why);
    }
}

static enum status
end_element(struct urlset *u, struct problem *why)
{
    if (u->n_foreign > 0) {
        u->n_foreign--;
        return STATUS_OK;
    }
    switch (u->place) {
    case PLACE_TEXT:
        return end_text(u, why);
    case PLACE_EMPTY:
        u->place = u->md.reader->is_in_entry ? PLACE_URL : PLACE_ROOT;
        return STATUS_OK;
    case PLACE_URL:
        u->place = PLACE_ROOT;
        return input_reader_entry_end(u->md.reader, why);
    default:
        u->place = PLACE_DOCUMENT;
        if (!u->has_md && u->md.reader->use != INPUT_RESOURCES)
            return problem(why, STATUS_INVALID, "no rs:md with a capability");
        return STATUS_OK;
    }
}

static enum status
take_text(struct urlset *u, struct slice text, struct problem *why)
{
    if (u->n_foreign > 0)
        return STATUS_OK;
    if (u->place == PLACE_TEXT) {
        buf_add_slice(&u->text, text);
        if (u->text.is_starved)
            return problem_memory(why);
        if (u->text.failed)
            return problem(why, STATUS_INVALID, "%s: more than %d bytes",
                           md_words[u->text_of], TEXT_MAX);
        return STATUS_OK;
    }
    text = slice_without_spaces(text);
    if (text.size > 0)
        return problem_quoting(why, STATUS_INVALID, "text between elements",
                               text);
    return STATUS_OK;
}

/* An entry is a child of the root. */
#define ENTRY_DEPTH 2

/* Ends the event with `rc`, or skips the rest of a faulty entry. */
static enum status
end_event(struct urlset *u, enum status rc, const struct problem *why)
{
    if (!rc || !input_reader_skip_entry(u->md.reader, rc, why))
        return rc;
    u->is_faulty = u->depth >= ENTRY_DEPTH; /* its end is still to come */
    u->n_foreign = 0;
    u->place = PLACE_ROOT;
    return STATUS_OK;
}

static enum status
urlset_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct urlset *u = user;

    u->depth++;
    return u->is_faulty ? STATUS_OK
                        : end_event(u, start_element(u, element, why), why);
}

static enum status
urlset_end(void *user, struct problem *why)
{
    struct urlset *u = user;

    u->depth--;
    if (!u->is_faulty)
        return end_event(u, end_element(u, why), why);
    u->is_faulty = u->depth >= ENTRY_DEPTH;
    return STATUS_OK;
}

static enum status
urlset_text(void *user, struct slice text, struct problem *why)
{
    struct urlset *u = user;

    return u->is_faulty ? STATUS_OK
                        : end_event(u, take_text(u, text, why), why);
}

static enum token
urlset_child(void *user, struct slice bytes, bool has_tidings, size_t *size,
             uint64_t *line, enum status *rc, struct problem *why)
{
    struct urlset *u = user;
    struct input_reader *reader = u->md.reader;
    uint64_t n_lines;
    enum token token;

    if (u->place != PLACE_ROOT || u->is_faulty || u->n_foreign > 0 ||
        (!u->has_md && reader->use != INPUT_RESOURCES))
        return TOKEN_UNKNOWN;
    token = urlset_scan_entry(&u->scan, bytes, &reader->entry,
                              reader->use == INPUT_MESSAGE, has_tidings, size,
                              &n_lines);
    if (token)
        return token;
    if (!input_reader_is_good(reader))
        return TOKEN_UNKNOWN;
    *line += n_lines;
    *rc = end_event(u, input_reader_hand_over(reader, why), why);
    return *rc ? TOKEN_REFUSED : TOKEN_TAKEN;
}

static const struct xml_events events = {
    .start = urlset_start,
    .end = urlset_end,
    .text = urlset_text,
    .child = urlset_child,
};

static void
begin_urlset(struct urlset *u)
{
    u->place = PLACE_DOCUMENT;
    u->n_foreign = 0;
    u->depth = 0;
    u->is_faulty = false;
    u->has_md = false;
    buf_clear(&u->text);
}

static void
urlset_close(void *state)
{
    struct urlset *u = state;

    xml_free(u->xml);
    buf_fini(&u->text);
    free(u);
}

static void *
urlset_open(struct input_reader *reader)
{
    struct urlset *u = memory_new(1, sizeof(*u));

    if (!u)
        return NULL;
    u->md.reader = reader;
    buf_init(&u->text, TEXT_MAX);
    begin_urlset(u);
    u->xml = xml_new(&events, u, md_words, u->md.names, N_WORDS);
    if (!u->xml) {
        urlset_close(u);
        return NULL;
    }
    return u;
}

static enum status
urlset_reset(void *state)
{
    struct urlset *u = state;

    begin_urlset(u);
    return xml_reset(u->xml);
}

static enum status
urlset_feed(void *state, struct slice bytes, struct problem *why)
{
    struct urlset *u = state;

    return xml_feed(u->xml, bytes, why);
}

static enum status
urlset_finish(void *state, struct problem *why)
{
    struct urlset *u = state;

    return xml_end(u->xml, why);
}

static uint64_t
urlset_line(const void *state)
{
    const struct urlset *u = state;

    return xml_line(u->xml);
}

static size_t
urlset_held(const void *state)
{
    const struct urlset *u = state;

    return xml_held(u->xml);
}

const struct parser urlset_parser = {
    .open = urlset_open,
    .close = urlset_close,
    .reset = urlset_reset,
    .feed = urlset_feed,
    .end = urlset_finish,
    .line = urlset_line,
    .held = urlset_held,
};

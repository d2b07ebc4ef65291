/*
 * list_read.c - reads lists: elements and attributes by their places, in
 * tables; what a wrong one means is the policy's.
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
#include "proto/input/list_read.h"

#include "proto/ascii.h"
#include "proto/input/data_read.h"
#include "proto/number.h"

/* Tables */

/* What an element begins. */
enum opening {
    OPENS_ENTRY,
    OPENS_TEXT, /* the value of `member` */
    OPENS_MD,
    OPENS_LN,
    OPENS_LINK, /* of an entry of Atom */
    OPENS_CHANNEL,
    OPENS_ROOT
};

/* The most frequent ones first. */
static const struct list_element {
    const char *name;
    enum list_space space; /* SPACE_NONE: any */
    enum list_place place;
    enum opening opens;
    enum entry_member member;
    enum document_kind kind; /* of a root, and of an entry's root */
    bool is_index;           /* likewise; not of the strict policy */
    bool is_spare;           /* counts if there is no other */
} elements[] = {
    {"url", SPACE_SITEMAP, PLACE_ROOT, OPENS_ENTRY, .kind = DOCUMENT_SITEMAP},
    {"loc", SPACE_SITEMAP, PLACE_ENTRY, OPENS_TEXT, M_LOC},
    {"lastmod", SPACE_SITEMAP, PLACE_ENTRY, OPENS_TEXT, M_LASTMOD},
    {"md", SPACE_RS, PLACE_ENTRY, OPENS_MD},
    {"ln", SPACE_RS, PLACE_ENTRY, OPENS_LN},
    {"urlset", SPACE_SITEMAP, PLACE_NOWHERE, OPENS_ROOT},
    {"md", SPACE_RS, PLACE_ROOT, OPENS_MD},
    {"ln", SPACE_RS, PLACE_ROOT, OPENS_LN},
    {"changefreq", SPACE_SITEMAP, PLACE_ENTRY, OPENS_TEXT, M_CHANGEFREQ},
    {"priority", SPACE_SITEMAP, PLACE_ENTRY, OPENS_TEXT, M_PRIORITY},
    {"title", SPACE_TIDINGS, PLACE_ENTRY, OPENS_TEXT, M_TITLE},
    {"summary", SPACE_TIDINGS, PLACE_ENTRY, OPENS_TEXT, M_SUMMARY},
    {"author", SPACE_TIDINGS, PLACE_ENTRY, OPENS_TEXT, M_AUTHOR},
    {"data", SPACE_TIDINGS, PLACE_ENTRY, OPENS_TEXT, M_DATA},
    {"sitemap", SPACE_SITEMAP, PLACE_ROOT, OPENS_ENTRY, .is_index = true},
    {"item", SPACE_RSS, PLACE_ROOT, OPENS_ENTRY, .kind = DOCUMENT_RSS},
    {"link", SPACE_RSS, PLACE_ENTRY, OPENS_TEXT, M_LOC},
    {"guid", SPACE_RSS, PLACE_ENTRY, OPENS_TEXT, M_LOC, .is_spare = true},
    {"pubDate", SPACE_RSS, PLACE_ENTRY, OPENS_TEXT, M_LASTMOD},
    {"date", SPACE_DUBLIN_CORE, PLACE_ENTRY, OPENS_TEXT, M_LASTMOD},
    {"modified", SPACE_DUBLIN_CORE, PLACE_ENTRY, OPENS_TEXT, M_LASTMOD},
    {"entry", SPACE_ATOM, PLACE_ROOT, OPENS_ENTRY, .kind = DOCUMENT_ATOM},
    {"link", SPACE_ATOM, PLACE_ENTRY, OPENS_LINK},
    {"id", SPACE_ATOM, PLACE_ENTRY, OPENS_TEXT, M_LOC, .is_spare = true},
    {"updated", SPACE_ATOM, PLACE_ENTRY, OPENS_TEXT, M_LASTMOD},
    {"modified", SPACE_ATOM, PLACE_ENTRY, OPENS_TEXT, M_LASTMOD},
    {"published", SPACE_ATOM, PLACE_ENTRY, OPENS_TEXT, M_LASTMOD,
     .is_spare = true},
    {"link", SPACE_ATOM, PLACE_ROOT, OPENS_LN},
    {"channel", SPACE_RSS, PLACE_ROOT, OPENS_CHANNEL},
    {"sitemapindex", SPACE_SITEMAP, PLACE_NOWHERE, OPENS_ROOT,
     .is_index = true},
    {"rss", SPACE_NONE, PLACE_NOWHERE, OPENS_ROOT, .kind = DOCUMENT_RSS},
    {"RDF", SPACE_RDF, PLACE_NOWHERE, OPENS_ROOT, .kind = DOCUMENT_RSS},
    {"feed", SPACE_ATOM, PLACE_NOWHERE, OPENS_ROOT, .kind = DOCUMENT_ATOM},
};

/* The words of the parser: the names above, namespaces, and more names for the
 * scanner (xml_scan.h). The parser interns them, so that the reader compares
 * addresses. */
enum word { W_SITEMAP = N_ELEMENTS(elements), W_RS, W_TIDINGS, W_XML, W_MORE };

static const char *const more_words[] = {
    NS_SITEMAP, NS_RS,        NS_TIDINGS, NS_XML,        "rs",       "td",
    "change",   "capability", "from",     "until",       "datetime", "hash",
    "length",   "type",       "encoding", "rel",         "href",     "pri",
    "modified", "tags",       "seq",      "traceparent",
};

/* Whose attributes they are. */
enum owner { OF_HEAD, OF_CHANGE, OF_LINK };

#define TIMES                                                          \
    (MEMBER_BIT(M_AT) | MEMBER_BIT(M_COMPLETED) | MEMBER_BIT(M_FROM) | \
     MEMBER_BIT(M_UNTIL))
#define LOG_MEMBERS                                                   \
    (MEMBER_BIT(M_EPOCH) | MEMBER_BIT(M_AFTER) | MEMBER_BIT(M_LAST) | \
     MEMBER_BIT(M_DIGEST))
#define OF_EVENT (MEMBER_BIT(M_TAGS) | MEMBER_BIT(M_TRACEPARENT))
#define STAMP    (MEMBER_BIT(M_SEQ) | MEMBER_BIT(M_SOURCE_DATETIME))

/* Attributes without a namespace: those that the strict policy allows, and more
 * that the lenient one reads. */
static const struct allowed {
    uint64_t strict, more;
} allowed[] = {
    [OF_HEAD] = {MEMBER_BIT(M_CAPABILITY) | TIMES, 0},
    [OF_CHANGE] = {ENTRY_CHANGE_MEMBERS,
                   MEMBER_BIT(M_CAPABILITY) | MEMBER_BIT(M_PATH) | TIMES},
    [OF_LINK] = {ENTRY_LINK_MEMBERS, MEMBER_BIT(M_PATH)},
};

/* Attributes of td, likewise: of a post, of a message and of others' lists. */
static const struct tidings {
    uint64_t post, message, lenient;
} tidings[] = {
    [OF_HEAD] = {0, LOG_MEMBERS | MEMBER_BIT(M_NOW) | MEMBER_BIT(M_HEARTBEAT),
                 LOG_MEMBERS},
    [OF_CHANGE] = {OF_EVENT, OF_EVENT | STAMP,
                   OF_EVENT | STAMP | MEMBER_BIT(M_DIGEST)},
    [OF_LINK] = {0, 0, MEMBER_BIT(M_DIGEST)},
};

/* Known namespaces, without "http://", "www." and the last "/". `is_begin`:
 * those that go on with "/" or "." are meant, too. */
static const struct spelling {
    const char *text;
    enum list_space space;
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

/* The report */

uint64_t
list_reader_line(const struct list_reader *r)
{
    return text_encoding_found(r->encoding)->n_lines + r->lines +
           (r->is_lines ? 0 : xml_line(r->xml));
}

void
list_reader_mend(struct list_reader *r, enum list_fault fault,
                 struct slice text)
{
    list_report_count(&r->head.report, fault, text, list_reader_line(r));
}

/* Counts an attribute that does not belong there. */
static void
mend_attribute(struct list_reader *r, const char *name, struct slice value)
{
    char text[LIST_EXAMPLE_MAX + 1];

    snprintf(text, sizeof(text), "%s=%.*s", name, SLICE_ARG(value));
    list_reader_mend(r, LIST_ATTRIBUTE, slice_of(text));
}

/* Namespaces */

static enum list_space
look_up_space(struct list_reader *r, struct slice ns)
{
    struct slice text = ns;

    if (namespace_is_draft(text))
        return SPACE_DRAFT;
    if (r->input)
        return SPACE_FOREIGN;
    (void)slice_skip_past(&text, "://");
    if (text.size > 4 && !strncasecmp(text.data, "www.", 4))
        slice_skip(&text, 4);
    while (text.size > 0 && text.data[text.size - 1] == '/')
        text.size--;
    for (size_t i = 0; i < N_ELEMENTS(spellings); i++) {
        const struct spelling *s = &spellings[i];
        size_t size = strlen(s->text);

        if (text.size < size || strncasecmp(text.data, s->text, size) ||
            (text.size > size &&
             (!s->is_begin || !strchr("/.", text.data[size]))))
            continue;
        /* Counted once */
        if ((s->space == SPACE_SITEMAP || s->space == SPACE_RS) &&
            !r->head.report.n[LIST_NAMESPACE])
            list_reader_mend(r, LIST_NAMESPACE, ns);
        return s->space;
    }
    return SPACE_FOREIGN;
}

static inline enum list_space
space_of(struct list_reader *r, xml_name ns)
{
    if (!ns)
        return SPACE_NONE;
    if (ns == r->names[W_SITEMAP])
        return SPACE_SITEMAP;
    if (ns == r->names[W_RS])
        return SPACE_RS;
    if (ns == r->names[W_TIDINGS])
        return SPACE_TIDINGS;
    if (ns != r->last_ns) {
        r->last_ns = ns;
        r->last_space = look_up_space(r, xml_slice(ns));
    }
    return r->last_space;
}

/* The namespace of an element; for the lenient policy, one without any is of
 * the root's. */
static enum list_space
element_space(struct list_reader *r, const struct xml_element *element)
{
    enum list_space space = space_of(r, element->ns);

    if (!r->root || (space != SPACE_NONE && element->ns != r->root_ns))
        return space;
    return r->root->kind == DOCUMENT_RSS    ? SPACE_RSS
           : r->root->kind == DOCUMENT_ATOM ? SPACE_ATOM
                                            : SPACE_SITEMAP;
}

/* R-407: what the namespaces of 2012 mean is not what ours mean. Without this
 * check their elements would be foreign, and the document a Sitemap. */
static enum status
refuse_drafts(struct list_reader *r, const struct xml_element *element,
              struct problem *why)
{
    xml_name ns = element->ns;
    size_t i = 0;

    while (space_of(r, ns) != SPACE_DRAFT) {
        if (i == element->n_attributes)
            return STATUS_OK;
        ns = element->attributes[i++].ns;
    }
    return namespace_refuse_draft(xml_slice(ns), why);
}

/* Values that others wrote: rewritten, if it is clear what is meant */

static bool
is_of_resources(const struct list_reader *r)
{
    return r->head.has_capability &&
           (r->head.capability == CAP_RESOURCELIST ||
            r->head.capability == CAP_RESOURCEDUMP_MANIFEST);
}

/* A lastmod may be coarse; other times have to be complete. */
static bool
mend_time(struct list_reader *r, enum entry_member member, struct slice *text)
{
    bool is_coarse = member == M_LASTMOD;
    bool is_date = datetime_is_date(*text);
    int64_t us;
    bool is_bad;

    if (!(is_coarse ? datetime_read_any(*text, &us)
                    : datetime_read(*text, &us)))
        return true;
    is_bad = datetime_read_any(*text, &us) &&
             datetime_read_loose(*text, &us, &is_date);
    if (is_bad || r->head.kind != DOCUMENT_RSS) /* dates of mail are right */
        list_reader_mend(r, LIST_TIME, *text);
    if (is_bad)
        return false;
    datetime_write(r->time, us);
    *text = (struct slice){r->time, is_coarse && is_date ? DATETIME_DATE_SIZE
                                                         : DATETIME_SIZE};
    return true;
}

/* True if names of resources are taken as they are. */
static bool
is_verbatim(const struct list_reader *r)
{
    return r->head.td.epoch[0] || r->base[0] == '\0';
}

/* A URL of http or https, with a host that can be looked up. */
static bool
is_sendable(struct slice url)
{
    struct slice host = url;

    if (!slice_starts_word(url, "http://") &&
        !slice_starts_word(url, "https://"))
        return false;
    slice_take(&host, '/');
    slice_take(&host, '/');
    host = slice_take_until(&host, "/?#");
    return !memchr(host.data, '%', host.size);
}

static bool
is_url(struct slice text)
{
    return !uri_check(text, "url", NULL);
}

/* Makes an absolute URL of `text`. A loc is of a resource or list, so of http
 * or https. */
static bool
mend_url(struct list_reader *r, bool is_loc, struct slice *text)
{
    if (text->size == 0)
        return false;
    if (is_verbatim(r) && is_url(*text))
        return true;
    buf_clear(&r->raw);
    buf_clear(&r->url);
    uri_add_sendable(&r->raw, *text);
    /* An absolute URL names its resource unchanged, including dot segments. */
    if (!r->raw.failed && is_url(buf_slice(&r->raw)))
        buf_add_slice(&r->url, buf_slice(&r->raw));
    else if (!r->raw.failed && r->head.kind != DOCUMENT_TEXT)
        uri_resolve(&r->url, slice_of(r->base), buf_slice(&r->raw));
    r->is_starved |= r->raw.is_starved || r->url.is_starved;
    if (r->raw.failed || r->url.failed || !is_url(buf_slice(&r->url)) ||
        (is_loc && !is_verbatim(r) && !is_sendable(buf_slice(&r->url))))
        return false;
    /* Relative references are no fault in a feed. */
    if (!slice_equal(buf_slice(&r->url), *text) &&
        (r->head.kind != DOCUMENT_ATOM ||
         !slice_equal(buf_slice(&r->raw), *text)))
        list_reader_mend(r, LIST_URL, *text);
    *text = buf_slice(&r->url);
    return true;
}

/* Keeps those of several digests with which the list stays valid. */
static bool
mend_hash(struct list_reader *r, struct slice *text)
{
    struct slice rest = *text;

    buf_clear(&r->raw);
    while (rest.size > 0) {
        struct slice word = slice_take_until(&rest, " \t\r\n");
        size_t before = r->raw.size;

        rest = slice_without_spaces(rest);
        BUF_ADD(&r->raw, " ");
        buf_add_slice(&r->raw, word);
        buf_clear(&r->url);
        r->is_starved |= r->raw.is_starved;
        if (!r->raw.failed &&
            !hash_normalise(&r->url, buf_slice(&r->raw), NULL))
            continue;
        list_reader_mend(r, LIST_ATTRIBUTE, *text);
        r->raw.size = before;
        r->raw.failed = false;
    }
    *text = buf_slice(&r->raw);
    return text->size > 0;
}

/* In small letters, with a point for a comma, as the words of the protocols
 * are. */
static struct slice
fold_word(struct list_reader *r, struct slice text)
{
    buf_clear(&r->raw);
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i] == ',' ? '.' : ascii_lower(text.data[i]);

        buf_add(&r->raw, &c, 1);
    }
    r->is_starved |= r->raw.is_starved;
    return buf_slice(&r->raw);
}

static bool
is_capability(struct slice text)
{
    enum capability capability;

    return !capability_of(text, &capability);
}

static bool
mend_word(struct list_reader *r, bool is_good(struct slice), struct slice *text)
{
    if (is_good(*text))
        return true;
    list_reader_mend(r, LIST_WORD, *text);
    *text = fold_word(r, *text);
    return is_good(*text);
}

/* Keeps the beginning of a text that cannot be used. */
void
list_reader_bad_loc(struct list_reader *r, struct slice text)
{
    struct slice copy = SLICE("...");

    if (text.size > LIST_EXAMPLE_MAX)
        text.size = LIST_EXAMPLE_MAX;
    if (text.size > 0)
        r->is_starved |=
            entry_copy(r->entry, text, &copy, NULL) == STATUS_MEMORY;
    r->bad = copy;
}

/* R-417: the reader never guesses the meaning of an unknown word. R-404: in a
 * list of resources it is out of place, and a "deleted" one makes no sense. */
static bool
mend_change(struct list_reader *r, struct slice *text)
{
    enum change_kind kind = CHANGE_UPDATED;
    bool is_known = !change_kind_of(*text, &kind);

    if (!is_known) {
        is_known = !change_kind_meant(*text, &kind);
        if (is_known)
            list_reader_mend(r, LIST_WORD, *text);
    }
    if (!is_known || (is_of_resources(r) && kind == CHANGE_DELETED)) {
        r->is_change_bad = true;
        list_reader_bad_loc(r, *text);
        return false;
    }
    if (is_of_resources(r)) {
        mend_attribute(r, "change", *text);
        return false;
    }
    *text = slice_of(change_kind_names[kind]);
    return true;
}

/* False: it is left out. */
static bool
mend_value(struct list_reader *r, enum entry_member *member, struct slice *text)
{
    switch (*member) {
    case M_LOC:
        if (r->seen & MEMBER_BIT(M_LOC)) {
            list_reader_mend(r, LIST_ATTRIBUTE, *text);
            return false;
        }
        if (text->size > 0 && !mend_url(r, true, text)) {
            list_reader_bad_loc(r, *text);
            return false;
        }
        return text->size > 0;
    case M_HREF:
        return mend_url(r, false, text);
    case M_CHANGE:
        return mend_change(r, text);
    case M_DATETIME:
        /* In a list of resources, it is the time of the last change. */
        if (r->head.has_capability && r->head.capability == CAP_RESOURCELIST) {
            mend_attribute(r, "datetime", *text);
            if (r->entry->change.lastmod_us != DATETIME_NONE)
                return false;
            *member = M_LASTMOD;
        }
        return mend_time(r, *member, text);
    case M_LASTMOD:
    case M_SOURCE_DATETIME:
    case M_MODIFIED:
    case M_AT:
    case M_COMPLETED:
    case M_FROM:
    case M_UNTIL:
        return mend_time(r, *member, text);
    case M_CHANGEFREQ:
        return mend_word(r, is_changefreq, text);
    case M_PRIORITY:
        return mend_word(r, is_priority, text);
    case M_CAPABILITY: /* of another vocabulary: as it is */
        if (is_capability(*text) || !is_capability(fold_word(r, *text)))
            return true;
        return mend_word(r, is_capability, text);
    case M_HASH:
        return mend_hash(r, text);
    case M_TYPE:
        if (!is_media_type(*text))
            list_reader_mend(r, LIST_ATTRIBUTE, *text);
        return is_media_type(*text);
    default:
        return true;
    }
}

/* Where a time of the root or of an entry goes; NULL: it is another member. */
static int64_t *
time_to(enum entry_member member, int64_t *at, int64_t *completed,
        int64_t *from, int64_t *until)
{
    return member == M_AT          ? at
           : member == M_COMPLETED ? completed
           : member == M_FROM      ? from
           : member == M_UNTIL     ? until
                                   : NULL;
}

/* Sets what only entries of others' lists have, or a member of the change. */
static enum status
set_member(struct list_reader *r, struct link *link, enum entry_member member,
           struct slice value)
{
    struct document_entry *row = &r->row;
    int64_t *time = time_to(member, &row->at_us, &row->completed_us,
                            &row->from_us, &row->until_us);
    struct slice *text = member == M_CAPABILITY ? &row->capability
                         : member != M_PATH     ? NULL
                         : link                 ? &link->path
                                                : &row->path;

    if (time)
        return datetime_read(value, time);
    if (text) /* R-020: a path in a package, "/" and a name */
        return value.size > (member == M_PATH)
                   ? entry_copy(r->entry, value, text, NULL)
                   : STATUS_OK;
    if (member == M_DIGEST) {
        bool is_good = !digest_read(value, link ? &link->digest : &row->digest);

        *(link ? &link->has_digest : &row->has_digest) = is_good;
        return is_good ? STATUS_OK : STATUS_INVALID;
    }
    if (member == M_DATA)
        return data_read(r->entry, value, NULL);
    return entry_set(r->entry, link, member, "", value, NULL);
}

/* Members whose bad values have no meaning, and are no news. */
#define SILENT                                                        \
    (MEMBER_BIT(M_ENCODING) | MEMBER_BIT(M_REL) | MEMBER_BIT(M_PRI) | \
     MEMBER_BIT(M_TAGS) | MEMBER_BIT(M_TRACEPARENT))

static void
take_others(struct list_reader *r, struct link *link, enum entry_member member,
            struct slice value)
{
    struct slice text = slice_without_spaces(value);
    enum status rc;

    if (!mend_value(r, &member, &text))
        return;
    rc = set_member(r, link, member, text);
    r->is_starved |= rc == STATUS_MEMORY;
    if (!rc && !link)
        r->seen |= MEMBER_BIT(member);
    else if (rc && !(MEMBER_BIT(member) & SILENT))
        list_reader_mend(r, LIST_ATTRIBUTE, value);
}

void
list_reader_set_loc(struct list_reader *r, struct slice text)
{
    take_others(r, NULL, M_LOC, text);
}

/* The root's rs:md */

/* An attribute that may not be where it is. Its name is the document's. */
static enum status
refuse_attribute(const char *element, const struct xml_attribute *a,
                 const char *reason, struct problem *why)
{
    return problem(why, STATUS_INVALID, "%s: attribute \"%s%s%s\" %s", element,
                   a->prefix ? problem_quote(xml_slice(a->prefix)).text : "",
                   a->prefix ? ":" : "", problem_quote(xml_slice(a->name)).text,
                   reason);
}

static enum status
take_capability(struct input_reader *input, struct slice value,
                struct problem *why)
{
    enum capability capability = CAP_CHANGE_NOTIFICATION;
    bool is_known = !capability_of(value, &capability);
    bool takes_any =
        input->options.takes_any_capability || input->options.takes_message;

    if (input->use == INPUT_RESOURCES) {
        if (capability != CAP_RESOURCELIST)
            return problem_quoting(why, STATUS_INVALID,
                                   "capability: not resourcelist", value);
    } else if (!is_known && !takes_any) {
        return problem_quoting(why, STATUS_INVALID, "capability: unknown",
                               value);
    } else if (capability != CAP_CHANGELIST &&
               capability != CAP_CHANGE_NOTIFICATION) {
        if (!takes_any)
            return problem_quoting(
                why, STATUS_INVALID,
                "capability: neither changelist nor change-notification",
                value);
        capability = CAP_CHANGE_NOTIFICATION;
    }
    input->capability = (int)capability;
    return STATUS_OK;
}

static void
take_others_head(struct list_reader *r, enum entry_member member,
                 struct slice value)
{
    struct document_head *head = &r->head;
    struct slice text = slice_without_spaces(value);
    int64_t *time = time_to(member, &head->at_us, &head->completed_us,
                            &head->from_us, &head->until_us);

    if (member == M_CAPABILITY) {
        head->kind = DOCUMENT_RESOURCESYNC;
        head->has_capability = !capability_of(text, &head->capability);
        if (head->has_capability)
            return;
        list_reader_mend(r, LIST_WORD, text);
        head->has_capability =
            !capability_of(fold_word(r, text), &head->capability);
    } else if (time) {
        if (!mend_time(r, member, &text) || datetime_read(text, time))
            *time = DATETIME_NONE;
    } else if (coverage_set(&head->td, member, value)) {
        r->head_seen |= MEMBER_BIT(member);
    } else {
        list_reader_mend(r, LIST_ATTRIBUTE, value);
    }
}

/* Attributes of rs:md and rs:ln: nearly all of ResourceSync is said there. */

static enum status
take_foreign(struct list_reader *r, struct entry_attributes to,
             const struct xml_attribute *a, struct problem *why)
{
    struct attribute attribute = {
        .ns = xml_slice(a->ns),
        .prefix = xml_slice(a->prefix),
        .name = xml_slice(a->name),
    };
    enum status rc = entry_copy(r->entry, xml_value(a), &attribute.value, why);

    if (!rc)
        rc = entry_attribute(r->entry, to, &attribute, why);
    if (r->input)
        return rc;
    r->is_starved |= rc == STATUS_MEMORY;
    return STATUS_OK;
}

static enum status
take_attribute(struct list_reader *r, enum owner owner, struct link *link,
               enum entry_member member, const struct xml_attribute *a,
               struct problem *why)
{
    struct slice value = xml_value(a);
    uint64_t seq;

    if (!r->input) {
        if (owner == OF_HEAD)
            take_others_head(r, member, value);
        else
            take_others(r, link, member, value);
        return STATUS_OK;
    }
    if (owner == OF_HEAD && member == M_CAPABILITY)
        return take_capability(r->input, value, why);
    if (owner == OF_HEAD && MEMBER_BIT(member) & TIMES) {
        /* The time of a document: R-015 of changes, R-086 of resources. */
        struct coverage *coverage = &r->input->coverage;
        bool is_of_changes = member == M_FROM || member == M_UNTIL;
        int64_t us;
        int64_t *to =
            time_to(member, &us, &us, &coverage->from_us, &coverage->until_us);

        if (is_of_changes == (r->input->use == INPUT_RESOURCES))
            return refuse_attribute(
                "rs:md", a,
                is_of_changes ? "is for lists of changes, not of resources"
                              : "is for lists of resources, not of changes",
                why);
        return entry_time((const char *)a->name, value, to, why);
    }
    if (owner == OF_HEAD)
        return coverage_set(&r->input->coverage, member, value)
                   ? STATUS_OK
                   : refuse_attribute("rs:md", a, "has a bad value", why);
    if (member == M_SEQ && !number_read(value, &seq))
        return refuse_attribute("rs:md", a, "is not a number", why);
    return entry_set(r->entry, link, member,
                     member == M_SOURCE_DATETIME ? "td:datetime"
                                                 : (const char *)a->name,
                     value, why);
}

static uint64_t
allowed_tidings(const struct list_reader *r, enum owner owner)
{
    const struct tidings *its = &tidings[owner];
    const struct input_reader *input = r->input;

    if (!input)
        return its->lenient;
    return input->use == INPUT_MESSAGE ||
                   (owner == OF_HEAD && input->options.takes_message)
               ? its->message
               : its->post;
}

/* Reads the attributes of an rs:md or rs:ln. Its foreign ones replace those of
 * an earlier rs:md of the same entry: so no name is there twice, and they are
 * contiguous even if those of a link came in between. */
static enum status
read_attributes(struct list_reader *r, enum owner owner, struct link *link,
                const struct xml_element *element, struct problem *why)
{
    const char *its = owner == OF_LINK ? "rs:ln" : "rs:md";
    uint64_t plain =
        allowed[owner].strict | (r->input ? 0 : allowed[owner].more);
    uint64_t ours = allowed_tidings(r, owner);
    const struct attribute *first = NULL;
    size_t n = 0;
    struct entry_attributes foreign = {&first, &n};
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];
        enum list_space space = space_of(r, a->ns);
        enum entry_member member = entry_member_of(xml_slice(a->name));
        uint64_t known = space == SPACE_TIDINGS ? ours : plain;

        if (space == SPACE_TIDINGS && member == M_DATETIME)
            member = M_SOURCE_DATETIME;
        if (space > SPACE_TIDINGS || (space == SPACE_SITEMAP && !r->input)) {
            if (owner != OF_HEAD)
                rc = take_foreign(r, foreign, a, why);
            continue;
        }
        if (space == SPACE_SITEMAP || (space == SPACE_RS && r->input))
            return refuse_attribute(its, a, "must not have a prefix", why);
        if (space == SPACE_RS) /* some sources add the prefix */
            list_reader_mend(r, LIST_ATTRIBUTE, xml_slice(a->name));
        if (known & MEMBER_BIT(member))
            rc = take_attribute(r, owner, link, member, a, why);
        else if (r->input && space == SPACE_NONE)
            rc = refuse_attribute(its, a,
                                  owner == OF_HEAD ? "is not for a document"
                                                   : "is not for a change",
                                  why);
    }
    if (n > 0) {
        foreign = entry_attributes(r->entry, link);
        *foreign.first = first;
        *foreign.count = n;
    }
    return rc;
}

/* Reads an rs:md: of an entry, or of the root. */
static enum status
read_md(struct list_reader *r, const struct xml_element *element,
        struct problem *why)
{
    struct document_head *head = &r->head;
    bool is_of_root = r->place == PLACE_ROOT;
    bool is_second = is_of_root ? r->has_md : r->seen & MEMBER_BIT(M_NONE);
    enum status rc;

    if (is_second && r->input)
        return problem(why, STATUS_INVALID, "more than one rs:md");
    if (!is_of_root) {
        r->seen |= MEMBER_BIT(M_NONE);
        return read_attributes(r, OF_CHANGE, NULL, element, why);
    }
    if (is_second)
        list_reader_mend(r, LIST_ATTRIBUTE, SLICE("rs:md"));
    r->has_md = true;
    rc = read_attributes(r, OF_HEAD, NULL, element, why);
    if (rc)
        return rc;
    if (r->input)
        return r->input->capability < 0
                   ? problem(why, STATUS_INVALID, "rs:md: no capability")
                   : input_reader_interval(r->input, why);
    head->has_td_range = r->head_seen & MEMBER_BIT(M_AFTER) &&
                         r->head_seen & MEMBER_BIT(M_LAST) &&
                         head->td.after <= head->td.last;
    head->td.from_us = head->from_us;
    head->td.until_us = head->until_us;
    return STATUS_OK;
}

static struct slice
attribute_of(const struct xml_element *element, const char *name, xml_name ns)
{
    for (size_t i = 0; i < element->n_attributes; i++)
        if (slice_is(xml_slice(element->attributes[i].name), name) &&
            element->attributes[i].ns == ns)
            return xml_value(&element->attributes[i]);
    return (struct slice){NULL, 0};
}

/* Makes xml:base of the element the base. Returns the former one, for
 * pop_base; NULL: it stays. */
static char *
push_base(struct list_reader *r, const struct xml_element *element)
{
    struct slice base = attribute_of(element, "base", r->names[W_XML]);
    char *before = r->base;
    char *copy;

    if (base.size == 0)
        return NULL;
    buf_clear(&r->raw);
    buf_clear(&r->url);
    uri_add_sendable(&r->raw, base);
    uri_resolve(&r->url, slice_of(before), buf_slice(&r->raw));
    copy = r->url.failed ? NULL : slice_dup(buf_slice(&r->url));
    r->is_starved |= !copy;
    if (!copy)
        return NULL;
    r->base = copy;
    return before;
}

static void
pop_base(struct list_reader *r, char *before)
{
    if (!before)
        return;
    free(r->base);
    r->base = before;
}

/* Reads a link of the root or of the entry. */
static enum status
read_ln(struct list_reader *r, const struct xml_element *element,
        struct problem *why)
{
    bool is_of_root = r->place == PLACE_ROOT;
    struct link *link;
    enum status rc;

    if (is_of_root)
        entry_clear(r->entry);
    rc = entry_link(r->entry, &link, why);
    if (rc)
        return r->input ? rc : STATUS_OK;
    rc = read_attributes(r, OF_LINK, link, element, why);
    if (r->input)
        return rc || !is_of_root ? rc : change_check_target(link, "rs:ln", why);
    if (link->rel.size == 0 || link->href.size == 0)
        r->entry->change.n_links--;
    else if (is_of_root && r->events.on_link)
        r->fn_rc = r->events.on_link(link, r->user);
    return r->fn_rc;
}

/* Elements */

/* R-008: elements of the Sitemap protocol have no attributes; its root may have
 * foreign ones (xsi:schemaLocation). */
static enum status
check_plain(struct list_reader *r, const struct xml_element *element,
            struct problem *why)
{
    for (size_t i = 0; r->input && i < element->n_attributes; i++)
        if (r->depth > 1 || space_of(r, element->attributes[i].ns) <= SPACE_RS)
            return refuse_attribute((const char *)element->name,
                                    &element->attributes[i], "is not allowed",
                                    why);
    return STATUS_OK;
}

static enum status
start_root(struct list_reader *r, const struct list_element *row,
           const struct xml_element *element, struct problem *why)
{
    r->place = PLACE_ROOT;
    if (r->input) {
        if (element->ns != r->names[W_SITEMAP] || !row || row->is_index)
            return problem(why, STATUS_INVALID,
                           "the root is not urlset in the namespace %s",
                           NS_SITEMAP);
        return check_plain(r, element, why);
    }
    if (!row)
        return problem_quoting(why, STATUS_MALFORMED,
                               "no urlset and no sitemapindex, but the root",
                               xml_slice(element->name));
    if (!element->ns && row->space != SPACE_NONE)
        list_reader_mend(r, LIST_NAMESPACE, SLICE(""));
    r->root = row;
    r->root_ns = element->ns;
    r->head.is_index = row->is_index;
    r->head.kind = row->kind;
    r->head.has_root = true;
    free(push_base(r, element));
    return STATUS_OK;
}

static void
begin_row(struct list_reader *r)
{
    r->row = (struct document_entry){
        .at_us = DATETIME_NONE,
        .completed_us = DATETIME_NONE,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
    };
    r->seen = 0;
    r->is_stray = r->is_change_bad = false;
    r->bad = (struct slice){NULL, 0};
    r->row_line = list_reader_line(r);
}

void
list_reader_begin_entry(struct list_reader *r)
{
    entry_clear(r->entry);
    begin_row(r);
}

/* R-403: the root decides what its entries are; one of the other kind is
 * read, and left out. */
static enum status
start_entry(struct list_reader *r, const struct list_element *row,
            const struct xml_element *element, struct problem *why)
{
    enum status rc;

    if (!r->input) {
        list_reader_begin_entry(r);
        r->is_stray = row->is_index != r->head.is_index;
        if (row->kind != DOCUMENT_SITEMAP)
            r->outer_base = push_base(r, element);
        r->place = PLACE_ENTRY;
        return STATUS_OK;
    }
    if (!r->has_md && r->input->use != INPUT_RESOURCES)
        return problem(why, STATUS_INVALID,
                       "no rs:md with a capability before the first entry");
    rc = input_reader_entry_begin(r->input, why);
    if (rc)
        return rc;
    r->place = PLACE_ENTRY;
    r->seen = 0;
    return check_plain(r, element, why);
}

static const struct list_element *
find_element(const struct list_reader *r, xml_name name, enum list_space space)
{
    for (size_t i = 0; i < N_ELEMENTS(elements); i++) {
        const struct list_element *row = &elements[i];

        if (name == r->names[i] && r->place == row->place &&
            (row->space == space || row->space == SPACE_NONE ||
             (r->place == PLACE_NOWHERE && space == SPACE_NONE)))
            return row;
    }
    return NULL;
}

/* True if the list does not have such elements, other than in feeds. */
static bool
is_elsewhere(const struct list_reader *r, const struct list_element *row)
{
    if (r->input)
        return row->is_index;
    if (row->opens == OPENS_ENTRY)
        return row->kind != r->root->kind;
    return row->space == SPACE_ATOM && row->opens != OPENS_TEXT &&
           r->root->kind != DOCUMENT_ATOM &&
           !(r->is_in_channel && r->place == PLACE_ROOT);
}

static enum status
start_known(struct list_reader *r, const struct list_element *row,
            const struct xml_element *element, struct problem *why)
{
    enum status rc = STATUS_OK;
    char *before;

    switch (row->opens) {
    case OPENS_ENTRY:
        return start_entry(r, row, element, why);
    case OPENS_TEXT:
        if (r->input && r->seen & MEMBER_BIT(row->member))
            return problem(why, STATUS_INVALID, "more than one %s", row->name);
        if (r->input)
            r->seen |= MEMBER_BIT(row->member);
        r->place = PLACE_TEXT;
        r->text_of = row;
        buf_clear_large(&r->text, LIST_TEXT_MAX);
        r->text.max =
            row->space == SPACE_TIDINGS ? ENTRY_BYTES_MAX : LIST_TEXT_MAX;
        if (!r->input &&
            slice_is_word(attribute_of(element, "isPermaLink", NULL), "false"))
            r->text.failed = true; /* a name, and no URL */
        return check_plain(r, element, why);
    case OPENS_CHANNEL:
        free(push_base(r, element));
        r->is_in_channel = true;
        return STATUS_OK; /* its children are the root's */
    default:
        break;
    }
    before = !r->input && (row->place == PLACE_ROOT || row->opens == OPENS_LINK)
                 ? push_base(r, element)
                 : NULL;
    if (row->opens == OPENS_MD)
        rc = read_md(r, element, why);
    else if (row->opens == OPENS_LN)
        rc = read_ln(r, element, why);
    else if (!(r->seen & MEMBER_BIT(M_LOC))) {
        struct slice rel = attribute_of(element, "rel", NULL);

        /* The first alternate of an entry of Atom is its resource. */
        if (rel.size == 0 || slice_is_word(rel, "alternate"))
            list_reader_set_loc(r, attribute_of(element, "href", NULL));
    }
    pop_base(r, before);
    r->outside = r->place;
    r->place = PLACE_EMPTY;
    return rc;
}

/* R-438: a child of the root that the reader skips may be a row, or have some:
 * it is in the namespace of the list, is called as a row, or has a loc. */
static void
start_unknown(struct list_reader *r, const struct xml_element *element,
              enum list_space space)
{
    const char *name = (const char *)element->name;
    bool is_ours = space <= SPACE_SITEMAP && r->root->kind == DOCUMENT_SITEMAP;

    r->n_unknown =
        is_ours || slice_has_word(SLICE("url sitemap item entry"), name);
    r->n_locs = 0;
    r->row_line = list_reader_line(r);
    snprintf(r->unknown, sizeof(r->unknown), "%.60s", name);
}

static void
end_unknown(struct list_reader *r)
{
    uint64_t n = r->n_locs > r->n_unknown ? r->n_locs : r->n_unknown;

    while (r->unknown[0] && n-- > 0)
        list_report_count(&r->head.report, LIST_UNKNOWN, slice_of(r->unknown),
                          r->row_line);
    r->unknown[0] = '\0';
}

static enum status
start_element(struct list_reader *r, const struct xml_element *element,
              struct problem *why)
{
    const struct list_element *row;
    enum list_space space;
    enum status rc;

    if (r->n_passed > 0 || (!r->input && r->place >= PLACE_TEXT)) {
        r->n_passed++;
        r->n_locs += slice_is_word(xml_slice(element->name), "loc");
        return STATUS_OK;
    }
    rc = refuse_drafts(r, element, why);
    if (rc)
        return rc;
    space = element_space(r, element);
    row = find_element(r, element->name, space);
    if (r->place == PLACE_NOWHERE)
        return start_root(r, row, element, why);
    if (r->input && space == SPACE_RS && r->place == PLACE_ROOT &&
        r->input->n_entries > 0)
        return problem(why, STATUS_INVALID,
                       "rs:%s of the document after its first entry",
                       problem_quote(xml_slice(element->name)).text);
    if (row && !is_elsewhere(r, row))
        return start_known(r, row, element, why);
    /* Without a namespace it is neither ours nor somebody else's. */
    if (r->input && (space <= SPACE_RS || r->place == PLACE_TEXT))
        return problem(why, STATUS_INVALID,
                       "the element %s%s may not stand here",
                       element->ns == r->names[W_RS] ? "rs:" : "",
                       problem_quote(xml_slice(element->name)).text);
    if (!r->input && r->place == PLACE_ROOT)
        start_unknown(r, element, space);
    r->n_passed++;
    return STATUS_OK;
}

static enum status
end_text(struct list_reader *r, struct problem *why)
{
    const struct list_element *row = r->text_of;
    struct slice text = slice_without_spaces(buf_slice(&r->text));
    uint64_t bit = MEMBER_BIT(row->member);
    bool is_loc = row->member == M_LOC;

    r->place = PLACE_ENTRY;
    if (r->input)
        return row->member == M_DATA ? data_read(r->entry, text, why)
                                     : entry_set(r->entry, NULL, row->member,
                                                 row->name, text, why);
    r->is_starved |= r->text.is_starved;
    if (row->is_spare &&
        (r->seen & bit || (is_loc && !slice_starts(text, "http://") &&
                           !slice_starts(text, "https://"))))
        return STATUS_OK;
    if (is_loc && r->text.failed)
        list_reader_bad_loc(r, text);
    else
        take_others(r, NULL, row->member, text);
    if (row->is_spare)
        r->seen &= ~bit;
    return STATUS_OK;
}

/* Words are of an event: a row that names none has them in vain, unless the
 * list is one of changes. */
static void
drop_words(struct list_reader *r, struct change *change)
{
    const char *words = change_words(change);

    if (!words || (r->head.has_capability && !is_of_resources(r)))
        return;
    list_reader_mend(r, LIST_ATTRIBUTE, slice_of(words));
    memset(change->words, 0, sizeof(change->words));
    change->traceparent = (struct slice){NULL, 0};
}

enum status
list_reader_end_entry(struct list_reader *r)
{
    struct change *change = &r->entry->change;
    bool has_kind = r->entry->has_kind;

    if (r->is_starved)
        return STATUS_MEMORY;
    if (r->is_stray || r->is_change_bad || change->loc.size == 0) {
        list_report_count(&r->head.report,
                          r->is_stray        ? LIST_STRAY
                          : r->is_change_bad ? LIST_BAD_CHANGE
                          : r->bad.size > 0  ? LIST_BAD_LOC
                                             : LIST_NO_LOC,
                          r->is_stray && r->bad.size == 0 ? change->loc
                                                          : r->bad,
                          r->row_line);
        return STATUS_OK;
    }
    if (!has_kind) {
        drop_words(r, change);
        change->kind = CHANGE_UPDATED;
    } else if (change->kind == CHANGE_DELETED) {
        /* R-145: a deleted resource has no representation. */
        change->hash = change->type = change->encoding =
            (struct slice){NULL, 0};
        change->length = LENGTH_NONE;
    }
    r->row.has_kind = has_kind;
    r->row.change = *change;
    r->row.when_us = change->datetime_us != DATETIME_NONE ? change->datetime_us
                                                          : change->lastmod_us;
    r->head.n_entries++;
    if (r->events.on_entry)
        r->fn_rc = r->events.on_entry(&r->row, &r->head, r->user);
    return r->fn_rc;
}

static enum status
end_entry(struct list_reader *r, struct problem *why)
{
    enum status rc;

    r->place = PLACE_ROOT;
    if (r->input)
        return input_reader_entry_end(r->input, why);
    rc = list_reader_end_entry(r);
    pop_base(r, r->outer_base);
    r->outer_base = NULL;
    return rc == STATUS_MEMORY && !r->fn_rc ? problem_memory(why) : rc;
}

static enum status
end_element(struct list_reader *r, struct problem *why)
{
    if (r->n_passed > 0) {
        if (--r->n_passed == 0)
            end_unknown(r);
        return STATUS_OK;
    }
    switch (r->place) {
    case PLACE_TEXT:
        return end_text(r, why);
    case PLACE_EMPTY:
        r->place = r->outside;
        return STATUS_OK;
    case PLACE_ENTRY:
        return end_entry(r, why);
    default:
        r->is_in_channel = false;
        if (r->input && !r->has_md && r->input->use != INPUT_RESOURCES)
            return problem(why, STATUS_INVALID, "no rs:md with a capability");
        return STATUS_OK;
    }
}

/* Events */

/* An entry is a child of the root. */
#define ENTRY_DEPTH 2

/* Ends the event with `rc`, or skips the rest of a faulty entry. */
static enum status
end_event(struct list_reader *r, enum status rc, const struct problem *why)
{
    if (!rc || !r->input || !input_reader_skip_entry(r->input, rc, why))
        return rc;
    r->is_faulty = r->depth >= ENTRY_DEPTH; /* its end is still to come */
    r->n_passed = 0;
    r->place = PLACE_ROOT;
    return STATUS_OK;
}

static enum status
on_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct list_reader *r = user;

    r->depth++;
    return r->is_faulty ? STATUS_OK
                        : end_event(r, start_element(r, element, why), why);
}

static enum status
on_end(void *user, struct problem *why)
{
    struct list_reader *r = user;

    r->depth--;
    if (!r->is_faulty)
        return end_event(r, end_element(r, why), why);
    r->is_faulty = r->depth >= ENTRY_DEPTH;
    return STATUS_OK;
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    struct list_reader *r = user;
    enum status rc = STATUS_OK;

    if (r->is_faulty || r->n_passed > 0)
        return STATUS_OK;
    if (r->place == PLACE_TEXT) {
        buf_add_slice(&r->text, text);
        if (r->input && r->text.is_starved)
            rc = problem_memory(why);
        else if (r->input && r->text.failed)
            rc = problem(why, STATUS_INVALID, "%s: more than %d bytes",
                         r->text_of->name, (int)r->text.max);
    } else if (r->input && slice_without_spaces(text).size > 0) {
        rc = problem_quoting(why, STATUS_INVALID, "text between elements",
                             slice_without_spaces(text));
    }
    return end_event(r, rc, why);
}

/* True if the URL needs no mending. */
static bool
is_plain_url(struct list_reader *r, struct slice url, bool is_loc)
{
    if (is_verbatim(r))
        return true;
    buf_clear(&r->raw);
    uri_add_sendable(&r->raw, url);
    return slice_equal(buf_slice(&r->raw), url) &&
           (!is_loc || is_sendable(url));
}

/* True if the scanned entry means the same by the lenient policy: there is
 * nothing to mend. */
static bool
is_plain_entry(struct list_reader *r)
{
    const struct change *change = &r->entry->change;

    if (change_check(change, NULL) || !is_plain_url(r, change->loc, true) ||
        (is_of_resources(r) &&
         (r->entry->has_kind || change->datetime_us != DATETIME_NONE)))
        return false;
    for (size_t i = 0; i < change->n_links; i++)
        if (!is_plain_url(r, change->links[i].href, false))
            return false;
    return true;
}

/* The scanner reads the usual entry at once. */
static enum token
on_child(void *user, struct slice bytes, struct xml_known known, size_t *size,
         uint64_t *line, enum status *rc, struct problem *why)
{
    struct list_reader *r = user;
    struct input_reader *input = r->input;
    uint64_t n_lines;
    enum token token;

    if (r->place != PLACE_ROOT || r->is_faulty || r->n_passed > 0 ||
        (input ? !r->has_md && input->use != INPUT_RESOURCES
               : r->head.is_index || r->root->kind != DOCUMENT_SITEMAP))
        return TOKEN_UNKNOWN;
    token =
        urlset_scan_entry(r->scanned, bytes, r->entry, known, size, &n_lines);
    if (token)
        return token;
    if (input ? !input_reader_is_good(input) : !is_plain_entry(r))
        return TOKEN_UNKNOWN;
    *line += n_lines;
    if (input) {
        *rc = end_event(r, input_reader_hand_over(input, why), why);
    } else {
        begin_row(r);
        *rc = end_entry(r, why);
    }
    return *rc ? TOKEN_REFUSED : TOKEN_TAKEN;
}

enum status
list_reader_init(struct list_reader *r)
{
    static const struct xml_events events = {on_start, on_end, on_text,
                                             on_child};

    buf_init(&r->text, LIST_TEXT_MAX);
    buf_init(&r->url, LIST_TEXT_MAX);
    buf_init(&r->raw, LIST_TEXT_MAX);
    for (size_t i = 0; i < N_ELEMENTS(elements); i++)
        r->words[i] = elements[i].name;
    memcpy(r->words + W_SITEMAP, more_words, sizeof(more_words));
    r->xml = xml_new(&events, r, r->words, r->names,
                     W_SITEMAP + N_ELEMENTS(more_words));
    return r->xml ? STATUS_OK : STATUS_MEMORY;
}

void
list_reader_fini(struct list_reader *r)
{
    xml_free(r->xml);
    buf_fini(&r->text);
    buf_fini(&r->url);
    buf_fini(&r->raw);
}

/* The parser of posts (input_reader.h) */

static enum status
urlset_open(void *state, struct input_reader *reader)
{
    struct list_reader *r = state;

    r->input = reader;
    r->entry = &reader->entry;
    return list_reader_init(r);
}

static void
urlset_close(void *state)
{
    list_reader_fini(state);
}

static enum status
urlset_reset(void *state)
{
    struct list_reader *r = state;

    r->place = PLACE_NOWHERE;
    r->n_passed = r->depth = 0;
    r->is_faulty = r->has_md = false;
    r->last_ns = NULL; /* the names may be others */
    buf_clear_large(&r->text, LIST_TEXT_MAX);
    return xml_reset(r->xml);
}

static enum status
urlset_feed(void *state, struct slice bytes, struct problem *why)
{
    struct list_reader *r = state;

    return xml_feed(r->xml, bytes, why);
}

static enum status
urlset_finish(void *state, struct problem *why)
{
    struct list_reader *r = state;

    return xml_end(r->xml, why);
}

static uint64_t
urlset_line(const void *state)
{
    const struct list_reader *r = state;

    return xml_line(r->xml);
}

const struct parser urlset_parser = {
    .size = sizeof(struct list_reader),
    .open = urlset_open,
    .close = urlset_close,
    .reset = urlset_reset,
    .feed = urlset_feed,
    .end = urlset_finish,
    .line = urlset_line,
};

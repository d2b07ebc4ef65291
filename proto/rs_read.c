#include "proto/rs_read.h"

#include "proto/number.h"
#include "proto/uri.h"

const char *const md_words[N_WORDS] = {
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

/* An attribute that may not be where it is. Its name is the document's. */
enum status
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

    if (!reader_is_for_messages(md->reader))
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
document_capability(struct reader *reader, struct slice value,
                    struct problem *why)
{
    enum capability capability = CAP_CHANGE_NOTIFICATION;
    bool is_known = !capability_of(value, &capability);

    if (reader->use == READER_RESOURCES) {
        if (!is_known || capability != CAP_RESOURCELIST)
            return problem(why, STATUS_INVALID,
                           "capability: not resourcelist: \"%s\"",
                           problem_quote(value).text);
        reader->capability = (int)capability;
        return STATUS_OK;
    }
    if (!is_known && !reader->takes_any_capability)
        return problem(why, STATUS_INVALID, "capability: unknown: \"%s\"",
                       problem_quote(value).text);
    if (capability != CAP_CHANGELIST && capability != CAP_CHANGE_NOTIFICATION) {
        if (!reader->takes_any_capability)
            return problem(why, STATUS_INVALID,
                           "capability: neither changelist nor "
                           "change-notification: \"%s\"",
                           problem_quote(value).text);
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

    if (is_of_changes != (md->reader->use != READER_RESOURCES))
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

enum status
md_read_document(struct md_reader *md, const struct xml_element *element,
                 struct problem *why)
{
    struct reader *reader = md->reader;
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
        rc = reader_interval(reader, why);
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
    if (md->reader->use != READER_MESSAGE)
        return STATUS_OK;
    if (is_word(md, a->name, W_SEQ) && !number_read(xml_value(a), &change->seq))
        return md_refuse("rs:md", a, "is not a number", why);
    if (is_word(md, a->name, W_DATETIME))
        return entry_time("td:datetime", xml_value(a), &change->source_us, why);
    return STATUS_OK;
}

enum status
md_read_entry(struct md_reader *md, const struct xml_element *element,
              struct problem *why)
{
    struct entry *entry = &md->reader->entry;
    struct change *change = &entry->change;
    struct entry_attributes to = {&change->attributes, &change->n_attributes};
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];
        struct slice value = xml_value(a);

        if (a->ns) {
            if (is_word(md, a->ns, W_NS_TIDINGS))
                rc = entry_tidings(md, a, why);
            else if (is_ours(md, a->ns))
                rc = md_refuse("rs:md", a, "must not have a prefix", why);
            else
                rc = foreign_attribute(md, a, to, why);
        } else if (is_word(md, a->name, W_CHANGE)) {
            rc = entry_kind(entry, value, why);
        } else if (is_word(md, a->name, W_DATETIME)) {
            rc = entry_time("datetime", value, &change->datetime_us, why);
        } else if (is_word(md, a->name, W_HASH)) {
            rc = entry_hash(entry, value, &change->hash, why);
        } else if (is_word(md, a->name, W_LENGTH)) {
            rc = entry_length(value, &change->length, why);
        } else if (is_word(md, a->name, W_TYPE)) {
            rc = entry_text(entry, "type", value, &change->type, why);
        } else if (is_word(md, a->name, W_ENCODING)) {
            rc = entry_text(entry, "encoding", value, &change->encoding, why);
        } else {
            rc = md_refuse("rs:md", a, "is not for a change", why);
        }
    }
    return rc;
}

static enum status
link_attributes(struct md_reader *md, const struct xml_element *element,
                struct link *link, struct problem *why)
{
    struct entry *entry = &md->reader->entry;
    struct entry_attributes to = {&link->attributes, &link->n_attributes};
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];
        struct slice value = xml_value(a);

        if (a->ns) {
            if (is_ours(md, a->ns))
                rc = md_refuse("rs:ln", a, "must not have a prefix", why);
            else if (!is_word(md, a->ns, W_NS_TIDINGS))
                rc = foreign_attribute(md, a, to, why);
        } else if (is_word(md, a->name, W_REL)) {
            rc = entry_text(entry, "rel", value, &link->rel, why);
        } else if (is_word(md, a->name, W_HREF)) {
            rc = entry_text(entry, "href", value, &link->href, why);
        } else if (is_word(md, a->name, W_TYPE)) {
            rc = entry_text(entry, "type", value, &link->type, why);
        } else if (is_word(md, a->name, W_PRI)) {
            rc = entry_pri(value, &link->pri, why);
        } else if (is_word(md, a->name, W_MODIFIED)) {
            rc = entry_time("modified", value, &link->modified_us, why);
        } else if (is_word(md, a->name, W_HASH)) {
            rc = entry_hash(entry, value, &link->hash, why);
        } else if (is_word(md, a->name, W_LENGTH)) {
            rc = entry_length(value, &link->length, why);
        } else if (is_word(md, a->name, W_ENCODING)) {
            rc = entry_text(entry, "encoding", value, &link->encoding, why);
        } else {
            rc = md_refuse("rs:ln", a, "is not for a change", why);
        }
    }
    return rc;
}

enum status
ln_read_entry(struct md_reader *md, const struct xml_element *element,
              struct problem *why)
{
    struct link *link;
    enum status rc = entry_link(&md->reader->entry, &link, why);

    if (rc)
        return rc;
    return link_attributes(md, element, link, why);
}

enum status
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
        rc = problem(why, STATUS_INVALID,
                     "rel: neither a relation's name nor an absolute URI: "
                     "\"%s\"",
                     problem_quote(link.rel).text);
    if (!rc)
        rc = uri_check(link.href, "href", why);
    return rc;
}

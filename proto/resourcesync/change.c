#include "proto/resourcesync/change.h"

#include "proto/resourcesync/xml.h"
#include "proto/uri.h"
#include "proto/utf8.h"

void
change_init(struct change *change)
{
    *change = (struct change){
        .datetime_us = DATETIME_NONE,
        .source_us = DATETIME_NONE,
        .lastmod_us = DATETIME_NONE,
        .length = LENGTH_NONE,
    };
}

struct datetime_text
change_lastmod(const struct change *change)
{
    struct datetime_text time = datetime_text_short(change->lastmod_us);

    if (change->is_lastmod_date)
        time.text[DATETIME_DATE_SIZE] = '\0';
    return time;
}

static enum status
check_type(struct slice type, struct problem *why)
{
    if (type.size > 0 && !is_media_type(type))
        return problem_quoting(why, STATUS_INVALID,
                               "type: not a media type, such as text/html",
                               type);
    return STATUS_OK;
}

/* as in Content-Encoding, names of codings and commas. */
static enum status
check_encoding(struct slice encoding, struct problem *why)
{
    for (size_t i = 0; i < encoding.size; i++) {
        unsigned char c = (unsigned char)encoding.data[i];

        if (c < 0x20 || c >= 0x7f)
            return problem_quoting(
                why, STATUS_INVALID,
                "encoding: not a content coding, such as gzip", encoding);
    }
    return STATUS_OK;
}

/* What the XML reader refuses, JSON must not bring: a fragment that cannot be
 * read back would be in the log for good. */
static enum status
check_namespace(const struct attribute *a, struct problem *why)
{
    char ns[CHANGE_NS_MAX + 1];
    enum status rc;

    if (!slice_copy(ns, sizeof(ns), a->ns))
        return problem(why, STATUS_INVALID,
                       "attribute \"%s\": its namespace has more than %d "
                       "bytes",
                       problem_quote(a->name).text, CHANGE_NS_MAX);
    rc = xml_check_namespace(ns);
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (rc)
        return problem(why, STATUS_INVALID,
                       "attribute \"%s\": its namespace is not a URI: \"%s\"",
                       problem_quote(a->name).text, problem_quote(a->ns).text);
    return STATUS_OK;
}

/* Both formats can name our own namespaces or a name that is none; only
 * JSON can name an attribute twice, which would not be well-formed in XML. */
static enum status
check_attributes(const struct attribute *attributes, size_t n,
                 struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; i < n; i++) {
        const struct attribute *a = &attributes[i];

        if (a->ns.size == 0 || slice_is(a->ns, NS_SITEMAP) ||
            slice_is(a->ns, NS_RS) || slice_is(a->ns, NS_TIDINGS) ||
            slice_is(a->ns, "http://www.w3.org/2000/xmlns/"))
            return problem(why, STATUS_INVALID,
                           "attribute \"%s\": not in a foreign namespace: "
                           "\"%s\"",
                           problem_quote(a->name).text,
                           problem_quote(a->ns).text);
        /* Attributes of one namespace mostly stand together. */
        if (i == 0 || !slice_equal(a->ns, attributes[i - 1].ns))
            rc = check_namespace(a, why);
        if (rc)
            return rc;
        if (!is_ncname(a->name))
            return problem_quoting(why, STATUS_INVALID,
                                   "attributes: not an attribute's name",
                                   a->name);
        for (size_t k = 0; k < i; k++)
            if (slice_equal(a->name, attributes[k].name) &&
                slice_equal(a->ns, attributes[k].ns))
                return problem(why, STATUS_INVALID,
                               "attribute \"%s\" is given twice",
                               problem_quote(a->name).text);
    }
    return STATUS_OK;
}

enum status
change_check_target(const struct link *link, const char *what,
                    struct problem *why)
{
    if (link->rel.size == 0 || link->href.size == 0)
        return problem(why, STATUS_INVALID, "%s: no %s", what,
                       link->rel.size == 0 ? "rel" : "href");
    if (!is_relation(link->rel))
        return problem_quoting(why, STATUS_INVALID,
                               "rel: neither a relation's name, such as "
                               "duplicate, nor an absolute URI",
                               link->rel);
    return uri_check(link->href, "href", why);
}

static enum status
check_link(const struct link *link, struct problem *why)
{
    enum status rc = change_check_target(link, "link", why);

    if (rc)
        return rc;
    if (link->pri > 999999)
        return problem(why, STATUS_INVALID, "pri: not from 1 to 999999: %u",
                       (unsigned)link->pri);
    if (link->type.size == 0 && slice_is(link->rel, REL_PATCH))
        return problem(why, STATUS_INVALID, "link: a patch needs a type");
    rc = check_type(link->type, why);
    if (!rc)
        rc = check_encoding(link->encoding, why);
    if (!rc)
        rc = check_attributes(link->attributes, link->n_attributes, why);
    return rc;
}

static enum status
check_tags(struct slice tags, struct problem *why)
{
    while (tags.size > 0) {
        size_t size = tags.size;
        struct slice tag = slice_take(&tags, ' ');

        if (tag.size == 0 || tag.size > TAG_MAX)
            return problem(why, STATUS_INVALID,
                           "tags: not of 1 to %d bytes: \"%s\"", TAG_MAX,
                           problem_quote(tag).text);
        if (tags.size == 0 && tag.size < size)
            return problem(why, STATUS_INVALID, "tags: one is empty");
    }
    return STATUS_OK;
}

/* a deleted resource has no representation to describe. */
static enum status
check_deleted(const struct change *change, struct problem *why)
{
    const char *which = change->hash.size > 0           ? "hash"
                        : change->length != LENGTH_NONE ? "length"
                        : change->type.size > 0         ? "type"
                        : change->encoding.size > 0     ? "encoding"
                                                        : NULL;

    return which ? problem(why, STATUS_INVALID,
                           "%s: a deleted resource has none", which)
                 : STATUS_OK;
}

const struct change_word change_word_rows[CHANGE_WORDS] = {
    [WORD_TITLE] = {"title", CHANGE_TITLE_MAX},
    [WORD_SUMMARY] = {"summary", CHANGE_SUMMARY_MAX},
    [WORD_AUTHOR] = {"author", CHANGE_AUTHOR_MAX},
    [WORD_DATA] = {"data", CHANGE_DATA_MAX},
};

const char *
change_words(const struct change *change)
{
    for (size_t i = 0; i < CHANGE_WORDS; i++)
        if (change->words[i].size > 0)
            return change_word_rows[i].name;
    return change->traceparent.size > 0 ? "traceparent" : NULL;
}

enum status
change_check_words(size_t word, struct slice words, struct problem *why)
{
    const struct change_word *row = &change_word_rows[word];

    if (words.size > row->max)
        return problem(why, STATUS_INVALID, "%s: %zu bytes, more than %zu",
                       row->name, words.size, row->max);
    if (!utf8_is_xml_text(words))
        return problem_prefix(why,
                              problem_quoting(why, STATUS_INVALID,
                                              "not UTF-8, or a character that "
                                              "XML cannot carry",
                                              words),
                              "%s: ", row->name);
    return STATUS_OK;
}

enum status
change_check(const struct change *change, struct problem *why)
{
    enum status rc;

    if (change->loc.size == 0)
        return problem(why, STATUS_INVALID, "no loc");
    rc = uri_check_loc(change->loc, why);
    if (!rc)
        rc = check_type(change->type, why);
    if (!rc)
        rc = check_encoding(change->encoding, why);
    if (!rc && change->kind == CHANGE_DELETED)
        rc = check_deleted(change, why);
    if (!rc && change->tags.size > 0)
        rc = check_tags(change->tags, why);
    for (size_t i = 0; !rc && i < CHANGE_WORDS; i++)
        rc = change_check_words(i, change->words[i], why);
    if (rc)
        return rc;

    if (change->changefreq.size > 0 && !is_changefreq(change->changefreq))
        return problem_quoting(why, STATUS_INVALID,
                               "changefreq: not always, hourly, daily, weekly, "
                               "monthly, yearly or never",
                               change->changefreq);
    if (change->priority.size > 0 && !is_priority(change->priority))
        return problem_quoting(
            why, STATUS_INVALID,
            "priority: not a decimal from 0.0 to 1.0, such as 0.5",
            change->priority);

    rc = check_attributes(change->attributes, change->n_attributes, why);
    for (size_t i = 0; !rc && i < change->n_links; i++)
        rc = check_link(&change->links[i], why);
    return rc;
}

/*
 * verify_head.c - reads the root of a document of Tidings.
 *
 *   <urlset>                       or <sitemapindex>
 *     <rs:ln rel="prev" href="..." td:digest="sha-256:..."/>
 *     <rs:md capability="changelist" from="..." until="..." td:epoch="..."
 *            td:after="50" td:last="100" td:digest="sha-256:..."/>
 *     <url><loc>...</loc>          or <sitemap>
 *       <rs:md from="..." until="..." td:digest="sha-256:..."/></url>
 *   </urlset>
 */
#include "client/verify/verify_head.h"

#include <stdlib.h>

#include "proto/buf.h"
#include "proto/number.h"
#include "proto/resourcesync/xml.h"

struct verify_reader {
    struct xml *xml;
    struct verify_head head;
    verify_entry_fn *on_entry;
    void *user;
    unsigned depth;
    bool is_in_entry;
    bool is_in_loc;
    bool has_md;
    struct buf loc;
    struct verify_entry entry;
    uint64_t n_entries;
};

static bool
is_element(const struct xml_element *element, const char *ns, const char *name)
{
    return element->ns && slice_is(xml_slice(element->ns), ns) &&
           slice_is(xml_slice(element->name), name);
}

/* Finds an attribute in the namespace `ns` or in none (NULL). False: it is not
 * there. */
static bool
find_attribute(const struct xml_element *element, const char *ns,
               const char *name, struct slice *value)
{
    for (size_t i = 0; i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];

        if (!a->ns != !ns || (ns && !slice_is(xml_slice(a->ns), ns)) ||
            !slice_is(xml_slice(a->name), name))
            continue;
        *value = xml_value(a);
        return true;
    }
    return false;
}

static enum status
fail_value(struct problem *why, const char *name, struct slice value)
{
    return problem(why, STATUS_INVALID, "%s is \"%s\"", name,
                   problem_quote(value).text);
}

static enum status
take_time(const struct xml_element *element, const char *name, int64_t *us,
          struct problem *why)
{
    struct slice value;

    if (!find_attribute(element, NULL, name, &value))
        return STATUS_OK;
    return datetime_read(value, us) ? fail_value(why, name, value) : STATUS_OK;
}

static enum status
take_number(const struct xml_element *element, const char *name,
            uint64_t *number, bool *is_there, struct problem *why)
{
    struct slice value;

    if (!find_attribute(element, NS_TIDINGS, name, &value)) {
        *is_there = false;
        return STATUS_OK;
    }
    return number_read(value, number) ? STATUS_OK
                                      : fail_value(why, name, value);
}

static enum status
take_digest(const struct xml_element *element, struct digest *digest,
            bool *is_there, struct problem *why)
{
    struct slice value;

    *is_there = find_attribute(element, NS_TIDINGS, "digest", &value);
    if (!*is_there)
        return STATUS_OK;
    return digest_read(value, digest) ? fail_value(why, "td:digest", value)
                                      : STATUS_OK;
}

static enum status
read_md(struct verify_head *head, const struct xml_element *md,
        struct problem *why)
{
    struct slice value;
    enum status rc;

    if (find_attribute(md, NULL, "capability", &value))
        head->has_capability = !capability_of(value, &head->capability);
    if (find_attribute(md, NS_TIDINGS, "epoch", &value)) {
        if (!epoch_is_valid(value))
            return fail_value(why, "td:epoch", value);
        memcpy(head->epoch, value.data, EPOCH_SIZE);
    }
    head->has_range = true;
    rc = take_number(md, "after", &head->after, &head->has_range, why);
    if (!rc)
        rc = take_number(md, "last", &head->last, &head->has_range, why);
    if (!rc)
        rc = take_digest(md, &head->digest, &head->has_digest, why);
    if (!rc)
        rc = take_time(md, "from", &head->from_us, why);
    if (!rc)
        rc = take_time(md, "until", &head->until_us, why);
    return rc;
}

static enum status
read_link(struct verify_head *head, const struct xml_element *ln,
          struct problem *why)
{
    struct slice rel, href;
    bool is_prev;
    char *to;

    if (!find_attribute(ln, NULL, "rel", &rel) ||
        !find_attribute(ln, NULL, "href", &href))
        return STATUS_OK;
    is_prev = slice_is(rel, "prev");
    if (!is_prev && !slice_is(rel, "next"))
        return STATUS_OK;
    to = is_prev ? head->prev : head->next;
    if (to[0] || href.size == 0)
        return problem(why, STATUS_INVALID, "two links %s, or an empty one",
                       is_prev ? "prev" : "next");
    if (href.size > VERIFY_HREF_MAX)
        return problem(why, STATUS_INVALID, "a link is longer than %d bytes",
                       VERIFY_HREF_MAX);
    memcpy(to, href.data, href.size);
    to[href.size] = '\0';
    return is_prev ? take_digest(ln, &head->before, &head->has_before, why)
                   : STATUS_OK;
}

static enum status
start_root(struct verify_reader *r, const struct xml_element *element,
           struct problem *why)
{
    r->head.is_index = is_element(element, NS_SITEMAP, "sitemapindex");
    if (r->head.is_index || is_element(element, NS_SITEMAP, "urlset"))
        return STATUS_OK;
    return problem(why, STATUS_MALFORMED, "no urlset and no sitemapindex");
}

/* Reads a child of the root. */
static enum status
start_child(struct verify_reader *r, const struct xml_element *element,
            struct problem *why)
{
    r->is_in_entry = is_element(element, NS_SITEMAP, "url") ||
                     is_element(element, NS_SITEMAP, "sitemap");
    if (r->is_in_entry) {
        buf_clear(&r->loc);
        r->entry = (struct verify_entry){.until_us = DATETIME_NONE};
        return STATUS_OK;
    }
    if (is_element(element, NS_RS, "ln"))
        return read_link(&r->head, element, why);
    if (!is_element(element, NS_RS, "md"))
        return STATUS_OK;
    if (r->has_md)
        return problem(why, STATUS_INVALID, "two rs:md of the root");
    r->has_md = true;
    return read_md(&r->head, element, why);
}

static enum status
on_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct verify_reader *r = user;
    enum status rc = STATUS_OK;

    r->depth++;
    if (r->depth == 1)
        return start_root(r, element, why);
    if (r->depth == 2)
        return start_child(r, element, why);
    if (r->depth == 3 && r->is_in_entry) {
        r->is_in_loc = is_element(element, NS_SITEMAP, "loc");
        if (is_element(element, NS_RS, "md"))
            rc = take_time(element, "until", &r->entry.until_us, why);
        if (!rc && is_element(element, NS_RS, "md"))
            rc = take_digest(element, &r->entry.digest, &r->entry.has_digest,
                             why);
    }
    return rc;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct verify_reader *r = user;

    r->is_in_loc = false;
    if (r->depth-- != 2 || !r->is_in_entry)
        return STATUS_OK;
    r->is_in_entry = false;
    if (++r->n_entries > DOCUMENT_ENTRIES_MAX)
        return problem(why, STATUS_INVALID, "more than %d entries",
                       DOCUMENT_ENTRIES_MAX);
    r->entry.loc = buf_slice(&r->loc);
    if (r->loc.is_starved)
        return problem_memory(why);
    if (r->loc.failed || r->loc.size == 0)
        return problem(why, STATUS_INVALID,
                       "entry %llu has no loc, or one of "
                       "more than %d bytes",
                       (unsigned long long)r->n_entries, VERIFY_HREF_MAX);
    return r->on_entry ? r->on_entry(&r->entry, r->user) : STATUS_OK;
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    struct verify_reader *r = user;

    (void)why;
    if (r->is_in_loc)
        buf_add_slice(&r->loc, text);
    return STATUS_OK;
}

struct verify_reader *
verify_reader_new(verify_entry_fn *on_entry, void *user)
{
    static const struct xml_events events = {on_start, on_end, on_text};
    struct verify_reader *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->head.from_us = r->head.until_us = DATETIME_NONE;
    r->on_entry = on_entry;
    r->user = user;
    buf_init(&r->loc, VERIFY_HREF_MAX);
    r->xml = xml_new(&events, r, NULL, NULL, 0);
    if (r->xml)
        return r;
    free(r);
    return NULL;
}

void
verify_reader_free(struct verify_reader *reader)
{
    if (!reader)
        return;
    xml_free(reader->xml);
    buf_fini(&reader->loc);
    free(reader);
}

enum status
verify_reader_feed(struct verify_reader *reader, struct slice bytes,
                   struct problem *why)
{
    return xml_feed(reader->xml, bytes, why);
}

enum status
verify_reader_end(struct verify_reader *reader, struct problem *why)
{
    return xml_end(reader->xml, why);
}

const struct verify_head *
verify_reader_head(const struct verify_reader *r)
{
    return &r->head;
}

#include "tests/support/xmldoc.h"

#include <stdlib.h>

#include <libxml/parser.h>

#include "proto/vocab.h"

static bool
is_element(const xmlNode *node, const char *ns, const char *name)
{
    return node->type == XML_ELEMENT_NODE && node->ns &&
           xmlStrEqual(node->ns->href, (const xmlChar *)ns) &&
           xmlStrEqual(node->name, (const xmlChar *)name);
}

/* The text of a node that has nothing but one piece of text in it. */
static const char *
text_of(const xmlNode *children)
{
    if (!children || children->next || children->type != XML_TEXT_NODE)
        return "";
    return (const char *)children->content;
}

/* An attribute's value; `ns` NULL: one without prefix. */
static const char *
attribute(const xmlNode *node, const char *ns, const char *name)
{
    for (const xmlAttr *a = node->properties; a; a = a->next) {
        if (!xmlStrEqual(a->name, (const xmlChar *)name))
            continue;
        if (ns ? a->ns && xmlStrEqual(a->ns->href, (const xmlChar *)ns)
               : !a->ns)
            return text_of(a->children);
    }
    return "";
}

static bool
number(const char *text, uint64_t *n)
{
    char *end;

    *n = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

/* The root's rs:md */
static bool
read_md(struct xmldoc *d, const xmlNode *md)
{
    const char *after = attribute(md, NS_TIDINGS, "after");
    const char *last = attribute(md, NS_TIDINGS, "last");

    if (d->capability)
        return false;
    d->capability = attribute(md, NULL, "capability");
    d->from = attribute(md, NULL, "from");
    d->until = attribute(md, NULL, "until");
    d->epoch = attribute(md, NS_TIDINGS, "epoch");
    d->digest = attribute(md, NS_TIDINGS, "digest");
    d->has_coverage = *after || *last;
    return !d->has_coverage ||
           (number(after, &d->after) && number(last, &d->last));
}

static bool
read_entry(struct xmldoc_entry *e, const xmlNode *node)
{
    const char *seq = "";

    *e = (struct xmldoc_entry){"", "", "", "", "", "", "", 0, {NULL, 0}};
    for (const xmlNode *n = node->children; n; n = n->next) {
        if (is_element(n, NS_SITEMAP, "loc"))
            e->loc = text_of(n->children);
        if (!is_element(n, NS_RS, "md"))
            continue;
        e->change = attribute(n, NULL, "change");
        e->datetime = attribute(n, NULL, "datetime");
        e->from = attribute(n, NULL, "from");
        e->until = attribute(n, NULL, "until");
        e->capability = attribute(n, NULL, "capability");
        e->digest = attribute(n, NS_TIDINGS, "digest");
        seq = attribute(n, NS_TIDINGS, "seq");
    }
    return *e->loc && (!*seq || number(seq, &e->seq));
}

/* Every entry stands on a line of its own, in the tree's order. */
static bool
find_lines(struct xmldoc *d, struct slice text)
{
    const char *begin = d->is_index ? "<sitemap>" : "<url>";
    size_t n = 0;

    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end ? (size_t)(end + 1 - text.data) : text.size;

        if (slice_starts(text, begin)) {
            if (n == d->n_entries)
                return false;
            d->entries[n++].line = (struct slice){text.data, size};
        }
        text.data += size;
        text.size -= size;
    }
    return n == d->n_entries;
}

static bool
read_root(struct xmldoc *d, const xmlNode *root, struct problem *why)
{
    const char *entry = d->is_index ? "sitemap" : "url";
    size_t n = 0;

    for (const xmlNode *node = root->children; node; node = node->next)
        n += is_element(node, NS_SITEMAP, entry);
    d->entries = calloc(n ? n : 1, sizeof(*d->entries));
    if (!d->entries) {
        problem_set(why, "no memory");
        return false;
    }
    for (const xmlNode *node = root->children; node; node = node->next) {
        bool is_good = true;

        if (is_element(node, NS_RS, "md"))
            is_good = read_md(d, node);
        if (is_element(node, NS_SITEMAP, entry))
            is_good = read_entry(&d->entries[d->n_entries++], node);
        if (is_element(node, NS_RS, "ln")) {
            is_good = d->n_links < XMLDOC_LINKS_MAX;
            if (is_good)
                d->links[d->n_links++] = (struct xmldoc_link){
                    attribute(node, NULL, "rel"), attribute(node, NULL, "href"),
                    attribute(node, NS_TIDINGS, "digest")};
        }
        if (!is_good) {
            problem_set(why, "line %ld of a document is wrong",
                        xmlGetLineNo(node));
            return false;
        }
    }
    if (!d->capability || !*d->capability) {
        problem_set(why, "a document has no rs:md with a capability");
        return false;
    }
    return true;
}

bool
xmldoc_read(struct xmldoc *d, struct slice text, struct problem *why)
{
    const int options = XML_PARSE_NOENT | XML_PARSE_NONET | XML_PARSE_HUGE |
                        XML_PARSE_NOERROR | XML_PARSE_NOWARNING;
    const xmlNode *root = NULL;

    memset(d, 0, sizeof(*d));
    if (text.size > 0)
        d->tree =
            xmlReadMemory(text.data, (int)text.size, NULL, "UTF-8", options);
    if (d->tree)
        root = xmlDocGetRootElement(d->tree);
    d->is_index = root && is_element(root, NS_SITEMAP, "sitemapindex");
    if (!d->is_index && (!root || !is_element(root, NS_SITEMAP, "urlset"))) {
        problem_set(why, "\"%s\" is neither urlset nor sitemapindex",
                    problem_quote(text).text);
        return false;
    }
    if (!read_root(d, root, why))
        return false;
    if (!find_lines(d, text)) {
        problem_set(why, "entries are not one line each");
        return false;
    }
    return true;
}

void
xmldoc_free(struct xmldoc *d)
{
    xmlFreeDoc(d->tree);
    free(d->entries);
    memset(d, 0, sizeof(*d));
}

const struct xmldoc_link *
xmldoc_link(const struct xmldoc *d, const char *rel)
{
    for (size_t i = 0; i < d->n_links; i++)
        if (!strcmp(d->links[i].rel, rel))
            return &d->links[i];
    return NULL;
}

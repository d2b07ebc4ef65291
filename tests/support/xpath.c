#include "tests/support/xpath.h"

#include <stdio.h>
#include <stdlib.h>

#include <libxml/parser.h>
#include <libxml/xpathInternals.h>

#include "tests/test.h"

/* The most bytes of an unreadable document that a failure shows. */
#define SHOWN_MAX 300

static const struct {
    const char *prefix;
    const char *name;
} namespaces[] = {
    {"s", "http://www.sitemaps.org/schemas/sitemap/0.9"},
    {"rs", "http://www.openarchives.org/rs/terms/"},
    {"td", "urn:tidings:1"},
};

struct xpath_text {
    struct xpath_text *next;
    xmlChar *text;
};

void
xpath_open(struct xpath *x, struct slice document)
{
    *x = (struct xpath){.document = NULL};
    x->document = xmlReadMemory(document.data, (int)document.size, NULL, NULL,
                                XML_PARSE_NONET | XML_PARSE_HUGE);
    if (!x->document)
        fail_msg("not well-formed: %.*s",
                 document.size < SHOWN_MAX ? (int)document.size : SHOWN_MAX,
                 document.data);
    x->context = xmlXPathNewContext(x->document);
    assert_non_null(x->context);
    for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++)
        assert_int_equal(xmlXPathRegisterNs(x->context,
                                            BAD_CAST namespaces[i].prefix,
                                            BAD_CAST namespaces[i].name),
                         0);
}

void
xpath_close(struct xpath *x)
{
    while (x->texts) {
        struct xpath_text *next = x->texts->next;

        xmlFree(x->texts->text);
        free(x->texts);
        x->texts = next;
    }
    xmlXPathFreeContext(x->context);
    xmlFreeDoc(x->document);
}

static xmlXPathObject *
evaluate(struct xpath *x, const char *expression)
{
    xmlXPathObject *value =
        xmlXPathEvalExpression(BAD_CAST expression, x->context);

    if (!value)
        fail_msg("not XPath: %s", expression);
    return value;
}

size_t
xpath_count(struct xpath *x, const char *expression)
{
    xmlXPathObject *value = evaluate(x, expression);
    size_t n = value->nodesetval ? (size_t)value->nodesetval->nodeNr : 0;

    if (value->type != XPATH_NODESET)
        fail_msg("selects no nodes by its nature: %s", expression);
    xmlXPathFreeObject(value);
    return n;
}

const char *
xpath_get(struct xpath *x, const char *expression)
{
    xmlXPathObject *value = evaluate(x, expression);
    struct xpath_text *kept = malloc(sizeof(*kept));

    assert_non_null(kept);
    kept->text = xmlXPathCastToString(value);
    assert_non_null(kept->text);
    xmlXPathFreeObject(value);
    kept->next = x->texts;
    x->texts = kept;
    return (const char *)kept->text;
}

static xmlNode *
next_entry(xmlNode *node)
{
    while (node && (node->type != XML_ELEMENT_NODE ||
                    xmlStrcmp(node->name, BAD_CAST "url")))
        node = node->next;
    return node;
}

const char *
xpath_of(struct xpath *x, size_t number, const char *what)
{
    char text[120];
    const char *found;

    if (!x->entry || number < x->number) {
        x->entry = next_entry(xmlDocGetRootElement(x->document)->children);
        x->number = 1;
    }
    for (; x->entry && x->number < number; x->number++)
        x->entry = next_entry(x->entry->next);
    if (!x->entry)
        return "";
    snprintf(text, sizeof(text), "string(%s)", what);
    x->context->node = x->entry;
    found = xpath_get(x, text);
    x->context->node = NULL;
    return found;
}

void
xpath_assert(struct xpath *x, const char *expression, const char *file,
             int line)
{
    xmlXPathObject *value = evaluate(x, expression);
    int is_true = xmlXPathCastToBoolean(value);

    xmlXPathFreeObject(value);
    if (is_true)
        return;
    print_error("not true: %s\n", expression);
    _fail(file, line);
}

void
xpath_assert_count(struct xpath *x, const char *expression, size_t n,
                   const char *file, int line)
{
    size_t found = xpath_count(x, expression);

    if (found == n)
        return;
    print_error("%zu nodes, not %zu: %s\n", found, n, expression);
    _fail(file, line);
}

void
xpath_assert_text(struct xpath *x, const char *expression, const char *text,
                  const char *file, int line)
{
    const char *found = xpath_get(x, expression);

    if (slice_equal(slice_of(found), slice_of(text)))
        return;
    print_error("\"%s\", not \"%s\": %s\n", found, text, expression);
    _fail(file, line);
}

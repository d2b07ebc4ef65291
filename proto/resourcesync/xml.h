/*
 * xml.h - libxml2 made safe: hostile bytes in, elements and text out.
 *
 * Hostile XML does no harm here. xml refuses a DOCTYPE when it sees one, so
 * there are no entities beyond the five. It fetches nothing. Elements nest
 * XML_DEPTH_MAX deep. It refuses a tag, comment or the like that does not end
 * within ENTRY_BYTES_MAX, a crowd of attributes, and input that is not UTF-8 or
 * names another encoding. Errors of namespaces count as malformed. It prints
 * nothing. Parsers on different threads share nothing.
 *
 *     xml_new -> xml_feed ... xml_end -> xml_reset -> xml_feed ...
 */
#pragma once

#include "proto/problem.h"

#define XML_DEPTH_MAX 32

/* Documents that begin from now on are read by libxml2 alone, or, as at first,
 * as far as possible by the scanner (xml_scan.h). Any thread. */
void xml_scan_switch(bool is_on);

/* What a token of the scanner came to. A token is taken whole or not at all. */
enum token {
    TOKEN_TAKEN,
    TOKEN_CUT,     /* its end has not come */
    TOKEN_UNKNOWN, /* libxml2 has to judge it */
    TOKEN_REFUSED, /* by the receiver of an event */
};

/* A token whose end has not come is held up to this size; a longer one is left
 * to libxml2. */
#define SCAN_TOKEN_MAX 4096

/* A name, prefix or namespace as the parser keeps it: equal texts are the same
 * pointer, so they are compared as pointers. Terminated. */
typedef const unsigned char *xml_name;

/* In the parser's own layout. */
struct xml_attribute {
    xml_name name;
    xml_name prefix; /* NULL: none */
    xml_name ns;     /* NULL: none */
    const unsigned char *value;
    const unsigned char *end;
};

/* A declaration, in the parser's own layout. */
struct xml_namespace {
    xml_name prefix; /* NULL: of elements without one */
    xml_name uri;    /* NULL: none */
};

struct xml_element {
    xml_name name;
    xml_name ns;                            /* NULL: none */
    const struct xml_namespace *namespaces; /* that it declares */
    size_t n_namespaces;
    const struct xml_attribute *attributes;
    size_t n_attributes;
};

/* Prefixes that the root declares as ours. */
struct xml_known {
    bool rs, td;
};

/* Events of the document. A status other than 0 ends the reading. Names
 * and values are lent until the function returns; names, until the reset. */
struct xml_events {
    enum status (*start)(void *user, const struct xml_element *element,
                         struct problem *why);
    enum status (*end)(void *user, struct problem *why);
    enum status (*text)(void *user, struct slice text, struct problem *why);

    /* Optional. A child of the root may begin with `bytes`, at most
     * SCAN_TOKEN_MAX; the sitemap's namespace is the default. The function
     * reads the child whole, and moves `*line` to its end before it hands it
     * on; the status goes to `*rc`, then. Or it leaves the child to the
     * functions above. */
    enum token (*child)(void *user, struct slice bytes, struct xml_known known,
                        size_t *size, uint64_t *line, enum status *rc,
                        struct problem *why);
};

struct xml;

/* `names` receives the `n` names of `words` as the parser keeps them, and
 * receives them again whenever a reset changes them; both live longer than the
 * parser. NULL: no memory. */
struct xml *xml_new(const struct xml_events *events, void *user,
                    const char *const *words, xml_name *names, size_t n);
void xml_free(struct xml *xml); /* NULL is allowed */
MUST_CHECK enum status xml_reset(struct xml *xml);

MUST_CHECK enum status xml_feed(struct xml *xml, struct slice bytes,
                                struct problem *why);
MUST_CHECK enum status xml_end(struct xml *xml, struct problem *why);

/* Checks that `ns` can be the name of a namespace, as this parser judges it
 * when it reads a declaration: a URI reference (RFC 3986). Terminated.
 * STATUS_INVALID, STATUS_MEMORY. */
MUST_CHECK enum status xml_check_namespace(const char *ns);

/* The line it stands in, or stood in when it failed. */
uint64_t xml_line(const struct xml *xml);

static inline struct slice
xml_value(const struct xml_attribute *attribute)
{
    return (struct slice){(const char *)attribute->value,
                          (size_t)(attribute->end - attribute->value)};
}

static inline struct slice
xml_slice(xml_name name)
{
    return slice_of((const char *)name);
}

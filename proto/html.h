/*
 * html.h - what the head of an HTML page says of the page: its links.
 *
 *     <head><base href="/a/"><link rel="hub self" href="x?a=1&amp;b=2"></head>
 *
 * Not a parser of HTML: it finds its way through a head as browsers do (WHATWG
 * HTML, section 13.2: comments, what is raw text, where a head ends), and stops
 * where the body begins, so that nothing in there is taken for the page's own
 * word (W-008). One look at each byte, no memory but for one value.
 *
 * libxml2's HTML parser was looked at first: what 2.9 makes of a script depends
 * on where the network cut it, the tags in a title are tags to it, and a tag of
 * 100,000 attributes costs it many seconds.
 */
#ifndef PROTO_HTML_H
#define PROTO_HTML_H

#include "proto/slice.h"

/* Longest value of an attribute; what is longer is no link. */
#define HTML_VALUE_MAX 8192

/* <link>, or <base> with an href. Lent until the function returns. */
struct html_link {
    bool is_base;      /* told once; what links mean depends on it, those before
                          it, too */
    struct slice rel;  /* as it stands; empty: none */
    struct slice href; /* character references replaced; empty: none */
};

typedef void html_link_fn(const struct html_link *link, void *user);

/* Reads the page, or as much of its beginning as there is: a tag that is not
 * whole is none. */
void html_read(struct slice page, html_link_fn *on_link, void *user);

/* Does the document begin as a page of HTML does: with <!DOCTYPE html or
 * <html, perhaps behind white space, comments and an XML declaration? */
bool html_is_page(struct slice document);

#endif

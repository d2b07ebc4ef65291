/*
 * html_links.h - reads the links in the head of an HTML page.
 *
 *     <head><base href="/a/"><link rel="hub self" href="x?a=1&amp;b=2"></head>
 *
 * Not a parser of HTML: it finds its way through a head as browsers do (WHATWG
 * HTML, section 13.2: comments, what is raw text, where a head ends), and stops
 * where the body begins, so that no text there counts as the page's own word
 * (W-008). Reads each byte once, and holds one value.
 *
 * Why not libxml2's HTML parser: 2.9 reads a script differently when the
 * network cuts it elsewhere, takes tags in a title for tags, and needs many
 * seconds for a tag of 100,000 attributes.
 */
#pragma once

#include "proto/slice.h"

/* Longest value of an attribute; a longer one is no link. */
#define HTML_VALUE_MAX 8192

/* <link>, or <base> with an href. Lent until the function returns. */
struct html_link {
    bool is_base;      /* comes once; all links are relative to it, earlier
                          ones, too */
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

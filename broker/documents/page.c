#include "broker/documents/page.h"

#include <stdio.h>
#include <string.h>

#include "broker/sets/links.h"
#include "proto/datetime.h"
#include "proto/resourcesync/document_write.h"

/* A deeper path is an attack on the size of the page: its links begin at the
 * root. */
#define DEPTH_MAX 16

unsigned
page_depth(struct slice path)
{
    unsigned n = 0;

    for (size_t i = 1; i < path.size; i++)
        n += path.data[i] == '/';
    return n;
}

/* Adds the relative address of the root. */
static void
add_root(struct buf *to, unsigned depth)
{
    if (depth == 0)
        BUF_ADD(to, "./");
    else if (depth > DEPTH_MAX)
        BUF_ADD(to, "/");
    else
        while (depth-- > 0)
            BUF_ADD(to, "../");
}

static void
add_head_link(struct buf *to, const char *rel, struct slice href)
{
    if (href.size == 0)
        return;
    buf_add_format(to, "<link rel=\"%s\" href=\"", rel);
    buf_add_slice(to, href);
    BUF_ADD(to, "\">\n");
}

/* Adds the way from the source to the document. */
static void
add_breadcrumbs(struct buf *to, const struct page_head *head)
{
    BUF_ADD(to, "<nav aria-label=\"Breadcrumb\"><ol>\n<li><a href=\"");
    add_root(to, head->depth);
    BUF_ADD(to, "\">Tidings</a></li>\n<li><a href=\"");
    add_root(to, head->depth);
    BUF_ADD(to, "sets\">Sets</a></li>\n");
    if (head->set) {
        BUF_ADD(to, "<li><a href=\"");
        add_root(to, head->depth);
        buf_add_format(to, "sets/%s\">%s</a></li>\n", head->set, head->set);
    }
    BUF_ADD(to, "</ol></nav>\n");
}

void
page_begin(struct buf *to, const struct page_head *head)
{
    BUF_ADD(to, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                "<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    xml_escape(to, slice_of(head->title));
    BUF_ADD(to, "</title>\n<link rel=\"stylesheet\" href=\"");
    add_root(to, head->depth);
    BUF_ADD(to, "tidings.css\">\n");
    add_head_link(to, "resourcesync", head->capability);
    add_head_link(to, "alternate", head->other);
    add_head_link(to, "prev", head->prev);
    add_head_link(to, "next", head->next);
    BUF_ADD(to, "</head>\n<body class=\"page\">\n<header>\n");
    add_breadcrumbs(to, head);
    BUF_ADD(to, "</header>\n<main>\n<h1>");
    xml_escape(to, slice_of(head->title));
    BUF_ADD(to, "</h1>\n");
}

/* Adds a link to an address of ours. */
static void
add_own_link(struct buf *to, const char *rel, struct slice href,
             const char *text)
{
    if (href.size == 0)
        return;
    BUF_ADD(to, "<a href=\"");
    buf_add_slice(to, href);
    buf_add_format(to, "\" rel=\"%s\">%s</a> ", rel, text);
}

void
page_end(struct buf *to, const struct page_head *head)
{
    if (head->prev.size || head->next.size) {
        BUF_ADD(to, "<nav aria-label=\"Pages\"><p>");
        add_own_link(to, "prev", head->prev, "Previous page");
        add_own_link(to, "next", head->next, "Next page");
        BUF_ADD(to, "</p></nav>\n");
    }
    BUF_ADD(to, "</main>\n<footer><p>");
    add_own_link(to, "alternate", head->other, head->other_name);
    add_own_link(to, "resourcesync", head->capability, "Capability List");
    BUF_ADD(to, "<a href=\"");
    add_root(to, head->depth);
    BUF_ADD(to, ".well-known/resourcesync\">Source Description</a> "
                "Times are UTC.</p></footer>\n</body>\n</html>\n");
}

/* Cuts no character and no reference in two. */
static struct slice
cut_text(struct slice text)
{
    size_t size = PAGE_TEXT_MAX;

    while (size > 0 && ((unsigned char)text.data[size] & 0xc0) == 0x80)
        size--;
    for (size_t i = 1; i < 6 && i <= size && text.data[size - i] != ';'; i++)
        if (text.data[size - i] == '&')
            return (struct slice){text.data, size - i};
    return (struct slice){text.data, size};
}

void
page_text(struct buf *to, struct slice text)
{
    bool is_long = text.size > PAGE_TEXT_MAX;

    buf_add_slice(to, is_long ? cut_text(text) : text);
    if (is_long)
        BUF_ADD(to, "\xe2\x80\xa6");
}

bool
page_leads(struct slice rel)
{
    static const char *const channels[] = {"hub", "urn:tidings:1:stream",
                                           "urn:tidings:1:events",
                                           LINK_STREAM_OF_MANY};

    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++)
        if (slice_is(rel, channels[i]))
            return false;
    return true;
}

/* True if a browser may go there. */
static bool
is_link(struct slice href)
{
    return href.size > 0 && href.size <= PAGE_TEXT_MAX &&
           (slice_starts(href, "http://") || slice_starts(href, "https://"));
}

void
page_link(struct buf *to, struct slice rel, struct slice href,
          struct slice text)
{
    if (!is_link(href) || !page_leads(rel)) {
        page_text(to, text);
        return;
    }
    BUF_ADD(to, "<a href=\"");
    buf_add_slice(to, href);
    if (rel.size) {
        BUF_ADD(to, "\" rel=\"");
        page_text(to, rel);
    }
    BUF_ADD(to, "\">");
    page_text(to, text);
    BUF_ADD(to, "</a> ");
}

/* Adds a time: whole seconds for the eye, all of it for programs. */
static void
add_time(struct buf *to, struct slice text, int64_t us)
{
    char full[DATETIME_SIZE];

    datetime_write(full, us);
    BUF_ADD(to, "<time datetime=\"");
    buf_add_slice(to, text);
    BUF_ADD(to, "\">");
    buf_add(to, full, DATETIME_DATE_SIZE);
    BUF_ADD(to, " ");
    buf_add(to, full + DATETIME_DATE_SIZE + 1, sizeof("00:00:00") - 1);
    BUF_ADD(to, "</time>");
}

void
page_value(struct buf *to, struct slice text)
{
    int64_t us;

    if (!datetime_read(text, &us))
        add_time(to, text, us);
    else if (is_link(text))
        page_link(to, (struct slice){NULL, 0}, text, text);
    else
        page_text(to, text);
}

void
page_table(struct buf *to, const struct page_column *columns)
{
    BUF_ADD(to, "<table>\n<thead><tr>");
    for (; columns->title; columns++)
        buf_add_format(to, "<th scope=\"col\"%s>%s</th>",
                       columns->is_number ? " class=\"n\"" : "",
                       columns->title);
    BUF_ADD(to, "</tr></thead>\n<tbody>\n");
}

void
page_cell(struct buf *to, const struct page_column *column)
{
    if (!column->name) {
        BUF_ADD(to, "<td class=\"m\">");
        return;
    }
    buf_add_text(to, column->is_number ? "<td class=\"n\" data-column=\""
                                       : "<td data-column=\"");
    buf_add_text(to, column->title);
    BUF_ADD(to, "\">");
}

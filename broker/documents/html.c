#include "broker/documents/html.h"

#include "broker/sets/links.h"
#include "proto/http/response_head.h"
#include "proto/json/json_parse.h"
#include "proto/resourcesync/document_write.h"

/* A deeper path is an attack on the size of the page: its links begin at the
 * root. */
#define DEPTH_MAX 16
#define ROOT_SIZE (3 * DEPTH_MAX + 1)

/* The longest string of a description, escaped. */
#define VALUE_MAX ((size_t)1024 * 1024)

unsigned
html_depth(struct slice path)
{
    unsigned n = 0;

    for (size_t i = 1; i < path.size; i++)
        n += path.data[i] == '/';
    return n;
}

/* Writes the relative address of the root. */
static void
write_root(char to[ROOT_SIZE], unsigned depth)
{
    strcpy(to, depth == 0 ? "./" : depth > DEPTH_MAX ? "/" : "");
    for (; depth > 0 && depth <= DEPTH_MAX; depth--)
        strcat(to, "../");
}

static void
add_head_link(struct buf *to, const char *rel, struct slice href)
{
    if (href.size > 0)
        buf_add_format(to, "<link rel=\"%s\" href=\"%.*s\">\n", rel,
                       SLICE_ARG(href));
}

void
html_begin(struct buf *to, const struct html_head *head)
{
    char root[ROOT_SIZE];

    write_root(root, head->depth);
    BUF_ADD(to, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                "<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    xml_escape(to, slice_of(head->title));
    buf_add_format(
        to, "</title>\n<link rel=\"stylesheet\" href=\"%stidings.css\">\n",
        root);
    add_head_link(to, "resourcesync", head->capability);
    add_head_link(to, "alternate", head->other);
    add_head_link(to, "prev", head->prev);
    add_head_link(to, "next", head->next);
    /* Adds the way from the source to the document. */
    buf_add_format(to,
                   "</head>\n<body class=\"page\">\n<header>\n"
                   "<nav aria-label=\"Breadcrumb\"><ol>\n"
                   "<li><a href=\"%s\">Tidings</a></li>\n"
                   "<li><a href=\"%ssets\">Sets</a></li>\n",
                   root, root);
    if (head->set)
        buf_add_format(to, "<li><a href=\"%ssets/%s\">%s</a></li>\n", root,
                       head->set, head->set);
    BUF_ADD(to, "</ol></nav>\n</header>\n<main>\n<h1>");
    xml_escape(to, slice_of(head->title));
    BUF_ADD(to, "</h1>\n");
}

/* Adds a link to an address of ours. */
static void
add_own_link(struct buf *to, const char *rel, struct slice href,
             const char *text)
{
    if (href.size > 0)
        buf_add_format(to, "<a href=\"%.*s\" rel=\"%s\">%s</a> ",
                       SLICE_ARG(href), rel, text);
}

void
html_end(struct buf *to, const struct html_head *head)
{
    char root[ROOT_SIZE];

    write_root(root, head->depth);
    if (head->prev.size || head->next.size) {
        BUF_ADD(to, "<nav aria-label=\"Pages\"><p>");
        add_own_link(to, "prev", head->prev, "Previous page");
        add_own_link(to, "next", head->next, "Next page");
        BUF_ADD(to, "</p></nav>\n");
    }
    BUF_ADD(to, "</main>\n<footer><p>");
    add_own_link(to, "alternate", head->other, head->other_name);
    add_own_link(to, "resourcesync", head->capability, "Capability List");
    buf_add_format(to,
                   "<a href=\"%s.well-known/resourcesync\">Source "
                   "Description</a> <a href=\"%sdoc/\">Documentation</a> "
                   "Times are UTC.</p></footer>\n</body>\n</html>\n",
                   root, root);
}

void
html_text(struct buf *to, struct slice text)
{
    size_t size = slice_cut(text, HTML_TEXT_MAX).size;

    if (size == text.size) {
        buf_add_slice(to, text);
        return;
    }
    /* Cuts no reference in two. */
    for (size_t i = 1; i < 6 && i <= size && text.data[size - i] != ';'; i++)
        if (text.data[size - i] == '&') {
            size -= i;
            break;
        }
    buf_add(to, text.data, size);
    BUF_ADD(to, "\xe2\x80\xa6");
}

bool
html_leads(struct slice rel)
{
    static const char *const channels[] = {
        "hub", "urn:tidings:1:stream", "urn:tidings:1:events",
        LINK_STREAM_OF_MANY, "urn:tidings:1:reconcile"};

    for (size_t i = 0; i < N_ELEMENTS(channels); i++)
        if (slice_is(rel, channels[i]))
            return false;
    return true;
}

/* True if a browser may go there. */
static bool
is_link(struct slice href)
{
    return href.size > 0 && href.size <= HTML_TEXT_MAX &&
           (slice_starts(href, "http://") || slice_starts(href, "https://"));
}

void
html_link(struct buf *to, struct slice rel, struct slice href,
          struct slice text)
{
    if (!is_link(href) || !html_leads(rel)) {
        html_text(to, text);
        return;
    }
    BUF_ADD(to, "<a href=\"");
    buf_add_slice(to, href);
    if (rel.size) {
        BUF_ADD(to, "\" rel=\"");
        html_text(to, rel);
    }
    BUF_ADD(to, "\">");
    html_text(to, text);
    BUF_ADD(to, "</a> ");
}

void
html_value(struct buf *to, struct slice text)
{
    int64_t us;

    if (!datetime_read(text, &us)) {
        char full[DATETIME_SIZE];

        datetime_write(full, us);
        buf_add_format(to, "<time datetime=\"%.*s\">%.*s %.8s</time>",
                       SLICE_ARG(text), (int)DATETIME_DATE_SIZE, full,
                       full + DATETIME_DATE_SIZE + 1);
    } else if (is_link(text)) {
        html_link(to, (struct slice){NULL, 0}, text, text);
    } else {
        html_text(to, text);
    }
}

void
html_table(struct buf *to, const struct html_column *columns)
{
    BUF_ADD(to, "<table>\n<thead><tr>");
    for (; columns->title; columns++)
        buf_add_format(to, "<th scope=\"col\"%s>%s</th>",
                       columns->is_number ? " class=\"n\"" : "",
                       columns->title);
    BUF_ADD(to, "</tr></thead>\n<tbody>\n");
}

void
html_cell(struct buf *to, const struct html_column *column)
{
    if (!column->name) {
        BUF_ADD(to, "<td class=\"m\">");
        return;
    }
    buf_add_format(to, "<td%s data-column=\"%s\">",
                   column->is_number ? " class=\"n\"" : "", column->title);
}

/* Objects of JSON */

/* What the next scalar is. */
enum member {
    MEMBER_SHOWN,
    MEMBER_HIDDEN,
    MEMBER_REL, /* of a link */
    MEMBER_HREF /* likewise, behind its rel */
};

struct json_page {
    struct buf *to;
    bool is_problem;
    unsigned depth; /* 0: outside of the object */
    bool is_array[JSON_DEPTH_MAX + 1];
    enum member member;
    struct buf rel;  /* escaped: of the link at hand; empty: none */
    struct buf text; /* the escaped value */
};

static void
begin_item(struct json_page *p)
{
    if (p->depth > 0 && p->is_array[p->depth])
        BUF_ADD(p->to, "<li>");
}

static void
end_item(struct json_page *p)
{
    if (p->depth > 0)
        buf_add_text(p->to, p->is_array[p->depth] ? "</li>\n" : "</dd>\n");
}

static void
add_member(struct json_page *p, struct slice name)
{
    /* Members that say nothing to people beside what is there. */
    bool is_hidden =
        p->rel.size ? slice_is(name, "type")
                    : p->is_problem && p->depth == 1 &&
                          (slice_is(name, "type") || slice_is(name, "title") ||
                           slice_is(name, "status"));

    p->member = slice_is(name, "rel")                   ? MEMBER_REL
                : slice_is(name, "href") && p->rel.size ? MEMBER_HREF
                : is_hidden                             ? MEMBER_HIDDEN
                                                        : MEMBER_SHOWN;
    if (p->member == MEMBER_REL || p->member == MEMBER_HIDDEN)
        return;
    buf_clear(&p->text);
    xml_escape(&p->text, name);
    BUF_ADD(p->to, "<dt>");
    html_text(p->to, buf_slice(p->member == MEMBER_HREF ? &p->rel : &p->text));
    BUF_ADD(p->to, "</dt><dd>");
}

static void
add_scalar(struct json_page *p, struct slice value)
{
    enum member member = p->member;
    struct buf *text = member == MEMBER_REL ? &p->rel : &p->text;

    p->member = MEMBER_SHOWN;
    if (member == MEMBER_HIDDEN)
        return;
    buf_clear(text);
    xml_escape(text, value);
    if (member == MEMBER_REL)
        return;
    begin_item(p);
    if (member == MEMBER_HREF)
        html_link(p->to, buf_slice(&p->rel), buf_slice(text), buf_slice(text));
    else
        html_value(p->to, buf_slice(text));
    end_item(p);
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct json_page *p = user;

    (void)why;
    switch (event) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        begin_item(p);
        p->is_array[++p->depth] = event == JSON_ARRAY;
        buf_add_text(p->to, event == JSON_ARRAY ? "<ul>\n" : "<dl>\n");
        break;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        buf_clear(&p->rel);
        buf_add_text(p->to, p->is_array[p->depth--] ? "</ul>\n" : "</dl>\n");
        end_item(p);
        break;
    case JSON_KEY:
        add_member(p, text);
        break;
    case JSON_STRING:
    case JSON_NUMBER:
    case JSON_OTHER:
        add_scalar(p, text);
        break;
    }
    return p->to->failed || p->text.failed || p->rel.failed ? STATUS_MEMORY
                                                            : STATUS_OK;
}

bool
html_json(struct buf *to, const struct html_head *head, struct slice json,
          bool is_problem)
{
    struct json_page p = {.to = to,
                          .is_problem = is_problem,
                          .rel.max = VALUE_MAX,
                          .text.max = VALUE_MAX};
    enum status rc;

    html_begin(to, head);
    rc = json_parse_text(json, on_event, &p, NULL);
    html_end(to, head);
    buf_fini(&p.rel);
    buf_fini(&p.text);
    return !rc && !to->failed;
}

void
html_problem(struct buf *to, unsigned status, struct slice path,
             struct slice problem)
{
    char title[128];
    const struct html_head head = {
        .title = title,
        .depth = html_depth(path),
    };

    snprintf(title, sizeof(title), "%u %s", status, response_reason(status));
    to->failed |= !html_json(to, &head, problem, true);
}

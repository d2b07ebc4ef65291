#include "broker/documents/json_page.h"

#include <stdio.h>

#include "proto/http/response_head.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/json_parse.h"

/* The longest string of a description, escaped. */
#define VALUE_MAX ((size_t)1024 * 1024)

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

/* Members that say nothing to people beside what is there. */
static bool
is_hidden(const struct json_page *p, struct slice name)
{
    if (p->rel.size)
        return slice_is(name, "type");
    return p->is_problem && p->depth == 1 &&
           (slice_is(name, "type") || slice_is(name, "title") ||
            slice_is(name, "status"));
}

static void
begin_value(struct json_page *p)
{
    if (p->depth > 0 && p->is_array[p->depth])
        BUF_ADD(p->to, "<li>");
}

static void
end_value(struct json_page *p)
{
    if (p->depth > 0)
        buf_add_text(p->to, p->is_array[p->depth] ? "</li>\n" : "</dd>\n");
}

static void
open_level(struct json_page *p, bool is_array)
{
    begin_value(p);
    p->is_array[++p->depth] = is_array;
    buf_add_text(p->to, is_array ? "<ul>\n" : "<dl>\n");
}

static void
close_level(struct json_page *p)
{
    buf_clear(&p->rel);
    buf_add_text(p->to, p->is_array[p->depth--] ? "</ul>\n" : "</dl>\n");
    end_value(p);
}

static void
add_name(struct json_page *p, struct slice name)
{
    if (slice_is(name, "rel"))
        p->member = MEMBER_REL;
    else if (slice_is(name, "href") && p->rel.size)
        p->member = MEMBER_HREF;
    else
        p->member = is_hidden(p, name) ? MEMBER_HIDDEN : MEMBER_SHOWN;
    if (p->member == MEMBER_REL || p->member == MEMBER_HIDDEN)
        return;
    buf_clear(&p->text);
    xml_escape(&p->text, name);
    BUF_ADD(p->to, "<dt>");
    page_text(p->to, buf_slice(p->member == MEMBER_HREF ? &p->rel : &p->text));
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
    begin_value(p);
    if (member == MEMBER_HREF)
        page_link(p->to, buf_slice(&p->rel), buf_slice(text), buf_slice(text));
    else
        page_value(p->to, buf_slice(text));
    end_value(p);
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
        open_level(p, event == JSON_ARRAY);
        break;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        close_level(p);
        break;
    case JSON_KEY:
        add_name(p, text);
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

static bool
write_page(struct buf *to, const struct page_head *head, struct slice json,
           bool is_problem)
{
    struct json_page p = {.to = to, .is_problem = is_problem};
    struct problem why = {""};
    enum status rc;

    buf_init(&p.rel, VALUE_MAX);
    buf_init(&p.text, VALUE_MAX);
    page_begin(to, head);
    rc = json_parse_text(json, on_event, &p, &why);
    page_end(to, head);
    buf_fini(&p.rel);
    buf_fini(&p.text);
    return !rc && !to->failed;
}

bool
json_page_write(struct buf *to, const struct page_head *head, struct slice json)
{
    return write_page(to, head, json, false);
}

void
json_page_write_problem(struct buf *to, unsigned status, struct slice path,
                        struct slice problem)
{
    char title[128];
    const struct page_head head = {
        .title = title,
        .depth = page_depth(path),
    };

    snprintf(title, sizeof(title), "%u %s", status, response_reason(status));
    to->failed |= !write_page(to, &head, problem, true);
}

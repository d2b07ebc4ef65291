#include "broker/http/set_pages.h"

#include "broker/documents/json_page.h"
#include "broker/sets/links.h"
#include "broker/sets/settings.h"
#include "proto/datetime.h"
#include "proto/resourcesync/document_write.h"

/* The longest page of a set: its description has some kilobytes. */
#define SET_PAGE_MAX ((size_t)2 * 1024 * 1024)

static const struct page_column columns[] = {{"Set"},
                                             {"Changes", "changes", true},
                                             {"Last change", "datetime"},
                                             {"Lists", "lists"},
                                             {NULL}};

void
set_pages_one(struct request *rq, struct response *r, const struct set *set,
              struct buf *description)
{
    struct link_text list = set_link(set, LINK_CAPABILITYLIST);
    const struct page_head head = {
        .title = set->name,
        .set = set->name,
        .depth = page_depth(request_path(rq)),
        .other = SLICE("?raw"),
        .other_name = "As JSON",
        .capability = link_slice(&list),
    };
    struct buf page;

    buf_init(&page, SET_PAGE_MAX);
    if (!json_page_write(&page, &head, buf_slice(description))) {
        buf_fini(&page);
        return;
    }
    buf_fini(description);
    *description = page;
    response_page(r);
}

static void
add_lists(struct buf *to, struct set *set, const struct head *head)
{
    const char *url = registry_public_url(set->registry);
    struct link_text list = set_link(set, LINK_CHANGELIST);

    page_link(to, SLICE(""), link_slice(&list), SLICE("changes"));
    if (!set_offers(set, head, GENERATION_RESOURCELIST))
        return;
    list = link_to_current(url, set->name, GENERATION_RESOURCELIST);
    page_link(to, SLICE(""), link_slice(&list), SLICE("resources"));
}

void
set_pages_add_row(struct buf *to, struct set *set, const struct head *head)
{
    struct link_text self = set_link(set, LINK_SET);
    char time[DATETIME_SIZE];
    struct settings settings;

    registry_settings(set, &settings);
    BUF_ADD(to, "<tr>");
    page_cell(to, &columns[0]);
    page_link(to, SLICE("item"), link_slice(&self), slice_of(set->name));
    if (settings.title[0]) {
        BUF_ADD(to, "<small>");
        xml_escape(to, slice_of(settings.title));
        BUF_ADD(to, "</small>");
    }
    BUF_ADD(to, "</td>");
    page_cell(to, &columns[1]);
    buf_add_number(to, head->last);
    BUF_ADD(to, "</td>");
    page_cell(to, &columns[2]);
    if (head->last > 0) {
        datetime_write(time, head->last_us);
        page_value(to, (struct slice){time, sizeof(time)});
    }
    BUF_ADD(to, "</td>");
    page_cell(to, &columns[3]);
    add_lists(to, set, head);
    BUF_ADD(to, "</td></tr>\n");
}

void
set_pages_list(struct buf *to, const struct request *rq, struct slice rows,
               struct slice next)
{
    struct page_head head = {
        .title = "Sets",
        .depth = page_depth(request_path(rq)),
        .other = SLICE("?raw"),
        .other_name = "As JSON",
    };
    struct buf escaped;

    buf_init(&escaped, PAGE_TEXT_MAX);
    xml_escape(&escaped, next);
    head.next = buf_slice(&escaped);
    page_begin(to, &head);
    if (rows.size) {
        page_table(to, columns);
        buf_add_slice(to, rows);
        BUF_ADD(to, "</tbody></table>\n");
    } else {
        BUF_ADD(to, "<p>None.</p>\n");
    }
    page_end(to, &head);
    buf_fini(&escaped);
}

#include "broker/backup/published_resources.h"

#include <string.h>

#include "broker/backup/published_text.h"
#include "proto/datetime.h"
#include "proto/number.h"
#include "proto/resourcesync/document_write.h"

static bool
read_header(struct slice header, struct published_resources *list)
{
    struct slice md =
        published_element(header, "<rs:md capability=\"resourcelist\"");
    struct slice up = document_value(
        published_element(header, "<rs:ln rel=\"up\""), " href=\"");
    struct slice set = published_between(up, "/sets/", "/capabilitylist.xml");
    struct slice epoch = document_value(md, " td:epoch=\"");

    *list = (struct published_resources){.role = PUBLISHED_WHOLE};
    if (published_element(header, "<sitemapindex").size > 0)
        list->role = PUBLISHED_INDEX;
    else if (published_element(header, "<rs:ln rel=\"index\"").size > 0)
        list->role = PUBLISHED_PART;
    return set_name_is_valid(set) &&
           slice_copy(list->set, sizeof(list->set), set) &&
           epoch.size == EPOCH_SIZE &&
           slice_copy(list->epoch, sizeof(list->epoch), epoch) &&
           number_read(document_value(md, " td:last=\""), &list->seq) &&
           list->seq < INT64_MAX &&
           !datetime_read(document_value(md, " at=\""), &list->us);
}

enum status
published_resources_look(const char *path, struct published_resources *list,
                         bool *is_list, struct problem *why)
{
    struct slice header;
    struct buf text;
    enum status rc;

    buf_init(&text, PUBLISHED_HEADER_MAX);
    rc = published_read(path, PUBLISHED_HEADER_MAX, &text, why);
    header = published_header(buf_slice(&text));
    *is_list = !rc && header.size > 0 && read_header(header, list);
    buf_fini(&text);
    return rc;
}

/* Takes the next line. */
static struct slice
next_line(struct slice *rest)
{
    struct slice line = *rest;

    (void)slice_take(rest, '\n');
    line.size -= rest->size;
    return line;
}

enum status
published_resources_count(const char *path, uint64_t *n, struct problem *why)
{
    struct slice header, rest = {NULL, 0};
    struct buf text;
    enum status rc;

    *n = 0;
    buf_init(&text, PUBLISHED_MAX);
    rc = published_cut(path, DOCUMENT_SITEMAPINDEX, &text, &header, &rest, why);
    while (!rc && rest.size > 0)
        *n += slice_starts(next_line(&rest), "<sitemap>");
    buf_fini(&text);
    return rc;
}

static bool
read_seq(struct slice entry, uint64_t *seq)
{
    struct slice md = published_element(entry, "<rs:md");

    return slice_starts(entry, "<url><loc>") &&
           published_between(entry, "<loc>", "</loc>").size > 0 &&
           slice_ends(entry, "</url>\n") &&
           number_read(document_value(md, " td:seq=\""), seq);
}

enum status
published_resources_fill(const char *path,
                         const struct published_resources *list,
                         struct resources *resources, struct problem *why)
{
    struct problem reason = {""};
    struct slice header, rest = {NULL, 0};
    struct buf text;
    enum status rc;

    buf_init(&text, PUBLISHED_MAX);
    rc = published_cut(path, DOCUMENT_URLSET, &text, &header, &rest, why);
    while (!rc && rest.size > 0) {
        struct slice entry = next_line(&rest);
        uint64_t seq;

        if (!read_seq(entry, &seq) || seq > list->seq) {
            rc = published_fail(path, why, "an entry is none of a broker");
            break;
        }
        rc = resources_fill(resources, seq, entry, &reason);
        if (rc == STATUS_DIFFERENT)
            rc = published_fail(path, why, reason.text);
        else if (rc)
            *why = reason;
    }
    buf_fini(&text);
    return rc;
}

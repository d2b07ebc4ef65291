#include "broker/backup/published_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/backup/published_text.h"
#include "proto/datetime.h"
#include "proto/number.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"

/* The header */

/* Reads a number that SQLite can keep. */
static bool
read_number(struct slice text, uint64_t *number)
{
    return number_read(text, number) && *number < INT64_MAX;
}

/* The number in the address of a list; 0: none. */
static uint64_t
read_list_number(struct slice header, const char *link)
{
    struct slice href =
        published_value(published_element(header, link), " href=\"");
    struct slice digits = published_between(href, "/changes/", ".xml");
    uint64_t number = 0;

    return digits.size > 0 && read_number(digits, &number) ? number : 0;
}

static bool
read_times(struct slice md, struct list_info *info)
{
    struct slice until = published_value(md, " until=\"");

    info->until_us = DATETIME_NONE;
    return !datetime_read(published_value(md, " from=\""), &info->from_us) &&
           (until.size == 0 || !datetime_read(until, &info->until_us));
}

/* Its number is between those of its neighbours. The first list, while it is
 * open, has none: then the number is `fallback`. */
static bool
find_number(struct slice header, uint64_t fallback, struct list_info *info)
{
    uint64_t prev = read_list_number(header, "<rs:ln rel=\"prev\"");
    uint64_t next = read_list_number(header, "<rs:ln rel=\"next\"");

    info->number = next > 1 ? next - 1 : prev ? prev + 1 : fallback;
    return info->number > 0 && (!prev || prev + 1 == info->number);
}

/* The digest of the log before the list: its predecessor's. */
static bool
read_before(struct slice header, struct published_list *list)
{
    struct slice prev = published_element(header, "<rs:ln rel=\"prev\"");

    if (list->info.after == 0) {
        digest_start(&list->info.before, slice_of(list->epoch));
        return true;
    }
    return !digest_read(published_value(prev, " td:digest=\""),
                        &list->info.before);
}

/* False: it is not the header of a Change List with positions. */
static bool
read_header(struct slice header, uint64_t fallback, struct published_list *list)
{
    struct slice md =
        published_element(header, "<rs:md capability=\"changelist\"");
    struct slice up = published_value(
        published_element(header, "<rs:ln rel=\"up\""), " href=\"");
    struct slice set = published_between(up, "/sets/", "/capabilitylist.xml");
    struct list_info *info = &list->info;

    *list = (struct published_list){.info = {.is_filed = true}};
    return set_name_is_valid(set) &&
           slice_copy(list->set, sizeof(list->set), set) &&
           published_value(md, " td:epoch=\"").size == EPOCH_SIZE &&
           slice_copy(list->epoch, sizeof(list->epoch),
                      published_value(md, " td:epoch=\"")) &&
           read_number(published_value(md, " td:after=\""), &info->after) &&
           read_number(published_value(md, " td:last=\""), &info->last) &&
           info->after <= info->last &&
           !digest_read(published_value(md, " td:digest=\""), &info->digest) &&
           read_times(md, info) && find_number(header, fallback, info) &&
           read_before(header, list);
}

static uint64_t
number_of_name(const char *path)
{
    const char *name = strrchr(path, '/');
    uint64_t number = strtoull(name ? name + 1 : path, NULL, 10);

    return number > 0 && number < INT64_MAX ? number : 1;
}

enum status
published_list_look(const char *path, struct published_list *list,
                    bool *is_list, struct problem *why)
{
    struct slice header;
    struct buf text;
    enum status rc;

    buf_init(&text, PUBLISHED_HEADER_MAX);
    rc = published_read(path, PUBLISHED_HEADER_MAX, &text, why);
    header = published_header(buf_slice(&text));
    *is_list = !rc && header.size > 0 &&
               read_header(header, number_of_name(path), list);
    buf_fini(&text);
    return rc;
}

/* The entries */

static enum status
check_entries(const char *path, const struct list_info *info,
              struct slice fragments, struct problem *why)
{
    struct digest digest = info->before;
    struct fragment_view view;
    uint64_t seq = info->after;

    while (fragments.size > 0) {
        if (fragment_view(fragments, &view) || view.seq != seq + 1) {
            char reason[64];

            snprintf(reason, sizeof(reason), "entry %" PRIu64 " is missing",
                     seq + 1);
            return published_fail(path, why, reason);
        }
        digest_add(&digest, (struct slice){fragments.data, view.size});
        slice_skip(&fragments, view.size);
        seq++;
    }
    if (seq != info->last)
        return published_fail(path, why, "its last entries are missing");
    if (!digest_is_equal(&digest, &info->digest))
        return published_fail(path, why,
                              "its entries have another digest than it states");
    return STATUS_OK;
}

enum status
published_list_read(const char *path, struct published_list *list,
                    struct published_text *to, struct problem *why)
{
    enum status rc;

    buf_init(&to->text, PUBLISHED_MAX);
    rc = published_cut(path, DOCUMENT_URLSET, &to->text, &to->header,
                       &to->fragments, why);
    if (rc)
        return rc;
    if (!read_header(to->header, number_of_name(path), list))
        return published_fail(path, why, "its header is none of a Change List");
    list->info.bytes = to->fragments.size;
    return check_entries(path, &list->info, to->fragments, why);
}

#include "broker/documents/documents.h"

#include <string.h>

#include "base/path_pattern.h"
#include "broker/documents/web_files.h"

#define JS "text/javascript; charset=utf-8"

/* "{set}" stands for a set's name, "{list}" for the number of a Change List, a
 * generation or a set, "{last}" for the last one of several, or the number of a
 * part. */
static const struct row {
    const char *path;
    document_open_fn *open;
    const char *content_type;
    document_links_fn *links; /* or NULL */
    bool has_forms;
    enum generation_kind kind;
    bool is_public;
    const struct web_file *file; /* for web_file_open */
} documents[] = {
    {"/", landing_open, "text/html; charset=utf-8", .is_public = true},
    {"/robots.txt", robots_open, "text/plain; charset=utf-8",
     .is_public = true},
    {"/console.js", web_file_open, JS, .is_public = true,
     .file = &web_console_js},
    {"/console-parts.js", web_file_open, JS, .is_public = true,
     .file = &web_console_parts_js},
    {"/console-set.js", web_file_open, JS, .is_public = true,
     .file = &web_console_set_js},
    {"/console.css", web_file_open, "text/css; charset=utf-8",
     .is_public = true, .file = &web_console_css},
    {"/icon.svg", web_file_open, "image/svg+xml", .is_public = true,
     .file = &web_icon_svg},
    {"/tidings.js", web_file_open, JS, .is_public = true,
     .file = &web_tidings_js},
    {"/tidings.d.ts", web_file_open, "text/plain; charset=utf-8",
     .is_public = true, .file = &web_tidings_d_ts},
    {"/.well-known/resourcesync", source_description_open, "application/xml"},
    {"/descriptions/{list}-{last}.xml", source_description_part_open,
     "application/xml"},
    {"/sets/{set}/capabilitylist.xml", capabilitylist_open, "application/xml"},
    {"/sets/{set}/changelist.xml", changelist_current_open, "application/xml"},
    {"/sets/{set}/changes/latest.xml", changelist_latest_open,
     "application/xml"},
    {"/sets/{set}/changes/{list}.xml", changelist_open, "application/xml"},
    {"/sets/{set}/changelist-archive.xml", changelist_archive_open,
     "application/xml"},
    {"/sets/{set}/changelist-archive/{list}-{last}.xml",
     changelist_archive_part_open, "application/xml"},
    {"/sets/{set}/resourcelist.xml", resourcelist_current_open,
     "application/xml", NULL, true},
    {"/sets/{set}/resourcelist/{list}.xml", resourcelist_generation_open,
     "application/xml", NULL, true},
    {"/sets/{set}/resourcelist/{list}/{last}.xml", resourcelist_part_open,
     "application/xml", NULL, true},
    {"/sets/{set}/resourcelist-archive.xml", generation_archive_open,
     "application/xml", NULL, false, GENERATION_RESOURCELIST},
    {"/sets/{set}/resourcelist-archive/{list}-{last}.xml",
     generation_archive_part_open, "application/xml", NULL, false,
     GENERATION_RESOURCELIST},
    {"/sets/{set}/resourcedump.xml", dumps_current_open, "application/xml",
     NULL, false, GENERATION_RESOURCEDUMP},
    {"/sets/{set}/resourcedump/{list}.xml", dumps_generation_open,
     "application/xml", NULL, false, GENERATION_RESOURCEDUMP},
    {"/sets/{set}/resourcedump/{list}/{last}.zip", dumps_package_open,
     "application/zip", NULL, false, GENERATION_RESOURCEDUMP},
    {"/sets/{set}/resourcedump/{list}/{last}-manifest.xml", dumps_manifest_open,
     "application/xml", NULL, false, GENERATION_RESOURCEDUMP},
    {"/sets/{set}/resourcedump-archive.xml", generation_archive_open,
     "application/xml", NULL, false, GENERATION_RESOURCEDUMP},
    {"/sets/{set}/resourcedump-archive/{list}-{last}.xml",
     generation_archive_part_open, "application/xml", NULL, false,
     GENERATION_RESOURCEDUMP},
    {"/sets/{set}/changedump.xml", dumps_current_open, "application/xml", NULL,
     false, GENERATION_CHANGEDUMP},
    {"/sets/{set}/changedump/{list}.xml", dumps_generation_open,
     "application/xml", NULL, false, GENERATION_CHANGEDUMP},
    {"/sets/{set}/changedump/{list}/{last}.zip", dumps_package_open,
     "application/zip", NULL, false, GENERATION_CHANGEDUMP},
    {"/sets/{set}/changedump/{list}/{last}-manifest.xml", dumps_manifest_open,
     "application/xml", NULL, false, GENERATION_CHANGEDUMP},
    {"/sets/{set}/changedump-archive.xml", generation_archive_open,
     "application/xml", NULL, false, GENERATION_CHANGEDUMP},
    {"/sets/{set}/changedump-archive/{list}-{last}.xml",
     generation_archive_part_open, "application/xml", NULL, false,
     GENERATION_CHANGEDUMP},
    {"/sets/{set}/notifications", notifications_changes_open, "application/xml",
     notifications_changes_links},
    {"/sets/{set}/framework-notifications", notifications_framework_open,
     "application/xml", notifications_framework_links},
};

/* Reads the digits that name a list in its path: twelve, or more if necessary.
 * Any other form would be a second address of the same document. */
static enum status
number_of(struct slice digits, uint64_t *number)
{
    *number = 0;
    if (digits.size < 12 || digits.size > 19 ||
        (digits.size > 12 && digits.data[0] == '0'))
        return STATUS_NOT_FOUND;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return STATUS_NOT_FOUND;
        *number = *number * 10 + (uint64_t)(digits.data[i] - '0');
    }
    return *number > 0 ? STATUS_OK : STATUS_NOT_FOUND;
}

static void
describe_row(const struct row *row, struct document_found *found)
{
    *found = (struct document_found){
        .open = row->open,
        .content_type = row->content_type,
        .links = row->links,
        .has_forms = row->has_forms,
        .is_public = row->is_public,
        .has_set = strstr(row->path, "{set}"),
        .kind = row->kind,
        .file = row->file,
    };
}

static bool
row_matches(const struct row *row, struct slice path,
            struct document_found *found)
{
    struct slice holes[PATH_HOLES_MAX];
    const struct slice *hole = holes;

    if (!path_pattern_match(row->path, path, holes))
        return false;
    describe_row(row, found);
    if (found->has_set)
        found->set = *hole++;
    if (strstr(row->path, "{list}") && number_of(*hole++, &found->number))
        return false;
    return !strstr(row->path, "{last}") || !number_of(*hole, &found->last);
}

const char *
documents_row(size_t i, struct document_found *found)
{
    if (i >= sizeof(documents) / sizeof(documents[0]))
        return NULL;
    describe_row(&documents[i], found);
    return documents[i].path;
}

enum status
documents_find(struct slice path, struct document_found *found)
{
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        if (row_matches(&documents[i], path, found))
            return STATUS_OK;
    return STATUS_NOT_FOUND;
}

#include "broker/documents/documents.h"

#include "base/path_pattern.h"
#include "broker/documents/html_document.h"
#include "broker/documents/web_files.h"
#include "proto/number.h"

#define JS   "text/javascript; charset=utf-8"
#define TEXT "text/plain; charset=utf-8"

/* Of generations of a kind */
#define ARCHIVES(name, of)                                                     \
    {"/sets/{set}/" name "-archive.xml", generation_archive_open, .kind = of}, \
    {                                                                          \
        "/sets/{set}/" name "-archive/{list}-{last}.xml",                      \
            generation_archive_part_open, .kind = of                           \
    }
#define DUMPS(name, of)                                                \
    {"/sets/{set}/" name ".xml", dumps_current_open, .kind = of},      \
        {"/sets/{set}/" name "/{list}.xml", dumps_generation_open,     \
         .kind = of},                                                  \
        {"/sets/{set}/" name "/{list}/{last}.zip", dumps_package_open, \
         "application/zip", .kind = of},                               \
        {"/sets/{set}/" name "/{list}/{last}-manifest.xml",            \
         dumps_generation_open, .kind = of},                           \
        ARCHIVES(name, of)

/* "{set}" stands for a set's name, "{list}" for the number of a Change List, a
 * generation or a set, "{last}" for the last one of several, or the
 * number of a part. */
static const struct document_found documents[] = {
    {"/", landing_open, "text/html; charset=utf-8", .is_public = true},
    {"/robots.txt", robots_open, TEXT, .is_public = true},
    {"/console.js", web_file_open, JS, .file = &web_console_js},
    {"/console-harvest.js", web_file_open, JS, .file = &web_console_harvest_js},
    {"/console-parts.js", web_file_open, JS, .file = &web_console_parts_js},
    {"/console-readers.js", web_file_open, JS, .file = &web_console_readers_js},
    {"/console-set.js", web_file_open, JS, .file = &web_console_set_js},
    {"/console-settings.js", web_file_open, JS,
     .file = &web_console_settings_js},
    {"/console-sign-in.js", web_file_open, JS, .file = &web_console_sign_in_js},
    {"/console-tokens.js", web_file_open, JS, .file = &web_console_tokens_js},
    {"/console.css", web_file_open, "text/css; charset=utf-8",
     .file = &web_console_css},
    {"/icon.svg", web_file_open, "image/svg+xml", .file = &web_icon_svg},
    {"/tidings.css", web_file_open, "text/css; charset=utf-8",
     .file = &web_tidings_css},
    {"/tidings.js", web_file_open, JS, .file = &web_tidings_js},
    {"/tidings.d.ts", web_file_open, TEXT, .file = &web_tidings_d_ts},
    {"/openapi.json", web_file_open, "application/json",
     .file = &broker_http_openapi_json},
    {"/asyncapi.json", web_file_open, "application/json",
     .file = &broker_http_asyncapi_json},
    {"/doc", manual_address_open, "*/*", .is_public = true},
    {"/doc/{page}", manual_open, "*/*", .is_public = true},
    {"/llms.txt", manual_open, TEXT, .is_public = true},
    {"/llms-full.txt", manual_open, TEXT, .is_public = true},
    {"/.well-known/resourcesync", source_description_open},
    {"/descriptions/{list}-{last}.xml", source_description_part_open},
    {"/sets/{set}/capabilitylist.xml", capabilitylist_open, .is_quick = true},
    {"/sets/{set}/changelist.xml", changelist_current_open, .is_quick = true},
    {"/sets/{set}/changes/latest.xml", changelist_latest_open,
     .is_quick = true},
    {"/sets/{set}/changes/{list}.xml", changelist_open, .is_quick = true},
    {"/sets/{set}/changelist-archive.xml", changelist_archive_open},
    {"/sets/{set}/changelist-archive/{list}-{last}.xml",
     changelist_archive_part_open},
    {"/sets/{set}/resourcelist.xml", resourcelist_current_open,
     .is_quick = true, .has_plain = true},
    {"/sets/{set}/resourcelist/{list}.xml", resourcelist_generation_open,
     .has_plain = true},
    {"/sets/{set}/resourcelist/{list}/{last}.xml", resourcelist_generation_open,
     .has_plain = true},
    ARCHIVES("resourcelist", GENERATION_RESOURCELIST),
    DUMPS("resourcedump", GENERATION_RESOURCEDUMP),
    DUMPS("changedump", GENERATION_CHANGEDUMP),
    {"/sets/{set}/notifications", notifications_open,
     .topic = LINK_NOTIFICATIONS},
    {"/sets/{set}/framework-notifications", notifications_open,
     .topic = LINK_FRAMEWORK_NOTIFICATIONS},
    {"/sets/{set}/checkpoint", checkpoint_open, TEXT, .effort = EFFORT_ANSWER},
    {"/sets/{set}/tile/{tile}", tile_open, "application/octet-stream",
     .effort = EFFORT_ANSWER},
    {"/sets/{set}/proof", proof_open, TEXT, .effort = EFFORT_ANSWER},
    {"/sets/{set}/content/{digest}", content_open, "*/*"},
    {"/sets/{set}/r/{uri}", content_open, "*/*", .memento = MEMENTO_PRESENT},
    {"/sets/{set}/timegate/{uri}", timemap_open, "*/*",
     .memento = MEMENTO_GATE},
    {"/sets/{set}/timemap/link/{uri}", timemap_open, "application/link-format"},
    {"/sets/{set}/timemap/json/{uri}", timemap_open, "application/json",
     .memento = MEMENTO_JSON},
    /* The origin of the log is the prefix of its tree, as tlog-tiles has it. */
    {"/sets/{set}/{epoch}/checkpoint", checkpoint_open, TEXT,
     .effort = EFFORT_ANSWER},
    {"/sets/{set}/{epoch}/tile/{tile}", tile_open, "application/octet-stream",
     .effort = EFFORT_ANSWER},
    {"/sets/{set}/{epoch}/proof", proof_open, TEXT, .effort = EFFORT_ANSWER},
};

enum status
web_file_open(const struct document_wish *wish, struct document *document,
              struct problem *why)
{
    *document = (struct document){
        .body = body_of_constant(wish->file->plain),
        .gzip = body_of_constant(wish->file->gzip),
        .tag = wish->file->tag,
        .modified_us = DATETIME_NONE,
        .may_be_packed = true,
    };
    (void)why;
    return STATUS_OK;
}

/* A number and the end of a path. */
#define NEIGHBOUR_MAX 48

/* Reads the digits that name a list in its path: twelve, or more if necessary.
 * Any other form would be a second address of the same document. */
static bool
read_list_number(struct slice digits, uint64_t *number)
{
    return digits.size >= 12 && digits.size <= 19 &&
           (digits.size == 12 || digits.data[0] != '0') &&
           number_read(digits, number) && *number > 0;
}

const char *
documents_row(size_t i, struct document_found *found)
{
    const char *end;

    if (i >= N_ELEMENTS(documents))
        return NULL;
    if (!found)
        return documents[i].path;
    *found = documents[i];
    end = strstr(found->path, "/{last}");
    found->end = end ? end + sizeof("/{last}") - 1 : NULL;
    found->is_range = strstr(found->path, "}-{");
    found->has_set = strstr(found->path, "{set}");
    found->has_page = !found->content_type && !found->topic;
    if (!found->content_type)
        found->content_type = "application/xml";
    if (found->file)
        found->is_quick = found->is_public = true;
    return found->path;
}

enum status
documents_find(struct slice path, struct document_found *found)
{
    for (size_t i = 0; i < N_ELEMENTS(documents); i++) {
        const char *pattern = documents[i].path;
        struct slice holes[PATH_HOLES_MAX];
        const struct slice *hole = holes;
        const char *slash;

        if (!path_pattern_match(pattern, path, holes))
            continue;
        (void)documents_row(i, found);
        if (found->has_set)
            found->set = *hole++;
        if (strstr(pattern, "{epoch}"))
            found->epoch = *hole++;
        if ((!strstr(pattern, "{list}") ||
             read_list_number(*hole++, &found->number)) &&
            (!strstr(pattern, "{last}") ||
             read_list_number(*hole, &found->last))) {
            slash = memrchr(path.data, '/', path.size); /* as patterns have */
            found->rest = found->has_set
                              ? holes[found->epoch.size > 0 ? 2 : 1]
                              : slice_between(slash + 1, path.data + path.size);
            return STATUS_OK;
        }
    }
    return STATUS_NOT_FOUND;
}

/* Writes the address of another part of the document, relative to its own;
 * nothing if there is no such part. */
static void
write_neighbour(char to[NEIGHBOUR_MAX], const struct document_found *found,
                const struct document_wish *wish, uint64_t part)
{
    struct document_wish other = *wish;
    struct document document;
    struct problem why = {""};

    to[0] = '\0';
    other.form = DOCUMENT_XML;
    other.last = part;
    if (part == 0 || found->open(&other, &document, &why))
        return;
    document_close(&document);
    snprintf(to, NEIGHBOUR_MAX, "%012" PRIu64 "%s", part, found->end);
}

/* Replaces the XML of an open document by a page of it. After an error the
 * document is closed. */
static enum status
make_page(const struct document_found *found, const struct document_wish *wish,
          struct document *document, struct problem *why)
{
    struct document xml = *document;
    char prev[NEIGHBOUR_MAX] = "", next[NEIGHBOUR_MAX] = "";
    struct html_wish page = {
        .public_url = wish->registry->options.public_url,
        .set = wish->set ? wish->set->name : NULL,
        .depth = wish->depth,
        .number = wish->number,
        .last = wish->last,
        .is_range = found->is_range,
        .page = wish->page,
        .lasting = xml.lasting,
        .prev = prev,
        .next = next,
    };
    struct buf text = {.max = HTML_BYTES_MAX};
    enum status rc;

    if (found->end) {
        write_neighbour(prev, found, wish, wish->last - 1);
        write_neighbour(next, found, wish, wish->last + 1);
    }
    rc = html_document_write(&text, &page, xml.body, SLICE(""), why);
    rc = document_of_text(document, &text, rc, why);
    if (!rc)
        document->is_private = xml.is_private;
    document_close(&xml);
    return rc;
}

enum status
documents_open(const struct document_found *found,
               const struct document_wish *wish, struct document *document,
               struct problem *why)
{
    struct document_wish xml = *wish;
    enum status rc;

    if (wish->patience == LOG_MEMORY &&
        (!found->is_quick || wish->form == DOCUMENT_HTML))
        return STATUS_AGAIN; /* even in memory it may take long */
    if (wish->form != DOCUMENT_HTML)
        return found->open(wish, document, why);
    xml.form = DOCUMENT_XML;
    rc = found->open(&xml, document, why);
    return rc ? rc : make_page(found, wish, document, why);
}

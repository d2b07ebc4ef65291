#include "broker/sets/links.h"

/* The rest of a URL behind the public URL and, in links with a set,
 * "/sets/NAME". */
static const char *const paths[] = {
    [LINK_DESCRIPTION] = "/.well-known/resourcesync",
    [LINK_CAPABILITYLIST] = "/capabilitylist.xml",
    [LINK_CHANGELIST] = "/changelist.xml",
    [LINK_LIST] = "/changes/%012" PRIu64 ".xml",
    [LINK_CHANGELIST_ARCHIVE] = "/changelist-archive.xml",
    [LINK_MEMORY] = "/changes?after=",
    [LINK_LANDING] = "/",
    [LINK_LATEST] = "/changes/latest.xml",
    [LINK_CHANGES] = "/changes",
    [LINK_STREAM] = "/stream",
    [LINK_STREAMS] = "/stream",
    [LINK_OAI] = "/oai",
    [LINK_CHECKPOINT] = "/checkpoint",
    [LINK_RECONCILE] = "/reconcile",
    [LINK_SET] = "",
    [LINK_HUB] = "/hub",
    [LINK_NOTIFICATIONS] = "/notifications",
    [LINK_FRAMEWORK_NOTIFICATIONS] = "/framework-notifications",
};

const struct channel_link links_channels[] = {
    {"urn:tidings:1:memory", LINK_CHANGES, "application/json"},
    {"urn:tidings:1:stream", LINK_STREAM, NULL}, /* WebSocket */
    {"urn:tidings:1:events", LINK_STREAM, "text/event-stream"},
    {LINK_STREAM_OF_MANY, LINK_STREAMS, NULL}, /* both */
    {"urn:tidings:1:oai", LINK_OAI, "text/xml"},
    {"urn:tidings:1:checkpoint", LINK_CHECKPOINT, "text/plain"},
    {"urn:tidings:1:reconcile", LINK_RECONCILE, "application/octet-stream"},
    {"urn:tidings:1:set", LINK_SET, "application/json"},
    {NULL, LINK_DESCRIPTION, NULL},
};

struct link_text
link_to(const char *public_url, enum link_kind kind, const char *set,
        const char *epoch, uint64_t number)
{
    bool of_set = set && kind != LINK_STREAMS;
    struct link_text link;
    int n = snprintf(link.text, sizeof(link.text), "%s%s%s", public_url,
                     of_set ? "/sets/" : "", of_set ? set : "");

    n += snprintf(link.text + n, sizeof(link.text) - (size_t)n, paths[kind],
                  number);
    if (epoch)
        n += snprintf(link.text + n, sizeof(link.text) - (size_t)n,
                      "%s-%" PRIu64, epoch, number);
    link.size = (size_t)n;
    return link;
}

struct link_text
link_format(const char *format, ...)
{
    struct link_text link;
    va_list arguments;

    va_start(arguments, format);
    link.size =
        (size_t)vsnprintf(link.text, sizeof(link.text), format, arguments);
    va_end(arguments);
    return link;
}

/* Generations */

const struct kind_names links_kinds[GENERATION_KINDS] = {
    [GENERATION_RESOURCELIST] = {"resourcelist", "Resource List",
                                 CAP_RESOURCELIST, CAP_RESOURCELIST_ARCHIVE},
    [GENERATION_RESOURCEDUMP] = {"resourcedump", "Resource Dump",
                                 CAP_RESOURCEDUMP, CAP_RESOURCEDUMP_ARCHIVE},
    [GENERATION_CHANGEDUMP] = {"changedump", "Change Dump", CAP_CHANGEDUMP,
                               CAP_CHANGEDUMP_ARCHIVE},
};

void
link_memory(struct buf *to, const char *public_url, const char *set,
            const char *epoch, uint64_t number, struct slice filter)
{
    struct link_text link =
        link_to(public_url, LINK_MEMORY, set, epoch, number);

    buf_add_slice(to, link_slice(&link));
    if (filter.size > 0)
        BUF_ADD(to, "&");
    buf_add_slice(to, filter);
}

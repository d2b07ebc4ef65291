#include "broker/sets/links.h"

#include <inttypes.h>
#include <stdio.h>

/* What follows the public URL and, where a set is named, "/sets/NAME". */
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
    [LINK_SET] = "",
    [LINK_HUB] = "/hub",
    [LINK_NOTIFICATIONS] = "/notifications",
    [LINK_FRAMEWORK_NOTIFICATIONS] = "/framework-notifications",
};

const struct channel links_channels[] = {
    {"urn:tidings:1:memory", LINK_CHANGES, "application/json"},
    {"urn:tidings:1:stream", LINK_STREAM, NULL}, /* WebSocket */
    {"urn:tidings:1:events", LINK_STREAM, "text/event-stream"},
    {"urn:tidings:1:set", LINK_SET, "application/json"},
    {NULL, LINK_DESCRIPTION, NULL},
};

struct link_text
link_to(const char *public_url, enum link_kind kind, const char *set,
        const char *epoch, uint64_t number)
{
    struct link_text link;
    int n;

    if (set)
        n = snprintf(link.text, sizeof(link.text), "%s/sets/%s", public_url,
                     set);
    else
        n = snprintf(link.text, sizeof(link.text), "%s", public_url);
    n += snprintf(link.text + n, sizeof(link.text) - (size_t)n, paths[kind],
                  number);
    if (epoch)
        n += snprintf(link.text + n, sizeof(link.text) - (size_t)n,
                      "%s-%" PRIu64, epoch, number);
    link.size = (size_t)n;
    return link;
}

struct link_text
link_to_sets(const char *public_url, const char *after)
{
    struct link_text link;
    int n = snprintf(link.text, sizeof(link.text), "%s/sets%s%s", public_url,
                     after ? "?after=" : "", after ? after : "");

    link.size = (size_t)n;
    return link;
}

struct link_text
link_to_archive(const char *public_url, const char *set, uint64_t first,
                uint64_t last)
{
    struct link_text link;
    int n = snprintf(link.text, sizeof(link.text),
                     "%s/sets/%s/changelist-archive/%012" PRIu64 "-%012" PRIu64
                     ".xml",
                     public_url, set, first, last);

    link.size = (size_t)n;
    return link;
}

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

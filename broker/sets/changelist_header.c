#include "broker/sets/changelist_header.h"

#include "broker/sets/links.h"
#include "proto/resourcesync/document_write.h"

void
changelist_header_write(struct buf *to, const char *public_url, const char *set,
                        const struct head *log, const struct list_info *info)
{
    bool is_closed = info->until_us != DATETIME_NONE;
    bool is_first = info->after == 0; /* the log begins here */
    struct link_text up =
        link_to(public_url, LINK_CAPABILITYLIST, set, NULL, 0);
    struct link_text index = link_to(public_url, LINK_CHANGELIST, set, NULL, 0);
    struct link_text prev =
        link_to(public_url, LINK_LIST, set, NULL, info->number - 1);
    struct link_text next =
        link_to(public_url, LINK_LIST, set, NULL, info->number + 1);
    struct link_text latest = link_to(public_url, LINK_LATEST, set, NULL, 0);
    const struct document_link links[] = {
        {"up", link_slice(&up)},
        {"index", is_closed || !is_first ? link_slice(&index) : SLICE("")},
        {"prev", is_first ? SLICE("") : link_slice(&prev), &info->before},
        {"next", is_closed ? link_slice(&next) : SLICE("")},
        {"last", link_slice(&latest)},
    };
    struct coverage coverage = {
        .after = info->after,
        .last = info->last,
        .from_us = info->from_us,
        .until_us = info->until_us,
        .has_digest = true,
        .digest = info->digest,
        .now_us = DATETIME_NONE,
    };
    const struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST,
        .links = links,
        .n_links = N_ELEMENTS(links),
        .from_us = info->from_us,
        .until_us = info->until_us,
        .coverage = &coverage,
    };

    memcpy(coverage.epoch, log->epoch, sizeof(coverage.epoch));
    if (info->after > 0 && info->after == log->began)
        memcpy(coverage.follows, log->former, sizeof(coverage.follows));
    document_header(to, &head);
}

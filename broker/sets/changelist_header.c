#include "broker/sets/changelist_header.h"

#include "broker/sets/links.h"
#include "proto/resourcesync/document_write.h"

void
changelist_header_write(struct buf *to, const char *public_url, const char *set,
                        const char *epoch, const struct list_info *info)
{
    bool is_closed = info->until_us != DATETIME_NONE;
    struct link_text up =
        link_to(public_url, LINK_CAPABILITYLIST, set, NULL, 0);
    struct link_text index = link_to(public_url, LINK_CHANGELIST, set, NULL, 0);
    struct link_text prev =
        link_to(public_url, LINK_LIST, set, NULL, info->number - 1);
    struct link_text next =
        link_to(public_url, LINK_LIST, set, NULL, info->number + 1);
    struct link_text latest = link_to(public_url, LINK_LATEST, set, NULL, 0);
    struct document_link links[5];
    struct coverage coverage = {
        .after = info->after,
        .last = info->last,
        .from_us = info->from_us,
        .until_us = info->until_us,
        .has_digest = true,
        .digest = info->digest,
        .now_us = DATETIME_NONE,
    };
    struct document_head head = {
        .root = DOCUMENT_URLSET,
        .capability = CAP_CHANGELIST,
        .links = links,
        .from_us = info->from_us,
        .until_us = info->until_us,
        .coverage = &coverage,
    };

    memcpy(coverage.epoch, epoch, sizeof(coverage.epoch));
    links[head.n_links++] = (struct document_link){"up", link_slice(&up), NULL};
    if (is_closed || info->after > 0)
        links[head.n_links++] =
            (struct document_link){"index", link_slice(&index), NULL};
    if (info->after > 0) /* else the log begins here */
        links[head.n_links++] =
            (struct document_link){"prev", link_slice(&prev), &info->before};
    if (is_closed)
        links[head.n_links++] =
            (struct document_link){"next", link_slice(&next), NULL};
    links[head.n_links++] =
        (struct document_link){"last", link_slice(&latest), NULL};
    document_header(to, &head);
}

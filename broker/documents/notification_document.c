/*
 * notification_document.c - the topics of a set's two channels,
 * for WebSub's discovery.
 *
 * The document of a topic is the latest notification that a subscriber at the
 * head has received (latest_message.h), or empty before the first one.
 * Its Link header names the hubs and the topic itself, in one line (R-284,
 * W-083).
 */
#include "broker/documents/documents.h"
#include "broker/readers/latest_message.h"
#include "broker/sets/links.h"
#include "broker/sets/set_links.h"
#include "proto/http/link_header.h"

static enum status
open_topic(const struct document_wish *wish, bool is_framework,
           struct document *document, struct problem *why)
{
    const struct message_wish message = {
        .set = wish->set,
        .form = MESSAGE_XML,
        .max_bytes = registry_config(wish->registry)->message_bytes,
        .is_framework = is_framework,
    };
    struct buf text;
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN; /* even in memory it may take long */
    buf_init(&text, DOCUMENT_BYTES_MAX);
    rc = latest_message_write(&text, &message, why);
    return document_of_text(document, &text, rc, why);
}

enum status
notifications_changes_open(const struct document_wish *wish,
                           struct document *document, struct problem *why)
{
    return open_topic(wish, false, document, why);
}

enum status
notifications_framework_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    return open_topic(wish, true, document, why);
}

static void
add_links(struct buf *to, const struct document_wish *wish, enum link_kind kind)
{
    struct link_text self = set_link(wish->set, kind);
    struct hubs hubs;

    set_links_hubs(wish->set, &hubs);
    for (size_t i = 0; i < hubs.n; i++)
        weblink_add(to, slice_of(hubs.urls[i].text), "hub");
    weblink_add(to, slice_of(self.text), "self");
}

void
notifications_changes_links(struct buf *to, const struct document_wish *wish)
{
    add_links(to, wish, LINK_NOTIFICATIONS);
}

void
notifications_framework_links(struct buf *to, const struct document_wish *wish)
{
    add_links(to, wish, LINK_FRAMEWORK_NOTIFICATIONS);
}

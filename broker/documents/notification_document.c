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

enum status
notifications_open(const struct document_wish *wish, struct document *document,
                   struct problem *why)
{
    const struct message_wish message = {
        .set = wish->set,
        .form = MESSAGE_XML,
        .max_bytes = wish->registry->config->message_bytes,
        .is_framework = wish->topic == LINK_FRAMEWORK_NOTIFICATIONS,
    };
    struct buf text = {.max = DOCUMENT_BYTES_MAX};
    enum status rc;

    rc = latest_message_write(&text, &message, why);
    return document_of_text(document, &text, rc, why);
}

void
notifications_links(struct buf *to, const struct document_wish *wish)
{
    struct link_text self = set_link(wish->set, wish->topic);
    struct hubs hubs;

    set_links_hubs(wish->set, &hubs);
    for (size_t i = 0; i < hubs.n; i++)
        weblink_add(to, slice_of(hubs.urls[i].text), "hub");
    weblink_add(to, slice_of(self.text), "self");
}

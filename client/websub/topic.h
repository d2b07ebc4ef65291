/*
 * topic.h - discovery: what a resource calls itself, and its hubs (W-005 to
 * W-011).
 *
 *     GET, redirects followed --> Link headers --> else the body: HTML, a feed
 *
 * Each of the two relations is taken from the headers where they have it; only
 * for what they lack the body is read, up to TOPIC_BYTES_MAX.
 */
#ifndef CLIENT_WEBSUB_TOPIC_H
#define CLIENT_WEBSUB_TOPIC_H

#include "client/lib/client.h"
#include "proto/problem.h"

#define TOPIC_BYTES_MAX (1024 * 1024)
#define TOPIC_HUBS_MAX  8

struct topic {
    char *self;
    char *hubs[TOPIC_HUBS_MAX]; /* those over https first (W-011) */
    size_t n_hubs;              /* at least one */
};

void topic_fini(struct topic *topic);

/* The end. why->rc: STATUS_OK: `topic` is the caller's to take (and clear
 * there). STATUS_REFUSED (also: it names no hub, or not itself), STATUS_GONE,
 * STATUS_UNREACHABLE, STATUS_MALFORMED, STATUS_MEMORY. */
typedef void topic_end_fn(const struct problem *why, struct topic *topic,
                          void *user);

struct topic_search;

/* NULL: no memory. It frees itself after on_end, which is called after a minute
 * at the latest. */
struct topic_search *topic_find(struct td_client *client, const char *url,
                                topic_end_fn *on_end, void *user);
void topic_search_free(struct topic_search *search); /* not after on_end */

#endif

/*
 * topic_discovery.h - discovery: the own URL of a resource, and its hubs (W-005
 * to W-011).
 *
 *     GET, redirects followed --> Link headers --> else the body: HTML, a feed
 *
 * Each of the two relations comes from the headers if they have it; only for a
 * missing one the body is read, up to TOPIC_BYTES_MAX.
 */
#pragma once

#include "client/lib/client.h"

#define TOPIC_BYTES_MAX (1024 * 1024)
#define TOPIC_HUBS_MAX  8

struct topic {
    char *self;
    char *hubs[TOPIC_HUBS_MAX]; /* those over https first (W-011) */
    size_t n_hubs;              /* at least one */
};

/* The end; `topic` is lent. why->rc: STATUS_OK, STATUS_REFUSED (also: it names
 * no hub, or not itself), STATUS_GONE, STATUS_UNREACHABLE, STATUS_MALFORMED,
 * STATUS_MEMORY. */
typedef void topic_end_fn(const struct problem *why, const struct topic *topic,
                          void *user);

struct topic_search;

/* NULL: no memory. Calls on_end after a minute at the latest; then the search
 * frees itself. */
struct topic_search *topic_find(struct td_client *client, const char *url,
                                topic_end_fn *on_end, void *user);
void topic_search_free(struct topic_search *search); /* not after on_end */

/*
 * peers.h - the foreign parties of a set: the upstream topic of its changes,
 * and the hubs beside ours that get them.
 *
 *     "upstreamTopic":"https://a.example/sets/demo/notifications",
 *     "hubs":["https://hub.example/","https://other.example/hub"]
 *
 * Few sets have any, so they are apart from the settings, on the heap. Made by
 * settings_read, immutable from then on, owners counted.
 */
#pragma once

#include "base/relaxed.h"
#include "proto/problem.h"

struct upstream;

#define PEERS_HUBS_MAX 8

/* Bytes of a hub's URL; a topic has WEBSUB_URL_MAX. */
#define PEERS_HUB_SIZE_MAX 512

struct peers {
    atomic_uint n_owners;
    char *upstream; /* as configured; NULL: none */
    char *hubs[PEERS_HUBS_MAX];
    unsigned n_hubs;
    struct upstream *claim; /* on `upstream` (upstream_topics.h), released at
                               the end; or NULL */
};

/* STATUS_INVALID: no http or https URL, too long, one too many, or there
 * already (compared as W-026 says). */
MUST_CHECK enum status peers_add_hub(struct peers *peers, struct slice url,
                                     struct problem *why);

/* Fails with STATUS_INVALID if the topic or a hub is our own: a set would feed
 * itself for ever. */
MUST_CHECK enum status peers_check_foreign(const struct peers *peers,
                                           const char *public_url,
                                           struct problem *why);

/* True if a URL, which has passed websub_check_url, is below our public URL. */
bool peers_is_ours(struct slice url, const char *public_url);

/* True if both name the same hubs, in the same order. NULL names none. */
bool peers_have_same_hubs(const struct peers *a, const struct peers *b);

/* NULL is allowed. Any thread. */
struct peers *peers_ref(struct peers *peers);
void peers_unref(struct peers *peers);

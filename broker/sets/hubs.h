/*
 * hubs.h - the hubs that deliver the notifications of a set, in the order of
 * their links (R-283, R-284, W-001): the broker's own first, then those of the
 * set's settings.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_HUBS_H
#define BROKER_SETS_HUBS_H

#include "broker/sets/links.h"
#include "broker/sets/peers.h"
#include "broker/sets/registry.h"

#define HUBS_MAX (1 + PEERS_HUBS_MAX)

struct hubs {
    struct link_text urls[HUBS_MAX];
    size_t n;
};

void hubs_of(const struct set *set, struct hubs *hubs);

#endif

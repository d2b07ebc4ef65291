#include "broker/sets/hubs.h"

#include <stdio.h>

void
hubs_of(const struct set *set, struct hubs *hubs)
{
    struct peers *peers = registry_peers(set);

    hubs->urls[0] =
        link_to(registry_public_url(set->registry), LINK_HUB, NULL, NULL, 0);
    hubs->n = 1;
    for (unsigned i = 0; peers && i < peers->n_hubs; i++) {
        struct link_text *url = &hubs->urls[hubs->n++];

        url->size = (size_t)snprintf(url->text, sizeof(url->text), "%s",
                                     peers->hubs[i]);
    }
    peers_unref(peers);
}

#include "broker/sets/hubs.h"

void
hubs_of(const struct set *set, struct hubs *hubs)
{
    hubs->urls[0] =
        link_to(registry_public_url(set->registry), LINK_HUB, NULL, NULL, 0);
    hubs->n = 1;
}

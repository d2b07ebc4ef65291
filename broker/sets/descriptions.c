#include "broker/sets/descriptions.h"

/* The index has a limit, too: where it would exceed that, its parts become as
 * large as allowed. It never has more parts than there are sets. */
struct parts
descriptions_of(const struct registry *registry, size_t n)
{
    uint64_t size = registry_config(registry)->description_sets;
    struct parts parts = {
        .size = n > DESCRIPTION_SETS_MAX ? DESCRIPTION_SETS_MAX : size};

    parts.has_index = n > parts.size;
    return parts;
}

struct parts
descriptions_now(struct registry *registry)
{
    return descriptions_of(registry, registry_count(registry));
}

struct link_text
descriptions_part(const struct registry *registry, const struct parts *parts,
                  uint64_t number)
{
    uint64_t begin = parts_begin(parts, number);

    return link_to_description(registry_public_url(registry), begin,
                               begin + parts->size - 1);
}

struct link_text
descriptions_link(const struct set *set)
{
    struct parts parts = descriptions_now(set->registry);
    uint64_t number = log_set_number(set->log);

    if (parts.has_index && number > 0)
        return descriptions_part(set->registry, &parts, number);
    return link_to(registry_public_url(set->registry), LINK_DESCRIPTION, NULL,
                   NULL, 0);
}

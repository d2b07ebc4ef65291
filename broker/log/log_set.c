#include "broker/log/log_set.h"

#include "broker/log/log.h"

void
log_set_begin_for(struct log_set *set, struct slice creator)
{
    set->creator_size =
        creator.size == CLIENT_STORED_SIZE ? CLIENT_STORED_SIZE : 0;
    if (set->creator_size)
        memcpy(set->creator, creator.data, creator.size);
}

struct slice
log_set_creator(const struct log_set *set)
{
    return (struct slice){set->creator, set->creator_size};
}

void
log_set_limit(struct log_set *set, const struct list_limits *limits)
{
    set->limits = *limits;
}

const char *
log_set_name(const struct log_set *set)
{
    return set->name;
}

uint64_t
log_set_number(const struct log_set *set)
{
    return load_relaxed(&set->public_id);
}

void *
log_set_owner(const struct log_set *set)
{
    return set->owner;
}

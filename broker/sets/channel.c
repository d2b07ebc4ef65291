#include "broker/sets/channel.h"

#include <stdio.h>

#include "proto/uri.h"

struct log_set *
channel_log(const struct set *set, bool is_framework)
{
    return is_framework ? registry_framework(set->registry) : set->log;
}

enum status
channel_filter(struct filter_class *class, const char *name,
               struct problem *why)
{
    char tag[sizeof(CHANNEL_TAG_SET) + SET_NAME_MAX];
    enum status rc;

    snprintf(tag, sizeof(tag), CHANNEL_TAG_SET "%s", name);
    filter_class_alone(class);
    rc = filter_add(&class->filter, SLICE("tag"), slice_of(tag), why);
    if (!rc)
        rc = filter_add(&class->filter, SLICE("tag"), SLICE(CHANNEL_TAG_SOURCE),
                        why);
    return rc ? rc : filter_seal(&class->filter, why);
}

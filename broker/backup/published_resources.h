/*
 * published_resources.h - Resource Lists as a Tidings broker has published
 * them: a state of a set at one position, in one document, or in parts with an
 * index.
 */
#ifndef BROKER_BACKUP_PUBLISHED_RESOURCES_H
#define BROKER_BACKUP_PUBLISHED_RESOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/state/resources.h"
#include "proto/problem.h"
#include "proto/resourcesync/position.h"
#include "proto/status.h"
#include "proto/uri.h"

enum published_role { PUBLISHED_WHOLE, PUBLISHED_PART, PUBLISHED_INDEX };

struct published_resources {
    char set[SET_NAME_MAX + 1];
    char epoch[EPOCH_SIZE + 1];
    uint64_t seq; /* the position that it stands for */
    int64_t us;   /* T(seq) */
    enum published_role role;
};

/* Reads the header of a file, plain or compressed. *is_list false: it is no
 * Resource List of a Tidings broker. */
MUST_CHECK enum status
published_resources_look(const char *path, struct published_resources *list,
                         bool *is_list, struct problem *why);

/* Counts the parts that an index names. */
MUST_CHECK enum status published_resources_count(const char *path, uint64_t *n,
                                                 struct problem *why);

/* Adds all resources of a whole list, or of a part, to a new state.
 * STATUS_DIFFERENT: it is damaged; `why` names the file. */
MUST_CHECK enum status
published_resources_fill(const char *path,
                         const struct published_resources *list,
                         struct resources *resources, struct problem *why);

#endif

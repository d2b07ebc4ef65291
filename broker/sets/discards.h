/*
 * discards.h - what new settings would delete of a set.
 *
 * Settings delete stored bytes in two ways: a shorter retention lets closed
 * Change Lists and archived documents go, and `content` as "none" lets go of
 * the bytes of resources. To prevent that by a slip, the broker refuses
 * settings that would delete something unless the request allows it. What the
 * former settings let go of already does not count.
 */
#ifndef BROKER_SETS_DISCARDS_H
#define BROKER_SETS_DISCARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/head.h"
#include "broker/sets/registry.h"
#include "broker/sets/settings.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

struct discards {
    uint64_t lists;          /* closed Change Lists */
    uint64_t entries;        /* in them */
    uint64_t archived;       /* generations that leave their archives */
    uint64_t archived_bytes; /* of their files */
    uint64_t files;          /* of content, as far as it was counted */
    uint64_t bytes;          /* of these files */
    uint64_t uncounted;      /* entries whose content is not counted yet */
};

/* Counts what `after` would delete of a set that has `head` and the settings
 * `before`. May read the disk: not from a service thread. STATUS_IO, ... as
 * log_lists. */
MUST_CHECK enum status
discards_count(const struct set *set, const struct head *head,
               const struct settings *before, const struct settings *after,
               struct discards *discards, struct problem *why);

bool discards_any(const struct discards *discards);

/* Writes a sentence: "this would delete 3 closed Change Lists (150 entries)".
 */
void discards_explain(const struct discards *discards, struct problem *why);

/* Appends a JSON object: {"lists":3,"entries":150,...}. */
void discards_write(struct buf *to, const struct discards *discards);

#endif

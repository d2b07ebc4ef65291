/*
 * harvest_metrics.h - how the sets stand to the sources that they are kept
 * equal to (broker/sets/harvest.h), for Prometheus.
 *
 *     tidings_harvest_complete_timestamp_seconds{set="news"} 1775067000
 *     tidings_held_back_deletions{set="news"} 120
 *
 * There may be many sets, so each family names the ten that are worst.
 */
#ifndef BROKER_HTTP_HARVEST_METRICS_H
#define BROKER_HTTP_HARVEST_METRICS_H

#include "broker/sets/registry.h"
#include "proto/buf.h"

struct principal;

/* Appends the families, without the sets that `principal` may not see. Looks at
 * all sets. */
void harvest_metrics_write(struct buf *to, struct registry *registry,
                           const struct principal *principal);

#endif

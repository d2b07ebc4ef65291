/*
 * stamped.h - entries as a Change List has them: written and stamped.
 */
#ifndef TESTS_SUPPORT_STAMPED_H
#define TESTS_SUPPORT_STAMPED_H

#include <stdint.h>

#include "proto/resourcesync/change.h"

/* 2026-04-01T18:10:00.125Z */
#define STAMPED_US INT64_C(1775067000125000)

/* A change with a loc that has to be escaped, and nothing else. */
struct change stamped_sample(void);

/* Writes and stamps; the result is terminated and the caller's. */
char *stamped_text(const struct change *change, int64_t us, uint64_t seq);

#endif

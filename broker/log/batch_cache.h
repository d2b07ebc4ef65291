/*
 * batch_cache.h - batches that were read from a disk, kept for the next reader.
 *
 * When many readers come back at once (a restart of everything), they ask for
 * the same old batches at about the same time. One reader reads the disk; the
 * others wait and share its batch. Bounded in bytes; the least recently used
 * goes first.
 *
 * Any thread that may block.
 */
#pragma once

#include "broker/log/batch.h"

struct batch_cache;
struct log_set;

/* Reads from the disk: see log_read. */
typedef enum status batch_cache_load_fn(void *user, struct log_set *set,
                                        uint64_t after, struct batch **batch,
                                        struct problem *why);

/* `forms` counts the forms of the batches that `load` makes: they count in
 * `max_bytes`, too. */
struct batch_cache *batch_cache_new(size_t max_bytes,
                                    const atomic_size_t *forms,
                                    batch_cache_load_fn *load, void *user);
void batch_cache_free(struct batch_cache *cache); /* NULL is allowed */

/* The batch with entry `after` + 1, from the cache or else by `load`, which
 * only one thread runs for the same entry at a time. *batch may become NULL, as
 * by `load`. */
MUST_CHECK enum status batch_cache_read(struct batch_cache *cache,
                                        struct log_set *set, uint64_t after,
                                        struct batch **batch,
                                        struct problem *why);

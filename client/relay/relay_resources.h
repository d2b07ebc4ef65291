/*
 * relay_resources.h - all resources of a source, collected on the disk for one
 * request.
 *
 *     relay_resources_new --> relay_resources_add ... --> relay_resources_write
 *
 * The relay learns their log only at the end, so it keeps them as they came. Of
 * a resource that comes twice, the later one counts.
 */
#ifndef CLIENT_RELAY_RELAY_RESOURCES_H
#define CLIENT_RELAY_RELAY_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/relay/relay_entry.h"
#include "client/tidings.h"

struct relay_resources;

/* `limits` has the bytes that stay free on the disk of temporary files. NULL:
 * no memory, or the temporary file cannot be made. */
struct relay_resources *relay_resources_new(const struct td_limits *limits);
void relay_resources_free(struct relay_resources *r); /* NULL is allowed */

/* Adds a resource, a JSON object that is copied. False: it has no loc, or the
 * disk is full, or is as full as the limits allow; relay_resources_trouble says
 * why. */
bool relay_resources_add(struct relay_resources *r, struct slice text);

/* Writes a document of all of them, as relay_entry makes them, to a temporary
 * file without a name, for td_publish_full. The caller closes `fd`. False: the
 * write failed, or one of them was in the target's log: relay_resources_trouble
 * says why. */
bool relay_resources_write(struct relay_resources *r,
                           const struct relay_rules *rules, int *fd);

const char *relay_resources_trouble(const struct relay_resources *r);

#endif

/*
 * resources.h - all resources of a source, collected on the disk until they are
 * posted whole.
 *
 *     relay_resources_new --> relay_resources_add ... --> relay_resources_write
 *
 * They come before it is known of which log they are, so they are kept as they
 * came. A resource that comes twice counts once, as it came last.
 */
#ifndef CLIENT_RELAY_RESOURCES_H
#define CLIENT_RELAY_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/relay/entry.h"
#include "client/tidings.h"

struct relay_resources;

/* `limits` has the bytes that stay free on the disk of temporary files. NULL:
 * no memory, or the temporary file cannot be made. */
struct relay_resources *relay_resources_new(const struct td_limits *limits);
void relay_resources_free(struct relay_resources *r); /* NULL is allowed */

/* Adds a resource, a JSON object that is copied. False: it has no loc, or the
 * disk is full, or is as full as the limits allow; relay_resources_trouble says
 * why. */
bool relay_resources_add(struct relay_resources *r, const char *text,
                         size_t size);

/* Writes a document of all of them, as relay_entry makes them, to a temporary
 * file without a name, for td_publish_full. `fd` is the caller's, to be closed.
 * False: it could not be written, or one of them was in the target's log:
 * relay_resources_trouble says why. */
bool relay_resources_write(struct relay_resources *r,
                           const struct relay_rules *rules, int *fd);

const char *relay_resources_trouble(const struct relay_resources *r);

#endif

/*
 * resource_collector.h - reads all resources of a source, from its documents
 * into one file of NDJSON.
 *
 *     FILE --> [gunzip]        --> a list, a Sitemap, NDJSON --> json_resource
 *                              \-> an index --> its parts, one after the other
 *
 * Checks the resources as the broker does (INPUT_RESOURCES), so that a fault
 * names the document that it stands in.
 */
#ifndef CLIENT_PUBLISH_RESOURCE_COLLECTOR_H
#define CLIENT_PUBLISH_RESOURCE_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client.h"

/* Writes them to `fd`, *size bytes. The client's problem says what went wrong.
 */
enum status gather(struct td_client *client, const char *from, int fd,
                   uint64_t *size);

#endif

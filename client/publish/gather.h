/*
 * gather.h - all resources of a source, from its documents into one file of
 * NDJSON.
 *
 *     FILE or URL --> [gunzip] --> a list, a Sitemap, NDJSON --> json_resource
 *                              \-> an index --> its parts, one after the other
 *
 * What is a resource is checked as the broker does (READER_RESOURCES), so that
 * a fault is told with the document that it stands in.
 */
#ifndef CLIENT_PUBLISH_GATHER_H
#define CLIENT_PUBLISH_GATHER_H

#include <stdint.h>

#include "client/lib/client.h"

/* Writes them to `fd`, and how many bytes that are to *size. The client's
 * problem says what went wrong. */
enum td_status gather(struct td_client *client, const char *from, int fd,
                      uint64_t *size);

#endif

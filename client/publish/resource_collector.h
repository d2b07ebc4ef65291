/*
 * resource_collector.h - reads all resources of a source, from its documents
 * into one file of NDJSON.
 *
 *     FILE or URL --> [gunzip] --> a list, a Sitemap, NDJSON --> json_resource
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

/* The result. */
struct gathered {
    uint64_t size;             /* bytes written */
    bool is_same;              /* `known` still holds: nothing was read */
    char known[TD_KNOWN_SIZE]; /* td_full_options.known for the next time; "":
                                  the server gave nothing to ask with, or `from`
                                  is an index, which does not cover its parts */
};

/* Writes them to `fd`. `known`: NULL or "" reads them in any case. The client's
 * problem says what went wrong. */
enum status gather(struct td_client *client, const char *from,
                   const char *known, int fd, struct gathered *gathered);

#endif

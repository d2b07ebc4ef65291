/*
 * resource_collector.h - reads all resources of a source, from its lists into
 * one file of NDJSON.
 *
 *     URL  --> baseline --------------+--> listing --> json_resource
 *     FILE --> document --------------+
 *          \-> its parts and pages, as URL
 *     FILE of NDJSON ---------------------------------> json_resource
 *
 * Lists are read as those of others are (document_read.h): of two rows with one
 * loc the later one counts; `report` has what was mended and left out. An
 * incomplete reading gives nothing. Lines of NDJSON are checked as the broker
 * does, so that a fault names its line.
 */
#ifndef CLIENT_PUBLISH_RESOURCE_COLLECTOR_H
#define CLIENT_PUBLISH_RESOURCE_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client.h"
#include "proto/resourcesync/list_report.h"

/* The result. */
struct gathered {
    uint64_t size; /* bytes written */
    struct list_report report;
};

/* Writes them to `fd`. The client's problem says what went wrong. */
enum status gather(struct td_client *client, const char *from, int fd,
                   struct gathered *gathered);

#endif

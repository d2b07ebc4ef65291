/*
 * openapi.h - the description of all routes in OpenAPI 3.1, from the same rows
 * as the tables of doc/http.md (route_table.h, documents.h).
 *
 *     tidingsd --openapi > broker/http/openapi.json
 *
 * The build embeds that file, so the broker serves it as a document that costs
 * no memory: GET /openapi.json. A test compares both.
 *
 *     paths       each path of both tables, with its methods
 *     components  parameters, by "query.NAME", "header.NAME", "path.NAME";
 *                 responses: what any route may refuse; the schema of problems
 *
 * It does not describe the members of JSON: the pages of doc/ do.
 */
#ifndef BROKER_HTTP_OPENAPI_H
#define BROKER_HTTP_OPENAPI_H

#include "proto/buf.h"

/* The most bytes of it; some 180,000. */
#define OPENAPI_MAX ((size_t)1 << 20)

/* Appends it, on lines of their own for each operation. */
void openapi_write(struct buf *to);

#endif

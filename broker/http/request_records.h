/*
 * request_records.h - what remains of a request that has ended: its line in the
 * access log (access_log.h), and its duration in the metric of its route
 * (metrics.h).
 *
 * Of the query the line has the parameters that the route names and does not
 * mark as secret (route_table.h). All others are left out, with "..." in their
 * place: a ticket, a token or a secret that a client sends by mistake is none
 * of the route's. Bodies and other fields than User-Agent are never shown.
 *
 * The metric has a row for each row of route_table.h, for each document, and
 * "none" for all others: unknown paths and methods, and requests that were
 * refused before their path was looked up.
 */
#pragma once

#include "broker/base/access_log.h"
#include "broker/net/request.h"

/* Names the rows of the metric. Before the server starts; again does nothing
 * new. */
void request_records_init(void);

/* Adds the line, if the log is on, and counts the request. On its service
 * thread. */
void request_records_add(struct access_log *log, const struct request_end *end);

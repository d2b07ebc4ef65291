/*
 * request_log.h - the line of a request in the access log (access_log.h): which
 * parts of a request it shows.
 *
 * Of the query it shows the parameters that the route names and does not mark
 * as secret (route_table.h). All others are left out, with "..." in their
 * place: a ticket, a token or a secret that a client sends by mistake is none
 * of the route's. Bodies and other fields than User-Agent are never shown.
 */
#ifndef BROKER_HTTP_REQUEST_LOG_H
#define BROKER_HTTP_REQUEST_LOG_H

#include "broker/base/access_log.h"
#include "broker/net/request_end.h"

/* Adds the line, if the log is on. On the service thread of the request. */
void request_log_add(struct access_log *log, const struct request_end *end);

#endif

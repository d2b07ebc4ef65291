/*
 * request_durations.h - the metric of requests by route: which requests count,
 * and as which row (metrics.h).
 *
 *     rows of route_table.h | documents | "none"
 *
 * "none" are all others: unknown paths and methods, and requests that were
 * refused before their path was looked up. Streams and long polls (wait=) do
 * not count: they last as long as the client wants.
 */
#ifndef BROKER_HTTP_REQUEST_DURATIONS_H
#define BROKER_HTTP_REQUEST_DURATIONS_H

struct request_end;

/* Names the rows. Before the server starts; again does nothing new. */
void request_durations_init(void);

/* Counts a request that has ended. Service threads. */
void request_durations_count(const struct request_end *end);

#endif

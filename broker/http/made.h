/*
 * made.h - answers that a worker makes, because it looks at every set, reads
 * the disk, or waits for a lock.
 */
#ifndef BROKER_HTTP_MADE_H
#define BROKER_HTTP_MADE_H

#include <stddef.h>

#include "broker/http/http.h"
#include "broker/net/request.h"
#include "proto/buf.h"

/* Answers 200 with the text that `make` appends, at most `max` bytes of
 * `content_type`, which no cache keeps; 503 if there is no memory. `make` runs
 * on a worker. */
void made_answer(struct http *http, struct request *rq,
                 const char *content_type, size_t max,
                 void (*make)(struct http *http, struct buf *to));

#endif

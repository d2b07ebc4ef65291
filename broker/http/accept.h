/*
 * accept.h - the Accept header (RFC 9110 section 12.5.1).
 */
#ifndef BROKER_HTTP_ACCEPT_H
#define BROKER_HTTP_ACCEPT_H

#include <stdbool.h>

#include "proto/slice.h"

/* Does `accept` name the media type `type` itself ("text/event-stream", in
 * lower case), and with a quality above 0? Ranges do not count: they are what a
 * client sends that has nothing in mind. A quality that is none counts as 1. */
bool accept_names(struct slice accept, const char *type);

#endif

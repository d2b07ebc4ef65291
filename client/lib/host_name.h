/*
 * host_name.h - the host that a URL asks: the key of queues, places and pauses.
 */
#pragma once

#include "proto/slice.h"

/* True if it is a URL of http or https without blanks and control characters.
 */
bool host_name_is_url(struct slice url);

/* The scheme and host of a URL, with its port unless that is the default one:
 * "https://example.org:8443", in lower case. The caller frees it. NULL: no
 * memory, or no URL of http or https. */
char *host_name_of(struct slice url);

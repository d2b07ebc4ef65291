/*
 * host_name.h - the host that a URL asks: the key of queues, places and pauses.
 */
#pragma once

#include "proto/http/websub.h"

/* Writes the scheme and host of a URL, with its port unless that is the default
 * one: "https://example.org:8443", in lower case; `name` NULL: nothing. False:
 * it is no URL of http or https, or has blanks or control characters. */
bool host_name_read(struct slice url, struct websub_origin *name);

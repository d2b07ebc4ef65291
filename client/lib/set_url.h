/*
 * set_url.h - the URL of a set, "http(s)://host:port/sets/NAME".
 */
#pragma once

#include "client/lib/client.h"
#include "proto/uri.h"

/* Longest URL of a set: with our additions, it stays under the 2,000 bytes that
 * every proxy accepts. */
#define SET_URL_MAX 1024

/* Checks the URL `text`, and writes it with its port and without a slash at the
 * end. STATUS_INVALID: no such URL; STATUS_MEMORY; the client's problem says
 * why. */
enum status set_url_read(struct td_client *client, const char *text,
                         char url[SET_URL_MAX + 1]);

/*
 * set_url.h - "http(s)://host:port/sets/NAME", taken apart.
 */
#ifndef CLIENT_LIB_SET_URL_H
#define CLIENT_LIB_SET_URL_H

#include <stdbool.h>

#include "client/lib/client.h"
#include "proto/uri.h"

/* Longest URL of a set: with our additions, it stays under the 2,000 bytes that
 * every proxy accepts. */
#define SET_URL_MAX 1024

/* A name has at most 253 bytes, a port 5. */
#define SET_URL_AUTHORITY_MAX 259

struct set_url {
    char text[SET_URL_MAX + 1]; /* without a slash at the end */
    bool is_tls;
    char authority[SET_URL_AUTHORITY_MAX + 1]; /* "host:port", "[::1]:port" */
    char host[SET_URL_AUTHORITY_MAX + 1];      /* without brackets */
    int port;
    const char *path; /* into text: "/sets/NAME" */
    const char *name; /* into text: the last segment */
};

/* STATUS_INVALID: no such URL; the client's problem says why. `url` points into
 * itself: it must not be copied. */
enum status set_url_read(struct td_client *client, const char *text,
                         struct set_url *url);

#endif

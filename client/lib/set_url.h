/*
 * set_url.h - "http(s)://host:port/sets/NAME", taken apart.
 */
#ifndef CLIENT_LIB_SET_URL_H
#define CLIENT_LIB_SET_URL_H

#include <stdbool.h>

#include "client/lib/client.h"
#include "proto/uri.h"

/* Longest URL of a set; what we add to it stays under libwebsockets' limit of
 * 2,048 bytes for a request line. */
#define SET_URL_MAX 1024

/* libwebsockets has 128 bytes for the line "Host: ...". */
#define SET_URL_AUTHORITY_MAX 116

struct set_url {
    char text[SET_URL_MAX + 1]; /* without a slash at the end */
    bool is_tls;
    char authority[SET_URL_AUTHORITY_MAX + 1]; /* "host:port", "[::1]:port" */
    char host[SET_URL_AUTHORITY_MAX + 1];      /* without brackets */
    int port;
    const char *path; /* into text: "/sets/NAME" */
    const char *name; /* into text: the last segment */
};

/* TD_INVALID: no such URL; the client's problem says why. `url` points into
 * itself: it must not be copied. */
enum td_status set_url_read(struct td_client *client, const char *text,
                            struct set_url *url);

#endif

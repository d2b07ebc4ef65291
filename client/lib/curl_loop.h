/*
 * curl_loop.h - libcurl on the handle's loop, and what every connection of a
 * handle has, also a WebSocket: proxies, authorities, header lines.
 *
 * The only header of this library that shows libcurl.
 */
#pragma once

#include <curl/curl.h>

#include "client/lib/client.h"

struct curl_loop;

struct curl_loop *curl_loop_new(struct td_client *client); /* NULL: no memory */

/* Call it when no transfer is under way. NULL is allowed. */
void curl_loop_free(struct curl_loop *web);

/* How a transfer ended. It is not under way any more: add it again, or clean it
 * up. */
typedef void curl_loop_done_fn(CURLcode result, void *user);

/* Must live while the transfer is under way. */
struct curl_loop_transfer {
    const char *url;
    bool is_own; /* the program has named the URL, no document */
    curl_loop_done_fn *on_done;
    void *user;

    /* Made by curl_loop_prepare; the owner frees it after curl_loop_remove */
    CURL *easy;
    struct curl_slist *headers; /* of the request, td_header, a token */
    unsigned token_version;     /* servers.h; 0: no token */
    char error[CURL_ERROR_SIZE];
    bool is_under_way;
    struct list lost; /* in curl_loop->lost */
    struct address_policy_check check;
};

/* Sets the options that all transfers have: URL, protocols, TLS, trust,
 * proxies, name, no signals, which addresses (address_policy.h). Copies `lines`
 * to `headers`, and adds the client's lines and token for that server. May be
 * repeated for another URL. False: no memory. */
bool curl_loop_prepare(struct td_client *client,
                       struct curl_loop_transfer *transfer,
                       const struct curl_slist *lines);

/* Begins a transfer. False: no memory. Do not call it, or curl_loop_remove,
 * from a callback of libcurl: such a callback stores its data, and starts a
 * timer. */
bool curl_loop_add(struct curl_loop *web, struct curl_loop_transfer *transfer);

/* Ends a transfer without a callback. */
void curl_loop_remove(struct curl_loop *web,
                      struct curl_loop_transfer *transfer);

#define CURL_LOOP_SCHEME_SIZE 8
#define CURL_LOOP_HOST_SIZE   512 /* names have 253 bytes */

/* Reads "https" and "host" of a URL as libcurl understands it; an IPv6 address
 * without its brackets. False: not a URL to ask. */
bool curl_loop_read_url(const char *url, char scheme[CURL_LOOP_SCHEME_SIZE],
                        char host[CURL_LOOP_HOST_SIZE]);

/* Copies a part of a URL, of an IPv6 address without the brackets. False: it
 * has none, or one too long for `to`. */
bool curl_loop_url_part(CURLU *url, CURLUPart what, unsigned flags, char *to,
                        size_t size);

/* The proxy that the environment names for a URL with that scheme and host (an
 * IPv6 address without its brackets); NULL: none. As libcurl reads it:
 * http_proxy (in lower case alone: a web server gives its CGI programs
 * HTTP_PROXY from a header), https_proxy, HTTPS_PROXY, all_proxy and ALL_PROXY
 * name proxies; no_proxy or NO_PROXY the hosts without a proxy. The decision is
 * passed to libcurl, so that the client knows if a connection has the address
 * of the proxy (address_policy.h). */
const char *curl_loop_proxy(const char *scheme, const char *host);

/* The file with further certificates to trust, by the names that curl uses.
 * NULL: the system's alone. */
const char *curl_loop_ca_file(void);

/* Appends the client's header lines and token for the server of `url`, and sets
 * the token's version (servers.h). False: no memory. */
bool curl_loop_add_own(const struct td_client *client, const char *url,
                       bool is_proxied, struct curl_slist **headers,
                       unsigned *token_version);

/* Appends a line; false: no memory. */
bool curl_loop_header(struct curl_slist **headers, const char *line);

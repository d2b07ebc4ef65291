/*
 * proxy.h - decides which requests go through a proxy, by the environment.
 *
 * As libcurl reads it: http_proxy (in lower case alone: a web server gives its
 * CGI programs HTTP_PROXY from a header), https_proxy, HTTPS_PROXY, all_proxy
 * and ALL_PROXY name proxies; no_proxy or NO_PROXY the hosts without a proxy.
 * This module decides, and passes the decision to libcurl, so that the client
 * knows if a connection has the address of the proxy (address_policy.h).
 */
#ifndef CLIENT_LIB_PROXY_H
#define CLIENT_LIB_PROXY_H

#include <stdbool.h>

/* True if the environment names a proxy for a URL with that scheme and host (an
 * IPv6 address without its brackets). */
bool proxy_is_used(const char *scheme, const char *host);

#endif

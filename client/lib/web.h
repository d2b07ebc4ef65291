/*
 * web.h - libcurl on the handle's loop; fetch.c and the WebSocket share it.
 *
 * The only header of this library that shows libcurl.
 */
#ifndef CLIENT_LIB_WEB_H
#define CLIENT_LIB_WEB_H

#include <curl/curl.h>

#include "client/lib/client.h"
#include "client/lib/reach.h"

struct web;

/* Call it once per process, before all else here. */
void web_set_up(void);

struct web *web_new(struct td_client *client); /* NULL: no memory */

/* Call it when no transfer is under way. NULL is allowed. */
void web_free(struct web *web);

/* How a transfer ended. It is not under way any more: add it again, or clean it
 * up. */
typedef void web_done_fn(CURLcode result, void *user);

/* Must live while the transfer is under way. */
struct web_transfer {
    web_done_fn *on_done;
    void *user;
    bool is_kept; /* CURLOPT_CONNECT_ONLY: a good end is a connection that
                     stands, and the transfer stays under way for it */
    bool is_under_way;
    struct reach_check check;
};

/* Begins a transfer; uses `easy`'s CURLOPT_PRIVATE. False: no memory. Do not
 * call it, or web_remove, from a callback of libcurl: such a callback stores
 * its data, and starts a timer. */
bool web_add(struct web *web, CURL *easy, struct web_transfer *transfer);

/* Ends a transfer, or closes a kept one, without a callback. */
void web_remove(struct web *web, CURL *easy, struct web_transfer *transfer);

/* The options that all transfers have: URL, protocols, TLS, trust, proxies,
 * name, no signals, which addresses (reach.h), `error` (CURL_ERROR_SIZE, lives
 * as long as the transfer). Adds the client's lines for that server to
 * `*headers`. `is_own`: the program has named the URL, no document. False: no
 * memory. */
bool web_prepare(struct td_client *client, CURL *easy,
                 struct web_transfer *transfer, const char *url, bool is_own,
                 struct curl_slist **headers, char *error);

/* True if a transfer that ended with `result` was refused its address; then
 * `error` (CURL_ERROR_SIZE) has the reason. */
bool web_is_refused(const struct web_transfer *transfer, CURLcode result,
                    char *error);

/* Appends a line; false: no memory. */
bool web_header(struct curl_slist **headers, const char *line);

#endif

/*
 * curl_loop.h - libcurl on the handle's loop; fetch.c and the WebSocket share
 * it.
 *
 * The only header of this library that shows libcurl.
 */
#ifndef CLIENT_LIB_CURL_LOOP_H
#define CLIENT_LIB_CURL_LOOP_H

#include <curl/curl.h>

#include "client/lib/address_policy.h"
#include "client/lib/client.h"

struct curl_loop;

/* Call it once per process, before all else here. */
void curl_loop_set_up(void);

struct curl_loop *curl_loop_new(struct td_client *client); /* NULL: no memory */

/* Call it when no transfer is under way. NULL is allowed. */
void curl_loop_free(struct curl_loop *web);

/* How a transfer ended. It is not under way any more: add it again, or clean it
 * up. */
typedef void curl_loop_done_fn(CURLcode result, void *user);

/* Must live while the transfer is under way. */
struct curl_loop_transfer {
    curl_loop_done_fn *on_done;
    void *user;
    bool is_kept; /* CURLOPT_CONNECT_ONLY: a good end is a connection that
                     stands, and the transfer stays under way for it */
    bool is_under_way;
    struct address_policy_check check;
};

/* Begins a transfer; uses `easy`'s CURLOPT_PRIVATE. False: no memory. Do not
 * call it, or curl_loop_remove, from a callback of libcurl: such a callback
 * stores its data, and starts a timer. */
bool curl_loop_add(struct curl_loop *web, CURL *easy,
                   struct curl_loop_transfer *transfer);

/* Ends a transfer, or closes a kept one, without a callback. */
void curl_loop_remove(struct curl_loop *web, CURL *easy,
                      struct curl_loop_transfer *transfer);

#define CURL_LOOP_SCHEME_SIZE 8
#define CURL_LOOP_HOST_SIZE   512 /* names have 253 bytes */

/* Reads "https" and "host" of a URL as libcurl understands it; an IPv6 address
 * without its brackets. False: not a URL to ask. */
bool curl_loop_read_url(const char *url, char scheme[CURL_LOOP_SCHEME_SIZE],
                        char host[CURL_LOOP_HOST_SIZE]);

/* The options that all transfers have: URL, protocols, TLS, trust, proxies,
 * name, no signals, which addresses (address_policy.h), `error`
 * (CURL_ERROR_SIZE, lives as long as the transfer). Adds the client's lines for
 * that server to `*headers`. `is_own`: the program has named the URL, no
 * document. False: no memory. */
bool curl_loop_prepare(struct td_client *client, CURL *easy,
                       struct curl_loop_transfer *transfer, const char *url,
                       bool is_own, struct curl_slist **headers, char *error);

/* True if a transfer that ended with `result` was refused its address; then
 * `error` (CURL_ERROR_SIZE) has the reason. */
bool curl_loop_is_refused(const struct curl_loop_transfer *transfer,
                          CURLcode result, char *error);

/* Appends a line; false: no memory. */
bool curl_loop_header(struct curl_slist **headers, const char *line);

#endif

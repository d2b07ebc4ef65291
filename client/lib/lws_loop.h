/*
 * lws_loop.h - libwebsockets' client role on the handle's loop: connects a
 * WebSocket, up to the answer to its handshake, and passes on what comes then.
 *
 *     lws_loop_open --> look-up --> address --> TLS --> handshake --> on_event
 *                                    |  ^                 ESTABLISHED ...
 *                                    v  |                 CLIENT_CLOSED, or
 *                                   the next one          CONNECTION_ERROR
 *                                    |
 *                                    +--> on_failed   no request was sent
 *
 * What a WebSocket shares with the other connections of the handle: proxies,
 * authorities, header lines, tokens (curl_loop.h), certificates (servers.h) and
 * which addresses a source may name (address_policy.h).
 *
 * The only header of this library that shows libwebsockets.
 */
#pragma once

#include <libwebsockets.h>

#include "client/lib/client.h"
#include "client/lib/curl_loop.h"

struct inflater;
struct lws_loop;

/* Close all links before. Turns the loop. NULL is allowed. */
void lws_loop_free(struct lws_loop *web);

/* A URL, taken apart, and the way to it. */
struct lws_target {
    bool is_tls;
    char *path;                     /* with the query */
    char host[CURL_LOOP_HOST_SIZE]; /* IPv6 without brackets */
    char port[8];
    char proxy_login[100];                /* "user:password@"; or "" */
    char proxy_host[CURL_LOOP_HOST_SIZE]; /* ""; none */
    char proxy_port[8];
    struct curl_slist *headers;
    struct vhost *vhost;
};

/* A connection; a member of its owner's struct, zero at first. */
struct lws_link {
    const char *url; /* http or https */

    /* The owner's. on_event gets these reasons of libwebsockets, as they are
     * described there: CLIENT_CONNECTION_ERROR (after the request was sent),
     * CLIENT_ESTABLISHED, CLIENT_RECEIVE, CLIENT_WRITEABLE,
     * WS_PEER_INITIATED_CLOSE, CLIENT_CLOSED. A result other than 0 ends the
     * connection.
     * `wsi` is still there.
     *
     * on_failed: no request was sent. why->rc: STATUS_UNREACHABLE;
     * STATUS_UNSUPPORTED: no WebSocket can come about this way, another
     * transport may; STATUS_MALFORMED: no URL, or an address that the source
     * may not name; STATUS_MEMORY. */
    int (*on_event)(enum lws_callback_reasons what, void *in, size_t size,
                    void *user);
    void (*on_failed)(const struct problem *why, void *user);
    void *user;

    /* For the owner to read */
    struct lws *wsi;  /* NULL: there is none now */
    char *authority;  /* "host:port", as in the request; or NULL */
    bool is_deflated; /* messages may be deflated, each alone (RFC 7692) */

    /* lws_loop.c's */
    struct td_client *client;
    struct lws_target target;
    struct look_up *look_up; /* under way */
    struct addrinfo *addresses, *next, *current;
    struct timer timer;
    struct address_policy_check check;
    bool is_asked, is_calling;
    unsigned n_extensions; /* that the answer accepts */
    bool is_leaving;       /* the library answers a farewell */
    struct problem why;    /* of the last address */
};

/* The inflater of the handle's WebSockets; NULL: no memory. */
struct inflater *lws_loop_inflater(struct lws_loop *web);

/* Begins to connect. Nothing is called before this returns. False: no memory.
 */
bool lws_loop_open(struct lws_link *link, struct td_client *client);

/* Ends it: nothing more is called. At any moment, also from on_event; also if
 * it was never opened. Its memory stays until the end of the turn. */
void lws_loop_close(struct lws_link *link);

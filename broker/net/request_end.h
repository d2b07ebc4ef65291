/*
 * request_end.h - what is known of a request when it has ended: for metrics and
 * for the access log.
 *
 * server_options.on_end gets one for each request, also for one that net itself
 * refused:
 *
 *     last byte of the answer given to the kernel   is_whole
 *     the connection ended before                   not is_whole
 *     a stream has ended                            is_stream
 */
#ifndef BROKER_NET_REQUEST_END_H
#define BROKER_NET_REQUEST_END_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/client_address.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "proto/slice.h"

struct request_end {
    const struct service *service; /* the thread that calls */
    enum listener_kind listener;
    struct client_address client; /* of a request by a trusted proxy, the client
                           that the proxy names */
    enum method method;           /* METHODS: none that the server knows */
    const void *route;   /* of request_set_route; NULL: none was found */
    const char *pattern; /* of request_set_route; or NULL */
    unsigned status;     /* 0: the connection ended before there was one */
    bool is_whole;       /* all of the answer was given to the kernel */
    bool is_stream;      /* a WebSocket, or an answer without a known length */
    bool is_kept;        /* request_keep_for_log: agent, name; of a stream all
                            of the texts below */
    uint64_t received_bytes; /* of the body; of a WebSocket, of its frames */
    uint64_t sent_bytes;     /* with heads, without TLS */
    uint64_t n_messages;     /* of a stream: stream_count_message */
    int64_t duration_us;     /* since the head was complete */

    /* Lent until the call returns. */
    struct slice id; /* of X-Request-Id */
    struct slice path, query, agent, name;
};

#endif

/*
 * transfer.h - one call as libcurl makes it: its easy handle, what it is told
 * to do and to leave, what came of it. For calling.c; the caller's thread.
 */
#ifndef BROKER_NET_TRANSFER_H
#define BROKER_NET_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>

#include <curl/curl.h>

#include "base/list.h"
#include "broker/net/caller.h"
#include "proto/buf.h"

struct shard;

/* Headers of ours, in every call. */
#define TRANSFER_HEADERS 2

struct transfer {
    struct list node; /* while it is spare, or to be told of */
    struct caller *caller;
    struct shard *shard;
    struct call *call;
    CURL *easy;
    CURLU *url;
    struct curl_slist headers[TRANSFER_HEADERS + CALL_HEADERS_MAX];
    struct buf answer;
    struct buf links;
    size_t head_size;  /* bytes of headers so far */
    unsigned n_heads;  /* status lines so far */
    unsigned n_opened; /* sockets since the last of them */
    char refused[64];  /* an address that may not be called; or "" */
    bool has_head;     /* the answer's head has come whole */
    bool is_short;     /* no descriptor was left */
    bool is_cut;       /* the answer is longer than wanted */
    bool is_foreign;   /* its version of HTTP is none that was asked for */
    char error[CURL_ERROR_SIZE];

    /* An answer in pieces: calling.c. The piece is `answer`. */
    uint64_t n_taken;  /* bytes so far */
    bool is_with_user; /* he has said CALL_LATER */

    /* Its end, until the user can be told of it. */
    bool is_over;
    CURLcode result;

    struct alarm stall;
    int64_t heard_us; /* when the last byte came */
    bool is_stalled;
};

/* A transfer is used for one call after the other: what does not change is set
 * once. NULL: no memory. */
struct transfer *transfer_new(struct caller *caller);
void transfer_free(struct transfer *transfer);

/* Sets what is the call's. false: it failed, as it says. */
MUST_CHECK bool transfer_set(struct transfer *transfer, struct call *call);

/* Writes the outcome into the call: lent from the transfer. */
void transfer_tell(struct transfer *transfer);

/* Is there a piece that is to be handed over, before anything else? */
bool transfer_has_piece(const struct transfer *transfer);

/* The piece was taken: more, please. false: it has come to its end by that. */
bool transfer_go_on(struct transfer *transfer);

/* Nothing is lent any more: ready for the next call. */
void transfer_clear(struct transfer *transfer);

/* The transfer has a piece that is full, and reads no more (calling.c). */
void calling_piece(struct transfer *transfer);

/* Of libcurl: opens a socket, once its address was judged, judges that of the
 * connection that a request is about to use, and closes it (watching.c); says
 * whom to trust (calling.c). */
curl_socket_t calling_open_socket(void *transfer, curlsocktype purpose,
                                  struct curl_sockaddr *address);
int calling_is_connected(void *transfer, char *address, char *local, int port,
                         int local_port);
int calling_close_socket(void *caller, curl_socket_t fd);
CURLcode calling_trust(CURL *easy, void *ssl_ctx, void *caller);

#endif

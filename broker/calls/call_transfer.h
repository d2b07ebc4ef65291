/*
 * call_transfer.h - one call of libcurl: its easy handle, its options, its
 * outcome. For call_transport.c; the caller's thread.
 */
#ifndef BROKER_CALLS_CALL_TRANSFER_H
#define BROKER_CALLS_CALL_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>

#include <curl/curl.h>

#include "base/list.h"
#include "broker/calls/caller.h"
#include "proto/buf.h"

struct shard;

/* Headers of ours, in every call. */
#define CALL_TRANSFER_HEADERS 2

struct call_transfer {
    struct list node; /* in the list of spare ones, or in to_report */
    struct caller *caller;
    struct shard *shard;
    struct call *call;
    CURL *easy;
    CURLU *url;
    struct curl_slist headers[CALL_TRANSFER_HEADERS + CALL_HEADERS_MAX];
    struct buf answer;
    struct buf links;
    size_t head_size;  /* bytes of headers so far */
    unsigned n_heads;  /* status lines so far */
    unsigned n_opened; /* sockets since the last status line */
    char refused[64];  /* an address that may not be called; else "" */
    bool has_head;     /* the answer's head is complete */
    bool is_short;     /* no descriptor was left */
    bool is_cut;       /* the answer is longer than max_answer or max_taken */
    bool is_foreign;   /* the answer is of another version of HTTP */
    char error[CURL_ERROR_SIZE];

    /* An answer in pieces: call_transport.c. The piece is `answer`. */
    uint64_t n_taken;  /* bytes so far */
    bool is_with_user; /* the user has returned CALL_LATER */

    /* The end, until the user gets it. */
    bool is_over;
    CURLcode result;

    struct alarm stall;
    int64_t heard_us; /* when the last byte came */
    bool is_stalled;
};

/* Makes a transfer, which is used for one call after the other: its constant
 * options are set once. NULL: no memory. */
struct call_transfer *call_transfer_new(struct caller *caller);
void call_transfer_free(struct call_transfer *transfer);

/* Sets the options of a call. false: it failed, for the reason in the call. */
MUST_CHECK bool call_transfer_set(struct call_transfer *transfer,
                                  struct call *call);

/* Writes the outcome into the call: lent from the transfer. */
void call_transfer_report(struct call_transfer *transfer);

/* True if there is a piece to hand over, before anything else. */
bool call_transfer_has_piece(const struct call_transfer *transfer);

/* Continues when the user has taken the piece. false: the call has ended by
 * that. */
bool call_transfer_go_on(struct call_transfer *transfer);

/* Makes it ready for the next call: nothing is lent any more. */
void call_transfer_clear(struct call_transfer *transfer);

/* Puts it on the list of those with a piece to hand over, or at their end. */
void call_transfer_set_to_report(struct call_transfer *transfer);

#endif

/*
 * ws_handshake.h - the handshake of a WebSocket: the client's part (RFC 6455
 * section 4.1), and the compression that a server agrees to.
 *
 *     GET /sets/news/stream HTTP/1.1       HTTP/1.1 101 Switching Protocols
 *     Upgrade: websocket                   Upgrade: websocket
 *     Connection: Upgrade                  Connection: Upgrade
 *     Sec-WebSocket-Version: 13
 *     Sec-WebSocket-Key: dGhlIHNhb...      Sec-WebSocket-Accept: HSmrc0sMl...
 *     Sec-WebSocket-Protocol: resource...  Sec-WebSocket-Protocol: resource...
 *
 * or an answer that says why not.
 */
#ifndef PROTO_HTTP_WS_HANDSHAKE_H
#define PROTO_HTTP_WS_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Longest head of an answer, with what comes before it (1xx). */
#define UPGRADE_HEAD_MAX 16384

#define UPGRADE_NONCE_SIZE 16

/* With the NUL. */
#define UPGRADE_KEY_SIZE    25
#define UPGRADE_ACCEPT_SIZE 29

/* The value of Sec-WebSocket-Key. */
void upgrade_key(char key[UPGRADE_KEY_SIZE],
                 const uint8_t nonce[UPGRADE_NONCE_SIZE]);

/* Writes the Sec-WebSocket-Accept that belongs to the key. */
void upgrade_accept(char accept[UPGRADE_ACCEPT_SIZE],
                    const char key[UPGRADE_KEY_SIZE]);

/* The head of an answer; lends from the bytes it was read from. */
struct upgrade_answer {
    unsigned status;
    size_t head_size; /* of all up to the empty line, with it; the body or the
                         first frame follows */
    bool is_upgrade;  /* Upgrade: websocket, Connection: upgrade */
    struct slice accept;     /* Sec-WebSocket-Accept; empty: not there */
    struct slice protocol;   /* Sec-WebSocket-Protocol; empty: none */
    struct slice extensions; /* Sec-WebSocket-Extensions; empty: none */
    struct slice type;       /* Content-Type; empty: untold */
    uint64_t length;         /* Content-Length; UINT64_MAX: untold */
    bool is_chunked;         /* Transfer-Encoding: chunked */
    unsigned retry_after_s;  /* Retry-After in seconds; 0: untold */
};

/* Reads the head of the answer that `bytes` begin with; interim answers (100,
 * 103) before it are passed over. STATUS_AGAIN: not all of it is there yet;
 * STATUS_TOO_LARGE: nor will it be; STATUS_MALFORMED: that is not HTTP/1. */
MUST_CHECK enum status upgrade_read(struct slice bytes,
                                    struct upgrade_answer *answer,
                                    struct problem *why);

/* Checks that the answer to `key` opens a WebSocket with `protocol`.
 * STATUS_INVALID: `why` names the fault. */
MUST_CHECK enum status upgrade_check(const struct upgrade_answer *answer,
                                     const char key[UPGRADE_KEY_SIZE],
                                     const char *protocol, struct problem *why);

/* Adds the body of a refusal to `body`, from the bytes behind its head.
 * STATUS_AGAIN: more has to come; STATUS_MALFORMED: it does not agree with its
 * head. `is_ended`: no more will come. */
MUST_CHECK enum status upgrade_body(const struct upgrade_answer *answer,
                                    struct slice bytes, bool is_ended,
                                    struct buf *body);

/*
 * permessage-deflate (RFC 7692), for a server that keeps nothing between two
 * messages.
 *
 *     Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits
 *
 *     Sec-WebSocket-Extensions: permessage-deflate;
 *         server_no_context_takeover; client_no_context_takeover
 *
 * Without context takeover a message is compressed alone, so all subscribers
 * share its bytes, and a connection holds no window.
 *
 * Finds the first acceptable offer in the value of Sec-WebSocket-Extensions;
 * several field lines are joined by commas (RFC 6455 section 9.1). Sets
 * `*answer` to the value that the server answers with, a constant, or to NULL
 * if no offer is acceptable. Other extensions are passed over.
 *
 * An offer is declined (RFC 7692 section 7.1) if a parameter is unknown, stands
 * there twice or has a bad value, and if the client limits the server's window
 * (server_max_window_bits below 15): all subscribers share the same bytes, so
 * they have one window. client_max_window_bits is a hint that needs no answer,
 * because a server with the full window inflates what any smaller one deflated.
 *
 * STATUS_MALFORMED: the value breaks the grammar of section 9.1, which tells
 * the server to fail the connection. `*answer` is NULL then.
 */
MUST_CHECK enum status
ws_deflate_agree(struct slice offers, const char **answer, struct problem *why);

#endif

/*
 * ws_handshake.h - what a server answers to the handshake of a WebSocket: the
 * proof that it has read the key (RFC 6455 section 4.2.2), and the compression
 * that it agrees to.
 *
 *     GET /sets/news/stream HTTP/1.1       HTTP/1.1 101 Switching Protocols
 *     Upgrade: websocket                   Upgrade: websocket
 *     Connection: Upgrade                  Connection: Upgrade
 *     Sec-WebSocket-Version: 13
 *     Sec-WebSocket-Key: dGhlIHNhb...      Sec-WebSocket-Accept: HSmrc0sMl...
 *     Sec-WebSocket-Protocol: resource...  Sec-WebSocket-Protocol: resource...
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

/* With the NUL. */
#define UPGRADE_KEY_SIZE    25
#define UPGRADE_ACCEPT_SIZE 29

/* Writes the Sec-WebSocket-Accept that belongs to the key. */
void upgrade_accept(char accept[UPGRADE_ACCEPT_SIZE],
                    const char key[UPGRADE_KEY_SIZE]);

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

/*
 * wire.h - a client of raw bytes: HTTP/1.1 and WebSocket, as the wire has them.
 *
 *     struct wire *w = wire_connect("127.0.0.1", port);
 *     struct wire_answer a;
 *
 *     wire_send_text(w, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
 *     assert_true(wire_answer(w, &a, false));
 *     assert_int_equal(a.status, 200);
 *     wire_close(w);
 *
 * It knows nothing of proto/ and broker/, sends any bytes, and never waits
 * longer than PATIENCE_MS (wire_set_wait). Nothing here ends a test: results
 * are the caller's to check. One thread per wire.
 */
#ifndef TESTS_SUPPORT_WIRE_H
#define TESTS_SUPPORT_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/test.h"

#define WIRE_HEAD_MAX    8192
#define WIRE_CONTROL_MAX 125

struct wire;

/* Connections */

/* NULL: refused, or nobody there. HOST:PORT is what requests name as Host. */
struct wire *wire_connect(const char *host, unsigned port);

/* The same with a small receive buffer: the peer soon gets stuck unless the
 * test reads. */
struct wire *wire_connect_narrow(const char *host, unsigned port);

/* Connects to a unix socket; requests name localhost as Host. */
struct wire *wire_connect_unix(const char *path);

/* All later bytes in both directions go over TLS. It does not check the peer's
 * certificate. `version`: the only one to offer, as OpenSSL numbers them
 * (TLS1_2_VERSION); 0: all from 1.2 on. false: the peer does not want to. The
 * process ignores SIGPIPE from then on. */
bool wire_start_tls(struct wire *w, int version);

/* OpenSSL's SSL of the wire; NULL: it is plain. */
void *wire_tls(const struct wire *w);

/* How many TLS records have come. */
unsigned wire_records(const struct wire *w);

/* Has the peer said that nothing more comes? As far as was read. */
bool wire_end_is_said(const struct wire *w);

/* NULL is allowed. */
void wire_close(struct wire *w);

/* Resets the connection instead of ending it politely. */
void wire_abort(struct wire *w);

/* Says that nothing more will be sent; reading goes on. */
void wire_shut(struct wire *w);

/* How long to wait for anything from here on; below 0: PATIENCE_MS again. */
void wire_set_wait(struct wire *w, int wait_ms);
int wire_fd(const struct wire *w);

/* Bytes. false: the peer is gone, or did not take or send them in time. */

bool wire_send(struct wire *w, const void *data, size_t size);
bool wire_send_text(struct wire *w, const char *text);
bool wire_send_format(struct wire *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Exactly `size` bytes. */
bool wire_read(struct wire *w, void *to, size_t size);

/* Reads the available bytes, at least one; 0: the peer has ended or reset the
 * connection; -1: nothing came in time. */
long wire_read_some(struct wire *w, void *to, size_t size);

/* True if there is nothing to read, nor the end, for now. */
bool wire_is_silent(struct wire *w);

/* Reads and drops until the peer ends the connection. false: it did not. */
bool wire_is_ended(struct wire *w);

/* HTTP */

struct wire_answer {
    unsigned status;
    char head[WIRE_HEAD_MAX]; /* status line and headers, terminated */
    char *body;               /* terminated; lent until the next answer */
    size_t body_size;
};

/* Reads one answer, its body by Content-Length (none for 1xx, 204, 304 and
 * where `is_head` says that a HEAD was asked). false: none came whole. */
bool wire_answer(struct wire *w, struct wire_answer *a, bool is_head);

/* Reads only status line and headers, and leaves the body. */
bool wire_answer_head(struct wire *w, struct wire_answer *a);

/* The value of a header, name in any case, into `to` (terminated, cut to fit).
 * false: not there. */
bool wire_header(const struct wire_answer *a, const char *name, char *to,
                 size_t size);

/* Sends a request with the given header lines ("Name: value\r\n"... or NULL)
 * and body (or NULL: no Content-Length), and reads its answer. */
bool wire_request(struct wire *w, const char *method, const char *path,
                  const char *headers, const char *body, struct wire_answer *a);

/* WebSocket */

/* Asks for `path` as a WebSocket; `subprotocols` as in the header, or NULL. The
 * answer is in *a; true if it is a correct 101. */
bool wire_upgrade(struct wire *w, const char *path, const char *subprotocols,
                  struct wire_answer *a);

enum wire_opcode {
    WIRE_CONTINUATION = 0,
    WIRE_TEXT = 1,
    WIRE_BINARY = 2,
    WIRE_CLOSE = 8,
    WIRE_PING = 9,
    WIRE_PONG = 10
};

struct wire_frame {
    enum wire_opcode opcode;
    bool is_last;
    char *payload; /* terminated; lent until the next frame */
    size_t size;
};

/* Reads one frame, of any kind, and answers nothing. false: none came whole, or
 * it breaks RFC 6455 (masked, reserved bits, long control frames). */
bool wire_frame(struct wire *w, struct wire_frame *f);

/* Reads a whole text or binary message, its fragments joined into f->payload;
 * answers pings on the way. A close frame is handed over as it is. */
bool wire_message(struct wire *w, struct wire_frame *f);

/* Sends a frame, masked. */
bool wire_send_frame(struct wire *w, enum wire_opcode opcode, bool is_last,
                     const void *payload, size_t size);

/* The status code of a close frame; 1005 if it has none. */
unsigned wire_close_code(const struct wire_frame *f);

#endif

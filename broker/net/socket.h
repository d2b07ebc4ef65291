/*
 * socket.h - the bytes of one connection, of TCP, in the open or over TLS, or
 * of a unix socket, on the loop of its service thread. For this folder only.
 *
 * It uses libuv and OpenSSL, and not libwebsockets' raw role (4.1.6 and 4.3.5).
 * That role reads nothing while it keeps output back, so it misses a close
 * frame or an end, and cannot distinguish a client that has ended its sending
 * from one that has gone. Costs here and there (measured on two cores): an idle
 * connection 0.26 and 1.13 KB, a POST of 1 KB 4.5 us (reading stops until the
 * answer) and 6.8 us, a connect and its abort 16 and 32 us.
 *
 * The loop watches for room to write, and for bytes to read, only while the
 * owner asks. Each change costs a system call, so the owner avoids changes:
 * unwanted bytes are read later, and only their arrival makes the owner stop
 * the watching.
 *
 * Where bytes of TLS wait: OpenSSL reads one record at a time from the kernel,
 * head then body, and socket_read has room for a whole one. So OpenSSL only
 * holds bytes of an incomplete record, and poll notices all others.
 *
 * A write ends behind each record of 16 KB. If the socket does not take a whole
 * record, OpenSSL keeps the rest, and requires the same bytes again
 * (SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER: from any address). So a slow reader
 * costs one frame and one record, 80 KB. When idle, OpenSSL frees its buffers
 * (SSL_MODE_RELEASE_BUFFERS).
 */
#pragma once

#include <sys/types.h>
#include <uv.h>

#include "proto/problem.h"

struct socket;
struct tls;

/* The socket has room to write, or something to read: bytes, their end, or an
 * error. */
typedef void socket_ready_fn(struct socket *s, bool is_writable,
                             bool is_readable);

struct socket {
    uv_poll_t poll;
    int fd;
    uint8_t watched;           /* libuv's events that the loop watches */
    bool is_reading;           /* requested */
    bool is_writing;           /* requested */
    uint8_t read_on, write_on; /* the event after which each continues: TLS may
                                  have to write before it can read */
    bool is_tls_due;           /* TLS is expected, and nothing was read */
    bool is_plain;             /* TLS is spoken here, but not by the client */
    bool is_end_due;           /* close_notify waits for room */
    bool is_unix;              /* no TCP */
    struct ssl_st *ssl;        /* NULL: without TLS */
    uint64_t written;          /* bytes that the kernel has taken */
    socket_ready_fn *on_ready;
};

/* Takes over `fd`. `tls` NULL: without TLS, and always of a unix socket. false:
 * no memory; then the caller still owns `fd`. */
bool socket_open(struct socket *s, uv_loop_t *loop, int fd, bool is_unix,
                 struct tls *tls, socket_ready_fn *on_ready);

/* Closes the connection at once; unread or unsent bytes cause a reset. Calls
 * `closed` in the same turn of the loop, later; until then the loop uses the
 * memory. */
void socket_close(struct socket *s, uv_close_cb closed);

/* Set whether the loop watches for bytes to read, or for room. */
void socket_set_reading(struct socket *s, bool is_reading);
void socket_set_writing(struct socket *s, bool is_writing);

/* Reads up to `size` bytes (over TLS: at least 16 KB, one record). 0: none have
 * come; -1: the peer has ended its sending, or the connection has failed. */
ssize_t socket_read(struct socket *s, void *to, size_t size);

/* Sends bytes as far as there is room; returns how many. -1: the connection has
 * failed. Over TLS, unsent bytes must be the first bytes of the next write. */
ssize_t socket_write(struct socket *s, const void *data, size_t size);

/* The same with bytes of the file `fd`, which the kernel sends directly;
 * without TLS only. -2: the file could not be read, or ends before `at`. Waits
 * for the disk if the page cache lacks them. The process must ignore or block
 * SIGPIPE. */
ssize_t socket_send_file(struct socket *s, int fd, uint64_t at, size_t size);

/* Over TLS: sends close_notify, so that the peer can distinguish the end from a
 * cut. All bytes must have been written. false: there is no room yet. */
bool socket_say_end(struct socket *s);

/* Sends the end if there is room for it, and then nothing more; still reads. */
void socket_end(struct socket *s);

/* True if there are unread bytes. */
bool socket_has_unread(const struct socket *s);

/* How many bytes the peer has taken. TCP: acknowledged. Unix socket: read.
 * There the kernel counts the memory of whole writes (PIECE_MAX of socket.c).
 * So the number may be too small by the memory that the kernel holds, and may
 * even decrease. */
uint64_t socket_taken(const struct socket *s);

/* tls.c: the certificate of the listeners, and sessions of OpenSSL */

/* Reads certificate and private key (identity_read). Free it with tls_close. */
MUST_CHECK enum status tls_open(struct tls **tls, const char *cert_path,
                                const char *key_path, struct problem *why);

/* NULL is allowed. */
void tls_close(struct tls *tls);

/* Makes a session on a connected socket, which the caller keeps: the first read
 * or write begins the handshake. Any thread; then that thread's. */
struct ssl_st *tls_session(struct tls *tls, int fd);

/* Writes the SHA-256 of the certificate that the client has proved to have, 64
 * digits and NUL, and when it expires. False: none, or it has expired
 * meanwhile. */
bool tls_client_proof(const struct ssl_st *ssl, char *fingerprint,
                      int64_t *ends_us);

/*
 * socket.h - the bytes of one TCP connection, in the open or over TLS, on the
 * loop of its service thread. For this folder only.
 *
 * By libuv and OpenSSL, and not by libwebsockets' raw role (4.1.6 and 4.3.5):
 * that reads nothing while it keeps output back, so a close frame or an end is
 * not seen then, and cannot tell a client that has ended its sending from one
 * that has gone. Beside it (measured on two cores): an idle connection costs
 * 0.26 KB where it costs 1.13, a POST of 1 KB 4.5 us where reading stops until
 * the answer is there and 6.8 there, a connect and its abort 16 us, 32 there.
 *
 * The loop looks for room to write, and for bytes to read, only while the owner
 * asks. What it looks for costs a system call to change, so the owner leaves it
 * alone where it can: bytes that come while nobody wants them are read later,
 * and only their arrival makes it change its mind.
 */
#ifndef BROKER_NET_SOCKET_H
#define BROKER_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct ssl_st;
struct tls;
struct socket;

/* `is_failed`: the kernel has given up the connection. Otherwise there is room
 * to write, or something to read: bytes, or their end. */
typedef void socket_ready_fn(struct socket *s, bool is_writable,
                             bool is_readable);

struct socket {
    uv_poll_t poll;
    int fd;
    uint8_t watched;           /* libuv's events that the loop looks for */
    bool is_reading;           /* asked for */
    bool is_writing;           /* asked for */
    uint8_t read_on, write_on; /* the event in which either goes on: TLS may
                                  have to write before it can read */
    bool is_tls_due;           /* TLS is spoken here, and nothing was read */
    bool is_plain;             /* then: the client does not speak TLS */
    bool is_end_due;           /* close_notify waits for room */
    struct ssl_st *ssl;        /* NULL: in the open */
    socket_ready_fn *on_ready;
};

/* Takes over `fd`. `tls` NULL: in the open. false: no memory; then `fd` is
 * still the caller's. */
bool socket_open(struct socket *s, uv_loop_t *loop, int fd, struct tls *tls,
                 socket_ready_fn *on_ready);

/* Closes the connection: at once, where bytes are unread or unsent by a reset.
 * `closed` is called in the same turn of the loop, later; until then the memory
 * is the loop's. */
void socket_close(struct socket *s, uv_close_cb closed);

/* From now on the loop looks for bytes to read, or does not; for room. */
void socket_set_reading(struct socket *s, bool is_reading);
void socket_set_writing(struct socket *s, bool is_writing);

/* Reads up to `size` bytes (over TLS: at least 16 KB, one record). 0: none are
 * there; -1: the peer has ended its sending, or the connection has failed. */
ssize_t socket_read(struct socket *s, void *to, size_t size);

/* Sends what there is room for; returns how many bytes, -1: the connection has
 * failed. Over TLS, bytes that were not sent must come again, as the first
 * bytes of the next write. */
ssize_t socket_write(struct socket *s, const void *data, size_t size);

/* The same with bytes of the file `fd`, which the kernel sends from there; in
 * the open only. -2: the file could not be read, or has no byte there any more.
 * Waits for the disk if the page cache lacks them. The process ignores or
 * blocks SIGPIPE. */
ssize_t socket_send_file(struct socket *s, int fd, uint64_t at, size_t size);

/* Over TLS: sends close_notify, so that the peer can tell the end from a cut.
 * All must have been written. false: there is no room for it yet. */
bool socket_say_end(struct socket *s);

/* Says the end if there is room for it, and sends nothing more; still reads. */
void socket_end(struct socket *s);

/* Are there bytes that nobody has read yet? */
bool socket_has_unread(const struct socket *s);

#endif

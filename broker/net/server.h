/*
 * server.h - bytes on the wire: listeners and service threads.
 *
 * N service threads; each has its own libuv loop and its own SO_REUSEPORT
 * listener of TCP. The first thread accepts on unix sockets, too, for all
 * threads in turn. A connection lives and dies on one thread;
 * everything in request.h, response.h and stream.h is called on that thread,
 * and calls back on it. The only calls other threads may make are those that
 * say "any thread".
 */
#pragma once

#include "base/loop.h"
#include "proto/problem.h"

struct buf;

struct server;
struct service; /* one service thread */
struct request;
struct request_end;

/* The listeners of a server. */
enum listener_kind {
    LISTENER_TCP,
    LISTENER_UNIX,   /* for users of this machine that may open its file */
    LISTENER_CONTROL /* a unix socket for the operator alone. Other clients
                        cannot exhaust the limits of its connections, and the
                        end of the server does not wait for them. */
};

struct unix_socket {
    enum listener_kind kind;
    const char *path; /* its file */
    unsigned mode;    /* permissions of the file */
};

struct server_options {
    const char *host;
    unsigned port; /* 0: any free one, the same for all threads */
    unsigned threads;

    /* Further listeners; lent. They speak no TLS. */
    const struct unix_socket *unix_sockets;
    unsigned n_unix_sockets; /* up to UNIX_SOCKETS_MAX */

    /* PEM files: certificate with its chain, private key. With them all
     * connections speak TLS; both NULL: none does. */
    const char *tls_cert;
    const char *tls_key;

    /* The time limit of a TLS handshake and of the head of a request. A body,
     * and a stream or an answer with waiting bytes, must move `min_rate` bytes
     * a second, measured over each such time. */
    int64_t request_timeout_us;
    uint64_t min_rate;

    /* The clients that connections and streams count for; lent. No client has
     * more than half of the descriptors for connections. NULL: no limits. */
    struct clients *clients;

    /* Proxies: their connections count for no client, their requests for the
     * clients that they name (proto/http/forwarded.h). Lent; read at each new
     * connection (networks_latest). NULL: none. */
    const struct networks *trusted;

    /* Called once per request, after its headers: answers, or sets the
     * request's handlers (request.h). */
    void (*on_request)(struct request *rq, void *user);

    /* Called once for each request, when it has ended (struct request_end).
     * Must not block. May be NULL. */
    void (*on_end)(const struct request_end *end, void *user);

    /* Appends a page for people that shows a refusal: `problem` is its JSON,
     * `path` that of the request. For clients that prefer pages
     * (request.prefers_page); NULL, and if it fails: they get the JSON. */
    void (*write_problem)(struct buf *to, unsigned status, struct slice path,
                          struct slice problem);

    /* Called on each service thread after service_wake, and every tick_us. Both
     * may be NULL. */
    void (*on_wake)(struct service *service, void *user);
    void (*on_tick)(struct service *service, void *user);
    int64_t tick_us; /* 0: a second */

    /* Called at the end of each turn of a service thread's loop, after all of
     * its input. May be NULL. */
    void (*on_turn)(struct service *service, void *user);
    void *user;
};

#define UNIX_SOCKETS_MAX 2

/* Listens and starts the threads. `why` names the address or path that could
 * not be bound, or the file without a certificate or key. */
MUST_CHECK enum status server_open(struct server **server,
                                   const struct server_options *options,
                                   struct problem *why);

/* A certificate, its chain and its key: the identity in handshakes. */
struct identity;

/* Reads certificate (its chain behind it) and private key, both PEM. `why`
 * names the file that cannot be used. Free it with identity_free. */
MUST_CHECK enum status identity_read(struct identity **id,
                                     const char *cert_path,
                                     const char *key_path, struct problem *why);
void identity_free(struct identity *id); /* NULL is allowed */

/* Takes over `id`; from now on a server that speaks TLS shows it in new
 * handshakes; connections and session tickets continue. False: it equals the
 * one before. The thread that opened. */
bool server_show(struct server *server, struct identity *id);

/* From now on a server that speaks TLS asks clients for certificates of these
 * authorities (base/certificates.h), which it takes over; NULL: for none. See
 * request_certificate. A ticket of a session with others resumes nothing.
 * False: they equal those before. The thread that opened.
 */
struct stack_st_X509;
bool server_trust(struct server *server, struct stack_st_X509 *authorities);

/* The port of the listeners. */
unsigned server_port(const struct server *server);

/* Checks that the address can be listened on, and that there are enough
 * descriptors, as far as is known now. Call it before anything else is done for
 * a server; server_open checks again. */
MUST_CHECK enum status server_check(const struct server_options *options,
                                    struct problem *why);

/* Checks that the path can be listened on now. Changes nothing. `why` names it.
 */
MUST_CHECK enum status server_check_unix(const struct unix_socket *socket,
                                         struct problem *why);

/* Stops accepting; answers requests on kept connections by 503, and closes
 * these. The owner of open streams closes them by stream_close(1001, "...").
 * Any thread. */
void server_stop_accepting(struct server *server);

/* Waits until all requests are answered and all bytes are sent, at most
 * `wait_us`; then cuts the rest, ends the threads and frees the server. No
 * other thread may open files by then (server.c, "The end"). NULL is
 * allowed. */
void server_close(struct server *server, int64_t wait_us);

/* Service threads */

/* The service thread of a number, from 0 to server_options.threads - 1, and the
 * number of a thread. */
struct service *server_service(struct server *server, unsigned n);
unsigned service_number(const struct service *service);

/* The service thread that has been silent for the longest time (thread.h). The
 * thread that opened. */
const struct thread *server_most_silent(const struct server *server);

/* Makes on_wake run soon on that thread. Any thread; several calls may cause
 * one on_wake, but none is lost: an on_wake after the call sees everything that
 * was done before it. */
void service_wake(struct service *service);

/* The same, about `wait_us` (up to a second) from now, rounded up to
 * milliseconds; of several calls the earliest counts. Called on that thread. */
void service_wake_later(struct service *service, int64_t wait_us);

/* Runs task->run on that thread. Any thread; in order per posting thread. At
 * the end of the server posted tasks still run, before the threads are
 * joined. */
void service_post(struct service *service, struct task *task);

/* Runs job->work on the worker pool, then job->done on the service thread.
 * Called on that service thread. Always calls `done`. */
void service_work(struct service *service, struct job *job);

/*
 * server.h - bytes on the wire: listeners and service threads.
 *
 * N service threads; each has its own libuv loop and its own SO_REUSEPORT
 * listener. A connection lives and dies on the thread that accepted it;
 * everything in request.h, response.h and stream.h is called on that thread,
 * and calls back on it. The only calls other threads may make are those that
 * say "any thread".
 */
#ifndef BROKER_NET_SERVER_H
#define BROKER_NET_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/problem.h"
#include "proto/status.h"

struct clients;
struct networks;
struct server;
struct service; /* one service thread */
struct request;

struct server_options {
    const char *host;
    unsigned port; /* 0: any free one, the same for all threads */
    unsigned threads;

    /* PEM files: certificate with its chain, private key. With them all
     * connections speak TLS; both NULL: none does. */
    const char *tls_cert;
    const char *tls_key;

    /* A TLS handshake and the head of a request have to be here by then. A
     * body, and a stream or an answer for which bytes wait, have to move
     * `min_rate` bytes a second, looked at over each such time. */
    int64_t request_timeout_us;
    uint64_t min_rate;

    /* Whom connections and streams count for; lent. No client has more than
     * half of the descriptors that connections may have. NULL: no limits. */
    struct clients *clients;

    /* Proxies: their connections count for nobody, their requests for the
     * clients that they name (proto/forwarded.h). Lent; looked at with each new
     * connection (networks_latest). NULL: none. */
    const struct networks *trusted;

    /* Called once per request, when its headers are there: decides, and either
     * answers or sets the request's handlers (request.h). */
    void (*on_request)(struct request *rq, void *user);

    /* Called on each service thread after it was woken by service_wake, and
     * every tick_us. Both may be NULL. */
    void (*on_wake)(struct service *service, void *user);
    void (*on_tick)(struct service *service, void *user);
    int64_t tick_us; /* 0: a second */

    /* Called at the end of each turn of a service thread's loop, when all that
     * came in has been looked at. May be NULL. */
    void (*on_turn)(struct service *service, void *user);
    void *user;
};

/* Listens and starts the threads. `why` says what could not be bound, or which
 * file has no certificate or key. */
MUST_CHECK enum status server_open(struct server **server,
                                   const struct server_options *options,
                                   struct problem *why);

/* A certificate, its chain and its key: what a handshake shows to the client.
 */
struct identity;

/* Reads certificate (its chain behind it) and private key, both PEM. `why`
 * names the file that cannot be used. Freed by identity_free. */
MUST_CHECK enum status identity_read(struct identity **id,
                                     const char *cert_path,
                                     const char *key_path, struct problem *why);
void identity_free(struct identity *id); /* NULL is allowed */

/* Takes `id`, which a server that speaks TLS shows from now on to those who
 * connect. False: it is the same as the one before. The thread that opened. */
bool server_show(struct server *server, struct identity *id);

/* The port that is listened on. */
unsigned server_port(const struct server *server);

/* Can this address be listened on, and are there descriptors enough, as far as
 * can be known now? Asked before anything else is done for a server:
 * server_open looks again. */
MUST_CHECK enum status server_check(const struct server_options *options,
                                    struct problem *why);

/* Stops accepting; requests that come on kept connections are answered 503 and
 * their connections closed. Open streams get stream_close(1001, "...") by the
 * owner of the streams, not here. Any thread. */
void server_stop_accepting(struct server *server);

/* Waits until all requests are answered and all bytes are sent, at most
 * `wait_us`; then cuts what is left, ends the threads and frees the server.
 * Nobody else in the process opens files by then (service.c, "The end"). NULL
 * is allowed. */
void server_close(struct server *server, int64_t wait_us);

/* Service threads */

unsigned server_threads(const struct server *server);
struct service *server_service(struct server *server, unsigned n);

/* A number from 0 to server_threads() - 1. */
unsigned service_number(const struct service *service);

/* Makes on_wake run soon on that thread. Any thread; calls are merged; none is
 * lost: what was done before the call is seen by an on_wake after it. */
void service_wake(struct service *service);

/* The same, about `wait_us` (up to a second) from now, rounded up to
 * milliseconds; of several calls the one that is due first counts. Called on
 * that thread. */
void service_wake_later(struct service *service, int64_t wait_us);

/* A thing to be done on a service thread; lives inside its owner's struct. */
struct task {
    struct list node;
    void (*run)(struct task *task);
};

/* Runs task->run on that thread. Any thread; in order per caller. When the
 * server ends, what was posted still runs, before the threads are joined. */
void service_post(struct service *service, struct task *task);

/* A thing that may block: `work` runs on the worker pool, then `done` on the
 * service thread. Called on that service thread. Always comes to `done`. */
struct job {
    void (*work)(struct job *job);
    void (*done)(struct job *job);
};

void service_work(struct service *service, struct job *job);

#endif

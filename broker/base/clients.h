/*
 * clients.h - the clients of limits, and how much each holds at the moment.
 *
 * A client is an address: of IPv4 the address itself, of IPv6 its first 64
 * bits, for whoever has one has all of those (RFC 4291 section 2.5.4). The hub
 * is one client, too. A client is in the table only while somebody refers to
 * it, so connections, posts and filters bound the table.
 *
 * Of each kind of thing there is a limit for one client, and of some kinds one
 * for all clients together. Where many share a limit, no client may have more
 * than the share (--client-share, a quarter): the others find room while one
 * takes all that it can get. One holder alone may have more than that, up to
 * the limit of all: a post of --max-body must be possible.
 *
 *     client_of --> clients_take ... clients_give --> client_unref
 *
 * or, for a holder that grows,
 *
 *     holding_init --> holding_add ... --> holding_end
 *
 * A refusal is counted (tidings_client_refusals_total), and logged once a
 * minute for a client.
 *
 * Any thread; a holding is used by one thread at a time.
 */
#ifndef BROKER_BASE_CLIENTS_H
#define BROKER_BASE_CLIENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/problem.h"
#include "proto/status.h"

/* Kinds of things that clients hold. In the order of LABEL_LIMIT (metrics.c).
 */
enum client_kind {
    CLIENT_CONNECTIONS, /* --client-connections */
    CLIENT_HALF_HEADS,  /* of them, those whose first request has not come
                           whole, TLS handshakes included, and those that have
                           begun another: --client-half-heads */
    CLIENT_STREAMS,     /* of them, the streams: --client-streams */
    CLIENT_POSTS,       /* bytes of memory for posts; of all: --ingest-bytes */
    CLIENT_DISK,    /* bytes on the disk of posts that wait for their commit,
                       and of uploads; of all: the room on the disk */
    CLIENT_ANSWERS, /* bytes of pages of change memory on their way */
    CLIENT_FILTERS, /* filter classes (sets/filters.h) */
    CLIENT_UPLOADS, /* uploads of all resources of a set
                       (archive/uploads.h) */
    CLIENT_KINDS
};

#define CLIENT_NO_LIMIT ((uint64_t)INT64_MAX)

struct client;

/* What a client is known by. The zeros behind an address count. */
struct client_key {
    enum { CLIENT_IS_ADDRESS, CLIENT_IS_HUB } kind;

    unsigned char address[16]; /* IPv4 as mapped IPv6; of IPv6 the first half */
};

struct clients {
    pthread_mutex_t mutex; /* guards tree */
    void *tree;            /* of tsearch: whatever addresses somebody chooses,
                              the way to one is short */
    unsigned share;        /* percent */

    /* Relaxed: sums and limits; they order nothing. */
    _Atomic(uint64_t) each[CLIENT_KINDS];
    _Atomic(uint64_t) all[CLIENT_KINDS];
    _Atomic(uint64_t) held[CLIENT_KINDS];
};

/* Without limits. `share`: percent of a limit of all. */
void clients_init(struct clients *clients, unsigned share);
void clients_fini(struct clients *clients); /* nobody refers to a client */

/* One client may hold at most so many. */
void clients_limit_each(struct clients *clients, enum client_kind kind,
                        uint64_t most);

/* All together may hold at most so many; a client has its share of that. */
void clients_limit_all(struct clients *clients, enum client_kind kind,
                       uint64_t most);
uint64_t clients_limit_of_each(const struct clients *clients,
                               enum client_kind kind);
uint64_t clients_limit_of_all(const struct clients *clients,
                              enum client_kind kind);

/* What all together hold. */
uint64_t clients_held(const struct clients *clients, enum client_kind kind);

/* True if so much could be taken now, whoever the client is. */
bool clients_have_room(const struct clients *clients, enum client_kind kind,
                       uint64_t n);

/* Clients */

/* The caller owns one reference. NULL: no memory, or no address of IP; limits
 * of one client do not concern NULL then. */
struct client *client_of(struct clients *clients, const struct client_key *key);
struct client *client_at(struct clients *clients,
                         const struct sockaddr *address);
struct client *client_ref(struct client *client); /* NULL is allowed */
void client_unref(struct client *client);         /* NULL is allowed */

/* How much it holds; NULL: nothing. */
uint64_t client_held(const struct client *client, enum client_kind kind);

/* "192.0.2.1", "2001:db8::", "hub"; "" for NULL. */
#define CLIENT_NAME_SIZE 64
void client_name(const struct client *client, char to[CLIENT_NAME_SIZE]);

/* Takes `n` for `client`, or for nobody in particular (NULL). STATUS_LIMITED:
 * the client has its share; STATUS_BUSY: all together have too much. Then
 * nothing was taken. */
MUST_CHECK enum status clients_take(struct clients *clients,
                                    struct client *client,
                                    enum client_kind kind, uint64_t n,
                                    struct problem *why);
void clients_give(struct clients *clients, struct client *client,
                  enum client_kind kind, uint64_t n);

/* Holdings */

/* What one holder has of a kind. Zeroed: nothing, to be ended or not. */
struct holding {
    struct clients *clients;
    struct client *client; /* owns one reference */
    enum client_kind kind;
    uint64_t n;
};

void holding_init(struct holding *holding, struct clients *clients,
                  struct client *client, enum client_kind kind);

/* As clients_take. _try says and counts nothing of a refusal. */
MUST_CHECK enum status holding_add(struct holding *holding, uint64_t n,
                                   struct problem *why);
MUST_CHECK bool holding_try(struct holding *holding, uint64_t n);

/* Gives some of it back; all of it, and the client. What a request holds goes
 * back before its answer: the client may send the next request as soon as it
 * has read that, to another thread, and must find room. Harmless if nothing is
 * held. */
void holding_release(struct holding *holding, uint64_t n);
void holding_end(struct holding *holding);

#endif

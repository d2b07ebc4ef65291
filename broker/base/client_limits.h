/*
 * client_limits.h - the clients of limits, and the amounts that each holds.
 *
 * A client is an address: of IPv4 the address itself, of IPv6 its first 64
 * bits, because the owner of one address has all with these bits (RFC 4291
 * section 2.5.4). On a unix socket, a client is a user of this machine. The hub
 * is one client, too. A request with a token counts for the owner of the token
 * instead, wherever it comes from; only connections and half heads still count
 * for the address. A client is in the table only while it has references, so
 * connections, posts and filters bound the table.
 *
 * Each kind of thing has a limit for one client, and some kinds have one for
 * all clients together. Of a common limit no client may have more than its
 * share (--client-share, a quarter): the others find room while one client
 * takes all that it can get. A single holder may have more than the share, up
 * to the common limit: a post of --max-body must be possible.
 *
 *     client_of --> clients_take ... clients_give --> client_unref
 *
 * or, for a holder that grows,
 *
 *     holding_init --> holding_add ... --> holding_end
 *
 * Each refusal counts (tidings_client_refusals_total). The log has one a minute
 * for a client.
 *
 * Any thread; a holding is used by one thread at a time.
 */
#pragma once

#include <pthread.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/relaxed.h"
#include "proto/problem.h"

/* Every table, memory and queue with a bound that clients fill, and the texts
 * of its refusals. A new one gets a row: from here come the kinds, LABEL_LIMIT
 * (metrics.c), the table of doc/security.md (clients_table_print), and the test
 * that exhausts each row (e2e/owner_limits).
 *
 *   kind, label    of the metric and the log
 *   what           it counts
 *   each, all      the limits of one client and of all together; "share" is
 *                  --client-share of the second
 *   limited, unit  the refusal for one client, around its limit
 *   busy           the refusal for all clients together
 *
 * These have bounds and no row. The tail (--tail-bytes) and the compressed
 * messages are caches: a full one costs time and refuses nobody. The attempts
 * of subscriptions (broker/hub/attempt_log.h) displace older ones. Tokens,
 * relays, bridges and settings belong to administrators. A new connection that
 * finds no descriptor displaces an idle one. Unfiled lists (--unfiled-bytes)
 * slow all posts down alike, for a moment; the bytes of one client's posts have
 * their rate. */
#define CLIENT_ROWS(ROW)                                                       \
    ROW(CONNECTIONS, "connections", "connections of an address",               \
        "`--client-connections`, half of the descriptors",                     \
        "nine tenths of the descriptors",                                      \
        "has as many connections as one client may have", "",                  \
        "there are too many connections")                                      \
    ROW(HALF_HEADS, "half-heads",                                              \
        "of them, those whose request is not complete; TLS handshakes, too",   \
        "`--client-half-heads`", "the connections",                            \
        "has as many unfinished requests as one client may have", "",          \
        "too many requests are unfinished")                                    \
    ROW(STREAMS, "streams", "streams", "`--client-streams`",                   \
        "the connections", "has as many streams as one client may have", "",   \
        "there are too many streams")                                          \
    ROW(POSTS, "posts", "bytes of memory for posts", "share",                  \
        "`--ingest-bytes`", "posts as much at a time as one client may post",  \
        " bytes of memory", "too much is being posted at the moment")          \
    ROW(DISK, "disk",                                                          \
        "bytes on the disk of posts that wait for their commit, and of "       \
        "uploads",                                                             \
        "share", "the room on the disk",                                       \
        "has as much on its way to the disk as one client may have", " bytes", \
        "the disk has no room for it")                                         \
    ROW(ANSWERS, "answers", "bytes of pages of change memory on their way",    \
        "share", "128 MB", "reads as much at a time as one client may read",   \
        " bytes of memory", "too much is being read at the moment")            \
    ROW(EFFORTS, "efforts",                                                    \
        "requests of long work, at work or waiting for their turn", "share",   \
        "256", "has as many requests of long work as one client may have", "", \
        "too many requests of long work wait for their turn")                  \
    ROW(FILTERS, "filters", "different filters of streams", "share", "2,048",  \
        "reads with as many filters as one client may have (try again later, " \
        "or pull)",                                                            \
        "",                                                                    \
        "all clients together use as many filters as there is room for: try "  \
        "again later, or pull")                                                \
    ROW(UPLOADS, "uploads", "uploads of all resources of a set", "share",      \
        "16",                                                                  \
        "puts the resources of as many sets as one client may at a time", "",  \
        "requests put the resources of too many sets at a time")               \
    ROW(SETS, "sets", "sets that the client has created", "`--client-sets`",   \
        "50,000",                                                              \
        "has created as many sets as one client may have (delete one to make " \
        "room)",                                                               \
        "", "there are too many sets")                                         \
    ROW(SET_NAMES, "set-names",                                                \
        "names of sets that it has created, of deleted ones, too", "share",    \
        "200,000",                                                             \
        "has created sets of as many names as one client may, and removed "    \
        "ones count",                                                          \
        "", "the broker remembers too many names of sets")                     \
    ROW(KEYS, "keys", "`Idempotency-Key`s of a day or two", "`--client-keys`", \
        "the disk",                                                            \
        "has posted with as many Idempotency-Keys as one client may in a day " \
        "or two",                                                              \
        "", "the broker remembers too many Idempotency-Keys")                  \
    ROW(TICKETS, "tickets", "tickets that wait for their use", "1,000, share", \
        "10,000", "has as many tickets as one client may have", "",            \
        "there are too many tickets")                                          \
    ROW(SESSIONS, "sessions",                                                  \
        "sessions of browsers; the next one replaces the client's oldest",     \
        "100, share", "10,000", "has as many sessions as one client may have", \
        "", "there are too many sessions")                                     \
    ROW(USED_TICKETS, "used-tickets",                                          \
        "in a cluster, tickets that were used in the last two minutes",        \
        "share", "100,000",                                                    \
        "uses as many tickets as one client may in two minutes", "",           \
        "too many tickets are used at the moment")                             \
    ROW(KEPT, "kept-bytes",                                                    \
        "bytes that the broker keeps of the sets that the client has created", \
        "`--client-kept-bytes`, or all but one share", "the disk",             \
        "has created sets that keep as much as one client may "                \
        "(--client-kept-bytes)",                                               \
        " bytes", "the disk has no room")                                      \
    ROW(KERNEL, "kernel-bytes",                                                \
        "bytes sent that the client has not taken yet", "share", "1 GB",       \
        "leaves as many sent bytes unread as one client may", " bytes",        \
        "clients leave too many sent bytes unread")                            \
    ROW(FOLLOWED, "followed", "sets of its streams of many sets",              \
        "`--client-followed`", "the streams",                                  \
        "follows as many sets on streams of many sets as one client may "      \
        "(--client-followed)",                                                 \
        "", "streams of many sets follow too many sets")                       \
    ROW(SUBSCRIPTIONS, "subscriptions", "subscriptions of the hub", "share",   \
        "`--hub-subscriptions`",                                               \
        "has as many subscriptions as one client may have", "",                \
        "there are as many subscriptions as there may be "                     \
        "(--hub-subscriptions)")                                               \
    ROW(VERIFICATIONS, "verifications",                                        \
        "requests at the hub that wait for their verification", "1,000",       \
        "10,000",                                                              \
        "has as many requests that wait for their verification as one client " \
        "may have (try again later)",                                          \
        "", "too many requests wait for their verification: try again later")  \
    ROW(DENIALS, "denials", "denials of the hub on their way",                 \
        "seven eighths of what is free", "10,000",                             \
        "has as many denials on their way as one client may have", "",         \
        "too many denials are on their way")                                   \
    ROW(BODIES, "bodies",                                                      \
        "bytes of bodies of deliveries on their way; the next ones wait",      \
        "seven eighths of what is free", "`--hub-body-bytes`", "", "", "")

#define CLIENT_KIND(kind, ...) CLIENT_##kind,

enum client_kind { CLIENT_ROWS(CLIENT_KIND) CLIENT_KINDS };

#undef CLIENT_KIND

/* The rates of clients, behind the kinds in LABEL_LIMIT. */
enum client_rate {
    CLIENT_POST_RATE, /* posts a second: --client-post-rate */
    CLIENT_BYTE_RATE, /* bytes of their bodies a second: --client-byte-rate */
    CLIENT_RATES
};

/* A client may use up a rate of so many seconds at once. */
#define CLIENT_BURST_S 10

#define CLIENT_NO_LIMIT ((uint64_t)INT64_MAX)

/* Bytes of a stored client: its kind and the bytes of its key. */
#define CLIENT_STORED_SIZE 17

struct client;

/* The key of a client. The zeros behind an address count. Data directories have
 * the numbers of the kinds: none ever changes. */
struct client_key {
    enum {
        CLIENT_IS_ADDRESS,
        CLIENT_IS_USER,
        CLIENT_IS_HUB,
        CLIENT_IS_OWNER
    } kind;

    unsigned char address[16]; /* IPv4 as mapped IPv6; the first half of IPv6;
                                  of a user, the bytes of the uid_t; of an
                                  owner, a digest of the name */
};

struct clients {
    pthread_mutex_t mutex; /* guards tree and charged */
    struct list charged;   /* clients whose rate is in use */
    void *tree;            /* of tsearch: the way to a client is short,
                              whichever addresses an attacker chooses */
    unsigned share;        /* percent */

    /* Relaxed: sums and limits; they order nothing. */
    _Atomic(uint64_t) each[CLIENT_KINDS];
    _Atomic(uint64_t) all[CLIENT_KINDS];
    _Atomic(uint64_t) held[CLIENT_KINDS];
    _Atomic(uint64_t) rates[CLIENT_RATES]; /* a second; 0: no limit */
};

/* Prints the rows as a table of Markdown. */
void clients_table_print(FILE *to);

/* Begins without limits. `share`: percent of a common limit. */
void clients_init(struct clients *clients, unsigned share);
void clients_fini(struct clients *clients); /* no client may have references */

/* Sets the most that one client may hold. */
void clients_limit_each(struct clients *clients, enum client_kind kind,
                        uint64_t most);

/* Sets the most that all clients may hold together; a client has its share of
 * that. */
void clients_limit_all(struct clients *clients, enum client_kind kind,
                       uint64_t most);

uint64_t clients_limit_of_each(const struct clients *clients,
                               enum client_kind kind);

/* Sets how much a client may use in a second; 0: no limit. */
void clients_limit_rate(struct clients *clients, enum client_rate rate,
                        uint64_t a_second);

/* The amount that all clients hold together. */
uint64_t clients_held(const struct clients *clients, enum client_kind kind);

/* True if any client could take so much now. */
bool clients_have_room(const struct clients *clients, enum client_kind kind,
                       uint64_t n);

/* Clients */

/* Finds or makes a client; the caller owns one reference. client_at returns
 * NULL if it is no IP address; limits of one client do not apply to NULL. */
struct client *client_of(struct clients *clients, const struct client_key *key);
struct client *client_at(struct clients *clients,
                         const struct sockaddr *address);
struct client *client_of_user(struct clients *clients, uid_t uid);
struct client *client_of_owner(struct clients *clients, struct slice name);

/* The client that client_name calls so, unless it is an owner. Of any other
 * name it is the hub. */
struct client *client_named(struct clients *clients, const char *name);

/* The hub as a client. */
struct client *client_of_hub(struct clients *clients);
struct client *client_ref(struct client *client); /* NULL is allowed */
struct clients *clients_of(const struct client *client);
void client_unref(struct client *client); /* NULL is allowed */

/* Turns: of what waits, the next one of each client in turn. Not safe for
 * several threads. Kinds: those of broker/archive/chore.h, then
 * broker/base/effort.h. */
#define CLIENT_QUEUES       8
#define CLIENT_QUEUE_EFFORT 7

struct client_queue {
    struct list node; /* among those of other clients; zero at first */
    struct list waiting;
};

struct client_turns {
    unsigned kind;
    struct list clients;        /* the queues in which something waits */
    struct client_queue nobody; /* what no client waits for */
};

void client_turns_init(struct client_turns *turns, unsigned kind);

/* Lets `node` wait for a client that lives as long, or for nobody (NULL).
 * Nothing happens if it waits already; a node that is zero does not. */
void client_turns_add(struct client_turns *turns, struct client *client,
                      struct list *node);

/* Lets `node` wait no more. False: it did not. */
bool client_turns_drop(struct client_turns *turns, struct client *client,
                       struct list *node);

/* The next one, which waits no more. NULL: there is none. */
struct list *client_turns_next(struct client_turns *turns);

/* Writes the key of a client into `to`, for the store, and returns it; an empty
 * slice for NULL. client_of_stored finds or makes that client, as client_of;
 * NULL for an empty slice. */
struct slice client_store(const struct client *client,
                          char to[CLIENT_STORED_SIZE]);
struct client *client_of_stored(struct clients *clients, struct slice stored);

/* The amount that a client holds; NULL: 0. */
uint64_t client_held(const struct client *client, enum client_kind kind);

/* "192.0.2.1", "2001:db8::", "uid 33", "hub", "token press"; "" for
 * NULL. */
#define CLIENT_NAME_SIZE 64
void client_name(const struct client *client, char to[CLIENT_NAME_SIZE]);

/* True if a client that holds `own` may take one more, which leaves `left` to
 * all others: at most seven times what it leaves. So one client alone has seven
 * eighths, two have 7/15 each, and of a thousand, a hundred that take all that
 * they can get leave something for the next one. (This is the dynamic threshold
 * of switches with shared memory: Choudhury and Hahne, 1998.) */
static inline bool
client_leaves_room(uint64_t own, uint64_t left)
{
    return own == 0 || own + 1 <= 7 * left;
}

/* Takes `n` for `client`, or for no client (NULL). STATUS_LIMITED: the client
 * has its share; STATUS_BUSY: all together have too much. After an error
 * nothing was taken. */
MUST_CHECK enum status clients_take(struct clients *clients,
                                    struct client *client,
                                    enum client_kind kind, uint64_t n,
                                    struct problem *why);
void clients_give(struct clients *clients, struct client *client,
                  enum client_kind kind, uint64_t n);

/* Takes `n` that no limit refuses. */
void clients_add(struct clients *clients, struct client *client,
                 enum client_kind kind, uint64_t n);

/* Fails as clients_take would, and takes nothing. A single holder may not have
 * more than the share. */
MUST_CHECK enum status clients_check(struct clients *clients,
                                     struct client *client,
                                     enum client_kind kind, uint64_t n,
                                     struct problem *why);

/* Rates
 *
 * A client that has used nothing for CLIENT_BURST_S may use so many seconds of
 * its rate at once. It waits for the rest: so the broker never cuts a post
 * that has begun, and the next post pays for its bytes. (This is
 * the generic cell rate algorithm: one time for each rate, at which all is
 * paid.) */

struct client_charge {
    enum client_rate rate;
    uint64_t a_second; /* the limit */
    int64_t wait_us;   /* until the client may try again */
};

/* STATUS_LIMITED, and *charge: `client` has used up a rate. NULL: never. */
MUST_CHECK enum status clients_check_rates(struct clients *clients,
                                           struct client *client,
                                           struct client_charge *charge,
                                           struct problem *why);

/* Uses `n` of a rate. */
void clients_charge(struct clients *clients, struct client *client,
                    enum client_rate rate, uint64_t n);

/* Forgets clients that have paid everything. Once a second. */
void clients_settle(struct clients *clients);

/* Holdings */

/* The amount of a kind that one holder has. Zeroed memory is an empty holding;
 * it need not be ended. */
struct holding {
    struct clients *clients;
    struct client *client; /* owned reference */
    enum client_kind kind;
    uint64_t n;
};

void holding_init(struct holding *holding, struct clients *clients,
                  struct client *client, enum client_kind kind);

/* The same with a holding of `n`, which no limit refuses. */
void holding_restore(struct holding *holding, struct clients *clients,
                     struct client *client, enum client_kind kind, uint64_t n);

/* As clients_take. _try writes no message, and does not count a refusal. */
MUST_CHECK enum status holding_add(struct holding *holding, uint64_t n,
                                   struct problem *why);
MUST_CHECK bool holding_try(struct holding *holding, uint64_t n);

/* Makes `*held`, a part of the holding, at least `size`: then adds `step`
 * more, so that not each growth is an addition. */
MUST_CHECK static inline enum status
holding_cover(struct holding *h, size_t *held, size_t size, size_t step,
              struct problem *why)
{
    enum status rc = STATUS_OK;

    if (size <= *held)
        return rc;
    size += step;
    rc = holding_add(h, size - *held, why);
    if (!rc)
        *held = size;
    return rc;
}

/* Give back some of it; or all of it, and the client. A request gives its
 * holdings back before its answer: after the answer the client may send the
 * next request at once, to another thread, and must find room. Allowed if
 * nothing is held. */
void holding_release(struct holding *holding, uint64_t n);
void holding_end(struct holding *holding);

/*
 * shared_stream.h - one live connection for all sets of a source.
 *
 *     followers --> live_start --> join --+
 *        ^                                +--> one WebSocket, or else one
 *        +------ live_message, live_end --+    stream of server-sent events
 *
 * A broker that offers the link "urn:tidings:1:streams" sends the changes of
 * any number of sets over one connection. To a follower this is the transport
 * LIVE_SHARED: it joins with its place when its live phase begins, and gets the
 * messages of its set. A follower that fills a gap leaves, and joins again
 * behind the gap.
 *
 * The end of a set ends the part of its follower alone. If the connection ends,
 * no follower notices: after one pause the next connection continues each set
 * at its follower's place. If no transport can carry the shared connection, all
 * parts end with LIVE_AGAIN, and shared_stream_takes is false for a while: the
 * followers then open their own connections.
 *
 * What a broker can do: a message is as long as in live_connection.h; one of a
 * set that nobody asked for ends the connection; one of a set that has left is
 * dropped. Each set that ever joined takes some 200 bytes, and at most
 * SHARED_STREAM_SETS_MAX join. One thread.
 */
#pragma once

#include "client/follow/follow_options.h"
#include "client/lib/client.h"

/* More than a source has (DISCOVERY_SETS_MAX), because a set may change its
 * name. */
#define SHARED_STREAM_SETS_MAX 20000

struct shared_stream;

/* A follower's part of the connection. Its owner keeps it while the part is
 * joined. */
struct shared_part {
    struct shared_stream *stream;
    size_t number;   /* for on_joined */
    const char *set; /* the set's name */
    /* Appends the place to begin at: ,"after":"POSITION" or
     * ,"since":"DATETIME". `user`: live_start's. */
    void (*write_place)(struct buf *to, void *user);
};

struct shared_stream_events {
    /* Set `number` has joined the connection, or has left it. */
    void (*on_joined)(size_t number, bool is_joined, void *user);

    /* There is no connection, because of `why`; the next attempt is in
     * `pause_ms`. 0: another transport follows at once. */
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
};

/* For shared_stream.c alone; a member of its owner's struct, which must not
 * move. */
struct shared_stream {
    struct td_client *client;
    struct shared_stream_events events;
    void *user;
    char filters[FILTER_TEXT_MAX + 2];
    bool has_own_idle; /* the caller's idle_ms */
    unsigned idle_ms;

    char *url; /* NULL: no set has joined yet */
    struct map by_name;
    struct shared_set **sets;
    size_t n_sets, capacity;
    size_t n_parts; /* sets that are joined */

    struct transport_choice choice; /* for many sets at once */
    unsigned open;                  /* transports that the caller allows */
    unsigned transport;             /* of `live` */
    struct live *live;              /* NULL: none */
    uint64_t n_connections;
    bool was_heard;     /* a message ever came */
    unsigned n_heard;   /* messages of this connection */
    unsigned n_refused; /* WebSockets without a message, or 429, in a row */
    unsigned pause_ms;
    int64_t heartbeat_ms; /* when the sets got their last heartbeats */
    struct buf body;      /* of the request for events */
    struct timer work; /* in a pause, or while something is pending: connects,
                             or sends that */
};

/* Copies what it needs of `how`: transports (0: none), idle_ms; and
 * `filters`, as in follow_options.h. Calls nothing before it returns. */
void shared_stream_init(struct shared_stream *s, struct td_client *client,
                        const struct td_follow_options *how,
                        const char *filters,
                        const struct shared_stream_events *events, void *user);

/* Free its followers before. Not from a callback. All zero is allowed. */
void shared_stream_fini(struct shared_stream *s);

/* True if `set` may join: `url` is the connection's (the first set decides
 * which), and some transport is not unfit. */
bool shared_stream_takes(struct shared_stream *s, const char *url,
                         const char *set);

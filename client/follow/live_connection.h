/*
 * live_connection.h - one live connection to a set, over any transport.
 *
 *     live_start --> on_message ... --> on_end
 *          +-------> live_free           at any moment: no further callback
 *
 *     TD_WEBSOCKET   websocket.c    the stream's URL, libwebsockets
 *     TD_EVENTS      eventsource.c  server-sent events
 *     TD_LONG_POLL   longpoll.c     the change memory with wait=: one answer,
 *                                   then LIVE_AGAIN
 *     LIVE_SHARED    shared_stream.c  a part of one connection for many sets
 *
 * The follower decides which one to try next and when, and judges messages.
 */
#pragma once

#include "client/lib/client.h"

struct shared_part;

/* A part of a connection that carries many sets: beside those of
 * tidings_follow.h. */
#define LIVE_SHARED ((enum td_transport)0x100)

/* Longest message: brokers send at most 1 MiB by default. */
#define LIVE_MESSAGE_MAX (16 * 1024 * 1024)

/* How it ended, and why->rc. */
enum live_how {
    LIVE_AGAIN,   /* OK: a long poll was answered, or the part of a shared
                     connection is over: start the next */
    LIVE_ENOUGH,  /* OK: on_message returned false */
    LIVE_REFUSED, /* an answer other than a stream: fetch_meaning of its
                     status; why->http_status, why->text */
    LIVE_UNFIT,   /* UNREACHABLE: a proxy does not seem to carry this transport;
                     another may work. A broker that ends at that moment looks
                     the same */
    LIVE_CLOSED,  /* UNREACHABLE: the broker's farewell: close code `code`;
                     4401: the token has ended; 4410: gone; 4404: the set was
                     removed */
    LIVE_LOST,    /* UNREACHABLE: failed, broke, or fell silent */
    LIVE_BROKEN,  /* MALFORMED: the broker sent no valid message */
    LIVE_MEMORY   /* MEMORY */
};

/* Close codes of a WebSocket (RFC 6455 section 7.4; ours). */
enum close_code {
    CLOSE_GOING_AWAY = 1001,
    CLOSE_UNSUPPORTED = 1003,
    CLOSE_BAD_TEXT = 1007,
    CLOSE_POLICY = 1008,
    CLOSE_FAILED = 1011,
    CLOSE_DENIED = 4401, /* the token has ended or was revoked */
    CLOSE_REMOVED = 4404,
    CLOSE_GONE = 4410
};

/* Milliseconds of silence that end a connection, until a heartbeat states the
 * broker's interval ... */
#define LIVE_IDLE_DEFAULT 60000

/* ... and then three intervals, within bounds: a broker's heartbeats are at
 * most an hour apart. */
static inline unsigned
live_idle_ms(uint64_t heartbeat_ms)
{
    if (heartbeat_ms > 3600000)
        return 3 * 3600000;
    return heartbeat_ms < 334 ? 1000 : (unsigned)heartbeat_ms * 3;
}

struct live_end {
    enum live_how how;
    unsigned code;      /* LIVE_CLOSED: RFC 6455 section 7.4; 0: none */
    bool has_new_token; /* the broker refused the token, and tokens.h has
                           another one now: start again */
    struct problem why;
};

struct live_request {
    enum td_transport transport;
    const char *url; /* http or https, with the query. A long poll adds wait= */
    const unsigned *idle_ms; /* silence that ends it; read anew each time */
    unsigned wait_s;         /* of a long poll; 0: as idle_ms says */
    bool is_at_once;         /* a long poll does not wait */
    unsigned answer_ms;      /* until the server answers; 0: 20,000 */

    /* TD_EVENTS: the JSON body of a POST, whose answer may end single sets
     * ("event: end"); its bytes stay until the end. No data: a GET. */
    struct slice body;
    void (*on_open)(void *user); /* the server has accepted; NULL is allowed */
    const struct shared_part *shared; /* LIVE_SHARED */
    char *after_digest; /* gets that of a long poll's answer, or "" */
};

/* Gets a whole message; of LIVE_SHARED no bytes, for a heartbeat. It may change
 * the bytes, which stay until it returns, also if it calls live_free. False
 * ends the connection: LIVE_ENOUGH. Not called while live_hold holds
 * it. */
typedef bool live_message_fn(char *bytes, size_t size, void *user);
typedef void live_end_fn(const struct live_end *end, void *user);

struct live;

/* Copies `request->url`. NULL: no memory. Calls nothing before it returns. The
 * connection frees itself before on_end. */
struct live *live_start(struct td_client *client,
                        const struct live_request *request,
                        live_message_fn *on_message, live_end_fn *on_end,
                        void *user);

void live_hold(struct live *live, bool is_held); /* also from on_message */
void live_free(struct live *live); /* NULL is allowed; not after on_end */

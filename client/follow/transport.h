/*
 * transport.h - between live_connection.c and its transports: one row for each
 * transport.
 *
 *     start --> live_heard --> live_message ... --> live_finish
 *
 * Messages that come in a pause wait. live_finish only notes the end, which
 * follows them; on_end is called in the next turn of the loop. The memory of a
 * connection that was freed stays until the end of the turn, with is_ending
 * set.
 */
#pragma once

#include "client/follow/live_connection.h"

struct fetch_answer;

/* Seconds: fetch.h must not end a silent request before live_connection.c
 * does. */
#define SILENCE_S 1000000

struct transport {
    enum td_transport name;
    size_t size;                        /* of live->own, at first zero */
    bool (*start)(struct live *live);   /* false: no memory */
    void (*stop)(struct live *live);    /* ends what start began, except
                                           live->fetch; or NULL */
    void (*release)(struct live *live); /* frees the memory of `own` that
                                           messages lie in; or NULL */
    /* live->again has expired: after a pause, at its begin if `pause` is NULL,
     * or because the time is about to be over (is_late). NULL: there is nothing
     * to do. */
    void (*go_on)(struct live *live);
    void (*pause)(struct live *live); /* no more bytes; NULL: go_on does it */

    /* TD_WEBSOCKET, after on_open: sends a text. False: no memory, or the
     * server does not read. NULL: it cannot. */
    bool (*send)(struct live *live, struct slice text);
    bool is_held_back; /* silence from the beginning means LIVE_UNFIT: a proxy
                          may keep the request, or answers until they are
                          complete */
    bool is_watched;   /* another connection watches for silence */
};

extern const struct transport transport_websocket, transport_events,
    transport_long_poll, transport_shared;

struct live {
    struct td_client *client;
    const struct transport *transport;
    struct live_request request; /* its URL: */
    char *url;
    unsigned token_version; /* servers.h; 0: no token */
    live_message_fn *on_message;
    live_end_fn *on_end;
    void *user;

    /* The transport's */
    void *own;           /* behind this struct */
    struct fetch *fetch; /* NULL: none, or it has ended */
    struct buf held;     /* some of a message, or its bytes */

    struct buf waiting; /* messages that came in a pause: size, bytes | ... */
    struct timer again; /* after a pause, or because more is left to do */
    struct timer timer; /* the answer's, of silence, or of the end */
    uint64_t await_ms;  /* time for the answer */
    bool is_answered;
    bool has_message; /* one came */
    bool is_paused;
    bool is_late;   /* the time is over; bytes may still be unread */
    bool is_over;   /* nothing more comes; `end` follows what waits */
    bool is_ending; /* on_end comes next, or it is freed; nothing is handed over
                     */
    struct live_end end;
    struct retired retired;
};

/* From now on the server has answer_ms and `more_ms` to answer. */
void live_await(struct live *live, uint64_t more_ms);

/* A message or a part of one came: from now on silence lasts idle_ms. During a
 * pause no time runs. */
void live_heard(struct live *live);

/* Hands a message over, or lets it wait for the end of a pause. False: hand over
 * no more, it ends. */
bool live_message(struct live *live, char *bytes, size_t size);

/* Ends the connection, behind the messages that wait; only the first call
 * counts. `rc` as in live_connection.h. */
void live_finish(struct live *live, enum live_how how, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void live_finish_closed(struct live *live, unsigned code, const char *reason);

/* The same with the code that a WebSocket has for `name`, "farewell", "failed",
 * "denied", "removed" or "gone", and the reason in {"detail":"..."}. False: it
 * is none of these. */
bool live_finish_named(struct live *live, struct slice name, struct slice text);

/* Ends it because of another answer: LIVE_REFUSED or LIVE_UNFIT. */
void live_finish_refused(struct live *live, const struct fetch_answer *answer);

/* True if the media type, without parameters, is `name`. */
bool live_is_type(const char *type, const char *name);

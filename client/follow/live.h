/*
 * live.h - one live connection to a set, by whatever transport carries it.
 *
 *     live_start --> on_message ... --> on_end
 *          +-------> live_free           at any moment: nothing more is called
 *
 *     TD_WEBSOCKET   websocket.c    the stream's URL, libcurl and wslay
 *     TD_EVENTS      eventsource.c  server-sent events
 *     TD_LONG_POLL   longpoll.c     the change memory with wait=: one answer,
 *                                   then LIVE_AGAIN
 *
 * Which one is tried next, when, and what a message means, is the follower's.
 */
#ifndef CLIENT_FOLLOW_LIVE_H
#define CLIENT_FOLLOW_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/client.h"
#include "client/lib/failure.h"

/* Longest message: brokers send 1 MiB unless told otherwise. */
#define LIVE_MESSAGE_MAX (16 * 1024 * 1024)

/* `why->rc` beside each: LIVE_REFUSED has what its status means (TD_REFUSED,
 * TD_GONE or, where it may be otherwise later, TD_UNREACHABLE). */
enum live_how {
    LIVE_AGAIN,   /* TD_OK: a long poll was answered: the next one, at once */
    LIVE_ENOUGH,  /* TD_OK: on_message returned false */
    LIVE_REFUSED, /* an answer other than a stream; why->status, why->text */
    LIVE_UNFIT,   /* TD_UNREACHABLE: whoever stands between does not carry this
                     transport, as far as can be told from here: a broker that
                     ends in that moment looks the same. Another may work */
    LIVE_CLOSED,  /* TD_UNREACHABLE: the broker's farewell: close code `code`;
                     4410: gone; 4404: the set was removed */
    LIVE_LOST,    /* TD_UNREACHABLE: never came about, broke, or fell silent */
    LIVE_BROKEN,  /* TD_BROKEN: what came cannot be a message */
    LIVE_MEMORY   /* TD_MEMORY */
};

struct live_end {
    enum live_how how;
    unsigned code; /* LIVE_CLOSED: RFC 6455 section 7.4; 0: none */
    struct failure why;
};

struct live_request {
    enum td_transport transport;
    const char *url; /* http or https, query and all. Of a long poll, wait= is
                        added unless it is there */
    enum td_form form;
    const unsigned *idle_ms; /* silence that ends it; read again each time */
    unsigned answer_ms;      /* until the server answers; 0: 20,000 */
};

/* A whole message, which it may change and which stays until it returns, even
 * if it calls live_free; false ends it: LIVE_ENOUGH. Not called between
 * live_pause and live_resume. */
typedef bool live_message_fn(char *bytes, size_t size, void *user);
typedef void live_end_fn(const struct live_end *end, void *user);

struct live;

/* `request->url` is copied. NULL: no memory. Nothing is called before it
 * returns. It frees itself before on_end. */
struct live *live_start(struct td_client *client,
                        const struct live_request *request,
                        live_message_fn *on_message, live_end_fn *on_end,
                        void *user);
void live_pause(struct live *live); /* also from on_message */
void live_resume(struct live *live);
void live_free(struct live *live); /* NULL is allowed; not after on_end */

#endif

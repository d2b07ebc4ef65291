/*
 * subscribers.h - the connected clients: each is a reader (readers/reader.h) of
 * the log of a set, and a stream.
 *
 *            +---------- sent whole: asks for the next ----------+
 *            v                                                   |
 *     open, reader_next --> READY: sends <--> waits for on_room -+
 *            ^         |
 *            |         +--> HEAD, LATER: waits for on_ready
 *            +-------------------+
 *
 * A commit wakes the thread, which sends the same message to all subscribers at
 * the same position. A subscriber that lags is served message by message,
 * merged as large as allowed. A slow one costs a few hundred bytes, however far
 * behind it is: if the thread holds too many messages, it releases its own, and
 * has it made again. One with a filter gets nothing while nothing passes; after
 * a heartbeat's interval without a message it gets a heartbeat that covers the
 * passed-over entries (message.h).
 *
 * A subscriber that wants checkpoints gets the set's newest one between two
 * messages, when it has all entries that the checkpoint covers.
 *
 * When the set is removed or the broker ends, a subscriber is closed behind the
 * message in flight. When its principal has ended, too, within two seconds: if
 * the message is not sent by then, within it.
 *
 * A stream of many sets is a subscriber, too: its readers are in stream_sets.h,
 * and one of them after the other sends a message. The end of one set is a
 * message of its own, and ends no other.
 *
 * Everything here belongs to one service thread, unless stated otherwise.
 */
#pragma once

#include "broker/access/principal.h"
#include "broker/net/request.h"
#include "broker/net/server.h"
#include "broker/net/stream.h"
#include "broker/push/follow_request.h"
#include "broker/push/longpoll.h"
#include "broker/push/transports.h"
#include "broker/sets/registry.h"

struct push;

MUST_CHECK enum status push_open(struct push **push, struct registry *registry,
                                 unsigned threads, struct problem *why);

/* After the server has been closed. NULL is allowed. */
void push_close(struct push *push);

/* A client's request: for a stream of many sets, or of one. */
struct push_wish {
    struct principal *principal; /* lent; its end ends the stream */
    const struct transport *transport;
    struct stream_terms terms;   /* of a WebSocket */
    struct filter_class *filter; /* entered (filters.h); push leaves it */

    const struct follow_request *follow; /* of many sets; lent; or NULL, and: */
    struct set *set;
    uint64_t after;   /* the position where it starts */
    bool is_gone;     /* that position cannot be served: close with 4410 or
                         `event: gone`, naming the earliest */
    bool has_since;   /* start behind the last entry not later than since_us, */
    int64_t since_us; /* ... instead of after `after` */
    bool wants_checkpoints;
};

/* Accepts an event stream or a WebSocket, whose client may send further
 * requests for sets as messages, if it is of many; within on_request. HEAD gets
 * the head of the answer alone. An error leaves the request to its owner, with
 * its filter left: STATUS_LIMITED, STATUS_INVALID; of many sets only. */
MUST_CHECK enum status push_accept(struct push *push, struct request *rq,
                                   const struct push_wish *wish,
                                   struct problem *why);

/* Lets a request wait until its set has more: polls_wait. */
MUST_CHECK bool push_wait(struct push *push, struct request *rq,
                          struct poll *poll, const struct poll_wish *wish);

/* The server's on_wake and on_tick. */
void push_on_wake(struct push *push, struct service *service);
void push_on_tick(struct push *push, struct service *service);

/* Sets the metrics of lags, as of at most a second ago. Any thread. */
void push_measure(struct push *push);

/* The copy of this broker is certain up to a later moment: resumes those who
 * wait for that (longpoll.h). Any thread. */
void push_copy_is_certain(struct push *push);

/* Why a position is refused with 503, or with CLOSE_LATER. */
#define POSITION_LATER                                                 \
    "this broker does not know yet whether the position is there: it " \
    "waits for its cluster"

/* Begins a wait on the thread of the service. False: the broker is ending. */
MUST_CHECK bool push_await_copy(struct push *push, struct service *service,
                                struct catch_up_wait *wait);

/* Closes all subscribers of all threads: close code 1001, or `event: farewell`.
 * Resumes waiting requests. Any thread, once. */
void push_farewell(struct push *push, struct server *server);

/* What a stream says between messages: of many sets, of one that ends, and at
 * its end (transports_close). */
extern const struct json_shape stream_heartbeat_shape, resume_shape,
    set_end_shape, stream_end_shape;

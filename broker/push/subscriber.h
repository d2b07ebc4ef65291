/*
 * subscriber.h - one connected client: its position, and its next frame. For
 * this folder only; subscribers.h has the picture, subscribers.c serves all
 * clients of a thread.
 *
 * Everything here belongs to the service thread of its connection.
 */
#ifndef BROKER_PUSH_SUBSCRIBER_H
#define BROKER_PUSH_SUBSCRIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/net/server.h"
#include "broker/net/stream.h"
#include "broker/push/frames.h"
#include "broker/push/lags.h"
#include "broker/push/longpoll.h"
#include "broker/push/places.h"
#include "broker/push/transports.h"
#include "proto/status.h"

enum state {
    READING, /* its frame is being made; in the list of that load */
    WRITING, /* has a frame, or gets one when there is room */
    WAITING, /* at the head; in its set's waiting list */
    CLOSING
};

struct subscriber {
    struct list node;      /* see state */
    struct list idle_node; /* in the thread's idle list, by last_sent_us */
    struct push_thread *thread;
    struct place *place;
    struct stream *stream;
    const struct transport *transport;
    struct shared_message *frame; /* being sent, held */
    size_t offset;                /* bytes of it that the stream has taken */
    uint64_t after;               /* the last entry of all that was sent */
    uint64_t reached; /* beyond `after`: nothing up to this one passes */
    struct filter_class *filter; /* or NULL */
    int64_t since_us;            /* where it starts, if has_since */
    uint64_t upto;               /* after the frame was released: it ended
                                    here */
    size_t frame_size;           /* and had this size */
    int64_t opened_us;
    int64_t last_sent_us;
    enum state state;
    uint16_t close_code; /* WRITING: the code to close with behind its frame,
                            when there is room; 0: stays open */
    bool is_greeted;     /* the first heartbeat was made */
    bool is_gone;        /* the requested position cannot be served */
    bool has_since;      /* until it is greeted */
    bool is_due;         /* gets a heartbeat next: nothing was sent for long */
};

struct push_thread {
    struct places places;
    struct shared_messages messages; /* frames */
    struct deflater deflater;
    struct polls polls;
    struct list idle; /* of subscribers, by the time of the last sending */
    struct lags lags;
    int64_t gather_until_us;
    struct task farewell;
    bool is_ending;
};

/* Sends the frame, and decides the next step. One message per call: a
 * subscriber that lags continues in its next turn of the event loop, so it does
 * not hold up the others. */
void subscriber_advance(struct subscriber *s);

/* Gives it a frame to send, which it holds. */
void subscriber_give(struct subscriber *s, struct shared_message *frame);

/* Releases its frame, if it has one. */
void subscriber_drop_frame(struct subscriber *s);

/* True if it has received everything, as far as this thread knows: a later
 * commit has marked the set, and the mark was not taken yet. */
bool subscriber_is_at_head(const struct subscriber *s);

/* Moves it to the end of the idle list, after it was sent something or
 * checked. */
void subscriber_sent(struct subscriber *s, int64_t now_us);

/* Closes it with CLOSE_GOING_AWAY or CLOSE_SET_REMOVED. A client that waits for
 * room gets the rest of its message first: some WebSocket clients reject a
 * close frame between two frames of a message, and an EventSource would read
 * the reason as a part of the event. A client that does not read fast enough
 * for --min-rate ends without a reason. The first call counts. */
void subscriber_close(struct subscriber *s, unsigned code);

/* The next two close it at once, also within a message. */

/* The requested or reached position cannot be served: sends the positions that
 * can be. */
void subscriber_close_gone(struct subscriber *s);

/* Its next frame cannot be made, for this reason. */
void subscriber_close_failed(struct subscriber *s, enum status rc);

#endif

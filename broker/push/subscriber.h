/*
 * subscriber.h - one connected client: where it is, and what it gets next. For
 * this folder only; subscribers.h has the picture, subscribers.c looks after
 * all of a thread.
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
#include "broker/push/reads.h"
#include "broker/push/transports.h"
#include "proto/status.h"

enum state {
    READING, /* its frame is being made; in that read's list */
    WRITING, /* has a frame, or is to get one when there is room */
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
    struct frame *frame; /* being sent */
    size_t offset;       /* bytes of it that were handed to the stream */
    uint64_t after;      /* what was sent whole covers up to this entry */
    uint64_t reached;    /* beyond it, up to this one, nothing passes */
    struct filter_class *filter; /* or NULL */
    int64_t since_us;            /* where it starts, if has_since */
    uint64_t upto;               /* after letting go: the frame ended here */
    size_t frame_size;           /* and had this size */
    int64_t opened_us;
    int64_t last_sent_us;
    enum state state;
    uint16_t close_code; /* WRITING: closed with it when there is room, behind
                            its frame; 0: it stays */
    bool is_greeted;     /* the first heartbeat was made */
    bool is_gone;        /* the position that it asked for cannot be served */
    bool has_since;      /* until it is greeted */
    bool is_due;         /* gets a heartbeat next: it has long got nothing */
};

struct push_thread {
    struct places places;
    struct reads reads;
    struct frames frames;
    struct polls polls;
    struct list idle; /* of subscribers: least recently sent to first */
    struct lags lags;
    int64_t gather_until_us;
    struct task farewell;
    bool is_ending;
};

/* Sends what it has, and decides what comes next. One message a call: one that
 * lags goes on when its turn comes in the event loop, so that it holds up
 * nobody. */
void subscriber_advance(struct subscriber *s);

/* A frame to send; it takes a reference. */
void subscriber_give(struct subscriber *s, struct frame *frame);

/* Has it all there is? As far as this thread knows: a later commit has marked
 * the set, and the mark has not been taken yet. */
bool subscriber_is_at_head(const struct subscriber *s);

/* It got something, or was looked at instead: the last of the idle ones. */
void subscriber_sent(struct subscriber *s, int64_t now_us);

/* Closes it with CLOSE_GOING_AWAY or CLOSE_SET_REMOVED. A client that waits for
 * room gets the rest of its message first: some WebSocket clients take a close
 * frame between two frames of a message for an error, and an EventSource would
 * read the reason as a part of the event. A client that does not read fast
 * enough for --min-rate ends without a reason. The first call counts. */
void subscriber_close(struct subscriber *s, unsigned code);

/* Each of the next two closes it at once, also within a message. */

/* The position that it asked for, or has come to, cannot be served (any more):
 * it is told which can. */
void subscriber_close_gone(struct subscriber *s);

/* What it needs next cannot be had, for this reason. */
void subscriber_close_failed(struct subscriber *s, enum status rc);

#endif

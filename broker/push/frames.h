/*
 * frames.h - messages ready to be sent. All subscribers of a thread at the same
 * position share a frame.
 *
 * A frame is made once per thread, position and transport, and all subscribers
 * get the same bytes. A few recent frames are kept for subscribers that reach
 * the same position a little later. Each frame counts in the thread's budget
 * while it exists. Only the log determines its bytes, so a subscriber that
 * cannot send for long may release it, and have it made again.
 *
 * If a filter passes nothing of a part of the log, the frame is empty: it is
 * not sent, and its `last` says how far that part reaches.
 *
 * All of it belongs to one service thread, except that frame_make may run on
 * the worker pool.
 */
#ifndef BROKER_PUSH_FRAMES_H
#define BROKER_PUSH_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/push/deflater.h"
#include "broker/push/transports.h"
#include "broker/sets/message.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Limits of the frames that are kept for later subscribers. */
#define FRAMES_KEPT       32
#define FRAMES_KEPT_BYTES ((size_t)4 << 20)

/* A wish for a frame. */
struct frame_wish {
    struct set *set;
    const struct transport *transport;
    uint64_t after; /* the entries after this one ... */
    uint64_t upto;  /* ... to exactly this one; UINT64_MAX: as many as fit */
    struct filter_class *filter; /* lent; NULL: all pass */
    uint64_t reached;            /* as in a message's wish: see message.h */
    bool is_heartbeat;           /* at `after`, or `reached`; never kept */
    bool has_since;   /* a heartbeat at the last entry that is not later than */
    int64_t since_us; /* ... this time: where the stream starts */
};

struct frame {
    unsigned owners;
    struct frame_wish wish; /* only the address of its filter is compared */
    uint64_t filter_id;     /* 0: none; tells filters apart that reuse an
                               address */
    uint64_t last;          /* the last entry it covers */
    int64_t committed_us;   /* of its first entry: see batch.h */
    size_t size;            /* 0: nothing passes, nothing is sent */
    char *data;
    size_t *account; /* the thread's budget that counts it; or NULL */
};

struct frames {
    struct frame *kept[FRAMES_KEPT]; /* a ring: `next` is the oldest */
    size_t next;
    size_t kept_bytes;
    size_t bytes; /* of all existing frames of the thread */
    struct deflater deflater;
};

void frames_init(struct frames *frames);
void frames_fini(struct frames *frames);

/* Makes a frame with one owner; `deflater` compresses it if the transport does.
 * STATUS_AGAIN as by message_write, or because the message is too large to
 * compress here. */
MUST_CHECK enum status frame_make(struct frame **frame,
                                  const struct frame_wish *wish,
                                  enum log_patience patience,
                                  struct deflater *deflater,
                                  struct problem *why);

/* Returns the kept frame for a wish, with a reference; or NULL. */
struct frame *frames_find(struct frames *frames, const struct frame_wish *wish);

/* Counts a new frame in the budget, and keeps it for others unless it is a
 * heartbeat. */
void frames_adopt(struct frames *frames, struct frame *frame);

struct frame *frame_ref(struct frame *frame);
void frame_unref(struct frame *frame); /* NULL is allowed */

#endif

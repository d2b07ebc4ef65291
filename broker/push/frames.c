#include "broker/push/frames.h"

#include <stdlib.h>
#include <string.h>

#include "proto/position.h"

/* A message may exceed --message-bytes a little if one entry is that large; the
 * limits of an entry bound its JSON form. */
#define MESSAGE_MAX ((size_t)64 << 20)

void
frames_init(struct frames *frames)
{
    memset(frames, 0, sizeof(*frames));
    deflater_init(&frames->deflater);
}

void
frames_fini(struct frames *frames)
{
    for (size_t i = 0; i < FRAMES_KEPT; i++)
        frame_unref(frames->kept[i]);
    deflater_fini(&frames->deflater);
}

static enum status
compose(struct buf *message, const struct frame_wish *wish,
        enum log_patience patience, uint64_t *last, struct problem *why)
{
    struct message_wish content = {
        .set = wish->set,
        .form = wish->transport->form,
        .after = wish->after,
        .upto = wish->upto,
        .filter = wish->filter,
        .reached = wish->reached,
        .is_silent = wish->filter != NULL,
        .max_bytes = registry_config(wish->set->registry)->message_bytes,
        .patience = patience,
    };

    enum status rc = STATUS_OK;

    if (!wish->is_heartbeat)
        return message_write(message, &content, last, why);
    if (wish->has_since) {
        rc = log_since(registry_log(wish->set->registry), wish->set->log,
                       wish->since_us, patience, &content.after, why);
        content.reached = content.after;
    }
    *last = content.reached > content.after ? content.reached : content.after;
    return rc ? rc : message_heartbeat(message, &content, why);
}

/* Puts the transport's envelope around the message. */
static void
wrap(struct buf *wire, const struct frame_wish *wish, struct slice message,
     uint64_t last, struct deflater *deflater)
{
    char position[POSITION_MAX];
    struct envelope envelope = {position, wish->is_heartbeat, deflater};
    struct head head;

    log_head(wish->set->log, &head);
    position_write(position, head.epoch, last);
    wish->transport->wrap(wire, message, &envelope);
}

/* The entry behind which a reader begins to search. */
static uint64_t
start_of(const struct frame_wish *wish)
{
    return wish->reached > wish->after ? wish->reached : wish->after;
}

/* When the first entry of a message was committed, or the first entry that was
 * searched for it (passed-over entries do not count). 0: unknown, because it is
 * no longer in memory. */
static int64_t
commit_time(const struct frame_wish *wish, uint64_t last)
{
    struct batch *b = NULL;
    int64_t us = 0;

    if (wish->is_heartbeat || last == start_of(wish) ||
        log_read(registry_log(wish->set->registry), wish->set->log,
                 start_of(wish), LOG_MEMORY, &b, NULL))
        return 0;
    if (b)
        us = b->committed_us;
    batch_unref(b);
    return us;
}

enum status
frame_make(struct frame **result, const struct frame_wish *wish,
           enum log_patience patience, struct deflater *deflater,
           struct problem *why)
{
    struct frame *frame = NULL;
    struct buf message, wire;
    uint64_t last;
    enum status rc;

    buf_init(&message, MESSAGE_MAX);
    buf_init(&wire, MESSAGE_MAX);
    rc = compose(&message, wish, patience, &last, why);
    if (rc)
        goto out;
    /* The message was made in vain, but only once: later wishes find the
     * read. */
    if (wish->transport->is_deflated && patience == LOG_MEMORY &&
        message.size > DEFLATER_AT_ONCE) {
        rc = STATUS_AGAIN;
        goto out;
    }
    if (message.size > 0)
        wrap(&wire, wish, buf_slice(&message), last, deflater);
    frame = calloc(1, sizeof(*frame));
    if (!frame || wire.failed) {
        free(frame);
        rc = problem_memory(why);
        goto out;
    }
    frame->owners = 1;
    frame->wish = *wish;
    frame->filter_id = wish->filter ? wish->filter->id : 0;
    frame->last = last;
    frame->committed_us = commit_time(wish, last);
    frame->size = wire.size;
    frame->data = wire.data;
    wire.data = NULL;
    wire.size = wire.capacity = 0;
    *result = frame;

out:
    buf_fini(&message);
    buf_fini(&wire);
    return rc;
}

/* An empty frame serves every wish that starts at the same entry, wherever the
 * previous message ended. */
static bool
serves(const struct frame *frame, const struct frame_wish *wish)
{
    return frame->wish.set == wish->set &&
           frame->wish.transport == wish->transport &&
           frame->filter_id == (wish->filter ? wish->filter->id : 0) &&
           start_of(&frame->wish) == start_of(wish) &&
           (frame->wish.after == wish->after || frame->size == 0) &&
           (wish->upto == UINT64_MAX || wish->upto == frame->last);
}

struct frame *
frames_find(struct frames *frames, const struct frame_wish *wish)
{
    if (wish->is_heartbeat)
        return NULL;
    for (size_t i = 1; i <= FRAMES_KEPT; i++) { /* the newest first */
        struct frame *frame =
            frames->kept[(frames->next + FRAMES_KEPT - i) % FRAMES_KEPT];

        if (frame && serves(frame, wish))
            return frame_ref(frame);
    }
    return NULL;
}

static void
drop(struct frames *frames, size_t n)
{
    if (!frames->kept[n])
        return;
    frames->kept_bytes -= frames->kept[n]->size;
    frame_unref(frames->kept[n]);
    frames->kept[n] = NULL;
}

void
frames_adopt(struct frames *frames, struct frame *frame)
{
    frame->account = &frames->bytes;
    frames->bytes += frame->size;
    /* A frame without entries is only true for its moment. */
    if (frame->wish.is_heartbeat || frame->last == start_of(&frame->wish))
        return;
    drop(frames, frames->next);
    frames->kept[frames->next] = frame_ref(frame);
    frames->kept_bytes += frame->size;
    frames->next = (frames->next + 1) % FRAMES_KEPT;
    for (size_t i = 0;
         i + 1 < FRAMES_KEPT && frames->kept_bytes > FRAMES_KEPT_BYTES; i++)
        drop(frames, (frames->next + i) % FRAMES_KEPT);
}

struct frame *
frame_ref(struct frame *frame)
{
    frame->owners++;
    return frame;
}

void
frame_unref(struct frame *frame)
{
    if (!frame || --frame->owners > 0)
        return;
    if (frame->account)
        *frame->account -= frame->size;
    free(frame->data);
    free(frame);
}

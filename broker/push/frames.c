#include "broker/push/frames.h"

#include <stdlib.h>
#include <string.h>

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
open_message(struct message *message, const struct frame_wish *wish,
             enum log_patience patience, struct problem *why)
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
        .is_heartbeat = wish->is_heartbeat,
    };
    enum status rc = STATUS_OK;

    if (wish->is_heartbeat && wish->has_since) {
        rc = log_since(registry_log(wish->set->registry), wish->set->log,
                       wish->since_us, patience, &content.after, why);
        content.reached = content.after;
    }
    return rc ? rc : message_open(message, &content, why);
}

/* The entry behind which a reader begins to search. */
static uint64_t
start_of(const struct frame_wish *wish)
{
    return wish->reached > wish->after ? wish->reached : wish->after;
}

static enum status
make_frame(struct frame **result, const struct frame_wish *wish,
           const struct message *message, struct deflater *deflater,
           struct problem *why)
{
    struct frame *frame = calloc(1, sizeof(*frame));
    struct buf wire;

    if (!frame)
        return problem_memory(why);
    buf_init(&wire, SIZE_MAX);
    if (message->size > 0)
        wish->transport->wrap(&wire, message, deflater);
    if (wire.failed) {
        buf_fini(&wire);
        free(frame);
        return problem_memory(why);
    }
    *frame = (struct frame){
        .owners = 1,
        .wish = *wish,
        .filter_id = wish->filter ? wish->filter->id : 0,
        .last = message->last,
        .committed_us = message->committed_us,
        .size = wire.size,
        .data = wire.data, /* taken over */
    };
    *result = frame;
    return STATUS_OK;
}

enum status
frame_make(struct frame **result, const struct frame_wish *wish,
           enum log_patience patience, struct deflater *deflater,
           struct problem *why)
{
    struct message message;
    enum status rc = open_message(&message, wish, patience, why);

    if (rc)
        return rc;
    /* Later wishes find the read. */
    if (wish->transport->is_deflated && patience == LOG_MEMORY &&
        message.size > DEFLATER_AT_ONCE)
        rc = STATUS_AGAIN;
    else
        rc = make_frame(result, wish, &message, deflater, why);
    message_close(&message);
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

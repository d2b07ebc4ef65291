#include "broker/push/subscriber.h"

#include <stdio.h>

#include "base/clock.h"
#include "broker/base/metrics.h"
#include "broker/sets/positions.h"

/* Most bytes of the members that name the positions which can be served. */
#define MEMBERS_MAX 4096

/* Bytes of frames per thread. Above it a subscriber that cannot send releases
 * its frame, and has it made again later. */
#define FRAMES_BUDGET ((size_t)16 << 20)

/* Closing */

static void
close_now(struct subscriber *s, unsigned code, const char *reason,
          const char *members)
{
    const struct ending ending = {code, reason, members, s->offset > 0};

    list_remove(&s->node);
    s->state = CLOSING;
    s->transport->close(s->stream, &ending);
}

static void
close_with(struct subscriber *s, unsigned code)
{
    close_now(s, code,
              code == CLOSE_SET_REMOVED ? "the set was removed"
                                        : "the broker is ending",
              NULL);
}

/* A subscriber that has released its frame does not wait: it would need the
 * rest of its message, from a set that may be removed. */
void
subscriber_close(struct subscriber *s, unsigned code)
{
    bool waits_for_room = s->state == WRITING && (s->frame || !s->upto);

    if (s->state == CLOSING || s->close_code)
        return;
    if (waits_for_room)
        s->close_code = (uint16_t)code;
    else
        close_with(s, code);
}

void
subscriber_close_gone(struct subscriber *s)
{
    char earliest[POSITION_MAX], reason[124];
    struct buf members;
    struct head head;

    log_head(s->place->set->log, &head);
    positions_earliest(&head, earliest);
    snprintf(reason, sizeof(reason), "position gone; earliest %s", earliest);
    buf_init(&members, MEMBERS_MAX);
    positions_members(s->place->set, &head, &members);
    close_now(s, CLOSE_POSITION_GONE, reason,
              members.failed ? NULL : members.data);
    buf_fini(&members);
}

void
subscriber_close_failed(struct subscriber *s, enum status rc)
{
    struct head head;

    log_head(s->place->set->log, &head);
    if (head.is_removed)
        close_with(s, CLOSE_SET_REMOVED);
    else if (rc == STATUS_GONE)
        subscriber_close_gone(s);
    else
        close_now(s, CLOSE_FAILED, "the broker cannot read its log", NULL);
}

/* Sending */

void
subscriber_sent(struct subscriber *s, int64_t now_us)
{
    s->last_sent_us = now_us;
    list_remove(&s->idle_node);
    list_append(&s->thread->idle, &s->idle_node);
}

void
subscriber_drop_frame(struct subscriber *s)
{
    if (s->frame)
        shared_messages_release(&s->thread->messages, s->frame, false);
    s->frame = NULL;
}

/* Releases a frame that cannot be sent now, if the thread has too many. The
 * offset in it is enough to continue: see message.h. A subscriber that is
 * closed behind its frame keeps it, and gets no other. */
static void
let_go(struct subscriber *s)
{
    if (shared_messages_bytes(&s->thread->messages) <= FRAMES_BUDGET ||
        s->close_code || s->frame->wish.is_heartbeat)
        return;
    s->upto = s->frame->last;
    s->frame_size = s->frame->size;
    subscriber_drop_frame(s);
}

/* The frame was sent, or is empty. */
static void
end_frame(struct subscriber *s)
{
    subscriber_drop_frame(s);
    s->offset = 0;
    s->upto = 0;
}

/* Counts a frame that the socket has taken to its last byte. Commits from
 * before the subscriber's start say nothing about our speed, and are not
 * measured. */
static void
count_sent(const struct subscriber *s, int64_t now_us)
{
    metrics_add_label(METRIC_MESSAGES, transports_number(s->transport), 1);
    if (s->frame->committed_us > s->opened_us)
        metrics_observe_us(METRIC_PUSH_LATENCY,
                           now_us - s->frame->committed_us);
}

enum sent {
    SENT_PART,   /* wait for on_room, or on_gone */
    SENT_CHOKED, /* all is sent, but nothing may follow until on_room */
    SENT_WHOLE
};

/* Sends what is left of the frame. */
static enum sent
send_frame(struct subscriber *s)
{
    enum stream_result sent = STREAM_SENT;
    int64_t now_us;

    while (s->offset < s->frame->size) {
        struct slice piece = transports_piece(
            (struct slice){s->frame->data, s->frame->size}, s->offset);

        sent = stream_write(s->stream, piece.data, piece.size);
        if (sent == STREAM_DEAD) {
            s->state = CLOSING;
            return SENT_PART;
        }
        s->offset += piece.size;
        if (sent == STREAM_CHOKED && s->offset < s->frame->size) {
            let_go(s);
            return SENT_PART;
        }
    }
    now_us = clock_steady_us();
    subscriber_sent(s, now_us);
    count_sent(s, now_us);
    s->after = s->reached = s->frame->last;
    s->is_due = false;
    end_frame(s);
    return sent == STREAM_CHOKED ? SENT_CHOKED : SENT_WHOLE;
}

void
subscriber_give(struct subscriber *s, struct shared_message *frame)
{
    shared_messages_hold(&s->thread->messages, frame, false);
    s->frame = frame;
    s->state = WRITING;
}

static struct shared_wish
wish_of(const struct subscriber *s)
{
    return (struct shared_wish){
        .channel =
            frame_channel(s->place->set, s->transport, &s->thread->deflater),
        .after = s->after,
        .upto = s->upto ? s->upto : UINT64_MAX,
        .filter = s->filter,
        .reached = s->reached,
        .is_heartbeat = !s->is_greeted || (s->is_due && !s->upto),
        .has_since = s->has_since,
        .since_us = s->since_us,
    };
}

/* Moving on */

/* Finds or makes the frame that `s` needs next. false: it waits for a load, or
 * is being closed. */
static bool
next_frame(struct subscriber *s)
{
    struct shared_messages *messages = &s->thread->messages;
    struct shared_wish wish = wish_of(s);
    struct shared_message *frame = shared_messages_find(messages, &wish, 0);
    struct problem why = {""};
    uint64_t last;
    enum status rc;

    if (!frame) {
        rc = shared_messages_make(messages, &frame, &wish, &last, &why);
        if (rc == STATUS_AGAIN) {
            s->state = READING;
            list_remove(&s->node);
            rc = shared_messages_load(messages, &wish, false, &s->node);
            if (!rc)
                return false;
        }
        if (rc) {
            subscriber_close_failed(s, rc);
            return false;
        }
        shared_messages_adopt(messages, frame);
    }
    subscriber_give(s, frame);
    shared_messages_settle(messages, frame);
    return true;
}

/* True if the frame that was made again equals the released one. */
static bool
is_same_frame(const struct subscriber *s)
{
    return !s->upto ||
           (s->frame->last == s->upto && s->frame->size == s->frame_size);
}

bool
subscriber_is_at_head(const struct subscriber *s)
{
    return s->reached >= s->place->last;
}

void
subscriber_advance(struct subscriber *s)
{
    enum sent sent = SENT_WHOLE;

    if (s->state == CLOSING)
        return;
    if (!s->frame && s->close_code) {
        close_with(s, s->close_code);
        return;
    }
    if (!s->frame && !next_frame(s))
        return;
    if (!is_same_frame(s)) {
        close_now(s, CLOSE_FAILED, "the message cannot be completed", NULL);
        return;
    }
    if (s->frame->size == 0) { /* nothing passes: only moves on */
        s->reached = s->frame->last;
        end_frame(s);
    } else {
        bool was_greeting = s->frame->wish.is_heartbeat;

        sent = send_frame(s);
        if (sent == SENT_PART)
            return;
        if (was_greeting) {
            s->is_greeted = true;
            s->has_since = false;
        }
    }

    if (sent == SENT_CHOKED) {
        s->state = WRITING;
    } else if (subscriber_is_at_head(s) && !s->close_code) {
        s->state = WAITING;
        list_append(&s->place->waiting, &s->node);
    } else {
        s->state = WRITING;
        stream_want_room(s->stream);
    }
}

/*
 * websocket_frames.c - the frames of a WebSocket, by wslay.
 *
 * wslay reads up to 4 KB at once and hands over everything in them. So messages
 * go to an inbox first, and nothing is read while the inbox has a whole one: it
 * holds at most one long message and 4 KB of others.
 *
 *     inbox:  size, message | size, message | size, the part that has come
 */
#include "client/follow/websocket_frames.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#include "proto/buf.h"

/* Pongs that wait to be written; with more, the client reads nothing. */
#define WAITING_MOST 16

/* Bytes of messages that wait to be written: more than all sets of a source
 * need to join once (shared_stream.h). */
#define SEND_MAX (4 * 1024 * 1024)

#define INBOX_MAX (LIVE_MESSAGE_MAX + 65536)

struct frames {
    frames_read_fn *read;
    frames_write_fn *write;
    void *user;
    wslay_event_context_ptr wslay;

    struct buf inbox;
    size_t first;    /* where the first message not taken begins */
    size_t open;     /* where the incomplete message begins; SIZE_MAX: there is
                        none */
    size_t n_whole;  /* whole messages from `first` on */
    bool is_data;    /* the current frame is part of a message */
    uint64_t n_data; /* bytes of messages so far */
    bool is_used;
    bool is_dry;  /* nothing more could be read */
    bool is_over; /* as `end` says; nothing more is read */
    struct live_end end;
};

/* Notes the end; only the first reason counts. */
static void finish_frames(struct frames *f, enum live_how how,
                          const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void
finish_frames(struct frames *f, enum live_how how, const char *format, ...)
{
    va_list args;

    if (f->is_over)
        return;
    f->is_over = true;
    f->end.how = how;
    va_start(args, format);
    problem_vset(&f->end.why, STATUS_UNREACHABLE, format, args);
    va_end(args);
    wslay_event_shutdown_read(f->wslay);
}

static bool
is_full(const struct frames *f)
{
    return wslay_event_want_write(f->wslay) &&
           wslay_event_get_queued_msg_count(f->wslay) > WAITING_MOST;
}

/* Callbacks of wslay */

static ssize_t
on_read(wslay_event_context_ptr wslay, uint8_t *to, size_t size, int flags,
        void *user)
{
    struct frames *f = user;
    ssize_t n = 0;

    (void)flags;
    if (!f->n_whole && !is_full(f)) {
        n = f->read(to, size, f->user);
        f->is_dry = n == 0;
    }
    if (n > 0) {
        f->is_used = true;
        return n;
    }
    if (n < 0)
        finish_frames(f, LIVE_LOST, "the connection broke");
    wslay_event_set_error(wslay, n ? WSLAY_ERR_CALLBACK_FAILURE
                                   : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static ssize_t
on_write(wslay_event_context_ptr wslay, const uint8_t *from, size_t size,
         int flags, void *user)
{
    struct frames *f = user;
    ssize_t n = f->write(from, size, f->user);

    (void)flags;
    if (n > 0)
        return n;
    wslay_event_set_error(wslay, n ? WSLAY_ERR_CALLBACK_FAILURE
                                   : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static int
on_mask(wslay_event_context_ptr wslay, uint8_t *to, size_t size, void *user)
{
    (void)wslay;
    (void)user;
    return getrandom(to, size, 0) == (ssize_t)size ? 0 : -1;
}

static void
on_frame(wslay_event_context_ptr wslay,
         const struct wslay_event_on_frame_recv_start_arg *frame, void *user)
{
    struct frames *f = user;
    const size_t none = 0;
    size_t so_far;

    (void)wslay;
    f->is_data = !wslay_is_ctrl_frame(frame->opcode);
    if (!f->is_data)
        return;
    if (frame->opcode == WSLAY_BINARY_FRAME) {
        finish_frames(f, LIVE_BROKEN, "the broker sent a binary message");
        return;
    }
    if (frame->opcode == WSLAY_TEXT_FRAME) {
        f->open = f->inbox.size;
        buf_add(&f->inbox, &none, sizeof(none));
    }
    so_far = f->inbox.size - f->open - sizeof(none);
    if (frame->payload_length > LIVE_MESSAGE_MAX - so_far)
        finish_frames(f, LIVE_BROKEN,
                      "the broker sent a message of more than %d bytes",
                      LIVE_MESSAGE_MAX);
}

static void
on_part(wslay_event_context_ptr wslay,
        const struct wslay_event_on_frame_recv_chunk_arg *part, void *user)
{
    struct frames *f = user;

    (void)wslay;
    if (!f->is_data || f->is_over)
        return;
    buf_add(&f->inbox, part->data, part->data_length);
    f->n_data += part->data_length;
    if (f->inbox.failed)
        finish_frames(f, LIVE_MEMORY, NO_MEMORY);
}

/* Takes a complete message, or a complete control frame. */
static void
on_whole(wslay_event_context_ptr wslay,
         const struct wslay_event_on_msg_recv_arg *message, void *user)
{
    struct frames *f = user;
    size_t size;

    (void)wslay;
    if (f->is_over)
        return;
    if (message->opcode == WSLAY_TEXT_FRAME) {
        size = f->inbox.size - f->open - sizeof(size);
        memcpy(f->inbox.data + f->open, &size, sizeof(size));
        f->open = SIZE_MAX;
        f->n_whole++;
    } else if (message->opcode == WSLAY_CONNECTION_CLOSE) {
        f->end.code = message->status_code;
        if (message->msg_length > 2 && message->msg[2])
            finish_frames(f, LIVE_CLOSED, "%.*s",
                          (int)(message->msg_length - 2),
                          (const char *)message->msg + 2);
        else
            finish_frames(f, LIVE_CLOSED, "the broker ended the connection");
    }
}

struct frames *
frames_new(frames_read_fn *read, frames_write_fn *write, void *user)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_read,
        .send_callback = on_write,
        .genmask_callback = on_mask,
        .on_frame_recv_start_callback = on_frame,
        .on_frame_recv_chunk_callback = on_part,
        .on_msg_recv_callback = on_whole,
    };
    struct frames *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    if (wslay_event_context_client_init(&f->wslay, &callbacks, f)) {
        free(f);
        return NULL;
    }
    /* This file collects the messages and checks their size. */
    wslay_event_config_set_no_buffering(f->wslay, 1);
    wslay_event_config_set_max_recv_msg_length(f->wslay, INT64_MAX);
    f->read = read;
    f->write = write;
    f->user = user;
    f->open = SIZE_MAX;
    buf_init(&f->inbox, INBOX_MAX);
    return f;
}

void
frames_free(struct frames *f)
{
    if (!f)
        return;
    wslay_event_context_free(f->wslay);
    buf_fini(&f->inbox);
    free(f);
}

/* Takes the first whole message. */
static void
take_message(struct frames *f, char **bytes, size_t *size)
{
    memcpy(size, f->inbox.data + f->first, sizeof(*size));
    *bytes = f->inbox.data + f->first + sizeof(*size);
    f->first += sizeof(*size) + *size;
    f->n_whole--;
}

/* Moves the incomplete message to the front once all whole ones are taken. */
static void
drop_message(struct frames *f)
{
    size_t left = f->inbox.size - f->first;

    if (f->n_whole || !f->first)
        return;
    memmove(f->inbox.data, f->inbox.data + f->first, left);
    f->inbox.size = left;
    f->first = 0;
    if (f->open != SIZE_MAX)
        f->open = 0;
}

/* A failed write is no end: a farewell may still come. */
static void
write_on(struct frames *f)
{
    if (wslay_event_want_write(f->wslay) && wslay_event_send(f->wslay))
        wslay_event_shutdown_write(f->wslay);
}

enum frames_next
frames_next(struct frames *f, char **bytes, size_t *size)
{
    drop_message(f);
    for (;;) {
        int rc;

        if (f->n_whole) {
            take_message(f, bytes, size);
            return FRAMES_MESSAGE;
        }
        if (f->is_over)
            return FRAMES_OVER;
        f->is_dry = false;
        rc = wslay_event_recv(f->wslay);
        if (rc == WSLAY_ERR_NOMEM)
            finish_frames(f, LIVE_MEMORY, NO_MEMORY);
        else if (rc || !wslay_event_get_read_enabled(f->wslay))
            finish_frames(f, LIVE_LOST,
                          "the broker broke the rules of WebSocket");
        write_on(f);
        if (!f->n_whole && !f->is_over && (f->is_dry || is_full(f)))
            return FRAMES_DRY;
    }
}

bool
frames_send(struct frames *f, struct slice text)
{
    const struct wslay_event_msg message = {
        WSLAY_TEXT_FRAME, (const uint8_t *)text.data, text.size};

    return !f->is_over &&
           wslay_event_get_queued_msg_length(f->wslay) + text.size <=
               SEND_MAX &&
           !wslay_event_queue_msg(f->wslay, &message);
}

int
frames_wants(const struct frames *f)
{
    return (is_full(f) ? 0 : READY_READ) |
           (wslay_event_want_write(f->wslay) ? READY_WRITE : 0);
}

const struct live_end *
frames_end(const struct frames *f)
{
    return &f->end;
}

uint64_t
frames_n_data(const struct frames *f)
{
    return f->n_data;
}

bool
frames_is_used(const struct frames *f)
{
    return f->is_used;
}

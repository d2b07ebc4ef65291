/*
 * websocket.c - a WebSocket, by libwebsockets (client/lib/lws_loop.h).
 *
 *     lws_loop: connects, asks --+--> open: frames ----> inbox --> messages
 *                                +--> refused: a GET has the reason
 *
 *     inbox:  size, message | size, message | size, the part that has come
 *
 * The library hands over frames in pieces of at most 64 KB. The inbox collects
 * them to messages, and inflates deflated ones. It also holds what the library
 * had read when the caller paused: only then the library stops reading. So it
 * holds at most one long message and 64 KB of others.
 *
 * A proxy that does not know WebSockets answers something else, or ends the
 * connection: that is LIVE_UNFIT. The library does not read the body of a
 * refusal; where the broker itself refuses, a GET of the same URL asks for its
 * words.
 *
 * Pings are no sign of life: a proxy may send them for a broker that hangs. The
 * broker's heartbeats are messages.
 *
 * The client sends no farewell: it keeps the position; the broker keeps nothing
 * for it.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/inflater.h"
#include "client/follow/transport.h"
#include "client/lib/fetch.h"
#include "client/lib/lws_loop.h"
#include "proto/http/ws_frames.h"
#include "proto/number.h"

/* Most bytes of a refusal that are read. */
#define REFUSAL_MAX 65536

/* Bytes of messages that wait to be written: more than all sets of a source
 * need to join once (shared_stream.h). */
#define SEND_MAX (4 * 1024 * 1024)

/* One long message, and 256 KB for deflated bytes and other messages. */
#define INBOX_MAX (LIVE_MESSAGE_MAX + 4 * 65536)

/* The first reserved bit of a frame: its message is deflated (RFC 7692). */
#define RSV1 0x40

struct websocket {
    struct live *live;
    struct lws_link link;
    bool is_open;
    bool is_used;         /* a frame has come */
    bool is_flow_stopped; /* the library reads nothing for now */
    uint64_t n_left;      /* bytes of the frame that come, at the last look */

    /* The inbox is live->held. */
    size_t first;     /* where the first message not taken begins */
    size_t open;      /* where the incomplete message begins; SIZE_MAX: there is
                         none */
    bool is_deflated; /* the incomplete message is */
    bool is_in_frame; /* more pieces of a frame come */
    bool has_over;    /* the connection ended, as `over` says */
    struct live_end over;

    struct buf outbox; /* size, room for a frame's head, message | ... */

    /* A refusal */
    struct fetch_answer refusal;
    char type[100];
};

/* The end, behind the messages that wait */

static void
finish_over(struct websocket *w)
{
    const struct live_end *over = &w->over;

    if (over->how == LIVE_CLOSED)
        live_finish_closed(w->live, over->code, over->why.text);
    else
        live_finish(w->live, over->how, "%s", over->why.text);
}

static bool
has_message(const struct websocket *w)
{
    return w->first < (w->open == SIZE_MAX ? w->live->held.size : w->open);
}

/* Notes the end; only the first reason counts. Returns what ends the library's
 * connection. */
static int __attribute__((format(printf, 3, 4)))
end_frames(struct websocket *w, enum live_how how, const char *format, ...)
{
    va_list args;

    if (w->has_over)
        return -1;
    w->has_over = true;
    w->over.how = how;
    va_start(args, format);
    problem_vset(&w->over.why, STATUS_UNREACHABLE, format, args);
    va_end(args);
    if (!has_message(w))
        finish_over(w);
    return -1;
}

static int
end_broken(struct websocket *w)
{
    return end_frames(w, LIVE_LOST, "the broker broke the rules of WebSocket");
}

/* Messages */

static bool
is_utf8(struct slice text)
{
    struct utf8_place place = {.n_missing = 0};
    const uint64_t high = 0x8080808080808080;
    uint64_t eight;

    for (size_t i = 0; i < text.size; i++) {
        while (place.n_missing == 0 && i + sizeof(eight) < text.size) {
            memcpy(&eight, text.data + i, sizeof(eight));
            if (eight & high)
                break;
            i += sizeof(eight);
        }
        if (!utf8_advance(&place, (unsigned char)text.data[i]))
            return false;
    }
    return place.n_missing == 0;
}

/* Hands over the messages that wait, until a pause. */
static void
turn_inbox(struct websocket *w)
{
    struct live *live = w->live;
    struct buf *inbox = &live->held;
    size_t left;

    while (!live->is_ending && !live->is_paused && has_message(w)) {
        char *bytes = inbox->data + w->first + sizeof(size_t);
        size_t size;

        memcpy(&size, inbox->data + w->first, sizeof(size));
        w->first += sizeof(size) + size;
        if (!live_message(live, bytes, size))
            return;
    }
    if (has_message(w) || live->is_ending)
        return;
    left = inbox->size - w->first;
    if (left > 0 && w->first > 0)
        memmove(inbox->data, inbox->data + w->first, left);
    inbox->size = left;
    w->open = w->open == SIZE_MAX ? SIZE_MAX : 0;
    w->first = 0;
    if (w->has_over)
        finish_over(w);
}

/* The message at w->open is complete: inflates it in its place, if need be. */
static int
take_message(struct websocket *w)
{
    struct buf *inbox = &w->live->held;
    size_t begin = w->open + sizeof(size_t);
    struct slice text = {inbox->data + begin, inbox->size - begin};
    enum status rc = STATUS_OK;

    if (w->is_deflated) {
        struct inflater *inflater = lws_loop_inflater(w->live->client->sockets);

        inbox->size = begin; /* the inflater copies its input */
        rc = inflater ? inflater_read(inflater, text, inbox, NULL)
                      : STATUS_MEMORY;
        text = (struct slice){inbox->data + begin, inbox->size - begin};
    }
    if (rc == STATUS_MEMORY || inbox->failed)
        return end_frames(w, LIVE_MEMORY, NO_MEMORY);
    if (rc == STATUS_TOO_LARGE || text.size > LIVE_MESSAGE_MAX)
        return end_frames(w, LIVE_BROKEN,
                          "the broker sent a message of more than %d bytes",
                          LIVE_MESSAGE_MAX);
    if (rc || !is_utf8(text))
        return end_broken(w);
    memcpy(inbox->data + w->open, &text.size, sizeof(text.size));
    w->open = SIZE_MAX;
    turn_inbox(w);
    return w->live->is_ending ? -1 : 0;
}

/* A piece of a frame. */
static int
on_piece(struct websocket *w, char *bytes, size_t size)
{
    struct buf *inbox = &w->live->held;
    struct lws *wsi = w->link.wsi;
    const size_t none = 0;
    int bits = lws_get_reserved_bits(wsi);
    bool is_first = lws_is_first_fragment(wsi);
    bool has_begun = w->is_in_frame; /* each piece has the bits of its frame */
    size_t so_far;

    w->is_used = true;
    w->is_in_frame = lws_remaining_packet_payload(wsi) > 0;
    if (is_first && w->open == SIZE_MAX) {
        w->is_deflated = bits == RSV1 && w->link.is_deflated;
        w->open = inbox->size;
        buf_add(inbox, &none, sizeof(none));
        bits = w->is_deflated ? 0 : bits;
    } else if (has_begun && w->is_deflated && bits == RSV1) {
        bits = 0;
    }
    if (lws_frame_is_binary(wsi))
        return end_frames(w, LIVE_BROKEN, "the broker sent a binary message");
    if (w->open == SIZE_MAX || bits)
        return end_broken(w);
    live_heard(w->live);
    so_far = inbox->size - w->open - sizeof(none);
    if (size + lws_remaining_packet_payload(wsi) > LIVE_MESSAGE_MAX - so_far)
        return end_frames(w, LIVE_BROKEN,
                          "the broker sent a message of more than %d bytes",
                          LIVE_MESSAGE_MAX);
    buf_add(inbox, bytes, size);
    if (inbox->failed)
        return end_frames(w, LIVE_MEMORY, NO_MEMORY);
    return lws_is_final_fragment(wsi) ? take_message(w) : 0;
}

/* The end of the connection */

static int
on_farewell(struct websocket *w, const char *bytes, size_t size)
{
    struct slice reason = SLICE("");
    unsigned code = 0;

    if (size >= 2) {
        code = (unsigned char)bytes[0] << 8 | (unsigned char)bytes[1];
        reason = (struct slice){bytes + 2, size - 2};
    }
    /* The library's word for most wrong codes is PROTOCOL_ERR. */
    if (code == LWS_CLOSE_STATUS_PROTOCOL_ERR ||
        (size >= 2 && !ws_close_may_be_sent(code)) || !is_utf8(reason))
        return end_broken(w);
    if (reason.size == 0 || !reason.data[0])
        reason = SLICE("the broker ended the connection");
    w->over.code = code;
    end_frames(w, LIVE_CLOSED, "%.*s", SLICE_ARG(reason));
    return 0; /* the library answers it, and closes the connection */
}

/* True if the connection stands: then the library has closed it, and nobody
 * else. */
static bool
is_standing(struct lws *wsi)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);

    return !getsockopt(lws_get_socket_fd(wsi), IPPROTO_TCP, TCP_INFO, &info,
                       &size) &&
           info.tcpi_state == TCP_ESTABLISHED;
}

/* Refusals */

/* The end of the GET that asks for the reason: it counts if it was refused in
 * the same way. */
static void
on_reason(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct websocket *w = user;
    bool is_same = !why->rc && answer->status == w->refusal.status;

    w->live->fetch = NULL;
    answer->type = w->type; /* the first answer says whose it is */
    live_finish_refused(w->live, is_same ? answer : &w->refusal);
}

static bool
on_no_reason(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    (void)answer;
    (void)bytes;
    (void)user;
    return false; /* no refusal any more */
}

static void
read_refusal(struct websocket *w, unsigned status)
{
    static const char *const headers[] = {"Accept: application/problem+json",
                                          NULL};
    const struct fetch_request request = {.url = w->live->url,
                                          .headers = headers,
                                          .max_bytes = REFUSAL_MAX,
                                          .silence_s = SILENCE_S,
                                          .kind = HOST_PLACE_STREAM};
    struct lws *wsi = w->link.wsi;
    char text[20] = "";
    uint64_t seconds;

    w->refusal.status = status;
    w->refusal.type = w->type;
    if (status == 401)
        w->refusal.note =
            servers_token_note(&w->live->client->servers, w->live->url);
    if (lws_hdr_copy(wsi, w->type, sizeof(w->type),
                     WSI_TOKEN_HTTP_CONTENT_TYPE) < 0)
        w->type[0] = '\0';
    if (lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_HTTP_RETRY_AFTER) > 0 &&
        number_read(slice_of(text), &seconds) && seconds <= RETRY_AFTER_MOST)
        w->refusal.retry_after_s = (unsigned)seconds;
    if (!live_is_type(w->type, "application/problem+json") ||
        (status == 401 &&
         servers_renew_token(&w->live->client->servers, w->live->url,
                             w->live->token_version))) {
        live_finish_refused(w->live, &w->refusal);
        return;
    }
    w->live->fetch =
        fetch_start(w->live->client, &request, on_no_reason, on_reason, w);
    if (!w->live->fetch)
        live_finish(w->live, LIVE_MEMORY, NO_MEMORY);
    live_await(w->live, 0);
}

/* No handshake came about after the request. */
static int
on_refused(struct websocket *w, const char *why, size_t size)
{
    struct lws *wsi = w->link.wsi;
    unsigned status = lws_http_client_http_response(wsi);

    if (status >= 200)
        read_refusal(w, status);
    else if (status == 101 && !is_standing(wsi))
        live_finish(w->live, LIVE_LOST,
                    "the connection broke in the handshake");
    else if (is_standing(wsi))
        live_finish(w->live, LIVE_UNFIT, "the handshake failed: %.*s",
                    (int)size, why);
    else
        live_finish(
            w->live,
            lws_hdr_total_length(wsi, WSI_TOKEN_HTTP) ? LIVE_LOST : LIVE_UNFIT,
            "the connection broke %s",
            lws_hdr_total_length(wsi, WSI_TOKEN_HTTP) ? "in the handshake"
                                                      : "instead of an answer");
    return 0;
}

/* Sending */

/* Writes the first message that waits; the library comes again for the next. */
static int
write_message(struct websocket *w)
{
    struct buf *out = &w->outbox;
    unsigned char *text;
    size_t size, whole;

    if (out->size == 0)
        return 0;
    memcpy(&size, out->data, sizeof(size));
    text = (unsigned char *)out->data + sizeof(size) + LWS_PRE;
    whole = sizeof(size) + LWS_PRE + size;
    if (lws_write(w->link.wsi, text, size, LWS_WRITE_TEXT) < (int)size)
        return -1;
    memmove(out->data, out->data + whole, out->size - whole);
    out->size -= whole;
    if (out->size > 0)
        lws_callback_on_writable(w->link.wsi);
    return 0;
}

static bool
send_websocket(struct live *live, struct slice text)
{
    struct websocket *w = live->own;
    static const char head[LWS_PRE];

    if (live->is_ending || !w->is_open || !w->link.wsi || w->has_over ||
        w->outbox.size + text.size > SEND_MAX)
        return false;
    buf_add(&w->outbox, &text.size, sizeof(text.size));
    buf_add(&w->outbox, head, sizeof(head));
    buf_add_slice(&w->outbox, text);
    if (w->outbox.failed)
        return false;
    lws_callback_on_writable(w->link.wsi);
    return true;
}

/* Its life */

static int
on_event(enum lws_callback_reasons what, void *in, size_t size, void *user)
{
    struct websocket *w = user;

    if (w->live->is_ending || w->has_over)
        return what == LWS_CALLBACK_CLIENT_RECEIVE ? -1 : 0;
    switch (what) {
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        return on_refused(w, in ? in : "", in ? size : 0);
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        w->is_open = true;
        live_heard(w->live);
        return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        return on_piece(w, in, size);
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return write_message(w);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        return on_farewell(w, in, size);
    case LWS_CALLBACK_CLIENT_CLOSED:
        if (is_standing(w->link.wsi))
            return end_broken(w);
        return end_frames(w, w->is_used ? LIVE_LOST : LIVE_UNFIT,
                          "the connection broke%s",
                          w->is_used ? "" : " behind the handshake");
    default:
        return 0;
    }
}

static void
on_failed(const struct problem *why, void *user)
{
    struct websocket *w = user;

    live_finish(w->live,
                why->rc == STATUS_MEMORY        ? LIVE_MEMORY
                : why->rc == STATUS_MALFORMED   ? LIVE_BROKEN
                : why->rc == STATUS_UNSUPPORTED ? LIVE_UNFIT
                                                : LIVE_LOST,
                "%s", why->text);
}

/* Stops the library's reading, or hands over what waits and reads on. */
static void
continue_websocket(void *user)
{
    struct live *live = user;
    struct websocket *w = live->own;
    uint64_t before = w->n_left;

    if (live->is_late) {
        /* Some of a frame may have come since the last look: it may be long,
         * and come slowly. */
        w->n_left = w->link.wsi && w->is_open
                        ? lws_remaining_packet_payload(w->link.wsi)
                        : 0;
        if (w->n_left > 0 && w->n_left != before)
            live_heard(live);
    }
    turn_inbox(w);
    if (live->is_ending || !w->is_open || !w->link.wsi || w->has_over ||
        w->is_flow_stopped == live->is_paused)
        return;
    w->is_flow_stopped = live->is_paused;
    lws_rx_flow_control(w->link.wsi, !w->is_flow_stopped);
}

static bool
start_websocket(struct live *live)
{
    struct websocket *w = live->own;

    w->live = live;
    w->open = SIZE_MAX;
    buf_init(&live->held, INBOX_MAX);
    buf_init(&w->outbox, SEND_MAX + 65536);
    w->link.url = live->url;
    w->link.protocol =
        live->request.form == TD_XML ? "resourcesync.xml" : "resourcesync.json";
    w->link.on_event = on_event;
    w->link.on_failed = on_failed;
    w->link.user = w;
    live_await(live, 0);
    return lws_loop_open(&w->link, live->client);
}

static void
stop_websocket(struct live *live)
{
    struct websocket *w = live->own;

    lws_loop_close(&w->link);
    buf_fini(&w->outbox);
}

const struct transport transport_websocket = {
    .name = TD_WEBSOCKET,
    .size = sizeof(struct websocket),
    .start = start_websocket,
    .stop = stop_websocket,
    .go_on = continue_websocket,
    .send = send_websocket,
    .is_held_back = true,
};

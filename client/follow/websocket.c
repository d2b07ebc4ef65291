/*
 * websocket.c - a WebSocket, by libwebsockets (client/lib/lws_loop.h).
 *
 *     lws_loop: connects, asks --+--> open: frames ----> inbox --> messages
 *                                +--> refused: a GET has the reason
 *
 * The library hands over frames in pieces of at most 64 KB. The inbox collects
 * them to one message, and inflates a deflated one. In a pause the library stops
 * reading, but hands over what it has read before: so one long message and 64 KB
 * of others may wait (live_message).
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
#include "proto/swar.h"

/* Most bytes of a refusal that are read. */
#define REFUSAL_MAX 65536

/* Bytes of messages that wait to be written: more than all sets of a source
 * need to join once (shared_stream.h). */
#define SEND_MAX (4 * 1024 * 1024)

/* One long message, and 256 KB for deflated bytes. */
#define INBOX_MAX (LIVE_MESSAGE_MAX + 4 * 65536)

/* The first reserved bit of a frame: its message is deflated (RFC 7692). */
#define RSV1 0x40

struct websocket {
    struct live *live;
    struct lws_link link;
    bool is_used;         /* a frame has come */
    bool is_flow_stopped; /* the library reads nothing for now */
    uint64_t n_left;      /* bytes of the frame that come, at the last look */

    /* The inbox is live->held. */
    bool has_part;    /* it has an incomplete message */
    bool is_deflated; /* which is deflated */
    bool is_in_frame; /* more pieces of a frame come */

    struct buf outbox; /* size, room for a frame's head, message | ... */

    /* A refusal */
    struct fetch_answer refusal;
    char type[100];
};

/* Messages */

static void
end_broken(struct websocket *w)
{
    live_finish(w->live, LIVE_LOST, "the broker broke the rules of WebSocket");
}

static void
end_too_long(struct websocket *w)
{
    live_finish(w->live, LIVE_BROKEN,
                "the broker sent a message of more than %d bytes",
                LIVE_MESSAGE_MAX);
}

static uint64_t
is_high(uint64_t v)
{
    return v & SWAR_HIGHS;
}

static bool
is_utf8(struct slice text)
{
    return swar_none(text, is_high, ' ') || utf8_is_text(text, NULL);
}

/* The message is complete: inflates it in its place, if need be. */
static void
take_message(struct websocket *w)
{
    struct buf *inbox = &w->live->held;
    struct slice text = buf_slice(inbox);
    enum status rc = STATUS_OK;

    if (w->is_deflated) {
        struct inflater *inflater = lws_loop_inflater(w->live->client->sockets);

        inbox->size = 0; /* the inflater copies its input */
        rc = inflater ? inflater_read(inflater, text, inbox, NULL)
                      : STATUS_MEMORY;
        text = buf_slice(inbox);
    }
    w->has_part = false;
    if (rc == STATUS_MEMORY || inbox->failed)
        live_finish(w->live, LIVE_MEMORY, NO_MEMORY);
    else if (rc == STATUS_TOO_LARGE || text.size > LIVE_MESSAGE_MAX)
        end_too_long(w);
    else if (rc || !is_utf8(text))
        end_broken(w);
    else
        live_message(w->live, inbox->data, inbox->size);
}

/* A piece of a frame. */
static void
on_piece(struct websocket *w, char *bytes, size_t size)
{
    struct buf *inbox = &w->live->held;
    struct lws *wsi = w->link.wsi;
    int bits = lws_get_reserved_bits(wsi);
    bool is_first = lws_is_first_fragment(wsi);
    bool has_begun = w->is_in_frame; /* each piece has the bits of its frame */

    w->is_used = true;
    w->is_in_frame = lws_remaining_packet_payload(wsi) > 0;
    if (is_first && !w->has_part) {
        w->is_deflated = bits == RSV1 && w->link.is_deflated;
        w->has_part = true;
        buf_clear(inbox);
        bits = w->is_deflated ? 0 : bits;
    } else if (has_begun && w->is_deflated && bits == RSV1) {
        bits = 0;
    }
    if (lws_frame_is_binary(wsi)) {
        live_finish(w->live, LIVE_BROKEN, "the broker sent a binary message");
    } else if (!w->has_part || bits) {
        end_broken(w);
    } else if (size + lws_remaining_packet_payload(wsi) >
               LIVE_MESSAGE_MAX - inbox->size) {
        end_too_long(w);
    } else {
        live_heard(w->live);
        buf_add(inbox, bytes, size);
        if (inbox->failed)
            live_finish(w->live, LIVE_MEMORY, NO_MEMORY);
        else if (lws_is_final_fragment(wsi))
            take_message(w);
    }
}

/* The end of the connection */

static int
on_farewell(struct websocket *w, const char *bytes, size_t size)
{
    struct slice reason = SLICE("");
    unsigned code = 0;
    char text[126]; /* a frame of control has 125 bytes at most */

    if (size >= 2) {
        code = (unsigned char)bytes[0] << 8 | (unsigned char)bytes[1];
        reason = (struct slice){bytes + 2, size - 2};
    }
    /* The library's word for most wrong codes is PROTOCOL_ERR. */
    if (code == LWS_CLOSE_STATUS_PROTOCOL_ERR ||
        (size >= 2 && !ws_close_may_be_sent(code)) || !is_utf8(reason)) {
        end_broken(w);
        return -1;
    }
    if (reason.size == 0 || !reason.data[0])
        reason = SLICE("the broker ended the connection");
    snprintf(text, sizeof(text), "%.*s", SLICE_ARG(reason));
    live_finish_closed(w->live, code, text);
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
static void
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

    if (live->is_over || !live->is_answered || !w->link.wsi ||
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

    if (w->live->is_over)
        return what == LWS_CALLBACK_CLIENT_RECEIVE ? -1 : 0;
    switch (what) {
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        on_refused(w, in ? in : "", in ? size : 0);
        return 0;
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        live_heard(w->live);
        return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        on_piece(w, in, size);
        return w->live->is_over ? -1 : 0;
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return write_message(w);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        return on_farewell(w, in, size);
    case LWS_CALLBACK_CLIENT_CLOSED:
        if (is_standing(w->link.wsi))
            end_broken(w);
        else
            live_finish(w->live, w->is_used ? LIVE_LOST : LIVE_UNFIT,
                        "the connection broke%s",
                        w->is_used ? "" : " behind the handshake");
        return -1;
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
continue_websocket(struct live *live)
{
    struct websocket *w = live->own;
    uint64_t before = w->n_left;

    if (live->is_late) {
        /* Some of a frame may have come since the last look: it may be long,
         * and come slowly. */
        w->n_left = w->link.wsi && live->is_answered
                        ? lws_remaining_packet_payload(w->link.wsi)
                        : 0;
        if (w->n_left > 0 && w->n_left != before)
            live_heard(live);
    }
    if (!live->is_answered || !w->link.wsi ||
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
    buf_init(&live->held, INBOX_MAX);
    buf_init(&w->outbox, SEND_MAX + 65536);
    w->link.url = live->url;
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

/*
 * websocket.c - a WebSocket: libcurl makes the connection (names, proxies,
 * TLS), and then only carries bytes.
 *
 *     CONNECTING --> ASKING --> ANSWER --+--> OPEN     websocket_frames.h
 *                                        +--> REFUSAL  the body has the reason
 *
 * A proxy that does not know WebSockets answers something else, or ends the
 * connection: that is LIVE_UNFIT.
 *
 * Pings are no sign of life: a proxy may send them for a broker that hangs. The
 * broker's heartbeats are messages.
 *
 * The client sends no farewell: it keeps the position; the broker keeps nothing
 * for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "client/follow/transport.h"
#include "client/follow/websocket_frames.h"
#include "client/lib/curl_loop.h"
#include "client/lib/fetch.h"
#include "proto/http/ws_handshake.h"

/* The head of the request; it includes the lines of td_header. */
#define REQUEST_MAX 262144

/* The answer, with its body if it is a refusal. */
#define REFUSAL_MAX 65536

/* Most messages and bytes in one turn of the loop; then other users have
 * theirs. A timer of 0 ms would expire in the same turn. */
#define TURN_MESSAGES 256
#define TURN_BYTES    (2 * 1024 * 1024)
#define TURN_MS       1

enum state { CONNECTING, ASKING, ANSWER, REFUSAL, OPEN };

struct websocket {
    struct live *live;
    enum state state;
    struct curl_loop_transfer transfer;
    char *authority; /* "host:port", as in the request */
    struct descriptor *descriptor;

    char key[UPGRADE_KEY_SIZE];
    struct buf request;
    size_t n_sent;
    struct buf answer; /* its head, and bytes after it */
    size_t n_read;     /* bytes of it that frames have read */
    struct upgrade_answer upgrade;
    char *type; /* of a refusal */
    struct frames *frames;
};

static const char *
protocol_of(const struct live *live)
{
    return live->form == TD_XML ? "resourcesync.xml" : "resourcesync.json";
}

/* Bytes */

/* Returns the value of a frames_read_fn. */
static ssize_t
receive_bytes(struct websocket *w, void *to, size_t size)
{
    size_t n = 0;
    CURLcode code = curl_easy_recv(w->transfer.easy, to, size, &n);

    if (code == CURLE_AGAIN)
        return 0;
    if (code || n == 0)
        return -1;
    return (ssize_t)n;
}

static ssize_t
on_read(void *to, size_t size, void *user)
{
    struct websocket *w = user;
    size_t left = w->answer.size - w->n_read;

    if (left == 0)
        return receive_bytes(w, to, size);
    if (size > left)
        size = left;
    memcpy(to, w->answer.data + w->n_read, size);
    w->n_read += size;
    if (size == left) {
        buf_fini(&w->answer);
        w->n_read = 0;
    }
    return (ssize_t)size;
}

static ssize_t
on_write(const void *from, size_t size, void *user)
{
    struct websocket *w = user;
    size_t n = 0;
    CURLcode code = curl_easy_send(w->transfer.easy, from, size, &n);

    if (code == CURLE_AGAIN)
        return 0;
    return code ? -1 : (ssize_t)n;
}

/* Open */

static void
finish_over(struct websocket *w)
{
    const struct live_end *end = frames_end(w->frames);

    if (end->how == LIVE_CLOSED)
        live_finish_closed(w->live, end->code, end->why.text);
    else if (end->how == LIVE_LOST && !frames_is_used(w->frames))
        live_finish(w->live, LIVE_UNFIT,
                    "the connection broke behind the handshake");
    else
        live_finish(w->live, end->how, "%s", end->why.text);
}

/* Hands over messages, and waits for more. */
static void
turn_websocket(struct websocket *w)
{
    struct live *live = w->live;
    enum frames_next next = FRAMES_MESSAGE;
    size_t n_messages = 0, n_bytes = 0;

    while (!live->is_paused && n_messages < TURN_MESSAGES &&
           n_bytes < TURN_BYTES) {
        uint64_t n_data = frames_n_data(w->frames);
        char *bytes;
        size_t size;

        next = frames_next(w->frames, &bytes, &size);
        if (frames_n_data(w->frames) > n_data)
            live_heard(live);
        if (next != FRAMES_MESSAGE)
            break;
        n_messages++;
        n_bytes += size;
        if (!live_message(live, bytes, size))
            return; /* perhaps without `w` */
    }
    if (next == FRAMES_OVER) {
        descriptor_set(w->descriptor, 0);
        finish_over(w);
    } else if (live->is_paused) {
        descriptor_set(w->descriptor, 0);
    } else if (next == FRAMES_DRY) {
        descriptor_set(w->descriptor, frames_wants(w->frames));
    } else {
        timer_start(live->again, TURN_MS); /* more messages wait */
    }
}

static void
open_frames(struct websocket *w)
{
    w->n_read = w->upgrade.head_size;
    w->frames = frames_new(on_read, on_write, w);
    if (!w->frames) {
        live_finish(w->live, LIVE_MEMORY, NO_MEMORY);
        return;
    }
    w->state = OPEN;
    live_heard(w->live);
    timer_start(w->live->again, 0); /* messages may have come with the answer */
}

/* The handshake */

/* Reads the body of a refusal; `is_ended`: no more will come. */
static void
read_refusal(struct websocket *w, bool is_ended)
{
    struct slice behind = {w->answer.data + w->upgrade.head_size,
                           w->answer.size - w->upgrade.head_size};
    struct fetch_answer answer = {.status = w->upgrade.status,
                                  .retry_after_s = w->upgrade.retry_after_s,
                                  .type = w->type ? w->type : ""};
    enum status rc;

    buf_init(&answer.body, REFUSAL_MAX);
    rc = upgrade_body(&w->upgrade, behind, is_ended, &answer.body);
    if (rc != STATUS_AGAIN || is_ended || answer.body.failed) {
        if (rc || answer.body.failed)
            buf_clear(&answer.body); /* only the status remains */
        if (answer.status == 401)
            answer.note =
                servers_token_note(&w->live->client->servers, w->live->url);
        live_finish_refused(w->live, &answer);
    }
    buf_fini(&answer.body);
}

static void
read_head(struct websocket *w)
{
    struct problem why = {.text = ""};
    enum status rc = upgrade_read(buf_slice(&w->answer), &w->upgrade, &why);

    if (rc == STATUS_AGAIN)
        return;
    if (!rc && w->upgrade.status != 101) {
        w->state = REFUSAL;
        w->type = slice_dup(w->upgrade.type); /* the bytes will move */
        read_refusal(w, false);
        return;
    }
    if (!rc)
        rc = upgrade_check(&w->upgrade, w->key, protocol_of(w->live), &why);
    if (rc)
        live_finish(w->live, LIVE_UNFIT, "the handshake failed: %s", why.text);
    else
        open_frames(w);
}

static void
end_handshake(struct websocket *w)
{
    if (w->state == REFUSAL)
        read_refusal(w, true);
    else if (w->answer.size == 0)
        live_finish(w->live, LIVE_UNFIT,
                    "the connection broke instead of an answer");
    else
        live_finish(w->live, LIVE_LOST,
                    "the connection broke in the handshake");
}

/* Reads until no bytes are left, or the handshake is over. */
static void
read_answer(struct websocket *w)
{
    ssize_t n;

    while (w->state != OPEN && !w->live->is_ending) {
        char *room = buf_room(&w->answer, 4096);

        n = room ? receive_bytes(w, room, 4096) : -1;
        if (n == 0)
            return;
        if (n < 0) {
            end_handshake(w);
            return;
        }
        w->answer.size += (size_t)n;
        if (w->state == ANSWER)
            read_head(w);
        else
            read_refusal(w, false);
    }
}

static void
send_handshake(struct websocket *w)
{
    while (w->n_sent < w->request.size) {
        ssize_t n = on_write(w->request.data + w->n_sent,
                             w->request.size - w->n_sent, w);

        if (n == 0)
            return;
        if (n < 0) {
            live_finish(w->live, LIVE_LOST, "the connection to %s broke",
                        w->authority);
            return;
        }
        w->n_sent += (size_t)n;
    }
    buf_fini(&w->request);
    w->state = ANSWER;
    descriptor_set(w->descriptor, READY_READ);
}

static void
continue_websocket(void *user)
{
    struct websocket *w = user;

    if (w->live->is_ending)
        return;
    switch (w->state) {
    case CONNECTING:
        break;
    case ASKING:
        send_handshake(w);
        break;
    case ANSWER:
    case REFUSAL:
        read_answer(w);
        break;
    case OPEN:
        turn_websocket(w);
        break;
    }
}

static void
on_ready(int events, void *user)
{
    (void)events;
    continue_websocket(user);
}

/* Connecting */

static void
fail_to_connect(struct websocket *w, CURLcode result)
{
    static const char prefix[] = "SSL certificate problem: ";
    bool is_refused;
    const char *text = curl_loop_reason(&w->transfer, result, &is_refused);

    if (is_refused) {
        live_finish(w->live, LIVE_BROKEN, "%s", text);
    } else if (result == CURLE_OUT_OF_MEMORY) {
        live_finish(w->live, LIVE_MEMORY, NO_MEMORY);
    } else if (result == CURLE_PEER_FAILED_VERIFICATION) {
        if (slice_starts(slice_of(text), prefix))
            text += sizeof(prefix) - 1;
        live_finish(w->live, LIVE_LOST, "the certificate of %s is not good: %s",
                    w->authority, text);
    } else {
        live_finish(w->live, LIVE_LOST, "cannot connect to %s: %s",
                    w->authority, text);
    }
}

static void
on_connected(CURLcode result, void *user)
{
    struct websocket *w = user;
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (result) {
        fail_to_connect(w, result);
        return;
    }
    curl_easy_getinfo(w->transfer.easy, CURLINFO_ACTIVESOCKET, &fd);
    if (fd != CURL_SOCKET_BAD)
        w->descriptor = descriptor_new(w->live->client->loop, fd, on_ready, w);
    if (!w->descriptor) {
        live_finish(w->live, LIVE_MEMORY, "no memory or descriptors left");
        return;
    }
    live_await(w->live, 0);
    w->state = ASKING;
    descriptor_set(w->descriptor, READY_WRITE);
    send_handshake(w);
}

/* Returns the URL in the form that libcurl gives it, for curl_free. */
static CURLUcode
read_url(const char *text, char **url)
{
    CURLU *parts = curl_url();
    CURLUcode rc = CURLUE_OUT_OF_MEMORY;

    if (parts)
        rc = curl_url_set(parts, CURLUPART_URL, text, 0);
    if (!rc)
        rc = curl_url_get(parts, CURLUPART_URL, url, CURLU_NO_DEFAULT_PORT);
    curl_url_cleanup(parts);
    return rc;
}

/* Sets the authority, without a user, and returns what is behind it; NULL: no
 * memory. */
static const char *
split_url(struct websocket *w, const char *url)
{
    const char *host = strstr(url, "://") + 3;
    const char *path = host + strcspn(host, "/");
    const char *user = memchr(host, '@', (size_t)(path - host));

    host = user ? user + 1 : host;
    w->authority = strndup(host, (size_t)(path - host));
    return w->authority ? path : NULL;
}

/* Offers no permessage-deflate. It would save 205 of an entry's 270 bytes, for
 * 0.6 us of CPU here (4.7 without) and 2.1 us in the broker, which compresses
 * for this follower alone while it catches up (measured). False: no memory. */
static bool
write_request(struct websocket *w, const char *path)
{
    struct buf *to = &w->request;

    buf_add_format(to, "GET %.*s HTTP/1.1\r\nHost: %s\r\n",
                   (int)strcspn(path, "#"), path, w->authority);
    buf_add_format(to, "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                       "Sec-WebSocket-Version: 13\r\n");
    buf_add_format(to,
                   "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: %s\r\n",
                   w->key, protocol_of(w->live));
    buf_add_format(to, "User-Agent: libtidings/" TIDINGS_VERSION "\r\n");
    for (const struct curl_slist *line = w->transfer.headers; line;
         line = line->next)
        buf_add_format(to, "%s\r\n", line->data);
    BUF_ADD(to, "\r\n");
    return !to->failed;
}

/* False: no memory. An invalid URL ends the connection. */
static bool
prepare_handshake(struct websocket *w)
{
    struct live *live = w->live;
    uint8_t nonce[UPGRADE_NONCE_SIZE];
    const char *path;
    char *url = NULL;
    CURLUcode rc = read_url(live->url, &url);
    bool is_good = false;

    if (rc && rc != CURLUE_OUT_OF_MEMORY) {
        live_finish(live, LIVE_BROKEN, "no URL of a stream: %.200s", live->url);
        is_good = true;
    } else if (!rc && getrandom(nonce, sizeof(nonce), 0) == sizeof(nonce) &&
               (path = split_url(w, url))) {
        upgrade_key(w->key, nonce);
        is_good = curl_loop_prepare(live->client, &w->transfer, NULL) &&
                  write_request(w, path);
    }
    curl_free(url);
    return is_good;
}

static bool
start_websocket(struct live *live)
{
    struct websocket *w = live->own;
    CURL *easy;

    w->live = live;
    w->transfer.url = live->url;
    w->transfer.on_done = on_connected;
    w->transfer.user = w;
    w->transfer.is_kept = true;
    buf_init(&w->request, REQUEST_MAX);
    buf_init(&w->answer, REFUSAL_MAX);
    if (!prepare_handshake(w))
        return false;
    if (live->is_ending)
        return true;
    easy = w->transfer.easy;
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)live->answer_ms);
    live_await(live, live->answer_ms); /* libcurl reports a timeout before */
    return curl_loop_add(live->client->web, &w->transfer);
}

static void
stop_websocket(struct live *live)
{
    struct websocket *w = live->own;

    frames_free(w->frames);
    descriptor_free(w->descriptor);
    curl_loop_fini(live->client->web, &w->transfer);
    buf_fini(&w->request);
    buf_fini(&w->answer);
    free(w->authority);
    free(w->type);
}

static void
pause_websocket(struct live *live)
{
    struct websocket *w = live->own;

    if (w->state == OPEN)
        descriptor_set(w->descriptor, 0);
}

static bool
send_websocket(struct live *live, struct slice text)
{
    struct websocket *w = live->own;

    if (w->state != OPEN || !frames_send(w->frames, text))
        return false;
    if (!live->is_paused)
        descriptor_set(w->descriptor, frames_wants(w->frames));
    return true;
}

const struct transport transport_websocket = {
    .name = TD_WEBSOCKET,
    .size = sizeof(struct websocket),
    .start = start_websocket,
    .stop = stop_websocket,
    .go_on = continue_websocket,
    .pause = pause_websocket,
    .send = send_websocket,
};

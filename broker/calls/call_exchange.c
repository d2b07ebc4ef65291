/*
 * An exchange: the request of a call, and its answer, on a connection. This
 * file speaks HTTP/1.1. The entries from the loop are here, those of a
 * connection that opens excepted.
 *
 * A call costs one sendmsg() or SSL_write(), one recv() or SSL_read() for the
 * answer, and one that shows that nothing has come before the request. The
 * descriptor stays in the loop's epoll set. (libcurl took two thirds of the
 * time of a call; measured with 2,000 callbacks.)
 *
 * Every byte of an answer is hostile: response_head.h and chunked.h read it
 * strictly, memory is bounded by CALL_HEAD_MAX, CALL_PIECE_MAX and
 * call->max_answer, and the deadline is one of the whole call.
 *
 *     read --> head --> body --> (gunzip) --> body, up to max_answer
 *       ^                            |
 *       |                            +------> piece --> take --> READY --+
 *       +----------------------------------------------------------------+
 */

#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/file.h"
#include "broker/calls/caller_state.h"
#include "proto/datetime.h"
#include "proto/number.h"
#include "proto/uri.h"

/* A body of at most so many bytes goes out in one record with its head. */
#define JOINED_MAX ((size_t)12 * 1024)

/* Reads of a connection by TLS at once: then others have their turn. */
#define READS_AT_ONCE 16

/* Redirects */

static void
end_redirects(struct call *call)
{
    if (call->own.redirected)
        place_leave(call->own.host);
    free(call->own.redirected);
    call->own.redirected = NULL;
}

/* Returns where a redirect leads, for free(). NULL: it does not say it. */
static char *
find_target(struct call_connection *p)
{
    struct slice fields = p->answer.fields;
    char *target = NULL;
    struct head_field f;
    struct buf url = {.max = 2 * CALL_HEAD_MAX};

    while (!target && response_head_next(&fields, &f)) {
        struct buf sendable = {.max = 3 * CALL_HEAD_MAX};

        if (!slice_is_word(f.name, "Location"))
            continue;
        uri_add_sendable(&sendable, f.value);
        uri_resolve(&url, slice_of(call_url(p->call)), buf_slice(&sendable));
        buf_fini(&sendable);
        target = slice_dup(url.failed ? SLICE("") : buf_slice(&url));
    }
    buf_fini(&url);
    return target;
}

static void leave(struct call_connection *p, bool is_kept);
static struct call *release_call(struct call_connection *p);
static void report(struct call *call);

/* Goes on at the target of a redirect. False: this is the answer. */
static bool
follow(struct call_connection *p, bool is_kept)
{
    struct caller *c = p->caller;
    unsigned status = p->answer.status;
    struct place *host;
    struct call *call;
    char *target;

    if (p->call->max_redirects == 0 || status < 301 || status > 308 ||
        (status > 303 && status < 307))
        return false;
    target = find_target(p);
    if (!target)
        return false;
    call = release_call(p);
    host = call_queue_host(&c->queue, target);
    if (host && ++call->own.n_redirects <= call->max_redirects) {
        end_redirects(call);
        call->own.redirected = target;
        call->own.host = host;
        leave(p, is_kept);
        call_begin(c, call);
        return true;
    }
    if (host)
        call_fail(call, CALL_BROKEN, "it redirects more than %u times",
                  call->max_redirects);
    else
        call_fail(call, CALL_REFUSED,
                  "it redirects to a URL that is none that can be called");
    place_leave(host);
    free(target);
    report(call);
    leave(p, is_kept);
    return true;
}

/* The request */

static bool
is_field(const char *line, const char *name)
{
    return !strncasecmp(line, name, strlen(name)) && line[strlen(name)] == ':';
}

static void
write_head(struct buf *to, const struct call_connection *p)
{
    static const char *const methods[] = {
        [CALL_GET] = "GET ",       [CALL_HEAD] = "HEAD ", [CALL_POST] = "POST ",
        [CALL_DELETE] = "DELETE ", [CALL_PUT] = "PUT ",
    };
    const struct call *call = p->call;
    const char *url = call_url(call);
    const char *target = strchr(url, ':') + strlen("://");
    const char *port = p->is_tls ? ":443" : ":80";
    struct slice host = p->host->key;
    bool has_accept = false, has_coding = !call->undoes_coding;
    bool is_elsewhere = call->own.redirected &&
                        (call->own.host != call->own.lane->host ||
                         strncasecmp(url, call->url, strlen("http:")) != 0);

    target += strcspn(target, "/?#");
    buf_clear(to);
    buf_add_text(to, methods[call->method]);
    if (*target != '/')
        BUF_ADD(to, "/");
    buf_add(to, target, strcspn(target, "#"));
    if (slice_ends(host, port))
        host.size -= strlen(port);
    BUF_ADD(to, " HTTP/1.1\r\nHost: ");
    buf_add_slice(to, host);
    BUF_ADD(to, "\r\nUser-Agent: tidings/" TIDINGS_VERSION "\r\n");
    for (const char *const *h = call->headers; h && *h; h++) {
        /* Another server must not get the credentials for the first. */
        if (is_elsewhere && is_field(*h, "Authorization"))
            continue;
        has_accept |= is_field(*h, "Accept");
        has_coding |= is_field(*h, "Accept-Encoding");
        buf_add_text(to, *h);
        BUF_ADD(to, "\r\n");
    }
    if (!has_accept)
        BUF_ADD(to, "Accept: */*\r\n");
    if (!has_coding)
        BUF_ADD(to, "Accept-Encoding: identity\r\n");
    if (call->method == CALL_POST || call->method == CALL_PUT) {
        BUF_ADD(to, "Content-Length: ");
        buf_add_number(to, call->body.size);
        BUF_ADD(to, "\r\n");
    }
    BUF_ADD(to, "\r\n");
}

/* What is sent behind the head, if it is not joined to it. */
static struct slice
body_of(const struct call_connection *p)
{
    return (p->call->method == CALL_POST || p->call->method == CALL_PUT) &&
                   !p->now.is_joined
               ? p->call->body
               : (struct slice){NULL, 0};
}

/* Sends the next piece of a body that is in a file. */
static enum call_io
send_file(struct call_connection *p, size_t *n)
{
    char bytes[CALL_READ_SIZE];
    size_t left = p->now.n_unsent;
    struct slice piece = {bytes, left < sizeof(bytes) ? left : sizeof(bytes)};

    p->heard_us = clock_steady_us();
    return file_read_at(p->call->body_fd, bytes, piece.size,
                        p->call->body_at + p->call->body.size - left)
               ? call_connection_send(p, piece, (struct slice){NULL, 0}, 0, n)
               : IO_BROKEN;
}

/* Sends what the socket takes of the rest of a request, whose head is `head`.
 * False: the connection is broken. */
static bool
send_rest(struct call_connection *p, struct slice head)
{
    struct slice body = body_of(p);
    size_t at = head.size + body.size - p->now.n_unsent, n = 0;
    enum call_io io;

    if (p->call->method != CALL_PUT)
        io = call_connection_send(p, head, body, at, &n);
    else if (at < head.size)
        io = call_connection_send(p, head, (struct slice){NULL, 0}, at, &n);
    else
        io = send_file(p, &n);
    p->now.n_unsent -= n;
    return io == IO_OK || io == IO_AGAIN;
}

static void on_event(uv_poll_t *poll, int status, int events);

/* Watches for the answer, and for room if there is more to send. */
static bool
watch(struct call_connection *p)
{
    bool has_more = p->now.n_unsent > 0 && !p->now.is_unsendable;
    int events = UV_READABLE | (has_more ? UV_WRITABLE : 0);

    if (p->ssl && SSL_want_write(p->ssl))
        events |= UV_WRITABLE;
    return call_socket_watch(p->socket, p->now.is_with_user ? 0 : events,
                             on_event);
}

/* Sends a call's request. False: there is no memory, or the connection, which
 * was kept, is broken. If a new one is broken, its end follows: the other side
 * may have answered before. */
static bool
begin_exchange(struct call_connection *p)
{
    struct buf *request = &p->caller->request;
    struct slice body;

    p->now = (struct call_exchange){.has_request = true};
    p->body.max = p->call->max_answer;
    write_head(request, p);
    body = body_of(p);
    if (p->ssl && body.data && body.size <= JOINED_MAX) {
        buf_add_slice(request, body);
        p->now.is_joined = true;
        body = (struct slice){NULL, 0};
    }
    if (request->failed)
        return false;
    p->now.n_unsent = request->size + body.size;
    p->now.is_unsendable = !send_rest(p, buf_slice(request));
    if (p->now.is_unsendable && p->is_reused)
        return false;
    if (p->now.n_unsent > 0)
        buf_add_slice(&p->request, buf_slice(request));
    return !p->request.failed && watch(p);
}

/* The end of a call */

static void
report(struct call *call)
{
    char *redirected = call->own.redirected;

    call->final_url = call_url(call);
    call->took_us = clock_steady_us() - call->own.began_us;
    if (redirected)
        place_leave(call->own.host);
    call->own.redirected = NULL;
    call_queue_release(call);
    call->done(call); /* which may free or start it */
    free(redirected);
}

/* Takes the call off its connection. */
static struct call *
release_call(struct call_connection *p)
{
    struct call *call = p->call;

    call_connection_clear_alarms(p);
    p->call = NULL;
    call->own.handle = NULL;
    return call;
}

/* Keeps a connection, or closes it. */
static void
leave(struct call_connection *p, bool is_kept)
{
    buf_clear(&p->caller->links);
    list_remove(&p->node);
    if (is_kept && call_socket_watch(p->socket, UV_READABLE, on_event))
        call_connection_keep(p);
    else
        call_connection_close(p);
}

/* Reports the outcome, which is lent from the connection. */
static void
end_exchange(struct call_connection *p, bool is_kept)
{
    report(release_call(p));
    leave(p, is_kept);
}

/* Returns false. */
static bool
fail(struct call_connection *p, enum call_failure failure, const char *why)
{
    call_fail(p->call, failure, "%s", why);
    end_exchange(p, false);
    return false;
}

/* Ends a call whose time is over; while the user has its piece, the user learns
 * that when he has taken it. */
static void
cut(struct call_connection *p)
{
    call_connect_stop(p);
    if (!p->now.is_with_user) {
        end_exchange(p, false);
        return;
    }
    call_connection_hang_up(p);
    call_connection_clear_alarms(p);
}

static void
on_deadline(struct alarm *alarm)
{
    struct call_connection *p =
        list_entry(alarm, struct call_connection, deadline);

    call_fail(p->call, CALL_TIMEOUT, "no %s within %lld ms",
              p->socket && !p->connecting ? "whole answer" : "connection",
              (long long)p->call->timeout_us / 1000);
    cut(p);
}

static void
on_silence(struct alarm *alarm)
{
    struct call_connection *p =
        list_entry(alarm, struct call_connection, silence);
    int64_t now_us = clock_steady_us(), stall_us = p->call->stall_us;

    if (p->now.is_with_user)
        p->heard_us = now_us;
    if (p->heard_us + stall_us > now_us) {
        loop_set_alarm(p->caller->loop, alarm, p->heard_us + stall_us);
        return;
    }
    call_fail(p->call, CALL_TIMEOUT, "no byte of an answer within %lld ms",
              (long long)stall_us / 1000);
    cut(p);
}

static int64_t
retry_after_us(struct slice value)
{
    const int64_t max_s = CALL_RETRY_AFTER_MAX_US / 1000000;
    int64_t wait_s, at_s;
    uint64_t seconds;

    if (number_read_large(value, &seconds))
        return (seconds < (uint64_t)max_s ? (int64_t)seconds : max_s) * 1000000;
    at_s = httpdate_read(value);
    if (at_s == DATETIME_NONE)
        return 0;
    wait_s = at_s - clock_now_us() / 1000000;
    return wait_s <= 0 ? 0 : (wait_s < max_s ? wait_s : max_s) * 1000000;
}

static void begin_anew(struct caller *c, struct call *call);

/* Reports an answer: it is whole, or as long as it may be. */
static void
end_well(struct call_connection *p, bool is_cut, bool is_kept)
{
    struct call *call = p->call;
    struct buf *links = &p->caller->links;
    struct slice fields = p->answer.fields, retry_after = {NULL, 0};

    const struct {
        const char *name;
        struct slice *to;
    } firsts[] = {
        /* Of several fields of a name the first counts. */
        {"Content-Type", &call->content_type},
        {"ETag", &call->etag},
        {"Last-Modified", &call->last_modified},
        {"Retry-After", &retry_after},
    };
    struct head_field f;

    is_kept = is_kept && p->now.n_unsent == 0;
    if (follow(p, is_kept))
        return;
    call->failure = CALL_ANSWERED;
    call->status = p->answer.status;
    call->is_cut = is_cut;
    call->is_coded = p->now.gunzip;
    if (!p->now.is_handed_over)
        call->answer = buf_slice(&p->body);
    while (response_head_next(&fields, &f)) {
        for (size_t i = 0; i < N_ELEMENTS(firsts); i++)
            if (slice_is_word(f.name, firsts[i].name) && !firsts[i].to->data)
                *firsts[i].to = f.value;
        if (slice_is_word(f.name, "Link")) {
            buf_add_text(links, links->size > 0 ? ", " : "");
            buf_add_slice(links, f.value);
        }
    }
    call->retry_after_us = retry_after_us(retry_after);
    call->links = buf_slice(links);
    if (links->failed || p->body.failed)
        fail(p, CALL_MEMORY, NO_MEMORY);
    else
        end_exchange(p, is_kept);
}

/* The connection is broken, without the end of the answer. A kept one may have
 * been closed by a server that was tired of waiting, before it saw the request:
 * then the call is made once more, on a new connection. */
static void
end_broken(struct call_connection *p, bool is_reset)
{
    struct caller *c = p->caller;
    struct call *call;

    if (p->is_reused && !p->now.has_byte) {
        call = release_call(p);
        call_connection_close(p);
        begin_anew(c, call);
    } else if (is_reset) {
        fail(p, CALL_BROKEN, "the connection was reset");
    } else if (!p->now.has_byte) {
        fail(p, CALL_BROKEN, "the connection was closed without an answer");
    } else {
        fail(p, CALL_BROKEN,
             p->now.has_head ? "the answer ended early"
                             : "the answer's head ended early");
    }
}

/* The answer: its head */

static void
fail_head(struct call_connection *p, enum status rc, const struct problem *why)
{
    if (rc == STATUS_TOO_LARGE)
        call_fail(p->call, CALL_BROKEN,
                  "the answer's headers are longer than %zu bytes",
                  CALL_HEAD_MAX);
    else if (rc == STATUS_UNSUPPORTED)
        call_fail(p->call, CALL_BROKEN, "the answer is not of HTTP/1");
    else
        call_fail(p->call, CALL_BROKEN, "the answer is malformed: %s",
                  why->text);
    end_exchange(p, false);
}

/* Takes the inflated bytes of a body. */
static enum status
on_inflated(struct slice bytes, void *user, struct problem *why)
{
    struct call_connection *p = user;

    buf_add_slice(&p->body, bytes);
    p->now.n_taken += bytes.size;
    return p->body.is_starved ? problem_memory(why) : STATUS_OK;
}

/* R-408. Only one coding is undone: of several a few bytes become millions.
 * False: the call has failed. */
static bool
begin_decoding(struct call_connection *p)
{
    const struct call *call = p->call;
    uint64_t max = p->now.is_handed_over ? call->max_taken : call->max_answer;
    struct slice fields = p->answer.fields, coding = {NULL, 0};
    bool is_one = true;
    struct head_field f;

    while (response_head_next(&fields, &f))
        if (slice_is_word(f.name, "Content-Encoding")) {
            is_one = !coding.data;
            coding = f.value;
        }
    if (!is_one)
        return fail(p, CALL_BROKEN, "it has several Content-Encodings");
    if (coding.size == 0 || slice_is_word(coding, "identity"))
        return true;
    if (slice_is_word(coding, "deflate"))
        p->now.gunzip = gunzip_new(max, GUNZIP_DEFLATE, on_inflated, p);
    else if (slice_is_word(coding, "gzip") || slice_is_word(coding, "x-gzip"))
        p->now.gunzip = gunzip_new(max, GUNZIP_GZIP, on_inflated, p);
    if (p->now.gunzip)
        return true;
    call_fail(p->call, CALL_BROKEN, "its Content-Encoding \"%.40s\" is unknown",
              problem_quote(coding).text);
    end_exchange(p, false);
    return false;
}

/* Keeps `head`, which may be a part of p->head, for when more has come. */
static void
keep_head(struct call_connection *p, struct slice head)
{
    if (p->head.size == 0)
        buf_add_slice(&p->head, head);
    else
        memmove(p->head.data, head.data, head.size);
    p->head.size = head.size;
}

/* False: the call has ended. */
static bool
begin_body(struct call_connection *p, struct slice head)
{
    struct head_body *body = &p->answer.body;
    const struct call *call = p->call;
    size_t offset = (size_t)(p->answer.fields.data - head.data);

    p->now.has_head = true;
    keep_head(p, head);
    p->answer.fields.data = p->head.data + offset;
    /* These have no body, whatever the head says. */
    if (call->method == CALL_HEAD || p->answer.status == 204 ||
        p->answer.status == 304)
        *body = (struct head_body){.has_length = true};
    if (body->is_chunked)
        p->chunked = (struct chunked){0};
    p->now.n_left = body->length;
    p->now.is_handed_over = call->take && p->answer.status == 200;
    if (p->now.is_handed_over)
        p->body.max = CALL_PIECE_MAX;
    if (call->undoes_coding && p->answer.status == 200 &&
        (!body->has_length || body->length > 0) && !begin_decoding(p))
        return false;
    if (p->now.is_handed_over && !p->now.gunzip && body->has_length &&
        body->length > call->max_taken) {
        end_well(p, true, false);
        return false;
    }
    return true;
}

/* The answer: its body */

/* Keeps bytes of the body, up to the limit. False: there are more. */
static bool
keep_body(struct call_connection *p, struct slice data)
{
    uint64_t room = p->now.is_handed_over
                        ? p->call->max_taken - p->now.n_taken
                        : p->call->max_answer - p->now.n_taken;
    size_t size = data.size < room ? data.size : (size_t)room;

    if (p->now.gunzip) {
        p->now.has_coded = true;
        buf_add_slice(&p->caller->coded, data);
        return true;
    }
    buf_add(&p->body, data.data, size);
    p->now.n_taken += size;
    return data.size <= room;
}

/* Reads the body off the front of `bytes`. */
static enum body_end
read_body(struct call_connection *p, struct slice *bytes, struct problem *why)
{
    const struct head_body *body = &p->answer.body;
    struct slice data = *bytes;

    if (body->is_chunked) {
        for (;;) {
            switch (chunked_read(&p->chunked, bytes, &data, why)) {
            case CHUNKED_DATA:
                if (!keep_body(p, data))
                    return BODY_CUT;
                break;
            case CHUNKED_MORE:
                return BODY_MORE;
            case CHUNKED_END:
                return BODY_WHOLE;
            case CHUNKED_BROKEN:
                return BODY_BROKEN;
            }
        }
    }
    if (body->has_length && data.size > p->now.n_left)
        data.size = p->now.n_left;
    if (data.size > 0) {
        slice_skip(bytes, data.size);
        if (!keep_body(p, data))
            return BODY_CUT;
    }
    p->now.n_left -= body->has_length ? data.size : 0;
    return body->has_length && p->now.n_left == 0 ? BODY_WHOLE : BODY_MORE;
}

/* Judges a step of the gunzip. False: the call has ended. */
static bool
check_inflated(struct call_connection *p, enum status rc)
{
    if (!rc)
        return true;
    if (rc == STATUS_TOO_LARGE)
        end_well(p, true, false);
    else if (rc == STATUS_MEMORY)
        fail(p, CALL_MEMORY, NO_MEMORY);
    else
        fail(p, CALL_BROKEN, "its Content-Encoding cannot be undone");
    return false;
}

/* The user has the next piece to himself until call_taken. Returns false if the
 * call waits for him, or has ended. */
static bool
hand_over(struct call_connection *p)
{
    struct caller *c = p->caller;
    struct call *call = p->call;
    enum call_turn turn;

    p->now.is_with_user = true; /* the user may call caller_go at once */
    c->handing = p;
    turn = call->take(call, &p->body);
    if (!c->handing)
        return false; /* cancelled, perhaps freed */
    c->handing = NULL;
    if (turn == CALL_NOT) {
        call_stop(call);
        call_queue_release(call);
        return false;
    }
    if (turn == CALL_READY)
        call_taken(call);
    if (!p->now.is_with_user)
        return true;
    list_remove(&p->node); /* there is nothing to go on with */
    (void)watch(p);        /* for nothing */
    return false;
}

/* Passes on what has come. Returns false if the call has ended, or waits for
 * the user. */
static bool
pass_on(struct call_connection *p)
{
    struct problem why = {""};
    bool is_behind;

    do {
        /* Hands over full pieces, the last one, and those behind which the next
         * step of the gunzip might find no room. */
        while (p->now.is_handed_over && p->body.size > 0 &&
               (p->now.end == BODY_WHOLE || p->now.gunzip ||
                p->body.size == CALL_PIECE_MAX))
            if (!hand_over(p))
                return false;
        is_behind = p->now.gunzip && gunzip_is_behind(p->now.gunzip);
        if (is_behind && !check_inflated(p, gunzip_step(p->now.gunzip, &why)))
            return false;
    } while (is_behind);
    if (p->now.end == BODY_MORE)
        return true;
    if (p->now.has_coded && !check_inflated(p, gunzip_end(p->now.gunzip, &why)))
        return false;
    end_well(p, false, p->now.is_kept);
    return false;
}

/* The body is whole: the user's time, until he has all pieces, is not limited.
 */
static void
set_whole(struct call_connection *p, bool is_kept)
{
    p->now.end = BODY_WHOLE;
    p->now.is_kept = is_kept;
    call_connection_clear_alarms(p);
}

/* Returns false if the call has ended, or waits for the user. */
static bool
take_body(struct call_connection *p, struct slice bytes)
{
    struct buf *coded = &p->caller->coded;
    struct problem why = {""};
    enum status rc = STATUS_OK;

    buf_clear(coded);
    switch (read_body(p, &bytes, &why)) {
    case BODY_MORE:
        break;
    case BODY_WHOLE:
        set_whole(p, p->answer.is_kept && bytes.size == 0);
        break;
    case BODY_CUT:
        end_well(p, true, false);
        return false;
    case BODY_BROKEN:
        fail_head(p, STATUS_INVALID, &why);
        return false;
    }
    if (coded->size > 0)
        rc = gunzip_feed(p->now.gunzip, buf_slice(coded), &why);
    if (!check_inflated(p, rc))
        return false;
    return p->body.failed ? fail(p, CALL_MEMORY, NO_MEMORY) : pass_on(p);
}

/* Returns false if the call has ended, or waits for the user. */
static bool
take_head(struct call_connection *p, struct slice bytes)
{
    struct problem why = {""};
    struct slice head;
    enum status rc;

    if (p->head.size > 0) {
        buf_add_slice(&p->head, bytes);
        bytes = buf_slice(&p->head);
    }
    do { /* interim heads, up to the last one */
        size_t n = p->now.n_before;

        rc = response_head_read(&p->answer, bytes, &p->now.seen, &why);
        n += rc ? bytes.size : p->answer.size;
        if ((!rc || rc == STATUS_AGAIN) && n > CALL_HEAD_MAX)
            rc = STATUS_TOO_LARGE;
        else if (!rc && p->answer.status == 101)
            rc = problem(&why, STATUS_INVALID,
                         "it changes the protocol unasked");
        if (rc)
            break;
        p->now.n_before = n;
        head = (struct slice){bytes.data, p->answer.size};
        slice_skip(&bytes, head.size);
    } while (p->answer.status < 200);
    if (!rc)
        return begin_body(p, head) && take_body(p, bytes);
    if (rc == STATUS_AGAIN)
        keep_head(p, bytes);
    else
        fail_head(p, rc, &why);
    return rc == STATUS_AGAIN;
}

/* Reads once. `*is_more`: there may be more. Returns false if the call has
 * ended, or waits for the user. */
static bool
read_once(struct call_connection *p, bool *is_more)
{
    size_t room = CALL_READ_SIZE, n = 0;
    struct slice bytes;

    if (p->now.is_handed_over && CALL_PIECE_MAX - p->body.size < room)
        room = CALL_PIECE_MAX - p->body.size;
    switch (call_connection_read(p, room, &n)) {
    case IO_OK:
        break;
    case IO_PASSED:
        return true;
    case IO_AGAIN:
        *is_more = false;
        return true;
    case IO_END: /* of an answer without a length, too */
        if (p->now.has_head && !p->answer.body.is_chunked &&
            !p->answer.body.has_length) {
            set_whole(p, false);
            return pass_on(p);
        }
        end_broken(p, false);
        return false;
    case IO_BROKEN:
        end_broken(p, true);
        return false;
    }
    p->now.has_byte = true;
    if (p->call->stall_us)
        p->heard_us = clock_steady_us();
    *is_more = p->ssl; /* it may hold bytes that no descriptor reports */
    bytes = (struct slice){p->caller->bytes, n};
    return p->now.has_head ? take_body(p, bytes) : take_head(p, bytes);
}

/* Reads what has come. */
static void
receive(struct call_connection *p)
{
    bool is_more = true;

    for (unsigned i = 0; is_more; i++) {
        if (i == READS_AT_ONCE) {
            list_put(&p->caller->due, &p->node);
            break;
        }
        if (!read_once(p, &is_more))
            return;
    }
    if (!watch(p))
        fail(p, CALL_MEMORY, NO_MEMORY);
}

/* A kept connection that becomes readable is closed: the other side has closed
 * it, or sent what nobody asked for. By TLS it may have sent a ticket. */
static void
on_event(uv_poll_t *poll, int status, int events)
{
    struct call_socket *s = poll->data;
    struct call_connection *p = s->connection;

    if (status < 0)
        s->events = 0; /* the loop has stopped by itself */
    if (!p->call) {
        if (!p->ssl || status < 0 || !call_tls_is_quiet(p->ssl))
            call_connection_close(p);
        return;
    }
    if (events & UV_WRITABLE && p->now.n_unsent > 0 && !p->now.is_unsendable)
        p->now.is_unsendable = !send_rest(p, buf_slice(&p->request));
    if (status < 0 || events & UV_READABLE ||
        (p->ssl && !SSL_want_read(p->ssl)))
        receive(p);
    else if (!watch(p))
        fail(p, CALL_MEMORY, NO_MEMORY);
}

/* For the caller */

/* Gives a call to a connection that is new or was kept, with its time. */
static void
attach(struct call_connection *p, struct call *call)
{
    struct caller *c = p->caller;

    p->call = call;
    call->own.handle = p;
    p->deadline.ring = on_deadline;
    loop_set_alarm(c->loop, &p->deadline,
                   call->own.began_us + call->timeout_us);
    p->silence.ring = on_silence;
    p->heard_us = clock_steady_us();
    if (call->stall_us)
        loop_set_alarm(c->loop, &p->silence, p->heard_us + call->stall_us);
}

/* Begins a call on a new connection. */
static void
begin_anew(struct caller *c, struct call *call)
{
    struct call_connection *p = call_connection_new(c, call);

    attach(p, call);
    call_connect(p);
}

void
call_begin(struct caller *c, struct call *call)
{
    bool is_once = call->is_once || call->is_suspect || call->is_unproven;
    struct call_connection *p;

    while (!is_once && (p = call_connection_take_kept(c, call))) {
        p->is_reused = true;
        attach(p, call);
        if (begin_exchange(p))
            return;
        release_call(p);
        call_connection_close(p);
    }
    begin_anew(c, call);
}

void
call_stop(struct call *call)
{
    struct call_connection *p = call->own.handle;

    if (p->caller->handing == p)
        p->caller->handing = NULL;
    call_connect_stop(p);
    release_call(p);
    end_redirects(call);
    call_connection_close(p);
}

void
call_taken(struct call *call)
{
    struct call_connection *p = call->own.handle;

    if (!p || !p->now.is_with_user)
        return;
    p->now.is_with_user = false;
    buf_clear(&p->body);
    p->body.max = CALL_PIECE_MAX; /* the user may have exchanged the buffer */
    p->heard_us = clock_steady_us();
    if (p->caller->handing != p)
        list_put(&p->caller->due, &p->node);
}

void
call_go_on(struct caller *c)
{
    struct call_connection *p;
    struct list due;

    list_init(&due);
    list_move(&due, &c->due);
    /* Each has opened, its user has taken a piece, or it has more to read. */
    list_drain (p, &due, node) {
        if (!p->socket) {
            end_exchange(p, false); /* for the reason in the call */
        } else if (p->now.has_request) {
            if (pass_on(p))
                receive(p);
        } else if (!begin_exchange(p)) {
            fail(p, CALL_MEMORY, NO_MEMORY);
        }
    }
}

/*
 * live_connection.c - one live connection to a set: the part common to all
 * transports.
 */
#include "client/follow/live_connection.h"

#include "client/follow/transport.h"
#include "client/lib/fetch.h"
#include "client/lib/json_fields.h"

#define ANSWER_MS 20000

static const struct transport *const transports[] = {
    &transport_websocket,
    &transport_events,
    &transport_long_poll,
    &transport_shared,
};

/* Its end */

static void
release_connection(struct retired *retired)
{
    struct live *live = list_entry(retired, struct live, retired);

    if (live->url && live->transport->release)
        live->transport->release(live);
    buf_fini(&live->held);
    buf_fini(&live->waiting);
    free(live->url);
    free(live);
}

void
live_free(struct live *live)
{
    if (!live || live->retired.is_over)
        return;
    live->is_over = live->is_ending = true;
    if (live->url && live->transport->stop)
        live->transport->stop(live);
    fetch_free(live->fetch);
    timer_stop(&live->timer);
    timer_stop(&live->again);
    handle_loop_retire(live->client->loop, &live->retired, release_connection);
}

static const enum status statuses[] = {
    [LIVE_AGAIN] = STATUS_OK,           [LIVE_ENOUGH] = STATUS_OK,
    [LIVE_REFUSED] = STATUS_REFUSED,    [LIVE_UNFIT] = STATUS_UNREACHABLE,
    [LIVE_CLOSED] = STATUS_UNREACHABLE, [LIVE_LOST] = STATUS_UNREACHABLE,
    [LIVE_BROKEN] = STATUS_MALFORMED,   [LIVE_MEMORY] = STATUS_MEMORY,
};

static void
end_later(struct live *live)
{
    live->is_over = true;
    if (live->waiting.size > 0) /* it follows these */
        return;
    live->is_ending = true;
    timer_start(&live->timer, 0);
}

void
live_finish(struct live *live, enum live_how how, const char *format, ...)
{
    va_list args;

    if (live->is_over)
        return;
    live->end.how = how;
    va_start(args, format);
    problem_vset(&live->end.why, statuses[how], format, args);
    va_end(args);
    end_later(live);
}

static void
renew_token(struct live *live)
{
    live->end.has_new_token = servers_renew_token(
        &live->client->servers, live->url, live->token_version);
}

void
live_finish_closed(struct live *live, unsigned code, const char *reason)
{
    if (live->is_over)
        return;
    live->end.code = code;
    if (code == CLOSE_DENIED)
        renew_token(live);
    live_finish(live, LIVE_CLOSED, "%s", reason);
}

bool
live_finish_named(struct live *live, struct slice name, struct slice text)
{
    static const struct {
        const char *name;
        enum close_code code;
    } ends[] = {
        {"farewell", CLOSE_GOING_AWAY}, {"failed", CLOSE_FAILED},
        {"denied", CLOSE_DENIED},       {"removed", CLOSE_REMOVED},
        {"gone", CLOSE_GONE},
    };

    char detail[800] = "";
    struct json_fields_member member = JSON_TEXT("detail", detail);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (!slice_is(name, ends[i].name))
            continue;
        if (json_fields_read(text, &member, 1, NULL))
            detail[0] = '\0';
        live_finish_closed(live, ends[i].code, detail);
        return true;
    }
    return false;
}

bool
live_is_type(const char *type, const char *name)
{
    struct slice rest = slice_of(type);

    return slice_is_word(slice_trimmed(slice_take(&rest, ';')), name);
}

/* What an answer other than a stream means. A refusal by the broker itself is
 * problem+json; others may be of something between that does not carry this
 * transport. Where only the handshake of a WebSocket may be the reason, the
 * next transport finds out whether the request itself is refused, too. */
static enum live_how
judge_answer(const struct live *live, const struct fetch_answer *answer)
{
    bool is_ours = live_is_type(answer->type, "application/problem+json");
    bool is_handshake = live->transport->name == TD_WEBSOCKET;
    bool is_poll = live->transport->name == TD_LONG_POLL;

    switch (answer->status) {
    case 406: /* of events: the broker has not seen that they are wanted */
    case 426: /* or that the connection is to become a WebSocket */
    case 501:
    case 505:
        return is_poll ? LIVE_REFUSED : LIVE_UNFIT;
    case 400: /* the handshake came in part */
        return is_handshake || !(is_ours || is_poll) ? LIVE_UNFIT
                                                     : LIVE_REFUSED;
    case 404: /* a route for WebSockets leads elsewhere */
    case 410:
        return is_handshake && !is_ours ? LIVE_UNFIT : LIVE_REFUSED;
    case 401:
    case 408:
    case 429:
        return LIVE_REFUSED;
    default:
        if (is_ours)
            return LIVE_REFUSED;
        if (answer->status >= 500) /* the broker may be away, or only this way
                                      to it: LIVE_LOST again and again */
            return LIVE_LOST;
        if (answer->status >= 300 && answer->status < 400)
            return is_handshake ? LIVE_UNFIT : LIVE_REFUSED;
        return is_poll ? LIVE_REFUSED : LIVE_UNFIT;
    }
}

void
live_finish_refused(struct live *live, const struct fetch_answer *answer)
{
    struct problem *why = &live->end.why;

    if (live->is_over)
        return;
    live->end.how = judge_answer(live, answer);
    fetch_refused(why, answer);
    if (answer->status == 401)
        renew_token(live);
    if (answer->status < 400)
        problem(why, why->rc, "%u: that is no stream of changes",
                answer->status);
    if (live->end.how != LIVE_REFUSED)
        why->rc = STATUS_UNREACHABLE;
    end_later(live);
}

/* Time */

/* The milliseconds that silence, or the answer, may last. */
static uint64_t
waited_ms(const struct live *live)
{
    return live->is_answered ? *live->request.idle_ms : live->await_ms;
}

/* Restarts the timer of the answer or of silence. */
static void
wait_on(struct live *live)
{
    live->is_late = false;
    if (live->is_ending)
        return;
    if (live->is_paused || live->transport->is_watched)
        timer_stop(&live->timer);
    else
        timer_start(&live->timer, waited_ms(live));
}

void
live_await(struct live *live, uint64_t more_ms)
{
    live->await_ms =
        more_ms +
        (live->request.answer_ms ? live->request.answer_ms : ANSWER_MS);
    wait_on(live);
}

void
live_heard(struct live *live)
{
    bool is_new = !live->is_answered;

    if (live->is_ending)
        return;
    live->is_answered = true;
    wait_on(live);
    if (is_new && live->request.on_open)
        live->request.on_open(live->user);
}

/* A turn of the loop or two: a timer of 0 would expire in this turn. */
#define LOOK_MS 10

/* The time is over. The thread may have been busy elsewhere, with bytes still
 * unread: so the loop gets a chance to read them before this is silence. */
static void
on_timer(void *user)
{
    struct live *live = user;
    bool is_held_back = live->transport->is_held_back && !live->has_message;

    if (live->is_ending) {
        live_free(live);
        live->on_end(&live->end, live->user);
    } else if (!live->is_late) {
        live->is_late = true;
        timer_start(&live->timer, LOOK_MS);
        timer_start(&live->again, 0);
    } else {
        live_finish(live, is_held_back ? LIVE_UNFIT : LIVE_LOST,
                    "%s for %.1f s",
                    live->is_answered ? "silence" : "no answer",
                    (double)waited_ms(live) / 1000);
    }
}

/* Messages */

/* More than an exchange brings in one turn behind a long message. */
#define WAITING_MAX (LIVE_MESSAGE_MAX + 1024 * 1024)

/* False: it ends. */
static bool
hand_over(struct live *live, char *bytes, size_t size)
{
    if (!live->on_message(bytes, size, live->user)) {
        live->is_over = live->is_ending; /* for another reason now */
        buf_clear(&live->waiting);
        live_finish(live, LIVE_ENOUGH, "%s", "");
    }
    if (live->is_ending)
        return false;
    live_heard(live); /* the time of on_message is not silence */
    return true;
}

bool
live_message(struct live *live, char *bytes, size_t size)
{
    live->has_message = true;
    if (!live->is_paused && live->waiting.size == 0)
        return hand_over(live, bytes, size);
    buf_add(&live->waiting, &size, sizeof(size));
    buf_add(&live->waiting, bytes, size);
    if (live->waiting.failed)
        live_finish(live, LIVE_MEMORY, NO_MEMORY);
    return !live->is_over;
}

/* A pause is over, or begins: hands over what waits, and lets the transport go
 * on. */
static void
on_again(void *user)
{
    struct live *live = user;
    struct buf *waiting = &live->waiting;
    size_t at = 0, size;

    while (!live->is_paused && at < waiting->size) {
        char *bytes = waiting->data + at + sizeof(size);

        memcpy(&size, waiting->data + at, sizeof(size));
        at += sizeof(size) + size;
        if (!hand_over(live, bytes, size))
            return;
    }
    if (at > 0)
        memmove(waiting->data, waiting->data + at, waiting->size - at);
    waiting->size -= at;
    if (live->is_over && !live->is_ending)
        end_later(live);
    else if (!live->is_ending && live->transport->go_on)
        live->transport->go_on(live);
}

/* Its life */

struct live *
live_start(struct td_client *client, const struct live_request *request,
           live_message_fn *on_message, live_end_fn *on_end, void *user)
{
    const struct transport *const *transport = transports;
    const struct server *server;
    struct live *live;

    while ((*transport)->name != request->transport)
        transport++;
    live = calloc(1, sizeof(*live) + (*transport)->size);
    if (!live)
        return NULL;
    live->client = client;
    live->transport = *transport;
    live->own = live + 1;
    live->request = *request;
    live->on_message = on_message;
    live->on_end = on_end;
    live->user = user;
    live->url = strdup(request->url);
    server = servers_find(&client->servers, request->url);
    live->token_version = server ? server->token_version : 0;
    timer_init(&live->timer, client->loop, on_timer, live);
    timer_init(&live->again, client->loop, on_again, live);
    buf_init(&live->waiting, WAITING_MAX);
    if (!live->url || !live->transport->start(live)) {
        live_free(live);
        return NULL;
    }
    return live;
}

void
live_hold(struct live *live, bool is_held)
{
    if (live->is_paused == is_held)
        return;
    live->is_paused = is_held;
    wait_on(live);
    if (is_held && live->transport->pause)
        live->transport->pause(live);
    else
        timer_start(&live->again, 0);
}

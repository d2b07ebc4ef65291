/*
 * eventsource.c - server-sent events: an answer without end.
 *
 * broker/push/eventsource.c sends them: the events `changes` and `heartbeat`
 * are messages, always in JSON; `farewell`, `failed`, `denied`, `removed` and
 * `gone` are the last ones, with the reason as {"detail":"..."}. A stream of
 * many sets, which is asked for by a POST, has `end` of one set as a message.
 * Other events are ignored.
 *
 * Comments are no sign of life: a proxy may send them for a broker that is
 * gone. The broker's heartbeats are events.
 */

#include "client/follow/transport.h"
#include "client/lib/fetch.h"
#include "proto/http/sse.h"

/* More than fetch.h hands over at once. */
#define HELD_MAX (1024 * 1024)

struct eventsource {
    struct live *live;
    struct fetch *fetch; /* NULL: it has ended */
    struct sse sse;
    bool is_stream;
    struct buf held; /* bytes not read because of the pause */
};

static bool
is_message(const struct live *live, struct slice name)
{
    return slice_is(name, "changes") || slice_is(name, "heartbeat") ||
           (live->body.data && slice_is(name, "end"));
}

/* Reads events. False: the connection has ended. A pause leaves the rest in
 * `*bytes`. */
static bool
read_events(struct eventsource *e, struct slice *bytes)
{
    struct live *live = e->live;
    struct problem why = {.text = ""};
    struct sse_event event;
    enum status rc = STATUS_OK;

    while (!live->is_ending && !live->is_paused &&
           !(rc = sse_read(&e->sse, bytes, &event, &why))) {
        if (!is_message(live, event.name))
            live_finish_named(live, event.name,
                              (struct slice){event.data, event.size});
        else if (!live_message(live, event.data, event.size))
            return false;
    }
    if (rc == STATUS_MEMORY)
        live_finish(live, LIVE_MEMORY, NO_MEMORY);
    else if (rc && rc != STATUS_AGAIN)
        live_finish(live, LIVE_BROKEN, "the broker sent %s", why.text);
    return !live->is_ending;
}

/* Keeps the bytes that a pause left. The exchange is paused, too: no more come.
 */
static void
hold_bytes(struct eventsource *e, struct slice bytes)
{
    buf_add_slice(&e->held, bytes);
    if (e->held.failed)
        live_finish(e->live, LIVE_MEMORY, NO_MEMORY);
}

static void
continue_events(void *user)
{
    struct eventsource *e = user;
    struct slice bytes = buf_slice(&e->held);

    if (!read_events(e, &bytes))
        return;
    if (bytes.size > 0) {
        memmove(e->held.data, bytes.data, bytes.size);
        e->held.size = bytes.size;
    } else {
        buf_clear(&e->held);
    }
    if (!e->live->is_paused && e->fetch)
        fetch_resume(e->fetch);
}

static bool
is_stream(const struct fetch_answer *answer)
{
    return answer->status == 200 &&
           live_is_type(answer->type, "text/event-stream");
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct eventsource *e = user;
    size_t n_data;

    if (e->live->is_ending)
        return true;
    if (!is_stream(answer))
        return false;
    if (!e->is_stream)
        live_heard(e->live); /* the stream has begun */
    e->is_stream = true;
    n_data = sse_data_size(&e->sse);
    if (!read_events(e, &bytes))
        return true;
    if (sse_data_size(&e->sse) > n_data)
        live_heard(e->live);
    if (bytes.size > 0)
        hold_bytes(e, bytes);
    return true;
}

static void
on_end(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct eventsource *e = user;

    e->fetch = NULL;
    if (why->rc == STATUS_MEMORY) {
        live_finish(e->live, LIVE_MEMORY, NO_MEMORY);
    } else if (e->is_stream || (why->rc && why->rc != STATUS_STOPPED)) {
        live_finish(e->live, LIVE_LOST, "%s%s%s",
                    e->is_stream || answer->is_sent ? "the connection broke"
                                                    : "cannot connect",
                    why->text[0] ? ": " : "", why->text);
    } else {
        live_finish_refused(e->live, answer);
    }
}

static bool
start_eventsource(struct live *live)
{
    const char *headers[] = {
        "Accept: text/event-stream", "Cache-Control: no-store",
        live->body.data ? "Content-Type: application/json" : NULL, NULL};
    struct fetch_request request = {.url = live->url,
                                    .headers = headers,
                                    .body =
                                        live->body.data ? &live->body : NULL,
                                    .silence_s = SILENCE_S,
                                    .kind = HOST_PLACE_STREAM};
    struct eventsource *e = live->own;

    e->live = live;
    sse_init(&e->sse, LIVE_MESSAGE_MAX);
    buf_init(&e->held, HELD_MAX);
    if (live->form == TD_XML) {
        live_finish(live, LIVE_UNFIT, "events carry JSON alone");
        return true;
    }
    e->fetch = fetch_start(live->client, &request, on_body, on_end, e);
    live_await(live, 0);
    return e->fetch != NULL;
}

static void
stop_eventsource(struct live *live)
{
    struct eventsource *e = live->own;

    fetch_free(e->fetch);
}

static void
free_eventsource(struct live *live)
{
    struct eventsource *e = live->own;

    sse_fini(&e->sse);
    buf_fini(&e->held);
}

static void
pause_eventsource(struct live *live)
{
    struct eventsource *e = live->own;

    if (e->fetch)
        fetch_pause(e->fetch);
}

const struct transport transport_events = {
    .name = TD_EVENTS,
    .size = sizeof(struct eventsource),
    .start = start_eventsource,
    .stop = stop_eventsource,
    .release = free_eventsource,
    .go_on = continue_events,
    .pause = pause_eventsource,
    .is_held_back = true,
};

/*
 * eventsource.c - server-sent events: an answer without end.
 *
 * broker/push/eventsource.c sends them: the events `changes` and `heartbeat`
 * are messages in XML, and a follower hashes their lines; `farewell`, `failed`,
 * `denied`, `removed` and `gone` are the last ones, with the reason as
 * {"detail":"..."}. A stream of many sets, which is asked for by a POST, has
 * `end` of one set as a message. Other events are ignored.
 *
 * Comments are no sign of life: a proxy may send them for a broker that is
 * gone. The broker's heartbeats are events.
 */

#include "client/follow/transport.h"
#include "client/lib/fetch.h"
#include "proto/http/sse.h"

/* Reads events. False: the connection has ended. */
static bool
read_events(struct live *live, struct slice bytes)
{
    struct sse *sse = live->own;
    struct problem why = {.text = ""};
    struct sse_event event;
    enum status rc = STATUS_OK;

    while (!live->is_over && !(rc = sse_read(sse, &bytes, &event, &why))) {
        bool is_message =
            slice_is(event.name, "changes") ||
            slice_is(event.name, "heartbeat") ||
            (live->request.body.data && slice_is(event.name, "end"));

        if (is_message && !live->request.body.data &&
            !slice_starts((struct slice){event.data, event.size}, "<"))
            live_finish(live, LIVE_UNFIT,
                        "the events of this broker have no lines of the log");
        else if (!is_message)
            live_finish_named(live, event.name,
                              (struct slice){event.data, event.size});
        else if (!live_message(live, event.data, event.size))
            return false;
    }
    if (rc == STATUS_MEMORY)
        live_finish(live, LIVE_MEMORY, NO_MEMORY);
    else if (rc && rc != STATUS_AGAIN)
        live_finish(live, LIVE_BROKEN, "the broker sent %s", why.text);
    return !live->is_over;
}

static void
continue_events(struct live *live)
{
    if (!live->is_paused && live->fetch)
        fetch_hold(live->fetch, false);
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct live *live = user;
    struct sse *sse = live->own;
    size_t n_data;

    if (live->is_over)
        return true;
    if (answer->status != 200 ||
        !live_is_type(answer->type, "text/event-stream"))
        return false;
    if (!live->is_answered)
        live_heard(live); /* the stream has begun */
    n_data = sse_data_size(sse);
    if (read_events(live, bytes) && sse_data_size(sse) > n_data)
        live_heard(live);
    return true;
}

static void
on_end(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct live *live = user;

    live->fetch = NULL;
    if (why->rc == STATUS_MEMORY) {
        live_finish(live, LIVE_MEMORY, NO_MEMORY);
    } else if (live->is_answered || (why->rc && why->rc != STATUS_STOPPED)) {
        live_finish(live, LIVE_LOST, "%s%s%s",
                    live->is_answered || answer->is_sent
                        ? "the connection broke"
                        : "cannot connect",
                    why->text[0] ? ": " : "", why->text);
    } else {
        live_finish_refused(live, answer);
    }
}

static bool
start_eventsource(struct live *live)
{
    const struct slice *body =
        live->request.body.data ? &live->request.body : NULL;
    const char *headers[] = {
        "Accept: text/event-stream", "Cache-Control: no-store",
        body ? "Content-Type: application/json" : NULL, NULL};
    struct fetch_request request = {.url = live->url,
                                    .headers = headers,
                                    .body = body,
                                    .silence_s = SILENCE_S,
                                    .kind = HOST_PLACE_STREAM};
    struct sse *sse = live->own;

    sse_init(sse, LIVE_MESSAGE_MAX);
    live->fetch = fetch_start(live->client, &request, on_body, on_end, live);
    live_await(live, 0);
    return live->fetch != NULL;
}

static void
free_eventsource(struct live *live)
{
    struct sse *sse = live->own;

    sse_fini(sse);
}

static void
pause_eventsource(struct live *live)
{
    if (live->fetch)
        fetch_hold(live->fetch, true);
}

const struct transport transport_events = {
    .name = TD_EVENTS,
    .size = sizeof(struct sse),
    .start = start_eventsource,
    .release = free_eventsource,
    .go_on = continue_events,
    .pause = pause_eventsource,
    .is_held_back = true,
};

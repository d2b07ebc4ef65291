/*
 * longpoll.c - requests the change memory with wait=: the server answers when
 * it has changes, or when that time is over.
 */

#include "client/follow/transport.h"
#include "client/lib/fetch.h"
#include "proto/resourcesync/digest.h"

/* Seconds: the broker should answer before the follower's time of silence,
 * which is three heartbeats, and before a proxy gives up; proxies often wait
 * one minute. */
#define WAIT_LEAST 1
#define WAIT_MOST  30

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct live *live = user;

    (void)answer;
    live_heard(live);
    buf_add_slice(&live->held, bytes);
    return !live->held.failed;
}

static void
on_end(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct live *live = user;

    live->fetch = NULL;
    if (live->held.failed && !live->held.is_starved) {
        live_finish(live, LIVE_BROKEN, "the broker sent more than %d bytes",
                    LIVE_MESSAGE_MAX);
    } else if (why->rc == STATUS_STOPPED || why->rc == STATUS_MEMORY) {
        live_finish(live, LIVE_MEMORY, NO_MEMORY);
    } else if (why->rc == STATUS_MALFORMED) {
        live_finish(live, LIVE_BROKEN, "%s", why->text);
    } else if (why->rc) {
        live_finish(live, LIVE_LOST, "%s: %s",
                    answer->is_sent ? "the connection broke" : "cannot connect",
                    why->text);
    } else if (answer->status != 200 ||
               !(live_is_type(answer->type, "application/xml") ||
                 live_is_type(answer->type, "text/xml"))) {
        live_finish_refused(live, answer);
    } else {
        if (live->request.after_digest)
            snprintf(live->request.after_digest, DIGEST_TEXT_SIZE + 1, "%s",
                     answer->after_digest);
        if (live_message(live, live->held.data, live->held.size))
            live_finish(live, LIVE_AGAIN, "%s", "");
    }
}

static bool
start_longpoll(struct live *live)
{
    const char *headers[] = {"Accept: application/xml",
                             "Cache-Control: no-store", NULL};
    struct fetch_request request = {.headers = headers,
                                    .takes_gzip = true,
                                    .silence_s = SILENCE_S,
                                    .kind = HOST_PLACE_STREAM};
    unsigned s = live->request.wait_s ? live->request.wait_s
                                      : *live->request.idle_ms / 3000;
    char *url;

    s = s < WAIT_LEAST ? WAIT_LEAST : s > WAIT_MOST ? WAIT_MOST : s;
    if (live->request.is_at_once)
        s = 0;
    if (asprintf(&url, "%s%cwait=%u", live->url,
                 strchr(live->url, '?') ? '&' : '?', s) < 0)
        return false;
    request.url = url;
    buf_init(&live->held, LIVE_MESSAGE_MAX);
    live->fetch = fetch_start(live->client, &request, on_body, on_end, live);
    live_await(live, s * UINT64_C(1000));
    free(url);
    return live->fetch != NULL;
}

const struct transport transport_long_poll = {
    .name = TD_LONG_POLL,
    .start = start_longpoll,
};

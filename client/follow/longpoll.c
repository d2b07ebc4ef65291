/*
 * longpoll.c - requests the change memory with wait=: the server answers when
 * it has changes, or when that time is over. During a pause the answer is kept.
 */

#include "client/follow/transport.h"
#include "client/lib/fetch.h"
#include "proto/number.h"

/* Seconds: the broker should answer before the follower's time of silence,
 * which is three heartbeats, and before a proxy gives up; proxies often wait
 * one minute. */
#define WAIT_LEAST 1
#define WAIT_MOST  30

/* The longest wait= that a broker accepts. */
#define WAIT_TOLD_MOST 300

struct longpoll {
    struct live *live;
    struct fetch *fetch; /* NULL: it has ended */
    struct buf body;
    bool is_whole;
    bool is_too_long;
};

static void
deliver_page(void *user)
{
    struct longpoll *l = user;
    struct live *live = l->live;

    if (live->is_paused || !l->is_whole)
        return;
    l->is_whole = false;
    if (live_message(live, l->body.data, l->body.size))
        live_finish(live, LIVE_AGAIN, "%s", "");
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct longpoll *l = user;

    (void)answer;
    live_heard(l->live);
    l->is_too_long = bytes.size > LIVE_MESSAGE_MAX - l->body.size;
    buf_add_slice(&l->body, bytes);
    return !l->body.failed;
}

static bool
is_message(const struct live *live, const struct fetch_answer *answer)
{
    return answer->status == 200 &&
           (live->form == TD_XML
                ? live_is_type(answer->type, "application/xml") ||
                      live_is_type(answer->type, "text/xml")
                : live_is_type(answer->type, "application/json"));
}

static void
on_end(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct longpoll *l = user;

    l->fetch = NULL;
    if (l->is_too_long) {
        live_finish(l->live, LIVE_BROKEN, "the broker sent more than %d bytes",
                    LIVE_MESSAGE_MAX);
    } else if (why->rc == STATUS_STOPPED || why->rc == STATUS_MEMORY) {
        live_finish(l->live, LIVE_MEMORY, NO_MEMORY);
    } else if (why->rc == STATUS_MALFORMED) {
        live_finish(l->live, LIVE_BROKEN, "%s", why->text);
    } else if (why->rc) {
        live_finish(l->live, LIVE_LOST, "%s: %s",
                    answer->is_sent ? "the connection broke" : "cannot connect",

                    why->text);
    } else if (!is_message(l->live, answer)) {
        live_finish_refused(l->live, answer);
    } else {
        l->is_whole = true;
        deliver_page(l);
    }
}

/* Reads wait= from the URL. False: it has none. */
static bool
read_wait(const char *url, uint64_t *wait_s)
{
    struct slice query = slice_of(strchr(url, '?'));

    if (query.size > 0)
        slice_take(&query, '?');
    while (query.size > 0) {
        struct slice value = slice_take(&query, '&');

        if (slice_is(slice_take(&value, '='), "wait"))
            return number_read(value, wait_s) && *wait_s <= WAIT_TOLD_MOST;
    }
    return false;
}

/* Returns the URL, and sets the wait. The caller frees it; NULL: no memory. */
static char *
url_of(const struct live *live, uint64_t *wait_s)
{
    unsigned s = *live->idle_ms / 3000;
    char *url = NULL;

    if (read_wait(live->url, wait_s))
        return strdup(live->url);
    s = s < WAIT_LEAST ? WAIT_LEAST : s > WAIT_MOST ? WAIT_MOST : s;
    *wait_s = s;
    if (asprintf(&url, "%s%cwait=%u", live->url,
                 strchr(live->url, '?') ? '&' : '?', s) < 0)
        return NULL;
    return url;
}

static bool
start_longpoll(struct live *live)
{
    const char *headers[] = {live->form == TD_XML ? "Accept: application/xml"
                                                  : "Accept: application/json",
                             "Cache-Control: no-store", NULL};
    struct fetch_request request = {.headers = headers,
                                    .takes_gzip = true,
                                    .silence_s = SILENCE_S,
                                    .kind = HOST_PLACE_STREAM};
    struct longpoll *l = live->own;
    uint64_t wait_s = 0;
    char *url = url_of(live, &wait_s);

    l->live = live;
    buf_init(&l->body, LIVE_MESSAGE_MAX);
    if (url) {
        request.url = url;
        l->fetch = fetch_start(live->client, &request, on_body, on_end, l);
        live_await(live, wait_s * 1000);
    }
    free(url);
    return l->fetch != NULL;
}

static void
stop_longpoll(struct live *live)
{
    struct longpoll *l = live->own;

    fetch_free(l->fetch);
}

static void
free_longpoll(struct live *live)
{
    struct longpoll *l = live->own;

    buf_fini(&l->body);
}

const struct transport transport_long_poll = {
    .name = TD_LONG_POLL,
    .size = sizeof(struct longpoll),
    .start = start_longpoll,
    .stop = stop_longpoll,
    .release = free_longpoll,
    .go_on = deliver_page,
};

/*
 * follow.c - live and catch-up as one order.
 *
 *     connect --> messages --> end --+--> told (TD_STOPPED, TD_GONE, ...)
 *        ^                           |
 *        +--------- pause <----------+  lost, or the broker ended it
 *
 * A gap is filled in JSON by the change memory, on the spot. The change memory
 * knows no XML yet, so there a gap ends the connection, and the next one asks
 * for what follows our position, which is the same pull by another door.
 */
#include <stdio.h>

#include "client/lib/catchup.h"
#include "client/lib/client.h"
#include "client/lib/connection.h"
#include "client/lib/fetch.h"
#include "client/lib/incoming.h"
#include "client/lib/order.h"
#include "client/lib/pause.h"
#include "client/lib/set_url.h"

/* Most milliseconds between two connections. */
#define PAUSE_LAST 30000

/* A broker that ends leaves all its clients at once: they come back spread
 * over this many milliseconds. */
#define PAUSE_FAREWELL 1000

/* Milliseconds of silence, until a heartbeat tells the broker's interval, and
 * the least and most that three of those may make. */
#define IDLE_DEFAULT 60000
#define IDLE_LEAST   1000
#define IDLE_MOST    3600000

/* Close codes of the stream (RFC 6455 section 7.4; ours). */
#define CLOSE_GOING_AWAY 1001
#define CLOSE_GONE       4410

#define TARGET_MAX (SET_URL_MAX + sizeof("/stream?after=") + POSITION_MAX)

struct follower {
    struct td_client *client;
    const struct td_follow_options *options;
    td_message_fn *on_message;
    void *user;

    struct set_url url;
    struct order order;
    struct incoming message;
    struct catchup catchup;

    unsigned idle_ms;
    unsigned pause_ms;
    bool is_heard;          /* this connection delivered a message */
    bool has_farewell;      /* it was ended by a broker that goes away */
    bool has_gap;           /* XML: the connection before ended by a gap ... */
    uint64_t gap_after;     /* ... after this seq */
    enum td_status verdict; /* why on_stream_message ended the connection */
};

/* Hands over what is new of a message. */
static enum td_status
deliver(struct follower *f, struct incoming *message, size_t first)
{
    const struct coverage *covers = &message->coverage;
    char position[POSITION_MAX];
    char digest[DIGEST_TEXT_SIZE + 1] = "";
    struct td_message m = {
        .set = f->url.name,
        .after = f->order.at.seq,
        .last = covers->last,
        .position = position,
        .n_changes = message->n_changes - first,
        .changes = message->changes + first,
    };

    position_write(position, covers->epoch, covers->last);
    if (covers->has_digest) {
        digest_write(digest, &covers->digest);
        m.digest = digest;
    }
    incoming_terminate(message, first);
    order_advance(&f->order, message);
    return f->on_message(&m, f->user) ? TD_STOPPED : TD_OK;
}

/* JSON: pulls what is missing up to `upto`. Pages may reach further: what then
 * comes by the stream as well is a repeat. */
static enum td_status
pull(struct follower *f, uint64_t upto)
{
    struct problem why = {.text = ""};

    while (f->order.at.seq < upto) {
        struct incoming *page = &f->catchup.message;
        size_t first;
        enum td_status rc =
            catchup_page(&f->catchup, f->client, &f->url, &f->order.at);

        if (rc)
            return rc;
        switch (order_judge(&f->order, page, &first, &why)) {
        case VERDICT_NEW:
            if (page->coverage.last > f->order.at.seq)
                break;
            /* fallthrough */
        case VERDICT_REPEAT:
        case VERDICT_GAP:
            return client_fail(f->client, TD_BROKEN,
                               "a gap after %llu that cannot be filled",
                               (unsigned long long)f->order.at.seq);
        case VERDICT_GONE:
            return client_fail(f->client, TD_GONE, "%s", why.text);
        case VERDICT_BROKEN:
            return client_fail(f->client, TD_BROKEN, "%s", why.text);
        }
        rc = deliver(f, page, first);
        if (rc)
            return rc;
    }
    return TD_OK;
}

/* XML: once for each position, another connection may fill the gap. */
static enum td_status
connect_for_gap(struct follower *f)
{
    unsigned long long after = f->order.at.seq;

    if (f->has_gap && f->gap_after == after)
        return client_fail(f->client, TD_BROKEN,
                           "a gap after %llu that cannot be filled", after);
    f->has_gap = true;
    f->gap_after = after;
    return client_fail(f->client, TD_UNREACHABLE,
                       "a gap after %llu: asking again", after);
}

static enum td_status
take(struct follower *f, struct incoming *message)
{
    struct problem why = {.text = ""};
    size_t first;
    enum td_status rc;

    switch (order_judge(&f->order, message, &first, &why)) {
    case VERDICT_NEW:
        return deliver(f, message, first);
    case VERDICT_REPEAT:
        return TD_OK;
    case VERDICT_GAP:
        if (message->form == TD_XML)
            return connect_for_gap(f);
        rc = pull(f, message->coverage.after);
        return rc ? rc : take(f, message); /* no gap any more */
    case VERDICT_GONE:
        return client_fail(f->client, TD_GONE, "%s", why.text);
    case VERDICT_BROKEN:
        break;
    }
    return client_fail(f->client, TD_BROKEN, "%s", why.text);
}

static void
heed_heartbeat(struct follower *f, int64_t heartbeat_us)
{
    int64_t ms = heartbeat_us / 1000 * 3;

    if (heartbeat_us <= 0 || f->options->idle_ms)
        return;
    if (ms < IDLE_LEAST)
        ms = IDLE_LEAST;
    f->idle_ms = ms > IDLE_MOST ? IDLE_MOST : (unsigned)ms;
}

static bool
on_stream_message(char *bytes, size_t size, void *user)
{
    struct follower *f = user;
    struct problem why = {.text = ""};
    enum td_status rc =
        incoming_read(&f->message, (struct slice){bytes, size}, &why);

    if (rc) {
        f->verdict = rc == TD_MEMORY
                         ? client_fail(f->client, rc, "no memory")
                         : client_fail(f->client, rc,
                                       "the broker sent what is no message: %s",
                                       why.text);
        return false;
    }
    f->is_heard = true;
    heed_heartbeat(f, f->message.coverage.heartbeat_us);
    f->verdict = take(f, &f->message);
    return f->verdict == TD_OK;
}

/* The library for WebSockets tells the status of a refusal, not its body: the
 * same handshake by plain HTTP asks for the reason. */
static enum td_status
refused(struct follower *f, const char *target, const char *protocol,
        unsigned status)
{
    char url[TARGET_MAX + SET_URL_AUTHORITY_MAX + sizeof("https://")];
    char offer[64];
    const char *headers[] = {"Connection: Upgrade",
                             "Upgrade: websocket",
                             "Sec-WebSocket-Version: 13",
                             "Sec-WebSocket-Key: dGlkaW5ncyBhc2tzIHdoeQ==",
                             offer,
                             NULL};
    struct fetch_request request = {url, headers, NULL, 65536};
    struct fetch_answer answer;
    enum td_status rc = fetch_meaning(status);

    if (status < 400)
        return client_fail(f->client, rc, "%u: that is no stream of changes",
                           status);
    if (rc == TD_UNREACHABLE)
        return client_fail(f->client, rc, "%u: the broker is busy", status);
    snprintf(url, sizeof(url), "%s://%s%s", f->url.is_tls ? "https" : "http",
             f->url.authority, target);
    snprintf(offer, sizeof(offer), "Sec-WebSocket-Protocol: %s", protocol);
    rc = fetch_run(f->client, &request, &answer);
    if (rc || answer.status != status)
        buf_clear(&answer.body);
    answer.status = status;
    if (rc != TD_STOPPED)
        rc = fetch_refused(f->client, &answer);
    buf_fini(&answer.body);
    return rc;
}

/* One connection; TD_UNREACHABLE: another one may go on. */
static enum td_status
connect_once(struct follower *f)
{
    char target[TARGET_MAX];
    char position[POSITION_MAX];
    struct connection_end end = {.how = CONNECTION_MEMORY};
    struct connection_plan plan = {
        .url = &f->url,
        .target = target,
        .subprotocol = f->options->form == TD_XML ? "resourcesync.xml"
                                                  : "resourcesync.json",
        .idle_ms = &f->idle_ms,
        .on_message = on_stream_message,
        .user = f,
    };

    if (!f->order.is_placed)
        snprintf(target, sizeof(target), "%s/stream", f->url.path);
    else if (!f->order.at.epoch[0])
        snprintf(target, sizeof(target), "%s/stream?after=%llu", f->url.path,
                 (unsigned long long)f->order.at.seq);
    else {
        position_write(position, f->order.at.epoch, f->order.at.seq);
        snprintf(target, sizeof(target), "%s/stream?after=%s", f->url.path,
                 position);
    }

    connection_run(f->client, &plan, &end);
    switch (end.how) {
    case CONNECTION_STOPPED:
        return TD_STOPPED;
    case CONNECTION_ENOUGH:
        return f->verdict;
    case CONNECTION_REFUSED:
        return refused(f, target, plan.subprotocol, end.code);
    case CONNECTION_CLOSED:
        f->has_farewell = end.code == CLOSE_GOING_AWAY;
        return client_fail(
            f->client, end.code == CLOSE_GONE ? TD_GONE : TD_UNREACHABLE,
            "the broker ended the stream: %u %s", end.code, end.reason);
    case CONNECTION_LOST:
        return client_fail(f->client, TD_UNREACHABLE, "%s", end.reason);
    case CONNECTION_BROKEN:
        return client_fail(f->client, TD_BROKEN, "%s", end.reason);
    case CONNECTION_MEMORY:
        break;
    }
    return client_fail(f->client, TD_MEMORY, "%s", end.reason);
}

/* Waits before the next connection; true: td_stop was called. */
static bool
pause_between(struct follower *f)
{
    bool is_farewell;
    unsigned ms;

    if (f->is_heard)
        f->pause_ms = PAUSE_FIRST;
    is_farewell = f->has_farewell && f->pause_ms < PAUSE_FAREWELL;
    ms = pause_take(&f->pause_ms, PAUSE_LAST);
    if (is_farewell)
        ms = pause_chance(PAUSE_FAREWELL);
    if (f->options->on_trouble)
        f->options->on_trouble(f->client->problem, ms, f->user);
    return client_wait(f->client, ms);
}

static enum td_status
follow(struct follower *f)
{
    enum td_status rc;

    for (;;) {
        f->is_heard = false;
        f->has_farewell = false;
        rc = connect_once(f);
        if (rc != TD_UNREACHABLE)
            return rc;
        if (pause_between(f))
            return TD_STOPPED;
    }
}

enum td_status
td_follow(struct td_client *client, const char *set_url,
          const struct td_follow_options *options, td_message_fn *on_message,
          void *user)
{
    static const struct td_follow_options defaults = {.after = NULL};
    struct follower f = {.client = client,
                         .options = options ? options : &defaults,
                         .on_message = on_message,
                         .user = user,
                         .pause_ms = PAUSE_FIRST};
    enum td_status rc;

    client_begin(client);
    rc = set_url_read(client, set_url, &f.url);
    if (rc)
        return client_end(client, rc);
    if (order_init(&f.order, f.options->after))
        return client_end(client,
                          client_fail(client, TD_INVALID,
                                      "not a position, EPOCH-SEQ: \"%.80s\"",
                                      f.options->after));
    f.idle_ms = f.options->idle_ms ? f.options->idle_ms : IDLE_DEFAULT;

    rc = incoming_init(&f.message, f.options->form);
    if (catchup_init(&f.catchup))
        rc = TD_MEMORY;
    rc = rc ? client_fail(client, rc, "no memory") : follow(&f);
    incoming_fini(&f.message);
    catchup_fini(&f.catchup);
    return client_end(client, rc);
}

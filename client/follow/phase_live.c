/*
 * phase_live.c - one live connection after the other.
 *
 *     after=EPOCH-SEQ     the follower's place, or
 *     since=DATETIME      its moment, until a message has a seq, or
 *     nothing             from now on
 *
 * A request says only this, so that any connection can continue any other, over
 * any transport. A follower that may share a connection (shared_stream.h) sends
 * the same in a command.
 */

#include "base/clock.h"
#include "client/follow/follower.h"
#include "client/lib/pause.h"
#include "proto/resourcesync/json.h"

/* An answer without news that comes sooner, although the request said to wait,
 * is from a server that cannot wait. */
#define POLL_SOON_MS 500

/* After so many connections in a row without a message the follower looks for
 * the source again; after one more it considers the transport unfit. */
#define MUTE_MAX 3

/* Writes the place as a value. Returns its name in requests; NULL: there is no
 * place. */
static const char *
write_start(const struct td_follower *f, char value[TD_POSITION_SIZE])
{
    struct source_position place;

    if (!follower_place(f, &place))
        return NULL;
    if (!place.is_time) {
        source_position_write(value, &place);
        return "after";
    }
    /* since= begins with what is later. A set never has two entries of one
     * time, so n_at is at most one. */
    strcpy(value, datetime_text(place.time_us - (place.n_at ? 0 : 1)).text);
    return "since";
}

static void
add_start(struct buf *url, const struct td_follower *f, unsigned transport)
{
    char value[TD_POSITION_SIZE];
    const char *name = write_start(f, value);

    if (name && !f->place.order.is_placed && f->options.since[0] &&
        f->place.moment.time_us == f->options.place.time_us)
        buf_add_format(url, "&%s", f->options.since);
    else if (name)
        buf_add_format(url, "&%s=%s", name, value);
    else if (transport == TD_LONG_POLL && f->offered.position)
        /* Each poll needs a place. */
        buf_add_format(url, "&after=%s", f->offered.position);
}

/* Writes the URL of `transport` with the place to begin at. A link to a
 * WebSocket may be ws: or http:; libcurl needs http. */
static void
write_url(struct buf *url, const struct td_follower *f, unsigned transport)
{
    const char *base = transport == TD_WEBSOCKET ? f->offered.stream
                       : transport == TD_EVENTS  ? f->offered.events
                                                 : f->offered.memory;
    bool has_query = strchr(base, '?') != NULL;
    size_t begin;

    if (!strncmp(base, "ws://", 5) || !strncmp(base, "wss://", 6)) {
        BUF_ADD(url, "http");
        base += 2;
    }
    buf_add_text(url, base);
    begin = url->size;
    add_start(url, f, transport);
    buf_add_text(url, transport == TD_EVENTS ? "&lines=yes" : "");
    buf_add_text(url, f->options.filters);
    if (!url->failed && url->size > begin && !has_query)
        url->data[begin] = '?';
    BUF_ADD(url, "\0");
}

/* The same for a command to a shared connection. */
static void
write_place(struct buf *to, void *user)
{
    char value[TD_POSITION_SIZE];
    const char *name = write_start(user, value);

    if (name)
        json_text_member(to, name, slice_of(value));
}

static bool handle_end(struct td_follower *f);

static bool
on_live_message(char *bytes, size_t size, void *user)
{
    struct td_follower *f = user;

    /* A later message says nothing about what was found meanwhile. */
    if (f->attempts.n_heard++ == 0)
        transport_choice_fit(f->connection.choice, f->connection.transport);
    if (f->connection.transport == TD_LONG_POLL &&
        !follower_compare_digest(f, f->connection.after_digest))
        return false;
    if (size == 0 && f->connection.transport == LIVE_SHARED)
        return !f->place.order.at.epoch[0] || deliver_heartbeat(f);
    return deliver_bytes(f, bytes, size);
}

static void
on_live_end(const struct live_end *end, void *user)
{
    struct td_follower *f = user;

    f->live = NULL;
    f->connection.end = *end;
    f->connection.has_end = true;
    if (f->state != FOLLOWER_FILLING &&
        !(f->is_paused & PAUSED_FOR_PROOF)) /* else its messages come
                                                        first */
        handle_end(f);
}

/* Without a place a part begins at the set's present one. */
static bool
knows_start(const struct td_follower *f, struct source_position *start)
{
    return follower_place(f, start) ||
           !source_position_read(slice_of(f->offered.position), start);
}

/* Without a place "now" is what the source has stated. */
static void
settle_start(struct td_follower *f)
{
    struct source_position start = {.is_time = false};

    if (knows_start(f, &start) && !follower_place(f, &start))
        follower_set_place(f, &start);
}

static bool
open_connection(struct td_follower *f, unsigned transport)
{
    struct source_position place;
    struct live_request request = {
        .transport = (enum td_transport)transport,
        .idle_ms = &f->connection.idle_ms,
        .shared = &f->shared,
        .after_digest = f->connection.after_digest,
        /* To learn the present place, or the head. */
        .is_at_once = f->how.until_caught_up || f->pusher.close ||
                      !follower_place(f, &place),
        .wait_s =
            transport_choice_wait_s(f->connection.choice, clock_steady_ms())};
    struct buf url = {.max = SIZE_MAX / 2};

    follower_enter(f, FOLLOWER_LIVE);
    f->connection.transport = transport;
    f->attempts.n_heard = 0;
    f->connection.is_news = false;
    f->connection.connected_ms = clock_steady_ms();
    if (transport != LIVE_SHARED) {
        write_url(&url, f, transport);
    } else {
        settle_start(f);
        f->shared.set = f->offered.name;
        f->shared.write_place = write_place;
        buf_add_format(&url, "%s%c", f->offered.streams, '\0');
    }
    request.url = url.data;
    if (!url.failed)
        f->live =
            live_start(f->client, &request, on_live_message, on_live_end, f);
    buf_fini(&url);
    if (!f->live)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    follower_hold(f);
    return false;
}

/* To reach the head and end there, the change memory is best: it states its
 * coverage at once, even if no change passes the filters. Else the follower
 * joins the shared connection, if it may. */
static unsigned
choose_transport(const struct td_follower *f)
{
    const struct follower_connection *c = &f->connection;
    struct source_position start = {.is_time = false};
    int64_t now_ms = clock_steady_ms();

    if (f->how.until_caught_up &&
        transport_choice_choose(c->choice, c->open & TD_LONG_POLL, now_ms))
        return TD_LONG_POLL;
    if (f->shared.stream && !f->how.until_caught_up && !f->pusher.close &&
        f->offered.streams && f->offered.name && knows_start(f, &start) &&
        shared_stream_takes(f->shared.stream, f->offered.streams,
                            f->offered.name))
        return LIVE_SHARED;
    return transport_choice_choose(c->choice, c->open, now_ms);
}

static bool
begin_live(struct td_follower *f)
{
    struct problem why = f->connection.unfit;
    unsigned transport;

    f->connection.choice =
        transport_hosts_of(&f->client->transports, f->offered.url);
    transport = choose_transport(f);

    if (f->how.until_caught_up && f->place.has_goal &&
        f->place.order.at.seq == f->place.goal.seq &&
        !strcmp(f->place.order.at.epoch, f->place.goal.epoch)) {
        if (follower_checkpoint_is_due(f, true) || !f->place.order.has_digest ||
            !f->offered.memory || f->shared.stream)
            return follower_reach(f);
        problem_clear(&f->gone);
        return f->phases[FOLLOWER_CHECKING]->begin(f);
    }
    if (catch_up_pays(f))
        return f->phases[FOLLOWER_CATCHING_UP]->begin(f);
    if (!transport) { /* all are unfit */
        transport_choice_forget(f->connection.choice);
        if (!why.rc) /* as other sets of the host have found */
            return follower_go(f);
        /* If no message ever came, the source cannot be followed; else the
         * failure may pass. */
        if (!f->connection.was_heard && why.http_status &&
            fetch_meaning(why.http_status) != STATUS_UNREACHABLE) {
            why.rc = STATUS_REFUSED;
            return follower_end(f, &why);
        }
        why.rc = STATUS_UNREACHABLE;
        f->search.is_sought = false;
        return follower_trouble(f, &why);
    }
    if (transport == TD_POLL)
        return f
            ->phases[follower_has_only_list(f) ? FOLLOWER_SURVEYING
                                               : FOLLOWER_POLLING]
            ->begin(f);
    return open_connection(f, transport);
}

/* Ends */

/* Reports once what is used instead; if that is nothing, begin_live ends or
 * pauses with the reason. */
static bool
end_unfit(struct td_follower *f, const struct problem *why)
{
    struct follower_connection *c = &f->connection;
    struct problem copy = *why;
    int64_t now_ms = clock_steady_ms();
    bool is_news = transport_choice_unfit(c->choice, c->transport, now_ms);
    unsigned next = transport_choice_choose(c->choice, c->open, now_ms);
    const char *lines = NULL; /* that nginx needs */

    /* The caller allows one transport alone, and a proxy may have spoilt it. */
    if (c->open == TD_WEBSOCKET && why->http_status)
        lines =
            "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;"
            " proxy_set_header Connection \"upgrade\";";
    else if (c->open == TD_EVENTS && !why->http_status)
        lines = "proxy_buffering off; proxy_read_timeout 1h;";
    c->unfit = *why;
    if (lines)
        problem(&c->unfit, why->rc,
                "%.700s; if a proxy stands between, nginx needs %s", why->text,
                lines);
    problem_prefix(&copy, STATUS_UNREACHABLE, "no %s here, %s instead: ",
                   transport_choice_name(c->transport),
                   transport_choice_name(next));
    follower_enter(f, FOLLOWER_RESTING);
    return (!is_news || !next || follower_report(f, copy.text, 0)) &&
           follower_go(f);
}

/* True if something between seems to cut long polls after some time: then the
 * next ones are shorter. */
static bool
shorten_polls(struct td_follower *f)
{
    struct follower_connection *c = &f->connection;
    int64_t now_ms = clock_steady_ms();

    return c->transport == TD_LONG_POLL && c->n_mute > 0 &&
           transport_choice_cut(c->choice, now_ms - c->connected_ms, now_ms);
}

static bool
end_cut(struct td_follower *f, const struct problem *why)
{
    struct problem copy = *why;

    problem_prefix(&copy, STATUS_UNREACHABLE,
                   "something cuts long polls here, shorter ones follow: ");
    return follower_report(f, copy.text, 0) && follower_go(f);
}

static bool
end_closed(struct td_follower *f, const struct live_end *end)
{
    struct problem why = {.rc = STATUS_UNREACHABLE};

    problem(&why, end->code == CLOSE_GONE ? STATUS_GONE : STATUS_UNREACHABLE,
            "the broker ended the stream: %u %s", end->code, end->why.text);
    f->attempts.has_farewell = end->code == CLOSE_GOING_AWAY;
    if (end->has_new_token)
        return follower_go(f);
    if (end->code == CLOSE_DENIED)
        f->attempts.n_heard = 0; /* each stream begins with a message: without
                                    this the pauses would not grow */
    return why.rc == STATUS_GONE ? follower_gone(f, &why)
                                 : follower_trouble(f, &why);
}

static bool
connect_again(struct td_follower *f)
{
    struct problem why = {.text = ""};
    unsigned ms = 0;

    if (!f->connection.is_news) { /* old answers repeat for ever */
        problem(&why, STATUS_UNREACHABLE, "the server has nothing new");
        if (!follower_is_patient(f, &why, &ms))
            return false;
    }
    if (!f->connection.is_news && f->pusher.close)
        return follower_wait(f);
    if (!f->connection.is_news &&
        clock_steady_ms() - f->connection.connected_ms < POLL_SOON_MS)
        return follower_rest(f,
                             pause_take(&f->attempts.pause_ms, PAUSE_LONGEST));
    f->attempts.pause_ms = PAUSE_FIRST;
    return follower_go(f);
}

/* Handles the end of the connection, if it has ended. */
static bool
handle_end(struct td_follower *f)
{
    const struct live_end *end = &f->connection.end;
    const struct problem *why = &end->why;
    bool was_fresh = f->search.is_fresh;

    if (!f->connection.has_end) {
        follower_hold(f);
        return true;
    }
    f->connection.has_end = false;
    if (f->attempts.n_heard == 0) /* the next transport begins there, too */
        settle_start(f);
    f->search.is_fresh = false;
    f->place.has_goal &= f->how.until_caught_up; /* it is an old one now */
    switch (end->how) {
    case LIVE_AGAIN:
        return connect_again(f);
    case LIVE_REFUSED:
        if (end->has_new_token)
            return follower_go(f);
        if (why->rc == STATUS_UNREACHABLE)
            return follower_trouble(f, why);
        if (why->rc == STATUS_GONE)
            return follower_gone(f, why);
        if (why->http_status != 404 || was_fresh)
            return follower_end(f, why);
        f->search.is_sought = false; /* perhaps it moved */
        return follower_go(f);
    case LIVE_UNFIT:
        return end_unfit(f, why);
    case LIVE_CLOSED:
        return end_closed(f, end);
    case LIVE_BROKEN:
    case LIVE_MEMORY:
        return follower_end(f, why);
    case LIVE_ENOUGH: /* not here: deliver has freed the connection */
    case LIVE_LOST:
        break;
    }
    /* The connection failed, broke, or fell silent. */
    if (f->attempts.n_heard)
        return follower_trouble(f, why);
    if (shorten_polls(f))
        return end_cut(f, why);
    if (++f->connection.n_mute > MUTE_MAX) {
        f->connection.n_mute = 0;
        return end_unfit(f, why);
    }
    if (f->connection.n_mute == MUTE_MAX)
        f->search.is_sought = false; /* the source may be down */
    return follower_trouble(f, why);
}

const struct phase phase_live = {.begin = begin_live, .go_on = handle_end};

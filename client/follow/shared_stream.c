/*
 * shared_stream.c - one live connection for all sets of a source.
 *
 *     RESTING --pause--> connecting --answer--> open --end--> RESTING
 *                            ^                   | |
 *                            +--- events: join --+ +-- WebSocket: commands
 *
 * A WebSocket gets commands while it is open:
 *
 *     {"follow":[{"set":"a","after":"0123456789abcdef-7"},...]}
 *     {"unfollow":["a",...]}
 *
 * A stream of events gets the first of these as the body of its request; sets
 * that join later need a new request. The broker sends, for any set, messages
 * as on the set's own stream, in XML, which names its set by the link to its
 * Capability List (a wrong name leads to a follower that refuses the lines), and
 * besides:
 *
 *     {"set":"a","end":"removed","detail":"..."}    gone, unknown, failed
 *     {"resume":"..."} {"now":"...","heartbeat":10}
 *
 * The text of "resume" is not needed here: each follower has its place. But
 * such a note proves a live broker. The sets have no heartbeats of their own;
 * so each follower gets one when its set has joined, and after each interval in
 * which its set was silent.
 */
#include "client/follow/shared_stream.h"

#include "base/array.h"
#include "base/clock.h"
#include "client/follow/transport.h"
#include "client/lib/fetch.h"
#include "client/lib/json_slices.h"
#include "client/lib/pause.h"
#include "proto/number.h"
#include "proto/resourcesync/json.h"

/* After so many WebSockets in a row without a message, events are tried; after
 * so many answers that this is too much, nothing is. */
#define REFUSED_MAX 3

#define TOO_MANY_REQUESTS 429

/* Bytes of a command, about: a broker takes messages of 64 KB. */
#define COMMAND_BYTES 32768

/* A set that joins a stream of events waits so many milliseconds for others:
 * each new request begins all sets anew. */
#define JOIN_MS 1000

/* Bytes of the request for a stream of events. */
#define BODY_MAX (16 * 1024 * 1024)

/* A set that has joined; kept when it has left. */
struct shared_set {
    struct map_node node;
    char *name;
    struct live *part;   /* NULL: it has left */
    uint64_t connection; /* the last one whose broker was asked for the set */
    bool is_pending;     /* the broker does not know that it joined, or left */
    bool has_message;    /* since the last heartbeat */
};

/* The transport's part of a follower's `struct live` */
struct part {
    struct shared_set *set; /* NULL: it has left, or not joined */
};

static void connect_stream(struct shared_stream *s);

/* Sets by themselves and sets together need the same of a WebSocket, not of
 * events: these are asked for by a POST. */
static struct transport_choice *
host_choice(struct shared_stream *s)
{
    return transport_hosts_of(&s->client->transports, s->url);
}

/* Sets */

static struct shared_set *
find_set(struct shared_stream *s, struct slice name)
{
    struct shared_set *set;

    map_each_same (set, &s->by_name, map_hash(&s->by_name, name), node) {
        if (slice_is(name, set->name))
            return set;
    }
    return NULL;
}

bool
shared_stream_takes(struct shared_stream *s, const char *url, const char *name)
{
    const struct shared_set *set;

    if (!set_name_is_valid(slice_of(name)) ||
        (s->url && strcmp(s->url, url) != 0) ||
        !transport_choice_choose(&s->choice, s->open, clock_steady_ms()))
        return false;
    set = find_set(s, slice_of(name));
    return set ? !set->part : s->n_sets < SHARED_STREAM_SETS_MAX;
}

/* Connects, or sends what is pending, soon: after the pause, if there is one.
 */
static void
work_soon(struct shared_stream *s)
{
    if (!s->work.alarm.is_set)
        timer_start(&s->work,
                    s->live && s->transport == TD_EVENTS ? JOIN_MS : 0);
}

/* Ends a follower's part; it does not know yet. `is_asked`: the broker still
 * sends messages of the set. */
static void
leave(struct live *live, bool is_asked)
{
    const struct shared_part *shared = live->request.shared;
    struct shared_stream *s = shared->stream;
    struct part *part = live->own;
    struct shared_set *set = part->set;

    if (!set)
        return;
    part->set = NULL;
    set->part = NULL;
    set->is_pending = is_asked && set->connection == s->n_connections;
    s->n_parts--;
    if (set->is_pending && s->live && s->live->is_answered)
        work_soon(s);
    s->events.on_joined(shared->number, false, s->user);
}

/* Commands */

/* Adds a set that joins to the command that asks for sets. */
static void
add_follow(struct buf *to, struct shared_set *set)
{
    struct live *part = set->part;

    buf_add_text(to, to->size > 0 ? ",{\"set\":" : "{\"follow\":[{\"set\":");
    json_text(to, slice_of(set->name));
    part->request.shared->write_place(to, part->user);
    BUF_ADD(to, "}");
}

/* Sends the joining sets, or the leaving ones, in commands. False: the broker
 * does not take them. */
static bool
send_pending(struct shared_stream *s, bool is_joining)
{
    bool is_sent = true;
    struct buf text = {.max = SIZE_MAX / 2};

    for (size_t i = 0; i <= s->n_sets && is_sent; i++) {
        struct shared_set *set = i < s->n_sets ? s->sets[i] : NULL;
        bool is_wanted =
            set && set->is_pending && (set->part != NULL) == is_joining;

        if (is_wanted && is_joining) {
            add_follow(&text, set);
            set->connection = s->n_connections;
        } else if (is_wanted) {
            buf_add_text(&text, text.size > 0 ? "," : "{\"unfollow\":[");
            json_text(&text, slice_of(set->name));
        }
        if (text.size > (set ? COMMAND_BYTES : 0)) {
            BUF_ADD(&text, "]}");
            is_sent = !text.failed &&
                      s->live->transport->send(s->live, buf_slice(&text));
            buf_clear(&text);
        }
    }
    buf_fini(&text);
    return is_sent;
}

/* True if the set's follower takes messages: it has not left, and the broker
 * has been asked for its place. */
static bool
hears(const struct shared_set *set)
{
    return set->part && !set->is_pending && !set->part->is_ending;
}

/* Heartbeats: a message of no bytes (live_connection.h). */

static void
send_heartbeat(struct shared_set *set)
{
    set->has_message = false;
    if (hears(set))
        live_message(set->part, NULL, 0);
}

/* The commands are sent: gives the followers of new sets their first heartbeat.
 */
static void
settle_pending(struct shared_stream *s)
{
    for (size_t i = 0; i < s->n_sets; i++) {
        struct shared_set *set = s->sets[i];

        if (!set->is_pending ||
            (set->part && set->connection != s->n_connections))
            continue;
        set->is_pending = false;
        send_heartbeat(set);
    }
}

/* Work of the timer */

static void
send_commands(struct shared_stream *s)
{
    if (send_pending(s, false) && send_pending(s, true))
        settle_pending(s);
    else
        live_finish(s->live, LIVE_LOST, "the broker does not read");
}

static bool
has_joining(const struct shared_stream *s)
{
    for (size_t i = 0; i < s->n_sets; i++)
        if (s->sets[i]->is_pending && s->sets[i]->part)
            return true;
    return false;
}

static void
on_work(void *user)
{
    struct shared_stream *s = user;

    if (s->live && !s->live->is_answered) /* on_open does it */
        return;
    if (s->live && s->transport == TD_WEBSOCKET) {
        send_commands(s);
    } else if (!s->live || has_joining(s)) {
        /* Sets that have left stay in a stream of events until the next. */
        live_free(s->live);
        s->live = NULL;
        connect_stream(s);
    }
}

static void
pause_stream(struct shared_stream *s, const char *why, unsigned ms)
{
    timer_start(&s->work, ms);
    s->events.on_trouble(why, ms, s->user);
}

static void
report_trouble(struct shared_stream *s, const struct problem *why)
{
    if (s->n_heard > 0)
        s->pause_ms = PAUSE_FIRST;
    pause_stream(s, why->text,
                 pause_asked(&s->pause_ms, PAUSE_LONGEST, why->retry_after_s));
}

/* Tries the next transport. */
static void
report_unfit(struct shared_stream *s, const struct problem *why)
{
    struct problem report = *why;
    int64_t now_ms = clock_steady_ms();
    unsigned next;

    s->n_refused = 0;
    if (transport_choice_unfit(&s->choice, s->transport, now_ms)) {
        next = transport_choice_choose(&s->choice, s->open, now_ms);
        problem_prefix(&report, STATUS_UNREACHABLE,
                       "no %s for all sets together here, %s instead: ",
                       transport_choice_name(s->transport),
                       next ? transport_choice_name(next)
                            : "each set by itself");
        s->events.on_trouble(report.text, 0, s->user);
    }
    connect_stream(s);
}

/* The broker refuses the sets together, over any transport. */
static void
report_refusal(struct shared_stream *s, const struct problem *why)
{
    transport_choice_unfit(&s->choice, TD_WEBSOCKET, clock_steady_ms());
    s->transport = TD_EVENTS;
    report_unfit(s, why);
}

/* Messages */

struct message {
    struct slice set, end;
    bool is_note;
    bool has_no_lines;     /* of an earlier broker, which sends JSON */
    uint64_t heartbeat_ms; /* of a note; 0: not stated */
};

/* Reads the set of a message in XML, the members of a note in JSON. */
static void
read_message(struct slice text, struct message *message)
{
    struct slice name, value = {NULL, 0};
    int64_t us;

    *message = (struct message){.is_note = false};
    if (slice_starts(text, "<") &&
        slice_skip_past(&text, "<rs:ln rel=\"up\" href=\"")) {
        name = slice_take(&text, '"');
        while (name.size > 0) {
            message->set = value;
            value = slice_take(&name, '/');
        }
        return;
    }
    while (json_slices_next(&text, &name, &value)) {
        if (slice_is(name, "set"))
            message->set = json_slices_text(value);
        else if (slice_is(name, "end"))
            message->end = json_slices_text(value);
        else if (slice_is(name, "heartbeat") && seconds_read(value, &us))
            message->heartbeat_ms = (uint64_t)us / 1000;
        if (slice_is(name, "resume") || slice_is(name, "heartbeat"))
            message->is_note = true;
        message->has_no_lines |= slice_is(name, "changes");
    }
}

static void
take_message(struct shared_stream *s, const struct message *message,
             struct slice text)
{
    struct shared_set *set = find_set(s, message->set);
    struct fetch_answer unknown = {.status = 404,
                                   .type = "application/problem+json"};
    struct live *part;

    if (!set || set->connection != s->n_connections) {
        live_finish(s->live, LIVE_BROKEN,
                    "the broker sent a message of a set that nobody asked for");
        return;
    }
    set->has_message = true;
    /* If the set has left, or joins anew right now, the broker has sent this
     * before it read that. */
    if (!hears(set))
        return;
    part = set->part;
    if (message->end.size == 0) {
        live_message(part, (char *)text.data, text.size);
        return;
    }
    leave(part, false);
    if (slice_is(message->end, "unknown")) {
        buf_init(&unknown.body, text.size);
        buf_add_slice(&unknown.body, text);
        live_finish_refused(part, &unknown);
        buf_fini(&unknown.body);
    } else if (!live_finish_named(part, message->end, text)) {
        live_finish_named(part, SLICE("failed"), text);
    }
}

static bool
on_stream_message(char *bytes, size_t size, void *user)
{
    struct shared_stream *s = user;
    struct slice text = {bytes, size};
    struct message message;

    read_message(text, &message);
    if (message.set.size == 0 && !message.is_note) {
        live_finish(s->live, LIVE_BROKEN,
                    "the broker sent something that is no message");
        return true;
    }
    if (s->n_heard++ == 0) {
        transport_choice_fit(&s->choice, s->transport);
        if (s->transport == TD_WEBSOCKET)
            transport_choice_fit(host_choice(s), TD_WEBSOCKET);
    }
    s->n_refused = 0;
    s->was_heard = true;
    if (message.has_no_lines)
        live_finish(s->live, LIVE_UNFIT,
                    "the messages of this broker have no lines of the log");
    else if (message.set.size > 0)
        take_message(s, &message, text);
    else if (message.heartbeat_ms > 0 && !s->has_own_idle)
        s->idle_ms = live_idle_ms(message.heartbeat_ms);
    /* One interval is over, or almost: clocks differ. */
    if (10 * (clock_steady_ms() - s->heartbeat_ms) < 3 * s->idle_ms)
        return true;
    s->heartbeat_ms = clock_steady_ms();
    for (size_t i = 0; i < s->n_sets; i++) {
        if (s->sets[i]->has_message)
            s->sets[i]->has_message = false;
        else
            send_heartbeat(s->sets[i]);
    }
    return true;
}

/* The end of the connection */

/* True if another attempt may be answered differently. */
static bool
is_passing(struct shared_stream *s, const struct problem *why)
{
    if (why->http_status == TOO_MANY_REQUESTS && ++s->n_refused > REFUSED_MAX)
        return false;
    return fetch_meaning(why->http_status) == STATUS_UNREACHABLE ||
           (why->http_status == 401 && s->was_heard &&
            servers_may_change_token(&s->client->servers, s->url));
}

static void
end_closed(struct shared_stream *s, const struct live_end *end)
{
    struct problem why = {.rc = STATUS_UNREACHABLE};

    problem(&why, STATUS_UNREACHABLE, "the broker ended the stream: %u %s",
            end->code, end->why.text);
    if (end->code == CLOSE_DENIED)
        s->n_heard = 0; /* each stream begins with a message: without this the
                           pauses would not grow */
    if (end->code == CLOSE_GOING_AWAY && s->n_heard > 0)
        pause_stream(s, why.text, pause_chance(PAUSE_FAREWELL));
    else if (end->code == CLOSE_UNSUPPORTED || end->code == CLOSE_BAD_TEXT ||
             end->code == CLOSE_POLICY)
        report_refusal(s, &why);
    else
        report_trouble(s, &why);
}

static void
on_stream_end(const struct live_end *end, void *user)
{
    struct shared_stream *s = user;
    bool is_lost = end->how == LIVE_LOST || end->how == LIVE_MEMORY;

    s->live = NULL;
    if (end->how == LIVE_UNFIT && s->transport == TD_WEBSOCKET)
        transport_choice_unfit(host_choice(s), TD_WEBSOCKET, clock_steady_ms());
    timer_stop(&s->work);
    buf_clear(&s->body);
    /* A connection that failed, broke or fell silent: the broker may be away,
     * or a proxy does not carry WebSockets. Tries events, too, and then
     * WebSockets again. */
    if (is_lost && !end->has_new_token && s->n_heard == 0 &&
        s->transport == TD_EVENTS)
        transport_choice_forget(&s->choice);
    if (end->has_new_token)
        connect_stream(s);
    else if (end->how == LIVE_CLOSED)
        end_closed(s, end);
    else if (is_lost && s->n_heard == 0 && s->transport == TD_WEBSOCKET &&
             ++s->n_refused > REFUSED_MAX)
        report_unfit(s, &end->why);
    else if (is_lost || (end->how == LIVE_REFUSED && is_passing(s, &end->why)))
        report_trouble(s, &end->why);
    else if (end->why.http_status == TOO_MANY_REQUESTS)
        report_refusal(s, &end->why);
    else
        report_unfit(s, &end->why);
}

/* Its beginning */

static void
on_open(void *user)
{
    struct shared_stream *s = user;

    if (s->transport == TD_WEBSOCKET) {
        send_commands(s);
        return;
    }
    settle_pending(s);
    if (has_joining(s))
        work_soon(s);
}

/* Starts the connection. False: no memory. */
static bool
start_stream(struct shared_stream *s)
{
    struct live_request request = {.transport = (enum td_transport)s->transport,
                                   .idle_ms = &s->idle_ms,
                                   .on_open = on_open};
    char *url;

    if (s->transport == TD_EVENTS) { /* asks for all sets */
        buf_clear(&s->body);
        for (size_t i = 0; i < s->n_sets; i++) {
            if (!s->sets[i]->part)
                continue;
            add_follow(&s->body, s->sets[i]);
            s->sets[i]->connection = s->n_connections;
        }
        BUF_ADD(&s->body, "]}");
        request.body = buf_slice(&s->body);
    }
    if (asprintf(&url, "%s?lines=yes%s", s->url, s->filters) < 0)
        return false;
    request.url = url;
    if (!s->body.failed)
        s->live = live_start(s->client, &request, on_stream_message,
                             on_stream_end, s);
    free(url);
    return s->live != NULL;
}

static void
connect_stream(struct shared_stream *s)
{
    int64_t now_ms;

    s->n_heard = 0;
    s->n_connections++;
    s->heartbeat_ms = clock_steady_ms();
    if (s->n_parts == 0)
        return;
    for (size_t i = 0; i < s->n_sets; i++)
        s->sets[i]->is_pending = s->sets[i]->part != NULL;
    now_ms = clock_steady_ms();
    if (!transport_choice_choose(host_choice(s), TD_WEBSOCKET, now_ms))
        transport_choice_unfit(&s->choice, TD_WEBSOCKET, now_ms);
    s->transport = transport_choice_choose(&s->choice, s->open, now_ms);
    if (s->transport != 0 && start_stream(s))
        return;
    /* No transport is left: each follower goes on by itself. */
    for (size_t i = 0; i < s->n_sets; i++) {
        struct live *part = s->sets[i]->part;

        if (!part)
            continue;
        leave(part, false);
        live_finish(part, LIVE_AGAIN, "%s", "");
    }
}

/* Parts: the transport of followers */

static bool
join(struct live *live)
{
    const struct shared_part *shared = live->request.shared;
    struct shared_stream *s = shared->stream;
    struct part *part = live->own;
    struct shared_set *set = find_set(s, slice_of(shared->set));

    if (!s->url)
        s->url = strdup(live->url);
    if (!s->url)
        return false;
    if (!set) {
        set = calloc(1, sizeof(*set));
        if (!ONE_MORE(s->sets, &s->capacity, s->n_sets) || !set ||
            !(set->name = strdup(shared->set))) {
            free(set);
            return false;
        }
        s->sets[s->n_sets++] = set;
        map_add(&s->by_name, &set->node,
                map_hash(&s->by_name, slice_of(set->name)));
    }
    part->set = set;
    set->part = live;
    set->is_pending = true;
    s->n_parts++;
    work_soon(s);
    s->events.on_joined(shared->number, true, s->user);
    return true;
}

static void
leave_part(struct live *live)
{
    leave(live, true);
}

/* A pause may be long, and the broker sends on: so the part leaves, and its
 * follower joins anew at its place then. */
static void
resume_part(struct live *live)
{
    if (!live->is_paused)
        live_finish(live, LIVE_AGAIN, "%s", "");
}

const struct transport transport_shared = {
    .name = LIVE_SHARED,
    .size = sizeof(struct part),
    .start = join,
    .stop = leave_part,
    .go_on = resume_part,
    .pause = leave_part,
    .is_watched = true,
};

/* Life cycle */

void
shared_stream_init(struct shared_stream *s, struct td_client *client,
                   const struct td_follow_options *how, const char *filters,
                   const struct shared_stream_events *events, void *user)
{
    *s = (struct shared_stream){
        .client = client,
        .events = *events,
        .user = user,
        .has_own_idle = how->idle_ms > 0,
        .idle_ms = how->idle_ms ? how->idle_ms : LIVE_IDLE_DEFAULT,
        .pause_ms = PAUSE_FIRST,
        .open = how->transports & (TD_WEBSOCKET | TD_EVENTS)};
    snprintf(s->filters, sizeof(s->filters), "%s", filters);
    buf_init(&s->body, BODY_MAX);
    timer_init(&s->work, client->loop, on_work, s);
}

void
shared_stream_fini(struct shared_stream *s)
{
    live_free(s->live);
    timer_stop(&s->work);
    for (size_t i = 0; i < s->n_sets; i++) {
        free(s->sets[i]->name);
        free(s->sets[i]);
    }
    free(s->sets);
    map_fini(&s->by_name);
    buf_fini(&s->body);
    free(s->url);
}

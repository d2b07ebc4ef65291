#include "broker/push/subscribers.h"

#include "base/inflater.h"
#include "broker/base/metrics.h"
#include "broker/net/response.h"
#include "broker/push/stream_sets.h"
#include "proto/number.h"
#include "proto/resourcesync/json.h"

/* Serving a crowd costs a send each, however small the message. After a round
 * that took longer than GATHER_FROM_US, commits gather for as long again, at
 * most for GATHER_MAX_US, and go out together: half of the thread's time stays
 * for others. */
#define GATHER_FROM_US 500
#define GATHER_MAX_US  5000

/* Bytes of messages per thread. Above it a subscriber that cannot send releases
 * its message, and has it made again later. */
#define MESSAGES_BUDGET ((size_t)16 << 20)

/* A thread looks at all of its subscribers at the first tick after this time
 * (some 20 ns each: 10,000 are 0.2 ms), rather than update sums of lags at
 * every message, or know the streams of each principal. Less than a tick: two
 * looks lie within the two seconds in which streams end. */
#define LOOK_US 500000

/* A connected client. */
struct subscriber {
    struct reader *reader; /* holds the message that is being sent: `own`; of
                              many sets that of a member, NULL between two
                              messages */
    struct list idle_node; /* in the thread's idle list, by last_sent_us */
    struct principal *principal; /* a reference */
    struct stream *stream;
    size_t offset;       /* bytes of the message that the stream has taken */
    size_t message_size; /* of a message that it released half-sent; else 0 */
    int64_t opened_us;
    int64_t last_sent_us;
    uint16_t close_code; /* the code to close with behind its message, when
                            there is room; 0: stays open */
    uint8_t kind;        /* the number of its transport */
    bool is_gone;        /* the requested position cannot be served */
    bool is_closing;
    bool is_many;
    bool wants_checkpoints; /* of its one set */
    int64_t checkpoint_us;  /* set->checkpoint_us of the last one sent */
    struct reader own;      /* of a stream of one set */
};

/* A connected client of many sets. */
struct many {
    struct subscriber subscriber;
    struct stream_sets sets;
    struct push_thread *thread;
    struct list node;            /* in the thread's list of them */
    struct list owing;           /* in the thread's list of those whose client
                                    has no text for all that was sent */
    int64_t resumed_us;          /* when the last resume text was sent */
    struct follow_request ahead; /* names positions that this copy may lack; */
    struct catch_up_wait catch_up_wait; /* it waits */
    bool is_ahead;   /* likewise; the client is not read meanwhile */
    bool is_waiting; /* for room, or for on_open */
    bool is_due;     /* a text is to be sent before other members */
};

/* The lags of a transport's subscribers, as of the last look: only figures, so
 * relaxed. */
struct shown_lag {
    _Atomic(uint64_t) sum, max;
};

struct push_thread {
    struct set_readers set_readers;
    struct polls polls;
    struct catch_up_waits catch_up_waits;
    struct list idle;  /* of subscribers, by the time of the last sending */
    struct list many;  /* those of many sets */
    struct list owing; /* of these, those that owe a resume text */
    uint64_t births;   /* the sets that had begun at the last search for new
                          ones: log_births */
    uint64_t newest, newest_before; /* the highest number of a set found in
                                       that search, and in the one before */
    int64_t gather_until_us;
    int64_t looked_us;
    struct shown_lag lags[SET_TRANSPORTS_MAX];
    struct task farewell;
    bool is_ending;
};

struct push {
    struct registry *registry;
    unsigned n_threads;
    struct push_thread threads[];
};

/* The set whose message is being sent. */
static struct read_set *
set_of(const struct subscriber *s)
{
    return read_set_of(s->reader);
}

static struct many *
many_of(const struct subscriber *s)
{
    return list_entry(s, struct many, subscriber);
}

static struct push_thread *
thread_of(const struct subscriber *s)
{
    return s->is_many
               ? many_of(s)->thread
               : list_entry(set_of(s)->all, struct push_thread, set_readers);
}

/* Closing */

/* `reason` NULL: what the code means. */
static void
close_now(struct subscriber *s, unsigned code, const char *reason,
          const char *members)
{
    const struct ending ending = {code, reason, members, s->offset > 0};

    if (s->is_many) {
        s->reader = NULL;
        stream_sets_clear(&many_of(s)->sets);
    } else {
        reader_release(s->reader);
    }
    s->is_closing = true;
    transports_close(&transport_rows[s->kind], s->stream, &ending);
}

/* Closes it with a code that says why. A client that waits for
 * room gets the rest of its message first: some WebSocket clients reject a
 * close frame between two frames of a message, and an EventSource would read
 * the reason as a part of the event. A client that does not read fast enough
 * for --min-rate ends without a reason. The first call counts.
 *
 * A subscriber that has released its message does not wait: it would need the
 * rest, from a set that may be removed. */
static void
close_behind_message(struct subscriber *s, unsigned code)
{
    const struct reader *r = s->reader;
    bool waits_for_room =
        r ? r->state == READER_READY && (r->message || r->upto == 0)
          : many_of(s)->is_waiting; /* perhaps for on_open */

    if (s->is_closing || s->close_code)
        return;
    if (waits_for_room)
        s->close_code = (uint16_t)code;
    else
        close_now(s, code, NULL, NULL);
}

/* The requested or reached position cannot be served: sends the positions that
 * can be, at once, also within a message. */
static void
close_gone(struct subscriber *s)
{
    char reason[STREAM_SETS_REASON_SIZE];
    struct buf members;

    stream_sets_gone(set_of(s)->set, reason, &members);
    close_now(s, CLOSE_POSITION_GONE, reason, members.data);
    buf_fini(&members);
}

/* Its reader does not get the next message: closes it at once. A stream of many
 * sets cannot go on within a message. */
static void
close_failed(struct subscriber *s)
{
    struct head head = {.is_removed = false};

    if (!s->is_many)
        log_head(set_of(s)->set->log, &head);
    if (head.is_removed)
        close_now(s, CLOSE_SET_REMOVED, NULL, NULL);
    else if (!s->is_many && s->reader->state == READER_GONE)
        close_gone(s);
    else
        close_now(s, CLOSE_FAILED,
                  s->offset > 0 ? "the message cannot be completed"
                                : "the broker cannot read its log",
                  NULL);
}

/* Sending */

/* Moves it to the end of the idle list, after it was sent something or
 * checked. */
static void
note_sent(struct subscriber *s, int64_t now_us)
{
    s->last_sent_us = now_us;
    list_put(&thread_of(s)->idle, &s->idle_node);
}

enum sent {
    SENT_PART,   /* wait for on_room, or on_gone */
    SENT_CHOKED, /* all is sent, but nothing may follow until on_room */
    SENT_WHOLE
};

/* Sends what is left of the message. */
static enum sent
send_rest(struct subscriber *s)
{
    struct reader *r = s->reader;
    const struct shared_message *shared = r->message;
    struct slice message = shared_message_slice(shared);
    enum stream_result sent = STREAM_SENT;
    int64_t now_us;

    while (s->offset < message.size) {
        struct slice piece = transports_piece(message, s->offset);

        sent = stream_write(s->stream, piece.data, piece.size);
        if (sent == STREAM_DEAD) {
            s->is_closing = true;
            return SENT_PART;
        }
        s->offset += piece.size;
        if (sent == STREAM_SENT || s->offset == message.size)
            continue;
        /* Releases the message, if the thread has too many. The offset in it
         * is enough to continue: see message.h. A subscriber that is closed
         * behind its message keeps it, and gets no other. */
        if (shared_messages_bytes(&set_of(s)->all->readers.messages) >
                MESSAGES_BUDGET &&
            !s->close_code && !shared->wish.is_heartbeat) {
            r->upto = shared->last;
            s->message_size = shared->size;
            reader_release(r);
        }
        return SENT_PART;
    }
    now_us = clock_steady_us();
    note_sent(s, now_us);
    metrics_add_label(METRIC_MESSAGES, s->kind, 1);
    /* Commits from before the subscriber's start say nothing about our speed,
     * and are not measured. */
    if (shared->committed_us > s->opened_us)
        metrics_observe_us(METRIC_PUSH_LATENCY, now_us - shared->committed_us);
    stream_count_message(s->stream);
    s->offset = 0;
    if (!s->is_many)
        reader_advance(r);
    return sent == STREAM_CHOKED ? SENT_CHOKED : SENT_WHOLE;
}

/* Texts between messages */

/* Sends a text between two messages. It is small, and one write takes it
 * whole. */
static enum stream_result
write_note(struct subscriber *s, const char *event, struct slice json,
           struct slice id)
{
    enum stream_result sent;
    struct buf wire = {.max = STREAM_FRAME_MAX};

    transports_note(&transport_rows[s->kind], &wire, event, json, id);
    sent = stream_write(s->stream, wire.data, wire.size);
    buf_fini(&wire);
    s->is_closing |= sent == STREAM_DEAD;
    return sent;
}

/* Sends the newest checkpoint of the set to a subscriber that wants it, and has
 * all entries that it covers; not within a message. False: there is no more
 * room. Heartbeats come as without it. */
static bool
send_checkpoint(struct subscriber *s)
{
    const struct reader *r = s->reader;
    struct buf json = {.max = STREAM_FRAME_MAX};
    enum stream_result sent = STREAM_SENT;
    const struct set *set;

    if (!s->wants_checkpoints || s->is_closing || s->close_code || r->message ||
        r->upto > 0)
        return true;
    set = set_of(s)->set;
    if (load_relaxed(&set->checkpoint_us) == s->checkpoint_us ||
        load_relaxed(&set->checkpoint_size) > r->after)
        return true;
    if (registry_checkpoint(set, r->after, &json, &s->checkpoint_us))
        sent = write_note(s, "checkpoint", buf_slice(&json), SLICE(""));
    buf_fini(&json);
    return sent == STREAM_SENT;
}

/* Many sets */

/* After something was sent to its last byte: waits for room, if the stream is
 * choked, or if more is to be sent; one message per turn of the event loop, as
 * for one set. */
static void
go_on(struct many *many, enum sent sent)
{
    if (sent == SENT_CHOKED) {
        many->is_waiting = true; /* on_room comes */
    } else if (many->subscriber.close_code ||
               stream_sets_are_waiting(&many->sets)) {
        many->is_waiting = true;
        stream_want_room(many->subscriber.stream);
    }
}

static void
send_note(struct many *many, const char *event, struct slice json,
          struct slice id)
{
    struct subscriber *s = &many->subscriber;
    enum stream_result sent = write_note(s, event, json, id);

    if (sent == STREAM_DEAD)
        return;
    note_sent(s, clock_steady_us());
    go_on(many, sent == STREAM_CHOKED ? SENT_CHOKED : SENT_WHOLE);
}

/* Most bytes of what the broker says of one set. */
#define END_MAX 8192

/* Resume texts */

/* A text costs some 50 ns for each set, and its bytes: a client gets one after
 * a burst of messages, but not before so long after the last one, and so spends
 * at most 50 KB a second on them. The next tick sends a text that is owed. */
#define TEXT_GAP_US 100 /* for each set */

const struct json_shape stream_heartbeat_shape = {
    "StreamHeartbeat", "A heartbeat of a stream of many sets",
    "now time, heartbeat number (seconds between two), "
    "resume? string (the positions of all sets)"};

const struct json_shape resume_shape = {
    "Resume", "All before it was sent: the positions of all sets",
    "resume string"};

/* Room for more sets than fit in a text. */
#define TEXT_SETS_MAX 2400

/* True if it waits for room, or sends a message. */
static bool
is_busy(const struct many *many)
{
    return many->is_waiting || many->subscriber.reader ||
           many->subscriber.is_closing;
}

/* Sends the text for all that was sent behind the members of `json`, which it
 * ends, as an event of that name or alone (NULL). False: there is no text now,
 * so only an event was sent. Between two messages only. */
static bool
send_with_text(struct many *many, const char *event, struct buf *json)
{
    const struct stream_sets *m = &many->sets;
    size_t room = m->by_name.n < TEXT_SETS_MAX ? m->by_name.n : TEXT_SETS_MAX;
    struct resume_text text = {
        .made_us = clock_now_us(),
        .newest = many->thread->newest_before,
        .entries = memory_new(room + 1, sizeof(*text.entries)),
    };
    struct head framework;
    struct buf id = {.max = RESUME_TEXT_MAX};
    bool has_text;

    has_text = log_head(m->registry->framework->log, &framework) &&
               stream_sets_positions(m, text.entries, room, &text.n) &&
               resume_text_write(&id, framework.epoch, &text);
    free(text.entries);
    list_remove(&many->owing);
    many->is_due = false;
    many->resumed_us = clock_steady_us();
    if (has_text) {
        buf_add_text(json, event ? ",\"resume\":" : "{\"resume\":");
        json_text(json, buf_slice(&id));
    }
    BUF_ADD(json, "}");
    if (event || has_text)
        send_note(many, event, buf_slice(json), buf_slice(&id));
    buf_fini(&id);
    buf_fini(json);
    return has_text;
}

/* Sends the text alone. False: there is none. */
static bool
send_text(struct many *many)
{
    struct buf json = {.max = END_MAX};

    return send_with_text(many, NULL, &json);
}

/* After everything was sent. */
static void
send_owed_text(struct many *many)
{
    int64_t gap_us = (int64_t)many->sets.by_name.n * TEXT_GAP_US;

    if (!is_busy(many) && !list_is_empty(&many->owing) &&
        !stream_sets_are_waiting(&many->sets) &&
        clock_steady_us() - many->resumed_us >= gap_us)
        send_text(many);
}

static void send_message(struct subscriber *s);

/* Serves the member whose turn it is. */
static void
serve_member(struct many *many)
{
    struct subscriber *s = &many->subscriber;
    struct stream_set *member;
    struct buf json = {.max = END_MAX};

    if (is_busy(many) || (many->is_due && send_text(many)))
        return;
    member = stream_sets_next(&many->sets);
    if (!member)
        return;
    list_put(&many->thread->owing, &many->owing);
    if (!member->end) {
        s->reader = &member->reader;
        send_message(s);
        return;
    }
    stream_sets_write_end(&json, member);
    stream_sets_remove(member);
    if (many->sets.n_refused == 0)
        stream_read_on(s->stream);
    send_note(many, "end", buf_slice(&json), SLICE(""));
    buf_fini(&json);
}

/* A heartbeat of the stream itself, with its resume text. */
static void
send_heartbeat_of_many(struct many *many)
{
    int64_t heartbeat_us = many->sets.registry->config->heartbeat_us;
    char seconds[SECONDS_SIZE_MAX];
    struct buf json = {.max = END_MAX};

    BUF_ADD(&json, "{");
    json_datetime_member(&json, "now", clock_now_us());
    BUF_ADD(&json, ",\"heartbeat\":");
    buf_add(&json, seconds, seconds_write(seconds, heartbeat_us));
    send_with_text(many, "heartbeat", &json);
}

/* Sending a message */

/* Sends the message that its reader holds. */
static void
send_message(struct subscriber *s)
{
    struct reader *r = s->reader;
    enum sent sent;

    if (s->message_size > 0 && r->message->size != s->message_size) {
        close_failed(s); /* the message made again is another one */
        return;
    }
    s->message_size = 0;
    sent = send_rest(s);
    if (s->is_many && sent == SENT_PART) {
        many_of(s)->is_waiting = true;
    } else if (s->is_many) {
        s->reader = NULL;
        stream_sets_sent(&many_of(s)->sets);
        go_on(many_of(s), sent);
    } else if (sent == SENT_WHOLE &&
               (s->close_code || reader_rest(r) != READER_HEAD)) {
        stream_want_room(s->stream);
    }
}

/* Sends the next message, or decides what to wait for. One message per call: a
 * subscriber that lags continues in its next turn of the event loop, so it does
 * not hold up the others. */
static void
advance_subscriber(struct subscriber *s)
{
    struct reader *r = s->reader;
    enum reader_state state;

    if (s->is_closing)
        return;
    if (!(r && r->message) && s->close_code) {
        close_now(s, s->close_code, NULL, NULL);
        return;
    }
    if (!r) {
        serve_member(many_of(s));
        return;
    }
    state = reader_next(r);
    if (state == READER_READY)
        send_message(s);
    else if (state != READER_HEAD && state != READER_LATER)
        close_failed(s);
}

static void
on_ready(struct reader *reader)
{
    advance_subscriber(list_entry(reader, struct subscriber, own));
}

/* The message that was begun is there again, or a member has news. */
static void
on_member_ready(struct reader *reader)
{
    struct stream_set *member = list_entry(reader, struct stream_set, reader);
    struct many *many = list_entry(member->sets, struct many, sets);

    if (stream_sets_take_ready(member, is_busy(many)))
        advance_subscriber(&many->subscriber);
}

/* Waking */

void
push_on_wake(struct push *push, struct service *service)
{
    struct push_thread *t = &push->threads[service_number(service)];
    int64_t now_us = clock_steady_us(), cost_us;
    struct read_set *one;
    struct subscriber *s;
    struct many *many;

    if (now_us < t->gather_until_us) {
        service_wake_later(service, t->gather_until_us - now_us);
        return;
    }
    watcher_take(&t->set_readers.readers.watcher);
    while ((one = set_readers_next_marked(&t->set_readers))) {
        /* Closes all subscribers of a set that has ended, wherever they are in
         * it. This is rare, so it may look at all subscribers of the thread.
         * (The sets of streams of many find out when they ask for their next
         * message.) */
        list_walk (s, &t->idle, idle_node) {
            if (!one->is_removed)
                break;
            if (!s->is_many && set_of(s) == one)
                close_behind_message(s, CLOSE_SET_REMOVED);
        }
        set_readers_wake(one);
    }
    list_walk (many, &t->owing, owing)
        send_owed_text(many);
    cost_us = clock_steady_us() - now_us;
    if (cost_us >= GATHER_FROM_US)
        t->gather_until_us =
            now_us + cost_us +
            (cost_us < GATHER_MAX_US ? cost_us : GATHER_MAX_US);
    polls_go_on(&t->polls, service);
    catch_up_waits_go_on(&t->catch_up_waits);
}

/* Ticks */

/* Closes a subscriber whose principal has ended: behind its message, or at the
 * next look within it. */
static void
close_denied(struct subscriber *s)
{
    if (!s->is_closing && s->close_code == CLOSE_DENIED)
        close_now(s, CLOSE_DENIED, NULL, NULL);
    else
        close_behind_message(s, CLOSE_DENIED);
}

/* If there is none, the head has moved, so news is coming, but perhaps none
 * that passes the filter; or the end of the last message is on a disk. */
static void
send_heartbeat(struct subscriber *s)
{
    struct reader *r = s->reader;
    struct shared_message *heartbeat = set_readers_heartbeat(r);

    if (heartbeat) {
        reader_hold(r, heartbeat);
    } else if (r->filter) {
        reader_release(r);
        r->wants_heartbeat = true;
    } else {
        return;
    }
    advance_subscriber(s);
}

/* True if its principal has ended, or the session of its request. */
static bool
is_denied(const struct subscriber *s, int64_t now_us)
{
    return principal_is_over(s->principal, now_us) ||
           (s->stream && stream_is_denied(s->stream, now_us));
}

/* Adds up the lags, closes subscribers whose principal has ended, and sends new
 * checkpoints to those at the head. */
static void
look_at_all(struct push_thread *t)
{
    struct lag lags[SET_TRANSPORTS_MAX] = {{0}};
    int64_t now_us = clock_now_us();
    struct subscriber *s;

    list_walk (s, &t->idle, idle_node) {
        if (s->is_many)
            stream_sets_add_lags(&many_of(s)->sets, &lags[s->kind]);
        else
            set_readers_add_lag(s->reader, &lags[s->kind]);
        if (is_denied(s, now_us))
            close_denied(s);
        if (s->wants_checkpoints && s->reader->state == READER_HEAD &&
            !send_checkpoint(s))
            reader_release(s->reader); /* on_room goes on */
    }
    for (size_t i = 0; i < TRANSPORTS; i++) {
        store_relaxed(&t->lags[i].sum, lags[i].sum);
        store_relaxed(&t->lags[i].max, lags[i].max);
    }
}

void
push_measure(struct push *push)
{
    for (size_t i = 0; i < TRANSPORTS; i++) {
        uint64_t sum = 0, max = 0;

        for (unsigned n = 0; n < push->n_threads; n++) {
            struct shown_lag *shown = &push->threads[n].lags[i];
            uint64_t lag = load_relaxed(&shown->max);

            sum += load_relaxed(&shown->sum);
            if (lag > max)
                max = lag;
        }
        metrics_set_label(METRIC_LAG, i, (int64_t)sum);
        metrics_set_label(METRIC_LAG_MAX, i, (int64_t)max);
    }
}

/* New sets */

struct search {
    struct push_thread *t;
    uint64_t newest;
};

static bool
note_number(struct set *set, const struct head *head, void *user)
{
    uint64_t number = log_set_number(set->log), *newest = user;

    (void)head;
    if (number > *newest)
        *newest = number;
    return true;
}

/* Lets a new set join the streams with patterns that match it. A stream whose
 * client has its share ends: it would miss the set in silence. */
static bool
join_new_set(struct set *set, const struct head *head, void *user)
{
    struct search *search = user;
    uint64_t number = log_set_number(set->log);
    struct many *many;

    note_number(set, head, &search->newest);
    if (number <= search->t->newest_before)
        return true;
    list_walk (many, &search->t->many, node) {
        struct problem why = {""};

        if (many->subscriber.is_closing)
            continue;
        if (!stream_sets_join(&many->sets, set, &why))
            serve_member(many);
        else
            close_behind_message(&many->subscriber, CLOSE_REFUSED);
    }
    return true;
}

void
push_on_tick(struct push *push, struct service *service)
{
    struct push_thread *t = &push->threads[service_number(service)];
    int64_t now_us = clock_steady_us();
    int64_t interval_us = push->registry->config->heartbeat_us;
    uint64_t births = log_births(push->registry->log);
    struct search search = {t, t->newest};
    struct many *many;
    struct subscriber *s;

    if (now_us - t->looked_us >= LOOK_US) {
        t->looked_us = now_us;
        look_at_all(t);
    }
    catch_up_waits_go_on(&t->catch_up_waits);
    set_readers_new_tick(&t->set_readers);
    list_until_empty (s, &t->idle, idle_node) {
        if (now_us - s->last_sent_us < interval_us)
            break;
        note_sent(s, now_us); /* also if it cannot be sent to: asked again
                                 later */
        if (s->is_many && is_busy(many_of(s)))
            continue;
        if (s->is_many)
            send_heartbeat_of_many(many_of(s));
        else if (s->reader->state == READER_HEAD)
            send_heartbeat(s);
        else if (s->reader->filter) /* it may be passing over entries */
            s->reader->wants_heartbeat = true;
    }
    /* Lets the sets that have begun since the last search join. Sets get their
     * numbers in the order in which they begin, but the sets of one commit
     * appear one by one: a search may see the second and not yet the first. So
     * a search looks at all sets behind the newest one of the search before the
     * last one; log_births counts a commit when all its sets are there, so
     * another search follows that sees them all. */
    if (births != t->births) {
        t->births = births;
        registry_each(push->registry, join_new_set, &search);
        t->newest_before = t->newest;
        t->newest = search.newest;
    }
    list_walk (many, &t->owing, owing) {
        many->is_due = true;
        serve_member(many);
    }
}

/* Connections */

static void
on_open(struct stream *stream, void *user)
{
    struct subscriber *s = user;

    s->stream = stream;
    s->opened_us = s->last_sent_us = clock_steady_us();
    list_append(&thread_of(s)->idle, &s->idle_node);
    if (s->is_gone)
        close_gone(s);
    else if (thread_of(s)->is_ending)
        close_now(s, CLOSE_GOING_AWAY, NULL, NULL);
    else if (!s->is_many && set_of(s)->is_removed)
        close_now(s, CLOSE_SET_REMOVED, NULL, NULL);
    else
        advance_subscriber(s);
    if (!s->is_many)
        return;
    many_of(s)->is_waiting = false;
    if (!s->is_closing)
        send_heartbeat_of_many(many_of(s));
    if (!is_busy(many_of(s)))
        serve_member(many_of(s));
}

static void
on_room(struct stream *stream, void *user)
{
    struct subscriber *s = user;

    (void)stream;
    if (s->is_many)
        many_of(s)->is_waiting = false;
    else if (!send_checkpoint(s))
        return;
    if (!s->reader || s->reader->state == READER_READY)
        advance_subscriber(s);
    if (s->is_many)
        send_owed_text(many_of(s));
}

static void
on_gone(struct stream *stream, void *user)
{
    struct subscriber *s = user;
    struct many *many = many_of(s);

    (void)stream;
    list_remove(&s->idle_node);
    metrics_add_label(METRIC_SUBSCRIBERS, s->kind, -1);
    principal_unref(s->principal);
    if (!s->is_many) {
        if (s->wants_checkpoints)
            subtract_relaxed(&set_of(s)->set->checkpoints_wanted, 1);
        set_readers_count(s->reader, -1);
        set_readers_leave(s->reader);
        filters_leave(s->reader->filter);
        free(s);
        return;
    }
    list_remove(&many->node);
    list_remove(&many->owing);
    list_remove(&many->catch_up_wait.node);
    follow_request_fini(&many->ahead);
    stream_sets_fini(&many->sets);
    filters_leave(many->sets.filter);
    free(many);
}

static const struct stream_handlers stream_handlers = {
    .on_open = on_open,
    .on_room = on_room,
    .on_gone = on_gone,
};

/* RFC 6455 section 7.4.1: 1007 for data that is not what it claims to be. */
static unsigned
code_of(enum status rc)
{
    return rc == STATUS_MALFORMED   ? CLOSE_MALFORMED
           : rc == STATUS_TOO_LARGE ? CLOSE_TOO_LARGE
           : rc == STATUS_MEMORY    ? CLOSE_FAILED
                                    : CLOSE_REFUSED;
}

static void
serve_follower(struct many *many)
{
    list_put(&many->thread->owing, &many->owing);
    serve_member(many);
    send_owed_text(many);
}

/* The request is taken up again: only the journal knew whether its positions
 * are gone. */
static void
on_copy(struct catch_up_wait *wait, bool is_certain)
{
    struct many *many = list_entry(wait, struct many, catch_up_wait);
    struct problem why = {""};
    enum status rc = STATUS_OK;

    many->is_ahead = false;
    if (many->subscriber.is_closing)
        return;
    if (is_certain)
        rc = stream_sets_follow(&many->sets, &many->ahead, &why);
    follow_request_fini(&many->ahead);
    if (!is_certain) {
        close_now(&many->subscriber, CLOSE_LATER, POSITION_LATER, NULL);
    } else if (rc) {
        close_now(&many->subscriber, code_of(rc), why.text, NULL);
    } else {
        stream_read_on(many->subscriber.stream);
        serve_follower(many);
    }
}

/* A client that says what nobody understands would miss a set: its stream ends.
 * At once, also within a message, for it must not go on waiting. */
static void
on_message(struct stream *stream, const struct stream_message *message,
           void *user)
{
    struct many *many = many_of(user);
    struct registry *registry = many->sets.registry;
    struct follow_request request = {.n = 0};
    struct slice text = message->bytes;
    struct problem why = {""};
    struct buf inflated = {.max = STREAM_MESSAGE_MAX};
    enum status rc = STATUS_OK;

    (void)stream;
    if (many->subscriber.is_closing)
        return;
    if (is_denied(&many->subscriber, clock_now_us())) {
        close_denied(&many->subscriber);
        return;
    }
    if (message->is_deflated) {
        rc = inflate_message(message->bytes, &inflated, &why);
        text = buf_slice(&inflated);
    }
    if (!rc && !message->is_text)
        rc = problem(&why, STATUS_INVALID, "a binary message");
    if (!rc)
        rc = follow_request_json(&request, text, &why);
    if (!rc && log_is_shared(registry->log) &&
        stream_sets_are_ahead(registry, &request)) {
        many->catch_up_wait.resume = on_copy;
        many->is_ahead =
            catch_up_waits_begin(&many->thread->catch_up_waits,
                                 many->sets.service, &many->catch_up_wait);
    }
    if (!rc && many->is_ahead) { /* the request waits for the copy */
        many->ahead = request;
        request = (struct follow_request){.n = 0};
    } else if (!rc) {
        rc = stream_sets_follow(&many->sets, &request, &why);
    }
    follow_request_fini(&request);
    buf_fini(&inflated);
    if (rc)
        close_now(&many->subscriber, code_of(rc), why.text, NULL);
    else if (!many->is_ahead)
        serve_follower(many);
}

/* The ends of sets that a client asked for in vain are answers: a client that
 * asks faster than it takes them is not read. */
static bool
is_behind(const void *user)
{
    const struct many *many = many_of(user);

    return many->is_ahead || many->sets.n_refused > 0;
}

static const struct stream_handlers many_handlers = {
    .on_open = on_open,
    .on_room = on_room,
    .on_message = on_message,
    .is_behind = is_behind,
    .on_gone = on_gone,
};

enum status
push_accept(struct push *push, struct request *rq, const struct push_wish *wish,
            struct problem *why)
{
    struct service *service = rq->service;
    struct push_thread *t = &push->threads[service_number(service)];
    struct many *many;
    struct subscriber *s;
    struct response r;
    enum status rc = STATUS_OK;

    if (rq->method == METHOD_HEAD) {
        filters_leave(wish->filter);
        eventsource_head(&r);
        request_answer(rq, &r);
        return STATUS_OK;
    }
    many = wish->follow ? memory_new(1, sizeof(*many)) : NULL;
    s = many ? &many->subscriber : memory_new(1, sizeof(*s));
    list_init(&s->idle_node);
    s->is_many = many != NULL;
    s->is_gone = wish->is_gone;
    s->kind = (uint8_t)(wish->transport - transport_rows);
    s->principal = principal_ref(wish->principal);
    metrics_add_label(METRIC_SUBSCRIBERS, s->kind, 1);
    if (many) {
        many->thread = t;
        many->is_waiting = true; /* for on_open */
        list_init(&many->owing);
        list_init(&many->node);
        list_append(&t->many, &many->node);
        list_init(&many->catch_up_wait.node);
        stream_sets_init(&many->sets, push->registry, &t->set_readers, service,
                         s->principal, request_client(rq), s->kind);
        many->sets.filter = wish->filter;
        many->sets.on_ready = on_member_ready;
        rc = stream_sets_follow(&many->sets, wish->follow, why);
    } else {
        s->reader = &s->own;
        set_readers_enter(&t->set_readers, service, wish->set, s->reader,
                          wish->after, on_ready);
        s->reader->kind = s->kind;
        s->reader->filter = wish->filter;
        s->reader->wants_heartbeat = true;
        if (wish->has_since)
            s->reader->since_us = wish->since_us;
        set_readers_count(s->reader, 1);
        s->wants_checkpoints = wish->wants_checkpoints;
        if (s->wants_checkpoints)
            add_relaxed(&wish->set->checkpoints_wanted, 1);
    }
    if (rc)
        on_gone(NULL, s);
    else
        transports_accept(wish->transport, rq, &wish->terms,
                          many ? &many_handlers : &stream_handlers, s);
    return rc;
}

bool
push_wait(struct push *push, struct request *rq, struct poll *poll,
          const struct poll_wish *wish)
{
    struct push_thread *t = &push->threads[service_number(rq->service)];

    return polls_wait(&t->polls, &t->set_readers, rq, poll, wish);
}

bool
push_await_copy(struct push *push, struct service *service,
                struct catch_up_wait *wait)
{
    struct push_thread *t = &push->threads[service_number(service)];

    return catch_up_waits_begin(&t->catch_up_waits, service, wait);
}

void
push_copy_is_certain(struct push *push)
{
    for (unsigned i = 0; i < push->n_threads; i++)
        catch_up_waits_wake(&push->threads[i].catch_up_waits);
}

static void
say_farewell(struct task *task)
{
    struct push_thread *t = list_entry(task, struct push_thread, farewell);
    struct subscriber *s;

    t->is_ending = true;
    list_walk (s, &t->idle, idle_node)
        close_behind_message(s, CLOSE_GOING_AWAY);
    polls_end(&t->polls, t->set_readers.service);
    catch_up_waits_end(&t->catch_up_waits);
}

void
push_farewell(struct push *push, struct server *server)
{
    for (unsigned i = 0; i < push->n_threads; i++) {
        push->threads[i].farewell.run = say_farewell;
        service_post(server_service(server, i), &push->threads[i].farewell);
    }
}

enum status
push_open(struct push **result, struct registry *registry, unsigned threads,
          struct problem *why)
{
    struct push *push =
        memory_new(1, sizeof(*push) + threads * sizeof(push->threads[0]));
    uint64_t births, newest = 0;

    if (!push)
        return problem_memory(why);
    births = log_births(registry->log);
    registry_each(registry, note_number, &newest);
    push->registry = registry;
    push->n_threads = threads;
    for (size_t i = 0; i < TRANSPORTS; i++)
        metrics_name(LABEL_TRANSPORT, i, transport_rows[i].label);
    for (unsigned i = 0; i < threads; i++) {
        struct push_thread *t = &push->threads[i];

        t->births = births;
        t->newest = t->newest_before = newest;
        set_readers_init(&t->set_readers);
        polls_init(&t->polls);
        catch_up_waits_init(&t->catch_up_waits, registry->log);
        list_init(&t->idle);
        list_init(&t->many);
        list_init(&t->owing);
    }
    *result = push;
    return STATUS_OK;
}

void
push_close(struct push *push)
{
    if (!push)
        return;
    for (unsigned i = 0; i < push->n_threads; i++)
        set_readers_fini(&push->threads[i].set_readers);
    free(push);
}

/*
 * transports.h - the transports of a live connection, as a server speaks them.
 * A file with TEST_GROUP(name, by_NAME, NULL) runs its tests once for each.
 */
#ifndef TESTS_UNIT_FOLLOW_TRANSPORTS_H
#define TESTS_UNIT_FOLLOW_TRANSPORTS_H

#include "tests/unit/follow/living.h"

struct carrier {
    enum td_transport transport;
    const char *path; /* behind the set's URL */
    const char *head; /* of an answer; NULL: the handshake of a WebSocket */
    void (*say)(struct fake_broker *b, struct slice text);
    void (*farewell)(struct fake_broker *b, unsigned code, const char *reason);

    struct slice begin, more, end; /* of a message in parts: "<ooooo" */
    struct slice halves[2];        /* a message that is cut off */
    struct slice noise;            /* bytes that do not prove a live broker */

    unsigned wait_ms;        /* that the server may take for its answer */
    enum live_how after_one; /* message, which is enough of a stream */
    enum live_how as_mute;   /* no word from the beginning */
    const char *is_away, *is_too_long;
};

static const struct carrier *by;

static inline void
say_event(struct fake_broker *b, struct slice text)
{
    fake_raw(b, SLICE("event: changes\ndata: "));
    fake_raw(b, text);
    fake_raw(b, SLICE("\n\n"));
}

static inline void
say_in_a_chunk(struct fake_broker *b, struct slice text)
{
    char size[20];

    snprintf(size, sizeof(size), "%zx\r\n", text.size);
    fake_raw(b, slice_of(size));
    fake_raw(b, text);
    fake_raw(b, SLICE("\r\n0\r\n\r\n"));
}

static inline void
say_last_event(struct fake_broker *b, unsigned code, const char *reason)
{
    char text[200];

    snprintf(text, sizeof(text),
             "event: %s\ndata: {\"detail\":\"%s\",\"last\":5}\n\n",
             code == 4410   ? "gone"
             : code == 4404 ? "removed"
             : code == 4401 ? "denied"
             : code == 1001 ? "farewell"
                            : "failed",
             reason);
    fake_raw(b, slice_of(text));
}

static inline int
by_websocket(__attribute__((unused)) void **state)
{
    static const struct carrier row = {
        .transport = TD_WEBSOCKET,
        .path = "/stream?after=0",
        .say = fake_send,
        .farewell = fake_close,
        .begin = SLICE("\x01\x01<"), /* a frame each */
        .more = SLICE("\x00\x01o"),
        .end = SLICE("\x80\x00"),
        .halves = {SLICE("\x01\x03one"), SLICE("\x81\x05on")},
        .noise = SLICE("\x89\x05"
                       "alive"),
        .after_one = LIVE_ENOUGH,
        .as_mute = LIVE_UNFIT, /* a proxy may keep the request */
        .is_away = "cannot connect to 127.0.0.1:%u: ",
        .is_too_long = "the broker sent a message of more than 16777216 bytes",
    };

    by = &row;
    return 0;
}

static inline int
by_events(__attribute__((unused)) void **state)
{
    static const struct carrier row = {
        .transport = TD_EVENTS,
        .path = "/stream?after=0",
        .head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                "retry: 1000\n\n",
        .say = say_event,
        .farewell = say_last_event,
        .begin = SLICE("event: changes\ndata: <"),
        .more = SLICE("o"),
        .end = SLICE("\n\n"),
        .halves = {SLICE("event: changes\ndata: on"),
                   SLICE("event: changes\ndata: <1>\n")},
        .noise = SLICE(": alive\n\n"),
        .after_one = LIVE_ENOUGH,
        .as_mute = LIVE_UNFIT, /* a proxy may keep it until it is whole */
        .is_away = "cannot connect: ",
        .is_too_long = "the broker sent an event of more than 16777216 bytes",
    };

    by = &row;
    return 0;
}

static inline int
by_long_poll(__attribute__((unused)) void **state)
{
    static const struct carrier row = {
        .transport = TD_LONG_POLL,
        .path = "/changes?after=0",
        .head = "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n"
                "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
        .say = say_in_a_chunk,
        .begin = SLICE("6\r\n<"),
        .more = SLICE("o"),
        .end = SLICE("\r\n0\r\n\r\n"),
        .halves = {SLICE("3\r\none\r\n"), SLICE("9\r\none")},
        .wait_ms = 20000,
        .after_one = LIVE_AGAIN,
        .as_mute = LIVE_LOST,
        .is_away = "cannot connect: ",
        .is_too_long = "the broker sent more than 16777216 bytes",
    };

    by = &row;
    return 0;
}

static inline int
set_carried(void **state)
{
    struct living *s;

    living_set(state);
    s = *state;
    s->request.transport = by->transport;
    snprintf(s->url, sizeof(s->url), "%s%s", fake_broker_url(s->broker),
             by->path);
    return 0;
}

/* A connection that is carried: messages follow. */
static inline void
carry(struct fake_broker *b)
{
    if (by->head) {
        fake_plain(b);
        fake_raw(b, slice_of(by->head));
    } else {
        fake_stream(b);
    }
}

static inline void
say(struct fake_broker *b, const char *text)
{
    by->say(b, slice_of(text));
}

/* The server plays scenes: "carry wait <1> <2> hold". These words mean what
 * they do in fake_broker.h, or a part of the carrier; any other is a message.
 */
static inline void
play_word(struct fake_broker *b, const char *word)
{
    const struct {
        const char *name;
        void (*play)(struct fake_broker *b);
    } plays[] = {{"carry", carry},      {"stream", fake_stream},
                 {"plain", fake_plain}, {"silence", fake_silence},
                 {"ping", fake_ping},   {"nothing", fake_nothing},
                 {"wait", fake_wait},   {"hold", fake_hold},
                 {"reset", fake_reset}};

    const struct {
        const char *name;
        struct slice bytes;
    } parts[] = {{"NOISE", by->noise},
                 {"BEGIN", by->begin},
                 {"MORE", by->more},
                 {"END", by->end}};

    for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++)
        if (!strcmp(word, plays[i].name)) {
            plays[i].play(b);
            return;
        }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strcmp(word, parts[i].name)) {
            fake_raw(b, parts[i].bytes);
            return;
        }
    say(b, word);
}

static inline void
serve(struct living *s, const char *scenes)
{
    char copy[200], *rest = copy;

    assert_true(strlen(scenes) < sizeof(copy));
    strcpy(copy, scenes);
    for (char *word; (word = strsep(&rest, " "));)
        play_word(s->broker, word);
}

/* The same, and it is started. */
static inline void
serves(struct living *s, const char *scenes)
{
    serve(s, scenes);
    fake_broker_start(s->broker);
}

/* A refusal of the broker. By WebSocket its words are asked for once more. */
static inline void
refuse(struct living *s, unsigned status, const char *type, const char *body)
{
    for (int i = 0; i < 1 + !by->head; i++)
        fake_answer(s->broker, status, type, body);
}

static inline int
set_websocket(void **state)
{
    by_websocket(state);
    return set_carried(state);
}

#endif

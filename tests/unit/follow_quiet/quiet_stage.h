/*
 * quiet_stage.h - the stage of tests of a follower that stands on quiet.h, and
 * what it told.
 */
#ifndef TESTS_UNIT_FOLLOW_QUIET_STAGE_H
#define TESTS_UNIT_FOLLOW_QUIET_STAGE_H

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/support/history.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"

#define EPOCH       "0123456789abcdef"
#define OTHER_EPOCH "fedcba9876543210"
#define SET_URL     "http://127.0.0.1:1/sets/news"

/* struct offered has strings of its own; quiet_found copies these. */
#define LENT(text) ((char *)(text))

struct stage {
    struct td_client *client;
    struct td_follower *follower;
    struct td_follow_options options;
    struct offered offer;
    struct history history;
    struct history other; /* of a log made anew */

    /* "1 2 3 " seqs; "a " of entries without: the end of their loc; "h ": a
     * heartbeat; "B " "r:a " "E ": a baseline. */
    char told[1024];
    char position[TD_POSITION_SIZE]; /* of the last message; "-": none */
    char reason[512];
    char last_text[512];
    char last_file[512];
    char trouble[512];
    unsigned troubles;
    unsigned pause_ms; /* that the last one was told with */
    unsigned ends;
    enum td_status rc;
    char why[1024];

    /* What on_message does, once it has told something of this sort. */
    const char *pauses_at;
    const char *closes_at;
    const char *stops_at;
    bool closes_on_trouble;
    bool pauses_on_trouble;
    bool closes_on_end;
};

static inline void
tell(struct stage *s, const char *format, ...)
{
    size_t used = strlen(s->told);
    va_list args;

    va_start(args, format);
    vsnprintf(s->told + used, sizeof(s->told) - used, format, args);
    va_end(args);
}

static inline void
tell_change(struct stage *s, const struct td_change *change, bool is_change)
{
    const char *slash = strrchr(change->loc, '/');

    assert_int_equal(change->change != NULL, is_change);
    snprintf(s->last_text, sizeof(s->last_text), "%s", change->text);
    if (change->file)
        snprintf(s->last_file, sizeof(s->last_file), "%s", change->file);
    if (change->seq)
        tell(s, "%llu ", (unsigned long long)change->seq);
    else
        tell(s, "%s%s%s ", is_change ? "" : "r:", slash + 1,
             change->file ? "+" : "");
}

/* Of all that a message lends. */
static inline uint64_t
sum_of(const struct td_message *message)
{
    const char *texts[] = {message->set, message->position, message->digest,
                           message->reason};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (const char *c = texts[i]; c && *c; c++)
            sum = sum * 31 + (unsigned char)*c;
    for (size_t i = 0; i < message->n_changes; i++) {
        const struct td_change *change = &message->changes[i];

        for (const char *c = change->loc; *c; c++)
            sum = sum * 31 + (unsigned char)*c;
        for (size_t j = 0; j <= change->text_size; j++)
            sum = sum * 31 + (unsigned char)change->text[j];
    }
    return sum;
}

/* What it was lent stays until on_message returns. */
static inline void
close_in(struct stage *s, const struct td_message *message)
{
    uint64_t sum = sum_of(message);

    td_follower_close(s->follower);
    s->follower = NULL;
    assert_true(sum_of(message) == sum);
}

static inline int
on_message(const struct td_message *message, void *user)
{
    struct stage *s = user;
    const char *word;

    assert_non_null(message->set);
    switch (message->kind) {
    case TD_CHANGES:
        if (!message->n_changes)
            tell(s, "h ");
        break;
    case TD_BASELINE_BEGIN:
        tell(s, "B ");
        snprintf(s->reason, sizeof(s->reason), "%s", message->reason);
        break;
    case TD_BASELINE:
        assert_int_not_equal(message->n_changes, 0);
        break;
    case TD_BASELINE_END:
        tell(s, "E ");
        break;
    }
    assert_int_equal(message->position == NULL,
                     message->kind == TD_BASELINE_BEGIN ||
                         message->kind == TD_BASELINE);
    for (size_t i = 0; i < message->n_changes; i++)
        tell_change(s, &message->changes[i], message->kind == TD_CHANGES);
    snprintf(s->position, sizeof(s->position), "%s",
             message->position ? message->position : "-");
    if (s->follower)
        assert_string_equal(td_follower_position(s->follower),
                            message->position ? message->position : "");

    word = strrchr(s->told, ' ');
    while (word > s->told && word[-1] != ' ')
        word--;
    if (s->pauses_at && !strcmp(word, s->pauses_at))
        td_follower_pause(s->follower);
    if (s->closes_at && !strcmp(word, s->closes_at))
        close_in(s, message);
    return s->stops_at && !strcmp(word, s->stops_at);
}

static inline void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct stage *s = user;

    s->pause_ms = pause_ms;
    s->troubles++;
    snprintf(s->trouble, sizeof(s->trouble), "%s", why);
    if (s->pauses_on_trouble)
        td_follower_pause(s->follower);
    if (s->closes_on_trouble) {
        td_follower_close(s->follower);
        s->follower = NULL;
    }
}

static inline void
on_end(enum td_status rc, const char *why, void *user)
{
    struct stage *s = user;

    s->ends++;
    s->rc = rc;
    snprintf(s->why, sizeof(s->why), "%s", why);
    if (s->closes_on_end) {
        td_follower_close(s->follower);
        s->follower = NULL;
    }
}

static inline int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    mallopt(M_PERTURB, 0x5a); /* what is freed is no longer what it was */
    s->client = td_open();
    assert_non_null(s->client);
    history_init(&s->history, EPOCH);
    history_init(&s->other, OTHER_EPOCH);
    quiet_begin(s->client);
    s->options.on_trouble = on_trouble;
    s->options.on_end = on_end;
    s->offer = (struct offered){.url = LENT(SET_URL),
                                .name = LENT("news"),
                                .stream = LENT(SET_URL "/stream"),
                                .events = LENT(SET_URL "/events"),
                                .memory = LENT(SET_URL "/memory"),
                                .change_list = LENT(SET_URL "/list")};
    *state = s;
    return 0;
}

static inline int
clear_stage(void **state)
{
    struct stage *s = *state;

    td_follower_close(s->follower);
    quiet_finish();
    td_close(s->client);
    history_fini(&s->history);
    history_fini(&s->other);
    free(s);
    return 0;
}

static inline void
leave(struct stage *s)
{
    td_follower_close(s->follower);
    s->follower = NULL;
}

/* Opens it, and lets it find `s->offer`. */
static inline void
start(struct stage *s, const char *after)
{
    s->options.after = after;
    assert_int_equal(td_follower_open(s->client, SET_URL, &s->options,
                                      on_message, s, &s->follower),
                     TD_OK);
    quiet_found(&s->offer);
}

static inline struct slice
json(struct stage *s, uint64_t after, uint64_t last)
{
    return history_json(&s->history, after, last);
}

static inline const struct place *
seq_place(uint64_t seq)
{
    static struct place place;

    place = (struct place){.at = {EPOCH, seq}};
    return &place;
}

/* The `n`th entry of second `second`. */
static inline const struct place *
time_place(int64_t second, uint64_t n)
{
    static struct place place;

    place =
        (struct place){.is_time = true, .time_us = second * 1000000, .n_at = n};
    return &place;
}

static inline void
assert_ended(struct stage *s, enum td_status rc, const char *why)
{
    quiet_turn();
    assert_int_equal(s->ends, 1);
    assert_int_equal(s->rc, rc);
    if (!strstr(s->why, why))
        fail_msg("it ended with \"%s\", not \"%s\"", s->why, why);
}

#define assert_told(s, words) assert_string_equal((s)->told, words)

#endif

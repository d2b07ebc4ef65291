#include "tests/unit/follow_quiet/quiet_stage.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/follow/follower.h"
#include "tests/support/script.h"
#include "tests/test.h"

static void
tell(struct stage *s, const char *format, ...)
{
    size_t used = strlen(s->told);
    va_list args;

    va_start(args, format);
    vsnprintf(s->told + used, sizeof(s->told) - used, format, args);
    va_end(args);
}

static void
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
static uint64_t
sum_of(const struct td_message *message)
{
    const char *texts[] = {message->set, message->position, message->digest,
                           message->reason, message->as_of};
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

/* Lent memory stays until on_message returns. */
static void
close_in(struct stage *s, const struct td_message *message)
{
    uint64_t sum = sum_of(message);

    td_follower_close(s->follower);
    s->follower = NULL;
    assert_true(sum_of(message) == sum);
}

static int
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
        tell(s, message->is_comparison ? "C " : "B ");
        snprintf(s->reason, sizeof(s->reason), "%s", message->reason);
        break;
    case TD_BASELINE:
        assert_int_not_equal(message->n_changes, 0);
        break;
    case TD_BASELINE_END:
        tell(s, message->is_comparison ? "D " : "E ");
        snprintf(s->as_of, sizeof(s->as_of), "%s",
                 message->as_of ? message->as_of : "-");
        break;
    }
    assert_int_equal(message->position == NULL,
                     message->kind == TD_BASELINE_BEGIN ||
                         message->kind == TD_BASELINE);
    for (size_t i = 0; i < message->n_changes; i++)
        tell_change(s, &message->changes[i], message->kind == TD_CHANGES);
    snprintf(s->position, sizeof(s->position), "%s",
             message->position ? message->position : "-");
    if (message->is_caught_up)
        memcpy(s->caught_up, s->position, sizeof(s->caught_up));
    if (s->follower && (message->position || !message->is_comparison))
        assert_string_equal(td_follower_position(s->follower),
                            message->position ? message->position : "");

    word = strrchr(s->told, ' ');
    while (word > s->told && word[-1] != ' ')
        word--;
    if (!strcmp(word, s->pauses_at))
        td_follower_pause(s->follower);
    if (!strcmp(word, s->closes_at))
        close_in(s, message);
    return !strcmp(word, s->stops_at);
}

static void
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

static void
on_doubt(const char *why, void *user)
{
    struct stage *s = user;

    tell(s, "? ");
    snprintf(s->doubt, sizeof(s->doubt), "%s", why);
}

static void
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

int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    mallopt(M_PERTURB, 0x5a); /* free() overwrites memory */
    s->client = td_open();
    assert_non_null(s->client);
    history_init(&s->history, EPOCH);
    history_init(&s->other, OTHER_EPOCH);
    quiet_begin(s->client);
    s->options.on_trouble = on_trouble;
    s->options.on_end = on_end;
    s->options.on_doubt = on_doubt;
    strcpy(s->caught_up, "-");
    s->offer = (struct offered){.url = LENT(SET_URL),
                                .name = LENT("news"),
                                .stream = LENT(SET_URL "/stream"),
                                .events = LENT(SET_URL "/events"),
                                .streams = LENT(SET_URL "/streams"),
                                .memory = LENT(SET_URL "/memory"),
                                .change_list = LENT(SET_URL "/list")};
    *state = s;
    return 0;
}

int
clear_stage(void **state)
{
    struct stage *s = *state;

    script_finish();
    td_follower_close(s->follower);
    quiet_finish();
    td_close(s->client);
    history_fini(&s->history);
    history_fini(&s->other);
    free(s);
    return 0;
}

void
leave(struct stage *s)
{
    td_follower_close(s->follower);
    s->follower = NULL;
}

void
open_follower(struct stage *s, const char *after)
{
    /* The pointer only says that there is a shared connection. */
    const struct follower_plan plan = {.url = SET_URL,
                                       .options = &s->options,
                                       .on_message = on_message,
                                       .user = s,
                                       .shared = (struct shared_stream *)s};
    struct problem why = {.text = ""};

    s->options.after = after;
    if (s->may_share)
        assert_int_equal(follower_new(s->client, &plan, &s->follower, &why),
                         STATUS_OK);
    else
        assert_int_equal(td_follower_open(s->client, SET_URL, &s->options,
                                          on_message, s, &s->follower),
                         TD_OK);
}

void
start(struct stage *s, const char *after)
{
    open_follower(s, after);
    quiet_found(&s->offer);
}

struct slice
message_every(struct stage *s, uint64_t after, uint64_t last, uint64_t step)
{
    return history_xml_every(&s->history, after, last, step);
}

struct slice
message(struct stage *s, uint64_t after, uint64_t last)
{
    return message_every(s, after, last, 1);
}

const struct source_position *
seq_place(uint64_t seq)
{
    static struct source_position place;

    place = (struct source_position){.at = {EPOCH, seq}};
    return &place;
}

const struct source_position *
time_place(int64_t second, uint64_t n)
{
    static struct source_position place;

    place = (struct source_position){
        .is_time = true, .time_us = second * 1000000, .n_at = n};
    return &place;
}

void
assert_ended(struct stage *s, enum status rc, const char *why)
{
    quiet_turn();
    assert_int_equal(s->ends, 1);
    assert_int_equal(s->rc, td_status_of(rc));
    if (!strstr(s->why, why))
        fail_msg("it ended with \"%s\", not \"%s\"", s->why, why);
}

/* Scripts */

static enum status
status_of(const char *word)
{
    static const struct {
        const char *word;
        enum status rc;
    } names[] = {
        {"ok", STATUS_OK},
        {"gone", STATUS_GONE},
        {"broken", STATUS_MALFORMED},
        {"unreachable", STATUS_UNREACHABLE},
        {"stopped", STATUS_STOPPED},
        {"refused", STATUS_REFUSED},
        {"rewound", STATUS_REWOUND},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(word, names[i].word))
            return names[i].rc;
    fail_msg("there is no status \"%s\"", word);
    return STATUS_OK;
}

static const struct source_position *
place_of(const char *word)
{
    static struct source_position far = {.is_time = true};
    unsigned long long at, n;

    if (!strcmp(word, "-"))
        return NULL;
    if (!strcmp(word, "far")) {
        far.time_us = DATETIME_NONE;
        return &far;
    }
    if (sscanf(word, "#%llu", &at) == 1)
        return seq_place(at);
    assert_int_equal(sscanf(word, "%llu+%llu", &at, &n), 2);
    return time_place((int64_t)at, n);
}

/* "2-4", of this log; "o2-4", of the other one. */
static struct slice
message_of(struct stage *s, const char *word)
{
    struct history *h = *word == 'o' ? &s->other : &s->history;
    unsigned long long after, last;

    word += *word == 'o';
    assert_int_equal(sscanf(word, "%llu-%llu", &after, &last), 2);
    return history_xml_every(h, after, last, 1);
}

static const char *
loc_of(const char *word)
{
    static char loc[64];

    snprintf(loc, sizeof(loc), "http://example.com/%s", word);
    return loc;
}

static void
set_word(char to[16], const char *word)
{
    snprintf(to, 16, "%s%s", word, *word ? " " : "");
}

#define IS(name) (!strcmp(verb, name))

/* Actions of the source. */
static bool
act(struct stage *s, const char *verb, char *rest)
{
    bool is_number = strspn(rest, "0123456789") > 0;

    if (IS("found"))
        quiet_found(&s->offer);
    else if (IS("away"))
        quiet_not_found(STATUS_UNREACHABLE, rest);
    else if (IS("say"))
        quiet_say(message_of(s, rest));
    else if (IS("beat"))
        quiet_say(SLICE(""));
    else if (IS("lost"))
        quiet_end(LIVE_LOST, 0, rest);
    else if (IS("broken"))
        quiet_end(LIVE_BROKEN, 0, rest);
    else if (IS("unfit") && is_number)
        quiet_refuse(LIVE_UNFIT, (unsigned)script_number(&rest));
    else if (IS("unfit"))
        quiet_end(LIVE_UNFIT, 0, rest);
    else if (IS("refuse"))
        quiet_refuse(LIVE_REFUSED, (unsigned)script_number(&rest));
    else if (IS("restart"))
        quiet_end(LIVE_CLOSED, 1001, "restart");
    else if (IS("gone"))
        quiet_end(LIVE_CLOSED, 4410, rest);
    else if (IS("again"))
        quiet_end(LIVE_AGAIN, 0, "");
    else if (IS("page") && strchr(rest, '-'))
        quiet_page(200, message_of(s, rest));
    else if (IS("page"))
        quiet_page((unsigned)script_number(&rest), SLICE("what is that"));
    else
        return false;
    return true;
}

/* Events of its lists and baselines. */
static bool
list(const char *verb, char *rest)
{
    unsigned long long first, last;
    const char *word;
    unsigned ms;

    if (IS("entry") || IS("noentry")) {
        word = script_word(&rest);
        assert_int_equal(quiet_entry(loc_of(word), place_of(rest)),
                         IS("entry"));
    } else if (IS("entries")) {
        assert_int_equal(sscanf(rest, "%llu-%llu", &first, &last), 2);
        for (; first <= last; first++)
            assert_true(quiet_entry(loc_of("l"), seq_place(first)));
    } else if (IS("done")) {
        quiet_lists_end(STATUS_OK, "", place_of(rest));
    } else if (IS("lists")) {
        enum status rc = status_of(script_word(&rest));

        word = script_word(&rest);
        quiet_lists_end(rc, rest, place_of(word));
    } else if (IS("listless")) {
        quiet_lists_refuse((unsigned)script_number(&rest));
    } else if (IS("wait")) {
        ms = (unsigned)script_number(&rest);
        assert_true(quiet_lists_wait(rest, &ms));
    } else if (IS("resource")) {
        word = script_word(&rest);
        assert_true(quiet_resource(loc_of(word), *rest ? rest : NULL));
    } else if (IS("baseline")) {
        quiet_baseline_end(STATUS_OK, "", place_of(rest));
    } else if (IS("nobaseline")) {
        word = script_word(&rest);
        quiet_baseline_end(status_of(word), rest, NULL);
    } else {
        return false;
    }
    return true;
}

/* Actions of the caller. */
static bool
call(struct stage *s, const char *verb, char *rest)
{
    if (IS("open") || IS("start")) {
        snprintf(s->after, sizeof(s->after), "%s", rest);
        open_follower(s, strcmp(rest, "now") != 0 ? s->after : NULL);
        if (IS("start"))
            quiet_found(&s->offer);
    } else if (IS("pause")) {
        td_follower_pause(s->follower);
    } else if (IS("resume")) {
        td_follower_resume(s->follower);
    } else if (IS("turn")) {
        quiet_turn();
    } else if (IS("compare")) {
        td_follower_compare(s->follower, rest);
    } else if (IS("leave")) {
        leave(s);
    } else if (IS("anew")) {
        leave(s);
        s->ends = 0;
        s->told[0] = '\0';
    } else if (IS("pauses_at")) {
        set_word(s->pauses_at, rest);
    } else if (IS("closes_at")) {
        set_word(s->closes_at, rest);
    } else if (IS("stops_at")) {
        set_word(s->stops_at, rest);
    } else {
        return false;
    }
    return true;
}

static void
expect_place(const struct source_position *place,
             const struct source_position *wanted)
{
    assert_int_equal(place->is_time, wanted->is_time);
    assert_int_equal(place->time_us, wanted->time_us);
    assert_int_equal(place->n_at, wanted->n_at);
    assert_int_equal(place->at.seq, wanted->at.seq);
}

static void
expect_path(const char *url, const char *path)
{
    assert_memory_equal(url, SET_URL, strlen(SET_URL));
    script_expect(url + strlen(SET_URL), path);
}

static const char *
transport_name(void)
{
    enum td_transport t = quiet_transport();

    return t == TD_WEBSOCKET   ? "websocket"
           : t == TD_EVENTS    ? "events"
           : t == TD_LONG_POLL ? "long_poll"
           : t == LIVE_SHARED  ? "sharing"
                               : "?";
}

static bool
is_state(struct stage *s, const char *name, bool awaits)
{
    static const struct {
        const char *name;
        bool (*is_so)(void);
    } states[] = {
        {"live", quiet_is_live},          {"page", quiet_is_asking_page},
        {"lists", quiet_is_asking_lists}, {"rebasing", quiet_is_rebasing},
        {"seeking", quiet_is_seeking},    {"held", quiet_is_held},
    };

    if (!strcmp(name, "going"))
        return !s->ends;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (!strcmp(name, states[i].name)) {
            if (awaits)
                quiet_await(states[i].is_so, name);
            return states[i].is_so();
        }
    fail_msg("there is no state \"%s\"", name);
    return false;
}

static bool
expect(struct stage *s, const char *verb, char *rest)
{
    char words[sizeof(s->told)];

    snprintf(words, sizeof(words), "%s%s", rest, *rest ? " " : "");
    if (IS("told"))
        script_expect(s->told, words);
    else if (IS("position"))
        script_expect(s->position, rest);
    else if (IS("caught_up"))
        script_expect(s->caught_up, rest);
    else if (IS("troubles"))
        script_expect_number(s->troubles, script_number(&rest));
    else if (IS("trouble"))
        script_expect(s->trouble, rest);
    else if (IS("troubled"))
        script_expect_in(s->trouble, rest);
    else if (IS("doubted"))
        script_expect_in(s->doubt, rest);
    else if (IS("as_of"))
        script_expect(s->as_of, rest);
    else if (IS("reason"))
        script_expect_in(s->reason, rest);
    else if (IS("url"))
        expect_path(quiet_url(), rest);
    else if (IS("asks"))
        expect_path(quiet_page_url(), rest);
    else if (IS("by"))
        script_expect(transport_name(), rest);
    else if (IS("lives"))
        script_expect_number(quiet_n_lives(), script_number(&rest));
    else if (IS("after"))
        expect_place(quiet_lists_after(), place_of(rest));
    else if (IS("is"))
        assert_true(is_state(s, rest, false));
    else if (IS("not"))
        assert_false(is_state(s, rest, false));
    else if (IS("await"))
        assert_true(is_state(s, rest, true));
    else if (IS("ended")) {
        enum status rc = status_of(script_word(&rest));

        assert_ended(s, rc, rest);
    } else {
        return false;
    }
    return true;
}

static bool
step(void *user, const char *verb, char *rest)
{
    return act(user, verb, rest) || list(verb, rest) ||
           call(user, verb, rest) || expect(user, verb, rest);
}

void
play(struct stage *s, const char *script)
{
    char text[4096];
    size_t n = 0;

    for (; *script; script++) {
        const char *epoch = script[1] != '-' ? NULL
                            : *script == 'E' ? EPOCH
                            : *script == 'O' ? OTHER_EPOCH
                                             : NULL;

        assert_true(n + sizeof(EPOCH) < sizeof(text));
        if (epoch)
            n += (size_t)sprintf(text + n, "%s", epoch);
        else
            text[n++] = *script;
    }
    text[n] = '\0';
    script_run(text, step, s);
}

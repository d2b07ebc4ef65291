#include "tests/unit/follow/following.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/clock.h"
#include "tests/test.h"

int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    history_init(&s->history, EPOCH);
    history_init(&s->other, OTHER_EPOCH);
    s->options.transports = TD_WEBSOCKET; /* the others: follower_test.c */
    sem_init(&s->heard, 0, 0);
    *state = s;
    return 0;
}

int
clear_stage(void **state)
{
    struct stage *s = *state;

    clock_skip_waits(NULL, NULL);
    td_close(s->client);
    fake_broker_free(s->broker);
    history_fini(&s->history);
    history_fini(&s->other);
    sem_destroy(&s->heard);
    free(s);
    return 0;
}

int
on_message(const struct td_message *message, void *user)
{
    struct stage *s = user;
    size_t used = strlen(s->seen);

    assert_string_equal(message->set, "news");
    if (!message->n_changes) {
        if (!s->options.n_filters)
            assert_int_equal(message->after, message->last);
        snprintf(s->seen + used, sizeof(s->seen) - used, "h ");
    }
    for (size_t i = 0; i < message->n_changes; i++) {
        const struct td_change *change = &message->changes[i];

        if (!s->options.n_filters)
            assert_int_equal(change->seq, message->after + 1 + i);
        assert_int_equal(strlen(change->text), change->text_size);
        snprintf(s->last_text, sizeof(s->last_text), "%s", change->text);
        used = strlen(s->seen);
        snprintf(s->seen + used, sizeof(s->seen) - used, "%llu ",
                 (unsigned long long)change->seq);
    }
    assert_int_equal(message->is_unproven,
                     message->n_changes > 0 && s->options.n_filters > 0);
    snprintf(s->position, sizeof(s->position), "%s", message->position);
    snprintf(s->digest, sizeof(s->digest), "%s",
             message->digest ? message->digest : "");
    sem_post(&s->heard);
    if (message->last == 1 && s->busy_ms) {
        fake_go(s->broker);
        clock_pass_us(s->busy_ms * INT64_C(1000));
    }
    return s->until && message->n_changes && message->last >= s->until;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct stage *s = user;

    s->pauses_until_ms = clock_steady_ms() + pause_ms;
    if (++s->troubles > 5)
        td_stop(s->client); /* none that should be has so many */
    snprintf(s->trouble, sizeof(s->trouble), "%s", why);
    if (s->starts_on_trouble)
        fake_broker_start(s->broker);
    s->starts_on_trouble = false;
}

/* True if only time makes it go on: the follower pauses, or the broker holds
 * one connection more than there were troubles. */
static bool
only_waits(void *user)
{
    struct stage *s = user;

    return clock_steady_ms() < s->pauses_until_ms ||
           (s->troubles < s->silences && fake_n_rests(s->broker) > s->troubles);
}

enum td_status
follow(struct stage *s, const char *after, enum td_form form, uint64_t until)
{
    s->options.after = after;
    s->options.form = form;
    s->options.on_trouble = on_trouble;
    s->until = until;
    s->pauses_until_ms = 0;
    clock_skip_waits(only_waits, s);
    return td_follow(s->client, fake_broker_url(s->broker), &s->options,
                     on_message, s);
}

struct slice
json(struct stage *s, uint64_t after, uint64_t last)
{
    return history_json(&s->history, after, last);
}

struct slice
xml(struct stage *s, uint64_t after, uint64_t last)
{
    return history_xml(&s->history, after, last);
}

void
assert_asked(struct stage *s, size_t i, const char *line)
{
    const char *request = fake_request(s->broker, i);

    if (strncmp(request, line, strlen(line)))
        fail_msg("connection %zu asked \"%.120s\", not \"%s\"", i, request,
                 line);
}

char *
spoil(struct stage *s, struct slice message, const char *from, const char *to)
{
    char *copy = history_copy(&s->history, message), *at = strstr(copy, from);

    assert_non_null(at);
    if (*to)
        memcpy(at, to, strlen(to));
    else
        at[strlen(from)] = at[strlen(from)] == '0' ? '1' : '0';
    return copy;
}

static struct slice
message(struct stage *s, const char *word)
{
    struct history *h = *word == 'o' ? &s->other : &s->history;
    bool is_third = strchr(word, 't');
    unsigned long long after, last;

    word += strspn(word, "opt");
    assert_int_equal(sscanf(word, "%llu-%llu", &after, &last), 2);
    if (is_third)
        return history_xml_every(h, after, last, 3);
    return history_xml(h, after, last);
}

static void
tell_word(struct stage *s, const char *word)
{
    static const char detail[] = "{\"detail\":\"" EARLIEST "\"}";
    struct fake_broker *b = s->broker;

    if (!strcmp(word, "d"))
        fake_describe(b);
    else if (!strcmp(word, "s"))
        fake_stream(b);
    else if (!strcmp(word, "hold"))
        fake_hold(b);
    else if (!strcmp(word, "wait"))
        fake_wait(b);
    else if (!strcmp(word, "nothing"))
        fake_nothing(b);
    else if (!strcmp(word, "raw"))
        fake_raw(b, SLICE("\xff\x01\x02\x03\x04"));
    else if (!strcmp(word, "gone"))
        fake_close(b, 4410, EARLIEST);
    else if (!strcmp(word, "denied"))
        fake_close(b, 4401, "the token has ended");
    else if (!strcmp(word, "restart"))
        fake_close(b, 1001, "restart");
    else if (*word == 'p')
        fake_answer(b, 200, "application/xml", message(s, word).data);
    else if (strchr(word, '-'))
        fake_send(b, message(s, word));
    else
        fake_answer(b, (unsigned)atoi(word), "application/problem+json",
                    detail);
}

void
tell_scenes(struct stage *s, const char *script, const char *const texts[])
{
    char copy[200], *rest = copy;

    assert_true(strlen(script) < sizeof(copy));
    strcpy(copy, script);
    for (char *word; (word = strsep(&rest, " "));)
        if (!strcmp(word, "x"))
            fake_send(s->broker, slice_of(*texts++));
        else
            tell_word(s, word);
}

void
tell(struct stage *s, const char *script, const char *const texts[])
{
    tell_scenes(s, script, texts);
    if (!s->starts_on_trouble)
        fake_broker_start(s->broker);
}

void
hold_talk(struct stage *s, const struct talk *t)
{
    const char *asked[] = {t->first, t->second, t->third};
    const char *what = t->what ? t->what : t->script;
    enum td_status rc;

    tell(s, t->script, t->texts);
    rc = follow(s, t->after, t->form, t->until);

    if (rc != t->rc || strcmp(s->seen, t->seen) || s->troubles != t->troubles)
        fail_msg("%s: it ended with %d, \"%s\", %u troubles", what, rc, s->seen,
                 s->troubles);
    if (t->problem && !*t->problem)
        assert_string_not_equal(td_problem(s->client), "");
    else if (strcmp(td_problem(s->client), t->problem ? t->problem : ""))
        fail_msg("%s: its problem is \"%s\"", what, td_problem(s->client));
    for (size_t i = 0; i < 3; i++)
        if (asked[i])
            assert_asked(s, i, asked[i]);
    if (t->form == TD_XML && t->second)
        assert_non_null(strstr(fake_request(s->broker, 1),
                               "\r\nAccept: application/xml\r\n"));
}

void
assert_follows(struct stage *s, const char *script, const char *after,
               uint64_t until, const char *seen, unsigned troubles)
{
    hold_talk(s, &(struct talk){NULL, TD_JSON, script, after, until, TD_STOPPED,
                                seen, NULL, troubles});
}

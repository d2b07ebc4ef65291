#include "tests/unit/bridge_quiet/inbound_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

int
in_stage_setup_closed(void **state)
{
    struct in_stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    tempdir_open(&s->dir);
    sets_configure(&s->sets, s->dir.path);
    s->inputs[0] = (struct bridge_input){"a/+", "alpha"};
    s->inputs[1] = (struct bridge_input){"plant/+/changes", "+"};
    s->inputs[2] = (struct bridge_input){"plant/#", "rest"};
    memset(s->long_text, 'x', sizeof(s->long_text) - 1);
    s->config = (struct bridge_config){
        .name = "hall",
        .prefix = "tidings",
        .keepalive_us = 60000000,
        .inflight = 20,
        .inputs = s->inputs,
        .n_inputs = 3,
    };
    return 0;
}

void
in_stage_start(struct in_stage *s)
{
    struct problem why = {""};

    sets_open(&s->sets);
    s->sets.registry->tokens = s->tokens;
    if (mqtt_db_open(&s->db, s->dir.path, NULL, &writing, &why) ||
        inbound_open(&s->in, &s->sets.posts, s->db, &s->config, &why))
        fail_msg("%s", why.text);
    quiet_mqtt_connect(false);
}

int
in_stage_setup(void **state)
{
    in_stage_setup_closed(state);
    in_stage_start(*state);
    for (size_t i = 0; i < 3; i++)
        quiet_mqtt_grant(i, 1);
    return 0;
}

void
in_stage_close(struct in_stage *s)
{
    inbound_close(s->in);
    s->in = NULL;
    mqtt_db_close(s->db);
    sets_close(&s->sets);
}

int
in_stage_teardown(void **state)
{
    struct in_stage *s = *state;

    if (s->in)
        in_stage_close(s);
    tokens_close(s->tokens);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

void
in_stage_add_token(struct in_stage *s, const char *name, const char *publish,
                   const char *manage)
{
    struct token_terms terms = {.ends_us = INT64_MAX};
    char text[TOKEN_TEXT_SIZE];

    if (!s->tokens)
        assert_int_equal(tokens_open(&s->tokens, s->dir.path, NULL), STATUS_OK);
    snprintf(terms.name, sizeof(terms.name), "%s", name);
    snprintf(terms.rights.publish, PATTERNS_SIZE, "%s", publish);
    snprintf(terms.rights.manage, PATTERNS_SIZE, "%s", manage);
    assert_int_equal(tokens_add(s->tokens, NULL, &terms, text, NULL),
                     STATUS_OK);
}

struct mqtt_received
in_stage_message(const char *topic, const char *payload)
{
    return (struct mqtt_received){
        .topic = topic, .payload = slice_of(payload), .mid = 1};
}

void
receive(const char *topic, const char *payload)
{
    struct mqtt_received m = in_stage_message(topic, payload);

    quiet_mqtt_receive(&m);
}

void
in_stage_fill(struct in_stage *s, size_t size)
{
    static const char entry[] = ENTRY("1");

    assert_true(size < sizeof(s->payload) && size > sizeof(entry));
    memset(s->payload, ' ', size);
    memcpy(s->payload, entry, sizeof(entry) - 1);
    s->payload[size] = '\0';
}

struct inbound_report
report(struct in_stage *s)
{
    struct inbound_report now;

    inbound_report(s->in, &now);
    return now;
}

uint64_t
last_of(struct in_stage *s, const char *set)
{
    return arrived_last(&s->sets, set);
}

void
assert_locs(struct in_stage *s, const char *set, const char *words)
{
    arrived_assert(&s->sets, set, words);
}

void
assert_rejected(size_t i, const char *one, const char *two, const char *three)
{
    const char *all[] = {one, two, three};
    struct quiet_message *message = quiet_mqtt_message(i);

    assert_non_null(message);
    assert_string_equal(message->topic, "tidings/rejected");
    for (size_t n = 0; n < 3; n++)
        if (all[n] && !strstr(message->payload, all[n]))
            fail_msg("no %s in %s", all[n], message->payload);
}

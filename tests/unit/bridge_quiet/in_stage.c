#include "tests/unit/bridge_quiet/in_stage.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

void
in_stage_configure(struct in_stage *s, void **state)
{
    static const struct bridge_input inputs[3] = {
        {"a/+", "alpha"},
        {"plant/+/changes", "+"},
        {"plant/#", "rest"},
    };

    memset(s, 0, sizeof(*s));
    s->dir = tempdir_path(state);
    sets_configure(&s->sets, s->dir);
    memcpy(s->inputs, inputs, sizeof(inputs));
    memset(s->long_text, 'x', sizeof(s->long_text) - 1);
    s->config = (struct bridge_config){
        .name = "hall",
        .prefix = "tidings",
        .keepalive_us = 60000000,
        .inflight = 20,
        .inputs = s->inputs,
        .n_inputs = 3,
    };
}

void
in_stage_start(struct in_stage *s)
{
    struct problem why = {""};

    sets_open(&s->sets);
    if (bridge_ledger_open(&s->ledger, s->dir, &why) ||
        in_open(&s->in, s->sets.registry, s->ledger, &s->config, &why))
        fail_msg("%s", why.text);
    quiet_mqtt_connect(false);
}

void
in_stage_open(struct in_stage *s, void **state)
{
    in_stage_configure(s, state);
    in_stage_start(s);
    for (size_t i = 0; i < 3; i++)
        quiet_mqtt_grant(i, 1);
}

void
in_stage_close(struct in_stage *s)
{
    in_close(s->in);
    bridge_ledger_close(s->ledger);
    sets_close(&s->sets);
}

struct mqtt_received
in_stage_message(struct in_stage *s, const char *topic, const char *payload)
{
    (void)s;
    return (struct mqtt_received){
        .topic = topic, .payload = slice_of(payload), .mid = 1};
}

void
in_stage_receive(struct in_stage *s, const char *topic, const char *payload)
{
    struct mqtt_received m = in_stage_message(s, topic, payload);

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

struct in_report
in_stage_report(struct in_stage *s)
{
    struct in_report report;

    in_report(s->in, &report);
    return report;
}

uint64_t
in_stage_last(struct in_stage *s, const char *set)
{
    return arrived_last(&s->sets, set);
}

void
in_stage_assert_locs(struct in_stage *s, const char *set, const char *words)
{
    arrived_assert(&s->sets, set, words);
}

void
in_stage_assert_rejected(struct in_stage *s, size_t i, const char *one,
                         const char *two, const char *three)
{
    const char *all[] = {one, two, three};
    struct quiet_message *message = quiet_mqtt_message(i);

    (void)s;
    assert_non_null(message);
    assert_string_equal(message->topic, "tidings/rejected");
    for (size_t n = 0; n < 3; n++)
        if (all[n] && !strstr(message->payload, all[n]))
            fail_msg("no %s in %s", all[n], message->payload);
}

/*
 * mqtt_peer_test.c - what tests of the bridges stand on, by itself: Mosquitto,
 * and clients of it.
 */
#include "tests/support/mqtt_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/support/ticking.h"

#define MESSAGES 2000
#define RESTARTS 4

struct stage {
    struct mosquittod m;
    struct mqtt_peer *hearer, *teller;
};

static int
set_stage(void **state)
{
    *state = calloc(1, sizeof(struct stage));
    return *state ? 0 : -1;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    mqtt_peer_close(s->hearer);
    mqtt_peer_close(s->teller);
    mosquittod_close(&s->m);
    free(s);
    return 0;
}

FIXTURE(set_stage, clear_stage);

TEST(what_is_said_is_heard_with_its_properties)
{
    struct stage *s = *state;
    const struct mqtt_heard *h;

    mosquittod_open(&s->m, NULL);
    s->teller = mqtt_peer_tell(&s->m, NULL);
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "a/kept",
                                                   .payload = SLICE("old"),
                                                   .is_retained = true});
    mqtt_peer_await_said(s->teller, 1);

    s->hearer =
        mqtt_peer_hear(&s->m, &(struct mqtt_hearing){.filters = {"a/#", "b"}});
    h = mqtt_peer_await(s->hearer, NULL, 1);
    assert_string_equal(h->topic, "a/kept");
    assert_true(h->is_retained);
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "b",
                                                   .payload = SLICE("{}"),
                                                   .type = "application/json",
                                                   .key = "k1",
                                                   .key_name = "id"});

    h = mqtt_peer_await(s->hearer, "b", 1);
    assert_string_equal(h->payload.data, "{}");
    assert_int_equal(h->payload.size, 2);
    assert_int_equal(h->qos, 1);
    assert_false(h->is_retained);
    assert_string_equal(h->content_type, "application/json");
    assert_string_equal(mqtt_heard_property(h, "id"), "k1");
    assert_null(mqtt_heard_property(h, "idempotency-key"));
    assert_int_equal(mqtt_peer_count(s->hearer), 2);
}

TEST(version_3_1_1_has_none)
{
    struct stage *s = *state;
    const struct mqtt_heard *h;

    mosquittod_open(&s->m, NULL);
    s->hearer = mqtt_peer_hear(
        &s->m, &(struct mqtt_hearing){
                   .join = {.is_311 = true}, .filters = {"+"}, .qos = 2});
    s->teller = mqtt_peer_tell(&s->m, NULL);
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "b",
                                                   .payload = SLICE("x"),
                                                   .type = "text/plain",
                                                   .key = "k1"});

    h = mqtt_peer_await(s->hearer, "b", 1);
    assert_string_equal(h->content_type, "");
    assert_int_equal(h->n_properties, 0);
}

/* Over TLS, and with a password and rules of who may do what. */
TEST(who_may_not_is_told_so)
{
    struct stage *s = *state;
    struct mqtt_joining join = {.user = "ann", .password = "secret"};

    mosquittod_open(&s->m,
                    &(struct mosquittod_wish){.user = "ann",
                                              .password = "secret",
                                              .acl = "user ann\n"
                                                     "topic write open/#\n",
                                              .is_tls = true});
    s->teller = mqtt_peer_tell(&s->m, &join);
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "open/1"});
    mqtt_peer_await_said(s->teller, 1);
    assert_int_equal(mqtt_peer_refused(s->teller), 0);
    mqtt_peer_say(s->teller, &(struct mqtt_saying){.topic = "closed/1"});
    mqtt_peer_await_said(s->teller, 2);
    assert_int_equal(mqtt_peer_refused(s->teller), 1);
}

static void
say_all(struct stage *s, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        char text[20];
        int size = snprintf(text, sizeof(text), "%d", i);

        mqtt_peer_say(s->teller,
                      &(struct mqtt_saying){.topic = "a",
                                            .payload = {text, (size_t)size}});
    }
}

/* Each at least once, in order but for repeats. */
TEST(restarts_lose_nothing)
{
    struct stage *s = *state;
    struct ticking t;
    int last = 0;
    size_t at = 0;

    mosquittod_open(&s->m, NULL);
    s->hearer = mqtt_peer_hear(
        &s->m, &(struct mqtt_hearing){.join = {.client_id = "hearer"},
                                      .filters = {"a"},
                                      .keeps_session = true});
    s->teller = mqtt_peer_tell(&s->m, NULL);

    ticking_begin(&t, 10000); /* they pause between their tries */
    for (int i = 0; i < RESTARTS; i++) {
        say_all(s, 1 + i * MESSAGES, MESSAGES);
        mqtt_peer_await_said(s->teller, (size_t)(i * MESSAGES + MESSAGES / 2));
        mosquittod_stop(&s->m);
        mosquittod_restart(&s->m);
    }
    mqtt_peer_leave(s->hearer);
    mqtt_peer_await_said(s->teller, RESTARTS * MESSAGES);
    mqtt_peer_return(s->hearer);

    while (last < RESTARTS * MESSAGES) {
        const struct mqtt_heard *h = mqtt_peer_next(s->hearer, &at, "a");
        int number = atoi(h->payload.data);

        assert_in_range(number, 1, last + 1);
        if (number > last)
            last = number;
    }
    AWAIT(mqtt_peer_connections(s->teller) > RESTARTS &&
          mqtt_peer_connections(s->hearer) > RESTARTS);
    ticking_end(&t);
}

/* A frozen one takes nothing, and goes on where it was. */
TEST(a_frozen_one_thaws)
{
    struct stage *s = *state;

    mosquittod_open(&s->m, NULL);
    s->teller = mqtt_peer_tell(&s->m, NULL);
    mosquittod_freeze(&s->m);
    say_all(s, 1, 100);
    assert_int_equal(mqtt_peer_said(s->teller), 0);
    mosquittod_thaw(&s->m);
    mqtt_peer_await_said(s->teller, 100);
    assert_int_equal(mqtt_peer_connections(s->teller), 1);
}

#include "base/clock.h"
#include "broker/hub/hub.h"
#include "tests/test.h"
#include "tests/unit/hub/asked.h"

#define ONE "http://127.0.0.1:1/one"
#define TWO "http://127.0.0.1:1/two?a=b"

static struct told
list(const char *name)
{
    struct command *command = command_new(COMMAND_LIST, 0);

    assert_non_null(command);
    snprintf(command->name, sizeof(command->name), "%s", name);
    return asked(command);
}

static unsigned
count(const char *text, const char *part)
{
    unsigned n = 0;

    while ((text = strstr(text, part))) {
        text += strlen(part);
        n++;
    }
    return n;
}

/* The broker subscribes each external hub to both topics of the set: two
 * subscriptions each. The hub hears of settings when they are committed, in a
 * turn of its own. */
static void
await_hubs(const char *name, unsigned of_one, unsigned of_two)
{
    int64_t until = clock_steady_us() + 30000000;
    struct told t;

    do {
        t = list(name);
        assert_int_equal(t.http, 200);
        if (count(t.text, "\"callback\":\"" ONE "\"") == of_one &&
            count(t.text, "\"callback\":\"" TWO "\"") == of_two) {
            assert_int_equal(count(t.text, "\"kind\":\"hub\""),
                             of_one + of_two);
            return;
        }
    } while (clock_steady_us() < until);
    fail_msg("not %u and %u: %s", of_one, of_two, t.text);
}

static void
put(const char *name, const char *text)
{
    struct problem why = {""};

    if (asked_put_set(name, text, &why))
        fail_msg("%s", why.text);
}

FIXTURE(asked_setup, asked_teardown);

/* W-013: settings begin and end them. */
TEST(hubs_of_settings_are_subscriptions)
{
    put("demo", "{\"hubs\":[\"" ONE "\"]}");
    put("other", "{}");
    await_hubs("demo", 2, 0);
    put("demo", "{\"hubs\":[\"" TWO "\",\"" ONE "\"]}");
    await_hubs("demo", 2, 2);
    put("demo", "{\"hubs\":[\"" TWO "\"],\"title\":\"Demo\"}");
    await_hubs("demo", 0, 2);
    put("demo", "{}");
    await_hubs("demo", 0, 0);
    await_hubs("other", 0, 0);
}

/* they go on where they were, by the settings. */
TEST(they_are_there_after_a_restart)
{
    struct told before, after;
    char id[40];

    put("demo", "{\"hubs\":[\"" ONE "\"]}");
    put("left", "{\"hubs\":[\"" TWO "\"]}");
    await_hubs("demo", 2, 0);
    await_hubs("left", 0, 2);
    before = list("demo");
    snprintf(id, sizeof(id), "%.12s", strstr(before.text, "\"id\":"));

    /* The settings of `left` change while no hub is there. */
    asked_close_hub();
    put("left", "{}");
    put("new", "{\"hubs\":[\"" TWO "\"]}");
    sets_close(&broker.sets);
    asked_open();

    await_hubs("demo", 2, 0);
    await_hubs("left", 0, 0);
    await_hubs("new", 0, 2);
    after = list("demo");
    assert_non_null(strstr(after.text, id));
}

/* A hub gets changes that are posted right after its settings, however late the
 * hub's thread learns of these. */
TEST(they_begin_where_the_settings_were_committed)
{
    struct told t;

    (void)sets_post(&broker.sets, "demo", 1, 3);

    put("demo", "{\"hubs\":[\"" ONE "\"]}");
    (void)sets_post(&broker.sets, "demo", 4, 2);
    await_hubs("demo", 2, 0);
    t = list("demo");
    assert_non_null(strstr(t.text, "-3\",\"lag\":2"));
}

/* The subscriptions end with the set, when the hubs have been notified or could
 * not be. */
TEST(a_set_that_is_removed_tells_nobody, asked_configure, asked_teardown)
{
    broker.sets.config.hub_give_up_us = 1;
    asked_open();
    put("demo", "{\"hubs\":[\"" ONE "\"]}");
    await_hubs("demo", 2, 0);

    asked_remove_set("demo");
    put("demo", "{}");
    await_hubs("demo", 0, 0);
}

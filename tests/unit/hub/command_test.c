/*
 * Forms posted to the hub, judged without it.
 */
#include "broker/sources/command.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

#define MINIMAL                                              \
    "hub.mode=subscribe&hub.topic=http://example.org/topic&" \
    "hub.callback=http://a.example/cb"

static struct problem why;

/* A command that read the form; the caller's. */
static struct command *
read_form(const char *form)
{
    struct command *command = command_new(COMMAND_SUBSCRIBE, 0);

    why = (struct problem){""};
    if (command_read_form(command, slice_of(form), &why))
        fail_msg("%s: %s", form, why.text);
    return command;
}

static void
assert_refused(const char *form, enum status rc, const char *begins)
{
    struct command *command = command_new(COMMAND_SUBSCRIBE, 0);

    why = (struct problem){""};
    assert_int_equal(command_read_form(command, slice_of(form), &why), rc);
    if (strncmp(why.text, begins, strlen(begins)) != 0)
        fail_msg("%s: \"%s\", and not \"%s...\"", form, why.text, begins);
    command_free(command);
}

/* R-298, W-025 */
TEST(a_subscription_may_ask_for_nothing_else)
{
    struct command *command = read_form(MINIMAL "&foo=1&hub.foo=2");

    assert_int_equal(command->kind, COMMAND_SUBSCRIBE);
    assert_int_equal(command->request.mode, WEBSUB_SUBSCRIBE);
    assert_int_equal(filter_text(&command->filter).size, 0);
    assert_false(command->has_after);
    assert_int_equal(command->interval_us, 0);
    command_free(command);
}

TEST(filters_place_and_interval_are_read)
{
    struct command *command =
        read_form(MINIMAL "&tag=b&tag=a&change=deleted&prefix=http%3A%2F%2Fx%2F"
                          "&after=0123456789abcdef-7&interval=0.25");

    assert_true(slice_is(filter_text(&command->filter),
                         "change=deleted&prefix=http://x/&tag=a&tag=b"));
    assert_true(command->has_after);
    assert_true(slice_is(command->after, "0123456789abcdef-7"));
    assert_int_equal(command->interval_us, 250000);
    command_free(command);
}

TEST(an_interval_is_up_to_a_day)
{
    static const struct {
        const char *text;
        int64_t us; /* less than 0: refused */
    } rows[] = {{"0", 0},
                {"1", 1000000},
                {"86400", 86400000000},
                {"0.0000019", 1},
                {"007.5", 7500000},
                {"86400.000001", -1},
                {"99999999999999999999999", -1},
                {"", -1},
                {".5", -1},
                {"1.", -1},
                {"-1", -1},
                {"1e3", -1},
                {"1.2.3", -1},
                {"1%202", -1}};

    char form[300];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(form, sizeof(form), MINIMAL "&interval=%s", rows[i].text);
        if (rows[i].us < 0) {
            assert_refused(form, STATUS_MALFORMED, "interval: ");
        } else {
            struct command *command = read_form(form);

            assert_int_equal(command->interval_us, rows[i].us);
            command_free(command);
        }
    }
}

/* W-021, W-022, W-023, W-024, W-027, W-032 */
TEST(what_is_wrong_is_named)
{
    assert_refused("", STATUS_MALFORMED, "hub.mode");
    assert_refused("hub.mode=subscribe&hub.callback=http://a.example/",
                   STATUS_MALFORMED, "hub.topic");
    assert_refused(MINIMAL "&hub.lease_seconds=x", STATUS_MALFORMED,
                   "hub.lease_seconds");
    assert_refused(MINIMAL "&change=vanished", STATUS_MALFORMED, "change");
    assert_refused(MINIMAL "&type=text", STATUS_MALFORMED, "type");
    assert_refused(MINIMAL "&after=1&after=2", STATUS_MALFORMED, "after: ");
    assert_refused(MINIMAL "&interval=1&interval=2", STATUS_MALFORMED,
                   "interval: ");
}

/* W-094, W-109 */
TEST(forms_and_signatures_are_those_of_a_table)
{
    static const struct {
        const char *more;
        enum message_form form;
        bool wants_v1a;
    } rows[] = {
        {"", MESSAGE_XML, false},
        {"&form=xml", MESSAGE_XML, false},
        {"&form=json&form=json", MESSAGE_JSON, false},
        {"&form=cloudevents", MESSAGE_CLOUDEVENTS, false},
        {"&form=cloudevent&signature=v1a", MESSAGE_CLOUDEVENT, true},
    };

    static const char *const bad[] = {
        "form=",      "form=plain",   "form=JSON",         "form=json ",
        "signature=", "signature=v1", "form=xml&form=json"};
    char form[300];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct command *command;

        snprintf(form, sizeof(form), MINIMAL "%s", rows[i].more);
        command = read_form(form);
        assert_int_equal(command->message_form, rows[i].form);
        assert_int_equal(command->wants_v1a, rows[i].wants_v1a);
        command_free(command);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char name[20] = "";

        snprintf(form, sizeof(form), MINIMAL "&%s", bad[i]);
        memcpy(name, bad[i], strcspn(bad[i], "="));
        assert_refused(form, STATUS_MALFORMED, strcat(name, ": "));
    }
}

/* Its other parameters do not matter. */
TEST(an_unsubscription_has_nothing_to_ask_for)
{
    struct command *command =
        read_form("hub.mode=unsubscribe&hub.topic=http://example.org/topic&"
                  "hub.callback=http://a.example/cb&interval=x&change=y");

    assert_int_equal(command->kind, COMMAND_SUBSCRIBE);
    assert_int_equal(command->request.mode, WEBSUB_UNSUBSCRIBE);
    command_free(command);
}

/* W-121 */
TEST(a_ping_is_a_command_of_its_own)
{
    struct command *command =
        read_form("hub.mode=publish&hub.url=http://example.org/topic");

    assert_int_equal(command->kind, COMMAND_PUBLISH);
    command_free(command);
}

/* */
TEST(a_simple_subscription_has_a_callback_uri)
{
    static const char *const bad[] = {
        "", "callbackuri=http://a.example/", "callbackURI=", "callbackURI=a.b",
        "callbackURI=http://a.example/&callbackURI=http://b.example/"};
    struct command *command = command_new(COMMAND_SUBSCRIBE, 0);

    assert_int_equal(
        command_read_simple(command,
                            SLICE("callbackURI=http%3A%2F%2Fa.example%2F%3Fx&"
                                  "tag=a&interval=1&hub.secret=x"),
                            &why),
        STATUS_OK);
    assert_true(command->is_simple);
    assert_int_equal(command->request.mode, WEBSUB_SUBSCRIBE);
    assert_true(slice_is(command->request.callback, "http://a.example/?x"));
    assert_int_equal(command->request.secret.size, 0);
    assert_true(slice_is(filter_text(&command->filter), "tag=a"));
    command_free(command);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        command = command_new(COMMAND_SUBSCRIBE, 0);
        assert_int_equal(command_read_simple(command, slice_of(bad[i]), &why),
                         STATUS_MALFORMED);
        assert_non_null(strstr(why.text, "callbackURI"));
        command_free(command);
    }
}

TEST(what_is_kept_stays_where_it_is)
{
    struct command *command = command_new(COMMAND_NOTIFY, 10);
    struct slice a = command_keep(command, SLICE("hello"));
    struct slice b = command_keep(command, SLICE("world"));

    assert_true(slice_is(a, "hello"));
    assert_true(slice_is(b, "world"));
    assert_false(command->memory.failed);
    assert_int_equal(command_keep(command, SLICE("!")).size, 0);
    assert_true(command->memory.failed);
    assert_true(slice_is(a, "hello"));
    command_free(command);
    command_free(NULL);
}

/*
 * set_test.c - tidings set, as a shell sees it.
 */
#include <stdio.h>
#include <string.h>

#include "tests/places.h"
#include "tests/support/command.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

static struct command command;

/* Runs tidings set with these arguments. */
static int
run_set(const char *const *more)
{
    const char *argv[12] = {TIDINGS, "set"};

    for (size_t i = 0; i < 9 && more[i]; i++)
        argv[2 + i] = more[i];
    command_start(&command, argv);
    command_give(&command, "");
    return command_end(&command);
}

#define SET(...) run_set((const char *const[]){__VA_ARGS__, NULL})

static void
assert_begins(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)))
        fail_msg("\"%s\" does not begin with \"%s\"", text, with);
}

/* PUT sends the options as JSON, and leaves a set that exists alone. */
TEST(creates_a_set)
{
    struct fake_broker *b = fake_broker_new();
    const char *url = fake_broker_url(b), *request;

    fake_answer(b, 201, "application/json", "{}");
    fake_answer(b, 409, "application/problem+json",
                "{\"title\":\"Conflict\",\"detail\":\"it exists\"}");
    for (int i = 0; i < 5; i++)
        fake_answer(b, 201, "application/json", "{}");
    fake_broker_start(b);
    assert_int_equal(SET("create", url, "--title", "A \"b\" \\", "--rotate-age",
                         "0.5", "--retain-lists", "7"),
                     0);
    assert_string_equal(command.out_text, "created\n");
    request = fake_request(b, 0);
    assert_begins(request, "PUT /sets/news?new=yes HTTP/1.1\r\n");
    assert_non_null(strstr(request, "\r\nContent-Type: application/json\r\n"));
    assert_string_equal(strstr(request, "\r\n\r\n") + 4,
                        "{\"title\":\"A \\\"b\\\" \\\\\",\"rotateAge\":0.5,"
                        "\"retainLists\":7}");

    assert_int_equal(SET("create", url), 1);
    assert_string_equal(command.err_text, "tidings: 409: it exists\n");
    assert_string_equal(strstr(fake_request(b, 1), "\r\n\r\n") + 4, "{}");

    assert_int_equal(SET("create", url, "--hub", "http://a.example/\"",
                         "--upstream-topic", "http://c.example/t", "--hub",
                         "http://b.example/hub"),
                     0);
    assert_string_equal(strstr(fake_request(b, 2), "\r\n\r\n") + 4,
                        "{\"upstreamTopic\":\"http://c.example/t\",\"hubs\":["
                        "\"http://a.example/\\\"\",\"http://b.example/hub\"]}");

    assert_int_equal(SET("create", url, "--resource-list-every", "60",
                         "--resource-list-keep", "daily"),
                     0);
    assert_string_equal(strstr(fake_request(b, 3), "\r\n\r\n") + 4,
                        "{\"resourceListEvery\":60,"
                        "\"resourceListKeep\":\"daily\"}");
    assert_int_equal(SET("create", url, "--resource-list-keep", "24"), 0);
    assert_string_equal(strstr(fake_request(b, 4), "\r\n\r\n") + 4,
                        "{\"resourceListKeep\":24}");
    assert_int_equal(
        SET("create", url, "--content", "fetch", "--content-versions", "30d"),
        0);
    assert_string_equal(strstr(fake_request(b, 5), "\r\n\r\n") + 4,
                        "{\"content\":\"fetch\","
                        "\"contentVersions\":\"30d\"}");
    assert_int_equal(SET("create", url, "--resource-dump-every", "60",
                         "--resource-dump-keep", "7"),
                     0);
    assert_string_equal(strstr(fake_request(b, 6), "\r\n\r\n") + 4,
                        "{\"resourceDumpEvery\":60,\"resourceDumpKeep\":7}");
    fake_broker_free(b);
}

/* RFC 7396: PATCH sends the options that were given, and null for --reset. */
TEST(changes_a_set)
{
    struct fake_broker *b = fake_broker_new();
    const char *url = fake_broker_url(b);

    for (int i = 0; i < 2; i++)
        fake_answer(b, 200, "application/json", "{}");
    fake_broker_start(b);
    assert_int_equal(SET("change", url, "--reset", "rotate-age", "--title", "B",
                         "--reset", "hub"),
                     0);
    assert_string_equal(command.out_text, "changed\n");
    assert_begins(fake_request(b, 0), "PATCH /sets/news HTTP/1.1\r\n");
    assert_string_equal(strstr(fake_request(b, 0), "\r\n\r\n") + 4,
                        "{\"title\":\"B\",\"rotateAge\":null,\"hubs\":null}");
    assert_int_equal(SET("change", url, "--content", "none", "--discard"), 0);
    assert_begins(fake_request(b, 1),
                  "PATCH /sets/news?discard=yes HTTP/1.1\r\n");
    fake_broker_free(b);
}

TEST(shows_a_set)
{
    static const char text[] =
        "{\"name\":\"news\",\"last\":7,\"lists\":{\"open\":2,\"closed\":1},"
        "\"links\":[{\"rel\":\"self\",\"href\":\"http://a/b\",\"type\":\"c\"},"
        "{\"rel\":\"stream\",\"href\":\"http://a/s\"}]}\n";
    static const char forged[] =
        "{\"title\":\"a\\nlast 9\\u007f\",\"a\\tb\":1,"
        "\"c\":\"\\u009b1m\\u00e9\",\"links\":[{\"rel\":\"x\\r\",\"href\":"
        "\"http://a/\\u007f\"}]}";
    struct fake_broker *b = fake_broker_new();

    fake_answer(b, 200, "application/json", text);
    fake_answer(b, 200, "application/json", text);
    fake_answer(b, 200, "text/html", "<html/>");
    fake_answer(b, 200, "application/json", forged);
    fake_broker_start(b);
    assert_int_equal(SET("show", fake_broker_url(b)), 0);
    assert_string_equal(command.out_text,
                        "name                        news\n"
                        "last                        7\n"
                        "lists.open                  2\n"
                        "lists.closed                1\n"
                        "link self                   http://a/b\n"
                        "link stream                 http://a/s\n");
    assert_int_equal(SET("show", "--json", fake_broker_url(b)), 0);
    assert_string_equal(command.out_text, text);
    assert_int_equal(SET("show", fake_broker_url(b)), 1);
    assert_non_null(strstr(command.err_text, "no description of a set"));
    /* A set's title cannot make a line, or move the cursor. */
    assert_int_equal(SET("show", fake_broker_url(b)), 0);
    assert_string_equal(command.out_text,
                        "title                       a?last 9?\n"
                        "a?b                         1\n"
                        "c                           ?1m\xc3\xa9\n"
                        "link x?                     http://a/?\n");
    fake_broker_free(b);
}

/* Exit statuses as the other commands have them. */
TEST(deletes_a_set)
{
    static const char gone[] = "{\"title\":\"Gone\",\"status\":410,"
                               "\"detail\":\"the set was removed\"}";
    static const char missing[] = "{\"title\":\"Not Found\",\"status\":404,"
                                  "\"detail\":\"there is no set\"}";
    struct fake_broker *b = fake_broker_new();

    fake_answer(b, 204, "text/plain", "");
    fake_answer(b, 410, "application/problem+json", gone);
    fake_answer(b, 404, "application/problem+json", missing);
    fake_broker_start(b);
    assert_int_equal(SET("delete", fake_broker_url(b), "--yes"), 0);
    assert_string_equal(command.out_text, "deleted\n");
    assert_begins(fake_request(b, 0), "DELETE /sets/news HTTP/1.1\r\n");
    assert_int_equal(SET("delete", fake_broker_url(b), "--yes"), 3);
    assert_string_equal(command.err_text,
                        "tidings: 410: the set was removed\n");
    assert_int_equal(SET("delete", fake_broker_url(b), "--yes"), 1);
    assert_string_equal(command.err_text, "tidings: 404: there is no set\n");
    fake_broker_free(b);
}

TEST(refuses_what_makes_no_sense)
{
    assert_int_equal(SET("create"), 2);
    assert_int_equal(SET("rename", "http://127.0.0.1:1/sets/a"), 2);
    assert_int_equal(SET("show", "http://127.0.0.1:1/sets/a", "x"), 2);
    assert_int_equal(SET("show", "http://127.0.0.1:1/sets/a", "--title", "x"),
                     2);
    assert_int_equal(SET("delete", "http://127.0.0.1:1/sets/a", "--json"), 2);
    assert_int_equal(SET("delete", "127.0.0.1:1/sets/a", "--yes"), 2);
    assert_int_equal(SET("delete", "http://127.0.0.1:1/sets/a"), 2);
    assert_non_null(strstr(command.err_text, "--yes"));
    assert_int_equal(SET("change", "http://127.0.0.1:1/sets/a"), 2);
    assert_int_equal(SET("change", "http://127.0.0.1:1/sets/a", "--discard"),
                     2);
    assert_int_equal(
        SET("change", "http://127.0.0.1:1/sets/a", "--reset", "name"), 2);
    assert_int_equal(SET("change", "http://127.0.0.1:1/sets/a", "--reset",
                         "title", "--title", "x"),
                     2);
    assert_int_equal(
        SET("create", "http://127.0.0.1:1/sets/a", "--reset", "title"), 2);
    assert_int_equal(
        SET("create", "http://127.0.0.1:1/sets/a", "--rotate-entries", "x"), 2);
    assert_int_equal(
        SET("create", "http://127.0.0.1:1/sets/a", "--rotate-age", "1."), 2);
    assert_string_equal(command.err_text,
                        "tidings: --rotate-age is a number\n");
}

/*
 * publish_test.c - tidings publish, as a shell sees it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/places.h"
#include "tests/support/command.h"
#include "tests/support/fake_broker.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

struct stage {
    struct fake_broker *broker;
    struct command command;
    char path[64];
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    fake_broker_free(s->broker);
    if (s->path[0])
        unlink(s->path);
    free(s);
    return 0;
}

static void
accept_a_post(struct stage *s)
{
    fake_answer(s->broker, 200, "application/json",
                "{\"set\":\"news\",\"first\":1,\"last\":3,"
                "\"position\":\"0123456789abcdef-3\","
                "\"datetime\":\"2026-01-01T00:00:03.000000Z\"}");
}

/* Runs tidings publish URL with up to six more arguments and `input`. */
static int
publish(struct stage *s, const char *const *more, const char *input)
{
    const char *argv[10] = {TIDINGS, "publish", fake_broker_url(s->broker)};

    for (size_t i = 0; i < 6 && more[i]; i++)
        argv[3 + i] = more[i];
    command_start(&s->command, argv);
    command_give(&s->command, input);
    return command_end(&s->command);
}

#define PUBLISH(s, input, ...) \
    publish(s, (const char *const[]){__VA_ARGS__, NULL, NULL}, input)

static void
assert_posted(struct stage *s, size_t i, const char *type, const char *body)
{
    const char *request = fake_request(s->broker, i);
    char line[100];

    snprintf(line, sizeof(line), "\r\nContent-Type: %s\r\n", type);
    assert_non_null(strstr(request, line));
    assert_string_equal(strstr(request, "\r\n\r\n") + 4, body);
}

/* A file of one byte, whose name alone says its type. */
static void
write_file(struct stage *s, const char *end)
{
    int fd;

    snprintf(s->path, sizeof(s->path), "/tmp/publish_test_XXXXXX.%s", end);
    fd = mkstemps(s->path, (int)strlen(end) + 1);
    assert_int_equal(write(fd, "?", 1), 1);
    close(fd);
}

FIXTURE(set_stage, clear_stage);

/* a durable post prints one line that scripts can read. */
TEST(prints_one_line)
{
    struct stage *s = *state;

    accept_a_post(s);
    fake_broker_start(s->broker);

    assert_int_equal(PUBLISH(s, " [{}]", "-"), 0);

    assert_string_equal(s->command.out_text,
                        "first=1 last=3 position=0123456789abcdef-3 "
                        "datetime=2026-01-01T00:00:03.000000Z\n");
    assert_string_equal(s->command.err_text, "");
    assert_posted(s, 0, "application/json", " [{}]");
}

/* Design section 4: the type comes from the option, the file's name, or the
 * first character. */
TEST(finds_out_the_type)
{
    struct stage *s = *state;

    for (int i = 0; i < 7; i++)
        accept_a_post(s);
    fake_broker_start(s->broker);
    write_file(s, "json");

    assert_int_equal(PUBLISH(s, "\n<urlset/>", NULL), 0);
    assert_int_equal(PUBLISH(s, "\xef\xbb\xbf{}", NULL), 0);
    assert_int_equal(PUBLISH(s, "?", "--type", "xml"), 0);
    assert_int_equal(PUBLISH(s, "<a/>", "-", "--type=json"), 0);
    assert_int_equal(PUBLISH(s, "", s->path), 0);
    assert_int_equal(PUBLISH(s, "{}\n{}\n", "--type", "ndjson"), 0);
    unlink(s->path);
    write_file(s, "jsonl");
    assert_int_equal(PUBLISH(s, "", s->path), 0);

    assert_posted(s, 0, "application/xml", "\n<urlset/>");
    assert_posted(s, 1, "application/json", "\xef\xbb\xbf{}");
    assert_posted(s, 2, "application/xml", "?");
    assert_posted(s, 3, "application/json", "<a/>");
    assert_posted(s, 4, "application/json", "?");
    assert_posted(s, 5, "application/x-ndjson", "{}\n{}\n");
    assert_posted(s, 6, "application/x-ndjson", "?");
}

/* Design section 4: the program asks for a type that it cannot find, and sends
 * nothing. */
TEST(asks_for_a_type_it_cannot_find_out)
{
    struct stage *s = *state;

    assert_int_equal(PUBLISH(s, "loc,change\n", NULL), 2);
    assert_int_equal(PUBLISH(s, "{}", "--type=csv"), 2);
    assert_int_equal(PUBLISH(s, "", "/no/such/file.xml"), 1);
    assert_non_null(strstr(s->command.err_text, "No such file"));
}

/* Design section 4: --change makes the document, each LOC an entry. */
TEST(makes_a_document_from_options)
{
    struct stage *s = *state;

    accept_a_post(s);
    accept_a_post(s);
    fake_broker_start(s->broker);

    assert_int_equal(PUBLISH(s, "", "--change=deleted", "http://e.com/\"a\\\n",
                             "http://e.com/b"),
                     0);
    assert_int_equal(PUBLISH(s, "", "--change=created",
                             "--lastmod=2026-01-01T00:00:00Z",
                             "--hash=sha-256:ab", "--length=3",
                             "--media-type=text/csv", "http://e.com/c"),
                     0);

    assert_posted(s, 0, "application/json",
                  "[{\"loc\":\"http://e.com/\\\"a\\\\\\u000a\","
                  "\"change\":\"deleted\"},\n"
                  "{\"loc\":\"http://e.com/b\",\"change\":\"deleted\"}]\n");
    assert_posted(s, 1, "application/json",
                  "[{\"loc\":\"http://e.com/c\",\"change\":\"created\","
                  "\"lastmod\":\"2026-01-01T00:00:00Z\","
                  "\"hash\":{\"sha-256\":\"ab\"},\"length\":3,"
                  "\"type\":\"text/csv\"}]\n");
}

/* a refusal is one line on standard error and status 1. */
TEST(tells_why_it_was_refused)
{
    struct stage *s = *state;

    fake_answer(s->broker, 422, "application/problem+json",
                "{\"detail\":\"loc is not an absolute URI\",\"entry\":3,"
                "\"line\":9}");
    fake_broker_start(s->broker);

    assert_int_equal(PUBLISH(s, "[]", NULL), 1);

    assert_string_equal(s->command.out_text, "");
    assert_string_equal(
        s->command.err_text,
        "tidings: 422: entry 3, line 9: loc is not an absolute URI\n");
}

/* A lost answer is asked for again, with the same key; a key
 * of the caller's own is the post's. */
TEST(repeats_a_post_whose_answer_was_lost)
{
    struct stage *s = *state;

    fake_silence(s->broker);
    accept_a_post(s);
    fake_broker_start(s->broker);

    assert_int_equal(PUBLISH(s, "[{}]", "--key=mine", "--verbose"), 0);

    assert_non_null(strstr(s->command.err_text, "; again in 0."));
    for (size_t i = 0; i < 2; i++) {
        assert_posted(s, i, "application/json", "[{}]");
        assert_non_null(strstr(fake_request(s->broker, i),
                               "\r\nIdempotency-Key: \"mine\"\r\n"));
    }
}

/* --retry 0: once; the line says that the outcome is open. */
TEST(tries_once_if_told_so)
{
    struct stage *s = *state;

    fake_silence(s->broker);
    accept_a_post(s);
    fake_broker_start(s->broker);

    assert_int_equal(PUBLISH(s, "[{}]", "--retry=0"), 1);
    assert_non_null(strstr(s->command.err_text,
                           "; the post may or may not have been kept\n"));
    assert_string_equal(fake_request(s->broker, 1), "");
}

/* The program does not send a wrong number of seconds, or a wrong key. */
TEST(refuses_bad_keys_and_times)
{
    static const char *const bad[] = {
        "--retry=x", "--retry=-1",    "--retry=1.2.3",        "--retry=.",
        "--retry=",  "--retry=43201", "--retry=999999999999", "--key=",
        "--key=a b",
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(PUBLISH(s, "[{}]", bad[i]), 2);
    assert_int_equal(PUBLISH(s, "[{}]", "--again"), 2);
    assert_int_equal(PUBLISH(s, "[{}]", "/dev/null", "--again", "--key=a"), 2);
}

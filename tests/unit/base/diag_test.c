#include "broker/base/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/log_line.h"
#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Standard error goes to a file while a test runs. */
struct caught {
    struct tempdir dir;
    int file;
    int real;
};

#define A_MOMENT_US 1792482180123999 /* 2026-10-20T07:43:00.123999Z */

static int
catch_setup(void **state)
{
    struct caught *c = calloc(1, sizeof(*c));

    tempdir_open(&c->dir);
    c->file = openat(c->dir.fd, "stderr",
                     O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644);
    c->real = dup(STDERR_FILENO);
    dup2(c->file, STDERR_FILENO);
    clock_set_us(A_MOMENT_US - clock_now_us());
    *state = c;
    return 0;
}

static int
catch_teardown(void **state)
{
    struct caught *c = *state;

    diag_set_level(DIAG_INFO);
    dup2(c->real, STDERR_FILENO);
    close(c->real);
    close(c->file);
    tempdir_close(&c->dir);
    free(c);
    return 0;
}

/* Restores the real standard error. Returns a file from which the caller reads
 * the lines that were caught. */
static FILE *
open_caught(struct caught *c)
{
    FILE *file;

    dup2(c->real, STDERR_FILENO);
    file = fdopen(dup(c->file), "r");
    assert_non_null(file);
    rewind(file);
    return file;
}

/* Compares with real standard error back, so that a failure can be read. */
static void
assert_caught(void **state, const char *text)
{
    struct caught *c = *state;

    dup2(c->real, STDERR_FILENO);
    assert_file(c->dir.fd, "stderr", text);
}

FIXTURE(catch_setup, catch_teardown);

#define AT "time=2026-10-20T07:43:00.123Z "

/* One line each, logfmt. */
TEST(a_line_has_time_level_part_and_text)
{
    diag(DIAG_INFO, "log", "list %d of set %s is closed", 3, "demo");
    diag(DIAG_WARNING, "net", "slow");
    diag(DIAG_ERROR, "net", "gone");

    assert_caught(
        state,
        AT "level=info part=log msg=\"list 3 of set demo is closed\"\n" AT
           "level=warning part=net msg=\"slow\"\n" AT
           "level=error part=net msg=\"gone\"\n");
}

TEST(keys_follow_the_text)
{
    DIAG(DIAG_INFO, "log", "a list is filed", diag_text("set", "a.b-c_d"),
         diag_number("list", UINT64_MAX), diag_text("empty", ""));
    diag(DIAG_INFO, "log", "no keys");

    assert_caught(state,
                  AT "level=info part=log msg=\"a list is filed\" "
                     "set=a.b-c_d list=18446744073709551615 "
                     "empty=\"\"\n" AT "level=info part=log msg=\"no keys\"\n");
}

/* The same fields as JSON: one object a line. */
TEST(json_has_the_same_fields)
{
    char text[6001];
    struct caught *c = *state;
    char want[4096], cut[DIAG_LINE_MAX + 100];
    FILE *file;

    log_line_set_format(LOG_JSON);
    DIAG(DIAG_INFO, "log", "a list is filed", diag_text("set", "demo"),
         diag_number("list", UINT64_MAX), diag_text("empty", ""));
    diag(DIAG_INFO, "net", "%s", "a\nb\"\xff");
    DIAG(DIAG_INFO, "net", "m",
         diag_text("k", "\" \\ \x1b[2J\x7f \xc2\x9b \xe2\x80\xae \xff\xc0\xaf "
                        "{},:\t\xf0\x9f\x98\x80"));
    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    DIAG(DIAG_INFO, "net", "m", diag_text("k", text), diag_number("gone", 1));
    log_line_set_format(LOG_LOGFMT);

#define JSON_AT "{\"time\":\"2026-10-20T07:43:00.123Z\",\"level\":\"info\","
    file = open_caught(c);
    assert_non_null(fgets(want, sizeof(want), file));
    assert_string_equal(want,
                        JSON_AT "\"part\":\"log\",\"msg\":\"a list is filed\","
                                "\"set\":\"demo\",\"list\":"
                                "18446744073709551615,\"empty\":\"\"}\n");
    assert_non_null(fgets(want, sizeof(want), file));
    assert_string_equal(want, JSON_AT "\"part\":\"net\",\"msg\":\"a\\nb\\\""
                                      "\xef\xbf\xbd\"}\n");
    assert_non_null(fgets(want, sizeof(want), file));
    assert_string_equal(want, JSON_AT
                        "\"part\":\"net\",\"msg\":\"m\",\"k\":\"\\\" \\\\ "
                        "\\u001b[2J\\u007f \\u009b \\u202e "
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "
                        "{},:\\u0009\xf0\x9f\x98\x80\"}\n");
    assert_non_null(fgets(cut, sizeof(cut), file));
    assert_in_range(strlen(cut), DIAG_LINE_MAX - 50, DIAG_LINE_MAX);
    assert_string_equal(cut + strlen(cut) - 8, "\\\"...\"}\n");
    fclose(file);
}

TEST(lines_of_a_request_name_it)
{
    diag_begin_request(SLICE("ab-1"));
    diag(DIAG_INFO, "net", "one");
    diag_end_request();
    diag(DIAG_INFO, "net", "two");

    assert_caught(state, AT "level=info part=net msg=\"one\" request=ab-1\n" AT
                            "level=info part=net msg=\"two\"\n");
}

TEST(lines_above_the_level_are_not_written)
{
    diag(DIAG_DEBUG, "net", "unseen");
    diag_set_level(DIAG_ERROR);
    diag(DIAG_WARNING, "net", "unseen");
    DIAG(DIAG_WARNING, "net", "unseen", diag_number("n", 1));
    diag_set_level(DIAG_DEBUG);
    diag(DIAG_DEBUG, "net", "seen");

    assert_caught(state, AT "level=debug part=net msg=\"seen\"\n");
}

/* Hostile text cannot end a line, begin a key, command the terminal or reverse
 * the text. */
TEST(hostile_bytes_stay_within_their_value)
{
    static const struct {
        const char *bytes, *written;
    } values[] = {
        {"plain/1.0", "plain/1.0"},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"\" level=info", "\"\\\" level=info\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"a\nb\r\tc", "\"a\\nb\\u000d\\u0009c\""},
        {"\x1b[2J\x7f", "\"\\u001b[2J\\u007f\""},
        {"\xc2\x9b", "\"\\u009b\""},
        {"caf\xc3\xa9", "\"caf\xc3\xa9\""},
        {"\xff\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x80\xa8\xe2\x80\xae", "\"\\u2028\\u202e\""},
    };

    char want[4096] = "";

    diag_set_level(DIAG_DEBUG); /* nothing is left out */
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        size_t size = strlen(want);

        DIAG(DIAG_INFO, "net", "m", diag_text("k", values[i].bytes),
             diag_number("n", i));
        snprintf(want + size, sizeof(want) - size,
                 AT "level=info part=net msg=\"m\" k=%s n=%zu\n",
                 values[i].written, i);
    }
    diag(DIAG_INFO, "net", "%s", "a\nb\"");
    strcat(want, AT "level=info part=net msg=\"a\\nb\\\"\"\n");

    assert_caught(state, want);
}

TEST(a_long_line_is_cut_at_a_whole_character)
{
    static const char head[] = AT "level=info part=net msg=\"";
    static const char *const tails[] = {"\xe2\x82\xac...\"\n", "\\n...\"\n"};
    struct caught *c = *state;
    char text[6001];
    char lines[5][DIAG_LINE_MAX + 100];
    FILE *file;

    for (size_t i = 0; i < sizeof(text) - 1; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    text[sizeof(text) - 1] = '\0';

    /* Three, so that the limit falls on each byte of a character. */
    diag_set_level(DIAG_DEBUG);
    diag(DIAG_INFO, "net", "%s", text);
    diag(DIAG_INFO, "net", "x%s", text);
    diag(DIAG_INFO, "net", "xx%s", text);
    DIAG(DIAG_INFO, "net", "m", diag_text("k", text), diag_number("gone", 1));
    memset(text, '\n', sizeof(text) - 1);
    DIAG(DIAG_INFO, "net", "m", diag_text("k", text), diag_number("gone", 1));

    file = open_caught(c);
    for (int i = 0; i < 5; i++) {
        assert_non_null(fgets(lines[i], sizeof(lines[i]), file));
        assert_in_range(strlen(lines[i]), DIAG_LINE_MAX - 50, DIAG_LINE_MAX);
        assert_string_equal(lines[i] + strlen(lines[i]) - strlen(tails[i / 4]),
                            tails[i / 4]);
        assert_memory_equal(lines[i], head, sizeof(head) - 1);
    }
    fclose(file);
}

/* Of a place, DIAG_BURST lines a minute; the others are counted. */

/* Time passes, and the lines are still of that moment. */
static void
pass(int64_t us)
{
    clock_pass_us(us);
    clock_set_us(-us);
}

static void
complain(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        DIAG(DIAG_WARNING, "net", "again", diag_number("n", i));
}

TEST(a_flood_is_counted_and_not_written)
{
    char want[4096] = "";

    complain(DIAG_BURST + 5);
    diag(DIAG_WARNING, "net", "of another place");
    pass(59999999);
    complain(1);
    pass(1); /* a minute after the first */
    complain(2);
    complain(DIAG_BURST);
    diag_end();
    diag_end();

    for (unsigned i = 0; i < DIAG_BURST; i++)
        sprintf(want + strlen(want),
                AT "level=warning part=net msg=\"again\" n=%u\n", i);
    strcat(want, AT "level=warning part=net msg=\"of another place\"\n");
    strcat(want, AT "level=warning part=net msg=\"again\" n=0 suppressed=6\n");
    strcat(want, AT "level=warning part=net msg=\"again\" n=1\n");
    for (unsigned i = 0; i < DIAG_BURST - 2; i++)
        sprintf(want + strlen(want),
                AT "level=warning part=net msg=\"again\" n=%u\n", i);
    strcat(want, AT "level=warning part=net msg=\"lines were left out\" "
                    "of=again suppressed=2\n");
    assert_caught(state, want);
}

TEST(at_debug_nothing_is_left_out)
{
    char want[4096] = "";

    diag_set_level(DIAG_DEBUG);
    for (unsigned i = 0; i < 3 * DIAG_BURST; i++) {
        diag(DIAG_INFO, "net", "all");
        strcat(want, AT "level=info part=net msg=\"all\"\n");
    }

    assert_caught(state, want);
}

/* All lines of a reload are, too. */
TEST(of_a_report_nothing_is_left_out)
{
    char want[8000] = "";

    for (unsigned i = 0; i < 3 * DIAG_BURST; i++) {
        DIAG_REPORT(DIAG_INFO, "net", "one more", diag_number("n", i));
        sprintf(want + strlen(want),
                AT "level=info part=net msg=\"one more\" n=%u\n", i);
    }
    diag_report(DIAG_DEBUG, "net", "too loud", NULL);
    diag_report(DIAG_INFO, "net", "all", NULL);
    strcat(want, AT "level=info part=net msg=\"all\"\n");

    assert_caught(state, want);
}

TEST(errno_is_what_it_was)
{
    close(STDERR_FILENO);
    errno = ENOSPC;
    diag(DIAG_INFO, "net", "nobody reads this");

    assert_int_equal(errno, ENOSPC);
}

static void *
write_lines(void *user)
{
    for (int i = 0; i < 100; i++)
        diag(DIAG_INFO, user, "%s", "------------------------------");
    return NULL;
}

TEST(lines_of_several_threads_do_not_mix)
{
    static char areas[4][2] = {"a", "b", "c", "d"};
    struct caught *c = *state;
    pthread_t threads[4];
    char line[100];
    int n = 0;
    FILE *file;

    diag_set_level(DIAG_DEBUG); /* nothing is left out */
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, write_lines, areas[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    file = open_caught(c);
    for (; fgets(line, sizeof(line), file); n++) {
        assert_memory_equal(line, AT "level=info part=", strlen(AT) + 16);
        assert_string_equal(line + strlen(AT) + 17,
                            " msg=\"------------------------------\"\n");
    }
    fclose(file);
    assert_int_equal(n, 400);
}

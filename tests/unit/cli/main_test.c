/*
 * main_test.c - the command line of `tidings`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/places.h"
#include "tests/support/command.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

/* Runs it to its end and returns its exit status. */
static int
run(struct command *c, const char *const *argv)
{
    command_start(c, argv);
    return command_end(c);
}

#define RUN(c, ...) run(c, (const char *const[]){TIDINGS, __VA_ARGS__, NULL})

static int
set_stage(void **state)
{
    *state = malloc(sizeof(struct command));
    return *state ? 0 : -1;
}

static int
clear_stage(void **state)
{
    free(*state);
    return 0;
}

FIXTURE(set_stage, clear_stage);

/* Design section 4: tidings --version. */
TEST(tells_its_version)
{
    struct command *c = *state;

    assert_int_equal(RUN(c, "--version"), 0);
    assert_string_equal(c->out_text, "tidings " TIDINGS_VERSION "\n");
}

/* Each command and its operands. */
static const char *const commands[][2] = {
    {"publish", "SET-URL [FILE|-|LOC]... [OPTION]..."},
    {"follow", "SET-URL|SOURCE-URL"},
    {"sync", "SET-URL|SOURCE-URL DIR"},
    {"audit", "[SET-URL|SOURCE-URL] DIR"},
    {"verify", "SET-URL|SOURCE-URL|DIR"},
    {"harvest", "SET-URL|SOURCE-URL... SET-URL"},
    {"watch", "DIR SET-URL --base-uri URI/ [OPTION]..."},
    {"get", "SET-URL|SOURCE-URL"},
    {"tail", "SET-URL"},
    {"status", "BROKER-URL|SET-URL|DIR"},
    {"healthy", "BROKER-URL"},
    {"doctor", ""},
    {"set list", "BROKER-URL"},
    {"set create", "SET-URL"},
    {"set change", "SET-URL"},
    {"set show", "SET-URL"},
    {"set delete", "SET-URL"},
    {"set rotate", "SET-URL"},
    {"set build", "resourcelist|resourcedump SET-URL"},
    {"subscriptions list", "SET-URL"},
    {"subscriptions show", "SET-URL ID"},
    {"subscriptions add", "SET-URL CALLBACK"},
    {"subscriptions attempts", "SET-URL ID"},
    {"subscriptions test", "SET-URL ID"},
    {"subscriptions redeliver", "SET-URL ID"},
    {"subscriptions end", "SET-URL ID"},
    {"bridges", "BROKER-URL"},
    {"relays", "BROKER-URL"},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void
assert_fits(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");

        if (n > 80)
            fail_msg("longer than 80 columns: %.*s", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

/* Runs `tidings NAME --help`; a name has one word or two. */
static int
run_help(struct command *c, const char *name)
{
    const char *space = strchr(name, ' ');
    char first[40];

    if (!space)
        return RUN(c, name, "--help");
    snprintf(first, sizeof(first), "%.*s", (int)(space - name), name);
    return RUN(c, first, space + 1, "--help");
}

TEST(help_fits_on_a_terminal_of_80_columns)
{
    struct command *c = *state;

    assert_int_equal(RUN(c, "--help"), 0);
    assert_fits(c->out_text);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char usage[100];

        assert_int_equal(run_help(c, commands[i][0]), 0);
        assert_fits(c->out_text);
        snprintf(usage, sizeof(usage), "usage: tidings %s %s", commands[i][0],
                 commands[i][1]);
        assert_memory_equal(c->out_text, usage, strlen(usage));
        /* The help explains exactly the arguments of the usage line. */
        assert_int_equal(strstr(commands[i][1], "SOURCE-URL") != NULL,
                         strstr(c->out_text, "\n  SOURCE-URL ") != NULL);
    }
}

/* only working features are advertised. */
TEST(helps_with_what_there_is)
{
    struct command *c = *state;

    assert_int_equal(RUN(c, "--help"), 0);
    assert_non_null(strstr(c->out_text, "3 gone (the\nset was removed"));
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char line[40];

        snprintf(line, sizeof(line), "\n  %-7s ", commands[i][0]);
        assert_non_null(strstr(c->out_text, line));
    }

    assert_int_equal(RUN(c, "publish", "--help"), 0);
    assert_non_null(strstr(c->out_text, "--media-type TYPE"));
    assert_int_equal(RUN(c, "follow", "--help"), 0);
    assert_non_null(strstr(c->out_text, "--from-start"));
    assert_int_equal(RUN(c, "watch", "--help"), 0);
    assert_non_null(strstr(c->out_text, "--exclude GLOB"));
    assert_int_equal(RUN(c, "get", "--help"), 0);
    assert_non_null(strstr(c->out_text, "--json"));
    assert_string_equal(c->err_text, "");
}

/* Design section 4: bad usage is 2, with one line on standard error. */
TEST(refuses_bad_usage)
{
    struct command *c = *state;
    static const char *const lines[][7] = {
        {TIDINGS, NULL},
        {TIDINGS, "sync", NULL},
        {TIDINGS, "--help", "more", NULL},
        {TIDINGS, "publish", NULL},
        {TIDINGS, "publish", "--speed", NULL},
        {TIDINGS, "publish", "--type", NULL},
        {TIDINGS, "publish", "http://example.com/sets/news", "a", "b", NULL},
        {TIDINGS, "publish", "http://example.com/sets/news", "--lastmod=x",
         NULL},
        {TIDINGS, "publish", "http://example.com/sets/news", "--change=moved",
         "http://example.com/a", NULL},
        {TIDINGS, "publish", "http://example.com/sets/news", "--change=created",
         NULL},
        {TIDINGS, "audit", NULL},
        {TIDINGS, "audit", "http://example.com/sets/news", NULL},
        {TIDINGS, "audit", "mirror", "http://example.com/sets/news", NULL},
        {TIDINGS, "audit", "http://example.com/sets/news", "a", "b", NULL},
        {TIDINGS, "audit", "mirror", "--max-delete=0", NULL},
        {TIDINGS, "audit", "mirror", "--header=Name: value", NULL},
        {TIDINGS, "sync", "http://example.com/sets/news", NULL},
        {TIDINGS, "sync", "http://example.com/", "mirror", "--poll=0", NULL},
        {TIDINGS, "publish", "http://example.com/sets/a",
         "--full=http://example.com/", NULL},
        {TIDINGS, "publish", "http://example.com/sets/a", "--full=x",
         "--every=10m", NULL},
        {TIDINGS, "verify", NULL},
        {TIDINGS, "relay", "http://example.com/", "http://example.com/sets/b",
         NULL},
        {TIDINGS, "harvest", "here", "http://example.com/sets/b", NULL},
        {TIDINGS, "harvest", "http://example.com/", NULL},
        {TIDINGS, "harvest", "http://example.com/", "http://example.com/",
         "http://example.com/sets/b", NULL},
        {TIDINGS, "harvest", "http://example.com/sets/b",
         "http://example.com/sets/b", NULL},
        {TIDINGS, "harvest", "http://example.com/", "http://example.com/sets/b",
         "--every=25h", NULL},
        {TIDINGS, "harvest", "http://example.com/", "http://example.com/sets/b",
         "--every=1e3", NULL},
        {TIDINGS, "harvest", "http://example.com/", "http://example.com/sets/b",
         "--compare=0", NULL},
        {TIDINGS, "harvest", "http://example.com/", "http://example.com/sets/b",
         "--max-delete=0", NULL},
        {TIDINGS, "harvest", "http://example.com/", "http://example.com/sets/b",
         "--accept-deletions=x", NULL},
        {TIDINGS, "harvest", "http://example.com/", "http://example.com/sets/b",
         "--state=", NULL},
        {TIDINGS, "follow", "http://example.com/sets/news",
         "--callback-url=http://example.com/", NULL},
        {TIDINGS, "get", NULL},
        {TIDINGS, "status", NULL},
        {TIDINGS, "status", "here", "--plot", NULL},
        {TIDINGS, "set", "list", "here", NULL},
        {TIDINGS, "set", "list", "http://example.com/?a", NULL},
        {TIDINGS, "set", "build", "list", "http://example.com/sets/a", NULL},
        {TIDINGS, "subscriptions", "show", "http://example.com/sets/a", "../b",
         NULL},
        {TIDINGS, "subscriptions", "redeliver", "http://example.com/sets/a",
         "1", NULL},
        {TIDINGS, "subscriptions", "add", "http://example.com/sets/a", NULL},
        {TIDINGS, "subscriptions", "add", "http://example.com/sets/a",
         "ftp://example.com/", NULL},
        {TIDINGS, "subscriptions", "end", "http://example.com/sets/a", "1",
         NULL},
        {TIDINGS, "tail", "http://example.com/sets/a", "--count=0", NULL},
        {TIDINGS, "tail", "http://example.com/sets/a", "--format=csv", NULL},
        {TIDINGS, "get", "here", NULL},
        {TIDINGS, "watch", "/tmp", NULL},
        {TIDINGS, "watch", "/tmp", "http://example.com/sets/news", NULL},
        {TIDINGS, "watch", "/", "http://example.com/sets/news",
         "--base-uri=data/", NULL},
        {TIDINGS, "follow", NULL},
        {TIDINGS, "follow", "here", NULL},
        {TIDINGS, "follow", "http://example.com/sets/news", "--count=0", NULL},
        {TIDINGS, "follow", "http://example.com/sets/news", "--count=-1", NULL},
        {TIDINGS, "follow", "http://example.com/sets/news", "--format=csv",
         NULL},
        {TIDINGS, "follow", "http://example.com/sets/news", "--after=x", NULL},
        {TIDINGS, "follow", "http://example.com/sets/news", "--after=0",
         "--from-start", NULL},
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        size_t size;

        if (run(c, lines[i]) != 2)
            fail_msg("line %zu is not refused", i);
        size = strlen(c->err_text);
        assert_memory_equal(c->err_text, "tidings", 7);
        assert_ptr_equal(strchr(c->err_text, '\n'), c->err_text + size - 1);
        assert_string_equal(c->out_text, "");
    }
}

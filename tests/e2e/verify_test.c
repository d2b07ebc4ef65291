/*
 * verify_test.c - tidings verify, against the real broker and against copies of
 * what it keeps.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tidings.h"
#include "tests/support/command.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

static struct command command;

static int
run(const char *const *argv)
{
    command_start(&command, argv);
    command_give(&command, "");
    return command_end(&command);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

/* What tidings verify says of the set, and how it ends. */
static int
verify_set(struct lists *l)
{
    char url[200];

    snprintf(url, sizeof(url), "%s/sets/%s", l->broker.url, LISTS_SET);
    return RUN(TIDINGS, "verify", url);
}

static void
assert_said(const char *part)
{
    if (!strstr(command.out_text, part))
        fail_msg("\"%s\" is not in \"%s\" (%s)", part, command.out_text,
                 command.err_text);
}

/* Copies the files of the closed lists to a directory below the broker's own.
 */
static void
copy_data(struct lists *l, char to[400])
{
    snprintf(to, 400, "%s/copy", l->broker.dir.path);
    assert_int_equal(RUN("/bin/cp", "-r", l->broker.data, to), 0);
}

FIXTURE(lists_setup, lists_teardown);

/* many rotations, an archive of several parts, an
 * index of few lists. */
TEST(proves_the_history_of_a_set)
{
    struct lists *l = *state;
    char url[200];

    LISTS_OPEN(l, "--rotate-entries", "7", "--index-lists", "4");
    source_post(&l->http, LISTS_SET, 1, 1, 0);
    assert_int_equal(verify_set(l), 0); /* the open list is all there is */
    assert_said(": proven from the beginning to entry 1 lists=1 ");
    source_post(&l->http, LISTS_SET, 2, 6, 0);
    assert_int_equal(verify_set(l), 0);
    assert_said(" to entry 7 lists=2 ");

    for (unsigned i = 8; i < 500; i += 41)
        source_post(&l->http, LISTS_SET, i, 41, 0);
    assert_int_equal(verify_set(l), 0);
    assert_said(": proven from the beginning to entry 499 lists=72 position=");

    snprintf(url, sizeof(url), "%s/sets/%s", l->broker.url, LISTS_SET);
    assert_int_equal(RUN(TIDINGS, "verify", url, "--json", "--verbose"), 0);
    assert_said(
        "/changes/000000000072.xml\",\"last\":499,\"digest\":\"sha-256:");
    assert_said("\"proven\":true,\"first\":1,\"last\":499,\"lists\":72,"
                "\"fromStart\":true,\"position\":\"");
}

/* retention took the oldest lists. */
TEST(proves_what_is_retained)
{
    struct lists *l = *state;

    struct patience p = {.with = "a proof from what is retained on"};

    LISTS_OPEN(l, "--rotate-entries", "10", "--index-lists", "3",
               "--retain-lists", "5");
    for (unsigned i = 0; i < 20; i++)
        source_post(&l->http, LISTS_SET, i * 10 + 1, 10, 0);
    source_post(&l->http, LISTS_SET, 201, 3, 0);
    while (verify_set(l) == 0 &&
           !strstr(command.out_text, ": proven from entry 151 on to entry 203 "
                                     "lists=6 "))
        patience_step(&p);
    assert_string_equal(command.err_text, "");
}

/* While lists are closed all the time, what is read is whole. */
TEST(proves_a_set_that_grows)
{
    struct lists *l = *state;
    char url[200];

    LISTS_OPEN(l, "--rotate-entries", "3", "--index-lists", "2");
    snprintf(url, sizeof(url), "%s/sets/%s", l->broker.url, LISTS_SET);
    source_post(&l->http, LISTS_SET, 1, 50, 0);
    for (unsigned i = 0; i < 20; i++) {
        const char *argv[] = {TIDINGS, "verify", url, NULL};

        command_start(&command, argv);
        for (unsigned k = 0; k < 10; k++)
            source_post(&l->http, LISTS_SET, 51 + i * 50 + k * 5, 5, 0);
        command_give(&command, "");
        assert_int_equal(command_end(&command), 0);
        assert_said(": proven from the beginning to entry ");
    }
}

/* The data directory, copied, is proven offline; and after damage it is not. */
TEST(proves_a_copy_of_the_data_directory)
{
    struct lists *l = *state;
    char copy[400], path[600], line[700];

    LISTS_OPEN(l, "--rotate-entries", "10");
    for (unsigned i = 0; i < 10; i++)
        source_post(&l->http, LISTS_SET, i * 10 + 1, 10, 0);
    lists_await_file(l, 10);
    broker_stop(&l->broker);
    copy_data(l, copy);

    assert_int_equal(RUN(TIDINGS, "verify", copy), 0);
    assert_said("/sets/news/changes: proven from the beginning to entry 100 "
                "lists=10 ");

    snprintf(path, sizeof(path), "%s/sets/news/changes/000000000004.xml.gz",
             copy);
    snprintf(line, sizeof(line), "%s.gone", path);
    assert_int_equal(rename(path, line), 0);
    assert_int_equal(RUN(TIDINGS, "verify", copy), 1);
    assert_said("breaks after entry 30: ");
    assert_said("000000000005.xml.gz: entries 31 to 40 are missing");
    assert_said(": proven from the beginning to entry 30 lists=3 ");

    assert_int_equal(rename(line, path), 0);
    snprintf(line, sizeof(line), "%s/sets/news/changes", copy);
    assert_int_equal(RUN(TIDINGS, "verify", line, "--json"), 0);
    assert_int_equal(
        RUN("/bin/sh", "-c",
            "f=\"$0\"; gunzip <\"$f\" >\"$f.x\" && "
            "sed 's|/r/35<|/r/53<|' <\"$f.x\" | gzip >\"$f\" && rm \"$f.x\"",
            path),
        0);
    assert_int_equal(RUN(TIDINGS, "verify", line, "--json"), 1);
    assert_said("\"proven\":false,\"first\":1,\"last\":30,\"lists\":3");
    assert_said("\"broken\":{\"in\":\"");
    assert_said("an entry from 31 to 40 was altered");
}

/* A broker whose files were altered behind its back is found out. */
TEST(finds_out_a_broker_whose_files_were_altered)
{
    struct lists *l = *state;
    char path[600];

    LISTS_OPEN(l, "--rotate-entries", "10");
    for (unsigned i = 0; i < 10; i++)
        source_post(&l->http, LISTS_SET, i * 10 + 1, 10, 0);
    lists_await_file(l, 10);
    assert_int_equal(verify_set(l), 0);
    broker_stop(&l->broker);
    snprintf(path, sizeof(path), "%s/sets/news/changes/000000000004.xml.gz",
             l->broker.data);
    assert_int_equal(
        RUN("/bin/sh", "-c",
            "f=\"$0\"; gunzip <\"$f\" >\"$f.x\" && "
            "sed 's|/r/35<|/r/53<|' <\"$f.x\" | gzip >\"$f\" && rm \"$f.x\"",
            path),
        0);
    broker_restart(&l->broker);

    assert_int_equal(verify_set(l), 1);
    assert_said("breaks after entry ");
    assert_said("000000000004.xml: ");
    assert_said(": proven from the beginning to entry 30 lists=3 ");
}

/* A data directory with two sets, under a name so long that a line for each
 * list of one is more than a pipe and stdio's buffer hold. */
static void
make_two_sets(struct lists *l, char to[2500])
{
    int n = snprintf(to, 2500, "%s", l->broker.dir.path);

    for (int i = 0; i < 8; i++)
        n += snprintf(to + n, 2500 - (size_t)n, "/%0250d", i);
    assert_int_equal(RUN("/bin/sh", "-c",
                         "mkdir -p \"$1/sets/a\" && "
                         "cp -r \"$0/sets/news/changes\" \"$1/sets/a\" && "
                         "cp -r \"$1/sets/a\" \"$1/sets/b\"",
                         l->broker.data, to),
                     0);
}

TEST(one_signal_ends_it_for_all_sets)
{
    struct lists *l = *state;
    static char text[400000];
    char data[2500];
    size_t size = 0;
    ssize_t n = 0;

    LISTS_OPEN(l, "--rotate-entries", "10");
    for (unsigned i = 0; i < 50; i++)
        source_post(&l->http, LISTS_SET, i * 10 + 1, 10, 0);
    lists_await_file(l, 50);
    broker_stop(&l->broker);
    make_two_sets(l, data);
    command_start(&command, (const char *const[]){TIDINGS, "verify", data,
                                                  "--verbose", NULL});

    /* Its first line is read: there is no room yet for all of the first set. */
    while (!memchr(text, '\n', size)) {
        n = read(command.out, text + size, 3000);
        assert_true(n > 0);
        size += (size_t)n;
    }
    assert_int_equal(kill(command.pid, SIGTERM), 0);
    while ((n = read(command.out, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;

    assert_int_equal(command_end(&command), 1);
    assert_non_null(strstr(text, "/sets/a/changes/"));
    assert_null(strstr(text, "/sets/b/changes"));
    assert_non_null(strstr(command.err_text, "stopped"));
}

/* What cannot be looked at is not proven. */
TEST(a_set_that_cannot_be_read_is_told)
{
    struct lists *l = *state;
    char copy[400], loop[500];

    LISTS_OPEN(l, "--rotate-entries", "10");
    source_post(&l->http, LISTS_SET, 1, 10, 0);
    lists_await_file(l, 1);
    broker_stop(&l->broker);
    copy_data(l, copy);
    assert_int_equal(RUN(TIDINGS, "verify", copy), 0);

    snprintf(loop, sizeof(loop), "%s/sets/loop", copy);
    assert_int_equal(symlink("loop", loop), 0);
    assert_int_equal(RUN(TIDINGS, "verify", copy), 1);
    assert_said("/sets/news/changes: proven from the beginning to entry 10 ");
    assert_non_null(strstr(command.err_text, "/sets/loop/changes"));

    assert_int_equal(RUN("/bin/sh", "-c",
                         "mv \"$0/sets\" \"$0/old\" && ln -s sets \"$0/sets\"",
                         copy),
                     0);
    assert_int_equal(RUN(TIDINGS, "verify", copy), 1);
    assert_string_equal(command.out_text, "");
    assert_non_null(strstr(command.err_text, "/sets: "));
}

TEST(tells_bad_usage_and_what_is_not_there)
{
    struct lists *l = *state;
    char url[200];

    LISTS_OPEN(l, "--rotate-entries", "10");
    snprintf(url, sizeof(url), "%s/sets/none", l->broker.url);
    assert_int_equal(RUN(TIDINGS, "verify"), 2);
    assert_int_equal(RUN(TIDINGS, "verify", url, url), 2);
    assert_int_equal(RUN(TIDINGS, "verify", "--other", url), 2);
    assert_int_equal(RUN(TIDINGS, "verify", url), 1);
    assert_non_null(strstr(command.err_text, "404"));
    assert_int_equal(RUN(TIDINGS, "verify", "/nowhere"), 1);
    assert_non_null(strstr(command.err_text, "/nowhere"));
}

/*
 * readme_test.c - the tour of README.md, command by command, as a reader types
 * it, beside an MQTT broker, with the configuration that it names; and the
 * options that README.md and doc/ name.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/bridge_stage.h"
#include "tests/support/patience.h"
#include "tests/support/shell.h"
#include "tests/test.h"

#define COMMAND  "    $ "
#define HOST     "http://127.0.0.1:8787"
#define PROGRAMS "build/release/bin"
#define MQTT     "mqtt://127.0.0.1:1883" /* in doc/mqtt.ini */
#define PORT     "-p 1883"
#define MIRROR   "./mirror"

/* Copies `line` to `to`, every `word` replaced. */
static void
replace(char *to, size_t size, const char *line, const char *word,
        const char *with)
{
    const char *at;
    size_t n = 0;

    for (; (at = strstr(line, word)); line = at + strlen(word))
        n += (size_t)snprintf(to + n, size - n, "%.*s%s", (int)(at - line),
                              line, with);
    assert_true(n < size);
    snprintf(to + n, size - n, "%s", line);
}

/* How many lines a command says; 0 also where it fails. */
static size_t
n_said(const char *command)
{
    char line[4096];
    size_t n = 0;
    FILE *out = popen(command, "r");

    assert_non_null(out);
    while (fgets(line, sizeof(line), out)) {
        if (strstr(line, "about:blank")) /* a problem+json */
            fail_msg("%s: %s", command, line);
        n++;
    }
    return pclose(out) == 0 ? n : 0;
}

/* Runs it at the top of the checkout; its output is not empty. What listens for
 * a second may have to do so several times. */
static void
run(const struct bridge_stage *s, const char *command)
{
    char local[2048], here[2048], line[4096], port[20], mirror[300];
    struct patience p = {.with = command};

    snprintf(port, sizeof(port), "-p %u", s->mqtt.port);
    snprintf(mirror, sizeof(mirror), "'%s/mirror'", s->broker.dir.path);
    replace(here, sizeof(here), command, MIRROR, mirror);
    replace(line, sizeof(local), here, PORT, port);
    replace(local, sizeof(local), line, HOST, s->broker.url);
    replace(here, sizeof(here), local, PROGRAMS, BIN_DIR);
    snprintf(line, sizeof(line), "cd '%s/../..' && %s", SPEC_DIR, here);
    while (n_said(line) == 0) {
        if (!strstr(here, "--max-time"))
            fail_msg("%s: failed, or said nothing", here);
        patience_step(&p);
    }
}

/* doc/mqtt.ini, with the MQTT broker that there is. */
static void
configure(struct bridge_stage *s)
{
    FILE *example = fopen(SPEC_DIR "/../../doc/mqtt.ini", "re");
    char line[300], here[300], all[4096] = "";

    assert_non_null(example);
    while (fgets(line, sizeof(line), example)) {
        replace(here, sizeof(here), line, MQTT, s->mqtt.url);
        assert_true(strlen(all) + strlen(here) < sizeof(all));
        strcat(all, here);
    }
    fclose(example);
    bridge_stage_config(s, "%s", all);
}

TEST(every_command_of_the_tour_works_as_it_stands, NULL, bridge_stage_teardown)
{
    /* It says what is subscribed to. */
    struct bridge_stage *s = bridge_stage_begin(
        state, &(struct mosquittod_wish){.more = "log_type all\n"});
    char line[2048];
    FILE *readme = fopen(SPEC_DIR "/../../README.md", "r");
    unsigned n = 0;

    assert_non_null(readme);
    configure(s);
    BRIDGE_STAGE_START(s, "--threads", "1");
    bridge_stage_await_text(s, "bridges.0.in.state", "connected");
    mosquittod_await_said(&s->mqtt, "Sending SUBACK");
    while (fgets(line, sizeof(line), readme)) {
        if (strncmp(line, COMMAND, strlen(COMMAND)))
            continue;
        line[strcspn(line, "\n")] = '\0';
        run(s, line + strlen(COMMAND));
        n++;
    }
    assert_true(n >= 9);
    fclose(readme);
    bridge_stage_end(s);
}

/* Checks each --option of a command line that begins at `line`. */
static unsigned
check_options(const char *file, const char *line)
{
    const char *at = strstr(line, "tidings ") + strlen("tidings ");
    int n_name = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz");
    char option[64];
    unsigned n = 0;
    char *help;

    help = shell(BIN_DIR "/tidings %.*s --help", n_name, at);
    while ((at = strstr(at, " --"))) {
        size_t size = 2 + strspn(++at + 2, "abcdefghijklmnopqrstuvwxyz-");

        if (size == 2) /* an arrow in a picture */
            continue;
        /* As --help has it, not only as the beginning of another. */
        snprintf(option, sizeof(option), "  %.*s ", (int)size, at);
        if (!strstr(help, option))
            fail_msg("%s: %.*s is none of: %s", file, (int)size, at, line);
        at += size;
        n++;
    }
    free(help);
    return n;
}

/* All lines "    tidings COMMAND ..." and "    $ .../tidings COMMAND ...". */
static unsigned
check_file(const char *name)
{
    FILE *file = fopen(name, "re");
    char line[2048];
    unsigned n = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (!strncmp(line, "    tidings ", 12) ||
            !strncmp(line, COMMAND PROGRAMS "/tidings ",
                     strlen(COMMAND PROGRAMS "/tidings ")))
            n += check_options(name, line);
    fclose(file);
    return n;
}

TEST(names_only_options_that_there_are)
{
    glob_t docs;
    unsigned n = check_file(SPEC_DIR "/../../README.md");

    assert_int_equal(glob(SPEC_DIR "/../../doc/*.md", 0, NULL, &docs), 0);
    for (size_t i = 0; i < docs.gl_pathc; i++)
        n += check_file(docs.gl_pathv[i]);
    globfree(&docs);
    assert_true(n >= 20);
}

/*
 * readme_test.c - the tour of README.md, command by command, as a reader types
 * it, beside an MQTT broker, with the configuration that it names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/bridge_stage.h"

#define COMMAND  "    $ "
#define HOST     "http://127.0.0.1:8787"
#define PROGRAMS "build/release/bin"
#define MQTT     "mqtt://127.0.0.1:1883" /* in doc/mqtt.ini */
#define PORT     "-p 1883"

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

/* Runs it at the top of the checkout; its output is not empty. */
static void
run(const struct bridge_stage *s, const char *command)
{
    char local[2048], here[2048], line[4096], port[20];
    size_t n = 0;
    FILE *out;

    snprintf(port, sizeof(port), "-p %u", s->mqtt.port);
    replace(line, sizeof(local), command, PORT, port);
    replace(local, sizeof(local), line, HOST, s->broker.url);
    replace(here, sizeof(here), local, PROGRAMS, BIN_DIR);
    snprintf(line, sizeof(line), "cd '%s/../..' && %s", SPEC_DIR, here);
    out = popen(line, "r");
    assert_non_null(out);
    while (fgets(line, sizeof(line), out)) {
        if (strstr(line, "about:blank")) /* a problem+json */
            fail_msg("%s: %s", here, line);
        n++;
    }
    if (pclose(out) != 0 || n == 0)
        fail_msg("%s: failed, or said nothing", here);
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

static void
every_command_of_the_tour_works_as_it_stands(void **state)
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_command_of_the_tour_works_as_it_stands,
                                  bridge_stage_teardown),
    };

    return cmocka_run_group_tests_name("readme", tests, NULL, NULL);
}

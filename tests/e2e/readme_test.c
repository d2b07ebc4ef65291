/*
 * readme_test.c - the tour of README.md, command by command, as a reader types
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/broker.h"

#define COMMAND  "    $ "
#define HOST     "http://127.0.0.1:8787"
#define PROGRAMS "build/release/bin"

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
run(const char *command, const char *url)
{
    char local[2048], here[2048], line[4096];
    size_t n = 0;
    FILE *out;

    replace(local, sizeof(local), command, HOST, url);
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

static void
every_command_of_the_tour_works_as_it_stands(void **state)
{
    struct broker broker;
    char line[2048];
    FILE *readme = fopen(SPEC_DIR "/../../README.md", "r");
    unsigned n = 0;

    (void)state;
    assert_non_null(readme);
    broker_open(&broker, NULL);
    while (fgets(line, sizeof(line), readme)) {
        if (strncmp(line, COMMAND, strlen(COMMAND)))
            continue;
        line[strcspn(line, "\n")] = '\0';
        run(line + strlen(COMMAND), broker.url);
        n++;
    }
    assert_true(n >= 9);
    fclose(readme);
    broker_close(&broker);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_of_the_tour_works_as_it_stands),
    };

    return cmocka_run_group_tests_name("readme", tests, NULL, NULL);
}

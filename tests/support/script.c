#include "tests/support/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static char step[1024]; /* that runs; "": none */

char *
script_word(char **rest)
{
    char *word = *rest + strspn(*rest, " ");

    *rest = word + strcspn(word, " ");
    if (**rest)
        *(*rest)++ = '\0';
    return word;
}

unsigned long
script_number(char **rest)
{
    char *word = script_word(rest), *end;
    unsigned long number = strtoul(word, &end, 0);

    if (end == word || *end)
        fail_msg("\"%s\" is no number", word);
    return number;
}

static void
run_step(const struct script_verb *verbs, void *user)
{
    char copy[sizeof(step)], *rest = copy, *verb;

    snprintf(copy, sizeof(copy), "%s", step);
    verb = script_word(&rest);
    while (verbs->name && strcmp(verbs->name, verb) != 0)
        verbs++;
    if (!verbs->name)
        fail_msg("there is no verb \"%s\"", verb);
    verbs->run(user, rest);
}

void
script_run(const char *script, const struct script_verb *verbs, void *user)
{
    while (*script) {
        size_t size;

        script += strspn(script, "; ");
        size = strcspn(script, ";");
        assert_true(size < sizeof(step));
        snprintf(step, sizeof(step), "%.*s", (int)size, script);
        if (size)
            run_step(verbs, user);
        script += size;
    }
    step[0] = '\0';
}

void
script_finish(void)
{
    if (step[0])
        print_error("It failed at the step \"%s\".\n", step);
    step[0] = '\0';
}

void
script_expect(const char *seen, const char *wanted)
{
    if (strcmp(seen, wanted) != 0)
        fail_msg("\"%s\": it is \"%s\"", step, seen);
}

void
script_expect_in(const char *seen, const char *wanted)
{
    if (!strstr(seen, wanted))
        fail_msg("\"%s\": it is \"%s\"", step, seen);
}

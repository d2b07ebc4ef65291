#include "tests/support/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static char now[1024]; /* the step that runs; "": none */

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

void
script_run(const char *script, script_step_fn *step, void *user)
{
    char copy[sizeof(now)], *rest, *verb;

    for (;; script += strlen(now)) {
        script += strspn(script, "; ");
        if (!*script)
            break;
        assert_true(strcspn(script, ";") < sizeof(now));
        snprintf(now, sizeof(now), "%.*s", (int)strcspn(script, ";"), script);
        rest = strcpy(copy, now);
        verb = script_word(&rest);
        if (!step(user, verb, rest))
            fail_msg("there is no verb \"%s\"", verb);
    }
    now[0] = '\0';
}

void
script_finish(void)
{
    if (now[0])
        print_error("It failed at the step \"%s\".\n", now);
    now[0] = '\0';
}

void
script_expect(const char *seen, const char *wanted)
{
    if (strcmp(seen, wanted) != 0)
        fail_msg("\"%s\": it is \"%s\"", now, seen);
}

void
script_expect_number(unsigned long seen, unsigned long wanted)
{
    if (seen != wanted)
        fail_msg("\"%s\": it is %lu", now, seen);
}

void
script_expect_in(const char *seen, const char *wanted)
{
    if (!strstr(seen, wanted))
        fail_msg("\"%s\": it is \"%s\"", now, seen);
}

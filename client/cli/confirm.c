/*
 * confirm.c - asks the user before something is lost.
 */
#include "client/cli/confirm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum exit_code
confirm_can_ask(const char *what)
{
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        return EXIT_GOOD;
    return bad_usage("%s: give --yes, or let it ask on a terminal", what);
}

enum exit_code
confirm(const char *done, const char *question, ...)
{
    char answer[16] = "";
    va_list rest;

    va_start(rest, question);
    vfprintf(stderr, question, rest);
    va_end(rest);
    fputs("? Type yes: ", stderr);
    fflush(stderr);
    if (fgets(answer, sizeof(answer), stdin) && !strcmp(answer, "yes\n"))
        return EXIT_GOOD;
    return failed("nothing was %s", done);
}

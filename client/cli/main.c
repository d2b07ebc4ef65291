/*
 * main.c - the program `tidings`: its commands, options and help.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"

#define OPTIONS_MAX 16

static const struct command *const commands[] = {
    &publish_command, &follow_command, &set_command,
    &watch_command,   &get_command,
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char exit_help[] =
    "Exit status: 0 done, 1 failed (refused, unreachable), 2 bad usage,\n"
    "3 the position is gone (of another epoch, or no longer retained).\n";

static void
vsay(const char *format, va_list args)
{
    fputs("tidings: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void
say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsay(format, args);
    va_end(args);
}

enum exit_code
bad_usage(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsay(format, args);
    va_end(args);
    return EXIT_USAGE;
}

void
put_json_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(to, "\\u%04x", *text);
        else
            fputc(*text, to);
    fputc('"', to);
}

void
print_plain(const char *text)
{
    for (; text && *text; text++)
        putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

void
print_receipt(const struct td_receipt *receipt)
{
    printf("first=%llu last=%llu position=%s datetime=%s\n",
           (unsigned long long)receipt->first,
           (unsigned long long)receipt->last, receipt->position,
           receipt->datetime);
}

enum exit_code
exit_of(const struct td_client *client, enum td_status rc)
{
    if (rc == TD_OK || rc == TD_STOPPED)
        return EXIT_GOOD;
    say("%s", td_problem(client));
    if (rc == TD_GONE)
        return EXIT_GONE;
    return rc == TD_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

static void
help_all(void)
{
    puts("usage: tidings COMMAND ...\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  tidings %s %s\n      %s\n", commands[i]->name,
               commands[i]->operands, commands[i]->help);
    puts("\n  tidings COMMAND --help, tidings --help, tidings --version\n\n"
         "SET-URL is http(s)://host:port/sets/NAME.");
    fputs(exit_help, stdout);
}

static void
help_command(const struct command *command)
{
    printf("usage: tidings %s %s\n\n%s\n\n", command->name, command->operands,
           command->help);
    for (const struct option_row *o = command->options; o->name; o++) {
        char left[40];

        snprintf(left, sizeof(left), "--%s %s", o->name,
                 o->argument ? o->argument : "");
        printf("  %-24s %s\n", left, o->help);
    }
    printf("  %-24s %s\n", "--cacert FILE",
           "trust these certificates as well, PEM; also CURL_CA_BUNDLE=FILE");
    printf("  %-24s %s\n\n", "--help", "print this");
    if (command->more)
        printf("%s\n", command->more);
    fputs(exit_help, stdout);
}

/* An option that ends it: unknown ('?'), without its value (':'), or --help. */
static enum exit_code
no_run(const struct command *command, int chosen, const char *option)
{
    if (chosen == ':')
        return bad_usage("%s needs a value", option);
    if (chosen == '?')
        return bad_usage("no such option: %s; see tidings %s --help", option,
                         command->name);
    help_command(command);
    return EXIT_GOOD;
}

/* Runs a command with what follows its name. */
static enum exit_code
run(const struct command *command, int argc, char **argv)
{
    struct option longs[OPTIONS_MAX + 3] = {{0}};
    const char *given[OPTIONS_MAX] = {NULL};
    struct given *in_order = calloc((size_t)argc, sizeof(in_order[0]));
    struct arguments arguments = {.options = given, .given = in_order};
    enum exit_code code;
    int n = 0;
    int chosen;

    if (!in_order) {
        say("no memory");
        return EXIT_FAILED;
    }
    for (; command->options[n].name && n < OPTIONS_MAX; n++)
        longs[n] =
            (struct option){command->options[n].name,
                            command->options[n].argument != NULL, NULL, n};
    longs[n] = (struct option){"help", no_argument, NULL, n};
    longs[n + 1] = (struct option){"cacert", required_argument, NULL, n + 1};

    opterr = 0;
    while ((chosen = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (chosen == ':' || chosen == '?' || chosen == n) {
            free(in_order);
            return no_run(command, chosen, argv[optind - 1]);
        }
        if (chosen > n) { /* the library looks there */
            setenv("CURL_CA_BUNDLE", optarg, 1);
            continue;
        }
        given[chosen] = optarg ? optarg : "";
        in_order[arguments.n_given++] = (struct given){chosen, given[chosen]};
    }
    arguments.n_operands = argc - optind;
    arguments.operands = argv + optind;
    code = command->run(&arguments);
    free(in_order);
    return code;
}

int
main(int argc, char **argv)
{
    enum exit_code code = EXIT_USAGE;
    const char *name = argc > 1 ? argv[1] : "--help";
    size_t i = 0;

    while (i < N_COMMANDS && strcmp(commands[i]->name, name))
        i++;
    if (i < N_COMMANDS)
        code = run(commands[i], argc - 1, argv + 1);
    else if (argc == 2 && !strcmp(name, "--version"))
        code = puts("tidings " TIDINGS_VERSION) < 0 ? EXIT_FAILED : EXIT_GOOD;
    else if (argc == 2 && !strcmp(name, "--help")) {
        help_all();
        code = EXIT_GOOD;
    } else if (argc < 2)
        bad_usage("no command; see tidings --help");
    else
        bad_usage("no such command: %s; see tidings --help", name);

    if (fflush(stdout) && code == EXIT_GOOD) {
        say("cannot write to standard output");
        code = EXIT_FAILED;
    }
    return code;
}

/*
 * main.c - the program `tidings`: its commands, options and help.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"

#define OPTIONS_MAX 32
#define HELP_COLUMN 24

static const struct command *const commands[] = {
    &publish_command, &follow_command, &sync_command,  &audit_command,
    &verify_command,  &relay_command,  &watch_command, &get_command,
    &status_command,  &set_command,
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* All commands have these. */
static const struct option_row common_options[] = {
    {"allow-private", NULL,
     "let a source name addresses nearer to us than its own"},
    {"cert", "FILE", "our certificate for that server, PEM; or TIDINGS_CERT"},
    {"cert-key", "FILE", "its private key, if elsewhere; or TIDINGS_CERT_KEY"},
    {"cacert", "FILE", "trust these certificates, too; or CURL_CA_BUNDLE"},
    {"header", "LINE", "\"Name: value\" for the URL's server and no other"},
    {"token-file", "FILE", "bearer token for that server; see below"},
    {"help", NULL, "print this"},
    {NULL, NULL, NULL},
};

static const char set_help[] = "SET-URL is http(s)://host:port/sets/NAME.\n";

static const char source_help[] =
    "SET-URL is http(s)://host:port/sets/NAME; SOURCE-URL any document of a\n"
    "ResourceSync source.\n";

static const char token_help[] =
    "The token is the line in FILE or in the file that TIDINGS_TOKEN_FILE "
    "names, else\nthe value of TIDINGS_TOKEN. Over http it goes to this "
    "machine alone. FILE is for\nits owner alone (chmod 600), and is read "
    "again if the server refuses the token.\n";

static const char exit_help[] = "Exit status: 0 done, 1 failed (refused, "
                                "unreachable), 2 bad usage, 3 gone\n"
                                "(the set was removed; the position is of "
                                "another epoch, or not retained).\n";

static void
help_all(void)
{
    puts("usage: tidings COMMAND ...\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-7s  %s\n", commands[i]->name, commands[i]->help);
    puts("\n  tidings COMMAND --help, tidings --help, tidings --version\n");
    fputs(exit_help, stdout);
}

static void
help_options(const struct option_row *option)
{
    for (; option->name; option++) {
        char left[60];

        snprintf(left, sizeof(left), "--%s%s%s", option->name,
                 option->argument ? " " : "",
                 option->argument ? option->argument : "");
        if (strlen(left) > HELP_COLUMN)
            printf("  %s\n  %-*s %s\n", left, HELP_COLUMN, "", option->help);
        else
            printf("  %-*s %s\n", HELP_COLUMN, left, option->help);
    }
}

static void
help_command(const struct command *command)
{
    printf("usage: tidings %s %s\n\n%s\n\n", command->name, command->operands,
           command->help);
    help_options(command->options);
    help_options(common_options);
    putchar('\n');
    if (command->more)
        printf("%s\n", command->more);
    fputs(strstr(command->operands, "SOURCE-URL") ? source_help : set_help,
          stdout);
    fputs(token_help, stdout);
    fputs(exit_help, stdout);
}

/* An option that ends the run: unknown ('?'), without its value (':'), or
 * --help. */
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

/* Takes TIDINGS_TOKEN out of the environment: commands of the user's (--exec)
 * do not inherit it, and /proc/PID/environ no longer shows it. NULL: it is not
 * set. The caller frees it. */
static char *
take_token(void)
{
    static const char name[] = "TIDINGS_TOKEN";
    char *value = getenv(name);
    char *token = value && value[0] ? strdup(value) : NULL;

    if (value) {
        explicit_bzero(value, strlen(value));
        unsetenv(name);
    }
    return token;
}

static bool
has_authorization(const struct arguments *arguments)
{
    static const char name[] = "Authorization:";

    for (size_t i = 0; i < arguments->n_headers; i++)
        if (!strncasecmp(arguments->headers[i], name, sizeof(name) - 1))
            return true;
    return false;
}

/* Chooses the token, with `file` of --token-file (NULL: not given) and `text`
 * of TIDINGS_TOKEN. A header of the command line replaces the environment's.
 * False: it has told why. */
static bool
choose_token(struct arguments *arguments, const char *file, const char *text)
{
    static const char file_name[] = "TIDINGS_TOKEN_FILE";
    const char *named = getenv(file_name);

    if (file && has_authorization(arguments)) {
        bad_usage("--token-file and --header Authorization exclude each other");
        return false;
    }
    if (has_authorization(arguments))
        return true;
    if (file)
        arguments->token =
            (struct chosen_token){.from = "--token-file", .path = file};
    else if (named && named[0])
        arguments->token =
            (struct chosen_token){.from = file_name, .path = named};
    else if (text)
        arguments->token =
            (struct chosen_token){.from = "TIDINGS_TOKEN", .text = text};
    return true;
}

/* Takes the certificate of the environment if the command line has none. A key
 * belongs to the certificate beside it. False: it has told why. */
static bool
choose_certificate(struct arguments *arguments)
{
    const char *cert = getenv("TIDINGS_CERT"),
               *key = getenv("TIDINGS_CERT_KEY");

    if (arguments->key && !arguments->cert) {
        bad_usage("--cert-key belongs to a --cert");
        return false;
    }
    if (!arguments->cert && cert && cert[0]) {
        arguments->cert = cert;
        arguments->key = key && key[0] ? key : NULL;
    }
    return true;
}

/* Runs a command with the rest of the command line. */
static enum exit_code
run_with_options(const struct command *command, int argc, char **argv,
                 const char *token)
{
    struct option longs[OPTIONS_MAX + 8] = {{0}};
    const char *given[OPTIONS_MAX] = {NULL};
    struct given *in_order = calloc((size_t)argc, sizeof(in_order[0]));
    const char **headers = calloc((size_t)argc, sizeof(headers[0]));
    struct arguments arguments = {
        .options = given, .given = in_order, .headers = headers};
    const char *token_file = NULL;
    enum exit_code code = EXIT_USAGE;
    int n = 0;
    int chosen;

    if (!in_order || !headers) {
        say(NO_MEMORY);
        code = EXIT_FAILED;
        goto out;
    }
    for (; command->options[n].name && n < OPTIONS_MAX; n++)
        longs[n] =
            (struct option){command->options[n].name,
                            command->options[n].argument != NULL, NULL, n};
    longs[n] = (struct option){"help", no_argument, NULL, n};
    longs[n + 3] = (struct option){"allow-private", no_argument, NULL, n + 3};
    longs[n + 1] = (struct option){"cacert", required_argument, NULL, n + 1};
    longs[n + 2] = (struct option){"header", required_argument, NULL, n + 2};
    longs[n + 4] =
        (struct option){"token-file", required_argument, NULL, n + 4};
    longs[n + 5] = (struct option){"cert", required_argument, NULL, n + 5};
    longs[n + 6] = (struct option){"cert-key", required_argument, NULL, n + 6};

    opterr = 0;
    while ((chosen = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (chosen == ':' || chosen == '?' || chosen == n) {
            code = no_run(command, chosen, argv[optind - 1]);
            goto out;
        }
        if (chosen == n + 1) { /* the library reads it */
            setenv("CURL_CA_BUNDLE", optarg, 1);
        } else if (chosen == n + 3) {
            arguments.allows_private = true;
        } else if (chosen == n + 4) {
            token_file = optarg;
        } else if (chosen == n + 5) {
            arguments.cert = optarg;
        } else if (chosen == n + 6) {
            arguments.key = optarg;
        } else if (chosen == n + 2) {
            headers[arguments.n_headers++] = optarg;
        } else {
            given[chosen] = optarg ? optarg : "";
            in_order[arguments.n_given++] =
                (struct given){chosen, given[chosen]};
        }
    }
    arguments.n_operands = argc - optind;
    arguments.operands = argv + optind;
    if (limits_read(command->options, given, &arguments.limits) &&
        choose_certificate(&arguments) &&
        choose_token(&arguments, token_file, token))
        code = command->run(&arguments);

out:
    free(in_order);
    free(headers);
    return code;
}

int
main(int argc, char **argv)
{
    enum exit_code code = EXIT_USAGE;
    const char *name = argc > 1 ? argv[1] : "--help";
    char *token = take_token();
    size_t i = 0;

    while (i < N_COMMANDS && strcmp(commands[i]->name, name))
        i++;
    if (i < N_COMMANDS)
        code = run_with_options(commands[i], argc - 1, argv + 1, token);
    else if (argc == 2 && !strcmp(name, "--version"))
        code = puts("tidings " TIDINGS_VERSION) < 0 ? EXIT_FAILED : EXIT_GOOD;
    else if (argc == 2 && !strcmp(name, "--help")) {
        help_all();
        code = EXIT_GOOD;
    } else if (argc < 2)
        bad_usage("no command; see tidings --help");
    else
        bad_usage("no such command: %s; see tidings --help", name);

    errno = 0;
    if ((fflush(stdout) || ferror(stdout)) && code == EXIT_GOOD)
        code = cannot_write(errno);
    free(token);
    return code;
}

#include "base/commands/commands.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/commands/command_help.h"
#include "base/suggest.h"

enum exit_code
command_fail(const struct arguments *arguments, enum status rc,
             const struct problem *why)
{
    fflush(stdout); /* results come before the message about them */
    fprintf(stderr, "%s %s: %s\n", arguments->program->name,
            arguments->command->name, why->text);
    return rc == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

enum exit_code
command_flush(const char *name)
{
    int error;

    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return EXIT_GOOD;
    error = errno;
    /* An earlier write has failed, and nobody kept its reason: the next one
     * fails for the same. */
    if (!error && write(STDOUT_FILENO, "", 0) < 0)
        error = errno;
    if (error != EPIPE)
        fprintf(stderr, "%s: cannot write to standard output%s%s\n", name,
                error ? ": " : "", error ? strerror(error) : "");
    return EXIT_FAILED;
}

void
commands_begin(void)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) < 0)
            return;
}

/* Names */

/* Finds the command with the longest name that the arguments begin with.
 * NULL: none. */
static const struct command *
find_command(const struct program *program, int argc, char **argv, int *n_words)
{
    const struct command *found = NULL;

    *n_words = 0;
    for (size_t i = 0; program->commands[i]; i++) {
        struct slice rest = slice_of(program->commands[i]->name);
        bool is_it = true;
        int n = 0;

        for (; is_it && rest.size > 0; n++)
            is_it = n < argc && slice_is(slice_take(&rest, ' '), argv[n]);
        if (is_it && n > *n_words) {
            *n_words = n;
            found = program->commands[i];
        }
    }
    return found;
}

/* Reports that no command has this name. */
static enum exit_code
refuse_name(const struct program *program, int argc, char **argv)
{
    struct suggestion s;
    char name[2 * SUGGEST_SIZE_MAX];
    const char *now = NULL; /* the name of a command of a former version */
    bool is_pair;           /* the first two words are meant as a name */

    for (const char *const *at = program->former; at && at[0]; at += 2)
        if (!strcmp(at[0], argv[0]))
            now = at[1];

    snprintf(name, sizeof(name), "%s%s%s", argv[0], argc > 1 ? " " : "",
             argc > 1 ? argv[1] : "");
    suggest_begin(&s, slice_of(name));
    for (size_t i = 0; program->commands[i]; i++)
        suggest_consider(&s, program->commands[i]->name);
    is_pair = s.nearest || command_is_group(program, argv[0]);
    if (!s.nearest) {
        suggest_begin(&s, slice_of(argv[0]));
        for (size_t i = 0; program->commands[i]; i++)
            suggest_consider(&s, program->commands[i]->name);
    }
    fprintf(stderr, "%s: there is no command \"%s\"", program->name,
            problem_quote(slice_of(is_pair ? name : argv[0])).text);
    if (now)
        fprintf(stderr, "; %s %s takes its place\n", program->name, now);
    else if (s.nearest)
        fprintf(stderr, "; did you mean \"%s\"?\n", s.nearest);
    else
        fprintf(stderr, "; %s help lists them\n", program->name);
    return EXIT_USAGE;
}

/* Prints the commands of a group: to standard output if the user asked for
 * them. */
static enum exit_code
list_group(const struct program *program, const char *group, bool was_asked)
{
    FILE *to = was_asked ? stdout : stderr;

    if (!was_asked)
        fprintf(to, "%s %s: needs another word:\n", program->name, group);
    command_help_group(program, group, to);
    return was_asked ? EXIT_GOOD : EXIT_USAGE;
}

static enum exit_code
run_help(const struct arguments *arguments)
{
    const struct program *program = arguments->program;
    int n = arguments->n_operands, n_words;
    const struct command *command =
        find_command(program, n, arguments->operands, &n_words);

    if (arguments->options[0])
        manual_print(program, stdout);
    else if (n == 0)
        command_help_all(program, stdout);
    else if (command && n == n_words)
        command_help(program, command, stdout);
    else if (n == 1 && command_is_group(program, arguments->operands[0]))
        return list_group(program, arguments->operands[0], true);
    else
        return refuse_name(program, n, arguments->operands);
    return EXIT_GOOD;
}

static const struct option help_rows[] = {
    {"scdoc", .help = "print the manual page instead, as source for scdoc"},
};

const struct command help_command = {
    .name = "help",
    .operands = "[COMMAND]...",
    .help = "Describes a command, or lists all commands.",
    .examples = "help\nhelp completion\n",
    .options = OPTIONS(help_rows),
    .is_plain = true,
    .run = run_help,
};

static enum exit_code
run_completion(const struct arguments *arguments)
{
    struct problem why = {""};

    if (completion_print(arguments->program, arguments->operands[0], stdout))
        return EXIT_GOOD;
    problem_set(&why, "\"%s\" is not one of " COMPLETION_SHELLS,
                problem_quote(slice_of(arguments->operands[0])).text);
    return command_fail(arguments, STATUS_INVALID, &why);
}

const struct command completion_command = {
    .name = "completion",
    .operands = COMPLETION_SHELLS,
    .help = "Prints what makes a shell complete commands and options.",
    .more = "A package installs these files. Without one, have the shell read "
            "the output: source <(PROGRAM completion bash), likewise for zsh; "
            "PROGRAM completion fish | source.\n",
    .examples = "completion bash\n",
    .is_plain = true,
    .run = run_completion,
};

/* Running */

static enum status
check_operands(const struct arguments *given, struct problem *why)
{
    struct operand words[COMMAND_OPERANDS_MAX];
    size_t n_words = operands_read(given->command, words);
    size_t n = (size_t)given->n_operands;
    size_t *word_of = memory_new(n + 1, sizeof(word_of[0]));
    bool is_good;

    if (!word_of)
        return problem_memory(why);
    is_good = operands_assign(words, n_words, n, word_of);
    free(word_of);
    if (is_good)
        return STATUS_OK;
    if (n > n_words)
        return problem(why, STATUS_INVALID,
                       "\"%s\" is too much; --help says more",
                       problem_quote(slice_of(given->operands[n_words])).text);
    return problem(why, STATUS_INVALID, "it needs %s; --help says more",
                   given->command->operands);
}

/* Converts the values of a table, whose rows begin at `first` of the options of
 * the command. The caller frees *values. */
static enum status
take_values(const struct options *options, const struct arguments *given,
            size_t first, void **values, struct problem *why)
{
    enum status rc;

    if (!options || !options->size)
        return STATUS_OK;
    *values = memory_new(1, options->size);
    if (!*values)
        return problem_memory(why);
    rc = options_take(options, NULL, *values, why);
    return rc ? rc
              : options_take(options, given->options + first, *values, why);
}

/* Runs the command with arguments that have been read. */
static enum exit_code
run_prepared(struct arguments *given)
{
    const struct program *program = given->program;
    const struct options *options = given->command->options;
    struct problem why = {""};
    enum exit_code code = EXIT_GOOD;
    enum status rc = STATUS_OK;

    if (!given->command->is_plain && program->prepare)
        code = program->prepare(given);
    if (code)
        return code;
    rc = check_operands(given, &why);
    for (size_t i = 0; !rc && options && i < options->n; i++)
        if (options->rows[i].is_required && !given->options[i])
            rc = problem(&why, STATUS_INVALID, "--%s is missing: %s",
                         options->rows[i].name, options->rows[i].help);
    return rc ? command_fail(given, rc, &why) : given->command->run(given);
}

/* Runs the command. argv[0] is the last word of its name. */
static enum exit_code
run_command(const struct program *program, const struct command *command,
            int argc, char **argv)
{
    struct option rows[OPTIONS_MAX];
    struct options options = command_options(program, command, rows);
    struct arguments given;
    struct problem why = {""};
    enum exit_code code = EXIT_GOOD;
    enum status rc =
        options_arguments(&options, argc, argv, true, &given, &why);

    given.program = program;
    given.command = command;
    if (!rc && given.wish) {
        command_help(program, command, stdout);
        options_arguments_fini(&given);
        return EXIT_GOOD;
    }
    if (!rc)
        rc = take_values(command->options, &given, 0, &given.values, &why);
    if (!rc && !command->is_plain)
        rc = take_values(program->shared, &given, command_n_options(command),
                         &given.shared, &why);
    code = rc ? command_fail(&given, rc, &why) : run_prepared(&given);
    if (given.shared && program->release)
        program->release(&given);
    free(given.values);
    free(given.shared);
    options_arguments_fini(&given);
    return code;
}

static enum exit_code
run_line(const struct program *program, int argc, char **argv)
{
    const struct command *command;
    int n_words;

    if (argc < 2) {
        fprintf(stderr, "%s: no command; %s help lists them\n", program->name,
                program->name);
        return EXIT_USAGE;
    }
    if (argc == 2 && !strcmp(argv[1], "--version"))
        return printf("%s " TIDINGS_VERSION "\n", program->name) < 0
                   ? EXIT_FAILED
                   : EXIT_GOOD;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return run_command(program, &help_command, argc - 1, argv + 1);
    command = find_command(program, argc - 1, argv + 1, &n_words);
    if (command)
        return run_command(program, command, argc - n_words, argv + n_words);
    if (command_is_group(program, argv[1]) &&
        (argc == 2 || !strcmp(argv[2], "--help") || !strcmp(argv[2], "-h")))
        return list_group(program, argv[1], argc > 2);
    return refuse_name(program, argc - 1, argv + 1);
}

enum exit_code
commands_run(const struct program *program, int argc, char **argv)
{
    enum exit_code code = run_line(program, argc, argv);

    return code == EXIT_GOOD ? command_flush(program->name) : code;
}

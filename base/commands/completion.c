
#include <ctype.h>

#include "base/commands/command_help.h"

/* The kind of a value or an operand. */
struct kind {
    bool is_file, is_directory, is_command;
    char words[256]; /* with blanks between; "": none are known */
};

/* Words of a value's name: "xml" is one to type, FILE is the name of a file. */
static void
add_words(struct kind *kind, struct slice name)
{
    while (name.size > 0) {
        struct slice word = slice_take(&name, '|');
        size_t size = strlen(kind->words);
        bool is_typed = word.size > 0;

        for (size_t i = 0; i < word.size; i++)
            is_typed &= islower((unsigned char)word.data[i]) ||
                        isdigit((unsigned char)word.data[i]) ||
                        (word.data[i] == '-' && word.size > 1);
        kind->is_file |= slice_is(word, "FILE") || slice_is(word, "PATH");
        kind->is_directory |= slice_is(word, "DIR") || slice_is(word, "FOLDER");
        kind->is_command |= slice_is(word, "COMMAND");
        if (is_typed && size + 1 + word.size < sizeof(kind->words))
            snprintf(kind->words + size, sizeof(kind->words) - size, "%s%.*s",
                     size ? " " : "", SLICE_ARG(word));
    }
}

static struct kind
kind_of_option(const struct option *o)
{
    struct kind kind = {.words = ""};

    add_words(&kind, slice_of(o->argument));
    return kind;
}

/* Joins the kinds of all operands of the command. */
static struct kind
kind_of_operands(const struct command *command)
{
    struct operand words[COMMAND_OPERANDS_MAX];
    struct kind kind = {.words = ""};
    size_t n = operands_read(command, words);

    for (size_t i = 0; i < n; i++)
        add_words(&kind, words[i].name);
    return kind;
}

/* The first word of a command's name. */
static struct slice
group_of(const struct command *command)
{
    struct slice rest = slice_of(command->name);

    return slice_take(&rest, ' ');
}

/* The first command of its group, or of its one-word name. */
static bool
is_first_of_group(const struct program *program, size_t i)
{
    struct slice group = group_of(program->commands[i]);

    for (size_t k = 0; k < i; k++)
        if (slice_equal(group_of(program->commands[k]), group))
            return false;
    return true;
}

static const char *
second_word(const struct command *command)
{
    const char *blank = strchr(command->name, ' ');

    return blank ? blank + 1 : "";
}

/* A text within '...'; `specials` get a backslash. */
static void
put_quoted(const char *text, const char *specials, FILE *to)
{
    for (; *text; text++)
        if (strchr(specials, *text))
            fprintf(to, "\\%c", *text);
        else if (*text == '\'')
            fputs("'\\''", to);
        else
            fputc(*text, to);
}

/* The word of command `i` behind the word `group` or, if that is empty, the
 * first one; empty: none, or an earlier command has it. */
static struct slice
word_of(const struct program *program, size_t i, struct slice group)
{
    const struct command *command = program->commands[i];

    if (group.size > 0)
        return slice_of(
            slice_equal(group_of(command), group) ? second_word(command) : "");
    return is_first_of_group(program, i) ? group_of(command) : group;
}

/* All those words, with blanks between. */
static void
put_words(const struct program *program, struct slice group, FILE *to)
{
    const char *before = "";

    for (size_t i = 0; program->commands[i]; i++) {
        struct slice word = word_of(program, i, group);

        if (word.size > 0)
            fprintf(to, "%s%.*s", before, SLICE_ARG(word));
        before = word.size > 0 ? " " : before;
    }
}

/* Calls `print` for each command, and for what the program does without one. */
static void
for_each_command(const struct program *program,
                 void (*print)(const struct program *program,
                               const struct command *command, FILE *to),
                 FILE *to)
{
    if (program->start)
        print(program, program->start, to);
    for (size_t i = 0; program->commands[i]; i++)
        print(program, program->commands[i], to);
}

/* bash */

static const char bash_head[] =
    "    local current=${COMP_WORDS[COMP_CWORD]} previous='' command='' i\n"
    "    local options='' words='' kind=''\n"
    "    ((COMP_CWORD > 0)) && previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    # \"--name=value\" is three words here.\n"
    "    if [[ $current == = ]]; then\n"
    "        current=''\n"
    "    elif [[ $previous == = ]]; then\n"
    "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    for ((i = 1; i < COMP_CWORD && i < 3; i++)); do\n"
    "        [[ ${COMP_WORDS[i]} == -* ]] && break\n"
    "        command+=${command:+ }${COMP_WORDS[i]}\n"
    "    done\n";

static const char bash_tail[] =
    "    [[ $current == -* && $kind != value ]] && words=$options kind=''\n"
    "    [[ -z $words && -z $kind ]] && words=$options\n"
    "    COMPREPLY=()\n"
    "    case $kind in\n"
    "    file | directory) compopt -o filenames 2>/dev/null ;;\n"
    "    esac\n"
    "    [[ -n $words ]] && mapfile -t COMPREPLY < <(\n"
    "        compgen -W \"$words\" -- \"$current\")\n"
    "    case $kind in\n"
    "    file) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(\n"
    "        compgen -f -- \"$current\") ;;\n"
    "    directory) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(\n"
    "        compgen -d -- \"$current\") ;;\n"
    "    esac\n"
    "}\n";

static const char *
word_of_kind(const struct kind *kind)
{
    return kind->is_file ? "file" : kind->is_directory ? "directory" : "";
}

/* A case for the options and operands of a command. */
static void
bash_command(const struct program *program, const struct command *command,
             FILE *to)
{
    struct option rows[OPTIONS_MAX];
    struct options options = command_options(program, command, rows);
    struct kind kind = kind_of_operands(command);

    fprintf(to, "    '%s'", command->name);
    if (command->name[0] && !*second_word(command))
        fprintf(to, " | '%s '*", command->name);
    fprintf(to, ")\n        options='");
    for (size_t i = 0; i < options.n; i++)
        fprintf(to, "%s--%s", i ? " " : "", options.rows[i].name);
    fprintf(to, "'\n        words='%s", kind.words);
    if (kind.is_command || !command->name[0])
        put_words(program, SLICE(""), to);
    fprintf(to, "' kind='%s'\n        ;;\n", word_of_kind(&kind));
}

/* Cases for the values of the options of a command. */
static void
bash_values(const struct program *program, const struct command *command,
            FILE *to)
{
    struct option rows[OPTIONS_MAX];
    struct options options = command_options(program, command, rows);

    for (size_t i = 0; i < options.n; i++) {
        struct kind kind;

        if (!options.rows[i].argument)
            continue;
        kind = kind_of_option(&options.rows[i]);
        fprintf(to, "    '%s%s--%s') words='%s' kind='%s' ;;\n", command->name,
                command->name[0] && !*second_word(command) ? "'*' " : " ",
                options.rows[i].name, kind.words,
                *word_of_kind(&kind) ? word_of_kind(&kind) : "value");
    }
}

static void
print_bash(const struct program *program, FILE *to)
{
    fprintf(to, "# %s completion bash\n\n_%s() {\n%s", program->name,
            program->name, bash_head);
    fprintf(to, "    case $command in\n");
    for (size_t i = 0; program->commands[i]; i++)
        if (is_first_of_group(program, i) &&
            *second_word(program->commands[i])) {
            fprintf(to, "    '%.*s') words='",
                    SLICE_ARG(group_of(program->commands[i])));
            put_words(program, group_of(program->commands[i]), to);
            fprintf(to, "' ;;\n");
        }
    for_each_command(program, bash_command, to);
    if (!program->start) {
        fprintf(to, "    '') options='--help --version' words='");
        put_words(program, SLICE(""), to);
        fprintf(to, "' ;;\n");
    }
    fprintf(to, "    esac\n    case \"$command $previous\" in\n");
    for_each_command(program, bash_values, to);
    fprintf(to, "    esac\n%s\ncomplete -F _%s %s\n", bash_tail, program->name,
            program->name);
}

/* zsh */

/* ":NAME:ACTION" of a value. */
static void
zsh_value(const char *name, const struct kind *kind, FILE *to)
{
    fputc(':', to);
    put_quoted(name, ":\\", to);
    fputc(':', to);
    if (kind->is_file)
        fputs("_files", to);
    else if (kind->is_directory)
        fputs("_files -/", to);
    else if (kind->words[0])
        fprintf(to, "(%s)", kind->words);
}

static void
zsh_command(const struct program *program, const struct command *command,
            FILE *to)
{
    struct option rows[OPTIONS_MAX];
    struct options options = command_options(program, command, rows);
    struct kind kind = kind_of_operands(command);

    fprintf(to, "    '%s')\n        _arguments", command->name);
    for (size_t i = 0; i < options.n; i++) {
        const struct option *o = &options.rows[i];
        struct kind of_value = {.words = ""};

        fprintf(to, " \\\n            '%s--%s[", o->may_repeat ? "*" : "",
                o->name);
        put_quoted(o->help, "[]:\\", to);
        fputc(']', to);
        if (o->argument) {
            of_value = kind_of_option(o);
            zsh_value(o->argument, &of_value, to);
        }
        fputc('\'', to);
    }
    if (kind.is_command) {
        fprintf(to, " \\\n            '*:COMMAND:(");
        put_words(program, SLICE(""), to);
        fprintf(to, ")'");
    } else if (command->operands) {
        fprintf(to, " \\\n            '*");
        zsh_value(command->operands, &kind, to);
        fputc('\'', to);
    }
    fprintf(to, "\n        ;;\n");
}

/* The lines for _describe: the first words, or the second ones of a group. */
static void
zsh_list(const struct program *program, struct slice group, FILE *to)
{
    for (size_t i = 0; program->commands[i]; i++) {
        const struct command *command = program->commands[i];
        struct slice word = word_of(program, i, group);

        if (word.size == 0)
            continue;
        fprintf(to, "            '%.*s:", SLICE_ARG(word));
        if (group.size == 0 && *second_word(command))
            put_words(program, word, to);
        else
            put_quoted(command->help, "\\", to);
        fprintf(to, "'\n");
    }
}

static void
print_zsh(const struct program *program, FILE *to)
{
    fprintf(to,
            "#compdef %s\n# %s completion zsh\n\n_%s() {\n"
            "    local command=''\n    local -a commands\n"
            "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
            "        commands=(\n",
            program->name, program->name, program->name);
    zsh_list(program, (struct slice){NULL, 0}, to);
    fprintf(to, "        )\n        _describe command commands\n"
                "        return\n    fi\n    case $words[2] in\n");
    for (size_t i = 0; program->commands[i]; i++) {
        struct slice group = group_of(program->commands[i]);

        if (!is_first_of_group(program, i) ||
            !*second_word(program->commands[i]))
            continue;
        fprintf(to,
                "    %.*s)\n        if (( CURRENT == 3 )); then\n"
                "            commands=(\n",
                SLICE_ARG(group));
        zsh_list(program, group, to);
        fprintf(to, "            )\n            _describe command commands\n"
                    "            return\n        fi\n"
                    "        command=\"$words[2] $words[3]\"\n"
                    "        shift 2 words\n        (( CURRENT -= 2 ))\n"
                    "        ;;\n");
    }
    fprintf(to, "    -*) ;;\n    *)\n        command=$words[2]\n"
                "        shift words\n        (( CURRENT-- ))\n        ;;\n"
                "    esac\n    case $command in\n");
    for_each_command(program, zsh_command, to);
    fprintf(to,
            "    esac\n}\n\n"
            "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
            "    _%s \"$@\"\nelse\n    compdef _%s %s\nfi\n",
            program->name, program->name, program->name);
}

/* fish */

/* "complete -c tidings -n CONDITION": the words before are the command's. */
static void
fish_begin(const struct program *program, const char *test, const char *name,
           FILE *to)
{
    fprintf(to, "complete -c %s -n '__%s_%s%s%s'", program->name, program->name,
            test, name[0] ? " " : "", name);
}

static void
fish_kind(const struct kind *kind, FILE *to)
{
    fputs(kind->is_file        ? " -r -F"
          : kind->is_directory ? " -x -a '(__fish_complete_directories)'"
                               : " -x",
          to);
    if (kind->words[0])
        fprintf(to, " -a '%s'", kind->words);
}

static void
fish_help(const char *help, FILE *to)
{
    fputs(" -d '", to);
    put_quoted(help, "'\\", to);
    fputs("'\n", to);
}

static void
fish_command(const struct program *program, const struct command *command,
             FILE *to)
{
    struct option rows[OPTIONS_MAX];
    struct options options = command_options(program, command, rows);
    struct kind kind = kind_of_operands(command);

    for (size_t i = 0; i < options.n; i++) {
        const struct option *o = &options.rows[i];

        fish_begin(program, "has", command->name, to);
        fprintf(to, " -l %s", o->name);
        if (o->argument) {
            struct kind of_value = kind_of_option(o);

            fish_kind(&of_value, to);
        }
        fish_help(o->help, to);
    }
    if (kind.is_command) {
        fish_begin(program, "has", command->name, to);
        fprintf(to, " -a '");
        put_words(program, SLICE(""), to);
        fprintf(to, "'\n");
    } else if (kind.is_file || kind.is_directory || kind.words[0]) {
        fish_begin(program, "has", command->name, to);
        fish_kind(&kind, to);
        fputc('\n', to);
    }
}

static void
print_fish(const struct program *program, FILE *to)
{
    const char *name = program->name;

    fprintf(to,
            "# %s completion fish\n\n"
            "# True if the words before the cursor are exactly these.\n"
            "function __%s_is\n"
            "    set -l words (commandline -opc)\n"
            "    set -e words[1]\n"
            "    test \"$words\" = \"$argv\"\n"
            "end\n\n"
            "# True if the command's name is these words; none: no command.\n"
            "function __%s_has\n"
            "    set -l words (commandline -opc)\n"
            "    set -e words[1]\n"
            "    set -l n (count $argv)\n"
            "    if test $n -eq 0\n"
            "        not set -q words[1]; or string match -q -- '-*' "
            "$words[1]\n"
            "    else\n"
            "        test \"$words[1..$n]\" = \"$argv\"\n"
            "    end\n"
            "end\n\n"
            "complete -c %s -f\n",
            name, name, name, name);
    for (size_t i = 0; program->commands[i]; i++) {
        const struct command *command = program->commands[i];
        char group[32] = "";

        if (*second_word(command))
            snprintf(group, sizeof(group), "%.*s",
                     SLICE_ARG(group_of(command)));
        if (is_first_of_group(program, i) && group[0]) {
            fish_begin(program, "is", "", to);
            fprintf(to, " -a %s\n", group);
        }
        fish_begin(program, "is", group, to);
        fprintf(to, " -a %s", group[0] ? second_word(command) : command->name);
        fish_help(command->help, to);
    }
    for_each_command(program, fish_command, to);
}

bool
completion_print(const struct program *program, const char *shell, FILE *to)
{
    static const struct {
        const char *shell;
        void (*print)(const struct program *program, FILE *to);
    } shells[] = {
        {"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

    for (size_t i = 0; i < N_ELEMENTS(shells); i++)
        if (!strcmp(shell, shells[i].shell)) {
            shells[i].print(program, to);
            return true;
        }
    return false;
}

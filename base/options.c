#include "base/options.h"

#include <stdbool.h>

#include "base/suggest.h"

size_t
options_index(const struct options *options, struct slice name)
{
    size_t i = 0;

    while (i < options->n && !slice_is(name, options->rows[i].name))
        i++;
    return i;
}

const struct option *
options_find(const struct options *options, struct slice name)
{
    size_t i = options_index(options, name);

    return i < options->n ? &options->rows[i] : NULL;
}

enum status
options_unknown(const struct options *options, const char *mark,
                struct slice name, const char *otherwise, struct problem *why)
{
    struct suggestion s;

    suggest_begin(&s, name);
    for (size_t i = 0; i < options->n; i++)
        suggest_consider(&s, options->rows[i].name);
    if (s.nearest)
        return problem(why, STATUS_INVALID,
                       "%s%s: there is no such option; did you mean %s%s?",
                       mark, problem_quote(name).text, mark, s.nearest);
    return problem(why, STATUS_INVALID, "%s%s: there is no such option%s", mark,
                   problem_quote(name).text, otherwise);
}

enum status
options_read(const struct option *option, const char *mark, const char *text,
             void *values, struct problem *why)
{
    struct problem inner = {.text = ""};
    enum status rc = option_read(option, text, values, &inner);

    if (rc)
        return problem(why, rc, "%s%s: %s", mark, option->name, inner.text);
    return STATUS_OK;
}

enum status
options_set_defaults(const struct options *options, void *values,
                     struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < options->n; i++)
        if (options->rows[i].standard)
            rc = options_read(&options->rows[i], "--",
                              options->rows[i].standard, values, why);
    return rc;
}

/* Printing */

#define TEXT_WIDTH  80
#define HELP_COLUMN 29

/* Writes `text` from column `column` on, broken at blanks; each new line begins
 * with `indent`. */
static void
print_wrapped(FILE *to, const char *text, size_t column, const char *indent)
{
    bool is_first = true; /* of its line */

    for (; *text; is_first = false) {
        size_t word = strcspn(text, " ");

        if (!is_first && column + 1 + word > TEXT_WIDTH) {
            fprintf(to, "\n%s", indent);
            column = strlen(indent);
        } else if (!is_first) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

/* Describes a row: its purpose, its limits and its default. */
static void
describe_option(const struct option *o, char *to, size_t size)
{
    char limits[OPTION_LIMITS_SIZE];
    bool has_default = o->standard && o->argument;

    option_limits(o, limits, sizeof(limits));
    if (limits[0] || has_default)
        snprintf(to, size, "%s (%s%s%s%s)", o->help, limits,
                 limits[0] && has_default ? "; " : "",
                 has_default ? "default " : "", has_default ? o->standard : "");
    else
        snprintf(to, size, "%s", o->help);
}

static void
print_row(FILE *to, const struct option *o)
{
    char text[256], indent[HELP_COLUMN + 1];
    int n = fprintf(to, "  --%s%s%s", o->name, o->argument ? " " : "",
                    o->argument ? o->argument : "");

    /* A long name has a line of its own. */
    if (n + 1 > HELP_COLUMN)
        n = fprintf(to, "\n") - 1;
    fprintf(to, "%*s", HELP_COLUMN - n, "");
    snprintf(indent, sizeof(indent), "%*s", HELP_COLUMN, "");
    describe_option(o, text, sizeof(text));
    print_wrapped(to, text, HELP_COLUMN, indent);
}

void
options_help(const struct options *options, FILE *to)
{
    for (size_t i = 0; i < options->n; i++)
        print_row(to, &options->rows[i]);
}

void
options_example(const struct options *options, FILE *to)
{
    for (size_t i = 0; i < options->n; i++) {
        const struct option *o = &options->rows[i];
        char text[256], unit[32] = "";

        if (o->type <= OPTION_FILE)
            continue; /* only on the command line */
        describe_option(o, text, sizeof(text));
        if (o->argument)
            snprintf(unit, sizeof(unit), "%s: ", o->argument);
        fprintf(to, "\n# %s", unit);
        print_wrapped(to, text, strlen("# ") + strlen(unit), "# ");
        fprintf(to, "#%s = %s\n", o->name,
                o->standard ? o->standard : o->argument);
    }
}

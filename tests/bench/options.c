#include "tests/bench/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"

#define ROWS_MAX 32
#define CORE_MAX 1023

/* The result of getopt_long for --help; for a row its number, plus one. */
#define HELP (ROWS_MAX + 1)

struct table {
    struct option_row rows[ROWS_MAX];
    struct option options[ROWS_MAX + 2]; /* --help, and the end */
    int n;
};

static void
add(struct table *t, const struct option_row *row)
{
    if (t->n == ROWS_MAX)
        bench_fail("there are too many options");
    t->rows[t->n] = *row;
    t->options[t->n] = (struct option){
        row->name, row->flag ? no_argument : required_argument, NULL, t->n + 1};
    t->n++;
}

static void
set(const struct option_row *row, const char *value)
{
    double number = 0;

    if (!row->flag && !row->text)
        number = bench_number(row->name, value, row->min, row->max);
    if (row->flag)
        *row->flag = true;
    else if (row->text)
        *row->text = value;
    else if (row->count)
        *row->count = (unsigned)number;
    else if (row->size)
        *row->size = (size_t)number;
    else
        *row->number = number;
}

static _Noreturn void
end(const char *usage, bool is_asked)
{
    fputs(usage, is_asked ? stdout : stderr);
    exit(is_asked ? 0 : 2);
}

void
options_parse(int argc, char **argv, const char *usage,
              const struct option_row *rows, struct common *common)
{
    double server_core = common->server_core, own_core = common->own_core;
    const struct option_row shared[] = {
        {"label", .text = &common->label},
        {"seconds", .number = &common->seconds, .min = 0.1, .max = 600},
        {"warm", .number = &common->warm_seconds, .max = 600},
    };
    const bool has[] = {common->label, common->seconds > 0,
                        common->warm_seconds > 0};
    struct table t = {.n = 0};
    int which;

    for (; rows->name; rows++)
        add(&t, rows);
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
        if (has[i])
            add(&t, &shared[i]);
    add(&t, &(struct option_row){"server-core", .number = &server_core,
                                 .min = NO_CORE, .max = CORE_MAX});
    add(&t, &(struct option_row){"own-core", .number = &own_core,
                                 .min = NO_CORE, .max = CORE_MAX});
    t.options[t.n] = (struct option){"help", no_argument, NULL, HELP};

    while ((which = getopt_long(argc, argv, "+", t.options, NULL)) != -1) {
        if (which < 1 || which > t.n)
            end(usage, which == HELP);
        set(&t.rows[which - 1], optarg);
    }
    common->server_core = (int)server_core;
    common->own_core = (int)own_core;
    common->command = argv + optind;
    if (!common->command[0])
        end(usage, false);
}

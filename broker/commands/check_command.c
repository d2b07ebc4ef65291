#include "broker/commands/check_command.h"

#include "broker/check/check.h"

#define ROW_OF struct check_options
#include "base/option_rows.h"

static const struct option rows[] = {
    {"data", "DIR", TEXT(data), "./tidings-data", "the data directory"},
    {"deep", NULL, FLAG(is_deep), "no",
     "also compare the resources of each set with its log, and the bytes of "
     "all content, lists and dumps with their digests"},
    SUBCOMMAND_HELP,
};

static int
run_check(const struct arguments *given, void *values)
{
    struct problem why = {""};
    uint64_t n_findings = 0;
    enum status rc = check_run(values, stdout, &n_findings, &why);
    int result;

    (void)given;
    if (rc == STATUS_NOT_FOUND)
        rc = STATUS_INVALID; /* a wrong --data */
    if (rc)
        return subcommand_fail(&check_command, rc, &why);
    result = subcommand_end(&check_command);
    return n_findings > 0 ? SUBCOMMAND_FAILED : result;
}

const struct subcommand check_command = {
    .name = "check",
    .operands = "",
    .about =
        "Looks at a data directory, beside the running broker or without one, "
        "and\nwrites nothing: every file of closed lists, every list and dump, "
        "content,\ndatabases, positions of subscriptions and bridges, files of "
        "no row, and\npermissions. One line for each finding says what it is, "
        "where, what it means,\nand what to do. The exit status is 0 if "
        "nothing was found, else 1.\n\nWithout a broker none can start until "
        "it ends. (tidingsd --check looks at the\nsettings and surroundings of "
        "a start.)",
    .options = {rows, sizeof(rows) / sizeof(rows[0])},
    .run = run_check,
    .size = sizeof(struct check_options),
};

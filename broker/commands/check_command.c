#include "broker/bucket/vault.h"
#include "broker/check/check.h"
#include "broker/commands/command_rows.h"

#define ROW_OF struct check_options
#include "base/option_rows.h"

static const struct option rows[] = {
    {"data", "DIR", TEXT(data), "./tidings-data", "the data directory"},
    {"deep", NULL, FLAG(is_deep), "no",
     "also compare the resources of each set with its log, and every bit of "
     "content, lists, dumps and packages with what was written"},
    {"archive", "s3://BUCKET/PREFIX?...", TEXT(archive), NULL,
     "ask this bucket, as the broker has it, for each file that is there"},
    {"s3-credentials", "FILE", TEXT(credentials), NULL, "as the broker has it"},
};

static enum exit_code
run_check(const struct arguments *given)
{
    struct problem why = {""};
    uint64_t n_findings = 0;
    const struct check_options *options = given->values;
    const struct vault_options vault = {.address = options->archive,
                                        .credentials = options->credentials};
    enum status rc = options->archive[0] ? vault_open(&vault, &why) : STATUS_OK;

    if (!rc)
        rc = check_run(options, stdout, &n_findings, &why);
    vault_close();
    if (rc == STATUS_NOT_FOUND)
        rc = STATUS_INVALID; /* a wrong --data */
    if (rc)
        return command_fail(given, rc, &why);
    return n_findings > 0 ? EXIT_FAILED : EXIT_GOOD;
}

const struct command check_command = {
    .name = "check",
    .help = "Looks at a data directory, and reports what is wrong with it.",
    .more =
        "Works beside the running broker or without one, and writes nothing. "
        "It looks at every file of closed lists, every list and dump, "
        "content, databases, positions of subscriptions and bridges, files of "
        "no row, and permissions. One line for each finding says what it is, "
        "where, what it means, and what to do. The exit status is 0 if nothing "
        "was found, else 1.\n\n"
        "Without a broker none can start until it ends. (tidingsd --check "
        "looks at the settings and surroundings of a start.)\n",
    .examples = "tidingsd check --data /var/lib/tidings\n"
                "tidingsd check --data /var/lib/tidings --deep\n",
    .options = OPTIONS(rows),
    .run = run_check,
    .size = sizeof(struct check_options),
};

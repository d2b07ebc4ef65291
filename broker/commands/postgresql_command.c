/*
 * postgresql_command.c - tidingsd postgresql init: the tables and functions of
 * the outbox (outbox.sql) in a database of the operator's.
 */
#include "broker/commands/command_rows.h"
#include "broker/documents/web_files.h"
#include "broker/journal/pg_connection.h"

/* More than outbox.sql has. */
#define STATEMENTS_MAX 32

struct values {
    char address[2048];
    bool prints;
};

#define ROW_OF struct values
#include "base/option_rows.h"

/* Splits the text where lines are empty; writes into it. */
static size_t
take_statements(char *text, struct pg_statement statements[STATEMENTS_MAX])
{
    size_t n = 0;

    while (text && n < STATEMENTS_MAX) {
        char *end = strstr(text, "\n\n");

        statements[n++] = (struct pg_statement){text};
        if (end)
            *end = '\0';
        text = end ? end + 2 : NULL;
    }
    return n;
}

/* All of it, or nothing: one round trip is one transaction. */
static enum exit_code
run_init(const struct arguments *given)
{
    const struct values *values = given->values;
    const struct slice sql = broker_commands_outbox_sql.plain;
    struct pg_statement statements[STATEMENTS_MAX];
    struct pg_connection connection;
    struct problem why = {""};
    char *text;
    enum status rc = STATUS_OK;

    if (values->prints)
        return fwrite(sql.data, 1, sql.size, stdout) == sql.size ? EXIT_GOOD
                                                                 : EXIT_FAILED;
    if (!values->address[0])
        rc = problem(&why, STATUS_INVALID,
                     "it needs --postgresql CONNINFO, or --print");
    if (!rc)
        rc = pg_check_address(values->address, &why);
    if (rc)
        return command_fail(given, rc, &why);
    text = slice_dup(sql);
    connection = (struct pg_connection){
        .options = pg_options_of(values->address, DURABLE_UNCHECKED)};
    rc = text ? pg_connect(&connection, &why) : problem_memory(&why);
    if (!rc)
        rc = pg_run(&connection, statements, take_statements(text, statements),
                    &why);
    pg_close(&connection);
    free(text);
    if (rc)
        return command_fail(given, rc, &why);
    printf("the database has tidings_publish(set, entry) now; a broker posts "
           "what it gets:\ntidingsd --postgresql '%s'\n",
           values->address);
    return EXIT_GOOD;
}

static const struct option rows[] = {
    {"postgresql", "CONNINFO", TEXT(address), NULL,
     "the database of the application, \"host=HOST dbname=NAME user=USER\" or "
     "a postgresql:// URL; no password in it"},
    {"print", NULL, FLAG(prints), NULL, "print the statements, and run none"},
};

const struct command postgresql_init_command = {
    .name = "postgresql init",
    .help = "Makes the function tidings_publish() in a PostgreSQL database.",
    .more = "A transaction that calls it publishes with its commit, and not "
            "without. The user of CONNINFO owns the tables, and needs the "
            "right to make some; no superuser, no extension. A second time "
            "does no harm.\n",
    .examples = "tidingsd postgresql init --postgresql dbname=shop\n"
                "tidingsd postgresql init --print\n",
    .options = OPTION_ROWS(rows),
    .run = run_init,
};

/*
 * main.c - the program `tidings`: the table of its commands.
 */
#include "base/certificates.h"
#include "client/cli/cli.h"
#include "client/cli/client_settings.h"

static const struct command *const commands[] = {
    &publish_command,
    &follow_command,
    &tail_command,
    &sync_command,
    &audit_command,
    &diff_command,
    &verify_command,
    &prove_command,
    &witness_command,
    &harvest_command,
    &watch_command,
    &get_command,
    &status_command,
    &healthy_command,
    &set_list_command,
    &set_create_command,
    &set_change_command,
    &set_show_command,
    &set_delete_command,
    &set_rotate_command,
    &set_build_command,
    &subscriptions_list_command,
    &subscriptions_show_command,
    &subscriptions_add_command,
    &subscriptions_attempts_command,
    &subscriptions_test_command,
    &subscriptions_redeliver_command,
    &subscriptions_end_command,
    &bridges_command,
    &relays_command,
    &mcp_command,
    &doctor_command,
    &completion_command,
    &help_command,
    NULL,
};

static const struct operand_row operands[] = {
    {"BROKER-URL", "http(s)://host:port/; --url if not given"},
    {"SET-URL", "http(s)://host:port/sets/NAME; or NAME, beside --url"},
    {"SOURCE-URL", "any document of a ResourceSync source"},
    {NULL, NULL},
};

static const char *const former[] = {"relay", "harvest", NULL};

static const struct program program = {
    .name = "tidings",
    .section = 1,
    .see_also = "*tidingsd*(8)",
    .purpose = "publish, follow and mirror changes of resources",
    .more = "Posts changes to a broker (tidingsd), prints them as they happen, "
            "and keeps copies of resources. Reads any other ResourceSync "
            "source, Sitemap or feed, too.",
    .examples = "tidings publish http://localhost:8787/sets/news changes.json\n"
                "tidings follow http://localhost:8787/sets/news --from-start\n"
                "tidings sync http://localhost:8787/sets/news mirror\n"
                "tidings harvest https://example.org/ "
                "http://localhost:8787/sets/copy\n",
    .footer =
        "The token is the line in FILE or in the file that TIDINGS_TOKEN_FILE "
        "names, else the value of TIDINGS_TOKEN, else the line in the "
        "token-file that the file of --config has for the server of its url. "
        "Over http it goes to this machine alone. FILE is for its owner alone "
        "(chmod 600), and is read again if the server refuses the token.\n\n"
        "Exit status: 0 done, 1 failed (refused, unreachable), 2 bad usage, 3 "
        "gone (the set was removed; the position is of another epoch, or not "
        "retained), 4 the history of the source went back, or is another.\n",
    .commands = commands,
    .operands = operands,
    .former = former,
    .shared = &settings_options,
    .prepare = settings_prepare,
    .release = settings_release,
};

int
main(int argc, char **argv)
{
    commands_begin();
    certificates_use_system();
    return commands_run(&program, argc, argv);
}

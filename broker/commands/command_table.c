#include "broker/commands/command_table.h"

#include "base/commands/command_help.h"
#include "broker/commands/command_rows.h"
#include "broker/config/config.h"

static const struct command *const commands[] = {
    &token_add_command,
    &token_list_command,
    &token_show_command,
    &token_revoke_command,
    &token_rotate_command,
    &token_check_command,
    &token_open_again_command,
    &key_show_command,
    &key_rotate_command,
    &backup_command,
    &restore_command,
    &check_command,
    &bucket_check_command,
    &cluster_init_command,
    &cluster_join_command,
    &cluster_status_command,
    &cluster_leave_command,
    &cluster_mend_command,
    &postgresql_init_command,
    &completion_command,
    &help_command,
    NULL,
};

static const struct command serve_command = {
    .name = "",
    .help = "Tells the world what changed: takes changes by HTTP POST, keeps "
            "them in ResourceSync Change Lists, pushes them to subscribers: "
            "WebSocket, server-sent events, WebSub callbacks, MQTT. Takes them "
            "from MQTT brokers, too.",
    .more = CONFIG_VALUES "\n\n\"--name=value\" is the same as \"--name "
                          "value\".\n",
    .examples =
        "tidingsd --data /var/lib/tidings\n"
        "tidingsd --config /etc/tidings/tidingsd.ini --log-level debug\n"
        "tidingsd --config /etc/tidings/tidingsd.ini --check\n",
    .options = &config_options,
};

static const struct program program = {
    .name = "tidingsd",
    .section = 8,
    .see_also = "*tidings*(1)",
    .purpose = "broker of changes: ResourceSync, WebSub, WebSocket, MQTT",
    .more = "Without a command it serves; tidingsd --help describes that.",
    .examples = "tidingsd --data /var/lib/tidings\n"
                "tidingsd token add press --publish 'news-*'\n",
    .footer = "Exit status: 0 done, 1 failed, 2 bad usage.\n",
    .commands = commands,
    .start = &serve_command,
};

void
command_table_begin(void)
{
    commands_begin();
}

int
command_table_run(int argc, char **argv)
{
    return (int)commands_run(&program, argc, argv);
}

void
command_table_help(FILE *to)
{
    command_help(&program, &serve_command, to);
}

int
command_table_end(void)
{
    return (int)command_flush(program.name);
}

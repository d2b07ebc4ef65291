#include "broker/commands/backup_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "broker/backup/archive_restore.h"
#include "broker/backup/backup.h"
#include "broker/backup/restore.h"
#include "proto/problem.h"

struct values {
    char data[4096];
    char archive[4096];
    char token_file[4096];
    bool is_incremental;
};

#define VALUE(member) \
    offsetof(struct values, member), 0, 0, sizeof(((struct values *)0)->member)

static void
print_missing(const char *text, void *user)
{
    const struct subcommand *command = user;

    fprintf(stderr, "tidingsd %s: missing: %s\n", command->name, text);
}

static void
print_damage(const char *text, void *user)
{
    const struct subcommand *command = user;

    fprintf(stderr, "tidingsd %s: damaged: %s\n", command->name, text);
}

/* Ends with a failure if files are missing. */
static int
end_command(const struct subcommand *command, uint64_t n_missing)
{
    int result = subcommand_end(command);

    if (n_missing == 0)
        return result;
    fprintf(stderr,
            "tidingsd %s: all else is there, but %" PRIu64
            " of the files named above cannot be read\n",
            command->name, n_missing);
    return SUBCOMMAND_FAILED;
}

/* Backup */

static int
run_backup(const struct arguments *given, void *user)
{
    const struct values *values = user;
    struct backup_options options = {
        .data = values->data,
        .dir = given->operands[0],
        .is_incremental = values->is_incremental,
        .on_missing = print_missing,
        .user = (void *)(uintptr_t)&backup_command,
    };
    struct backup_report did;
    struct problem why = {""};
    enum status rc;

    umask(S_IRWXG | S_IRWXO);
    rc = backup_make(&options, &did, &why);
    if (rc)
        return subcommand_fail(&backup_command, rc, &why);
    printf("sets %" PRIu64 ", closed lists %" PRIu64 ", lists and dumps of "
           "resources %" PRIu64 ", files of content %" PRIu64
           ", databases %" PRIu64 "\n",
           did.n_sets, did.n_lists, did.n_builds, did.n_contents,
           did.n_databases);
    printf("copied %" PRIu64 " files of %" PRIu64 " bytes; the former backup "
           "has %" PRIu64 " more, of %" PRIu64 " bytes\n",
           did.n_copied, did.copied_bytes, did.n_kept, did.kept_bytes);
    printf("the backup is in %s; to make a data directory of it:\n"
           "tidingsd restore %s --data NEW\n",
           options.dir, options.dir);
    return end_command(&backup_command, did.n_missing);
}

static const struct option backup_rows[] = {
    SUBCOMMAND_HELP,
    {"data", "DIR", OPTION_TEXT, VALUE(data), NULL, "./tidings-data",
     "the data directory, also while a broker has it", false},
    {"incremental", NULL, OPTION_FLAG, offsetof(struct values, is_incremental),
     0, 0, 0, NULL, NULL,
     "into a directory that has a backup: copies only the files that are new, "
     "and all databases; the former backup is replaced when this one is whole",
     false},
};

const struct subcommand backup_command = {
    .name = "backup",
    .operands = "DIR",
    .about =
        "Copies a data directory to DIR as it is at one moment, also while "
        "a broker\nruns. Meanwhile that broker deletes no files. Run it as "
        "the broker's user.",
    .options = {backup_rows, sizeof(backup_rows) / sizeof(backup_rows[0])},
    .operands_least = 1,
    .operands_most = 1,
    .run = run_backup,
    .size = sizeof(struct values),
};

/* Restore */

static int
restore_archive(const struct values *values)
{
    struct archive_options options = {
        .from = values->archive,
        .token_file = values->token_file,
        .data = values->data,
        .on_missing = print_missing,
        .user = (void *)(uintptr_t)&restore_command,
    };
    struct archive_report did;
    struct problem why = {""};
    enum status rc = archive_restore(&options, &did, &why);

    if (rc)
        return subcommand_fail(&restore_command, rc, &why);
    printf("restored %" PRIu64 " sets, %" PRIu64 " Change Lists, %" PRIu64
           " entries, but no settings and no tokens: set them before others "
           "reach the broker; to serve the sets:\ntidingsd --data %s\n",
           did.n_sets, did.n_lists, did.n_entries, options.data);
    if (subcommand_end(&restore_command) || did.n_missing > 0)
        return SUBCOMMAND_FAILED;
    return SUBCOMMAND_DONE;
}

static int
run_restore(const struct arguments *given, void *user)
{
    const struct values *values = user;
    struct restore_options options = {
        .data = values->data,
        .on_missing = print_missing,
        .on_damage = print_damage,
        .user = (void *)(uintptr_t)&restore_command,
    };
    struct restore_report did;
    struct problem why = {""};
    enum status rc;

    if (!values->data[0]) {
        problem_set(&why, "--data is missing: the new data directory");
        return subcommand_fail(&restore_command, STATUS_INVALID, &why);
    }
    if ((given->n_operands > 0) == (values->archive[0] != '\0')) {
        problem_set(&why, "it needs either DIR or --from-archive");
        return subcommand_fail(&restore_command, STATUS_INVALID, &why);
    }
    umask(S_IRWXG | S_IRWXO);
    if (values->archive[0])
        return restore_archive(values);
    options.dir = given->operands[0];
    rc = restore_make(&options, &did, &why);
    if (rc)
        return subcommand_fail(&restore_command, rc, &why);
    printf("restored %" PRIu64 " files of %" PRIu64 " bytes; to serve them:\n"
           "tidingsd --data %s\n",
           did.n_files, did.bytes, options.data);
    return end_command(&restore_command, did.n_missing);
}

static const struct option restore_rows[] = {
    SUBCOMMAND_HELP,
    {"data", "NEW", OPTION_TEXT, VALUE(data), NULL, NULL,
     "the new data directory: empty, or made", false},
    {"from-archive", "DIR|URL", OPTION_TEXT, VALUE(archive), NULL, NULL,
     "instead of a backup: published lists, as files anywhere in a "
     "directory, or of the broker, or the set, at that URL",
     false},
    {"token-file", "FILE", OPTION_TEXT, VALUE(token_file), NULL, NULL,
     "a token that may read the sets of that broker", false},
};

const struct subcommand restore_command = {
    .name = "restore",
    .operands = "[DIR]",
    .about =
        "Makes a data directory of the backup in DIR, and checks each file "
        "by its\ndigest. A broker there serves the same epochs, numbers "
        "and bytes.",
    .options = {restore_rows, sizeof(restore_rows) / sizeof(restore_rows[0])},
    .operands_least = 0,
    .operands_most = 1,
    .run = run_restore,
    .size = sizeof(struct values),
};

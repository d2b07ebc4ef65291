#include <sys/stat.h>

#include "broker/backup/archive_restore.h"
#include "broker/backup/backup.h"
#include "broker/backup/restore.h"
#include "broker/commands/command_rows.h"

struct values {
    char data[4096];
    char archive[4096];
    char token_file[4096];
    bool is_incremental;
};

#define ROW_OF struct values
#include "base/option_rows.h"

void
command_missing(const char *text, void *user)
{
    const struct command *command = user;

    fprintf(stderr, "tidingsd %s: missing: %s\n", command->name, text);
}

static void
print_damage(const char *text, void *user)
{
    const struct command *command = user;

    fprintf(stderr, "tidingsd %s: damaged: %s\n", command->name, text);
}

/* Returns the exit code of a command; a failure if files are missing. */
static enum exit_code
end_command(const struct command *command, uint64_t n_missing)
{
    if (n_missing == 0)
        return EXIT_GOOD;
    fflush(stdout);
    fprintf(stderr,
            "tidingsd %s: all else is there, but %" PRIu64
            " of the files named above cannot be read\n",
            command->name, n_missing);
    return EXIT_FAILED;
}

/* Backup */

static enum exit_code
run_backup(const struct arguments *given)
{
    const struct values *values = given->values;
    struct backup_options options = {
        .data = values->data,
        .dir = given->operands[0],
        .is_incremental = values->is_incremental,
        .on_missing = command_missing,
        .user = (void *)(uintptr_t)&backup_command,
    };
    struct backup_report did;
    struct problem why = {""};
    enum status rc;

    umask(S_IRWXG | S_IRWXO);
    rc = backup_make(&options, &did, &why);
    if (rc)
        return command_fail(given, rc, &why);
    printf("sets %" PRIu64 ", closed lists %" PRIu64 ", lists and dumps of "
           "resources %" PRIu64 ", files of content %" PRIu64
           ", databases %" PRIu64 "\n",
           did.n_sets, did.n_lists, did.n_builds, did.n_contents,
           did.n_databases);
    printf("copied %" PRIu64 " files of %" PRIu64 " bytes; the former backup "
           "has %" PRIu64 " more, of %" PRIu64 " bytes\n",
           did.n_copied, did.copied_bytes, did.n_kept, did.kept_bytes);
    if (did.n_remote > 0)
        printf("%" PRIu64 " files are in the bucket alone: a broker of this "
               "backup needs the same --archive\n",
               did.n_remote);
    printf("the backup is in %s; to make a data directory of it:\n"
           "tidingsd restore %s --data NEW\n",
           options.dir, options.dir);
    return end_command(&backup_command, did.n_missing);
}

static const struct option backup_rows[] = {
    {"data", "DIR", TEXT(data), "./tidings-data",
     "the data directory, also while a broker has it"},
    {"incremental", NULL, FLAG(is_incremental), NULL,
     "into a directory that has a backup: copies only the files that are new, "
     "and all databases; the former backup is replaced when this one is whole"},
};

const struct command backup_command = {
    .name = "backup",
    .operands = "DIR",
    .help = "Copies a data directory as it is at one moment.",
    .more = "The copy goes to DIR. A broker may run meanwhile, and deletes no "
            "files until it is done. Run it as the broker's user.\n",
    .examples =
        "tidingsd backup /backup/monday --data /var/lib/tidings\n"
        "tidingsd backup /backup/daily --incremental --data /var/lib/tidings\n",
    .options = OPTIONS(backup_rows),
    .run = run_backup,
    .size = sizeof(struct values),
};

/* Restore */

static enum exit_code
run_restore(const struct arguments *given)
{
    const struct values *values = given->values;
    struct restore_options options = {
        .data = values->data,
        .on_missing = command_missing,
        .on_damage = print_damage,
        .user = (void *)(uintptr_t)&restore_command,
    };
    struct archive_options from_archive = {
        .from = values->archive,
        .token_file = values->token_file,
        .data = values->data,
        .on_missing = command_missing,
        .user = (void *)(uintptr_t)&restore_command,
    };
    struct restore_report did;
    struct archive_report published;
    struct problem why = {""};
    enum status rc;

    if ((given->n_operands > 0) == (values->archive[0] != '\0')) {
        problem_set(&why, "it needs either DIR or --from-archive");
        return command_fail(given, STATUS_INVALID, &why);
    }
    umask(S_IRWXG | S_IRWXO);
    if (values->archive[0]) {
        rc = archive_restore(&from_archive, &published, &why);
        if (rc)
            return command_fail(given, rc, &why);
        printf("restored %" PRIu64 " sets, %" PRIu64 " Change Lists, %" PRIu64
               " entries, but no settings and no tokens: set them before "
               "others reach the broker; to serve the sets:\n"
               "tidingsd --data %s\n",
               published.n_sets, published.n_lists, published.n_entries,
               values->data);
        return published.n_missing > 0 ? EXIT_FAILED : EXIT_GOOD;
    }
    options.dir = given->operands[0];
    rc = restore_make(&options, &did, &why);
    if (rc)
        return command_fail(given, rc, &why);
    printf("restored %" PRIu64 " files of %" PRIu64 " bytes; to serve them:\n"
           "tidingsd --data %s\n",
           did.n_files, did.bytes, options.data);
    return end_command(&restore_command, did.n_missing);
}

static const struct option restore_rows[] = {
    {"data", "NEW", TEXT(data), NULL, "the new data directory: empty, or made",
     .is_required = true},
    {"from-archive", "DIR|URL", TEXT(archive), NULL,
     "instead of a backup: published lists, as files anywhere in a "
     "directory, or of the broker, or the set, at that URL"},
    {"token-file", "FILE", TEXT(token_file), NULL,
     "a token that may read the sets of that broker"},
};

const struct command restore_command = {
    .name = "restore",
    .operands = "[DIR]",
    .help = "Makes a data directory of a backup.",
    .more = "The backup is in DIR; each file is checked by its digest. A "
            "broker there serves the same epochs, numbers and bytes.\n",
    .examples =
        "tidingsd restore /backup/monday --data /var/lib/tidings\n"
        "tidingsd restore --from-archive https://example.org/ --data ./new\n",
    .options = OPTIONS(restore_rows),
    .run = run_restore,
    .size = sizeof(struct values),
};

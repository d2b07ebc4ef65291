#include <sys/stat.h>

#include "broker/backup/archive_restore.h"
#include "broker/backup/backup.h"
#include "broker/backup/copied_file.h"
#include "broker/backup/manifest.h"
#include "broker/backup/new_data.h"
#include "broker/commands/command_rows.h"

struct values {
    char data[4096];
    char archive[4096];
    char token_file[4096];
    bool is_incremental, is_same_log;
};

#define ROW_OF struct values
#include "base/option_rows.h"

void
command_missing(const char *text, void *user)
{
    const struct command *command = user;

    fprintf(stderr, "tidingsd %s: missing: %s\n", command->name, text);
}

enum exit_code
command_end_missing(const struct command *command, uint64_t n, const char *from)
{
    if (n == 0)
        return EXIT_GOOD;
    fflush(stdout);
    fprintf(stderr,
            "tidingsd %s: all else is there, but %" PRIu64
            " of the files named above cannot be read%s%s\n",
            command->name, n, *from ? " at " : "", from);
    return EXIT_FAILED;
}

/* Backup */

static enum exit_code
run_backup(const struct arguments *given)
{
    const struct values *values = given->values;
    struct backup_job did = {
        .data = values->data,
        .dir = given->operands[0],
        .is_incremental = values->is_incremental,
        .on_missing = command_missing,
        .user = (void *)(uintptr_t)&backup_command,
    };
    struct problem why = {""};
    enum status rc;

    umask(S_IRWXG | S_IRWXO);
    rc = backup_make(&did, &why);
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
           did.dir, did.dir);
    return command_end_missing(&backup_command, did.n_missing, "");
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
    .options = OPTION_ROWS(backup_rows),
    .run = run_backup,
};

/* Restore */

struct restore {
    const char *dir;  /* of the backup */
    const char *data; /* the new data directory */
    bool is_same_log;
    uint64_t n_files, bytes, n_missing, n_damaged;
};

static void
report_damage(struct restore *r, const char *path, const char *reason)
{
    r->n_damaged++;
    fprintf(stderr, "tidingsd restore: damaged: %s: %s\n", path, reason);
}

/* Goes on after a damaged file, to find the others. */
static enum status
restore_file(const struct manifest_file *file, void *user, struct problem *why)
{
    struct restore *r = user;
    struct file_path from =
        file_path("%s/" MANIFEST_FILE, r->dir, file->folder, file->path);
    struct problem reason = {""};
    struct digest digest;
    uint64_t size = 0;
    enum status rc = copied_file_make_dirs(r->data, file->path, why);

    if (rc)
        return rc;
    rc = copied_file_make(from.text,
                          file_path("%s/%s", r->data, file->path).text, false,
                          &digest, &size, &reason);
    if (rc == STATUS_GONE) {
        report_damage(r, from.text, reason.text);
        return STATUS_OK;
    }
    if (rc)
        return problem(why, rc, "%s", reason.text);
    if (!digest_is_equal(&digest, &file->digest))
        report_damage(r, from.text, "its bytes are not those of the backup");
    r->n_files++;
    r->bytes += size;
    return STATUS_OK;
}

static void
report_missing(const char *text, void *user)
{
    struct restore *r = user;

    r->n_missing++;
    command_missing(text, (void *)(uintptr_t)&restore_command);
}

/* Restores all files of a backup. After any failure the data directory is as it
 * was before. */
static enum status
restore_backup(struct restore *r, struct problem *why)
{
    const struct manifest_reader nothing = {.user = NULL},
                                 reader = {.on_file = restore_file,
                                           .on_missing = report_missing,
                                           .user = r};
    struct new_data data;
    /* Checks the manifest before the new directory is made. */
    enum status rc = manifest_read(r->dir, &nothing, why);

    if (rc == STATUS_NOT_FOUND && manifest_is_begun(r->dir))
        return problem(why, rc,
                       "%s has no backup: the first one was not finished",
                       r->dir);
    if (rc)
        return rc == STATUS_NOT_FOUND
                   ? problem_prefix(why, rc, "%s has no backup: ", r->dir)
                   : rc;
    rc = new_data_begin(&data, r->data, why);
    if (!rc)
        rc = manifest_read(r->dir, &reader, why);
    if (!rc && r->n_damaged > 0)
        rc = problem(why, STATUS_DIFFERENT,
                     "the backup %s is damaged: nothing was restored", r->dir);
    data.begins_epochs = !r->is_same_log;
    if (!rc)
        rc = new_data_end(&data, why);
    new_data_close(&data, rc);
    return rc;
}

static void
print_next(const struct values *values)
{
    if (values->is_same_log)
        printf("its sets go on with their epochs: a reader that has later "
               "entries than this copy misses others, which get the same "
               "numbers, and checkpoints of later entries are contradicted\n");
    else
        printf("its sets begin new epochs at the first start, because readers "
               "may have later entries: they take all resources anew (a copy "
               "of a cluster gets what it lacks instead)\n");
    printf("to serve them:\ntidingsd --data %s\n", values->data);
}

static enum exit_code
run_restore(const struct arguments *given)
{
    const struct values *values = given->values;
    struct restore did = {.dir = given->operands[0],
                          .data = values->data,
                          .is_same_log = values->is_same_log};
    struct archive_restore published = {
        .is_same_log = values->is_same_log,
        .from = values->archive,
        .token_file = values->token_file,
        .data = values->data,
        .on_missing = command_missing,
        .user = (void *)(uintptr_t)&restore_command,
    };
    struct problem why = {""};
    enum status rc;

    if ((given->n_operands > 0) == (values->archive[0] != '\0')) {
        problem_set(&why, "it needs either DIR or --from-archive");
        return command_fail(given, STATUS_INVALID, &why);
    }
    umask(S_IRWXG | S_IRWXO);
    if (values->archive[0]) {
        rc = archive_restore(&published, &why);
        if (rc)
            return command_fail(given, rc, &why);
        printf("restored %" PRIu64 " sets, %" PRIu64 " Change Lists, %" PRIu64
               " entries, but no settings and no tokens: set them before "
               "others reach the broker\n",
               published.n_sets, published.n_lists, published.n_entries);
        print_next(values);
        return published.n_missing > 0 ? EXIT_FAILED : EXIT_GOOD;
    }
    rc = restore_backup(&did, &why);
    if (rc)
        return command_fail(given, rc, &why);
    printf("restored %" PRIu64 " files of %" PRIu64 " bytes\n", did.n_files,
           did.bytes);
    print_next(values);
    return command_end_missing(&restore_command, did.n_missing, "");
}

static const struct option restore_rows[] = {
    {"data", "NEW", TEXT(data), NULL, "the new data directory: empty, or made",
     .is_required = true},
    {"from-archive", "DIR|URL", TEXT(archive), NULL,
     "instead of a backup: published lists, as files anywhere in a "
     "directory, or of the broker, or the set, at that URL"},
    {"token-file", "FILE", TEXT(token_file), NULL,
     "a token that may read the sets of that broker"},
    {"same-log", NULL, FLAG(is_same_log), NULL,
     "the sets go on with their epochs: only if nobody has read or seen signed "
     "what was posted after the backup"},
};

const struct command restore_command = {
    .name = "restore",
    .operands = "[DIR]",
    .help = "Makes a data directory of a backup.",
    .more = "The backup is in DIR; each file is checked by its digest. A "
            "broker there serves the same numbers and bytes. Its sets get new "
            "epochs, since readers may have entries that came after the "
            "backup: they take all resources anew. A copy of a cluster goes "
            "on with the epochs, and gets what it lacks from the others.\n",
    .examples =
        "tidingsd restore /backup/monday --data /var/lib/tidings\n"
        "tidingsd restore --from-archive https://example.org/ --data ./new\n",
    .options = OPTION_ROWS(restore_rows),
    .run = run_restore,
};

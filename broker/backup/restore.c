#include "broker/backup/restore.h"

#include "broker/backup/copied_file.h"
#include "broker/backup/manifest.h"
#include "broker/backup/new_data.h"

struct restore {
    const struct restore_options *options;
    struct restore_report *report;
    struct new_data data;
};

/* Files */

static void
report_damage(struct restore *r, const char *path, const char *reason)
{
    struct problem text;

    problem(&text, STATUS_DIFFERENT, "%s: %s", path, reason);
    r->report->n_damaged++;
    r->options->on_damage(text.text, r->options->user);
}

/* Goes on after a damaged file, to find the others. */
static enum status
restore_file(const struct manifest_file *file, void *user, struct problem *why)
{
    struct restore *r = user;
    char from[PATH_MAX], to[PATH_MAX];
    struct problem reason = {""};
    struct digest digest;
    uint64_t size = 0;
    enum status rc = copied_file_make_dirs(r->options->data, file->path, why);

    if (rc)
        return rc;
    snprintf(from, sizeof(from), "%s/" MANIFEST_FILE, r->options->dir,
             file->folder, file->path);
    snprintf(to, sizeof(to), "%s/%s", r->options->data, file->path);
    rc = copied_file_make(from, to, false, &digest, &size, &reason);
    if (rc == STATUS_GONE) {
        report_damage(r, from, reason.text);
        return STATUS_OK;
    }
    if (rc) {
        if (why)
            *why = reason;
        return rc;
    }
    if (!digest_is_equal(&digest, &file->digest))
        report_damage(r, from, "its bytes are not those of the backup");
    r->report->n_files++;
    r->report->bytes += size;
    return STATUS_OK;
}

static void
report_missing(const char *text, void *user)
{
    struct restore *r = user;

    r->report->n_missing++;
    r->options->on_missing(text, r->options->user);
}

enum status
restore_make(const struct restore_options *options,
             struct restore_report *report, struct problem *why)
{
    struct restore r = {
        .options = options, .report = report, .data = {.fd = -1, .lock = -1}};
    const struct manifest_reader nothing = {.user = NULL},
                                 reader = {.on_file = restore_file,
                                           .on_missing = report_missing,
                                           .user = &r};
    const char *dir = options->dir;
    /* Checks the manifest before the new directory is made. */
    enum status rc = manifest_read(dir, &nothing, why);

    *report = (struct restore_report){.n_files = 0};
    if (rc == STATUS_NOT_FOUND && manifest_is_begun(dir))
        return problem(why, rc,
                       "%s has no backup: the first one was not finished", dir);
    if (rc)
        return rc == STATUS_NOT_FOUND
                   ? problem_prefix(why, rc, "%s has no backup: ", dir)
                   : rc;
    rc = new_data_begin(&r.data, options->data, why);
    if (!rc)
        rc = manifest_read(dir, &reader, why);
    if (!rc && report->n_damaged > 0)
        rc = problem(why, STATUS_DIFFERENT,
                     "the backup %s is damaged: nothing was restored", dir);
    if (!rc)
        rc = new_data_end(&r.data, why);
    new_data_close(&r.data, rc);
    return rc;
}

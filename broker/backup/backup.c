#include "broker/backup/backup.h"

#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/access/checkpoint_keys.h"
#include "broker/backup/copied_file.h"
#include "broker/backup/manifest.h"
#include "broker/bucket/vault.h"
#include "broker/log/list_file.h"
#include "broker/log/log.h"
#include "broker/sets/links.h"
#include "broker/state/content.h"
#include "broker/state/content_files.h"
#include "broker/store/segments.h"
#include "broker/store/store_files.h"
#include "proto/ascii.h"
#include "proto/number.h"

#define LOG_FILE "tidings.db"

struct backup {
    struct backup_job *job;
    const char *dir; /* the job's, without a slash at its end */
    int dir_fd, lock, deletions;
    int segments;            /* the folder, while tidings.db is copied; or -1 */
    bool is_first;           /* there is no former backup */
    struct map former, here; /* files of the former backup, and of this one */
    unsigned folder;
    struct manifest_writer writer;
};

/* Paths */

static struct file_path
source_of(const struct backup *b, const char *path)
{
    return file_path("%s/%s", b->job->data, path);
}

static struct file_path
copy_of(const struct backup *b, unsigned folder, const char *path)
{
    return file_path("%s/" MANIFEST_FILE, b->dir, folder, path);
}

/* The number of a folder of a backup; 0: it is none. */
static unsigned
read_folder(const char *name)
{
    uint64_t number;

    return number_read(slice_of(name), &number) && number < UINT_MAX
               ? (unsigned)number
               : 0;
}

/* Files */

/* Deletes all files in folders of backups that `map` does not have. */
static void
prune(struct backup *b, struct map *map)
{
    size_t skipped = strlen(b->dir) + 1;
    char *roots[] = {(char *)(uintptr_t)b->dir, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *at;

    while (tree && (at = fts_read(tree))) {
        const char *name = at->fts_path + skipped, *slash;
        const struct manifest_entry *known;

        if (at->fts_level == 1 && !read_folder(at->fts_name)) {
            fts_set(tree, at, FTS_SKIP);
        } else if (at->fts_info == FTS_DP && at->fts_level > 0) {
            rmdir(at->fts_path); /* if it is empty */
        } else if (at->fts_level > 1 && at->fts_info != FTS_D) {
            slash = strchr(name, '/');
            known = manifest_find(map, slash + 1);
            if (!known || known->folder != strtoul(name, NULL, 10))
                unlink(at->fts_path);
        }
    }
    if (tree)
        fts_close(tree);
}

/* Copying */

/* A path that cannot stand in a line. */
static bool
is_odd(const char *path)
{
    return !ascii_is_line(path) || strchr(path, '\\') ||
           strlen(path) > MANIFEST_PATH_MAX;
}

static enum status
miss(struct backup *b, const char *path, const char *reason,
     struct problem *why)
{
    char quoted[MANIFEST_PATH_MAX + 1];
    struct problem text;

    snprintf(quoted, sizeof(quoted), "%s", path);
    problem(&text, STATUS_GONE, "%s: %s",
            is_odd(path) ? problem_quote(slice_of(path)).text : quoted, reason);
    b->job->n_missing++;
    b->job->on_missing(text.text, b->job->user);
    return manifest_add_line(&b->writer, why, MANIFEST_MISSING "%s: %s\n",
                             is_odd(path) ? "a file" : path, reason);
}

static enum status
add_file(struct backup *b, const char *path, const struct digest *digest,
         unsigned folder, struct problem *why)
{
    const struct manifest_file file = {*digest, folder, path};
    enum status rc = manifest_note(&file, &b->here, why);

    return rc ? rc : manifest_add(&b->writer, &file, why);
}

/* Makes the directories for a copy, and its name. */
static enum status
prepare_copy(struct backup *b, const char *path, struct file_path *to,
             struct problem *why)
{
    *to = copy_of(b, b->folder, path);
    return copied_file_make_dirs(
        b->dir, file_path(MANIFEST_FILE, b->folder, path).text, why);
}

/* Copies a file that never changes, or finds it in the former backup. `hash`
 * is the digest that it must have; NULL: any. STATUS_GONE: it cannot be read,
 * or has another digest. */
static enum status
copy_file(struct backup *b, const char *path, const struct digest *hash,
          struct problem *why)
{
    const struct manifest_entry *known = manifest_find(&b->former, path);
    struct file_path from = source_of(b, path), to;
    struct digest digest;
    uint64_t size = 0;
    enum status rc;

    if (known) {
        to = copy_of(b, known->folder, path);
        if (copied_file_is_same(from.text, to.text, &size)) {
            b->job->n_kept++;
            b->job->kept_bytes += size;
            return add_file(b, path, &known->digest, known->folder, why);
        }
    }
    rc = prepare_copy(b, path, &to, why);
    if (!rc)
        rc = copied_file_make(from.text, to.text, true, &digest, &size, why);
    if (rc)
        return rc;
    if (hash && !digest_is_equal(hash, &digest)) {
        unlink(to.text);
        return problem(why, STATUS_GONE,
                       "it is damaged: its bytes have another digest");
    }
    b->job->n_copied++;
    b->job->copied_bytes += size;
    return add_file(b, path, &digest, b->folder, why);
}

/* STATUS_GONE: it cannot be read, or is damaged. */
static enum status
copy_database(struct backup *b, const char *path, struct problem *why)
{
    struct file_path to;
    struct problem reason = {""};
    struct digest digest;
    uint64_t size = 0;
    enum status rc = prepare_copy(b, path, &to, why);

    if (!rc)
        rc = db_copy(source_of(b, path).text, to.text, why);
    if (!rc && !strcmp(path, LOG_FILE) && b->segments >= 0) {
        rc = store_files_gather(to.text, b->segments, &reason);
        if (rc)
            problem(why, rc, "%s", reason.text);
        if (rc && rc != STATUS_GONE)
            problem_prefix(why, rc, "cannot write %s: ", to.text);
    }
    if (!rc)
        rc = copied_file_digest(to.text, &digest, &size, why);
    if (rc)
        return rc;
    b->job->n_databases++;
    b->job->n_copied++;
    b->job->copied_bytes += size;
    return add_file(b, path, &digest, b->folder, why);
}

/* Copies a database, or a file that has the digest `hash` (NULL: any). The
 * backup reports a file that it cannot read as missing. STATUS_GONE: an upload
 * is not there any more. */
static enum status
take(struct backup *b, const char *path, bool is_database,
     const struct digest *hash, struct problem *why)
{
    enum status rc;

    if (b->job->is_stopped && b->job->is_stopped(b->job->user))
        return problem(why, STATUS_STOPPED, "the program is ending");
    if (is_odd(path))
        return miss(b, path, "its name is too odd", why);
    rc = is_database ? copy_database(b, path, why)
                     : copy_file(b, path, hash, why);
    if (rc == STATUS_GONE && slice_starts(slice_of(path), "uploads/") &&
        access(source_of(b, path).text, F_OK))
        return STATUS_GONE;
    return rc == STATUS_GONE ? miss(b, path, why->text, why) : rc;
}

/* Folders of the data directory */

typedef enum status name_fn(struct backup *b, const char *name,
                            struct problem *why);

/* Calls `fn` for "FOLDER/NAME" of each name, or for "NAME" if `folder` is "".
 * A missing folder has none. */
static enum status
each_name(struct backup *b, const char *folder, name_fn *fn,
          struct problem *why)
{
    struct file_path path = source_of(b, folder);
    const struct dirent *entry;
    enum status rc = STATUS_OK;
    DIR *dir = file_open_dir(AT_FDCWD, path.text, 0);

    if (!dir && errno == ENOENT)
        return STATUS_OK;
    if (!dir)
        return problem_errno(why, "cannot open", path.text);
    while (!rc && (entry = file_next(dir)))
        rc = fn(
            b,
            file_path("%s%s%s", folder, *folder ? "/" : "", entry->d_name).text,
            why);
    if (!rc && errno)
        rc = problem_errno(why, "cannot read", folder);
    closedir(dir);
    return rc;
}

/* Uploads under way (state/upload_file.h): the work on one may rename or delete
 * it at any moment, also between a look at it and its copy. So the copy is
 * tried first; only one that is still there and cannot be read is missing. */
static enum status
take_upload(struct backup *b, const char *path, struct problem *why)
{
    static const char whole[] = ".whole", taken[] = ".taken";
    char other[PATH_MAX];
    bool is_whole = slice_ends(slice_of(path), whole);
    enum status rc;

    if (!is_whole && !slice_ends(slice_of(path), taken))
        return STATUS_OK;
    rc = take(b, path, true, NULL, why);
    if (rc == STATUS_GONE && is_whole) {
        snprintf(other, sizeof(other), "%.*s%s",
                 (int)(strlen(path) - strlen(whole)), path, taken);
        rc = take(b, other, true, NULL, why);
    }
    /* Without either, its changes are in the log. */
    return rc == STATUS_GONE ? STATUS_OK : rc;
}

/* Any database but the log: also one that a later version adds. */
static enum status
take_if_database(struct backup *b, const char *path, struct problem *why)
{
    return slice_ends(slice_of(path), ".db") && strcmp(path, LOG_FILE) != 0
               ? take(b, path, true, NULL, why)
               : STATUS_OK;
}

static bool
is_folder(const struct backup *b, const char *path)
{
    struct stat st;

    return !stat(source_of(b, path).text, &st) && S_ISDIR(st.st_mode);
}

/* Full tiles never change, and there are at least those that a copy of tree.db
 * from before counts on. The others come with the next checkpoint file, which
 * is not copied either. */
static enum status
take_tile(struct backup *b, const char *path, struct problem *why)
{
    struct slice name = slice_of(path);

    if (slice_ends(name, ".p") || slice_ends(name, ".new"))
        return STATUS_OK;
    return is_folder(b, path) ? each_name(b, path, take_tile, why)
                              : take(b, path, false, NULL, why);
}

static enum status
take_set_databases(struct backup *b, const char *path, struct problem *why)
{
    enum status rc = is_folder(b, path)
                         ? each_name(b, path, take_if_database, why)
                         : STATUS_OK;

    return rc ? rc
              : each_name(b, file_path("%s/" LOG_TILES, path).text, take_tile,
                          why);
}

/* Files that the log names */

struct contents_of {
    struct backup *b;
    const char *set;
};

static struct file_path
name_of_content(const char *set, const struct digest *digest)
{
    struct digest_text hex = digest_text(digest);
    const char *digits = strchr(hex.text, ':') + 1;

    return file_path("sets/%s/" LOG_CONTENT "/%.2s/%s", set, digits, digits);
}

/* Reports a file that content.db has and the folder has not. */
static enum status
check_content(const struct digest *digest, void *user, struct problem *why)
{
    const struct contents_of *c = user;
    struct file_path path = name_of_content(c->set, digest);
    struct file_path from = source_of(c->b, path.text);

    if (manifest_find(&c->b->here, path.text) || !access(from.text, F_OK) ||
        vault_size(AT_FDCWD, from.text) > 0)
        return STATUS_OK;
    return miss(c->b, path.text, strerror(errno), why);
}

/* Takes a file, or its stub, which is as good as a copy. */
static enum status
take_archived(struct backup *b, struct file_path path,
              const struct digest *digest, struct problem *why)
{
    bool is_remote = vault_size(AT_FDCWD, source_of(b, path.text).text) > 0;

    if (is_remote)
        path = file_path("%s" VAULT_STUB, path.text);
    b->job->n_remote += is_remote;
    return take(b, path.text, false, is_remote ? NULL : digest, why);
}

static enum status
take_content(const struct digest *digest, void *user, struct problem *why)
{
    const struct contents_of *c = user;

    c->b->job->n_contents++;
    return take_archived(c->b, name_of_content(c->set, digest), digest, why);
}

static enum status
on_set(const char *name, const char *epoch, uint64_t last, void *user,
       struct problem *why)
{
    struct backup *b = user;
    struct contents_of contents = {b, name};
    struct file_path dir = file_path("%s/sets/%s", b->job->data, name);
    struct file_path folder = file_path("%s/" LOG_CONTENT, dir.text);
    struct file_path path = file_path("sets/%s/" CONTENT_FILE, name);
    enum status rc = manifest_add_line(
        &b->writer, why, "# set %s %s-%" PRIu64 "\n", name, epoch, last);

    b->job->n_sets++;
    for (unsigned i = 0;
         !rc && !access(folder.text, F_OK) && i < CONTENT_FOLDERS; i++)
        rc = content_files_each(dir.text, i, take_content, &contents, why);
    if (rc || !manifest_find(&b->here, path.text))
        return rc;
    return content_each_file(copy_of(b, b->folder, path.text).text,
                             check_content, &contents, why);
}

static enum status
on_list(const char *name, uint64_t number, void *user, struct problem *why)
{
    struct backup *b = user;
    char file[LIST_FILE_NAME_MAX];

    list_file_name(file, number);
    b->job->n_lists++;
    return take_archived(b, file_path("sets/%s/" LOG_CHANGES "/%s", name, file),
                         NULL, why);
}

static enum status
take_part(struct backup *b, const char *path, struct problem *why)
{
    b->job->n_remote += slice_ends(slice_of(path), VAULT_STUB);
    return slice_ends(slice_of(path), ".new") ||
                   vault_size(AT_FDCWD, source_of(b, path).text) > 0
               ? STATUS_OK
               : take(b, path, false, NULL, why);
}

/* A former generation may be gone already. */
static enum status
on_generation(const char *name, enum generation_kind kind, uint64_t number,
              bool is_served, void *user, struct problem *why)
{
    struct backup *b = user;
    struct file_path path = file_path("sets/%s/%s/%012" PRIu64, name,
                                      links_kinds[kind].folder, number);

    if (access(source_of(b, path.text).text, F_OK))
        return is_served ? miss(b, path.text, strerror(errno), why) : STATUS_OK;
    b->job->n_builds++;
    return each_name(b, path.text, take_part, why);
}

/* In the order that backup.h explains. */
static enum status
take_all(struct backup *b, struct problem *why)
{
    const struct store_files files = {
        .on_set = on_set,
        .on_list = on_list,
        .on_generation = on_generation,
        .user = b,
    };
    struct problem reason = {""};
    enum status rc = each_name(b, "uploads", take_upload, why);

    if (!rc)
        rc = each_name(b, "sets", take_set_databases, why);
    if (!rc)
        rc = each_name(b, "", take_if_database, why);
    if (!rc) {
        rc = segments_share(b->job->data, &b->segments, &reason);
        if (!rc)
            rc = copy_database(b, LOG_FILE, &reason);
        file_close(&b->segments);
        if (rc)
            *why = reason;
        if (rc == STATUS_GONE)
            rc = problem(why, STATUS_IO, "%s cannot be copied: %s",
                         source_of(b, LOG_FILE).text, reason.text);
    }
    if (!rc)
        rc =
            store_files_each(copy_of(b, b->folder, LOG_FILE).text, &files, why);
    /* sets/data_directory.h */
    if (!rc && !access(source_of(b, "public-url").text, F_OK))
        rc = take(b, "public-url", false, NULL, why);
    if (!rc && !access(source_of(b, CHECKPOINT_KEYS_FILE).text, F_OK))
        rc = take(b, CHECKPOINT_KEYS_FILE, false, NULL, why);
    return rc;
}

/* The directory of the backup */

static enum status
read_former(struct backup *b, struct problem *why)
{
    const struct manifest_reader reader = {.on_file = manifest_note,
                                           .user = &b->former};
    enum status rc = manifest_read(b->dir, &reader, why);

    b->is_first = rc == STATUS_NOT_FOUND;
    return b->is_first ? STATUS_OK : rc;
}

/* Finds the number of the next folder. Fails if the directory has other files
 * than those of backups. */
static enum status
look_at_names(struct backup *b, struct problem *why)
{
    const char *dir = b->dir;
    bool is_ours = !b->is_first || manifest_is_begun(dir);
    const struct dirent *entry;
    enum status rc = STATUS_OK;
    DIR *names = file_open_dir(AT_FDCWD, dir, 0);

    if (!names)
        return problem_errno(why, "cannot open", dir);
    while (!rc && (entry = file_next(names))) {
        unsigned folder = read_folder(entry->d_name);

        if (folder >= b->folder)
            b->folder = folder + 1;
        if (!is_ours && entry->d_name[0] != '.' &&
            strcmp(entry->d_name, "lock") != 0 &&
            strcmp(entry->d_name, "lost+found") != 0)
            rc = problem(why, STATUS_INVALID,
                         "%s is not empty, and is no backup: it has %s", dir,
                         problem_quote(slice_of(entry->d_name)).text);
    }
    closedir(names);
    return rc;
}

static enum status
open_dir(struct backup *b, struct problem *why)
{
    const char *dir = b->dir;
    enum status rc = file_make_dirs(dir, why);

    b->folder = 1;
    if (!rc)
        rc = read_former(b, why);
    if (!rc && !b->is_first && !b->job->is_incremental)
        rc = problem(why, STATUS_INVALID,
                     "%s has a backup: --incremental adds what is new", dir);
    if (!rc)
        rc = look_at_names(b, why);
    if (!rc)
        rc = file_lock(dir, &b->lock, why);
    return rc ? rc : file_open_folder(AT_FDCWD, dir, &b->dir_fd, why);
}

/* With the lock: another backup may have ended meanwhile, so it reads the
 * manifest again. */
static enum status
write_backup(struct backup *b, struct problem *why)
{
    enum status rc;

    manifest_forget(&b->former);
    rc = read_former(b, why);
    if (!rc)
        rc = look_at_names(b, why);
    if (!rc)
        rc = manifest_begin(&b->writer, b->dir_fd, why);
    if (rc)
        return rc;
    prune(b, &b->former);
    rc = file_share_folder(b->job->data, &b->deletions, why);
    if (!rc)
        rc = take_all(b, why);
    file_close(&b->deletions);
    if (!rc && syncfs(b->dir_fd))
        rc = problem_errno(why, "cannot sync", b->dir);
    if (!rc)
        rc = manifest_finish(&b->writer, why);
    else
        manifest_abandon(&b->writer);
    prune(b, rc ? &b->former : &b->here);
    return rc;
}

enum status
backup_make(struct backup_job *job, struct problem *why)
{
    char dir[PATH_MAX];
    struct backup b = {
        .job = job,
        .dir = dir,
        .dir_fd = -1,
        .lock = -1,
        .deletions = -1,
        .segments = -1,
        .writer.file.fd = -1,
    };
    enum status rc = STATUS_OK;

    snprintf(dir, sizeof(dir), "%s", job->dir);
    for (size_t n = strlen(dir); n > 1 && dir[n - 1] == '/';)
        dir[--n] = '\0'; /* prune counts on it */
    if (access(source_of(&b, LOG_FILE).text, F_OK)) {
        problem_errno(why, "cannot open", source_of(&b, LOG_FILE).text);
        rc = problem_prefix(why, STATUS_IO,
                            "%s is no data directory: ", job->data);
    }
    if (!rc)
        rc = open_dir(&b, why);
    if (!rc)
        rc = write_backup(&b, why);
    if (rc && b.is_first && b.dir_fd >= 0) {
        /* Leaves no directory behind that had no backup and has none now. */
        unlinkat(b.dir_fd, "lock", 0);
        rmdir(dir);
    }
    file_close(&b.dir_fd);
    file_close(&b.lock);
    manifest_forget(&b.former);
    manifest_forget(&b.here);
    return rc;
}

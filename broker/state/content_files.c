#include "broker/state/content_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/bucket/vault.h"
#include "broker/state/content.h"

/* Hexadecimal digits of a name. */
#define NAME_DIGITS (2 * DIGEST_SIZE)

static enum status
fail_file(struct problem *why, const char *what, const char *name)
{
    enum status rc =
        errno == ENOSPC || errno == EDQUOT ? STATUS_BUSY : STATUS_IO;

    problem_errno(why, what, name);
    return rc;
}

/* Arriving */

static void
forget_arriving(struct arriving *a)
{
    file_close(&a->fd);
    digest_check_free(a->digests);
    a->digests = NULL;
}

enum status
arriving_begin(struct arriving *a, const char *folder, struct slice hash,
               uint64_t length, struct problem *why)
{
    struct file_path path = file_path("%s/XXXXXX", folder);
    int fd = mkostemp(path.text, O_CLOEXEC);

    *a = (struct arriving){.fd = -1};
    if (fd < 0)
        return fail_file(why, "cannot make a file in", folder);
    *a = (struct arriving){.folder = folder,
                           .digests = digest_check_new(hash, length, true),
                           .fd = fd};
    memcpy(a->name, path.text + strlen(folder) + 1, sizeof("XXXXXX"));
    return STATUS_OK;
}

enum status
arriving_add(struct arriving *a, struct slice bytes, struct problem *why)
{
    enum status rc = digest_check_add(a->digests, bytes, why);

    if (!rc && file_write(a->fd, bytes))
        return fail_file(why, "cannot write what arrives in", a->folder);
    a->length += bytes.size;
    return rc;
}

enum status
arriving_end(struct arriving *a, struct problem *why)
{
    enum status rc = digest_check_end(a->digests, why);

    if (!rc && fsync(a->fd))
        rc = fail_file(why, "cannot write what arrives in", a->folder);
    if (!rc)
        digest_check_sha256(a->digests, &a->digest);
    forget_arriving(a);
    return rc;
}

void
arriving_abandon(struct arriving *a)
{
    if (!a->folder)
        return; /* zeroed */
    forget_arriving(a);
    if (a->name[0])
        unlink(file_path("%s/%s", a->folder, a->name).text);
    a->name[0] = '\0';
}

enum status
arriving_clear(const char *folder, struct problem *why)
{
    enum status rc = file_make_dirs(folder, why);
    DIR *dir = rc ? NULL : file_open_dir(AT_FDCWD, folder, 0);
    const struct dirent *entry;

    if (!rc && !dir)
        rc = fail_file(why, "cannot open", folder);
    while (!rc && (entry = file_next(dir)))
        if (entry->d_name[0] != '.' && unlinkat(dirfd(dir), entry->d_name, 0))
            rc = fail_file(why, "cannot remove", entry->d_name);
    if (dir)
        closedir(dir);
    return rc;
}

/* Names */

static struct file_path
path_of_folder(const char *set_dir, unsigned folder)
{
    return file_path("%s/" CONTENT_FOLDER "/%02x", set_dir, folder & 0xff);
}

static struct file_path
path_of(const char *set_dir, const struct digest *digest)
{
    return file_path("%s/" CONTENT_FOLDER "/%02x/%s", set_dir, digest->bytes[0],
                     digest_text(digest).text + DIGEST_TEXT_SIZE - NAME_DIGITS);
}

/* Placing */

/* Makes the folder of a file, for this user alone: file_make_dirs would open it
 * to those who may read lists. */
static enum status
make_folder(const char *set_dir, const struct digest *digest,
            struct problem *why)
{
    struct file_path path = file_path("%s/" CONTENT_FOLDER, set_dir);
    enum status rc = file_make_dirs(set_dir, why);

    for (int i = 0; !rc && i < 2; i++) {
        if (mkdir(path.text, 0700) && errno != EEXIST)
            rc = fail_file(why, "cannot make", path.text);
        path = path_of_folder(set_dir, digest->bytes[0]);
    }
    return rc;
}

enum status
content_file_place(const char *set_dir, struct arriving *a, struct problem *why)
{
    struct file_path from = file_path("%s/%s", a->folder, a->name);
    struct file_path to = path_of(set_dir, &a->digest);
    enum status rc;

    if (rename(from.text, to.text)) {
        if (errno != ENOENT)
            return fail_file(why, "cannot make", to.text);
        rc = make_folder(set_dir, &a->digest, why);
        if (!rc && rename(from.text, to.text))
            rc = fail_file(why, "cannot make", to.text);
        if (rc)
            return rc;
    }
    a->name[0] = '\0';
    return STATUS_OK;
}

void
content_touch(struct content_touched *touched, const struct digest *digest)
{
    touched->bits[digest->bytes[0] / 8] |=
        (uint8_t)(1u << digest->bytes[0] % 8);
}

/* Syncs the files first, then the folders: another thread may have made a
 * folder whose name is not on the disk yet. */
enum status
content_files_sync(const char *set_dir, const struct content_touched *touched,
                   struct problem *why)
{
    enum status rc = STATUS_OK;
    bool is_any = false;

    for (unsigned i = 0; !rc && i < CONTENT_FOLDERS; i++) {
        if (!(touched->bits[i / 8] & 1u << i % 8))
            continue;
        is_any = true;
        rc = file_sync_path(path_of_folder(set_dir, i).text, why);
    }
    if (!rc && is_any)
        rc = file_sync_path(file_path("%s/" CONTENT_FOLDER, set_dir).text, why);
    if (!rc && is_any)
        rc = file_sync_path(set_dir, why);
    return rc;
}

/* Reading */

static enum status
not_there(const char *path, struct problem *why)
{
    if (errno == ENOENT)
        return problem(why, STATUS_NOT_FOUND, "%s is not there", path);
    return fail_file(why, "cannot open", path);
}

/* Opens the folder of a file. */
static enum status
open_folder(const char *set_dir, const struct digest *digest, int *dir_fd,
            struct problem *why)
{
    struct file_path path = path_of_folder(set_dir, digest->bytes[0]);

    *dir_fd = open(path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *dir_fd < 0 ? not_there(path.text, why) : STATUS_OK;
}

enum status
content_file_store(const char *set_dir, const struct digest *digest,
                   uint64_t length, bool is_there, struct problem *why)
{
    struct file_path path = path_of(set_dir, digest);
    int dir_fd;
    enum status rc = make_folder(set_dir, digest, why);

    if (!rc) /* syncs their names */
        rc =
            file_make_dirs(path_of_folder(set_dir, digest->bytes[0]).text, why);
    if (!rc)
        rc = open_folder(set_dir, digest, &dir_fd, why);
    if (rc)
        return rc;
    rc =
        vault_store(dir_fd, strrchr(path.text, '/') + 1, length, is_there, why);
    close(dir_fd);
    return rc;
}

enum status
content_file_open(const char *set_dir, const struct digest *digest, int *fd,
                  uint64_t *length, struct problem *why)
{
    struct file_path path = path_of(set_dir, digest);
    struct stat st;
    int dir_fd;
    enum status rc = open_folder(set_dir, digest, &dir_fd, why);

    if (!rc)
        rc = vault_file(dir_fd, strrchr(path.text, '/') + 1, fd, why);
    file_close(&dir_fd);
    if (!rc && fstat(*fd, &st)) {
        rc = fail_file(why, "cannot open", path.text);
        file_close(fd);
    }
    if (!rc)
        *length = (uint64_t)st.st_size;
    return rc;
}

enum status
content_file_read(const char *set_dir, const struct digest *digest,
                  struct buf *to, struct problem *why)
{
    struct digest found = {{0}};
    uint64_t length;
    char *at = NULL;
    int fd;
    enum status rc = content_file_open(set_dir, digest, &fd, &length, why);

    if (rc)
        return rc;
    if (length <= CONTENT_CARRIED_MAX)
        at = buf_room(to, (size_t)length + 1);
    if (!at) {
        rc = problem(why, STATUS_TOO_LARGE,
                     "in a cluster the content of a resource has at most "
                     "%" PRIu64 " bytes, and that of a post %zu, unless it "
                     "has --cluster-bytes s3://",
                     CONTENT_CARRIED_MAX, CONTENT_POST_MAX);
    } else if (file_read_at(fd, at, (size_t)length, 0)) {
        digest_sha256(&found, (struct slice){at, (size_t)length});
        to->size += (size_t)length;
    }
    file_close(&fd);
    if (!rc && !digest_is_equal(&found, digest))
        rc = problem(why, STATUS_IO, "kept content is damaged");
    return rc;
}

enum status
content_file_look(const char *set_dir, const struct digest *digest,
                  uint64_t *length, struct problem *why)
{
    struct file_path path = path_of(set_dir, digest);
    struct stat st;

    *length = vault_size(AT_FDCWD, path.text);
    if (*length > 0)
        return STATUS_OK;
    if (lstat(path.text, &st))
        return not_there(path.text, why);
    if (!S_ISREG(st.st_mode))
        return problem(why, STATUS_IO, "%s is no file", path.text);
    *length = (uint64_t)st.st_size;
    return STATUS_OK;
}

enum status
content_file_unlink(const char *set_dir, const struct digest *digest,
                    bool is_loose, struct problem *why)
{
    struct file_path path = path_of(set_dir, digest);
    struct file_path stub = file_path("%s" VAULT_STUB, path.text);

    if ((unlink(path.text) && errno != ENOENT) ||
        (unlink(stub.text) && errno != ENOENT))
        return fail_file(why, "cannot remove", path.text);
    if (is_loose) /* also if a pin that ended has deleted the stub */
        vault_loosen(strrchr(stub.text, '/') + 1);
    return STATUS_OK;
}

enum status
content_files_each(const char *set_dir, unsigned folder, content_file_fn *fn,
                   void *user, struct problem *why)
{
    struct file_path path = path_of_folder(set_dir, folder);
    char name[NAME_DIGITS + 1], text[DIGEST_TEXT_SIZE + 1];
    const struct dirent *entry;
    struct digest digest;
    enum status rc = STATUS_OK;
    DIR *dir;

    dir = file_open_dir(AT_FDCWD, path.text, 0);
    if (!dir)
        return errno == ENOENT ? STATUS_OK
                               : fail_file(why, "cannot open", path.text);
    while (!rc && (entry = file_next(dir))) {
        bool is_stub = slice_ends(slice_of(entry->d_name), VAULT_STUB);
        size_t n = strlen(entry->d_name) - is_stub * strlen(VAULT_STUB);

        snprintf(name, sizeof(name), "%.*s", NAME_DIGITS, entry->d_name);
        if (n != NAME_DIGITS ||
            (is_stub && !faccessat(dirfd(dir), name, F_OK, 0)))
            continue; /* once, by the file, if there are both */
        snprintf(text, sizeof(text), "sha-256:%.*s", NAME_DIGITS,
                 entry->d_name);
        if (digest_read(slice_of(text), &digest))
            continue;
        if (!strcmp(text, digest_text(&digest).text) && /* a name of ours */
            digest.bytes[0] == folder)
            rc = fn(&digest, user, why);
    }
    closedir(dir);
    return rc;
}

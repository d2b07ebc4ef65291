#include "broker/sets/data_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/log/log.h"
#include "broker/sets/links.h"

/* Its readers */

/* data/sets/NAME/FOLDER: the depth of FOLDER below the data directory. */
#define FOLDER_DEPTH 3

static bool
is_of_lists(const char *name)
{
    if (!strcmp(name, LOG_CHANGES) || !strcmp(name, LOG_TILES))
        return true;
    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        if (!strcmp(name, links_kinds[kind].folder))
            return true;
    return false;
}

mode_t
data_directory_others(enum data_directory_place place, bool is_dir,
                      mode_t passing)
{
    if (place == DATA_DIRECTORY_LISTS)
        return is_dir ? passing | passing << 2 : passing << 2;
    return is_dir && place == DATA_DIRECTORY_WAY ? passing : 0;
}

/* The place of an entry: `has_lists`: it is of a folder of lists. */
static enum data_directory_place
place_of(unsigned depth, bool has_lists)
{
    if (has_lists)
        return DATA_DIRECTORY_LISTS;
    return depth < FOLDER_DEPTH ? DATA_DIRECTORY_WAY : DATA_DIRECTORY_OTHER;
}

/* Keeps S_ISGID: an administrator has files of a certain group made by it. */
static enum status
set_dir_mode(int fd, mode_t permissions, struct problem *why)
{
    struct stat st;

    if (!fstat(fd, &st) && !fchmod(fd, (st.st_mode & 07000) | permissions))
        return STATUS_OK;
    return problem_errno(why, "cannot set the mode of", "a directory");
}

static enum status settle_entries(int fd, unsigned depth, bool has_lists,
                                  mode_t passing, struct problem *why);

/* Sets the mode of a file, or those of a directory below the data directory and
 * of all files in it. Other users may pass the directories that lead to the
 * lists. The owner's rights to a file stay: it need not be one that the broker
 * made. Skips files and directories of other users, such as lost+found. Follows
 * no symbolic link: an administrator made it, and sets the modes of its
 * target. */
static enum status
settle_entry(int above_fd, const char *name, unsigned depth, bool has_lists,
             mode_t passing, struct problem *why)
{
    struct stat st;
    mode_t others;
    enum status rc;
    int fd;

    if (fstatat(above_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        goto failed;
    if (st.st_uid != geteuid())
        return STATUS_OK;
    if (!S_ISDIR(st.st_mode)) {
        others =
            data_directory_others(place_of(depth, has_lists), false, passing);
        if (!S_ISREG(st.st_mode) ||
            !fchmodat(above_fd, name, (st.st_mode & S_IRWXU) | others, 0))
            return STATUS_OK;
        goto failed;
    }
    depth++;
    has_lists |= depth == FOLDER_DEPTH && is_of_lists(name);
    others = data_directory_others(place_of(depth, has_lists), true, passing);
    fd =
        openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return problem_errno(why, "cannot open", name);
    rc = settle_entries(fd, depth, has_lists, passing, why);
    if (!rc)
        rc = set_dir_mode(fd, S_IRWXU | others, why);
    close(fd);
    return rc;

failed:
    if (errno == ENOENT)
        return STATUS_OK;
    return problem_errno(why, "cannot set the mode of", name);
}

/* Sets the modes of all entries of `fd`, which is `depth` below the data
 * directory. */
static enum status
settle_entries(int fd, unsigned depth, bool has_lists, mode_t passing,
               struct problem *why)
{
    DIR *dir = file_open_dir(fd, ".", 0);
    const struct dirent *entry;
    enum status rc = STATUS_OK;

    if (!dir)
        return problem_errno(why, "cannot read", "a directory");
    while (!rc && (entry = file_next(dir)))
        rc = settle_entry(fd, entry->d_name, depth, has_lists, passing, why);
    closedir(dir);
    return rc;
}

void
data_directory_set_readers(const char *dir, enum list_readers readers)
{
    /* The bits of other users: to pass a directory, to read a list. */
    static const mode_t bits[] = {
        [READERS_OWNER] = 0,
        [READERS_GROUP] = S_IXGRP,
        [READERS_ALL] = S_IXGRP | S_IXOTH,
    };
    mode_t passing = bits[readers];
    struct problem why = {""};
    struct stat st;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status rc = STATUS_OK;

    if (fd < 0 || fstat(fd, &st)) {
        rc = problem_errno(&why, "cannot open", dir);
    } else if ((st.st_mode & 0777) != (S_IRWXU | passing)) {
        /* The data directory is closed to others first and opened last: if this
         * ends halfway, nobody else can reach the files, and before it is
         * opened, the next start begins again. */
        rc = set_dir_mode(fd, S_IRWXU, &why);
        if (!rc)
            rc = settle_entries(fd, 0, false, passing, &why);
        if (!rc)
            rc = set_dir_mode(fd, S_IRWXU | passing, &why);
    }
    if (rc)
        DIAG(DIAG_WARNING, "sets",
             "the permissions of the data directory are not as wanted",
             diag_text("error", why.text));
    file_close(&fd);
}

/* Its public URL */

#define NAME "public-url"

/* A public URL has 511 bytes at most. */
#define LINE_MAX_SIZE 1024

enum status
data_directory_read_url(const char *dir, char *url, size_t size,
                        struct problem *why)
{
    struct file_path path = file_path("%s/" NAME, dir);
    ssize_t n = file_read(AT_FDCWD, path.text, url, size - 1);

    url[n > 0 ? n : 0] = '\0';
    url[strcspn(url, "\n")] = '\0';
    if (n < 0 && errno != ENOENT)
        return problem_errno(why, "cannot read", path.text);
    return n < 0 ? problem(why, STATUS_NOT_FOUND,
                           "%s was served under no URL yet: --public-url names "
                           "it",
                           dir)
                 : STATUS_OK;
}

void
data_directory_remember_url(const char *dir, const char *url)
{
    struct problem why = {""};
    char last[LINE_MAX_SIZE];
    enum status rc = data_directory_read_url(dir, last, sizeof(last), &why);

    if (rc && rc != STATUS_NOT_FOUND)
        goto out;
    if (!strcmp(last, url))
        goto out;
    if (last[0])
        diag(DIAG_WARNING, "sets",
             "the public URL was %s and is %s now: lists that were closed "
             "before name the old one for ever, and are served under the new "
             "one",
             last, url);
    snprintf(last, sizeof(last), "%s\n", url);
    rc = file_store_in(dir, NAME, slice_of(last), false, &why);

out:
    /* Not worth a failure: at worst the next start warns again. */
    if (rc)
        diag(DIAG_WARNING, "sets", "the public URL is not remembered: %s",
             why.text);
}

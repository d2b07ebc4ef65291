/*
 * shelf_read.c - walks a mirror's directory, and reads its files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "client/mirror/shelf_inside.h"

#define READ_BYTES 65536

/* Our own paths are below these limits; a deeper tree counts as one object. */
#define WALK_DEPTH_MAX 500
#define WALK_PATH_MAX  4096

static bool
digest_of(int dir_fd, const char *name, shelf_go_on_fn *go_on, void *user,
          char to[SHELF_DIGEST_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    unsigned char bytes[READ_BYTES];
    bool is_good = false;
    ssize_t n = -1;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int fd = openat(dir_fd, name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || !context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL))
        goto out;
    while ((n = read(fd, bytes, sizeof(bytes)))) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !EVP_DigestUpdate(context, bytes, (size_t)n) ||
            (go_on && !go_on(user)))
            goto out;
    }
    if (!EVP_DigestFinal_ex(context, digest, &size))
        goto out;
    strcpy(to, "sha-256:");
    for (unsigned i = 0; i < size; i++)
        snprintf(to + 8 + 2 * i, 3, "%02x", digest[i]);
    is_good = true;
out:
    EVP_MD_CTX_free(context);
    if (fd >= 0)
        close(fd);
    return is_good;
}

bool
shelf_digest_file(int dir_fd, const char *name, char to[SHELF_DIGEST_SIZE])
{
    return digest_of(dir_fd, name, NULL, NULL, to);
}

bool
shelf_digest(const struct shelf *shelf, const char *path, shelf_go_on_fn *go_on,
             void *user, char to[SHELF_DIGEST_SIZE])
{
    const char *name;
    int fd = shelf_directory(shelf, path, &name);
    bool is_good;

    if (fd < 0)
        return false;
    is_good = digest_of(fd, name, go_on, user, to);
    close(fd);
    return is_good;
}

struct walk {
    shelf_walk_fn *fn;
    void *user;
    char path[WALK_PATH_MAX];
    size_t size;
    unsigned depth;
};

static bool walk_directory(struct walk *walk, int fd);

/* Visits `name` of the directory `fd`; walk->path ends with it. */
static bool
walk_one(struct walk *walk, int fd, const char *name)
{
    struct stat st;
    int below;

    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT;
    if (!S_ISDIR(st.st_mode))
        return walk->fn(walk->path,
                        S_ISREG(st.st_mode) ? SHELF_FILE : SHELF_OTHER,
                        walk->user);
    if (walk->depth >= WALK_DEPTH_MAX)
        return walk->fn(walk->path, SHELF_OTHER, walk->user);
    below = shelf_open_in(fd, name);
    return below >= 0 && walk_directory(walk, below);
}

/* Visits the entries of `fd`, and closes it. */
static bool
walk_directory(struct walk *walk, int fd)
{
    DIR *dir = fdopendir(fd);
    size_t size = walk->size;
    bool is_good = true;
    struct dirent *entry;

    if (!dir) {
        close(fd);
        return false;
    }
    walk->depth++;
    while (is_good && (errno = 0, entry = readdir(dir))) {
        const char *name = entry->d_name;
        int n;

        if (!strcmp(name, ".") || !strcmp(name, "..") ||
            (walk->depth == 1 && !strcmp(name, SHELF_STATE_NAME)))
            continue;
        n = snprintf(walk->path + size, sizeof(walk->path) - size, "%s%s",
                     size ? "/" : "", name);
        if (n < 0 || (size_t)n >= sizeof(walk->path) - size) {
            errno = ENAMETOOLONG;
            is_good = false;
            break;
        }
        walk->size = size + (size_t)n;
        is_good = walk_one(walk, dirfd(dir), name);
    }
    is_good = is_good && errno == 0;
    walk->size = size;
    walk->path[size] = '\0';
    walk->depth--;
    closedir(dir);
    return is_good;
}

bool
shelf_walk(struct shelf *shelf, shelf_walk_fn *fn, void *user)
{
    struct walk walk = {.fn = fn, .user = user};
    int fd = openat(shelf->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 && walk_directory(&walk, fd);
}

/*
 * directory_tree.c - reads the watched directory on the disk.
 */
#include "client/watch/directory_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK)

/* A folder on the way to another one needs no right to be read. */
#define PASSAGE (O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

bool
directory_tree_open(struct directory_tree *tree, const char *dir,
                    struct problem *why)
{
    struct stat st;

    *tree = (struct directory_tree){.dir = dir, .root = -1, .parent = -1};
    tree->root = open(dir, FOLDER);
    if (tree->root < 0 || fstat(tree->root, &st)) {
        problem(why, STATUS_IO, "cannot read %s: %s", dir, strerror(errno));
        directory_tree_rest(tree);
        return false;
    }
    tree->dev = st.st_dev;
    tree->ino = st.st_ino;
    return true;
}

void
directory_tree_close(struct directory_tree *tree)
{
    directory_tree_rest(tree);
}

static void
close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void
directory_tree_rest(struct directory_tree *tree)
{
    close_fd(&tree->parent);
    close_fd(&tree->root);
}

/* True for errors that prove the absence; an error of the disk does not. */
static bool
means_absent(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* Opens the directory, unless it is open. */
static enum directory_tree_result
open_root(struct directory_tree *tree)
{
    struct stat st;

    if (tree->root >= 0)
        return DIRECTORY_TREE_FOUND;
    tree->root = open(tree->dir, FOLDER);
    if (tree->root < 0)
        return means_absent(errno) ? DIRECTORY_TREE_GONE
                                   : DIRECTORY_TREE_FAILED;
    if (!fstat(tree->root, &st) && st.st_dev == tree->dev &&
        st.st_ino == tree->ino)
        return DIRECTORY_TREE_FOUND;
    close_fd(&tree->root);
    return DIRECTORY_TREE_GONE;
}

bool
directory_tree_is_there(struct directory_tree *tree)
{
    directory_tree_rest(tree);
    return open_root(tree) == DIRECTORY_TREE_FOUND;
}

/* Opens the folder that the first `size` bytes of `path` name. */
static enum directory_tree_result
walk_path(struct directory_tree *tree, const char *path, size_t size, int *fd)
{
    enum directory_tree_result result = open_root(tree);
    char name[NAME_MAX + 1];
    size_t at = 0;
    int here;

    *fd = -1;
    if (result != DIRECTORY_TREE_FOUND)
        return result;
    here = openat(tree->root, ".", PASSAGE);
    while (here >= 0 && at < size) {
        size_t n = strcspn(path + at, "/");
        int next;

        if (n > NAME_MAX) {
            close(here);
            return DIRECTORY_TREE_ABSENT;
        }
        memcpy(name, path + at, n);
        name[n] = '\0';
        next = openat(here, name, PASSAGE);
        close(here);
        here = next;
        at += n + 1;
    }
    *fd = here;
    if (here >= 0)
        return DIRECTORY_TREE_FOUND;
    return means_absent(errno) ? DIRECTORY_TREE_ABSENT : DIRECTORY_TREE_FAILED;
}

enum directory_tree_result
directory_tree_folder(struct directory_tree *tree, const char *path, int *fd)
{
    int passage;
    enum directory_tree_result result =
        walk_path(tree, path, strlen(path), &passage);

    *fd = -1;
    if (result != DIRECTORY_TREE_FOUND)
        return result;
    *fd = openat(passage, ".", FOLDER);
    if (*fd < 0)
        result =
            means_absent(errno) ? DIRECTORY_TREE_ABSENT : DIRECTORY_TREE_FAILED;
    close(passage);
    return result;
}

enum directory_tree_result
directory_tree_look(struct directory_tree *tree, const char *path,
                    struct stat *st, int *dir_fd, const char **name)
{
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    enum directory_tree_result result;

    *name = slash ? slash + 1 : path;
    if (tree->parent < 0 || strlen(tree->parent_path) != size ||
        memcmp(tree->parent_path, path, size)) {
        close_fd(&tree->parent);
        result = walk_path(tree, path, size, &tree->parent);
        if (result != DIRECTORY_TREE_FOUND)
            return result;
        memcpy(tree->parent_path, path, size);
        tree->parent_path[size] = '\0';
    }
    *dir_fd = tree->parent;
    if (!fstatat(tree->parent, *name, st, AT_SYMLINK_NOFOLLOW))
        return DIRECTORY_TREE_FOUND;
    return means_absent(errno) ? DIRECTORY_TREE_ABSENT : DIRECTORY_TREE_FAILED;
}

/* Names */

static int
by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends a name to the text; the caller makes the pointers at the end, when
 * the text moves no more. */
static bool
add_name(struct directory_tree_names *names, size_t *size, size_t *room,
         const char *name)
{
    size_t n = strlen(name) + 1;

    if (*size + n > *room) {
        size_t more = *room ? 2 * *room : 4096;
        char *text = realloc(names->text, more);

        if (!text)
            return false;
        names->text = text;
        *room = more;
    }
    memcpy(names->text + *size, name, n);
    *size += n;
    names->n++;
    return true;
}

static bool
sort_names(struct directory_tree_names *names)
{
    char *name = names->text;

    if (!names->n)
        return true;
    names->names = malloc(names->n * sizeof(names->names[0]));
    if (!names->names)
        return false;
    for (size_t i = 0; i < names->n; i++) {
        names->names[i] = name;
        name += strlen(name) + 1;
    }
    qsort(names->names, names->n, sizeof(names->names[0]), by_bytes);
    return true;
}

bool
directory_tree_names_read(struct directory_tree_names *names, int fd)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;
    size_t size = 0;
    size_t room = 0;
    bool is_good = dir != NULL;
    int saved;

    *names = (struct directory_tree_names){NULL};
    if (!dir) {
        close(fd);
        return false;
    }
    errno = 0;
    while (is_good && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            is_good = add_name(names, &size, &room, entry->d_name);
    is_good = is_good && !errno && sort_names(names);
    saved = errno;
    closedir(dir);
    if (!is_good)
        directory_tree_names_free(names);
    errno = saved;
    return is_good;
}

void
directory_tree_names_free(struct directory_tree_names *names)
{
    free(names->names);
    free(names->text);
    *names = (struct directory_tree_names){NULL};
}

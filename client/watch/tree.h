/*
 * tree.h - reads the watched directory on the disk.
 *
 * Follows no symbolic link: it opens a path name by name. It opens the
 * directory by its name for a while, and checks that it is the one of the
 * start. If another one stands under that name (a file system was unmounted,
 * the directory was replaced), it says nothing about any file.
 */
#ifndef CLIENT_WATCH_TREE_H
#define CLIENT_WATCH_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "client/watch/locs.h"
#include "proto/problem.h"

struct tree {
    const char *dir; /* lent */
    dev_t dev;
    ino_t ino;
    int root;   /* -1: not open at the moment */
    int parent; /* the last folder that tree_look used; -1: none */
    char parent_path[LOCS_PATH_MAX + 1];
};

/* False: there is no such directory; `why` says why. */
bool tree_open(struct tree *tree, const char *dir, struct problem *why);
void tree_close(struct tree *tree);

/* Closes all descriptors: the next call opens the directory anew, and the file
 * system can be unmounted. */
void tree_rest(struct tree *tree);

/* True if the directory is there, and is the one of the start. */
bool tree_is_there(struct tree *tree);

enum tree_result {
    TREE_FOUND,
    TREE_ABSENT, /* no such path, or through a link */
    TREE_GONE,   /* the directory itself is not there */
    TREE_FAILED  /* errno says why; the state is unknown */
};

/* Opens the folder `path` ("" is the directory) for reading its entries. The
 * caller closes `*fd`. */
enum tree_result tree_folder(struct tree *tree, const char *path, int *fd);

/* Looks at `path`; `*dir_fd`, lent until the next call, and `*name` are where
 * it stands. */
enum tree_result tree_look(struct tree *tree, const char *path, struct stat *st,
                           int *dir_fd, const char **name);

/* The names in a folder, in byte order, without "." and "..". */
struct tree_names {
    char **names;
    size_t n;
    char *text;
};

/* False: errno says why. Closes `fd`. */
bool tree_names_read(struct tree_names *names, int fd);
void tree_names_free(struct tree_names *names);

#endif

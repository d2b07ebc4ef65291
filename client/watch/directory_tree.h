/*
 * directory_tree.h - reads the watched directory on the disk.
 *
 * Follows no symbolic link: it opens a path name by name. It opens the
 * directory by its name for a while, and checks that it is the one of the
 * start. If another one stands under that name (a file system was unmounted,
 * the directory was replaced), it says nothing about any file.
 */
#ifndef CLIENT_WATCH_DIRECTORY_TREE_H
#define CLIENT_WATCH_DIRECTORY_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "client/watch/file_uri.h"
#include "proto/problem.h"

struct directory_tree {
    const char *dir; /* lent */
    dev_t dev;
    ino_t ino;
    int root;   /* -1: not open at the moment */
    int parent; /* the last folder that directory_tree_look used; -1: none */
    char parent_path[FILE_URI_PATH_MAX + 1];
};

/* False: there is no such directory; `why` says why. */
bool directory_tree_open(struct directory_tree *tree, const char *dir,
                         struct problem *why);
void directory_tree_close(struct directory_tree *tree);

/* Closes all descriptors: the next call opens the directory anew, and the file
 * system can be unmounted. */
void directory_tree_rest(struct directory_tree *tree);

/* True if the directory is there, and is the one of the start. */
bool directory_tree_is_there(struct directory_tree *tree);

enum directory_tree_result {
    DIRECTORY_TREE_FOUND,
    DIRECTORY_TREE_ABSENT, /* no such path, or through a link */
    DIRECTORY_TREE_GONE,   /* the directory itself is not there */
    DIRECTORY_TREE_FAILED  /* errno says why; the state is unknown */
};

/* Opens the folder `path` ("" is the directory) for reading its entries. The
 * caller closes `*fd`. */
enum directory_tree_result directory_tree_folder(struct directory_tree *tree,
                                                 const char *path, int *fd);

/* Looks at `path`; `*dir_fd`, lent until the next call, and `*name` are where
 * it stands. */
enum directory_tree_result directory_tree_look(struct directory_tree *tree,
                                               const char *path,
                                               struct stat *st, int *dir_fd,
                                               const char **name);

/* The names in a folder, in byte order, without "." and "..". */
struct directory_tree_names {
    char **names;
    size_t n;
    char *text;
};

/* False: errno says why. Closes `fd`. */
bool directory_tree_names_read(struct directory_tree_names *names, int fd);
void directory_tree_names_free(struct directory_tree_names *names);

#endif

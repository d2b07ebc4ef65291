#include "client/watch/looks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/watch/file_uri.h"
#include "client/watch/inside.h"

/* A file */

static bool
report_change(struct watch *w, const char *change, const char *path,
              const char *loc, const struct filemark *mark, const char *type)
{
    return post_queue_add(&w->outbox, change, path, loc, mark, type) &&
           watch_go_on(w);
}

/* Reports a deletion, unless the file was never posted. */
static bool
tell_deleted(struct watch *w, const char *path)
{
    struct filemark mark;
    char loc[FILE_URI_MAX + 1];
    bool is_known;

    if (!watch_db_file(w->ledger, path, &is_known, &mark))
        return watch_ledger_failed(w);
    return !is_known || !file_uri_write(loc, w->options.base_uri, path) ||
           report_change(w, "deleted", path, loc, NULL, NULL);
}

static bool
tell_content(struct watch *w, const char *path, const char *name, bool is_known,
             const struct filemark *known)
{
    const struct filemark *mark = &w->hash.mark;
    char loc[FILE_URI_MAX + 1];

    /* Only touched: the content is the same. */
    if (is_known && known->size == mark->size &&
        !memcmp(known->sha256, mark->sha256, sizeof(mark->sha256)))
        return watch_db_note(w->ledger, path, mark) ? watch_go_on(w)
                                                    : watch_ledger_failed(w);

    if (!file_uri_write(loc, w->options.base_uri, path)) {
        watch_warn(w,
                   "\"%s\" is not published: its URI would not have %d to %d "
                   "bytes",
                   path, FILE_URI_MIN, FILE_URI_MAX);
        return true;
    }
    return report_change(
        w, is_known ? "updated" : "created", path, loc, mark,
        mediatypes_of(w->types, name, w->hash.head, w->hash.head_size));
}

static bool
look_at_file(struct watch *w, const char *path, int dir_fd, const char *name,
             const struct stat *st)
{
    struct filemark known;
    bool is_known;

    w->n_files++;
    if (!watch_db_file(w->ledger, path, &is_known, &known))
        return watch_ledger_failed(w);
    if (is_known && filemark_is_of(&known, st))
        return watch_go_on(w);

    switch (file_digest_read(w->hasher, dir_fd, name, &w->hash)) {
    case FILE_DIGEST_READ:
        return tell_content(w, path, name, is_known, &known);
    case FILE_DIGEST_WRITTEN:
        /* An event follows its closing. */
        if (!w->watches)
            watch_warn(w, "\"%s\" is being written; left for the next time",
                       path);
        return true;
    case FILE_DIGEST_FAILED:
        watch_warn(w, "cannot read \"%s\": %s", path, strerror(errno));
        return true;
    case FILE_DIGEST_GONE: /* an event follows, or the sweep finds it */
        return true;
    case FILE_DIGEST_STOPPED:
        break;
    }
    return false;
}

/* Folders */

static bool
is_excluded(const struct watch *w, const char *path)
{
    return file_uri_is_excluded(w->options.excludes, w->options.n_excludes,
                                path);
}

/* Sets `*is_absent` if surely no published file has that path. */
static bool
is_absent(struct watch *w, const char *path, bool *is_absent)
{
    struct stat st;
    int dir_fd;
    const char *name;

    *is_absent = is_excluded(w, path);
    if (*is_absent)
        return true;
    switch (directory_tree_look(&w->tree, path, &st, &dir_fd, &name)) {
    case DIRECTORY_TREE_FOUND:
        *is_absent = !S_ISREG(st.st_mode);
        return true;
    case DIRECTORY_TREE_ABSENT:
        *is_absent = true;
        return true;
    case DIRECTORY_TREE_FAILED:
        return true;
    case DIRECTORY_TREE_GONE:
        break;
    }
    return watch_gone(w);
}

/* Reports the deletion of each posted file whose path begins with `prefix` and
 * that is gone. */
static bool
sweep_deleted(struct watch *w, const char *prefix)
{
    char path[FILE_URI_PATH_MAX + 1] = "";
    bool is_there;
    bool is_gone;

    for (;;) {
        if (!watch_db_next(w->ledger, prefix, path, &is_there))
            return watch_ledger_failed(w);
        if (!is_there)
            return true;
        if (!is_absent(w, path, &is_gone))
            return false;
        if (!(is_gone ? tell_deleted(w, path) : watch_go_on(w)))
            return false;
    }
}

/* Sweeps the files below a folder. */
static bool
sweep_below(struct watch *w, const char *path)
{
    char prefix[FILE_URI_PATH_MAX + 2];

    snprintf(prefix, sizeof(prefix), "%s/", path);
    return sweep_deleted(w, prefix);
}

/* Folders that the scan still has to read. */
struct folders {
    char **paths;
    size_t n;
    size_t room;
};

static bool
push_folder(struct watch *w, struct folders *folders, const char *path)
{
    if (folders->n == folders->room) {
        size_t room = folders->room ? 2 * folders->room : 64;
        char **paths = realloc(folders->paths, room * sizeof(paths[0]));

        if (!paths)
            goto no_memory;
        folders->paths = paths;
        folders->room = room;
    }
    folders->paths[folders->n] = strdup(path);
    if (folders->paths[folders->n]) {
        folders->n++;
        return true;
    }

no_memory:
    return watch_fail(w, NO_MEMORY);
}

/* Looks at one name in a folder. */
static bool
look_at_name(struct watch *w, struct folders *folders, const char *folder,
             const char *entry, bool with_files)
{
    char path[FILE_URI_PATH_MAX + NAME_MAX + 2];
    struct stat st;
    int dir_fd;
    const char *name;

    snprintf(path, sizeof(path), "%s%s%s", folder, folder[0] ? "/" : "", entry);
    if (strlen(path) > FILE_URI_PATH_MAX) {
        if (with_files)
            watch_warn(w, "\"%s\" is not published: its path is too long",
                       path);
        return true;
    }
    if (is_excluded(w, path))
        return true;
    switch (directory_tree_look(&w->tree, path, &st, &dir_fd, &name)) {
    case DIRECTORY_TREE_FOUND:
        if (S_ISDIR(st.st_mode))
            return push_folder(w, folders, path);
        return !with_files || !S_ISREG(st.st_mode) ||
               look_at_file(w, path, dir_fd, name, &st);
    case DIRECTORY_TREE_FAILED:
        if (with_files)
            watch_warn(w, "cannot look at \"%s\": %s", path, strerror(errno));
        return true;
    case DIRECTORY_TREE_ABSENT:
        return true;
    case DIRECTORY_TREE_GONE:
        break;
    }
    return watch_gone(w);
}

/* Opens a folder, and watches it before its names are read: later files cause
 * events, the reading finds earlier ones. `*fd` -1: passed over. */
static bool
enter_folder(struct watch *w, const char *path, bool with_files, int *fd)
{
    struct stat st;

    switch (directory_tree_folder(&w->tree, path, fd)) {
    case DIRECTORY_TREE_FOUND:
        break;
    case DIRECTORY_TREE_ABSENT:
        return true;
    case DIRECTORY_TREE_FAILED:
        if (with_files)
            watch_warn(w, "cannot read \"%s\": %s", path, strerror(errno));
        return true;
    case DIRECTORY_TREE_GONE:
        return watch_gone(w);
    }
    if (!fstat(*fd, &st) && st.st_dev == w->state.st_dev &&
        st.st_ino == w->state.st_ino) {
        close(*fd); /* the state is never published */
        *fd = -1;
        return true;
    }
    if (!w->watches || inotify_add(w->watches, *fd, path, &w->why))
        return true;
    close(*fd);
    *fd = -1;
    return false;
}

static bool
scan_folder(struct watch *w, struct folders *folders, const char *path,
            bool with_files)
{
    struct directory_tree_names names;
    bool is_good;
    int fd;

    if (!enter_folder(w, path, with_files, &fd))
        return false;
    if (fd < 0)
        return true;
    if (!directory_tree_names_read(&names, fd)) {
        watch_warn(w, "cannot read \"%s\": %s", path, strerror(errno));
        return true;
    }
    is_good = watch_hear(w);
    for (size_t i = 0; i < names.n && is_good; i++)
        is_good = look_at_name(w, folders, path, names.names[i], with_files);
    directory_tree_names_free(&names);
    return is_good;
}

/* Reads all folders from `path` on. With `with_files`, looks at their files and
 * reports posted ones that are gone. */
static bool
scan_one_folder(struct watch *w, const char *path, bool with_files)
{
    struct folders folders = {NULL};
    bool is_good = push_folder(w, &folders, path);

    directory_tree_rest(&w->tree);
    while (is_good && folders.n) {
        char *next = folders.paths[--folders.n];

        is_good = scan_folder(w, &folders, next, with_files);
        free(next);
    }
    while (folders.n)
        free(folders.paths[--folders.n]);
    free(folders.paths);
    return is_good;
}

/* Looks at a path that had an event. */
bool
looks_at(struct watch *w, const char *path)
{
    struct stat st;
    int dir_fd;
    const char *name;

    directory_tree_rest(&w->tree);
    switch (directory_tree_look(&w->tree, path, &st, &dir_fd, &name)) {
    case DIRECTORY_TREE_FOUND:
        if (S_ISDIR(st.st_mode))
            return tell_deleted(w, path) && scan_one_folder(w, path, true) &&
                   sweep_below(w, path);
        if (S_ISREG(st.st_mode))
            return look_at_file(w, path, dir_fd, name, &st) &&
                   sweep_below(w, path);
        return tell_deleted(w, path) && sweep_below(w, path);
    case DIRECTORY_TREE_ABSENT:
        return tell_deleted(w, path) && sweep_below(w, path);
    case DIRECTORY_TREE_FAILED:
        watch_warn(w, "cannot look at \"%s\": %s", path, strerror(errno));
        return true;
    case DIRECTORY_TREE_GONE:
        break;
    }
    return watch_gone(w);
}

/* A mount point without its file system is an empty directory. Only checked at
 * the start: later the directory is known to be the same. */
static bool
may_be_empty(struct watch *w)
{
    uint64_t n_posted;

    if (w->n_files || w->options.allow_empty)
        return true;
    if (!watch_db_count(w->ledger, &n_posted))
        return watch_ledger_failed(w);
    if (!n_posted)
        return true;
    if (!directory_tree_is_there(&w->tree))
        return watch_gone(w);
    return watch_fail(
        w,
        "%s has no files, but %llu were posted: is a file system not "
        "mounted? with --allow-empty they are posted as deleted",
        w->options.dir, (unsigned long long)n_posted);
}

bool
looks_at_all(struct watch *w, bool is_start)
{
    w->needs_scan = false;
    w->n_files = 0;
    path_queue_clear(&w->dirty);
    if (w->watches)
        inotify_begin_round(w->watches);
    if (!scan_one_folder(w, "", true) || (is_start && !may_be_empty(w)) ||
        !sweep_deleted(w, ""))
        return false;
    if (w->watches)
        inotify_end_round(w->watches);
    return true;
}

bool
looks_at_folders(struct watch *w)
{
    return scan_one_folder(w, "", false);
}

/*
 * watch.c - publishes a directory's files as a set: compares the directory with
 * the database of what was posted, and posts the differences: files that are
 * new or have other content, and, by a sweep through the database, files that
 * are gone.
 *
 * Functions return false if the watch ends: it was stopped, the directory is
 * gone, or something failed.
 */
#include "client/watch/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "client/watch/file_digest.h"
#include "client/watch/file_uri.h"
#include "client/watch/watch_db.h"

/*
 * Reads the watched directory on the disk.
 *
 * Follows no symbolic link: it opens a path name by name. It opens the
 * directory by its name for a while, and checks that it is the one of the
 * start. If another one stands under that name (a file system was unmounted,
 * the directory was replaced), it says nothing about any file.
 */

struct directory_tree {
    const char *dir; /* lent */
    dev_t dev;
    ino_t ino;
    int root;   /* -1: not open at the moment */
    int parent; /* the last folder that look_at used; -1: none */
    char parent_path[FILE_URI_PATH_MAX + 1];
};

/* Where a path stands. */
struct place {
    int dir_fd; /* lent until the next look */
    const char *name;
    struct stat st;
};

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK)

/* A folder on the way to another one needs no right to be read. */
#define PASSAGE (O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

/* Closes all descriptors: the next call opens the directory anew, and the file
 * system can be unmounted. */
static void
directory_tree_rest(struct directory_tree *tree)
{
    file_close(&tree->parent);
    file_close(&tree->root);
}

/* Returns `absent` if errno proves the absence; an error of the disk does not:
 * STATUS_IO. */
static enum status
absence(enum status absent)
{
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? absent
                                                                 : STATUS_IO;
}

/* The functions below return STATUS_OK; STATUS_NOT_FOUND: there is no such
 * path, or it is through a link; STATUS_GONE: the directory itself is not
 * there; STATUS_IO: errno says why, the state is unknown. */

/* Opens the directory, unless it is open. */
static enum status
open_root(struct directory_tree *tree)
{
    struct stat st;

    if (tree->root >= 0)
        return STATUS_OK;
    tree->root = open(tree->dir, FOLDER);
    if (tree->root < 0)
        return absence(STATUS_GONE);
    if (!fstat(tree->root, &st) && st.st_dev == tree->dev &&
        st.st_ino == tree->ino)
        return STATUS_OK;
    file_close(&tree->root);
    return STATUS_GONE;
}

/* True if the directory is there, and is the one of the start. */
static bool
directory_tree_is_there(struct directory_tree *tree)
{
    directory_tree_rest(tree);
    return !open_root(tree);
}

/* Opens the folder that the first `size` bytes of `path` name. */
static enum status
walk_path(struct directory_tree *tree, const char *path, size_t size, int *fd)
{
    enum status rc = open_root(tree);
    char name[NAME_MAX + 1];
    size_t at = 0;
    int here;

    *fd = -1;
    if (rc)
        return rc;
    here = openat(tree->root, ".", PASSAGE);
    while (here >= 0 && at < size) {
        size_t n = strcspn(path + at, "/");
        int next;

        if (n > NAME_MAX) {
            close(here);
            return STATUS_NOT_FOUND;
        }
        memcpy(name, path + at, n);
        name[n] = '\0';
        next = openat(here, name, PASSAGE);
        close(here);
        here = next;
        at += n + 1;
    }
    *fd = here;
    return here >= 0 ? STATUS_OK : absence(STATUS_NOT_FOUND);
}

/*
 * Watches each folder by inotify.
 *
 * A watch belongs to a folder's inode and goes with it when that is moved; this
 * part keeps the path of each watch. An event only means "look at this path":
 * an outdated path costs a look.
 */

/* IN_CREATE: folders, and files that appear without being written (links);
 * file_digest.h skips those that are still open for writing. IN_ATTRIB: an
 * unreadable file may be readable now. */
#define EVENTS                                                              \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB)

/* The descriptor's own link: it needs no path, however deep the folder is. */
#define FD_PATH "/proc/self/fd/%d"

struct folder {
    struct map_node of_wd, of_path;
    int wd;
    unsigned round;
    char path[];
};

struct inotify {
    int fd;
    int root; /* watch of the directory itself */
    unsigned round;
    struct map by_wd; /* of all; the number is its own hash */
    struct map by_path;

    /* Room for the largest event, and a good many. */
    char buffer[65536] __attribute__((aligned(8)));
};

/* "8192", or "?". */
static void
read_limit(const char *name, char *to, size_t size)
{
    struct file_path path = file_path("/proc/sys/fs/inotify/%s", name);
    ssize_t n = file_read(AT_FDCWD, path.text, to, size - 1);

    strcpy(to + (n > 0 ? n : 0), n > 0 ? "" : "?");
    to[strcspn(to, "\n")] = '\0';
}

static bool
inotify_open(struct inotify *watches, struct problem *why)
{
    char limit[32];

    watches->root = -1;
    watches->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watches->fd >= 0)
        return true;
    if (errno != EMFILE)
        return !problem(why, STATUS_IO, "cannot watch: %s", strerror(errno));
    read_limit("max_user_instances", limit, sizeof(limit));
    return !problem(why, STATUS_IO,
                    "no more watching programs: "
                    "fs.inotify.max_user_instances (%s) is reached",
                    limit);
}

/* Folders by watch and by path. Two folders never have the same path: the later
 * one is right. */

static struct folder *
folder_of(const struct inotify *watches, int wd)
{
    struct map_node *node = map_find(&watches->by_wd, (uint64_t)wd);

    return node ? map_entry(node, struct folder, of_wd) : NULL;
}

static struct folder *
folder_at(struct inotify *watches, const char *path)
{
    struct map *map = &watches->by_path;
    struct folder *folder;

    map_each_same (folder, map, map_hash(map, slice_of(path)), of_path) {
        if (!strcmp(folder->path, path))
            return folder;
    }
    return NULL;
}

static void
forget_folder(struct inotify *watches, struct folder *folder)
{
    map_remove(&watches->by_path, &folder->of_path);
    map_remove(&watches->by_wd, &folder->of_wd);
    free(folder);
}

static void
end_watch(struct inotify *watches, struct folder *folder)
{
    inotify_rm_watch(watches->fd, folder->wd);
    forget_folder(watches, folder);
}

/* Watches the folder `path`, which is open as `fd`; "" is the directory itself.
 * If the folder has a watch already, notes its new path. False: `why` says why.
 */
static bool
inotify_add(struct inotify *watches, int fd, const char *path,
            struct problem *why)
{
    char link[64];
    char limit[32];
    size_t size = strlen(path);
    struct folder *folder, *other;
    int wd;

    snprintf(link, sizeof(link), FD_PATH, fd);
    wd = inotify_add_watch(watches->fd, link, EVENTS | IN_ONLYDIR);
    if (wd < 0 && errno == ENOSPC) {
        read_limit("max_user_watches", limit, sizeof(limit));
        return !problem(why, STATUS_IO,
                        "%u folders are watched, and no more can be: "
                        "fs.inotify.max_user_watches (%s) is reached; raise it "
                        "with sysctl, or leave folders out with --exclude",
                        (unsigned)watches->by_wd.n, limit);
    }
    if (wd < 0)
        return !problem(why, STATUS_IO, "cannot watch \"%s\": %s", path,
                        strerror(errno));
    if (!path[0])
        watches->root = wd;
    folder = folder_of(watches, wd);
    if (folder && !strcmp(folder->path, path)) {
        folder->round = watches->round;
        return true;
    }
    if (folder)
        forget_folder(watches, folder); /* it stands under another path now */
    folder = malloc(sizeof(*folder) + size + 1);
    if (!folder)
        return !problem_memory(why);
    other = folder_at(watches, path);
    if (other)
        end_watch(watches, other);
    folder->wd = wd;
    folder->round = watches->round;
    memcpy(folder->path, path, size + 1);
    map_add(&watches->by_wd, &folder->of_wd, (uint64_t)wd);
    map_add(&watches->by_path, &folder->of_path,
            map_hash(&watches->by_path, slice_of(path)));
    return true;
}

/* Ends the watches of a folder and of those below it. */
static void
end_below(struct inotify *watches, const char *path)
{
    struct folder *folder;
    size_t size = strlen(path);

    map_walk (folder, &watches->by_wd, of_wd) {
        if (!strncmp(folder->path, path, size) &&
            (folder->path[size] == '/' || !folder->path[size]))
            end_watch(watches, folder);
    }
}

/* Several events may belong together (a file written and renamed, a folder
 * unpacked): the watch looks after a quiet moment, but not much later. */
#define QUIET_MS  50
#define SETTLE_MS 500

/* inotify does not report all (a folder above was moved, a file system was
 * lazily unmounted): the watch checks for that when it is quiet. */
#define LOOK_ROUND_MS 5000

/* Looks at files between two reads of the kernel's queue, which has room for
 * 16,384 events by default. */
#define LOOKS_PER_HEARING 256

/* The same of pieces of files: 16 MiB. */
#define PIECES_PER_HEARING 256

struct watch {
    struct watch_options options;
    int stop_fd; /* an eventfd, readable when the watch has to stop */
    atomic_bool is_stopped;

    struct directory_tree tree;
    struct stat state;      /* of the folder where the database is */
    struct inotify watches; /* is_once: none, fd -1 */
    struct mediatypes types;
    struct file_digester digester;
    struct file_digest hash;
    struct path_queue dirty;
    struct post_queue posts;

    bool needs_scan;  /* events were lost: look at all files */
    uint64_t n_files; /* seen by this scan */
    unsigned n_looks, n_pieces;
    struct problem why; /* the watch ends; rc STATUS_OK: not yet */
};

/* Warnings */

static void __attribute__((format(printf, 2, 3)))
warn_user(struct watch *w, const char *format, ...)
{
    struct problem why = {""};
    va_list args;

    va_start(args, format);
    problem_vset(&why, STATUS_OK, format, args);
    va_end(args);
    w->options.on_warning(why.text, w->options.user);
}

/* Ends the watch, as the one below; returns false. The first reason counts. */
static bool __attribute__((format(printf, 2, 3)))
fail_watch(struct watch *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!w->why.rc)
        problem_vset(&w->why, STATUS_IO, format, args);
    va_end(args);
    return false;
}

static bool
end_gone(struct watch *w)
{
    return fail_watch(w,
                      "%s, or a file system in it, was removed, moved or "
                      "unmounted; nothing of that is posted",
                      w->options.dir);
}

/* Events */

static bool
is_excluded(const struct watch *w, const char *path)
{
    return file_uri_is_excluded(w->options.excludes, w->options.n_excludes,
                                path);
}

static void
read_event(struct watch *w, const struct inotify_event *event)
{
    struct inotify *watches = &w->watches;
    char path[FILE_URI_PATH_MAX + NAME_MAX + 2];
    bool is_folder = event->mask & IN_ISDIR;
    struct folder *folder = folder_of(watches, event->wd);

    if (event->mask & IN_Q_OVERFLOW)
        w->needs_scan = true;
    if (event->wd == watches->root &&
        (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)))
        end_gone(w);
    if (!folder)
        return; /* an overflow, or a watch that ended */
    if (event->mask & IN_UNMOUNT)
        /* A file system inside: its files are not deleted, they are away. */
        end_gone(w);
    if (event->mask & IN_IGNORED) {
        forget_folder(watches, folder);
        return;
    }
    if (!event->len || !event->name[0])
        return;
    snprintf(path, sizeof(path), "%s%s%s", folder->path,
             folder->path[0] ? "/" : "", event->name);
    /* Ends the watches below a moved folder: earlier events were from before
     * the move; its new place gets new watches. */
    if (is_folder && (event->mask & IN_MOVED_FROM))
        end_below(watches, path);
    /* A watched folder has its own events; its times do not matter. */
    if (is_folder && (event->mask & IN_ATTRIB) && folder_at(watches, path))
        return;
    if (!w->needs_scan && !is_excluded(w, path))
        w->needs_scan = !path_queue_add(&w->dirty, path);
}

/* Reads all waiting events, without blocking. False: the watch ends. */
static bool
read_events(struct watch *w)
{
    struct inotify *watches = &w->watches;
    ssize_t n = 0;

    while (!w->options.is_once && (n = read(watches->fd, watches->buffer,
                                            sizeof(watches->buffer))) > 0)
        for (char *p = watches->buffer; p < watches->buffer + n;) {
            const struct inotify_event *event = (const void *)p;

            read_event(w, event);
            p += sizeof(*event) + event->len;
        }
    if (!w->options.is_once && !(n < 0 && (errno == EAGAIN || errno == EINTR)))
        fail_watch(w, "cannot hear what changes: %s", strerror(errno));
    return !w->why.rc && !atomic_load(&w->is_stopped);
}

/* Waits for events, `ms` at most; true if there are some. */
static bool
poll_news(struct watch *w, int64_t ms)
{
    struct pollfd fds[] = {
        {.fd = w->stop_fd, .events = POLLIN},
        {.fd = w->watches.fd, .events = POLLIN},
    };

    return ms > 0 && poll(fds, 2, (int)ms) > 0;
}

/* The posts wait for the broker. Dirty paths gather, within their bounds. */
static bool
wait_hearing(unsigned ms, void *user)
{
    struct watch *w = user;
    int64_t end = clock_steady_ms() + ms;

    directory_tree_rest(&w->tree);
    while (read_events(w) && clock_steady_ms() < end)
        poll_news(w, end - clock_steady_ms());
    return !read_events(w);
}

/* At each piece of a file: reads events now and then. */
static bool
read_on(void *user)
{
    struct watch *w = user;

    return ++w->n_pieces % PIECES_PER_HEARING || read_events(w);
}

/* Posting */

static bool
deliver_posts(struct watch *w)
{
    enum status rc = post_queue_deliver(&w->posts);

    w->needs_scan |= rc == STATUS_AGAIN;
    return !rc || rc == STATUS_AGAIN;
}

/* Posts the gathered changes. For deletions the directory must still be there:
 * if it is gone or another one, its missing files mean nothing. */
static bool
flush_changes(struct watch *w)
{
    if (!w->posts.n_entries)
        return watch_db_save(&w->posts.database);
    if (w->posts.n_deleted) {
        if (!read_events(w))
            return false;
        if (!directory_tree_is_there(&w->tree))
            return end_gone(w);
    }
    return post_queue_seal(&w->posts) && deliver_posts(w);
}

/* After each look at a file: posts if that is due, and reads events now and
 * then. */
static bool
go_on(struct watch *w)
{
    if (post_queue_is_due(&w->posts) && !flush_changes(w))
        return false;
    return ++w->n_looks % LOOKS_PER_HEARING || read_events(w);
}

/* A file */

/* Reports a deletion, unless the file was never posted. */
static bool
report_deleted(struct watch *w, const char *path)
{
    struct file_stamp mark;
    char loc[FILE_URI_MAX + 1];
    bool is_known;

    if (!watch_db_file(&w->posts.database, path, &is_known, &mark))
        return false;
    return !is_known || !file_uri_write(loc, w->options.base_uri, path) ||
           (post_queue_add(&w->posts, "deleted", path, loc, NULL, NULL) &&
            go_on(w));
}

static bool
report_content(struct watch *w, const char *path, const char *name,
               bool is_known, const struct file_stamp *known)
{
    const struct file_stamp *mark = &w->hash.mark;
    char loc[FILE_URI_MAX + 1];

    /* Only touched: the content is the same. */
    if (is_known && known->size == mark->size &&
        digest_is_equal(&known->sha256, &mark->sha256))
        return watch_db_note(&w->posts.database, path, mark) && go_on(w);

    if (!file_uri_write(loc, w->options.base_uri, path)) {
        warn_user(w,
                  "\"%s\" is not published: its URI would not have %d to %d "
                  "bytes",
                  path, FILE_URI_MIN, FILE_URI_MAX);
        return true;
    }
    return post_queue_add(&w->posts, is_known ? "updated" : "created", path,
                          loc, mark,
                          mediatypes_of(&w->types, name, w->hash.head,
                                        w->hash.head_size)) &&
           go_on(w);
}

static bool
look_at_file(struct watch *w, const char *path, const struct place *place)
{
    struct file_stamp known;
    bool is_known;

    w->n_files++;
    if (!watch_db_file(&w->posts.database, path, &is_known, &known))
        return false;
    if (is_known && file_stamp_is_of(&known, &place->st))
        return go_on(w);

    switch (
        file_digest_read(&w->digester, place->dir_fd, place->name, &w->hash)) {
    case FILE_DIGEST_READ:
        return report_content(w, path, place->name, is_known, &known);
    case FILE_DIGEST_WRITTEN:
        /* An event follows its closing. */
        if (w->options.is_once)
            warn_user(w, "\"%s\" is being written; left for the next time",
                      path);
        return true;
    case FILE_DIGEST_FAILED:
        warn_user(w, "cannot read \"%s\": %s", path, strerror(errno));
        return true;
    case FILE_DIGEST_GONE: /* an event follows, or the sweep finds it */
        return true;
    case FILE_DIGEST_STOPPED:
        break;
    }
    return false;
}

/* Folders */

/* Looks at a path; warns if it cannot, and `warns`. STATUS_GONE: the watch
 * ends. */
static enum status
look_at(struct watch *w, const char *path, bool warns, struct place *place)
{
    struct directory_tree *tree = &w->tree;
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    enum status rc = STATUS_OK;

    place->name = slash ? slash + 1 : path;
    if (tree->parent < 0 || strlen(tree->parent_path) != size ||
        memcmp(tree->parent_path, path, size)) {
        file_close(&tree->parent);
        rc = walk_path(tree, path, size, &tree->parent);
        memcpy(tree->parent_path, path, size);
        tree->parent_path[size] = '\0';
    }
    place->dir_fd = tree->parent;
    if (!rc &&
        fstatat(tree->parent, place->name, &place->st, AT_SYMLINK_NOFOLLOW))
        rc = absence(STATUS_NOT_FOUND);
    if (rc == STATUS_GONE)
        end_gone(w);
    if (rc == STATUS_IO && warns)
        warn_user(w, "cannot look at \"%s\": %s", path, strerror(errno));
    return rc;
}

/* Reports the deletion of each posted file whose path begins with `prefix` and
 * that is gone. */
static bool
sweep_deleted(struct watch *w, const char *prefix)
{
    char path[FILE_URI_PATH_MAX + 1] = "";
    struct place place;
    bool is_there, is_gone;
    enum status rc;

    for (;;) {
        if (!watch_db_next(&w->posts.database, prefix, path, &is_there))
            return false;
        if (!is_there)
            return true;
        is_gone = is_excluded(w, path);
        if (!is_gone) {
            rc = look_at(w, path, false, &place);
            if (rc == STATUS_GONE)
                return false;
            /* Surely no published file has that path. */
            is_gone =
                rc == STATUS_NOT_FOUND || (!rc && !S_ISREG(place.st.st_mode));
        }
        if (!(is_gone ? report_deleted(w, path) : go_on(w)))
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
    if (!ONE_MORE(folders->paths, &folders->room, folders->n))
        return fail_watch(w, NO_MEMORY);
    folders->paths[folders->n] = strdup(path);
    return folders->paths[folders->n++] || fail_watch(w, NO_MEMORY);
}

/* Looks at one name in a folder. */
static bool
look_at_name(struct watch *w, struct folders *folders, const char *folder,
             const char *entry, bool with_files)
{
    char path[FILE_URI_PATH_MAX + NAME_MAX + 2];
    struct place place;
    enum status rc;

    snprintf(path, sizeof(path), "%s%s%s", folder, folder[0] ? "/" : "", entry);
    if (strlen(path) > FILE_URI_PATH_MAX) {
        if (with_files)
            warn_user(w, "\"%s\" is not published: its path is too long", path);
        return true;
    }
    if (is_excluded(w, path))
        return true;
    rc = look_at(w, path, with_files, &place);
    if (rc)
        return rc != STATUS_GONE;
    if (S_ISDIR(place.st.st_mode))
        return push_folder(w, folders, path);
    return !with_files || !S_ISREG(place.st.st_mode) ||
           look_at_file(w, path, &place);
}

/* Opens the folder `path` ("" is the directory), and watches it before its
 * names are read: later files cause events, the reading finds earlier ones. The
 * caller closes `*fd`; -1: passed over. */
static bool
enter_folder(struct watch *w, const char *path, bool with_files, int *fd)
{
    int passage;
    enum status rc = walk_path(&w->tree, path, strlen(path), &passage);
    struct stat st;

    *fd = -1;
    if (!rc) {
        *fd = openat(passage, ".", FOLDER);
        if (*fd < 0)
            rc = absence(STATUS_NOT_FOUND);
        close(passage);
    }
    if (rc == STATUS_GONE)
        return end_gone(w);
    if (rc == STATUS_IO && with_files)
        warn_user(w, "cannot read \"%s\": %s", path, strerror(errno));
    if (rc)
        return true;
    if (!fstat(*fd, &st) && st.st_dev == w->state.st_dev &&
        st.st_ino == w->state.st_ino) {
        file_close(fd); /* the state is never published */
        return true;
    }
    if (w->options.is_once || inotify_add(&w->watches, *fd, path, &w->why))
        return true;
    file_close(fd);
    return false;
}

static int
by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int
is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
}

static bool
scan_folder(struct watch *w, struct folders *folders, const char *path,
            bool with_files)
{
    struct dirent **entries;
    bool is_good;
    int fd;
    int n;

    if (!enter_folder(w, path, with_files, &fd))
        return false;
    if (fd < 0)
        return true;
    n = scandirat(fd, ".", &entries, is_entry, by_bytes);
    if (n < 0)
        warn_user(w, "cannot read \"%s\": %s", path, strerror(errno));
    close(fd);
    if (n < 0)
        return true;
    is_good = read_events(w);
    for (int i = 0; i < n && is_good; i++)
        is_good =
            look_at_name(w, folders, path, entries[i]->d_name, with_files);
    while (n > 0)
        free(entries[--n]);
    free(entries);
    return is_good;
}

/* Reads all folders from `path` on. With `with_files`, looks at their files and
 * reports posted ones that are gone. */
static bool
scan_folders(struct watch *w, const char *path, bool with_files)
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
static bool
look_at_path(struct watch *w, const char *path)
{
    struct place place;
    enum status rc;

    directory_tree_rest(&w->tree);
    rc = look_at(w, path, true, &place);
    if (rc && rc != STATUS_NOT_FOUND)
        return rc != STATUS_GONE;
    if (!rc && S_ISREG(place.st.st_mode))
        return look_at_file(w, path, &place) && sweep_below(w, path);
    return report_deleted(w, path) &&
           (rc || !S_ISDIR(place.st.st_mode) || scan_folders(w, path, true)) &&
           sweep_below(w, path);
}

/* Looks at everything. At the start, a directory without files is a failure if
 * some were posted, unless the options allow it. */
static bool
look_at_all(struct watch *w, bool is_start)
{
    struct folder *folder;
    uint64_t n_posted = 0;

    w->needs_scan = false;
    w->n_files = 0;
    path_queue_clear(&w->dirty);
    w->watches.round++;
    if (!scan_folders(w, "", true))
        return false;
    /* A mount point without its file system is an empty directory. Only checked
     * at the start: later the directory is known to be the same. */
    if (is_start && !w->n_files && !w->options.allow_empty &&
        !watch_db_count(&w->posts.database, &n_posted))
        return false;
    if (n_posted && !directory_tree_is_there(&w->tree))
        return end_gone(w);
    if (n_posted)
        return fail_watch(w,
                          "%s has no files, but %" PRIu64
                          " were posted: is a file system not mounted? "
                          "with --allow-empty they are posted as deleted",
                          w->options.dir, n_posted);
    if (!sweep_deleted(w, ""))
        return false;
    map_walk (folder, &w->watches.by_wd, of_wd) {
        if (folder->round != w->watches.round) /* it has not been found */
            end_watch(&w->watches, folder);
    }
    return true;
}

/* Running */

/* Waits; then checks that the directory and the state are still there. */
static bool
wait_for_news(struct watch *w)
{
    int64_t end;

    directory_tree_rest(&w->tree);
    if (poll_news(w, LOOK_ROUND_MS)) {
        end = clock_steady_ms() + SETTLE_MS;
        while (read_events(w) && clock_steady_ms() < end &&
               poll_news(w, QUIET_MS))
            ;
    }
    if (!read_events(w))
        return false;
    if (!directory_tree_is_there(&w->tree))
        return end_gone(w);
    directory_tree_rest(&w->tree);
    return watch_db_is_kept(&w->posts.database) ||
           fail_watch(w, "the state in %s was removed", w->options.state);
}

static void
run_watch(struct watch *w)
{
    char path[FILE_URI_PATH_MAX + 1];

    if (!w->options.is_once) {
        /* Only watches all folders, so that later changes cause events. */
        if (!scan_folders(w, "", false))
            return;
        w->options.on_ready((unsigned)w->watches.by_wd.n, w->options.user);
    }
    if (!deliver_posts(w) || !look_at_all(w, true))
        return;
    while (read_events(w)) {
        if (w->needs_scan) {
            if (!look_at_all(w, false))
                return;
        } else if (path_queue_take(&w->dirty, path)) {
            if (!look_at_path(w, path))
                return;
        } else if (!flush_changes(w)) {
            return;
        } else if (!w->needs_scan &&
                   (w->options.is_once || !wait_for_news(w))) {
            return; /* it was quiet */
        }
    }
}

/* Life */

static bool
open_all(struct watch *w)
{
    const char *fault = file_uri_fault(w->options.base_uri);
    const char *state = w->options.state;
    struct stat st;

    if (fault)
        return !problem(&w->why, STATUS_INVALID, "the base URI %s", fault);
    if (!stat(w->tree.dir, &st)) {
        w->tree.dev = st.st_dev;
        w->tree.ino = st.st_ino;
    }
    if (open_root(&w->tree))
        return !problem_errno(&w->why, "cannot read", w->tree.dir);
    if (mkdir(state, 0755) && errno != EEXIST)
        return fail_watch(w, "cannot make %s: %s", state, strerror(errno));
    if (stat(state, &w->state))
        return fail_watch(w, "cannot use %s: %s", state, strerror(errno));
    if (w->state.st_dev == w->tree.dev && w->state.st_ino == w->tree.ino)
        return !problem(&w->why, STATUS_INVALID,
                        "the state is a folder of its own, not %s", state);
    if (!watch_db_open(&w->posts.database, state, w->options.set_url,
                       w->options.base_uri, &w->why))
        return false;
    if (!w->options.is_once && !inotify_open(&w->watches, &w->why))
        return false;
    w->digester = (struct file_digester){
        digest_check_new(SLICE(""), LENGTH_NONE, true), read_on, w};
    if (!w->digester.check || !mediatypes_open(&w->types, MEDIATYPES_TABLE))
        return fail_watch(w, "no memory, or libmagic has no database");
    return true;
}

struct watch *
watch_new(const struct watch_options *options)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->options = *options;
    w->tree = (struct directory_tree){options->dir, .root = -1, .parent = -1};
    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->stop_fd < 0) {
        watch_free(w);
        return NULL;
    }
    list_init(&w->dirty.paths);
    w->watches.fd = -1;
    w->posts = (struct post_queue){
        .options = &w->options,
        .database.lock = -1,
        .n_entries_max = POST_QUEUE_ENTRIES_MAX,
        .wait = wait_hearing,
        .waiter = w,
    };
    buf_init(&w->posts.body, SIZE_MAX / 2);
    return w;
}

void
watch_free(struct watch *watch)
{
    if (!watch)
        return;
    file_close(&watch->stop_fd);
    free(watch);
}

const struct problem *
watch_run(struct watch *watch)
{
    struct inotify *watches = &watch->watches;
    struct folder *folder;

    if (open_all(watch))
        run_watch(watch);
    post_queue_undo(&watch->posts);
    path_queue_clear(&watch->dirty);
    mediatypes_close(&watch->types);
    digest_check_free(watch->digester.check);
    map_walk (folder, &watches->by_wd, of_wd)
        forget_folder(watches, folder);
    map_fini(&watches->by_wd);
    map_fini(&watches->by_path);
    file_close(&watches->fd);
    watch_db_close(&watch->posts.database);
    directory_tree_rest(&watch->tree);
    return &watch->why;
}

/* A store, a write: a signal handler may interrupt any code. */
void
watch_stop(void *watch)
{
    struct watch *w = watch;
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n;

    atomic_store(&w->is_stopped, true);
    n = write(w->stop_fd, &one, sizeof(one));
    (void)n;
    td_stop(w->options.client);
    errno = saved;
}

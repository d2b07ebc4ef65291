/*
 * inotify.c - watches folders by inotify.
 */
#include "client/watch/inotify.h"

#include <sys/inotify.h>
#include <unistd.h>

#include "client/watch/file_uri.h"

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
    inotify_fn *on_news;
    void *user;

    /* Room for the largest event, and a good many. */
    char buffer[65536] __attribute__((aligned(8)));
};

/* "8192", or "?". */
static void
read_limit(const char *name, char *to, size_t size)
{
    char path[100];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/sys/fs/inotify/%s", name);
    f = fopen(path, "r");
    if (!f || !fgets(to, (int)size, f))
        snprintf(to, size, "?");
    to[strcspn(to, "\n")] = '\0';
    if (f)
        fclose(f);
}

struct inotify *
inotify_open(inotify_fn *on_news, void *user, struct problem *why)
{
    struct inotify *watches = calloc(1, sizeof(*watches));
    char limit[32];

    if (!watches) {
        problem_memory(why);
        return NULL;
    }
    watches->on_news = on_news;
    watches->user = user;
    watches->root = -1;
    watches->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watches->fd >= 0)
        return watches;
    if (errno == EMFILE) {
        read_limit("max_user_instances", limit, sizeof(limit));
        problem(why, STATUS_IO,
                "no more watching programs: "
                "fs.inotify.max_user_instances (%s) is reached",
                limit);
    } else {
        problem(why, STATUS_IO, "cannot watch: %s", strerror(errno));
    }
    free(watches);
    return NULL;
}

int
inotify_fd(const struct inotify *watches)
{
    return watches->fd;
}

unsigned
inotify_count(const struct inotify *watches)
{
    return (unsigned)watches->by_wd.n;
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

void
inotify_close(struct inotify *watches)
{
    struct map_node *after;
    struct folder *folder;

    if (!watches)
        return;
    map_each (folder, after, &watches->by_wd, of_wd)
        forget_folder(watches, folder);
    map_fini(&watches->by_wd);
    map_fini(&watches->by_path);
    close(watches->fd);
    free(watches);
}

static bool
insert_folder(struct inotify *watches, int wd, const char *path)
{
    size_t size = strlen(path);
    struct folder *folder = malloc(sizeof(*folder) + size + 1);
    struct folder *other = folder_at(watches, path);

    if (!folder)
        return false;
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

bool
inotify_add(struct inotify *watches, int fd, const char *path,
            struct problem *why)
{
    char link[64];
    char limit[32];
    struct folder *folder;
    int wd;

    snprintf(link, sizeof(link), FD_PATH, fd);
    wd = inotify_add_watch(watches->fd, link, EVENTS | IN_ONLYDIR);
    if (wd < 0 && errno == ENOSPC) {
        read_limit("max_user_watches", limit, sizeof(limit));
        problem(why, STATUS_IO,
                "%u folders are watched, and no more can be: "
                "fs.inotify.max_user_watches (%s) is reached; raise it "
                "with sysctl, or leave folders out with --exclude",
                inotify_count(watches), limit);
        return false;
    }
    if (wd < 0) {
        problem(why, STATUS_IO, "cannot watch \"%s\": %s", path,
                strerror(errno));
        return false;
    }
    if (!path[0])
        watches->root = wd;
    folder = folder_of(watches, wd);
    if (folder && !strcmp(folder->path, path)) {
        folder->round = watches->round;
        return true;
    }
    if (folder)
        forget_folder(watches, folder); /* it stands under another path now */
    if (insert_folder(watches, wd, path))
        return true;
    problem_memory(why);
    return false;
}

/* Ends the watches of a folder and of those below it. */
static void
end_below(struct inotify *watches, const char *path)
{
    struct map_node *after;
    struct folder *folder;
    size_t size = strlen(path);

    map_each (folder, after, &watches->by_wd, of_wd) {
        if (!strncmp(folder->path, path, size) &&
            (folder->path[size] == '/' || !folder->path[size]))
            end_watch(watches, folder);
    }
}

void
inotify_begin_round(struct inotify *watches)
{
    watches->round++;
}

void
inotify_end_round(struct inotify *watches)
{
    struct map_node *after;
    struct folder *folder;

    map_each (folder, after, &watches->by_wd, of_wd) {
        if (folder->round != watches->round)
            end_watch(watches, folder);
    }
}

/* Events */

static void
report_event(struct inotify *watches, const struct folder *folder,
             const struct inotify_event *event)
{
    char path[FILE_URI_PATH_MAX + NAME_MAX + 2];
    bool is_folder = event->mask & IN_ISDIR;

    snprintf(path, sizeof(path), "%s%s%s", folder->path,
             folder->path[0] ? "/" : "", event->name);
    /* Ends the watches below a moved folder: earlier events were from before
     * the move; its new place gets new watches. */
    if (is_folder && (event->mask & IN_MOVED_FROM))
        end_below(watches, path);
    /* A watched folder has its own events; its times do not matter. */
    if (is_folder && (event->mask & IN_ATTRIB) && folder_at(watches, path))
        return;
    watches->on_news(INOTIFY_LOOK, path, watches->user);
}

static void
read_event(struct inotify *watches, const struct inotify_event *event)
{
    struct folder *folder;

    if (event->mask & IN_Q_OVERFLOW) {
        watches->on_news(INOTIFY_LOST, NULL, watches->user);
        return;
    }
    if (event->wd == watches->root &&
        (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)))
        watches->on_news(INOTIFY_GONE, NULL, watches->user);
    folder = folder_of(watches, event->wd);
    if (!folder)
        return; /* a watch that ended */
    if (event->mask & IN_UNMOUNT)
        /* A file system inside: its files are not deleted, they are away. */
        watches->on_news(INOTIFY_GONE, NULL, watches->user);
    if (event->mask & IN_IGNORED)
        forget_folder(watches, folder);
    else if (event->len && event->name[0])
        report_event(watches, folder, event);
}

bool
inotify_read(struct inotify *watches, struct problem *why)
{
    ssize_t n;

    while ((n = read(watches->fd, watches->buffer, sizeof(watches->buffer))) >
           0) {
        for (char *p = watches->buffer; p < watches->buffer + n;) {
            const struct inotify_event *event = (const void *)p;

            read_event(watches, event);
            p += sizeof(*event) + event->len;
        }
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    problem(why, STATUS_IO, "cannot hear what changes: %s", strerror(errno));
    return false;
}

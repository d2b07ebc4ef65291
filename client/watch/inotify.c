/*
 * inotify.c - watches folders by inotify.
 */
#include "client/watch/inotify.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/array.h"
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
    int wd;
    unsigned round;
    char path[];
};

struct inotify {
    int fd;
    int root; /* watch of the directory itself */
    unsigned n;
    unsigned round;
    void *by_wd; /* tsearch: of all */
    void *by_path;
    inotify_fn *on_news;
    void *user;
    struct folder **found; /* watches that a walk has picked */
    size_t n_found;
    size_t room;
    const char *prefix; /* for pick_below */
    /* Room for the largest event, and a good many. */
    char buffer[65536] __attribute__((aligned(8)));
};

static int
by_wd(const void *a, const void *b)
{
    const struct folder *x = a;
    const struct folder *y = b;

    return (x->wd > y->wd) - (x->wd < y->wd);
}

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct folder *)a)->path,
                  ((const struct folder *)b)->path);
}

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

static void
keep_node(void *node)
{
    (void)node;
}

void
inotify_close(struct inotify *watches)
{
    if (!watches)
        return;
    tdestroy(watches->by_path, keep_node);
    tdestroy(watches->by_wd, free);
    free(watches->found);
    close(watches->fd);
    free(watches);
}

int
inotify_fd(const struct inotify *watches)
{
    return watches->fd;
}

unsigned
inotify_count(const struct inotify *watches)
{
    return watches->n;
}

/* Folders by watch and by path. Two folders never have the same path: the later
 * one is right. */

static struct folder *
folder_of(const struct inotify *watches, int wd)
{
    struct folder wanted = {.wd = wd};
    struct folder **found = tfind(&wanted, &watches->by_wd, by_wd);

    return found ? *found : NULL;
}

static struct folder *
folder_at(const struct inotify *watches, const char *path)
{
    size_t size = strlen(path);
    struct folder *wanted = malloc(sizeof(*wanted) + size + 1);
    struct folder **found;

    if (!wanted)
        return NULL;
    memcpy(wanted->path, path, size + 1);
    found = tfind(wanted, &watches->by_path, by_path);
    free(wanted);
    return found ? *found : NULL;
}

static void
forget_folder(struct inotify *watches, struct folder *folder)
{
    struct folder **at = tfind(folder, &watches->by_path, by_path);

    if (at && *at == folder)
        tdelete(folder, &watches->by_path, by_path);
    tdelete(folder, &watches->by_wd, by_wd);
    watches->n--;
    free(folder);
}

static void
end_watch(struct inotify *watches, struct folder *folder)
{
    inotify_rm_watch(watches->fd, folder->wd);
    forget_folder(watches, folder);
}

static bool
insert_folder(struct inotify *watches, int wd, const char *path)
{
    size_t size = strlen(path);
    struct folder *folder = malloc(sizeof(*folder) + size + 1);
    struct folder *other;
    struct folder **at;

    if (!folder)
        return false;
    folder->wd = wd;
    folder->round = watches->round;
    memcpy(folder->path, path, size + 1);
    if (!tsearch(folder, &watches->by_wd, by_wd)) {
        free(folder);
        return false;
    }
    watches->n++;
    at = tsearch(folder, &watches->by_path, by_path);
    if (!at)
        return false;
    other = *at;
    if (other != folder) {
        *at = folder; /* an equal path: the tree's order stays */
        end_watch(watches, other);
    }
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
                watches->n, limit);
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

bool
inotify_has(const struct inotify *watches, const char *path)
{
    return folder_at(watches, path) != NULL;
}

/* Walks over all watches */

static void
pick_folder(struct inotify *watches, struct folder *folder)
{
    struct folder **found =
        ONE_MORE(watches->found, &watches->room, watches->n_found);

    if (!found)
        return; /* a watch too many only costs looks */
    watches->found = found;
    found[watches->n_found++] = folder;
}

static void
pick_below(const void *node, VISIT which, void *user)
{
    struct inotify *watches = user;
    struct folder *folder = *(struct folder *const *)node;
    size_t size = strlen(watches->prefix);

    if ((which == postorder || which == leaf) &&
        !strncmp(folder->path, watches->prefix, size) &&
        (folder->path[size] == '/' || !folder->path[size]))
        pick_folder(watches, folder);
}

static void
pick_old(const void *node, VISIT which, void *user)
{
    struct inotify *watches = user;
    struct folder *folder = *(struct folder *const *)node;

    if ((which == postorder || which == leaf) &&
        folder->round != watches->round)
        pick_folder(watches, folder);
}

static void
end_picked(struct inotify *watches,
           void (*pick_fn)(const void *node, VISIT which, void *user))
{
    watches->n_found = 0;
    twalk_r(watches->by_wd, pick_fn, watches);
    for (size_t i = 0; i < watches->n_found; i++)
        end_watch(watches, watches->found[i]);
}

void
inotify_begin_round(struct inotify *watches)
{
    watches->round++;
}

void
inotify_end_round(struct inotify *watches)
{
    end_picked(watches, pick_old);
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
    if (is_folder && (event->mask & IN_MOVED_FROM)) {
        watches->prefix = path;
        end_picked(watches, pick_below);
    }
    /* A watched folder has its own events; its times do not matter. */
    if (is_folder && (event->mask & IN_ATTRIB) && inotify_has(watches, path))
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

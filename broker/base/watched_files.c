#include "broker/base/watched_files.h"

#include <stdalign.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "broker/base/diag.h"

#define QUIET_US    100000
#define LONGEST_US  1000000
#define PATIENCE_US 2000000

/* As the kernel (path_resolution(7)). */
#define LINKS_MAX 40

/* A folder may vanish, or a link change, between two calls: then the walk
 * begins again. */
#define WALKS_MAX 10

#define EVENTS                                                              \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | \
     IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* Distinguishes one content of a file from another. All zero: there is none. */
struct mark {
    uint64_t device, inode;
    int64_t size, written[2], changed[2]; /* seconds, nanoseconds */
};

struct group {
    struct watched_group of;
    struct mark marks[WATCHED_FILES_MAX]; /* of the last look */
    bool is_changed;                      /* to be read */
    int64_t first_us, last_us;            /* of the changes, if is_changed */
    int64_t report_us; /* when a bad group is reported; 0: it is not bad */
    struct problem why;
};

/* A name in a watched folder: a part of a path, or of a link's target. */
struct place {
    int watch;
    char *name;
    bool is_needed;
};

struct watched_files {
    int inotify; /* -1: none yet */
    bool is_reported;
    const struct watched_calls *calls;
    void *user;
    struct place *places;
    size_t n_places, capacity;
    size_t n_groups;
    struct group groups[];
};

/* Life */

struct watched_files *
watched_files_new(const struct watched_group *groups, size_t n,
                  const struct watched_calls *calls, void *user)
{
    struct watched_files *w =
        memory_new(1, sizeof(*w) + n * sizeof(w->groups[0]));

    w->inotify = -1;
    w->calls = calls;
    w->user = user;
    w->n_groups = n;
    for (size_t i = 0; i < n; i++)
        w->groups[i].of = groups[i];
    return w;
}

void
watched_files_free(struct watched_files *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_places; i++)
        free(w->places[i].name);
    free(w->places);
    if (w->inotify >= 0)
        close(w->inotify);
    free(w);
}

/* Folders */

/* Watches `folder` for `name`. Sets *is_new if nobody watched for it. */
static bool
add_place(struct watched_files *w, const char *folder, const char *name,
          bool *is_new)
{
    int watch;

    if (w->inotify < 0)
        w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify < 0)
        return false;
    watch = inotify_add_watch(w->inotify, folder[0] ? folder : ".", EVENTS);
    if (watch < 0)
        return false;
    for (size_t i = 0; i < w->n_places; i++)
        if (w->places[i].watch == watch && !strcmp(w->places[i].name, name)) {
            w->places[i].is_needed = true;
            return true;
        }
    (void)ONE_MORE(w->places, &w->capacity, w->n_places);
    w->places[w->n_places++] =
        (struct place){watch, slice_dup(slice_of(name)), true};
    *is_new = true;
    return true;
}

/* Forgets the places that the last walks did not need, and the folders without
 * any. */
static void
drop_places(struct watched_files *w)
{
    for (size_t i = 0; i < w->n_places;) {
        struct place *place = &w->places[i];
        bool is_shared = false;

        if (place->is_needed) {
            i++;
            continue;
        }
        for (size_t j = 0; j < w->n_places; j++)
            if (j != i && w->places[j].watch == place->watch)
                is_shared = true;
        if (!is_shared) /* an error: the folder is gone */
            inotify_rm_watch(w->inotify, place->watch);
        free(place->name);
        *place = w->places[--w->n_places];
    }
}

/* A path that is being walked. */
struct walk {
    char folder[PATH_MAX]; /* so far, without links; "": the working folder */
    char rest[PATH_MAX];
};

/* Replaces the name that was just taken off `rest` by the target of the link
 * `path`. */
static bool
follow_link(struct walk *walk, const char *path)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t size = readlink(path, target, sizeof(target) - 1);

    if (size <= 0)
        return false;
    target[size] = '\0';
    snprintf(rest, sizeof(rest), "%s", walk->rest);
    if (target[0] == '/')
        memcpy(walk->folder, "/", sizeof("/"));
    return snprintf(walk->rest, sizeof(walk->rest), "%s/%s", target, rest) <
           (int)sizeof(walk->rest);
}

/* Takes the next name off `rest`. False: there is none. */
static bool
next_name(struct walk *walk, char *name, size_t size)
{
    char *from = walk->rest + strspn(walk->rest, "/");
    size_t n = strcspn(from, "/");

    if (!n || n >= size)
        return false;
    memcpy(name, from, n);
    name[n] = '\0';
    from += n + strspn(from + n, "/");
    memmove(walk->rest, from, strlen(from) + 1);
    return true;
}

/* Watches the folder of a file, and the folders of links on the way; if
 * something is missing, the folder where it should be. False: errno says what
 * failed. */
static bool
walk_once(struct watched_files *w, const char *path, bool *is_new)
{
    struct walk walk;
    char name[NAME_MAX + 1], full[PATH_MAX];
    int links = 0;

    snprintf(walk.folder, sizeof(walk.folder), "%s", path[0] == '/' ? "/" : "");
    snprintf(walk.rest, sizeof(walk.rest), "%s", path);
    while (next_name(&walk, name, sizeof(name))) {
        size_t size = strlen(walk.folder);
        struct stat info;
        bool is_there, is_link;

        if (snprintf(full, sizeof(full), "%s%s%s", walk.folder,
                     size && walk.folder[size - 1] != '/' ? "/" : "",
                     name) >= (int)sizeof(full))
            return true; /* no file has such a path */
        is_there = !lstat(full, &info);
        is_link = is_there && S_ISLNK(info.st_mode);
        if ((!is_there || is_link || !walk.rest[0]) &&
            !add_place(w, walk.folder, name, is_new))
            return false;
        if (is_link && (++links > LINKS_MAX || !follow_link(&walk, full)))
            return true;
        if (!is_there || (!is_link && !walk.rest[0]))
            return true;
        if (!is_link)
            memcpy(walk.folder, full, strlen(full) + 1);
    }
    return true;
}

/* Walks again when it has begun to watch a folder: from then on no change on
 * this way is missed. */
static void
watch_path(struct watched_files *w, const char *path)
{
    bool is_new = true, is_watched = true;

    for (int i = 0; i < WALKS_MAX && (is_new || !is_watched); i++) {
        is_new = false;
        is_watched = walk_once(w, path, &is_new);
        if (!is_watched && errno != ENOENT && errno != ENOTDIR)
            break;
    }
    if (is_watched || w->is_reported)
        return;
    w->is_reported = true;
    DIAG(DIAG_WARNING, "base",
         "files are not watched: after a change SIGHUP reads them",
         diag_text("file", path), diag_text("error", strerror(errno)));
}

/* Looking */

void
watched_files_look(struct watched_files *w)
{
    for (size_t i = 0; i < w->n_places; i++)
        w->places[i].is_needed = false;
    for (size_t i = 0; i < w->n_groups; i++)
        for (size_t j = 0; j < WATCHED_FILES_MAX; j++) {
            const char *path = w->groups[i].of.paths[j];

            if (path && path[0])
                watch_path(w, path);
        }
    drop_places(w);
    for (size_t i = 0; i < w->n_groups; i++) {
        struct group *g = &w->groups[i];

        for (size_t j = 0; j < WATCHED_FILES_MAX; j++) {
            const char *path = g->of.paths[j];
            struct mark mark = {0};
            struct stat info;

            if (path && path[0] && !stat(path, &info))
                mark =
                    (struct mark){info.st_dev,
                                  info.st_ino,
                                  info.st_size,
                                  {info.st_mtim.tv_sec, info.st_mtim.tv_nsec},
                                  {info.st_ctim.tv_sec, info.st_ctim.tv_nsec}};
            if (!memcmp(&mark, &g->marks[j], sizeof(mark)))
                continue;
            g->marks[j] = mark;
            g->last_us = clock_steady_us();
            if (!g->is_changed)
                g->first_us = g->last_us;
            g->is_changed = true;
        }
    }
}

void
watched_files_settle(struct watched_files *w)
{
    for (size_t i = 0; i < w->n_groups; i++) {
        w->groups[i].is_changed = false;
        w->groups[i].report_us = 0;
    }
}

/* Turning */

int
watched_files_fd(const struct watched_files *w)
{
    return w->inotify;
}

/* When the group is due; 0: never. */
static int64_t
due_us(const struct group *g)
{
    int64_t at_us = g->last_us + QUIET_US;

    if (!g->is_changed)
        return g->report_us;
    return at_us < g->first_us + LONGEST_US ? at_us : g->first_us + LONGEST_US;
}

int
watched_files_wait_ms(const struct watched_files *w)
{
    int64_t first_us = 0;

    for (size_t i = 0; i < w->n_groups; i++) {
        int64_t at_us = due_us(&w->groups[i]);

        if (at_us && (!first_us || at_us < first_us))
            first_us = at_us;
    }
    return first_us ? clock_wait_ms(first_us) : -1;
}

/* True if an event is about a file that a path names. Others change the same
 * folders. */
static bool
is_of_place(const struct watched_files *w, const struct inotify_event *event)
{
    if (!event->len) /* of a folder itself, or too many events */
        return !(event->mask & (IN_IGNORED | IN_ATTRIB));
    for (size_t i = 0; i < w->n_places; i++)
        if (w->places[i].watch == event->wd &&
            !strcmp(w->places[i].name, event->name))
            return true;
    return false;
}

void
watched_files_turn(struct watched_files *w)
{
    alignas(struct inotify_event) char bytes[16384];
    bool is_changed = false;
    ssize_t n;

    while (w->inotify >= 0 && (n = read(w->inotify, bytes, sizeof(bytes))) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(bytes + at);

            is_changed = is_changed || is_of_place(w, event);
            at += (ssize_t)(sizeof(*event) + event->len);
        }
    if (is_changed)
        watched_files_look(w);
    for (size_t i = 0; i < w->n_groups; i++) {
        struct group *g = &w->groups[i];
        int64_t now_us = clock_steady_us();

        if (g->is_changed && due_us(g) <= now_us) {
            g->is_changed = false;
            g->why.text[0] = '\0';
            if (!w->calls->read(w->user, i, &g->why))
                g->report_us = 0;
            else if (!g->report_us)
                g->report_us = clock_steady_us() + PATIENCE_US;
        }
        if (!g->is_changed && g->report_us && g->report_us <= now_us) {
            g->report_us = 0;
            w->calls->report(w->user, &g->why);
        }
    }
}

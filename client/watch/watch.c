/*
 * watch.c - a directory's files as a set.
 *
 * Functions that return false have found that the watch ends: it was stopped,
 * the directory is gone, or there is a trouble.
 */
#include "client/watch/watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/watch/dirty.h"
#include "client/watch/filehash.h"
#include "client/watch/ledger.h"
#include "client/watch/locs.h"
#include "client/watch/mediatypes.h"
#include "client/watch/outbox.h"
#include "client/watch/tree.h"
#include "client/watch/watches.h"

/* What happens in one go (a file written and renamed, a folder unpacked) is
 * looked at when it has been quiet for a moment, but not put off for long. */
#define QUIET_MS  50
#define SETTLE_MS 500

/* What inotify does not tell (a folder above was moved, a file system was
 * unmounted behind our back) is looked for when it is quiet. */
#define LOOK_ROUND_MS 5000

/* Looks at files between two looks at the kernel's queue, which has room for
 * 16,384 news by default. */
#define LOOKS_PER_HEARING 256

struct watch {
    struct watch_options options;
    struct td_client *client;
    int stop_fd; /* an eventfd, readable when it is to stop */
    atomic_bool is_stopped;

    struct tree tree;
    struct stat state; /* of the folder where the ledger is */
    struct ledger *ledger;
    struct watches *watches; /* NULL: is_once */
    struct mediatypes *types;
    struct filehasher *hasher;
    struct filehash hash;
    struct dirty dirty;
    struct outbox outbox;

    bool needs_scan;  /* what has to be looked at is not known: all */
    bool is_gone;     /* the directory */
    bool is_usage;    /* the trouble is the caller's */
    uint64_t n_files; /* seen by this scan */
    unsigned n_looks;
    struct trouble trouble;
};

/* Saying */

static void __attribute__((format(printf, 2, 3)))
warn(struct watch *w, const char *format, ...)
{
    struct trouble text = {""};
    char plain[sizeof(text.text)];
    va_list args;

    va_start(args, format);
    vsnprintf(plain, sizeof(plain), format, args);
    va_end(args);
    trouble_set(&text, "%s", plain);
    w->options.on_warning(text.text, w->options.user);
}

static bool
ledger_failed(struct watch *w)
{
    trouble_set(&w->trouble, "%s", ledger_trouble(w->ledger));
    return false;
}

static bool
gone(struct watch *w)
{
    w->is_gone = true;
    return false;
}

/* Hearing */

static void
on_news(enum watches_news news, const char *path, void *user)
{
    struct watch *w = user;

    if (news == WATCHES_GONE)
        w->is_gone = true;
    else if (news == WATCHES_LOST)
        w->needs_scan = true;
    else if (!locs_is_excluded(w->options.excludes, w->options.n_excludes,
                               path) &&
             !w->needs_scan && !dirty_add(&w->dirty, path))
        w->needs_scan = true;
}

/* Takes in what there is to hear; may the watch go on? */
static bool
hear(struct watch *w)
{
    if (w->watches && !watches_read(w->watches, &w->trouble))
        return false;
    return !w->is_gone && !atomic_load(&w->is_stopped);
}

static int64_t
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits for news, `ms` at most; true if there are some. */
static bool
poll_news(struct watch *w, int64_t ms)
{
    struct pollfd fds[] = {
        {.fd = w->stop_fd, .events = POLLIN},
        {.fd = w->watches ? watches_fd(w->watches) : -1, .events = POLLIN},
    };

    return ms > 0 && poll(fds, 2, (int)ms) > 0;
}

/* The outbox waits for the broker. Dirty paths gather, within their bounds. */
static bool
wait_hearing(unsigned ms, void *user)
{
    struct watch *w = user;
    int64_t end = now_ms() + ms;

    tree_rest(&w->tree);
    while (hear(w) && now_ms() < end)
        poll_news(w, end - now_ms());
    return !hear(w);
}

static bool
should_stop(void *user)
{
    return !hear(user);
}

/* Posting */

static bool
deliver(struct watch *w)
{
    switch (outbox_deliver(&w->outbox)) {
    case OUTBOX_DONE:
        return true;
    case OUTBOX_AGAIN:
        w->needs_scan = true;
        return true;
    case OUTBOX_USAGE:
        w->is_usage = true;
        return false;
    case OUTBOX_STOPPED:
    case OUTBOX_FAILED:
        break;
    }
    return false;
}

/* Posts what there is. Where files are told to be deleted, the directory must
 * still be there: what a directory has that is gone, or another one, says
 * nothing of them. */
static bool
flush(struct watch *w)
{
    if (outbox_is_empty(&w->outbox))
        return ledger_save(w->ledger) || ledger_failed(w);
    if (w->outbox.n_deleted) {
        if (!hear(w))
            return false;
        if (!tree_is_there(&w->tree))
            return gone(w);
    }
    return outbox_seal(&w->outbox) && deliver(w);
}

/* After each look at a file. */
static bool
go_on(struct watch *w)
{
    if (outbox_is_due(&w->outbox) && !flush(w))
        return false;
    return ++w->n_looks % LOOKS_PER_HEARING || hear(w);
}

/* Looking: a file */

static bool
tell(struct watch *w, const char *change, const char *path, const char *loc,
     const struct filemark *mark, const char *type)
{
    return outbox_add(&w->outbox, change, path, loc, mark, type) && go_on(w);
}

/* Nothing, if nothing was posted of it. */
static bool
tell_deleted(struct watch *w, const char *path)
{
    struct filemark mark;
    char loc[LOCS_MAX + 1];
    bool is_known;

    if (!ledger_file(w->ledger, path, &is_known, &mark))
        return ledger_failed(w);
    return !is_known || !locs_write(loc, w->options.base_uri, path) ||
           tell(w, "deleted", path, loc, NULL, NULL);
}

static bool
tell_content(struct watch *w, const char *path, const char *name, bool is_known,
             const struct filemark *known)
{
    const struct filemark *mark = &w->hash.mark;
    char loc[LOCS_MAX + 1];

    /* Only touched: the resource is what it was. */
    if (is_known && known->size == mark->size &&
        !memcmp(known->sha256, mark->sha256, sizeof(mark->sha256)))
        return ledger_note(w->ledger, path, mark) ? go_on(w) : ledger_failed(w);

    if (!locs_write(loc, w->options.base_uri, path)) {
        warn(w,
             "\"%s\" is not published: its URI would not have %d to %d "
             "bytes",
             path, LOCS_MIN, LOCS_MAX);
        return true;
    }
    return tell(w, is_known ? "updated" : "created", path, loc, mark,
                mediatypes_of(w->types, name, w->hash.head, w->hash.head_size));
}

static bool
look_at_file(struct watch *w, const char *path, int dir_fd, const char *name,
             const struct stat *st)
{
    struct filemark known;
    bool is_known;

    w->n_files++;
    if (!ledger_file(w->ledger, path, &is_known, &known))
        return ledger_failed(w);
    if (is_known && filemark_is_of(&known, st))
        return go_on(w);

    switch (filehash_read(w->hasher, dir_fd, name, &w->hash)) {
    case FILEHASH_READ:
        return tell_content(w, path, name, is_known, &known);
    case FILEHASH_WRITTEN:
        /* Its closing will be heard. */
        if (!w->watches)
            warn(w, "\"%s\" is being written; left for the next time", path);
        return true;
    case FILEHASH_FAILED:
        warn(w, "cannot read \"%s\": %s", path, strerror(errno));
        return true;
    case FILEHASH_GONE: /* will be heard, or found by the sweep */
        return true;
    case FILEHASH_STOPPED:
        break;
    }
    return false;
}

/* Looking: folders */

static bool
is_excluded(const struct watch *w, const char *path)
{
    return locs_is_excluded(w->options.excludes, w->options.n_excludes, path);
}

/* Is there surely no file of that path that is published? */
static bool
is_absent(struct watch *w, const char *path, bool *is_absent)
{
    struct stat st;
    int dir_fd;
    const char *name;

    *is_absent = is_excluded(w, path);
    if (*is_absent)
        return true;
    switch (tree_look(&w->tree, path, &st, &dir_fd, &name)) {
    case TREE_FOUND:
        *is_absent = !S_ISREG(st.st_mode);
        return true;
    case TREE_ABSENT:
        *is_absent = true;
        return true;
    case TREE_FAILED:
        return true;
    case TREE_GONE:
        break;
    }
    return gone(w);
}

/* Tells of all that was posted and whose path begins with `prefix`, whether it
 * is deleted. */
static bool
sweep(struct watch *w, const char *prefix)
{
    char path[LOCS_PATH_MAX + 1] = "";
    bool is_there;
    bool is_gone;

    for (;;) {
        if (!ledger_next(w->ledger, prefix, path, &is_there))
            return ledger_failed(w);
        if (!is_there)
            return true;
        if (!is_absent(w, path, &is_gone))
            return false;
        if (!(is_gone ? tell_deleted(w, path) : go_on(w)))
            return false;
    }
}

/* What was posted of a folder of that path. */
static bool
sweep_below(struct watch *w, const char *path)
{
    char prefix[LOCS_PATH_MAX + 2];

    snprintf(prefix, sizeof(prefix), "%s/", path);
    return sweep(w, prefix);
}

/* Folders that wait for being read. */
struct folders {
    char **paths;
    size_t n;
    size_t room;
};

static bool
push(struct watch *w, struct folders *folders, const char *path)
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
    trouble_set(&w->trouble, "no memory");
    return false;
}

/* One name in a folder. */
static bool
look_at_name(struct watch *w, struct folders *folders, const char *folder,
             const char *entry, bool with_files)
{
    char path[LOCS_PATH_MAX + NAME_MAX + 2];
    struct stat st;
    int dir_fd;
    const char *name;

    snprintf(path, sizeof(path), "%s%s%s", folder, folder[0] ? "/" : "", entry);
    if (strlen(path) > LOCS_PATH_MAX) {
        if (with_files)
            warn(w, "\"%s\" is not published: its path is too long", path);
        return true;
    }
    if (is_excluded(w, path))
        return true;
    switch (tree_look(&w->tree, path, &st, &dir_fd, &name)) {
    case TREE_FOUND:
        if (S_ISDIR(st.st_mode))
            return push(w, folders, path);
        return !with_files || !S_ISREG(st.st_mode) ||
               look_at_file(w, path, dir_fd, name, &st);
    case TREE_FAILED:
        if (with_files)
            warn(w, "cannot look at \"%s\": %s", path, strerror(errno));
        return true;
    case TREE_ABSENT:
        return true;
    case TREE_GONE:
        break;
    }
    return gone(w);
}

/* Opens a folder and watches it, before its names are read: what comes in
 * later is heard of, what was there before is read. `*fd` -1: passed over. */
static bool
enter(struct watch *w, const char *path, bool with_files, int *fd)
{
    struct stat st;

    switch (tree_folder(&w->tree, path, fd)) {
    case TREE_FOUND:
        break;
    case TREE_ABSENT:
        return true;
    case TREE_FAILED:
        if (with_files)
            warn(w, "cannot read \"%s\": %s", path, strerror(errno));
        return true;
    case TREE_GONE:
        return gone(w);
    }
    if (!fstat(*fd, &st) && st.st_dev == w->state.st_dev &&
        st.st_ino == w->state.st_ino) {
        close(*fd); /* the ledger is never published */
        *fd = -1;
        return true;
    }
    if (!w->watches || watches_add(w->watches, *fd, path, &w->trouble))
        return true;
    close(*fd);
    *fd = -1;
    return false;
}

static bool
scan_folder(struct watch *w, struct folders *folders, const char *path,
            bool with_files)
{
    struct tree_names names;
    bool is_good;
    int fd;

    if (!enter(w, path, with_files, &fd))
        return false;
    if (fd < 0)
        return true;
    if (!tree_names_read(&names, fd)) {
        warn(w, "cannot read \"%s\": %s", path, strerror(errno));
        return true;
    }
    is_good = hear(w);
    for (size_t i = 0; i < names.n && is_good; i++)
        is_good = look_at_name(w, folders, path, names.names[i], with_files);
    tree_names_free(&names);
    return is_good;
}

/* All folders from `path` on; with_files also their files, and what was posted
 * before and is no more. */
static bool
scan(struct watch *w, const char *path, bool with_files)
{
    struct folders folders = {NULL};
    bool is_good = push(w, &folders, path);

    tree_rest(&w->tree);
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

/* A path of which something was heard. */
static bool
look_at(struct watch *w, const char *path)
{
    struct stat st;
    int dir_fd;
    const char *name;

    tree_rest(&w->tree);
    switch (tree_look(&w->tree, path, &st, &dir_fd, &name)) {
    case TREE_FOUND:
        if (S_ISDIR(st.st_mode))
            return tell_deleted(w, path) && scan(w, path, true) &&
                   sweep_below(w, path);
        if (S_ISREG(st.st_mode))
            return look_at_file(w, path, dir_fd, name, &st) &&
                   sweep_below(w, path);
        return tell_deleted(w, path) && sweep_below(w, path);
    case TREE_ABSENT:
        return tell_deleted(w, path) && sweep_below(w, path);
    case TREE_FAILED:
        warn(w, "cannot look at \"%s\": %s", path, strerror(errno));
        return true;
    case TREE_GONE:
        break;
    }
    return gone(w);
}

/* A mount point whose file system is not mounted is an empty directory. Only at
 * the start: later, the directory is known to be the one it was. */
static bool
may_be_empty(struct watch *w)
{
    uint64_t n_posted;

    if (w->n_files || w->options.allow_empty)
        return true;
    if (!ledger_count(w->ledger, &n_posted))
        return ledger_failed(w);
    if (!n_posted)
        return true;
    if (!tree_is_there(&w->tree))
        return gone(w);
    trouble_set(&w->trouble,
                "%s has no files, but %llu were posted: is a file system not "
                "mounted? with --allow-empty they are posted as deleted",
                w->options.dir, (unsigned long long)n_posted);
    return false;
}

static bool
look_at_all(struct watch *w, bool is_start)
{
    w->needs_scan = false;
    w->n_files = 0;
    dirty_clear(&w->dirty);
    if (w->watches)
        watches_begin_round(w->watches);
    if (!scan(w, "", true) || (is_start && !may_be_empty(w)) || !sweep(w, ""))
        return false;
    if (w->watches)
        watches_end_round(w->watches);
    return true;
}

/* Running */

/* Is what we know of the directory still worth anything? */
static bool
look_round(struct watch *w)
{
    if (!hear(w))
        return false;
    if (!tree_is_there(&w->tree))
        return gone(w);
    tree_rest(&w->tree);
    if (ledger_is_kept(w->ledger))
        return true;
    trouble_set(&w->trouble, "the state in %s was removed", w->options.state);
    return false;
}

static bool
wait_for_news(struct watch *w)
{
    int64_t end;

    tree_rest(&w->tree);
    if (poll_news(w, LOOK_ROUND_MS)) {
        end = now_ms() + SETTLE_MS;
        while (hear(w) && now_ms() < end && poll_news(w, QUIET_MS))
            ;
    }
    return look_round(w);
}

static bool
look_at_next(struct watch *w, bool *is_quiet)
{
    char path[LOCS_PATH_MAX + 1];

    *is_quiet = false;
    if (!hear(w))
        return false;
    if (w->needs_scan)
        return look_at_all(w, false);
    if (dirty_take(&w->dirty, path))
        return look_at(w, path);
    *is_quiet = true;
    return flush(w);
}

static bool
run(struct watch *w)
{
    bool is_quiet = false;

    if (w->watches) {
        if (!scan(w, "", false))
            return false;
        w->options.on_ready(watches_count(w->watches), w->options.user);
    }
    if (!deliver(w) || !look_at_all(w, true))
        return false;
    for (;;) {
        if (!look_at_next(w, &is_quiet))
            return false;
        if (!is_quiet || w->needs_scan)
            continue;
        if (!w->watches)
            return true;
        if (!wait_for_news(w))
            return false;
    }
}

/* Life */

static bool
open_state(struct watch *w)
{
    const char *state = w->options.state;

    if (mkdir(state, 0755) && errno != EEXIST) {
        trouble_set(&w->trouble, "cannot make %s: %s", state, strerror(errno));
        return false;
    }
    if (stat(state, &w->state)) {
        trouble_set(&w->trouble, "cannot use %s: %s", state, strerror(errno));
        return false;
    }
    if (w->state.st_dev == w->tree.dev && w->state.st_ino == w->tree.ino) {
        w->is_usage = true;
        trouble_set(&w->trouble, "the state is a folder of its own, not %s",
                    state);
        return false;
    }
    w->ledger = ledger_open(state, w->options.set_url, w->options.base_uri,
                            &w->trouble);
    return w->ledger != NULL;
}

static bool
open_all(struct watch *w)
{
    const char *fault = locs_fault(w->options.base_uri);

    if (fault) {
        w->is_usage = true;
        trouble_set(&w->trouble, "the base URI %s", fault);
        return false;
    }
    if (!tree_open(&w->tree, w->options.dir, &w->trouble) || !open_state(w))
        return false;
    if (!w->options.is_once) {
        w->watches = watches_open(on_news, w, &w->trouble);
        if (!w->watches)
            return false;
    }
    w->hasher = filehasher_new(should_stop, w);
    w->types = mediatypes_open(MEDIATYPES_TABLE);
    if (!w->hasher || !w->types) {
        trouble_set(&w->trouble, "no memory, or libmagic has no database");
        return false;
    }
    w->outbox.ledger = w->ledger;
    return true;
}

static void
close_all(struct watch *w)
{
    outbox_undo(&w->outbox);
    dirty_clear(&w->dirty);
    mediatypes_close(w->types);
    filehasher_free(w->hasher);
    watches_close(w->watches);
    ledger_close(w->ledger);
    tree_close(&w->tree);
}

struct watch *
watch_new(const struct watch_options *options)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->options = *options;
    w->tree = (struct tree){.root = -1, .parent = -1};
    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->client = td_open();
    if (w->stop_fd < 0 || !w->client) {
        watch_free(w);
        return NULL;
    }
    dirty_init(&w->dirty);
    w->outbox = (struct outbox){
        .client = w->client,
        .set_url = options->set_url,
        .base_uri = options->base_uri,
        .n_entries_max = OUTBOX_ENTRIES_MAX,
        .will_retry = !options->is_once,
        .trouble = &w->trouble,
        .wait = wait_hearing,
        .waiter = w,
        .on_posted = options->on_posted,
        .on_warning = options->on_warning,
        .user = options->user,
    };
    return w;
}

void
watch_free(struct watch *watch)
{
    if (!watch)
        return;
    if (watch->stop_fd >= 0)
        close(watch->stop_fd);
    td_close(watch->client);
    free(watch);
}

enum watch_end
watch_run(struct watch *watch)
{
    enum watch_end end = WATCH_GOOD;

    if (open_all(watch) && !run(watch) && watch->is_gone)
        trouble_set(&watch->trouble,
                    "%s, or a file system in it, was removed, moved or "
                    "unmounted; nothing of that is posted",
                    watch->options.dir);
    if (watch->trouble.text[0])
        end = watch->is_usage ? WATCH_USAGE : WATCH_FAILED;
    close_all(watch);
    return end;
}

const char *
watch_trouble(const struct watch *watch)
{
    return watch->trouble.text;
}

/* A store, a write: whatever it interrupts may be anywhere. */
void
watch_stop(struct watch *watch)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n;

    atomic_store(&watch->is_stopped, true);
    n = write(watch->stop_fd, &one, sizeof(one));
    (void)n;
    td_stop(watch->client);
    errno = saved;
}

/*
 * watch.c - publishes a directory's files as a set.
 *
 * Functions return false if the watch ends: it was stopped, the directory is
 * gone, or something failed.
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
#include <unistd.h>

#include "base/clock.h"
#include "client/watch/file_uri.h"
#include "client/watch/inside.h"
#include "client/watch/looks.h"

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

/* Warnings */

void
watch_warn(struct watch *w, const char *format, ...)
{
    struct problem why = {.text = ""};
    va_list args;

    va_start(args, format);
    problem_vset(&why, STATUS_OK, format, args);
    va_end(args);
    w->options.on_warning(why.text, w->options.user);
}

bool
watch_fail(struct watch *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!w->why.rc)
        problem_vset(&w->why, STATUS_IO, format, args);
    va_end(args);
    return false;
}

bool
watch_ledger_failed(struct watch *w)
{
    return watch_fail(w, "%s", watch_db_trouble(w->ledger));
}

bool
watch_gone(struct watch *w)
{
    w->is_gone = true;
    return false;
}

/* Events */

static void
on_news(enum inotify_news news, const char *path, void *user)
{
    struct watch *w = user;

    if (news == INOTIFY_GONE)
        w->is_gone = true;
    else if (news == INOTIFY_LOST)
        w->needs_scan = true;
    else if (!file_uri_is_excluded(w->options.excludes, w->options.n_excludes,
                                   path) &&
             !w->needs_scan && !path_queue_add(&w->dirty, path))
        w->needs_scan = true;
}

/* Reads the kernel's events. False: the watch ends. */
bool
watch_hear(struct watch *w)
{
    if (w->watches && !inotify_read(w->watches, &w->why))
        return false;
    return !w->is_gone && !atomic_load(&w->is_stopped);
}

/* Waits for events, `ms` at most; true if there are some. */
static bool
poll_news(struct watch *w, int64_t ms)
{
    struct pollfd fds[] = {
        {.fd = w->stop_fd, .events = POLLIN},
        {.fd = w->watches ? inotify_fd(w->watches) : -1, .events = POLLIN},
    };

    return ms > 0 && poll(fds, 2, (int)ms) > 0;
}

/* The outbox waits for the broker. Dirty paths gather, within their bounds. */
static bool
wait_hearing(unsigned ms, void *user)
{
    struct watch *w = user;
    int64_t end = clock_steady_ms() + ms;

    directory_tree_rest(&w->tree);
    while (watch_hear(w) && clock_steady_ms() < end)
        poll_news(w, end - clock_steady_ms());
    return !watch_hear(w);
}

static bool
should_stop(void *user)
{
    return !watch_hear(user);
}

/* Posting */

static bool
deliver_posts(struct watch *w)
{
    switch (post_queue_deliver(&w->outbox)) {
    case POST_QUEUE_DONE:
        return true;
    case POST_QUEUE_AGAIN:
        w->needs_scan = true;
        return true;
    case POST_QUEUE_USAGE:
        w->is_usage = true;
        return false;
    case POST_QUEUE_STOPPED:
    case POST_QUEUE_FAILED:
        break;
    }
    return false;
}

/* Posts the gathered changes. For deletions the directory must still be there:
 * if it is gone or another one, its missing files mean nothing. */
static bool
flush_changes(struct watch *w)
{
    if (post_queue_is_empty(&w->outbox))
        return watch_db_save(w->ledger) || watch_ledger_failed(w);
    if (w->outbox.n_deleted) {
        if (!watch_hear(w))
            return false;
        if (!directory_tree_is_there(&w->tree))
            return watch_gone(w);
    }
    return post_queue_seal(&w->outbox) && deliver_posts(w);
}

bool
watch_go_on(struct watch *w)
{
    if (post_queue_is_due(&w->outbox) && !flush_changes(w))
        return false;
    return ++w->n_looks % LOOKS_PER_HEARING || watch_hear(w);
}

/* Running */

/* Checks that the directory and the state are still there. */
static bool
look_round(struct watch *w)
{
    if (!watch_hear(w))
        return false;
    if (!directory_tree_is_there(&w->tree))
        return watch_gone(w);
    directory_tree_rest(&w->tree);
    if (watch_db_is_kept(w->ledger))
        return true;
    return watch_fail(w, "the state in %s was removed", w->options.state);
}

static bool
wait_for_news(struct watch *w)
{
    int64_t end;

    directory_tree_rest(&w->tree);
    if (poll_news(w, LOOK_ROUND_MS)) {
        end = clock_steady_ms() + SETTLE_MS;
        while (watch_hear(w) && clock_steady_ms() < end &&
               poll_news(w, QUIET_MS))
            ;
    }
    return look_round(w);
}

static bool
look_at_next(struct watch *w, bool *is_quiet)
{
    char path[FILE_URI_PATH_MAX + 1];

    *is_quiet = false;
    if (!watch_hear(w))
        return false;
    if (w->needs_scan)
        return looks_at_all(w, false);
    if (path_queue_take(&w->dirty, path))
        return looks_at(w, path);
    *is_quiet = true;
    return flush_changes(w);
}

static bool
run_watch(struct watch *w)
{
    bool is_quiet = false;

    if (w->watches) {
        if (!looks_at_folders(w))
            return false;
        w->options.on_ready(inotify_count(w->watches), w->options.user);
    }
    if (!deliver_posts(w) || !looks_at_all(w, true))
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
        return watch_fail(w, "cannot make %s: %s", state, strerror(errno));
    }
    if (stat(state, &w->state)) {
        return watch_fail(w, "cannot use %s: %s", state, strerror(errno));
    }
    if (w->state.st_dev == w->tree.dev && w->state.st_ino == w->tree.ino) {
        w->is_usage = true;
        return watch_fail(w, "the state is a folder of its own, not %s", state);
    }
    w->ledger =
        watch_db_open(state, w->options.set_url, w->options.base_uri, &w->why);
    return w->ledger != NULL;
}

static bool
add_headers(struct watch *w)
{
    for (size_t i = 0; i < w->options.n_headers; i++)
        if (td_header(w->client, w->options.set_url, w->options.headers[i])) {
            w->is_usage = true;
            return watch_fail(w, "%s", td_problem(w->client));
        }
    return true;
}

static bool
open_all(struct watch *w)
{
    const char *fault = file_uri_fault(w->options.base_uri);

    if (!add_headers(w))
        return false;
    if (fault) {
        w->is_usage = true;
        return watch_fail(w, "the base URI %s", fault);
    }
    if (!directory_tree_open(&w->tree, w->options.dir, &w->why) ||
        !open_state(w))
        return false;
    if (!w->options.is_once) {
        w->watches = inotify_open(on_news, w, &w->why);
        if (!w->watches)
            return false;
    }
    w->hasher = filehasher_new(should_stop, w);
    w->types = mediatypes_open(MEDIATYPES_TABLE);
    if (!w->hasher || !w->types) {
        return watch_fail(w, "no memory, or libmagic has no database");
    }
    w->outbox.ledger = w->ledger;
    return true;
}

static void
close_all(struct watch *w)
{
    post_queue_undo(&w->outbox);
    path_queue_clear(&w->dirty);
    mediatypes_close(w->types);
    filehasher_free(w->hasher);
    inotify_close(w->watches);
    watch_db_close(w->ledger);
    directory_tree_close(&w->tree);
}

struct watch *
watch_new(const struct watch_options *options)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->options = *options;
    w->tree = (struct directory_tree){.root = -1, .parent = -1};
    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->client = td_open();
    if (w->stop_fd < 0 || !w->client) {
        watch_free(w);
        return NULL;
    }
    path_queue_init(&w->dirty);
    w->outbox = (struct post_queue){
        .client = w->client,
        .set_url = options->set_url,
        .base_uri = options->base_uri,
        .n_entries_max = POST_QUEUE_ENTRIES_MAX,
        .will_retry = !options->is_once,
        .why = &w->why,
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

    if (open_all(watch) && !run_watch(watch) && watch->is_gone)
        watch_fail(watch,
                   "%s, or a file system in it, was removed, moved or "
                   "unmounted; nothing of that is posted",
                   watch->options.dir);
    if (watch->why.rc)
        end = watch->is_usage ? WATCH_USAGE : WATCH_FAILED;
    close_all(watch);
    return end;
}

const char *
watch_trouble(const struct watch *watch)
{
    return watch->why.text;
}

/* A store, a write: a signal handler may interrupt any code. */
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

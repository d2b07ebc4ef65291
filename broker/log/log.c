#include "broker/log/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/log/await.h"
#include "broker/log/batch_cache.h"
#include "broker/log/inside.h"
#include "broker/log/list_file.h"
#include "broker/log/log_set.h"
#include "broker/log/log_thread.h"
#include "broker/log/trash_files.h"
#include "proto/document_write.h"

/* Batches read from the disk, kept for the next reader: a hundred of the
 * largest. */
#define CACHE_BYTES ((size_t)32 << 20)

/* Sets */

static struct log_set *
set_new(struct log *log, const char *name, void *owner)
{
    struct log_set *set = calloc(1, sizeof(*set));

    if (!set)
        return NULL;
    snprintf(set->name, sizeof(set->name), "%s", name);
    set->owner = owner;
    tail_init(&set->tail);
    list_init(&set->touched);
    pthread_mutex_lock(&log->mutex);
    list_append(&log->sets, &set->node);
    pthread_mutex_unlock(&log->mutex);
    return set;
}

struct log_set *
log_set_new(struct log *log, const char *name, void *owner)
{
    return set_new(log, name, owner);
}

struct log_set *
log_set_again(struct log *log, const char *name, uint64_t list, void *owner)
{
    struct log_set *set = set_new(log, name, owner);

    if (set)
        set->start_list = list;
    return set;
}

const char *
log_set_name(const struct log_set *set)
{
    return set->name;
}

uint64_t
log_set_number(const struct log_set *set)
{
    return atomic_load_explicit(&set->public_id, memory_order_relaxed);
}

void *
log_set_owner(const struct log_set *set)
{
    return set->owner;
}

bool
log_head(struct log_set *set, struct head *head)
{
    tail_head(&set->tail, head);
    return head->exists;
}

/* Opening and closing */

static enum status
on_loaded(const struct engine_set *loaded, void *user, struct problem *why)
{
    struct log *log = user;
    struct log_set *set;

    if (loaded->removed_us)
        return log->options.on_removed
                   ? log->options.on_removed(loaded->name, loaded->head.list,
                                             loaded->removed_us,
                                             log->options.user)
                   : STATUS_OK;
    set = set_new(log, loaded->name, NULL);

    if (set) {
        set->id = loaded->id;
        atomic_store_explicit(&set->public_id, loaded->id,
                              memory_order_relaxed);
        set->draft = set->tail.head = loaded->head;
        if (loaded->head.last_us > atomic_load(&log->log_thread.latest_us))
            atomic_store(&log->log_thread.latest_us, loaded->head.last_us);
        set->owner = log->options.on_set(set, loaded->settings, &set->limits,
                                         log->options.user);
    }
    if (!set || !set->owner)
        return problem_memory(why);
    return STATUS_OK;
}

enum status
log_open(struct log **result, const struct log_options *options,
         struct problem *why)
{
    struct log *log = calloc(1, sizeof(*log));
    enum status rc;

    if (!log)
        return problem_memory(why);
    log->options = *options;
    snprintf(log->dir, sizeof(log->dir), "%s", options->dir);
    log->lock = -1;
    list_init(&log->sets);
    pthread_mutex_init(&log->mutex, NULL);
    tails_init(&log->tails, options->tail_bytes);
    atomic_init(&log->disk_forms, 0);
    atomic_init(&log->is_ending, false);

    rc = file_make_dirs(log->dir, why);
    if (!rc)
        rc = file_lock(log->dir, &log->lock, why);
    if (!rc)
        rc = log->options.open_engine(&log->engine, log->dir, &log->disk_forms,
                                      why);
    if (!rc)
        rc = log->engine->ops->load(log->engine, on_loaded, log, why);
    if (!rc && !(log->cache = batch_cache_new(CACHE_BYTES, &log->disk_forms)))
        rc = problem_memory(why);
    if (!rc) {
        log->log_thread.engine = log->engine;
        log->log_thread.tails = &log->tails;
        log->log_thread.options = &log->options;
        rc = log_thread_start(&log->log_thread, why);
    }
    if (rc) {
        log_close(log);
        return rc;
    }
    *result = log;
    return STATUS_OK;
}

enum status
log_check(const char *dir, struct problem *why)
{
    enum status rc = file_check_dir(dir, why);

    return rc ? rc : file_check_lock(dir, why);
}

const atomic_bool *
log_ending(const struct log *log)
{
    return &log->is_ending;
}

void
log_stop(struct log *log)
{
    /* First: a thread with long work may give it up while the rest is
     * committed. */
    atomic_store_explicit(&log->is_ending, true, memory_order_relaxed);
    log_thread_stop(&log->log_thread);
}

void
log_close(struct log *log)
{
    if (!log)
        return;
    log_thread_stop(&log->log_thread);
    log_thread_fini(&log->log_thread);
    batch_cache_free(log->cache);
    while (!list_is_empty(&log->sets)) {
        struct log_set *set = list_entry(log->sets.next, struct log_set, node);

        list_remove(&set->node);
        tail_fini(&set->tail);
        free(set->made);
        free(set);
    }
    if (log->engine)
        log->engine->ops->close(log->engine);
    if (log->lock >= 0)
        file_unlock(log->lock);
    free(log->by_id);
    tails_fini(&log->tails);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

enum status
log_submit(struct log *log, struct post *post)
{
    return log_thread_submit(&log->log_thread, post, true);
}

enum status
log_submit_later(struct log *log, struct post *post)
{
    return log_thread_submit(&log->log_thread, post, false);
}

void
log_submit_again(struct log *log, struct post *post)
{
    log_thread_submit_again(&log->log_thread, post);
}

void
log_wake(struct log *log)
{
    log_thread_wake(&log->log_thread);
}

void
log_health(struct log *log, struct log_health *health)
{
    int64_t latest_us =
        atomic_load_explicit(&log->log_thread.latest_us, memory_order_relaxed);
    int64_t now_us = clock_now_us();

    health->has_room =
        atomic_load_explicit(&log->log_thread.has_room, memory_order_relaxed);
    health->ahead_us = latest_us > now_us ? latest_us - now_us : 0;
}

/* Reading */

enum status
log_folder(struct log *log, const struct log_set *set, const char *name,
           bool is_made, int *fd, struct problem *why)
{
    char path[sizeof(log->dir) + SET_NAME_MAX + 64];
    enum status rc = STATUS_OK;

    snprintf(path, sizeof(path), "%s/sets/%s/%s", log->dir, set->name, name);
    if (is_made)
        rc = file_make_dirs(path, why);
    *fd = rc ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!rc && *fd < 0) {
        problem_errno(why, "cannot open", path);
        rc = STATUS_IO;
    }
    if (!rc && is_made)
        rc = file_let_passers_read(*fd, why);
    if (rc && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

static enum status
read_closed(struct log *log, struct log_set *set, uint64_t after,
            struct batch **batch, struct problem *why)
{
    struct list_info info;
    struct buf marks;
    int dir_fd = -1;
    enum status rc;

    buf_init(&marks, MARKS_MAX);
    rc = log->engine->ops->list_of(log->engine, set->id, after + 1, &info,
                                   &marks, why);
    if (!rc)
        rc = log_folder(log, set, LOG_CHANGES, false, &dir_fd, why);
    if (!rc)
        rc = list_file_read(dir_fd, &info, buf_slice(&marks), after,
                            &log->disk_forms, batch, why);
    if (dir_fd >= 0)
        close(dir_fd);
    buf_fini(&marks);
    return rc;
}

/*
 * Reads from the store, else from a closed list. Between the two looks the log
 * thread may delete rows of a filed list. So the store comes first: entries
 * that it no longer has are in a file by then, because "filed" was committed
 * before the first row went.
 */
static enum status
read_disk(void *user, struct log_set *set, uint64_t after, struct batch **batch,
          struct problem *why)
{
    struct log *log = user;
    struct problem reason = {""};
    struct head head;
    enum status rc =
        log->engine->ops->read(log->engine, set->id, after, batch, &reason);

    if (!rc && !*batch) {
        rc = read_closed(log, set, after, batch, &reason);
        /* Files of trash go before their rows, and the row of a set's last list
         * stays. */
        if (rc) {
            tail_head(&set->tail, &head);
            if (head.is_removed)
                return problem(why, STATUS_GONE, "the set %s was removed",
                               set->name);
            if (after < head.earliest)
                rc = STATUS_NOT_FOUND;
        }
    }
    if (rc == STATUS_IO) /* the administrator does not see the answers */
        diag(DIAG_ERROR, "log", "entry %" PRIu64 " of %s cannot be read: %s",
             after + 1, set->name, reason.text);
    if (rc && why)
        *why = reason;
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_GONE,
                       "entry %" PRIu64 " is no longer retained", after + 1);
    return rc;
}

enum status
log_read(struct log *log, struct log_set *set, uint64_t after,
         enum log_patience patience, struct batch **batch, struct problem *why)
{
    uint64_t last;

    *batch = tail_find(&set->tail, after, &last);
    if (*batch || after == last)
        return STATUS_OK;
    if (after > last)
        return problem(why, STATUS_GONE,
                       "entry %" PRIu64 " is ahead of the log, which ends at "
                       "%" PRIu64,
                       after, last);
    if (patience == LOG_MEMORY)
        return STATUS_AGAIN;
    return batch_cache_read(log->cache, set, after, read_disk, log, batch, why);
}

void
log_watch(struct log_set *set, struct watch *watch)
{
    pthread_mutex_lock(&set->tail.mutex);
    list_append(&set->tail.watches, &watch->node);
    pthread_mutex_unlock(&set->tail.mutex);
}

void
log_unwatch(struct log_set *set, struct watch *watch)
{
    pthread_mutex_lock(&set->tail.mutex);
    list_remove(&watch->node);
    pthread_mutex_unlock(&set->tail.mutex);
}

enum status
log_lists(struct log *log, struct log_set *set, uint64_t number,
          struct list_info *lists, size_t *n, struct problem *why)
{
    return log->engine->ops->lists(log->engine, set->id, number, lists, n, why);
}

enum status
log_list(struct log *log, struct log_set *set, uint64_t number,
         struct list_info *info, struct buf *header, struct problem *why)
{
    return log->engine->ops->list(log->engine, set->id, number, info, header,
                                  why);
}

enum status
log_list_file(struct log *log, struct log_set *set, uint64_t number, int *fd,
              struct problem *why)
{
    int dir_fd = -1;
    enum status rc = log_folder(log, set, LOG_CHANGES, false, &dir_fd, why);

    if (rc)
        return rc;
    rc = list_file_open(dir_fd, number, fd, why);
    close(dir_fd);
    return rc;
}

/* The file first, as its list's rows go when it is there. Between the two looks
 * they may go: then nobody knows a place, and the beginning will do. */
enum status
log_seek(struct log *log, struct log_set *set, const struct list_info *info,
         uint64_t offset, uint64_t *after, uint64_t *at, struct problem *why)
{
    struct list_info filed = {.after = UINT64_MAX};
    struct buf marks;
    enum status rc = STATUS_OK;

    *after = info->after;
    *at = 0;
    buf_init(&marks, MARKS_MAX);
    if (info->last > info->after)
        rc = log->engine->ops->list_of(log->engine, set->id, info->last, &filed,
                                       &marks, NULL);
    if (!rc && filed.after == info->after)
        list_file_seek(buf_slice(&marks), offset, after, at);
    else if (rc == STATUS_NOT_FOUND)
        rc = log->engine->ops->seek(log->engine, set->id, info, offset, after,
                                    at, why);
    buf_fini(&marks);
    return rc;
}

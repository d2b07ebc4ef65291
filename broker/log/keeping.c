/*
 * keeping.c - what of a log is kept: files of closed lists, retention,
 * generations. The archive thread's (log.h).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/log/await.h"
#include "broker/log/inside.h"
#include "broker/log/list_file.h"
#include "broker/log/log_set.h"
#include "broker/log/trash_files.h"
#include "proto/document_write.h"

struct source {
    struct log *log;
    struct log_set *set;
};

static enum status
next_of_list(void *user, uint64_t after, struct batch **batch,
             struct problem *why)
{
    struct source *source = user;
    struct log *log = source->log;
    uint64_t last;

    /* The log would not take the news of the file: the next process writes the
     * file. A batch has at most BATCH_BYTES_MAX, so this is soon. */
    if (atomic_load_explicit(&log->is_ending, memory_order_relaxed))
        return problem(why, STATUS_STOPPED, "the log is ending");
    /* Not through the cache: filed entries are seldom read next. */
    *batch = tail_find(&source->set->tail, after, &last);
    if (*batch)
        return STATUS_OK;
    return log->engine->ops->read(log->engine, source->set->id, after, batch,
                                  why);
}

enum status
log_act(struct log *log, struct log_set *set, const struct act *act,
        int64_t grace_us, struct problem *why)
{
    struct post post = {
        .kind = POST_ACT, .set = set, .act = act, .grace_us = grace_us};

    return await_post(log, &post, why);
}

/* Reports the file of a list and its size to the log. */
static enum status
submit_filed(struct log *log, struct log_set *set, int dir_fd, uint64_t number,
             struct slice marks, struct problem *why)
{
    const struct act act = {
        .kind = ACT_FILED,
        .filed = {.list = number,
                  .marks = marks,
                  .bytes = list_file_size(dir_fd, number)},
    };

    return log_act(log, set, &act, 0, why);
}

static enum status
note_id(struct log *log, struct log_set *set, uint32_t id)
{
    if (id >= log->n_by_id) {
        size_t n = (size_t)id + id / 2 + 64;
        struct log_set **by_id = realloc(log->by_id, n * sizeof(*by_id));

        if (!by_id)
            return STATUS_MEMORY;
        memset(by_id + log->n_by_id, 0, (n - log->n_by_id) * sizeof(*by_id));
        log->by_id = by_id;
        log->n_by_id = n;
    }
    if (id)
        log->by_id[id] = set;
    return STATUS_OK;
}

/* The set with that id. Ids are small numbers, given in order, so a table knows
 * them; one that is not in it yet was published since the last look at all
 * sets, which is rare. The table is the archive thread's. */
static struct log_set *
set_of_id(struct log *log, uint32_t id)
{
    struct list *node, *after;

    if (id < log->n_by_id && log->by_id[id])
        return log->by_id[id];
    pthread_mutex_lock(&log->mutex);
    list_foreach (node, after, &log->sets) {
        struct log_set *set = list_entry(node, struct log_set, node);

        if (note_id(
                log, set,
                atomic_load_explicit(&set->public_id, memory_order_relaxed)))
            break;
    }
    pthread_mutex_unlock(&log->mutex);
    return id < log->n_by_id ? log->by_id[id] : NULL;
}

enum status
log_file_list(struct log *log, bool *is_done, struct problem *why)
{
    struct source source = {.log = log};
    struct list_info info;
    struct buf header, marks;
    uint32_t id;
    int dir_fd = -1;
    enum status rc;

    *is_done = false;
    buf_init(&header, DOCUMENT_FRAME_MAX);
    buf_init(&marks, MARKS_MAX);
    rc = log->engine->ops->unfiled(log->engine, &id, &info, &header, why);
    if (rc == STATUS_NOT_FOUND) {
        *is_done = true;
        rc = STATUS_OK;
        goto out;
    }
    if (rc)
        goto out;
    source.set = set_of_id(log, id);
    if (!source.set) {
        /* Committed, but not yet published: its list's end will wake us. */
        *is_done = true;
        goto out;
    }
    rc = log_folder(log, source.set, LOG_CHANGES, true, &dir_fd, why);
    if (!rc)
        rc = list_file_write(dir_fd, &info, buf_slice(&header), next_of_list,
                             &source, &marks, why);
    if (!rc)
        rc = submit_filed(log, source.set, dir_fd, info.number,
                          buf_slice(&marks), why);
    if (rc == STATUS_GONE) {
        rc = STATUS_OK; /* removed meanwhile: its file goes with the others */
        goto out;
    }
    if (!rc)
        DIAG(DIAG_DEBUG, "log", "a list is filed",
             diag_text("set", source.set->name),
             diag_number("list", info.number));

out:
    if (dir_fd >= 0)
        close(dir_fd);
    buf_fini(&header);
    buf_fini(&marks);
    return rc;
}

enum status
log_retire(struct log *log, struct log_set *set, const struct list_info *lists,
           size_t n, int64_t grace_us, struct problem *why)
{
    struct act act = {
        .kind = ACT_RETIREMENT,
        .retirement = {.last = lists[n - 1].number,
                       .earliest = lists[n - 1].last},
    };
    int dir_fd = -1;
    enum status rc = log_folder(log, set, LOG_CHANGES, false, &dir_fd, why);

    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        act.retirement.bytes += list_file_size(dir_fd, lists[i].number);
    close(dir_fd);
    return log_act(log, set, &act, grace_us, why);
}

/* Is there a set of that name? */
static bool
is_there(struct log *log, const char *name)
{
    struct list *node, *after;
    struct head head;
    bool is_there = false;

    pthread_mutex_lock(&log->mutex);
    list_foreach (node, after, &log->sets) {
        struct log_set *set = list_entry(node, struct log_set, node);

        if (!strcmp(set->name, name) && log_head(set, &head)) {
            is_there = true;
            break;
        }
    }
    pthread_mutex_unlock(&log->mutex);
    return is_there;
}

/* One step of one piece of trash. */
static enum status
purge_step(struct log *log, const struct engine_trash *trash,
           struct problem *why)
{
    struct act act = {.kind = ACT_PURGED, .purged = {.trash = trash->id}};
    /* A set of that name that begins from here on has no files yet: only this
     * thread would make them. */
    enum status rc = trash_files_unlink(
        log->dir, trash, trash->is_whole && !is_there(log, trash->name),
        &act.purged.upto, why);

    if (rc)
        return rc == STATUS_AGAIN ? STATUS_OK : rc;
    rc = log_act(log, NULL, &act, 0, why);
    if (!rc)
        diag(DIAG_DEBUG, "log", "of %s, lists up to %" PRIu64 " are gone",
             trash->name, act.purged.upto);
    return rc;
}

/* If the deletion of some trash fails, later trash goes first. */
enum status
log_purge(struct log *log, bool *is_done, struct problem *why)
{
    struct engine_trash trash = {.id = 0};
    struct problem reason = {""};
    enum status rc, failed = STATUS_OK;

    while (!(rc = log->engine->ops->trash(log->engine, clock_now_us(), &trash,
                                          &reason))) {
        rc = purge_step(log, &trash, &reason);
        if (rc != STATUS_IO)
            break;
        if (!failed && why)
            *why = reason;
        failed = rc;
    }
    *is_done = rc == STATUS_NOT_FOUND && !failed;
    if (rc == STATUS_NOT_FOUND)
        return failed;
    if (rc && why)
        *why = reason;
    return rc;
}

/* Generations */

enum status
log_switch(struct log *log, struct log_set *set,
           const struct generation *generation, int64_t grace_us,
           struct problem *why)
{
    const struct act act = {
        .kind = ACT_GENERATION,
        .generation = {.build = *generation},
    };

    return log_act(log, set, &act, grace_us, why);
}

enum status
log_generations(struct log *log, struct log_set *set, enum generation_kind kind,
                uint64_t number, struct generation *generations, size_t *n,
                struct problem *why)
{
    return log->engine->ops->generations(
        log->engine,
        atomic_load_explicit(&set->public_id, memory_order_relaxed), kind,
        number, generations, n, why);
}

enum status
log_unarchive(struct log *log, struct log_set *set,
              const struct generation *generations, size_t n, int64_t grace_us,
              struct problem *why)
{
    const struct act act = {
        .kind = ACT_UNARCHIVED,
        .unarchived = {.kind = generations[n].kind,
                       .n = n,
                       .first_archived = generations[n].number},
    };

    return log_act(log, set, &act, grace_us, why);
}

enum status
log_due(struct log *log, struct due_generation *due, struct problem *why)
{
    return log->engine->ops->due(log->engine, clock_now_us(), due, why);
}

enum status
log_swept(struct log *log, const struct due_generation *due,
          struct problem *why)
{
    const struct act act = {.kind = ACT_SWEPT, .swept = {due->id}};

    return log_act(log, NULL, &act, 0, why);
}

#include "broker/log/log.h"

#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/bucket/vault.h"
#include "broker/log/batch_cache.h"
#include "broker/log/engine.h"
#include "broker/log/list_file.h"
#include "broker/log/log_set.h"
#include "broker/log/log_thread.h"
#include "proto/resourcesync/document_write.h"

/* Batches read from the disk, kept for the next reader: a hundred of the
 * largest. */
#define CACHE_BYTES ((size_t)32 << 20)

struct log {
    struct log_options options;
    char dir[4096];
    int lock;
    int dir_fd;        /* the archive thread has it alone to delete */
    bool is_backed_up; /* as of its last attempt: a backup copies files */
    struct engine *engine;
    struct tails tails;
    atomic_size_t disk_forms; /* bytes of forms kept by batches from a disk */
    struct batch_cache *cache;
    struct unfiled_bytes unfiled;
    struct log_thread log_thread;
    atomic_bool is_ending;  /* log_ending */
    atomic_bool is_guarded; /* log_is_guarded */
    bool is_used; /* the engine had a set, or the name of a removed one */

    pthread_mutex_t mutex; /* guards sets */
    struct list sets;

    struct map by_id; /* set_of_id: the archive thread's */
};

/* Sets */

struct log_set *
log_set_new(struct log *log, const char *name, uint64_t list, void *owner)
{
    struct log_set *set = memory_new(1, sizeof(*set));

    snprintf(set->name, sizeof(set->name), "%s", name);
    set->start_list = list;
    set->owner = owner;
    tail_init(&set->tail);
    list_init(&set->touched);
    pthread_mutex_lock(&log->mutex);
    list_append(&log->sets, &set->node);
    pthread_mutex_unlock(&log->mutex);
    return set;
}

bool
log_head(struct log_set *set, struct head *head)
{
    tail_head(&set->tail, head);
    return head->exists;
}

/* Writing */

enum status
log_submit(struct log *log, struct post *post, struct problem *why)
{
    return log_thread_submit(&log->log_thread, post, true, why);
}

enum status
log_submit_later(struct log *log, struct post *post, struct problem *why)
{
    return log_thread_submit(&log->log_thread, post, false, why);
}

void
log_submit_again(struct log *log, struct post *post)
{
    list_prepend(&log->log_thread.waiting, &post->node);
}

void
log_wake(struct log *log)
{
    atomic_bool *is_owed = &log->log_thread.is_owed_a_wake;

    /* A look first: most turns of most loops have nothing to say. */
    if (load_relaxed(is_owed) && atomic_exchange(is_owed, false))
        log_thread_look_again(&log->log_thread);
}

/* A post whose outcome a thread waits for. */
struct awaited {
    struct post post;
    sem_t done;
};

static void
on_awaited(struct post *post)
{
    sem_post(&list_entry(post, struct awaited, post)->done);
}

enum status
log_post_and_wait(struct log *log, struct post *post, struct problem *why)
{
    struct awaited a = {.post = *post};
    enum status rc;

    sem_init(&a.done, 0, 0);
    a.post.done = on_awaited;
    rc = log_submit(log, &a.post, why);
    if (rc)
        return rc;
    while (sem_wait(&a.done)) /* a signal came */
        ;
    *post = a.post;
    if (why)
        *why = a.post.why;
    return a.post.status;
}

enum status
log_act(struct log *log, struct log_set *set, const struct act *act,
        int64_t grace_us, struct problem *why)
{
    struct post post = {
        .kind = POST_ACT, .set = set, .act = act, .grace_us = grace_us};

    return log_post_and_wait(log, &post, why);
}

enum status
log_begin_epoch(struct log *log, struct log_set *set, const char *because,
                struct problem *why)
{
    const struct act act = {.kind = ACT_EPOCH};
    enum status rc = log_act(log, set, &act, 0, why);
    char former[POSITION_MAX];
    struct head head;

    if (rc == STATUS_GONE || !log_head(set, &head) || rc)
        return rc == STATUS_GONE ? STATUS_OK : rc;
    position_write(former, head.former, head.began);
    DIAG(DIAG_WARNING, "log",
         "a set goes on in a new epoch: its readers take all resources anew",
         diag_text("set", set->name), diag_text("epoch", head.epoch),
         diag_text("follows", former), diag_text("because", because));
    return STATUS_OK;
}

bool
log_is_guarded(const struct log *log)
{
    return atomic_load(&log->is_guarded);
}

enum status
log_guard(struct log *log, struct problem *why)
{
    const struct act act = {.kind = ACT_GUARD, .guard = {.is_on = true}};
    enum status rc =
        log_is_guarded(log) ? STATUS_OK : log_act(log, NULL, &act, 0, why);

    if (!rc)
        atomic_store(&log->is_guarded, true);
    return rc;
}

void
log_health(struct log *log, struct log_health *health)
{
    int64_t latest_us = load_relaxed(&log->log_thread.latest_us);
    int64_t now_us = clock_now_us();

    health->has_room = load_relaxed(&log->log_thread.has_room);
    health->ahead_us = latest_us > now_us ? latest_us - now_us : 0;
}

bool
log_is_shared(const struct log *log)
{
    return log->log_thread.options->journal != NULL;
}

void
log_place(struct log *log, struct journal_place *place)
{
    struct order *order = &log->log_thread.order;

    pthread_mutex_lock(&order->mutex);
    *place = order->place;
    pthread_mutex_unlock(&order->mutex);
}

void
log_copy(struct log *log, struct log_copy *copy)
{
    order_copy(&log->log_thread.order, load_relaxed(&log->log_thread.latest_us),
               copy);
    if (log_is_shared(log) && copy->state < COPY_NO_ROOM &&
        !load_relaxed(&log->log_thread.has_room)) {
        copy->state = COPY_NO_ROOM;
        problem_set(&copy->why, LOG_NEARLY_FULL);
    }
}

bool
log_is_certain(struct log *log, int64_t us)
{
    return order_is_certain(&log->log_thread.order, us);
}

void
log_ask_journal(struct log *log)
{
    struct journal *journal = log->log_thread.options->journal;

    if (journal && journal->ops->look)
        journal->ops->look(journal);
}

void
log_note_end(struct log *log, uint64_t end)
{
    order_note_end(&log->log_thread.order, end);
}

void
log_note_copy(struct log *log, int64_t asked_us, int64_t past_us,
              enum status rc, const struct problem *why)
{
    if (rc != STATUS_FORBIDDEN)
        order_note_look(&log->log_thread.order, rc);
    if (rc)
        order_cut_off(&log->log_thread.order,
                      rc == STATUS_FORBIDDEN ? CUT_TURNS : CUT_RECORDS, why);
    else
        order_note(&log->log_thread.order, asked_us, past_us);
}

void
log_note_rights(struct log *log, const struct problem *why)
{
    order_cut_off(&log->log_thread.order, CUT_RIGHTS, why);
}

const struct thread *
log_writer(const struct log *log)
{
    return &log->log_thread.thread;
}

uint64_t
log_births(const struct log *log)
{
    return atomic_load_explicit(&log->log_thread.births, memory_order_acquire);
}

/* Reading */

enum status
log_folder(struct log *log, const struct log_set *set, const char *name,
           bool is_made, int *fd, struct problem *why)
{
    struct file_path path =
        file_path("%s/sets/%s/%s", log->dir, set->name, name);
    enum status rc = is_made ? file_make_dirs(path.text, why) : STATUS_OK;

    *fd = -1;
    if (!rc)
        rc = file_open_folder(AT_FDCWD, path.text, fd, why);
    if (!rc && is_made)
        rc = file_let_passers_read(*fd, why);
    if (rc)
        file_close(fd);
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
    struct list_file file = {.dir_fd = -1, .marks.max = LIST_FILE_MARKS_MAX};
    struct problem reason = {""};
    struct head head;
    enum status rc =
        log->engine->ops->read(log->engine, set->id, after, batch, &reason);

    if (!rc && !*batch) {
        rc = log->engine->ops->list_of(log->engine, set->id, after + 1,
                                       &file.info, &file.marks, &reason);
        if (!rc)
            rc =
                log_folder(log, set, LOG_CHANGES, false, &file.dir_fd, &reason);
        if (!rc)
            rc = list_file_read(&file, after, &log->disk_forms, batch, &reason);
        file_close(&file.dir_fd);
        buf_fini(&file.marks);
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

void
log_view_open(struct log_set *set, uint64_t after, uint64_t upto,
              size_t max_bytes, struct log_view *view)
{
    tail_view(&set->tail, after, upto, max_bytes, view);
}

void
log_view_close(struct log_view *view)
{
    for (size_t i = 0; i < view->n; i++)
        batch_unref(view->batches[i]);
    view->n = 0;
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
    return batch_cache_read(log->cache, set, after, batch, why);
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
         uint64_t offset, struct list_place *place, struct problem *why)
{
    struct list_file file = {.info.after = UINT64_MAX,
                             .marks.max = LIST_FILE_MARKS_MAX};
    enum status rc = STATUS_OK;

    *place = (struct list_place){info->after, 0};
    if (info->last > info->after)
        rc = log->engine->ops->list_of(log->engine, set->id, info->last,
                                       &file.info, &file.marks, NULL);
    if (!rc && file.info.after == info->after)
        list_file_seek(&file, offset, place);
    else if (rc == STATUS_NOT_FOUND)
        rc = log->engine->ops->seek(log->engine, set->id, info, offset, place,
                                    why);
    buf_fini(&file.marks);
    return rc;
}

/* Keeping: the archive thread's */

/* A closed list whose file is being written. */
struct filing {
    struct log *log;
    struct log_set *set;
};

static enum status
next_of_list(void *user, uint64_t after, struct batch **batch,
             struct problem *why)
{
    struct filing *filing = user;
    struct log *log = filing->log;
    uint64_t last;

    /* The log would not take the news of the file: the next process writes the
     * file. A batch has at most BATCH_BYTES_MAX, so this is soon. */
    if (load_relaxed(&log->is_ending))
        return problem(why, STATUS_STOPPED, "the log is ending");
    /* Not through the cache: filed entries are seldom read next. */
    *batch = tail_find(&filing->set->tail, after, &last);
    if (*batch)
        return STATUS_OK;
    return log->engine->ops->read(log->engine, filing->set->id, after, batch,
                                  why);
}

/* Finds the set with that id in a table, which is the archive thread's. A set
 * that is not in it yet was published since the last look at all sets, which is
 * rare. */
static struct log_set *
set_of_id(struct log *log, uint32_t id)
{
    struct map_node *found = map_find(&log->by_id, id);
    struct log_set *set;

    if (!found) {
        pthread_mutex_lock(&log->mutex);
        list_walk (set, &log->sets, node) {
            uint64_t number = log_set_number(set);

            if (number && !set->by_id.hash)
                map_add(&log->by_id, &set->by_id, number);
        }
        pthread_mutex_unlock(&log->mutex);
        found = map_find(&log->by_id, id);
    }
    return found ? map_entry(found, struct log_set, by_id) : NULL;
}

enum status
log_file_list(struct log *log, bool *is_done, struct problem *why)
{
    struct filing filing = {.log = log};
    struct list_file file = {.dir_fd = -1, .marks.max = LIST_FILE_MARKS_MAX};
    struct buf header = {.max = DOCUMENT_FRAME_MAX};
    uint32_t id;
    int64_t seen = load_relaxed(&log->unfiled.bytes);
    enum status rc;

    *is_done = false;
    rc = log->engine->ops->unfiled(log->engine, &id, &file.info, &header, why);
    if (rc == STATUS_NOT_FOUND) {
        *is_done = true;
        rc = STATUS_OK;
        unfiled_bytes_clear(&log->unfiled, seen);
        goto out;
    }
    if (rc)
        goto out;
    filing.set = set_of_id(log, id);
    if (!filing.set) {
        /* Committed, but not yet published: its list's end will wake us. */
        *is_done = true;
        goto out;
    }
    rc = log_folder(log, filing.set, LOG_CHANGES, true, &file.dir_fd, why);
    if (!rc)
        rc = list_file_write(&file, buf_slice(&header), next_of_list, &filing,
                             why);
    if (!rc)
        rc = log_act(
            log, filing.set,
            &(struct act){.kind = ACT_FILED,
                          .filed = {.list = file.info.number,
                                    .marks = buf_slice(&file.marks),
                                    .bytes = list_file_size(file.dir_fd,
                                                            file.info.number)}},
            0, why);
    if (!rc || rc == STATUS_GONE)
        unfiled_bytes_add(&log->unfiled, -(int64_t)file.info.bytes);
    if (rc == STATUS_GONE) {
        rc = STATUS_OK; /* removed meanwhile: its file goes with the others */
        goto out;
    }
    if (!rc)
        DIAG(DIAG_DEBUG, "log", "a list is filed",
             diag_text("set", filing.set->name),
             diag_number("list", file.info.number));

out:
    store_relaxed(&log->unfiled.has_failed, rc && rc != STATUS_STOPPED);
    /* Changes may have waited for this. */
    if (!*is_done || seen > 0)
        log_thread_look_again(&log->log_thread);
    file_close(&file.dir_fd);
    buf_fini(&header);
    buf_fini(&file.marks);
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

    return log_act(log, set, &act, grace_us, why);
}

/* Trash: the files of removed sets and lists stay for a while, because readers
 * may still use them (log_read of a list that was begun before). When they are
 * due, the files go first, then their rows. A crash in between leaves rows
 * without files, which the next process finds again. */

/* Files in one step: a commit's worth of rows; and of what has none. */
#define STEP_FILES 64
#define STEP_REST  1000

/* An earlier attempt may have deleted the file. */
static enum status
unlink_name(int fd, const char *name, struct problem *why)
{
    if (!unlinkat(fd, name, 0) || errno == ENOENT)
        return STATUS_OK;
    return problem_errno(why, "cannot remove", name);
}

/* Some of the lists, up to *upto: their files, and what a crash left of files
 * that were being written. */
static enum status
unlink_lists(const char *path, const struct engine_trash *trash, uint64_t *upto,
             struct problem *why)
{
    char name[LIST_FILE_NAME_MAX + sizeof(".new")];
    int fd;
    enum status rc = file_open_folder(AT_FDCWD, path, &fd, why);

    *upto = trash->last;
    if (rc)
        return errno == ENOENT ? STATUS_OK : rc;
    if (trash->last >= trash->first + STEP_FILES)
        *upto = trash->first + STEP_FILES - 1;
    for (uint64_t i = trash->first; !rc && i <= *upto; i++) {
        list_file_name(name, i);
        rc = unlink_name(fd, name, why);
        if (!rc)
            rc = vault_delete(fd, name, why);
        strcat(name, ".new"); /* file.h */
        if (!rc)
            rc = unlink_name(fd, name, why);
    }
    if (!rc)
        rc = file_sync_dir(fd, why);
    close(fd);
    return rc;
}

/* All else that is in a set's folder: the bytes of its resources, and builds
 * that a crash has cut off, which have no row. Other trash of that name may
 * have lists that are due later; no reader can reach its other files any more.
 */
static enum status
unlink_rest(const char *path, struct problem *why)
{
    DIR *dir = file_open_dir(AT_FDCWD, path, 0);
    const struct dirent *entry;
    size_t n_files = STEP_REST;
    enum status rc = STATUS_OK;
    int fd;

    if (!dir)
        return errno == ENOENT ? STATUS_OK
                               : problem_errno(why, "cannot open", path);
    fd = dirfd(dir);
    while (!rc && (entry = file_next(dir))) {
        unsigned char type = file_type(fd, entry);

        if (type == DT_REG)
            rc = unlink_name(fd, entry->d_name, why);
        else if (type == DT_DIR && entry->d_name[0] != '.' &&
                 strcmp(entry->d_name, LOG_CHANGES) != 0)
            rc = vault_clear(fd, entry->d_name, &n_files, why);
    }
    if (!rc)
        rc = file_sync_dir(fd, why);
    closedir(dir);
    return rc;
}

/* True if a set has that name now. */
static bool
has_set(struct log *log, const char *name)
{
    struct log_set *set;
    struct head head;
    bool has = false;

    pthread_mutex_lock(&log->mutex);
    list_walk (set, &log->sets, node)
        has |= !strcmp(set->name, name) && log_head(set, &head);
    pthread_mutex_unlock(&log->mutex);
    return has;
}

/* One step of one piece of trash: deletes some of its files, durably. With the
 * last list of a set that was removed all other files of its folder go, too,
 * unless a set has that name now. */
static enum status
purge_step(struct log *log, const struct engine_trash *trash,
           struct problem *why)
{
    struct act act = {.kind = ACT_PURGED, .purged = {.trash = trash->id}};
    struct file_path folder = file_path("%s/sets/%s", log->dir, trash->name);
    struct file_path lists = file_path("%s/" LOG_CHANGES, folder.text);
    enum status rc = unlink_lists(lists.text, trash, &act.purged.upto, why);

    if (!rc && act.purged.upto == trash->last) {
        /* A set of that name that begins from here on has no files yet: only
         * this thread would make them. */
        bool is_whole = trash->is_whole && !has_set(log, trash->name);

        if (is_whole) {
            unlink(file_path("%s/" LOG_CHECKPOINT, lists.text).text);
            unlink(file_path("%s/" LOG_WITNESSED, lists.text).text);
        }
        /* Removes the folder if it is empty; a set that was made again has
         * files in it. */
        rmdir(lists.text);
        if (is_whole)
            rc = unlink_rest(folder.text, why);
        if (rc == STATUS_AGAIN)
            return STATUS_OK; /* more of these are left */
        if (!rc)
            rmdir(folder.text);
    }
    if (!rc)
        rc = log_act(log, NULL, &act, 0, why);
    if (!rc)
        diag(DIAG_DEBUG, "log",
             "the files of set %s up to list %" PRIu64 " are deleted",
             trash->name, act.purged.upto);
    return rc;
}

bool
log_begin_deleting(struct log *log)
{
    bool is_backed_up = !file_have_alone(log->dir_fd);

    if (is_backed_up && !log->is_backed_up)
        diag(DIAG_INFO, "log",
             "a backup copies files: none is deleted until it ends");
    if (!is_backed_up && log->is_backed_up)
        diag(DIAG_INFO, "log", "no backup copies files any more");
    log->is_backed_up = is_backed_up;
    return !is_backed_up;
}

void
log_end_deleting(struct log *log)
{
    file_end_alone(log->dir_fd);
}

bool
log_may_delete(const struct log *log)
{
    return !log->is_backed_up;
}

enum status
log_purge(struct log *log, log_needs_fn *needs, bool *is_done,
          struct problem *why)
{
    struct engine_trash trash = {.id = 0};
    struct problem reason = {""};
    enum status rc, failed = STATUS_OK;

    *is_done = true;
    if (!log_begin_deleting(log))
        return STATUS_OK;
    /* If some trash is needed, or its deletion fails, later trash goes first.
     */
    while (!(rc = log->engine->ops->trash(log->engine, clock_now_us(), &trash,
                                          &reason))) {
        struct log_set *set =
            needs && !trash.is_whole ? set_of_id(log, trash.set) : NULL;
        struct list_info list;
        struct head head;

        if (set && log_head(set, &head) &&
            !log_list(log, set, trash.last, &list, NULL, NULL) &&
            needs(set->owner, &list))
            continue; /* lists of a set that exists, still needed */
        rc = purge_step(log, &trash, &reason);
        if (rc != STATUS_IO)
            break;
        if (!failed && why)
            *why = reason;
        failed = rc;
    }
    log_end_deleting(log);
    *is_done = rc == STATUS_NOT_FOUND && !failed;
    if (rc == STATUS_NOT_FOUND)
        return failed;
    if (rc && why)
        *why = reason;
    return rc;
}

/* Generations */

enum status
log_generations(struct log *log, struct log_set *set,
                struct generation_page *page, struct problem *why)
{
    return log->engine->ops->generations(
        log->engine, (uint32_t)log_set_number(set), page, why);
}

enum status
log_fact(struct log *log, struct log_set *set, struct content_fact *fact,
         struct buf *bytes, struct problem *why)
{
    return log->engine->ops->fact(log->engine, (uint32_t)log_set_number(set),
                                  fact, bytes, why);
}

enum status
log_due(struct log *log, struct due_generation *due, struct problem *why)
{
    return log->engine->ops->due(log->engine, clock_now_us(), due, why);
}

/* Opening and closing */

static enum status
on_loaded(const struct engine_set *loaded, void *user, struct problem *why)
{
    struct log *log = user;
    struct log_set *set;

    log->is_used = true;
    if (loaded->removed_us)
        return log->options.on_removed
                   ? log->options.on_removed(loaded->name, loaded->head.list,
                                             loaded->creator, log->options.user)
                   : STATUS_OK;
    set = log_set_new(log, loaded->name, 0, NULL);
    set->id = loaded->id;
    log_set_begin_for(set, loaded->creator);
    store_relaxed(&set->public_id, loaded->id);
    set->draft = set->tail.head = loaded->head;
    if (loaded->head.last_us > atomic_load(&log->log_thread.latest_us))
        atomic_store(&log->log_thread.latest_us, loaded->head.last_us);
    set->owner = log->options.on_set(set, loaded->settings, loaded->harvest,
                                     &set->limits, log->options.user);
    return set->owner ? STATUS_OK : problem_memory(why);
}

/* Loads the place in the journal, behind which the log goes on. A broker of a
 * cluster that commits alone would leave the others, and one that has sets of
 * its own cannot follow them. */
static enum status
load_place(struct log *log, struct problem *why)
{
    struct journal_place *place = &log->log_thread.order.place;
    enum status rc = log->engine->ops->place(log->engine, place, why);
    bool is_copy = journal_place_is_set(place);

    if (!rc && is_copy && !log->options.journal)
        rc = problem(why, STATUS_REFUSED,
                     "%s is a copy of a cluster: start it with --cluster, or "
                     "take it out of the cluster with tidingsd cluster leave",
                     log->dir);
    if (!rc && !is_copy && log->options.journal && log->is_used)
        rc = problem(why, STATUS_REFUSED,
                     "%s has sets that are not of the cluster: tidingsd "
                     "cluster init begins a cluster with them, and tidingsd "
                     "cluster join makes a data directory of one",
                     log->dir);
    return rc;
}

enum status
log_open(struct log **result, const struct log_options *options,
         struct problem *why)
{
    struct log *log = memory_new(1, sizeof(*log));
    bool is_guarded = false;
    uint64_t unfiled = 0;
    enum status rc;

    log->options = *options;
    snprintf(log->dir, sizeof(log->dir), "%s", options->dir);
    log->lock = log->dir_fd = -1;
    list_init(&log->sets);
    pthread_mutex_init(&log->mutex, NULL);
    log->tails.max = options->tail_bytes;
    log->cache = batch_cache_new(CACHE_BYTES, &log->disk_forms, read_disk, log);

    rc = file_make_dirs(log->dir, why);
    if (!rc)
        rc = file_lock(log->dir, &log->lock, why);
    if (!rc)
        rc = file_open_folder(AT_FDCWD, log->dir, &log->dir_fd, why);
    if (!rc)
        rc = log->options.open_engine(&log->engine, log->dir, &log->disk_forms,
                                      why);
    if (!rc)
        rc = log->engine->ops->load(log->engine, on_loaded, log, why);
    if (!rc && log->engine->ops->place)
        rc = load_place(log, why);
    if (!rc && log->engine->ops->guard)
        rc = log->engine->ops->guard(log->engine, &is_guarded, why);
    atomic_init(&log->is_guarded, is_guarded);
    if (!rc && options->unfiled_bytes > 0)
        rc = log->engine->ops->unfiled_bytes(log->engine, &unfiled, why);
    if (!rc) {
        unfiled_bytes_init(&log->unfiled, options->unfiled_bytes, unfiled);
        log->log_thread.engine = log->engine;
        log->log_thread.tails = &log->tails;
        log->log_thread.options = &log->options;
        log->log_thread.unfiled = &log->unfiled;
        log->log_thread.sets = &log->sets;
        log->log_thread.sets_mutex = &log->mutex;
        rc = log_thread_start(&log->log_thread, why);
    }
    if (rc)
        log_close(log);
    else
        *result = log;
    return rc;
}

enum status
log_check(const char *dir, struct problem *why)
{
    enum status rc = file_check_dir(dir, why);

    return rc ? rc : file_check_lock(dir, why);
}

bool
log_is_holding(const struct log *log)
{
    return unfiled_bytes_is_full(&log->unfiled);
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
    store_relaxed(&log->is_ending, true);
    log_thread_stop(&log->log_thread);
}

void
log_close(struct log *log)
{
    struct log_set *set;

    if (!log)
        return;
    log_thread_stop(&log->log_thread);
    log_thread_fini(&log->log_thread);
    batch_cache_free(log->cache);
    list_drain (set, &log->sets, node) {
        tail_fini(&set->tail);
        free(set->made);
        free(set);
    }
    if (log->engine)
        log->engine->ops->close(log->engine);
    file_close(&log->dir_fd);
    file_close(&log->lock);
    map_fini(&log->by_id);
    free(log->tails.queue);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

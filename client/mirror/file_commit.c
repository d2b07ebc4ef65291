/*
 * file_commit.c - makes downloaded files and removals durable, many at a time.
 */
#include "client/mirror/file_commit.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/array.h"
#include "client/mirror/mirror.h"

bool
directory_list_add(struct directory_list *d, const char *path)
{
    size_t size = strlen(path);
    bool is_new;

    do {
        struct slice above;

        while (size > 0 && path[size - 1] != '/')
            size--;
        size -= size > 0; /* the slash */
        above = (struct slice){path, size};
        if (!ONE_MORE(d->all, &d->capacity, d->n) ||
            text_set_add(&d->known, above, &is_new))
            return false;
        if (is_new && !(d->all[d->n++] = slice_dup(above)))
            return false;
    } while (is_new && size > 0); /* those above a known one are known */
    return true;
}

void
directory_list_clear(struct directory_list *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->all[i]);
    free(d->all);
    text_set_fini(&d->known);
    *d = (struct directory_list){NULL};
}

/* The size of libuv's pool: more threads would wait there. */
#define THREADS 4

/* Most removals of one group; the rest waits for the next. */
#define REMOVALS 256

#define HASH_MAX 4096
#define LOC_SIZE (4 * 2048 + 1) /* R-007, in UTF-8 */

enum item_kind {
    COME,  /* in incoming/ */
    THERE, /* at its path */
    GONE   /* removed */
};

struct item {
    enum item_kind kind;
    bool is_dropped; /* overtaken */
    bool needs_digest;
    int64_t id;
    int64_t version;
    int64_t lastmod_us;
    int64_t second_us; /* mirror_db_resource's have_second_us */
    char *path;
    char *hash;                          /* the source's */
    char digest[MIRROR_DIR_DIGEST_SIZE]; /* ours, if it needs one; "" before */
    struct mirror_dir_mark mark;
};

struct items {
    struct item *all;
    size_t n;
    size_t capacity;
};

enum step { IDLE, FILES, DIRECTORIES };

struct thread {
    struct file_commit *group;
    struct job job;
};

struct file_commit {
    struct mirror *m;
    file_commit_out_fn *on_out;
    void *user;
    struct items gathered;
    struct items items;                /* under way */
    struct directory_list directories; /* above them */
    bool is_last; /* file_commit_finish waits: nothing more is removed */

    /* The step under way, and its shares: items or directories. The loop's
     * thread writes them while no other runs, but for `next`, which gives each
     * share to one thread, and `why`, under the lock. The loop sees the items
     * that threads wrote when their jobs are done. */
    enum step step;
    size_t n_shares;
    atomic_size_t next;
    struct thread threads[THREADS];
    unsigned n_running;
    pthread_mutex_t lock;
    struct problem why; /* the first that failed */
};

static void
free_items(struct items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        free(items->all[i].path);
        free(items->all[i].hash);
    }
    free(items->all);
    *items = (struct items){NULL, 0, 0};
}

/* Gathering */

void
file_commit_name(char to[DOWNLOAD_NAME_MAX], int64_t id, int64_t version)
{
    snprintf(to, DOWNLOAD_NAME_MAX, "%" PRId64 "-%" PRId64, id, version);
}

static struct item *
add_item(struct items *items, enum item_kind kind,
         const struct mirror_db_resource *r)
{
    struct item *item;
    struct digest digest;

    if (!ONE_MORE(items->all, &items->capacity, items->n))
        return NULL;
    item = &items->all[items->n];
    *item = (struct item){.kind = kind,
                          .id = r->id,
                          .version = r->version,
                          .lastmod_us = r->wanted.lastmod_us,
                          .second_us = r->have_second_us,
                          .needs_digest =
                              kind != GONE &&
                              !hash_find_sha256(r->wanted.hash, &digest),
                          .path = strdup(r->path),
                          .hash = slice_dup(r->wanted.hash)};
    items->n++;
    return item->path && item->hash ? item : NULL;
}

bool
file_commit_add(struct file_commit *g, const struct mirror_db_resource *r,
                bool is_there)
{
    struct item *item = add_item(&g->gathered, is_there ? THERE : COME, r);

    if (!item)
        return mirror_fail_memory(g->m);
    if (is_there &&
        mirror_dir_look(g->m->dir, r->path, &item->mark) != MIRROR_DIR_FILE)
        item->is_dropped = true; /* work looks at it again */
    return true;
}

/* Shares of a step, on any thread */

/* Syncs a file, and computes a SHA-256 if the source sent none, so that an
 * audit can check it later. */
static void
sync_file(const struct file_commit *g, struct item *item, struct problem *why)
{
    char in_incoming[DOWNLOAD_NAME_MAX];
    const char *name = in_incoming;
    int fd = g->m->dir->incoming_fd;

    if (item->is_dropped)
        return;
    file_commit_name(in_incoming, item->id, item->version);
    if (item->kind == THERE)
        fd = mirror_dir_directory(g->m->dir, item->path, &name);
    if (item->kind == THERE &&
        (fd < 0 || faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW)))
        item->is_dropped = true; /* the file is gone */
    else if (!mirror_dir_sync_file(fd, name, why) && item->needs_digest &&
             !mirror_dir_digest_file(fd, name, NULL, NULL, item->digest))
        problem_errno(why, "cannot read", item->path);
    if (item->kind == THERE)
        file_close(&fd);
}

static void
do_shares(struct file_commit *g)
{
    struct problem why = {""};
    size_t i;

    /* Relaxed: it only hands out numbers. */
    while ((i = atomic_fetch_add_explicit(&g->next, 1, memory_order_relaxed)) <
           g->n_shares) {
        if (g->step == FILES)
            sync_file(g, &g->items.all[i], &why);
        else
            mirror_dir_sync_directory(g->m->dir, g->directories.all[i], &why);
    }
    if (!why.rc)
        return;
    pthread_mutex_lock(&g->lock);
    if (!g->why.rc)
        g->why = why;
    pthread_mutex_unlock(&g->lock);
}

/* Steps, on the loop */

static void step_over(struct file_commit *g);

static void
on_thread_done(struct job *job)
{
    struct file_commit *g = list_entry(job, struct thread, job)->group;

    g->n_running--;
    if (g->n_running == 0 && !g->m->is_over)
        step_over(g);
}

static void
work_on_shares(struct job *job)
{
    do_shares(list_entry(job, struct thread, job)->group);
}

/* Without memory loop_work does the shares itself and calls on_thread_done: the
 * step stays open until all threads have started. */
static void
begin_step(struct file_commit *g, enum step step, size_t n_shares)
{
    g->step = step;
    g->n_shares = n_shares;
    atomic_store(&g->next, 0);
    g->n_running = 1;
    for (unsigned i = 0; i < THREADS && i < n_shares; i++) {
        struct thread *thread = &g->threads[i];

        thread->group = g;
        thread->job = (struct job){work_on_shares, on_thread_done, NULL};
        g->n_running++;
        loop_work(handle_loop_base(g->m->client->loop), &thread->job);
    }
    if (--g->n_running == 0)
        step_over(g);
}

/* Frees the threads of a step; their shares are done. */
static void
end_threads(struct file_commit *g)
{
    for (unsigned i = 0; i < THREADS; i++)
        loop_drop_job(&g->threads[i].job);
    g->n_running = 0;
}

/* Names */

/* Drops a file whose resource has a newer version; else deletes the note of the
 * file that it is about to replace. */
static bool
clear_item(struct file_commit *g, struct item *item)
{
    struct mirror *m = g->m;
    struct mirror_db_resource r;

    if (!mirror_db_get(&m->db, item->id, &r))
        return false;
    if (r.todo != MIRROR_DB_FETCH || r.version != item->version)
        item->is_dropped = true;
    if (item->is_dropped || item->kind == THERE || !r.is_there)
        return true;
    return mirror_write(m) && mirror_db_doubt(&m->db, item->id);
}

static bool
name_item(struct file_commit *g, struct item *item)
{
    struct mirror *m = g->m;
    struct mirror_dir_mark mark;
    struct problem why = {""};
    char name[DOWNLOAD_NAME_MAX];

    file_commit_name(name, item->id, item->version);
    if (item->kind == THERE) {
        item->is_dropped =
            item->is_dropped ||
            mirror_dir_look(m->dir, item->path, &mark) != MIRROR_DIR_FILE ||
            mark.size != item->mark.size ||
            mark.mtime_ns != item->mark.mtime_ns;
        return true;
    }
    if (!item->is_dropped &&
        mirror_dir_put(m->dir, name, item->path, item->lastmod_us, &item->mark,
                       &why))
        return mirror_fail(m, &why);
    download_forget(m->dir->incoming_fd, name);
    return true;
}

static bool
remove_some(struct file_commit *g)
{
    struct mirror *m = g->m;
    struct mirror_db_resource r = {.id = 0};
    struct problem why = {""};

    for (int n = 0; n < REMOVALS && m->db.counts.n_remove > 0; n++) {
        if (!mirror_db_next(&m->db, MIRROR_DB_REMOVE, r.id, &r))
            return false;
        if (!r.id)
            return true;
        /* If it is wanted again before that is noted, its file is not there. */
        if (!mirror_write(m) || !mirror_db_doubt(&m->db, r.id))
            return false;
        if (mirror_dir_remove(m->dir, r.path, &why))
            return mirror_fail(m, &why);
        if (!add_item(&g->items, GONE, &r))
            return mirror_fail_memory(m);
    }
    return true;
}

/* The database */

static bool
note_item(struct file_commit *g, const struct item *item)
{
    struct mirror *m = g->m;
    struct td_sync_event event = {.path = item->path};
    struct mirror_db_resource r;
    struct buf hash = {.max = HASH_MAX};
    char loc[LOC_SIZE];
    bool is_good;

    if (!mirror_db_get(&m->db, item->id, &r))
        return false;
    if (!r.id)
        return true;
    /* The next call of the database takes back what it lent. */
    snprintf(loc, sizeof(loc), "%.*s", SLICE_ARG(r.loc));
    event.loc = loc;
    if (item->kind == GONE) {
        is_good = mirror_db_note_loss(&m->db, item->id);
    } else {
        buf_add_format(&hash, "%s%s%s", item->hash,
                       item->hash[0] && item->digest[0] ? " " : "",
                       item->digest);
        event.bytes = item->mark.size;
        is_good = hash.failed
                      ? mirror_fail_memory(m)
                      : mirror_db_note_file(&m->db, item->id, item->version,
                                            buf_slice(&hash), item->lastmod_us,
                                            item->second_us, &item->mark);
        buf_fini(&hash);
    }
    if (!is_good)
        return false;
    m->n_done++;
    if (item->kind != THERE)
        mirror_report(m, item->kind == GONE ? TD_SYNC_DELETED : TD_SYNC_WRITTEN,
                      &event);
    return true;
}

/* From step to step */

static bool
name_all(struct file_commit *g)
{
    for (size_t i = 0; i < g->items.n; i++)
        if (!clear_item(g, &g->items.all[i]))
            return false;
    /* Commits is_expected before any of the files is there. */
    if (!mirror_db_commit(&g->m->db))
        return false;
    for (size_t i = 0; i < g->items.n; i++)
        if (!name_item(g, &g->items.all[i]))
            return false;
    if (!g->is_last && !remove_some(g))
        return false;
    /* All directories above the names that were made or removed. */
    for (size_t i = 0; i < g->items.n; i++)
        if (!g->items.all[i].is_dropped &&
            !directory_list_add(&g->directories, g->items.all[i].path))
            return mirror_fail_memory(g->m);
    return true;
}

static void
step_over(struct file_commit *g)
{
    struct items items;
    bool is_good;

    if (g->why.rc) {
        mirror_fail(g->m, &g->why);
        return;
    }
    if (g->step == FILES) {
        if (name_all(g))
            begin_step(g, DIRECTORIES, g->directories.n);
        return;
    }
    items = g->items;
    is_good = mirror_write(g->m);
    for (size_t i = 0; is_good && i < items.n; i++)
        is_good = items.all[i].is_dropped || note_item(g, &items.all[i]);
    if (!is_good || !mirror_db_commit(&g->m->db))
        return;
    g->items = (struct items){NULL, 0, 0};
    g->step = IDLE;
    directory_list_clear(&g->directories);
    for (size_t i = 0; i < items.n; i++)
        g->on_out(items.all[i].id, items.all[i].kind == GONE, g->user);
    free_items(&items);
}

void
file_commit_start(struct file_commit *g)
{
    if (g->step != IDLE || (!g->gathered.n && !g->m->db.counts.n_remove))
        return;
    g->items = g->gathered;
    g->gathered = (struct items){NULL, 0, 0};
    begin_step(g, FILES, g->items.n);
}

bool
file_commit_finish(struct file_commit *g)
{
    g->is_last = true;
    while (!g->m->why.rc && (g->step != IDLE || g->gathered.n > 0)) {
        if (g->step == IDLE) {
            file_commit_start(g);
            continue;
        }
        do_shares(g);
        end_threads(g);
        step_over(g);
    }
    g->is_last = false;
    return !g->m->why.rc;
}

/* Life cycle */

struct file_commit *
file_commit_new(struct mirror *m, file_commit_out_fn *on_out, void *user)
{
    struct file_commit *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->m = m;
    g->on_out = on_out;
    g->user = user;
    pthread_mutex_init(&g->lock, NULL);
    return g;
}

void
file_commit_free(struct file_commit *g)
{
    if (!g)
        return;
    /* Jobs still use the items that are freed below. */
    atomic_store(&g->next, g->n_shares);
    end_threads(g);
    free_items(&g->gathered);
    free_items(&g->items);
    directory_list_clear(&g->directories);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

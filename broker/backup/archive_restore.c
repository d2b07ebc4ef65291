#include "broker/backup/archive_restore.h"

#include <fcntl.h>
#include <fts.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "broker/backup/archive_download.h"
#include "broker/backup/new_data.h"
#include "broker/backup/published_documents.h"
#include "broker/log/engine.h"
#include "broker/log/list_file.h"
#include "broker/log/log.h"
#include "broker/store/store.h"

/* In the new data directory, while it is made: its database, and lists that
 * were downloaded. */
#define BUILDING "building"

struct found {
    struct published_list list;
    char *path;
};

/* Resource Lists: for sets whose first Change Lists are not published. */
struct found_resources {
    struct published_resources list;
    char *path;
};

struct archive {
    struct archive_restore *restore;
    struct new_data data;
    char building[PATH_MAX];
    struct found *all;
    size_t n, capacity;
    struct found_resources *resources;
    size_t n_resources, resources_capacity;

    struct engine *engine;
    atomic_size_t forms;

    /* Of the set that is being written */
    uint32_t id; /* 0: none yet */
    const char *name;
};

/* Finding lists */

static bool
is_open(const struct found *f)
{
    return f->list.info.until_us == DATETIME_NONE;
}

/* By set and number; of one number, the closed list comes first, then the
 * longest. */
static int
compare_found(const void *x, const void *y)
{
    const struct found *a = x, *b = y;
    int order = strcmp(a->list.set, b->list.set);

    if (order)
        return order;
    if (a->list.info.number != b->list.info.number)
        return a->list.info.number < b->list.info.number ? -1 : 1;
    if (is_open(a) != is_open(b))
        return is_open(a) ? 1 : -1;
    if (a->list.info.last != b->list.info.last)
        return a->list.info.last > b->list.info.last ? -1 : 1;
    return strcmp(a->path, b->path);
}

/* Parts follow each other by their names. */
static int
compare_resources(const void *x, const void *y)
{
    const struct found_resources *a = x, *b = y;

    return strcmp(a->path, b->path);
}

/* Notes a file if it is a Change List, or a Resource List, of a broker. */
static enum status
add_found(struct archive *a, const char *path, struct problem *why)
{
    struct found_resources *f;
    bool is_list = false;
    enum status rc;

    if (!ONE_MORE(a->all, &a->capacity, a->n) ||
        !ONE_MORE(a->resources, &a->resources_capacity, a->n_resources))
        return problem_memory(why);
    rc = published_list_look(path, &a->all[a->n].list, &is_list, why);
    if (rc)
        return rc;
    if (is_list)
        a->all[a->n++].path = slice_dup(slice_of(path));
    f = &a->resources[a->n_resources];
    rc = published_resources_look(path, &f->list, &is_list, why);
    if (rc || !is_list)
        return rc;
    f->path = slice_dup(slice_of(path));
    a->n_resources++;
    return STATUS_OK;
}

static enum status
find_lists(struct archive *a, const char *dir, struct problem *why)
{
    char *roots[] = {(char *)(uintptr_t)dir, NULL};
    FTS *tree =
        fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    enum status rc = STATUS_OK;
    FTSENT *at;

    if (!tree)
        return problem_errno(why, "cannot open", dir);
    while (!rc && (errno = 0, at = fts_read(tree))) {
        struct slice name = slice_of(at->fts_name);

        if (at->fts_info == FTS_F &&
            (slice_ends(name, ".xml") || slice_ends(name, ".xml.gz"))) {
            rc = add_found(a, at->fts_path, why);
        } else if (at->fts_info == FTS_DNR || at->fts_info == FTS_ERR ||
                   at->fts_info == FTS_NS) {
            errno = at->fts_errno;
            rc = problem_errno(why, "cannot read", at->fts_path);
        }
    }
    fts_close(tree);
    if (rc)
        return rc;
    if (a->n == 0)
        return problem(why, STATUS_NOT_FOUND,
                       "%s has no Change List of Tidings", dir);
    qsort(a->all, a->n, sizeof(*a->all), compare_found);
    if (a->n_resources > 0)
        qsort(a->resources, a->n_resources, sizeof(*a->resources),
              compare_resources);
    return STATUS_OK;
}

/* True if one of the first `n` lists is of the same set and epoch. */
static bool
had_epoch(const struct archive *a, size_t n, const struct published_list *list)
{
    while (n-- > 0)
        if (!strcmp(a->all[n].list.set, list->set) &&
            !strcmp(a->all[n].list.epoch, list->epoch))
            return true;
    return false;
}

/* Keeps one of each list: two closed ones must be the same. Each must be the
 * one behind the last of its set; that its entries are, is proven when they are
 * read. */
static enum status
check_order(struct archive *a, struct problem *why)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++) {
        struct found f = a->all[i];
        const struct found *last = n > 0 ? &a->all[n - 1] : NULL;
        bool is_first = !last || strcmp(last->list.set, f.list.set) != 0;
        uint64_t one = is_first ? 0 : last->list.info.number;
        bool is_copy = !is_first && one == f.list.info.number;

        /* A new epoch begins with a list (log/head.h). */
        if (!is_first &&
            ((is_copy && !is_open(&f) &&
              !digest_is_equal(&last->list.info.digest, &f.list.info.digest)) ||
             (strcmp(last->list.epoch, f.list.epoch) != 0 &&
              (is_copy || had_epoch(a, n, &f.list)))))
            return problem(why, STATUS_DIFFERENT,
                           "%s and %s are of different histories", last->path,
                           f.path);
        if (is_copy)
            continue;
        if (!is_first && (one + 1 != f.list.info.number || is_open(last)))
            return problem(why, STATUS_DIFFERENT,
                           "the set %s lacks its closed Change List %" PRIu64
                           ": %s is not the next one behind %s",
                           f.list.set, is_open(last) ? one : one + 1, f.path,
                           last->path);
        a->all[i] = a->all[n]; /* a copy, if there was one */
        a->all[n++] = f;
    }
    while (a->n > n)
        free(a->all[--a->n].path);
    return STATUS_OK;
}

/* Writing the log */

/* Commits an act of the set. */
static enum status
commit_act(struct archive *a, const struct act *act, struct problem *why)
{
    struct act of_set = *act;
    const struct commit commit = {
        .at_us = clock_now_us(), .acts = &of_set, .n = 1};
    bool is_more;

    of_set.set_id = a->id;
    of_set.name = a->name;
    return a->engine->ops->commit(a->engine, &commit, &is_more, why);
}

/* Where the next batch of a list begins. */
struct entries {
    const struct published_list *list;
    struct slice rest;
    uint64_t after;
    int64_t us;
    struct digest digest;
    uint64_t list_bytes; /* before it */
};

static struct entries
entries_of(const struct published_list *list, struct slice fragments)
{
    return (struct entries){
        .list = list,
        .rest = fragments,
        .after = list->info.after,
        .us = list->info.from_us,
        .digest = list->info.before,
    };
}

/* Makes the next batch; NULL at the end. The entries are checked. */
static enum status
next_batch(void *user, uint64_t after, struct batch **batch,
           struct problem *why)
{
    struct entries *e = user;
    struct slice part = {e->rest.data, 0};
    struct digest digest = e->digest;
    struct fragment_view view;
    struct batch *b;
    enum status rc;

    *batch = NULL;
    while (part.size < e->rest.size &&
           !fragment_view(
               (struct slice){part.data + part.size, e->rest.size - part.size},
               &view) &&
           part.size + view.size <= BATCH_BYTES_MAX) {
        digest_add(&digest, (struct slice){part.data + part.size, view.size});
        part.size += view.size;
    }
    if (part.size == 0)
        return STATUS_OK;
    b = batch_new(after, e->us, &e->digest, NULL);
    rc = batch_append(b, part, &digest, why);
    if (rc) {
        batch_unref(b);
        return rc;
    }
    slice_skip(&e->rest, part.size);
    e->after = b->last;
    e->us = b->last_us;
    e->digest = digest;
    e->list_bytes += part.size;
    b->list = e->list->info.number;
    b->list_bytes = e->list_bytes;
    *batch = b;
    return STATUS_OK;
}

/* The set as it was before its first list; earlier lists are retired. */
static enum status
write_birth(struct archive *a, const struct published_list *first,
            struct problem *why)
{
    struct act act = {
        .kind = ACT_BIRTH,
        .birth = {.created_us = first->info.from_us,
                  .start_list = first->info.after > 0 ? 1 : first->info.number},
    };
    enum status rc;

    memcpy(act.birth.epoch, first->epoch, sizeof(act.birth.epoch));
    rc = commit_act(a, &act, why);
    if (rc || first->info.after == 0)
        return rc;
    act = (struct act){
        .kind = ACT_RETIREMENT,
        .retirement = {.first = 1,
                       .last = first->info.number - 1,
                       .earliest = first->info.after,
                       .open_list = first->info.number},
    };
    return commit_act(a, &act, why);
}

/* Its first list follows the last one of the former epoch: the proof of the
 * list sees to that. */
static enum status
write_epoch(struct archive *a, const struct published_list *list,
            struct problem *why)
{
    struct act act = {.kind = ACT_EPOCH, .epoch.after = list->info.after};

    memcpy(act.epoch.name, list->epoch, sizeof(act.epoch.name));
    return commit_act(a, &act, why);
}

static enum status
write_closed(struct archive *a, const struct found *f,
             const struct published_text *text, uint64_t *file_bytes,
             struct problem *why)
{
    struct list_file file = {
        .dir_fd = -1, .info = f->list.info, .marks.max = LIST_FILE_MARKS_MAX};
    struct act act = {
        .kind = ACT_LIST_END,
        .list_end = {.info = f->list.info,
                     .header = text->header,
                     .commit_after = f->list.info.last - 1},
    };
    struct entries entries = entries_of(&f->list, text->fragments);
    struct file_path path =
        file_path("%s/sets/%s/" LOG_CHANGES, a->restore->data, f->list.set);
    enum status rc = commit_act(a, &act, why);

    if (!rc)
        rc = file_make_dirs(path.text, why);
    if (!rc)
        rc = file_open_folder(AT_FDCWD, path.text, &file.dir_fd, why);
    if (!rc)
        rc = list_file_write(&file, text->header, next_batch, &entries, why);
    if (!rc) {
        *file_bytes += list_file_size(file.dir_fd, f->list.info.number);
        act = (struct act){
            .kind = ACT_FILED,
            .filed = {.list = f->list.info.number,
                      .marks = buf_slice(&file.marks),
                      .file_bytes = *file_bytes},
        };
        rc = commit_act(a, &act, why);
    }
    file_close(&file.dir_fd);
    buf_fini(&file.marks);
    return rc;
}

/* States */

/* True if both belong to the list of the same state. */
static bool
is_same_state(const struct published_resources *one,
              const struct published_resources *two)
{
    return !strcmp(one->set, two->set) && !strcmp(one->epoch, two->epoch) &&
           one->seq == two->seq && one->us == two->us;
}

/* Finds the newest complete list of a state of the set that the log reaches,
 * from its first list to entry `last`: a whole list, or an index whose parts
 * are there. NULL: there is none. */
static enum status
find_state(const struct archive *a, const struct published_list *first,
           uint64_t last, const struct found_resources **state,
           struct problem *why)
{
    enum status rc = STATUS_OK;

    *state = NULL;
    for (size_t i = 0; !rc && i < a->n_resources; i++) {
        const struct found_resources *f = &a->resources[i];
        uint64_t n = 0, n_parts = 0;

        if (strcmp(f->list.set, first->set) != 0 ||
            f->list.seq < first->info.after || f->list.seq > last ||
            (*state && (*state)->list.seq >= f->list.seq) ||
            f->list.role == PUBLISHED_PART)
            continue;
        if (f->list.role == PUBLISHED_INDEX) {
            rc = published_resources_count(f->path, &n, why);
            for (size_t k = 0; k < a->n_resources; k++)
                n_parts += a->resources[k].list.role == PUBLISHED_PART &&
                           is_same_state(&a->resources[k].list, &f->list);
        }
        if (!rc && n == n_parts && (n > 0 || f->list.role == PUBLISHED_WHOLE))
            *state = f;
    }
    return rc;
}

static enum status
write_state(struct archive *a, const struct found_resources *state,
            const char *origin, struct problem *why)
{
    struct fold_db *db = NULL;
    struct file_path dir =
        file_path("%s/sets/%s", a->restore->data, state->list.set);
    enum status rc = file_make_dirs(dir.text, why);

    if (!rc)
        rc = fold_db_open(&db, &resources_folding, dir.text, origin, why);
    for (size_t i = 0; !rc && i < a->n_resources; i++) {
        const struct found_resources *f = &a->resources[i];

        if (f == state ? f->list.role == PUBLISHED_WHOLE
                       : state->list.role == PUBLISHED_INDEX &&
                             f->list.role == PUBLISHED_PART &&
                             is_same_state(&f->list, &state->list))
            rc = published_resources_fill(f->path, &f->list, resources_of(db),
                                          why);
    }
    if (!rc)
        rc = resources_fill_end(resources_of(db), state->list.seq,
                                state->list.us, why);
    fold_db_close(db);
    return rc;
}

/* Writes the `n` lists of one set, the next one. */
static enum status
write_set(struct archive *a, struct found *lists, size_t n, struct problem *why)
{
    const struct published_list *first = &lists[0].list;
    const struct found_resources *state;
    struct act act = {.kind = ACT_BATCH};
    struct batch *batch = NULL;
    struct entries entries;
    char missing[256];
    struct list_chain chain = {.epoch = ""};
    uint64_t file_bytes = 0;
    enum status rc;

    a->id++;
    a->name = first->set;
    rc = write_birth(a, first, why);

    for (size_t i = 0; !rc && i < n; i++) {
        struct published_text text = {.text = {.max = 0}};

        if (i > 0 && strcmp(lists[i].list.epoch, lists[i - 1].list.epoch) != 0)
            rc = write_epoch(a, &lists[i].list, why);
        if (!rc)
            rc = published_list_read(lists[i].path, &lists[i].list, &chain,
                                     &text, why);
        if (!rc && is_open(&lists[i])) {
            entries = entries_of(&lists[i].list, text.fragments);
            while (!rc &&
                   !(rc = next_batch(&entries, entries.after, &batch, why)) &&
                   batch) {
                act.entries.batch = batch;
                act.entries.commit_after = batch->first - 1;
                rc = commit_act(a, &act, why);
                batch_unref(batch);
            }
        } else if (!rc) {
            rc = write_closed(a, &lists[i], &text, &file_bytes, why);
        }
        buf_fini(&text.text);
        a->restore->n_lists++;
        a->restore->n_entries +=
            lists[i].list.info.last - lists[i].list.info.after;
    }
    a->restore->n_sets++;
    if (rc || first->info.after == 0)
        return rc;
    rc = find_state(a, first, lists[n - 1].list.info.last, &state, why);
    if (rc || state)
        return rc ? rc : write_state(a, state, first->epoch, why);
    snprintf(missing, sizeof(missing),
             "%s: the entries up to %" PRIu64 "; of resources that have not "
             "changed since the broker knows nothing until its source puts "
             "all of them",
             first->set, first->info.after);
    a->restore->n_missing++;
    a->restore->on_missing(missing, a->restore->user);
    return STATUS_OK;
}

/* Lists that only a token could read stay closed to everybody else. */
static enum status
write_sets(struct archive *a, struct problem *why)
{
    const struct act guard = {.kind = ACT_GUARD, .guard = {.is_on = true}};
    enum status rc = store_open(&a->engine, a->building, &a->forms, why);

    if (!rc && a->restore->token_file[0])
        rc = commit_act(a, &guard, why);

    for (size_t i = 0, n; !rc && i < a->n; i += n) {
        for (n = 1; i + n < a->n &&
                    !strcmp(a->all[i + n].list.set, a->all[i].list.set);)
            n++;
        rc = write_set(a, &a->all[i], n, why);
    }
    if (a->engine)
        a->engine->ops->close(a->engine);
    return rc;
}

enum status
archive_restore(struct archive_restore *restore, struct problem *why)
{
    struct archive a = {.restore = restore};
    const char *from = restore->from;
    enum status rc = new_data_begin(&a.data, restore->data, why);

    snprintf(a.building, sizeof(a.building), "%s/" BUILDING, restore->data);
    if (!rc)
        rc = file_make_dirs(a.building, why);
    if (!rc && uri_is_web(from)) {
        rc = archive_download(from, restore->token_file, a.building, why);
        from = a.building;
    }
    if (!rc)
        rc = find_lists(&a, from, why);
    if (!rc)
        rc = check_order(&a, why);
    if (!rc)
        rc = write_sets(&a, why);
    /* The database comes to its place: closed, it has no WAL. */
    if (!rc &&
        renameat(a.data.fd, BUILDING "/tidings.db", a.data.fd, "tidings.db"))
        rc = problem_errno(why, "cannot place", "tidings.db");
    if (!rc)
        rc = file_clear(a.data.fd, BUILDING, NULL, why);
    a.data.begins_epochs = !restore->is_same_log;
    if (!rc)
        rc = new_data_end(&a.data, why);
    new_data_close(&a.data, rc);
    for (size_t i = 0; i < a.n; i++)
        free(a.all[i].path);
    free(a.all);
    for (size_t i = 0; i < a.n_resources; i++)
        free(a.resources[i].path);
    free(a.resources);
    return rc;
}

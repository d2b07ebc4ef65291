#include "broker/archive/disk_usage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a block of st_blocks. */
#define BLOCK_SIZE 512

/* Depths of directories: DATA is at 1. */
enum { DEPTH_DATA = 1, DEPTH_SETS, DEPTH_SET };

/* The kind of the files in the folder `name` of the directory at hand. */
static enum metric_disk
kind_of_folder(const struct disk_usage *u, const char *name)
{
    if (u->depth == DEPTH_DATA)
        return strcmp(name, "sets") != 0 ? DISK_TEMPORARY : DISK_OTHER;
    if (u->depth != DEPTH_SET)
        return u->open[u->depth - 1].kind;
    if (!strcmp(name, LOG_CHANGES) || !strcmp(name, LOG_TILES))
        return DISK_CHANGE_LISTS;
    if (!strcmp(name, LOG_CONTENT))
        return DISK_CONTENT;
    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        if (!strcmp(name, links_kinds[kind].folder))
            return kind == GENERATION_RESOURCELIST ? DISK_RESOURCE_LISTS
                                                   : DISK_DUMPS;
    return DISK_OTHER;
}

/* `flags`: O_NOFOLLOW, but for the data directory, which may be a link. */
static void
open_folder(struct disk_usage *u, int above, const char *name, int flags,
            enum metric_disk kind)
{
    DIR *dir = file_open_dir(above, name, flags);

    if (!dir)
        return;
    u->open[u->depth].dir = dir;
    u->open[u->depth].kind = kind;
    u->depth++;
}

/* Counts the records of the set at hand for its creator, or deletes them. */
static void
consider_records(struct disk_usage *u, const struct stat *st)
{
    struct set *set = registry_find(u->registry, slice_of(u->set), NULL);
    int64_t used_us = (int64_t)st->st_mtim.tv_sec * 1000000;
    bool is_old = clock_now_us() - used_us > RECORDS_KEPT_US;
    uint64_t bytes = (uint64_t)st->st_blocks * BLOCK_SIZE;
    struct problem why = {""};
    int none = 0;

    if (!set)
        return;
    if (is_old &&
        atomic_compare_exchange_strong(&set->records.users, &none, -1)) {
        if (db_unlink(set_path(set, RECORDS_FILE).text, &why))
            DIAG(DIAG_WARNING, "archive", "records of OAI-PMH stay on the disk",
                 diag_text("set", set->name), diag_text("error", why.text));
        else
            bytes = 0;
        atomic_store(&set->records.users, 0);
    }
    store_relaxed(&set->records.bytes, bytes);
}

static void
count_name(struct disk_usage *u, const char *name)
{
    int fd = dirfd(u->open[u->depth - 1].dir);
    enum metric_disk kind = u->open[u->depth - 1].kind;
    struct slice text = slice_of(name);
    struct stat st;

    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return;
    if (slice_ends(text, ".new"))
        kind = DISK_TEMPORARY;
    /* Files beside folders, in DATA and in DATA/sets/NAME. */
    else if (kind == DISK_OTHER && slice_ends(text, ".db"))
        kind = DISK_DATABASE;
    else if (kind == DISK_OTHER &&
             (slice_ends(text, ".db-wal") || slice_ends(text, ".db-shm") ||
              slice_ends(text, ".db-journal")))
        kind = DISK_WAL;
    if (u->depth == DEPTH_SET && slice_is(text, RECORDS_FILE))
        consider_records(u, &st);
    if (S_ISREG(st.st_mode))
        u->bytes[kind] += (uint64_t)st.st_blocks * BLOCK_SIZE;
    if (!S_ISDIR(st.st_mode) || u->depth == DISK_USAGE_DEPTH)
        return;
    if (u->depth == DEPTH_SETS)
        snprintf(u->set, sizeof(u->set), "%s", name);
    kind = kind_of_folder(u, name);
    if (kind != DISK_CONTENT)
        open_folder(u, fd, name, O_NOFOLLOW, kind);
}

static void
close_folder(struct disk_usage *u)
{
    closedir(u->open[--u->depth].dir);
}

/* Counts the next names. */
static void
look_at_some(struct chore *chore)
{
    struct disk_usage *u = list_entry(chore, struct disk_usage, chore);
    const char *data = u->registry->config->data;
    int fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        registry_count_kept(u->registry, file_free_bytes(fd));
    file_close(&fd);
    if (u->depth == 0) {
        if (clock_steady_us() < u->next_us)
            return;
        memset(u->bytes, 0, sizeof(u->bytes));
        open_folder(u, AT_FDCWD, data, 0, DISK_OTHER);
    }
    for (int i = 0; i < DISK_USAGE_STEP && u->depth > 0; i++) {
        const struct dirent *entry = file_next(u->open[u->depth - 1].dir);

        if (entry)
            count_name(u, entry->d_name);
        else
            close_folder(u);
    }
    if (u->depth > 0)
        return;
    for (enum metric_disk kind = 0; kind < DISK_KINDS; kind++)
        if (kind != DISK_CONTENT)
            metrics_set_label(METRIC_DISK, kind, (int64_t)u->bytes[kind]);
    u->next_us = clock_steady_us() + DISK_USAGE_PAUSE_S * INT64_C(1000000);
}

static void
end_usage(struct chore *chore)
{
    struct disk_usage *u = list_entry(chore, struct disk_usage, chore);

    while (u->depth > 0)
        close_folder(u);
}

void
disk_usage_init(struct disk_usage *u, struct registry *registry)
{
    memset(u, 0, sizeof(*u));
    u->chore.look = look_at_some;
    u->chore.end = end_usage;
    u->registry = registry;
}

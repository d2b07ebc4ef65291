#include "client/lib/source_limits.h"

#include <sys/statvfs.h>
#include <unistd.h>

/* Bytes between two looks at the file system. */
#define STEP ((uint64_t)1024 * 1024)

#define MIB(bytes) ((bytes) / (1024 * 1024))

static enum status
judge_space(const struct source_limits *room, const struct statvfs *fs,
            const char *path, uint64_t n, struct problem *why)
{
    uint64_t min_free = room->limits.min_free_bytes;
    uint64_t free_bytes = (uint64_t)fs->f_bavail * fs->f_frsize;

    if (free_bytes >= min_free && free_bytes - min_free >= n)
        return STATUS_OK;
    problem(why, STATUS_IO,
            "%.600s%sthe disk has %" PRIu64
            " MiB free, and --min-free keeps %" PRIu64 " MiB",
            path, path[0] ? ": " : "", MIB(free_bytes), MIB(min_free));
    why->is_limit = true;
    return why->rc;
}

enum status
source_limits_look_at(const struct source_limits *room, const char *path,
                      uint64_t n, struct problem *why)
{
    struct statvfs fs;

    if (!room->limits.min_free_bytes || statvfs(path, &fs))
        return STATUS_OK; /* the write will fail */
    return judge_space(room, &fs, path, n, why);
}

enum status
source_limits_look(struct source_limits *room, int dir_fd, uint64_t n,
                   struct problem *why)
{
    char link[64], path[PATH_MAX];
    struct statvfs fs;
    ssize_t size;

    room->unlooked += n;
    if (!room->limits.min_free_bytes ||
        (room->has_looked && room->unlooked < STEP))
        return STATUS_OK;
    room->has_looked = true;
    room->unlooked = 0;
    if (fstatvfs(dir_fd, &fs))
        return STATUS_OK; /* the write will fail */
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    size = readlink(link, path, sizeof(path) - 1);
    path[size > 0 ? size : 0] = '\0';
    room->has_looked = !judge_space(room, &fs, path, n, why);
    return room->has_looked ? STATUS_OK : why->rc;
}

enum status
source_limits_check_total(const struct source_limits *room, uint64_t n,
                          struct problem *why)
{
    uint64_t used = room->kept + room->coming;

    if (!room->limits.max_total_bytes ||
        (used <= room->limits.max_total_bytes &&
         n <= room->limits.max_total_bytes - used))
        return STATUS_OK;
    return problem(why, STATUS_IO,
                   "the mirror would have more than the %" PRIu64
                   " bytes that --max-total allows",
                   room->limits.max_total_bytes);
}

enum status
source_limits_check_resources(const struct source_limits *room, uint64_t n,
                              struct problem *why)
{
    if (!room->limits.max_resources || n <= room->limits.max_resources)
        return STATUS_OK;
    problem(why, STATUS_REFUSED,
            "there are more than the %" PRIu64
            " resources that --max-entries allows",
            room->limits.max_resources);
    why->is_limit = true;
    return why->rc;
}

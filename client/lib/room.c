#include "client/lib/room.h"

#include <inttypes.h>
#include <sys/statvfs.h>

/* Bytes between two looks at the file system. */
#define STEP ((uint64_t)1024 * 1024)

#define MIB(bytes) ((bytes) / (1024 * 1024))

enum td_status
room_look(struct room *room, int dir_fd, uint64_t n, struct failure *why)
{
    struct statvfs fs;
    uint64_t free_bytes;

    room->unlooked += n;
    if (!room->min_free || (room->has_looked && room->unlooked < STEP))
        return TD_OK;
    room->has_looked = true;
    room->unlooked = 0;
    if (fstatvfs(dir_fd, &fs))
        return TD_OK; /* the write will tell */
    free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= room->min_free && free_bytes - room->min_free >= n)
        return TD_OK;
    room->has_looked = false;
    return failure_set(why, TD_IO,
                       "the disk has %" PRIu64
                       " MiB free, and --min-free keeps "
                       "%" PRIu64 " MiB",
                       MIB(free_bytes), MIB(room->min_free));
}

enum td_status
room_check_total(const struct room *room, uint64_t n, struct failure *why)
{
    uint64_t used = room->kept + room->coming;

    if (!room->max_total ||
        (used <= room->max_total && n <= room->max_total - used))
        return TD_OK;
    return failure_set(why, TD_IO,
                       "the mirror would have more than the %" PRIu64
                       " bytes that --max-total allows",
                       room->max_total);
}

enum td_status
room_check_resources(struct room *room, uint64_t n, struct failure *why)
{
    if (!room->max_resources || n <= room->max_resources)
        return TD_OK;
    room->has_too_many = true;
    return failure_set(why, TD_REFUSED,
                       "there are more than the %" PRIu64
                       " resources that --max-entries allows",
                       room->max_resources);
}

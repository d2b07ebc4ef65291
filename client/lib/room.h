/*
 * room.h - bounds for a source: its resources, its bytes, and the free bytes of
 * the disk.
 *
 * Each handle has one room. A download asks it before it writes to a file. A
 * bound of 0 means that there is none.
 */
#ifndef CLIENT_LIB_ROOM_H
#define CLIENT_LIB_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/failure.h"

struct room {
    uint64_t max_file;      /* bytes of one resource */
    uint64_t max_total;     /* bytes of `kept` and `coming` */
    uint64_t min_free;      /* bytes of the file system */
    uint64_t max_resources; /* of a list, and of a mirror */

    uint64_t kept;     /* bytes of the files of a mirror, whole ones */
    uint64_t coming;   /* bytes that were fetched for it and are not whole */
    uint64_t unlooked; /* bytes written since the free ones were looked at */
    bool has_looked;
    bool has_too_many; /* room_check_resources said so */
};

/* May `n` bytes be written in the directory `dir_fd`? TD_IO: they would leave
 * less free than has to stay. The file system is asked once in a MiB. */
enum td_status room_look(struct room *room, int dir_fd, uint64_t n,
                         struct failure *why);

/* May `n` bytes more come for the mirror? TD_IO: it would have too many. */
enum td_status room_check_total(const struct room *room, uint64_t n,
                                struct failure *why);

/* May a list, or a mirror, have `n` resources? TD_REFUSED. */
enum td_status room_check_resources(struct room *room, uint64_t n,
                                    struct failure *why);

#endif

/*
 * filehash.h - what a file holds: its digest, of one moment.
 *
 * A file that somebody has open for writing is not read: whoever watches hears
 * of it when it is closed. The kernel tells by a read lease, which it grants
 * only where there is no writer; it is asked for and given back at once, before
 * the reading and after it. Where leases are not to be had (some network file
 * systems; files of another user, without CAP_LEASE) a half-written file may be
 * read; it is read again when it is closed.
 *
 * Content that changed while it was read is told by size and times, before and
 * after; what a clock's tick may hide, by the mark (filemark_stat).
 */
#ifndef CLIENT_WATCH_FILEHASH_H
#define CLIENT_WATCH_FILEHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "client/watch/mediatypes.h"

#define FILEHASH_SIZE 32

/* What is remembered of a file, to see without reading that it is the same. */
struct filemark {
    int64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns; /* FILEMARK_UNSETTLED: has to be read again */
    uint64_t ino;
    unsigned char sha256[FILEHASH_SIZE];
};

#define FILEMARK_UNSETTLED INT64_MIN

enum filehash_result {
    FILEHASH_READ,
    FILEHASH_GONE,    /* or no file any more */
    FILEHASH_WRITTEN, /* open for writing, or it does not come to rest */
    FILEHASH_FAILED,  /* errno says why */
    FILEHASH_STOPPED  /* should_stop said so */
};

struct filehash {
    struct filemark mark;
    char head[MEDIATYPES_HEAD]; /* its first bytes */
    size_t head_size;
};

/* Ready to be used by one thread, for one file after the other. `should_stop`
 * is asked now and then. NULL: no memory. */
struct filehasher;
struct filehasher *filehasher_new(bool (*should_stop)(void *user), void *user);
void filehasher_free(struct filehasher *hasher); /* NULL is allowed */

/* Reads the file `name` in `dir_fd`, symbolic links not followed. */
enum filehash_result filehash_read(struct filehasher *hasher, int dir_fd,
                                   const char *name, struct filehash *hash);

/* Is it, by all that `st` tells, what the mark was made of? */
bool filemark_is_of(const struct filemark *mark, const struct stat *st);

/* The size and times of `st`. Where it changed less than two seconds ago, it
 * may change again without a trace in its times (some file systems have only
 * even seconds): the mark is unsettled then. */
void filemark_stat(struct filemark *mark, const struct stat *st);

#endif

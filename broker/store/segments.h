/*
 * segments.h - the entries of large commits, in files beside tidings.db.
 *
 *     DIR/segments/0000000012     16 MB; each commit begins at a new page
 *
 * SQLite writes what it keeps twice: into its WAL, then into the database. So
 * the entries of a large commit go into a segment, once, and the rows of their
 * batches say where. Small commits would pay a second fsync for that: their
 * entries stay in the rows (SEGMENT_COMMIT_BYTES).
 *
 * Order: entries are written and synced, then SQLite commits the rows. So a row
 * never names bytes that are not on the disk; bytes that no row names are
 * nothing, and are written over. That holds for a broker of a cluster, too,
 * which writes entries while the journal keeps their record (store.c). The
 * database alone says what there is: its
 * table `segments` has a row for each file, with the bytes that rows name in
 * it.
 *
 * A segment without such bytes is spare: it gets the number of the next segment
 * and is written over. A disk syncs that faster than a file that grows
 * (tests/bench/README.md). The name changes first, and is synced; so a reader
 * that still finds the segment in the list after it has read has read the right
 * bytes.
 *
 * The log thread writes; any thread reads. A backup, which is another process,
 * shares the lock of the folder: no segment becomes another one meanwhile.
 */
#pragma once

#include <pthread.h>

#include "broker/log/act.h"
#include "broker/log/batch.h"

/* The folder of segments in a data directory. */
#define SEGMENTS_FOLDER "segments"

/* Batches with so many bytes of entries go into a segment, if all of them in a
 * commit have so many. With less, the second fsync costs more than SQLite's
 * second copy (tests/bench/README.md). And the few entries of a quiet set,
 * among them the framework events of large commits, would keep whole segments.
 */
#define SEGMENT_BATCH_BYTES  4096
#define SEGMENT_COMMIT_BYTES 32768

/* A segment is full when the next commit would exceed this. A larger commit has
 * a segment of its own. */
#define SEGMENT_BYTES ((uint64_t)16 << 20)

/* Spare segments that are kept. */
#define SEGMENTS_SPARE_MAX 4

/* Where bytes are: segment 0 means in the row itself. */
struct segment_place {
    uint32_t number;
    uint64_t offset;
};

struct segment {
    uint32_t number;
    bool is_unreadable; /* segments_leave */
    uint64_t live;      /* bytes that rows name, as committed */
};

struct segments {
    int dir_fd; /* of the folder; -1: not open */

    pthread_mutex_t mutex; /* guards the next three */
    struct segment *all;   /* by number, ascending; the last one is written */
    size_t n, capacity;

    /* The log thread's. */
    int fd;            /* of the last segment; -1: the next commit that needs
                          one begins another */
    uint64_t end;      /* of its bytes, as committed */
    uint64_t next_end; /* as the commit under way leaves it: `end`, once
                          that is on the disk. Otherwise the next commit writes
                          over its entries */
    uint64_t live;     /* of all segments */
    uint32_t last;     /* the highest number ever given */
    uint32_t *spares;
    size_t n_spares, spare_capacity;
};

/* Opens the folder of the data directory `dir`, and makes it if it is missing.
 */
MUST_CHECK enum status segments_open(struct segments *s, const char *dir,
                                     struct problem *why);
void segments_close(struct segments *s); /* harmless if dir_fd is -1 */

/* Is the file of a segment there, in the data directory `dir`? STATUS_IO: no.
 */
MUST_CHECK enum status segments_check(const char *dir, uint32_t number,
                                      struct problem *why);

/* At start: a segment of the database, in order. */
MUST_CHECK enum status segments_add(struct segments *s, uint32_t number,
                                    uint64_t live, struct problem *why);

/* Then: files that are no segments of the database become spare. */
MUST_CHECK enum status segments_find_spares(struct segments *s,
                                            struct problem *why);

/* Would a segment take the batch? */
static inline bool
segments_take(const struct batch *b)
{
    return b->size >= SEGMENT_BATCH_BYTES;
}

/* Writes and syncs the entries of a commit: the batches that segments_take
 * follow each other from *place on. place->number is 0 if there are too few:
 * all entries belong into their rows. STATUS_BUSY: there is no room, or the
 * disk failed; nothing was committed. */
MUST_CHECK enum status segments_write(struct segments *s,
                                      const struct commit *commit,
                                      struct segment_place *place,
                                      struct problem *why);

/* Begins no more commits in the last segment: room is scarce. */
void segments_end(struct segments *s);

/* The segment that the next commit may still write; 0: none. */
uint32_t segments_current(const struct segments *s);

/* Rows name `bytes` more, or less, of a segment. The commit that says so is on
 * the disk. A segment without such bytes, other than the current one, becomes
 * spare. */
void segments_count(struct segments *s, uint32_t number, int64_t bytes);

/* Deletes spare segments until n_kept are left. Not while a backup reads. Log
 * thread. */
void segments_drop_spares(struct segments *s, size_t n_kept);

/* The segment whose bytes should move into rows, because segments take more
 * than twice the room of the bytes in them, and so much more that it matters:
 * the emptiest; 0: none. Without a current segment, which means that room is
 * scarce, any excess matters. Log thread. */
uint32_t segments_sparse(const struct segments *s);

/* From now on segments_sparse leaves out a segment that cannot be read. */
void segments_leave(struct segments *s, uint32_t number);

/* Reads bytes of a segment. STATUS_AGAIN: the segment has gone since the row
 * was read. STATUS_IO. Any thread. */
MUST_CHECK enum status segments_read(struct segments *s,
                                     const struct segment_place *place,
                                     size_t size, char *to,
                                     struct problem *why);

/* For another process than the broker, a backup for example: opens the folder
 * of the data directory `dir` and shares its lock, until the caller closes *fd:
 * all segments that a row names stay as they are. *fd is -1 if there is no
 * folder. */
MUST_CHECK enum status segments_share(const char *dir, int *fd,
                                      struct problem *why);

/* Reads bytes of a segment in the folder. STATUS_IO. */
MUST_CHECK enum status segment_read_at(int dir_fd,
                                       const struct segment_place *place,
                                       size_t size, char *to,
                                       struct problem *why);

/* The number of a file of the folder; 0: it is no segment. */
uint32_t segments_number(const char *name);

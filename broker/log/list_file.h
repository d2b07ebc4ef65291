/*
 * list_file.h - files of closed lists: written once, read back as batches.
 *
 *   sets/NAME/changes/000000000001.xml.gz
 *
 * One gzip member (several break curl 7.88), no name, mtime 0. After the first
 * entry boundary behind each 128 KiB the deflate stream begins anew, so that a
 * reader can begin there; a *mark* says where: which entry comes next, where in
 * the file its block begins, and the log's time and digest up to there. The
 * marks stand in the list's row, and could be made anew from the file.
 *
 * File and marks are a function of the entries and the header. In files of
 * earlier versions blocks end with a batch; readers know them by their marks.
 */
#pragma once

#include <stdatomic.h>

#include "broker/log/batch.h"
#include "broker/log/head.h"

/* The file of a closed list. */
struct list_file {
    int dir_fd; /* of its open folder */
    struct list_info info;
    struct buf marks; /* at most LIST_FILE_MARKS_MAX */
};

/* Marks of one list: 64 bytes each 128 KiB of at most 50 MB, and some. */
#define LIST_FILE_MARKS_MAX 65536

/* "000000000001.xml.gz" and a NUL; larger numbers have more digits. */
#define LIST_FILE_NAME_MAX 35

/* The name of the file in its folder; without ".gz" it is the name of the
 * Change List in its URL. */
void list_file_name(char to[LIST_FILE_NAME_MAX], uint64_t number);

/* The first bytes of each file (RFC 1952 section 2.3): no name, no time, of no
 * system. */
extern const char list_file_gzip[10];

/* A place in the file: between two entries, where a block begins. The last one
 * is behind the last entry: it begins no block. */
struct list_mark {
    uint64_t after; /* the seq before it */
    int64_t after_us;
    uint64_t at;          /* its offset in the file */
    uint64_t plain;       /* its offset in the plain list */
    struct digest digest; /* d(after) */
};

/* Mark `n` of `marks`, which has LIST_MARK_SIZE bytes of each. */
#define LIST_MARK_SIZE 64
struct list_mark list_file_mark(struct slice marks, size_t n);

/* Gives the entries after `after`, in order, in batches that begin there. */
typedef enum status list_file_source_fn(void *user, uint64_t after,
                                        struct batch **batch,
                                        struct problem *why);

/* Writes the file, and appends its marks. On disk when it returns, the
 * directory's entry too. */
MUST_CHECK enum status list_file_write(struct list_file *file,
                                       struct slice header,
                                       list_file_source_fn *source, void *user,
                                       struct problem *why);

/* The size of the file of list `number` in `dir_fd`, also in the bucket; 0 if
 * there is none. */
uint64_t list_file_size(int dir_fd, uint64_t number);

/* Opens it, perhaps fetched from the bucket (vault.h: STATUS_BUSY); the caller
 * closes it. */
MUST_CHECK enum status list_file_open(int dir_fd, uint64_t number, int *fd,
                                      struct problem *why);

/* Sets *place to the beginning of the block that holds byte `offset` of the
 * list's fragments; leaves it alone if there are no marks. */
void list_file_seek(const struct list_file *file, uint64_t offset,
                    struct list_place *place);

/* Reads the block that holds entry `after` + 1. `forms` counts the bytes of the
 * forms that the batch keeps. */
MUST_CHECK enum status list_file_read(const struct list_file *file,
                                      uint64_t after, atomic_size_t *forms,
                                      struct batch **batch,
                                      struct problem *why);

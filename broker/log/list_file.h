/*
 * list_file.h - files of closed lists: written once, read back as batches.
 *
 *   sets/NAME/changes/000000000001.xml.gz
 *
 * One gzip member (several break curl 7.88), no name, mtime 0. The deflate
 * stream is fully flushed at an entry boundary about every 128 KiB, so that a
 * reader can begin there; a *mark* says where: which entry comes next, where in
 * the file its block begins, and the log's time and digest up to there. The
 * marks stand in the list's row, and could be made anew from the file.
 */
#ifndef BROKER_LOG_LIST_FILE_H
#define BROKER_LOG_LIST_FILE_H

#include <stdatomic.h>
#include <stdint.h>

#include "broker/log/batch.h"
#include "broker/log/head.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/status.h"

/* "000000000001.xml" and a NUL; larger numbers have more digits. */
#define LIST_FILE_STEM_MAX 32

/* The name of a Change List in its folder and in its URL. */
void list_file_stem(char to[LIST_FILE_STEM_MAX], uint64_t number);

/* Gives the entries after `after`, in order, in batches that begin there. */
typedef enum status list_file_source_fn(void *user, uint64_t after,
                                        struct batch **batch,
                                        struct problem *why);

/* Writes the file of list `info` into the open directory `dir_fd`, and appends
 * its marks. On disk when it returns, the directory's entry too. */
MUST_CHECK enum status list_file_write(int dir_fd, const struct list_info *info,
                                       struct slice header,
                                       list_file_source_fn *source, void *user,
                                       struct buf *marks, struct problem *why);

/* The name of its file. */
#define LIST_FILE_NAME_MAX (LIST_FILE_STEM_MAX + 3)

void list_file_name(char to[LIST_FILE_NAME_MAX], uint64_t number);

/* The size of a list's file in `dir_fd`; 0 if there is none. */
uint64_t list_file_size(int dir_fd, uint64_t number);

/* Opens the file of list `number` in `dir_fd`; the caller closes it. */
MUST_CHECK enum status list_file_open(int dir_fd, uint64_t number, int *fd,
                                      struct problem *why);

/* Sets *place to the beginning of the block that holds byte `offset` of the
 * list's fragments; leaves it alone if there are no marks. */
void list_file_seek(struct slice marks, uint64_t offset,
                    struct list_place *place);

/* Reads the block of the file in `dir_fd` that holds entry `after` + 1. */
MUST_CHECK enum status list_file_read(int dir_fd, const struct list_info *info,
                                      struct slice marks, uint64_t after,
                                      atomic_size_t *forms_account,
                                      struct batch **batch,
                                      struct problem *why);

#endif

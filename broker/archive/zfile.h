/*
 * zfile.h - gzip files that can be entered in the middle.
 *
 * One gzip member, as every reader takes it: no name, no time. The deflate
 * stream is fully flushed where the writer says so, about every 256 KiB, and
 * the header's extra field (RFC 1952 section 2.3.1.1) tells where, how large
 * the plain bytes are, and their SHA-256. So one file serves those who take
 * gzip, as it is, and those who do not, from any byte on, and proves itself.
 *
 *     extra field, subfield "td": version, plain size, digest, then for each
 *     block its offset in the file and in the plain bytes
 *
 * The header is written last: room for it is kept.
 */
#ifndef BROKER_ARCHIVE_ZFILE_H
#define BROKER_ARCHIVE_ZFILE_H

#include <stdint.h>

#include "base/file.h"
#include "broker/net/body.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Most plain bytes of a file: what a document may have, and more. */
#define ZFILE_PLAIN_MAX ((uint64_t)64 << 20)

struct zfile_writer;

/* What a file is. */
struct zfile {
    uint64_t plain;       /* bytes */
    uint64_t packed;      /* bytes of the file */
    struct digest digest; /* of the plain bytes */
};

/* Begins the file `name` in the open directory `dir_fd`: it appears when it is
 * whole. */
MUST_CHECK enum status zfile_begin(struct zfile_writer **writer, int dir_fd,
                                   const char *name, struct problem *why);

/* Appends plain bytes. A block may end behind them: whole entries, please. */
MUST_CHECK enum status zfile_add(struct zfile_writer *writer,
                                 struct slice bytes, struct problem *why);

/* Makes it whole and durable, its directory's entry left to the caller, and
 * frees the writer, also when it fails. */
MUST_CHECK enum status zfile_finish(struct zfile_writer *writer,
                                    struct zfile *zfile, struct problem *why);

/* Leaves nothing. NULL is allowed. */
void zfile_abandon(struct zfile_writer *writer);

/* Reads what the file is. STATUS_IO: it is none of ours, or damaged. May block.
 */
MUST_CHECK enum status zfile_look(int fd, struct zfile *zfile,
                                  struct problem *why);

/* The plain bytes of an open file, which is taken over and read on worker
 * threads only; can be entered anywhere. Damage cuts it off. After an error the
 * file is still the caller's. May block. */
MUST_CHECK enum status zfile_body(int fd, struct body **body,
                                  struct problem *why);

#endif

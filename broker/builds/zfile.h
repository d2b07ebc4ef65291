/*
 * zfile.h - gzip files that can be entered in the middle.
 *
 * A file is one gzip member that every reader accepts: no name, no time. The
 * writer fully flushes the deflate stream about every 256 KiB. The header's
 * extra field (RFC 1952 section 2.3.1.1) has the places of the flushes, the
 * size of the plain bytes, and their SHA-256. So one file serves clients with
 * gzip, as it is, and clients without, from any byte on, and shows its own
 * damage.
 *
 *     extra field, subfield "td": version, plain size, digest, then for each
 *     block its offset in the file and in the plain bytes
 *
 * The header is written last; the writer leaves room for it.
 */
#pragma once

#include "base/file.h"
#include "broker/net/body.h"
#include "proto/resourcesync/digest.h"

/* Most plain bytes of a file: a document's limit, and more. */
#define ZFILE_PLAIN_MAX ((uint64_t)64 << 20)

struct zfile_writer;

/* The description of a file. */
struct zfile {
    uint64_t plain;       /* bytes */
    uint64_t packed;      /* bytes of the file */
    struct digest digest; /* of the plain bytes */
};

/* Begins the file `name` in the open directory `dir_fd`. It appears under its
 * name when it is whole. */
MUST_CHECK enum status zfile_begin(struct zfile_writer **writer, int dir_fd,
                                   const char *name, struct problem *why);

/* Appends plain bytes. A block may end behind them, so the caller passes whole
 * entries. */
MUST_CHECK enum status zfile_add(struct zfile_writer *writer,
                                 struct slice bytes, struct problem *why);

/* Makes the file whole and durable, and frees the writer, also on failure. The
 * caller makes the directory's entry durable. */
MUST_CHECK enum status zfile_finish(struct zfile_writer *writer,
                                    struct zfile *zfile, struct problem *why);

/* Leaves nothing. NULL is allowed. */
void zfile_abandon(struct zfile_writer *writer);

/* The header of a file, as its writer has written it: unused bytes are 0. */
#define ZFILE_HEADER_SIZE 2120

struct zfile_header {
    uint8_t bytes[ZFILE_HEADER_SIZE];
};

/* Reads the description, and makes the header that a writer makes of it (NULL:
 * nobody asks). The file has another header if an unused byte is damaged.
 * STATUS_IO: the file is not a zfile, or damaged. May block. */
MUST_CHECK enum status zfile_look(int fd, struct zfile *zfile,
                                  struct zfile_header *header,
                                  struct problem *why);

/* Sets the places of the n-th block, from 0, in the file and in the plain
 * bytes. False: there are fewer. */
bool zfile_block(const struct zfile_header *header, size_t n, uint64_t *at,
                 uint64_t *plain);

/* Makes a body of the plain bytes of an open file. The body owns the file,
 * reads it on worker threads only, and can start at any byte. It ends early at
 * damage. After an error the caller still owns the file. May block. */
MUST_CHECK enum status zfile_body(int fd, struct body **body,
                                  struct problem *why);

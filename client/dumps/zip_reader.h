/*
 * zip_reader.h - reads a ZIP archive from its first member to its last: the
 * calls to libarchive, and nothing else.
 *
 * It uses only the reader that goes by the central directory: a file without
 * one is no ZIP, or was cut off. libarchive converts names with the locale of
 * the thread, which must be UTF-8 during each call.
 */
#ifndef CLIENT_DUMPS_ZIP_READER_H
#define CLIENT_DUMPS_ZIP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/status.h"

struct archive;
struct archive_entry;

struct zip_reader {
    struct archive *archive; /* NULL: closed */
    int fd;
    uint32_t n_headers; /* read by zip_next */
};

/* A closed one; a zip_close of it does nothing. */
#define ZIP_NONE ((struct zip_reader){.fd = -1})

/* STATUS_MALFORMED: no ZIP; STATUS_IO; STATUS_MEMORY. After an error it is
 * closed. */
MUST_CHECK enum status zip_open(struct zip_reader *zip, int dir_fd,
                                const char *name, struct problem *why);
void zip_close(struct zip_reader *zip);

/* Reads the next header; *entry NULL: the end. STATUS_MALFORMED: it cannot be
 * read. */
MUST_CHECK enum status zip_next(struct zip_reader *zip,
                                struct archive_entry **entry,
                                struct problem *why);

/* Reads some data of the current member. Sets *n to the number of bytes, 0 at
 * the end. STATUS_MALFORMED: the member cannot be read; later ones still can.
 */
MUST_CHECK enum status zip_read(struct zip_reader *zip, char *to, size_t size,
                                size_t *n, struct problem *why);

bool zip_is_file(struct archive_entry *entry);
bool zip_is_encrypted(struct archive_entry *entry);
const char *zip_name(struct archive_entry *entry); /* NULL: unreadable */

/* The size that the archive declares; UINT64_MAX: none. */
uint64_t zip_size(struct archive_entry *entry);

#endif

/*
 * package_zip.c - the calls to libarchive, and nothing else.
 *
 * It uses only the reader that goes by the central directory: a file without
 * one is no ZIP, or was cut off.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "client/dumps/package_inside.h"

#define BLOCK_SIZE 65536

static void
keep_problem(struct zip *zip)
{
    const char *text = archive_error_string(zip->archive);

    snprintf(zip->problem, sizeof(zip->problem), "%s",
             text ? text : "unreadable");
}

enum status
zip_open(struct zip *zip, int dir_fd, const char *name)
{
    enum status rc = STATUS_IO;

    zip->n_headers = 0;
    zip->archive = NULL;
    zip->fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (zip->fd < 0) {
        snprintf(zip->problem, sizeof(zip->problem), "%s", strerror(errno));
        return STATUS_IO;
    }
    zip->archive = archive_read_new();
    if (!zip->archive) {
        rc = STATUS_MEMORY;
        goto failed;
    }
    if (archive_read_support_format_zip_seekable(zip->archive) ||
        archive_read_open_fd(zip->archive, zip->fd, BLOCK_SIZE)) {
        keep_problem(zip);
        rc = archive_errno(zip->archive) == ENOMEM ? STATUS_MEMORY
                                                   : STATUS_MALFORMED;
        goto failed;
    }
    return STATUS_OK;

failed:
    zip_close(zip);
    return rc;
}

void
zip_close(struct zip *zip)
{
    if (zip->archive)
        archive_read_free(zip->archive);
    if (zip->fd >= 0)
        close(zip->fd);
    zip->archive = NULL;
    zip->fd = -1;
}

int
zip_next(struct zip *zip, struct archive_entry **entry)
{
    int rc = archive_read_next_header(zip->archive, entry);

    if (rc == ARCHIVE_EOF)
        return 0;
    /* A warning is about an odd name or field, not about the data. */
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN) {
        keep_problem(zip);
        return -1;
    }
    zip->n_headers++;
    return 1;
}

long
zip_read(struct zip *zip, char *to, size_t size)
{
    la_ssize_t n = archive_read_data(zip->archive, to, size);

    if (n >= 0)
        return (long)n;
    keep_problem(zip);
    return -1;
}

bool
zip_is_file(struct archive_entry *entry)
{
    return archive_entry_filetype(entry) == AE_IFREG &&
           !archive_entry_symlink(entry) && !archive_entry_hardlink(entry);
}

bool
zip_is_encrypted(struct archive_entry *entry)
{
    return archive_entry_is_encrypted(entry);
}

const char *
zip_name(struct archive_entry *entry)
{
    return archive_entry_pathname(entry);
}

uint64_t
zip_size(struct archive_entry *entry)
{
    return archive_entry_size_is_set(entry) && archive_entry_size(entry) >= 0
               ? (uint64_t)archive_entry_size(entry)
               : UINT64_MAX;
}

#include "client/dumps/zip_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#define BLOCK_SIZE 65536

/* Fails with libarchive's reason. */
static enum status
fail_zip(struct zip_reader *zip, struct problem *why)
{
    const char *text = archive_error_string(zip->archive);

    if (archive_errno(zip->archive) == ENOMEM)
        return problem_memory(why);
    return problem(why, STATUS_MALFORMED, "%s", text ? text : "unreadable");
}

enum status
zip_open(struct zip_reader *zip, int dir_fd, const char *name,
         struct problem *why)
{
    enum status rc;

    *zip = ZIP_NONE;
    zip->fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (zip->fd < 0)
        return problem(why, STATUS_IO, "%s", strerror(errno));
    zip->archive = archive_read_new();
    if (!zip->archive) {
        rc = problem_memory(why);
    } else {
        if (!archive_read_support_format_zip_seekable(zip->archive) &&
            !archive_read_open_fd(zip->archive, zip->fd, BLOCK_SIZE))
            return STATUS_OK;
        rc = fail_zip(zip, why);
    }
    zip_close(zip);
    return rc;
}

void
zip_close(struct zip_reader *zip)
{
    if (zip->archive)
        archive_read_free(zip->archive);
    if (zip->fd >= 0)
        close(zip->fd);
    *zip = ZIP_NONE;
}

enum status
zip_next(struct zip_reader *zip, struct archive_entry **entry,
         struct problem *why)
{
    int rc = archive_read_next_header(zip->archive, entry);

    if (rc == ARCHIVE_EOF) {
        *entry = NULL;
        return STATUS_OK;
    }
    /* A warning is about an odd name or field, not about the data. */
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
        return fail_zip(zip, why);
    zip->n_headers++;
    return STATUS_OK;
}

enum status
zip_read(struct zip_reader *zip, char *to, size_t size, size_t *n,
         struct problem *why)
{
    la_ssize_t got = archive_read_data(zip->archive, to, size);

    *n = got > 0 ? (size_t)got : 0;
    return got < 0 ? fail_zip(zip, why) : STATUS_OK;
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

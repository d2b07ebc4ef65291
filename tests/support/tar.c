#include "tests/support/tar.h"

#include <stdio.h>
#include <stdlib.h>

#include <archive.h>
#include <archive_entry.h>

_Noreturn static void
fail(struct archive *archive, const char *path)
{
    fprintf(stderr, "%s: %s\n", path, archive_error_string(archive));
    exit(2);
}

void
tar_each(const char *path, tar_member_fn *on_member, void *user)
{
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    int rc;

    archive_read_support_format_tar(archive);
    if (archive_read_open_filename(archive, path, 65536))
        fail(archive, path);
    while ((rc = archive_read_next_header(archive, &entry)) == ARCHIVE_OK) {
        size_t size = (size_t)archive_entry_size(entry);
        char *bytes = malloc(size);

        if (archive_entry_filetype(entry) == AE_IFREG) {
            if ((size > 0 && !bytes) ||
                archive_read_data(archive, bytes, size) != (la_ssize_t)size)
                fail(archive, path);
            on_member(user, archive_entry_pathname(entry),
                      (struct slice){bytes, size});
        }
        free(bytes);
    }
    if (rc != ARCHIVE_EOF)
        fail(archive, path);
    archive_read_free(archive);
}

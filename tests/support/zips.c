/*
 * zips.c - ZIP packages for tests.
 */
#include "tests/support/zips.h"

#include <fcntl.h>
#include <locale.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "tests/test.h"

void
zips_begin(struct zips *z, int dir_fd, const char *name)
{
    z->fd =
        openat(dir_fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(z->fd >= 0);
    z->is_open = false;
    z->archive = archive_write_new();
    assert_non_null(z->archive);
    assert_int_equal(archive_write_set_format_zip(z->archive), ARCHIVE_OK);
}

/* Options are given before it. */
static void
open_once(struct zips *z)
{
    if (z->is_open)
        return;
    assert_int_equal(archive_write_open_fd(z->archive, z->fd), ARCHIVE_OK);
    z->is_open = true;
}

void
zips_encrypt(struct zips *z)
{
    assert_int_equal(
        archive_write_set_options(z->archive, "zip:encryption=zipcrypt"),
        ARCHIVE_OK);
    assert_int_equal(archive_write_set_passphrase(z->archive, "secret"),
                     ARCHIVE_OK);
}

static void
add_header(struct zips *z, const char *name, mode_t type, const char *target,
           size_t size)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = uselocale(utf8);
    struct archive_entry *entry = archive_entry_new();

    open_once(z);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_mtime(entry, 1700000000, 0);
    if (target)
        archive_entry_set_symlink(entry, target);
    archive_entry_set_size(entry, (la_int64_t)size);
    assert_true(archive_write_header(z->archive, entry) >= ARCHIVE_WARN);
    archive_entry_free(entry);
    uselocale(before);
    freelocale(utf8);
}

void
zips_add(struct zips *z, const char *name, struct slice bytes)
{
    add_header(z, name, AE_IFREG, NULL, bytes.size);
    if (bytes.size)
        assert_int_equal(archive_write_data(z->archive, bytes.data, bytes.size),
                         bytes.size);
}

void
zips_add_link(struct zips *z, const char *name, const char *target)
{
    add_header(z, name, AE_IFLNK, target, 0);
}

void
zips_add_folder(struct zips *z, const char *name)
{
    add_header(z, name, AE_IFDIR, NULL, 0);
}

void
zips_add_zeros(struct zips *z, const char *name, size_t size)
{
    static const char zeros[65536];

    add_header(z, name, AE_IFREG, NULL, size);
    while (size > 0) {
        size_t n = size < sizeof(zeros) ? size : sizeof(zeros);

        assert_int_equal(archive_write_data(z->archive, zeros, n), n);
        size -= n;
    }
}

void
zips_end(struct zips *z)
{
    open_once(z);
    assert_int_equal(archive_write_close(z->archive), ARCHIVE_OK);
    archive_write_free(z->archive);
    close(z->fd);
}

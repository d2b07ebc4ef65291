#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/dumps/zip_reader.h"
#include "client/source/document.h"
#include "tests/fuzz/fuzz.h"

#define PACKAGE "package.zip"

/* The members of the manifest that the test takes. */
#define ASKED_MOST 20

struct asked {
    struct zip_reader *package;
    char *paths[ASKED_MOST];
    size_t n;
};

/* In memory, for nothing here is to wait for a disk; gone with the process. */
static char directory[] = "/dev/shm/package_fuzz.XXXXXX";

static void
remove_directory(void)
{
    rmdir(directory);
}

static int
scratch(void)
{
    static int dir_fd = -1;

    if (dir_fd < 0) {
        FUZZ_ASSERT(mkdtemp(directory));
        atexit(remove_directory);
        dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        FUZZ_ASSERT(dir_fd >= 0);
    }
    return dir_fd;
}

static void
write_package(int dir_fd, struct slice bytes)
{
    int fd = openat(dir_fd, PACKAGE, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    FUZZ_ASSERT(fd >= 0);
    FUZZ_ASSERT(write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
    close(fd);
}

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct asked *asked = user;
    struct problem why;

    (void)head;
    FUZZ_ASSERT(!zip_reader_expect(asked->package, entry->path,
                                   entry->change.length, entry->change.hash,
                                   &why));
    if (asked->n < ASKED_MOST)
        asked->paths[asked->n++] = slice_dup(entry->path);
    return STATUS_OK;
}

/* Reads the manifest to its end, or as far as it can be. */
static void
read_manifest(struct asked *asked, size_t *size)
{
    static const struct document_events events = {NULL, on_entry};
    struct document *d = document_new("http://example.com/", &events, asked);
    struct problem why;
    struct slice piece;
    enum status rc;
    enum status fed = STATUS_OK;

    FUZZ_ASSERT(d);
    *size = 0;
    while (!(rc = zip_reader_manifest(asked->package, &piece, &why)) &&
           piece.size > 0) {
        *size += piece.size;
        if (!fed)
            fed = document_feed(d, piece, NULL);
    }
    FUZZ_ASSERT(!rc || rc == STATUS_MALFORMED);
    if (rc)
        fuzz_check_sentence(why.text);
    document_free(d);
}

static void
take(struct zip_reader *package, int dir_fd, const char *path)
{
    char name[ZIP_READER_NAME_SIZE];
    struct problem why;
    struct stat is;
    bool is_over = false;
    enum status rc = zip_reader_find(package, slice_of(path), &why);

    while (!rc && !is_over)
        rc = zip_reader_take(package, &is_over, name, &why);
    FUZZ_ASSERT(!rc || rc == STATUS_MALFORMED);
    if (rc) {
        fuzz_check_sentence(why.text);
        return;
    }
    FUZZ_ASSERT(!strchr(name, '/') && name[0] == 'm');
    FUZZ_ASSERT(!fstatat(dir_fd, name, &is, AT_SYMLINK_NOFOLLOW));
    FUZZ_ASSERT(S_ISREG(is.st_mode));
    FUZZ_ASSERT(zip_reader_find(package, slice_of(path), &why) ==
                STATUS_MALFORMED);
    FUZZ_ASSERT(!unlinkat(dir_fd, name, 0));
}

/* No file that was set aside is left. */
static void
check_empty(int dir_fd)
{
    DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY));
    const struct dirent *each;

    FUZZ_ASSERT(dir);
    while ((each = readdir(dir)))
        FUZZ_ASSERT(each->d_name[0] == '.');
    closedir(dir);
}

/* A package is refused with a reason, or its members are taken, each once or
 * with a reason for its refusal, in another order than the manifest's; no file
 * of it is left. */
FUZZ_TARGET(package, bytes)
{
    int dir_fd = scratch();
    struct asked asked = {.n = 0};
    struct asked none = {.n = ASKED_MOST};
    struct problem why;
    size_t first, second;
    enum status rc;

    write_package(dir_fd, bytes);
    rc = zip_reader_open(&asked.package, dir_fd, PACKAGE, &why);
    if (rc) {
        FUZZ_ASSERT(rc == STATUS_MALFORMED && !asked.package);
        fuzz_check_sentence(why.text);
    } else {
        read_manifest(&asked, &first);
        none.package = asked.package;
        read_manifest(&none, &second);
        FUZZ_ASSERT(first == second);
        /* From the last one on, every other: members before it in the archive
         * are set aside. */
        for (size_t i = asked.n; i > 0; i -= i > 1 ? 2 : 1)
            take(asked.package, dir_fd, asked.paths[i - 1]);
        zip_reader_close(asked.package);
    }
    for (size_t i = 0; i < asked.n; i++)
        free(asked.paths[i]);
    FUZZ_ASSERT(!unlinkat(dir_fd, PACKAGE, 0));
    check_empty(dir_fd);
}

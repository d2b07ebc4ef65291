/*
 * file_digest.c - the digest of a file.
 */
#include "client/watch/file_digest.h"

#include <fcntl.h>
#include <magic.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"

#define SETTLE_NS INT64_C(2000000000)
#define SECOND_NS INT64_C(1000000000)
#define READS_MAX 3 /* of a file that changes during the reading */

static int64_t
nanoseconds_of(struct timespec t)
{
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

void
file_stamp_take(struct file_stamp *mark, const struct stat *st)
{
    struct timespec now;
    int64_t changed_ns = nanoseconds_of(st->st_ctim);

    clock_gettime(CLOCK_REALTIME, &now);
    mark->size = st->st_size;
    mark->mtime_ns = nanoseconds_of(st->st_mtim);
    mark->ctime_ns = nanoseconds_of(now) - changed_ns < SETTLE_NS
                         ? FILE_STAMP_UNSETTLED
                         : changed_ns;
    mark->ino = st->st_ino;
}

bool
file_stamp_is_of(const struct file_stamp *mark, const struct stat *st)
{
    return mark->size == st->st_size && mark->ino == st->st_ino &&
           mark->mtime_ns == nanoseconds_of(st->st_mtim) &&
           mark->ctime_ns == nanoseconds_of(st->st_ctim);
}

/* If somebody opens the file meanwhile, the kernel breaks the lease by SIGIO,
 * which the program ignores; nobody waits, as the lease ends at once. */
static bool
is_being_written(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        fcntl(fd, F_SETLEASE, F_UNLCK);
        return false;
    }
    return errno == EAGAIN;
}

static enum file_digest_result
digest_file(const struct file_digester *digester, int fd,
            struct file_digest *hash)
{
    ssize_t n = pread(fd, hash->head, sizeof(hash->head), 0);
    enum status rc = STATUS_IO;

    hash->head_size = n > 0 ? (size_t)n : 0;
    if (n >= 0 && !lseek(fd, 0, SEEK_SET))
        rc = file_digest(fd, digester->check, digester->go_on, digester->user,
                         NULL);
    if (rc)
        return rc == STATUS_STOPPED ? FILE_DIGEST_STOPPED : FILE_DIGEST_FAILED;
    digest_check_sha256(digester->check, &hash->mark.sha256);
    return FILE_DIGEST_READ;
}

enum file_digest_result
file_digest_read(const struct file_digester *digester, int dir_fd,
                 const char *name, struct file_digest *hash)
{
    enum file_digest_result result = FILE_DIGEST_WRITTEN;
    struct stat before;
    struct stat after;
    int fd;

    errno = 0;
    fd = openat(dir_fd, name,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP || errno == ENXIO
                   ? FILE_DIGEST_GONE
                   : FILE_DIGEST_FAILED;
    for (int i = 0; i < READS_MAX; i++) {
        result = FILE_DIGEST_FAILED;
        if (fstat(fd, &before))
            break;
        result =
            S_ISREG(before.st_mode) ? FILE_DIGEST_WRITTEN : FILE_DIGEST_GONE;
        if (result == FILE_DIGEST_GONE || is_being_written(fd))
            break;
        /* Before the reading: a settled file then cannot change unseen. */
        file_stamp_take(&hash->mark, &before);
        result = digest_file(digester, fd, hash);
        if (result != FILE_DIGEST_READ)
            break;
        if (fstat(fd, &after)) {
            result = FILE_DIGEST_FAILED;
            break;
        }
        result = FILE_DIGEST_WRITTEN;
        if (is_being_written(fd))
            break;
        if (before.st_size == after.st_size &&
            nanoseconds_of(before.st_mtim) == nanoseconds_of(after.st_mtim) &&
            nanoseconds_of(before.st_ctim) == nanoseconds_of(after.st_ctim)) {
            result = FILE_DIGEST_READ;
            break;
        }
    }
    file_close(&fd);
    return result;
}

/*
 * The media type of a file.
 */

#define EXTENSION_MAX 32
#define TYPE_MAX      128

static int
by_extension(const void *a, const void *b)
{
    return strcasecmp(((const struct mediatype *)a)->extension,
                      ((const struct mediatype *)b)->extension);
}

/* True if the type needs no escapes in a post: no quote, no backslash, no
 * control character, one "/". */
static bool
is_type(const char *text)
{
    size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789!#$&-^_.+/");
    const char *slash = strchr(text, '/');

    return size == strlen(text) && size <= TYPE_MAX && slash && slash > text &&
           slash[1] && !strchr(slash + 1, '/');
}

/* Reads the system's own table, which fits in memory; a line of it:
 *
 *     text/html			html htm shtml
 *
 * False: no memory. */
static bool
read_table(struct mediatypes *types, const char *path)
{
    FILE *f = fopen(path, "r");
    char bundled[PATH_MAX];
    size_t room = 0;
    char *lines = NULL;
    bool is_good = true;
    ssize_t size;

    if (!f &&
        file_of_bundle(bundled, sizeof(bundled), MEDIATYPES_BUNDLED_TABLE))
        f = fopen(bundled, "r");
    if (!f)
        return true;
    size = getdelim(&types->text, &room, '\0', f);
    fclose(f);
    if (size < 0)
        return true;
    for (char *line = strtok_r(types->text, "\n", &lines); line && is_good;
         line = strtok_r(NULL, "\n", &lines)) {
        char *rest = NULL;
        const char *type = strtok_r(line, " \t\r", &rest);
        char *word;

        if (!type || type[0] == '#' || !is_type(type))
            continue;
        while (is_good && (word = strtok_r(NULL, " \t\r", &rest))) {
            is_good = ONE_MORE(types->rows, &types->capacity, types->n_rows);
            if (is_good)
                types->rows[types->n_rows++] = (struct mediatype){word, type};
        }
    }
    if (types->n_rows)
        qsort(types->rows, types->n_rows, sizeof(types->rows[0]), by_extension);
    return is_good;
}

bool
mediatypes_open(struct mediatypes *types, const char *path)
{
    char bundled[PATH_MAX];
    bool is_bundled =
        !getenv("MAGIC") &&
        file_of_bundle(bundled, sizeof(bundled), MEDIATYPES_DATABASE);

    *types = (struct mediatypes){.magic = magic_open(MAGIC_MIME_TYPE)};
    return types->magic &&
           !magic_load(types->magic, is_bundled ? bundled : NULL) &&
           read_table(types, path);
}

void
mediatypes_close(struct mediatypes *types)
{
    if (types->magic)
        magic_close(types->magic);
    free(types->rows);
    free(types->text);
}

const char *
mediatypes_of(struct mediatypes *types, const char *name, const void *head,
              size_t size)
{
    char extension[EXTENSION_MAX + 1];
    const char *dot = strrchr(name, '.'), *type;
    struct mediatype wanted = {extension, NULL};
    const struct mediatype *row = NULL;

    if (dot && dot != name && strlen(dot + 1) <= EXTENSION_MAX &&
        types->n_rows) {
        strcpy(extension, dot + 1);
        row = bsearch(&wanted, types->rows, types->n_rows,
                      sizeof(types->rows[0]), by_extension);
    }
    if (row || !size)
        return row ? row->type : NULL;
    type = magic_buffer(types->magic, head, size);
    return type && is_type(type) ? type : NULL;
}

#include "broker/log/kept_records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"

#define HEAD_SIZE 12

static const char *const files[] = {KEPT_RECORDS_EARLIER, KEPT_RECORDS_LATEST};

struct entry {
    uint64_t n;
    uint32_t size;
};

/* False: no whole entry begins at `at` in a file of `end` bytes. */
static bool
read_head(int fd, uint64_t at, uint64_t end, struct entry *e)
{
    unsigned char head[HEAD_SIZE];

    if (end - at < HEAD_SIZE ||
        pread(fd, head, HEAD_SIZE, (off_t)at) != HEAD_SIZE)
        return false;
    memcpy(&e->n, head, sizeof(e->n));
    memcpy(&e->size, head + sizeof(e->n), sizeof(e->size));
    e->n = be64toh(e->n);
    e->size = be32toh(e->size);
    return e->size <= end - at - HEAD_SIZE;
}

/* 0 if the file cannot be asked. */
static uint64_t
size_of_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* Writing */

void
kept_records_add(struct kept_records *k, uint64_t n, struct slice record)
{
    struct file_path latest;
    uint64_t big_n = htobe64(n), end;
    uint32_t big_size = htobe32((uint32_t)record.size);
    struct iovec parts[] = {{&big_n, sizeof(big_n)},
                            {&big_size, sizeof(big_size)},
                            {(void *)(uintptr_t)record.data, record.size}};
    struct entry e;

    if (!k->dir || record.size > UINT32_MAX)
        return;
    latest = file_path("%s/" KEPT_RECORDS_LATEST, k->dir);
    if (k->fd >= 0 && k->size >= KEPT_RECORDS_BYTES) {
        file_close(&k->fd);
        (void)rename(latest.text, /* else the file grows */
                     file_path("%s/" KEPT_RECORDS_EARLIER, k->dir).text);
    }
    if (k->fd < 0) {
        k->fd = open(latest.text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (k->fd < 0)
            return;
        end = size_of_file(k->fd);
        for (k->size = 0; read_head(k->fd, k->size, end, &e);)
            k->size += HEAD_SIZE + e.size;
        if (ftruncate(k->fd, (off_t)k->size)) { /* what a crash left */
            file_close(&k->fd);
            return;
        }
    }
    if (pwritev(k->fd, parts, 3, (off_t)k->size) ==
        (ssize_t)(HEAD_SIZE + record.size))
        k->size += HEAD_SIZE + record.size;
    else
        file_close(&k->fd); /* the next open cuts off what was written */
}

void
kept_records_forget(const char *dir)
{
    for (size_t i = 0; i < N_ELEMENTS(files); i++)
        unlink(file_path("%s/%s", dir, files[i]).text);
}

/* Reading */

static enum status
read_file(const char *path, struct journal_place *place, journal_take_fn *take,
          void *user, struct problem *why)
{
    enum status rc = STATUS_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t end;
    struct entry e;

    if (fd < 0)
        return errno == ENOENT ? STATUS_OK
                               : problem_errno(why, "cannot open", path);
    end = size_of_file(fd);
    for (uint64_t at = 0; !rc && read_head(fd, at, end, &e);
         at += HEAD_SIZE + e.size) {
        struct journal_place next = *place;
        struct slice record;
        char *bytes;

        if (e.n != place->n + 1)
            continue;
        bytes = memory_room(e.size + 1);
        record = (struct slice){bytes, e.size};
        if (!bytes) {
            rc = problem_memory(why);
        } else if (pread(fd, bytes, e.size, (off_t)(at + HEAD_SIZE)) !=
                   (ssize_t)e.size) {
            rc = problem(why, STATUS_IO, "a kept record cannot be read");
        } else {
            journal_place_next(&next, record);
            rc = take(&next, record, user, why);
        }
        free(bytes);
        if (!rc)
            *place = next;
    }
    close(fd);
    return rc;
}

enum status
kept_records_read(const char *dir, struct journal_place *place,
                  journal_take_fn *take, void *user, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < N_ELEMENTS(files); i++)
        rc = read_file(file_path("%s/%s", dir, files[i]).text, place, take,
                       user, why);
    return rc;
}

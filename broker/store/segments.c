#include "broker/store/segments.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "broker/base/diag.h"

/* A commit begins here, so that no write touches a page with entries of an
 * earlier commit. */
#define PAGE_BYTES 4096

/* Segments may take so much more than twice the room of the bytes in them. */
#define SLACK_BYTES (8 * SEGMENT_BYTES)

#define NAME_SIZE 11 /* of a number, with its NUL */

static void
name_segment(char name[NAME_SIZE], uint32_t number)
{
    snprintf(name, NAME_SIZE, "%010" PRIu32, number);
}

uint32_t
segments_number(const char *name)
{
    char same[NAME_SIZE];
    unsigned long number = strtoul(name, NULL, 10);

    if (number == 0 || number > UINT32_MAX)
        return 0;
    name_segment(same, (uint32_t)number);
    return strcmp(name, same) ? 0 : (uint32_t)number;
}

/* Starting and ending */

enum status
segments_open(struct segments *s, const char *dir, struct problem *why)
{
    struct file_path path = file_path("%s/" SEGMENTS_FOLDER, dir);

    *s = (struct segments){.dir_fd = -1, .fd = -1};
    pthread_mutex_init(&s->mutex, NULL);
    if (mkdir(path.text, S_IRWXU) && errno != EEXIST)
        return problem_errno(why, "cannot create the directory", path.text);
    return file_open_folder(AT_FDCWD, path.text, &s->dir_fd, why);
}

void
segments_close(struct segments *s)
{
    if (s->dir_fd < 0)
        return;
    file_close(&s->fd);
    file_close(&s->dir_fd);
    free(s->all);
    free(s->spares);
    pthread_mutex_destroy(&s->mutex);
}

static int
compare_numbers(const void *key, const void *segment)
{
    uint32_t a = *(const uint32_t *)key,
             b = ((const struct segment *)segment)->number;

    return (a > b) - (a < b);
}

/* The segment with that number; NULL: there is none. */
static struct segment *
find(const struct segments *s, uint32_t number)
{
    return s->n == 0 ? NULL
                     : bsearch(&number, s->all, s->n, sizeof(*s->all),
                               compare_numbers);
}

enum status
segments_add(struct segments *s, uint32_t number, uint64_t live,
             struct problem *why)
{
    bool is_good;

    pthread_mutex_lock(&s->mutex);
    is_good = ONE_MORE(s->all, &s->capacity, s->n);
    if (is_good) {
        s->all[s->n++] = (struct segment){.number = number, .live = live};
        s->last = number;
        s->live += live;
    }
    pthread_mutex_unlock(&s->mutex);
    return is_good ? STATUS_OK : problem_memory(why);
}

enum status
segments_check(const char *dir, uint32_t number, struct problem *why)
{
    struct file_path path =
        file_path("%s/" SEGMENTS_FOLDER "/%010" PRIu32, dir, number);

    return access(path.text, F_OK)
               ? problem(why, STATUS_IO,
                         "the file " SEGMENTS_FOLDER "/%010" PRIu32
                         ", which has entries, is missing",
                         number)
               : STATUS_OK;
}

static void
add_spare(struct segments *s, uint32_t number)
{
    (void)ONE_MORE(s->spares, &s->spare_capacity, s->n_spares);
    s->spares[s->n_spares++] = number;
}

enum status
segments_find_spares(struct segments *s, struct problem *why)
{
    DIR *dir = file_open_dir(s->dir_fd, ".", 0);
    const struct dirent *entry;
    enum status rc = STATUS_OK;

    if (!dir)
        return problem_errno(why, "cannot read", SEGMENTS_FOLDER);
    while ((entry = file_next(dir))) {
        uint32_t number = segments_number(entry->d_name);

        if (number == 0 || find(s, number))
            continue;
        add_spare(s, number);
        if (number > s->last)
            s->last = number;
    }
    if (errno)
        rc = problem_errno(why, "cannot read", SEGMENTS_FOLDER);
    closedir(dir);
    return rc;
}

/* Spare segments: a backup that reads keeps them */

void
segments_drop_spares(struct segments *s, size_t n_kept)
{
    char name[NAME_SIZE];

    if (s->n_spares <= n_kept || !file_have_alone(s->dir_fd))
        return;
    while (s->n_spares > n_kept) {
        name_segment(name, s->spares[--s->n_spares]);
        if (unlinkat(s->dir_fd, name, 0))
            DIAG(DIAG_WARNING, "log", "a segment without entries stays",
                 diag_text("file", name));
    }
    file_end_alone(s->dir_fd);
}

/* Writing */

static enum status
begin_segment(struct segments *s, struct problem *why)
{
    struct segment *former = s->n > 0 ? &s->all[s->n - 1] : NULL;
    uint32_t empty = former && former->live == 0 ? former->number : 0;
    char name[NAME_SIZE];
    enum status rc;
    int fd = -1;

    file_close(&s->fd);
    name_segment(name, s->last + 1);
    if (s->n_spares > 0 && file_have_alone(s->dir_fd)) {
        char spare[NAME_SIZE];

        name_segment(spare, s->spares[s->n_spares - 1]);
        if (!renameat(s->dir_fd, spare, s->dir_fd, name)) {
            s->n_spares--;
            fd = openat(s->dir_fd, name, O_WRONLY | O_CLOEXEC);
        }
        file_end_alone(s->dir_fd);
    }
    if (fd < 0) {
        fd = openat(s->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                    S_IRUSR | S_IWUSR);
        if (fd < 0)
            return problem_errno(why, "cannot make the segment", name);
        /* The file has a number of blocks from its beginning: the disk is asked
         * for room once, and later syncs write the entries only. */
        if (fallocate(fd, 0, 0, (off_t)SEGMENT_BYTES) && errno != EOPNOTSUPP &&
            errno != ENOSYS) {
            rc = problem_errno(why, "cannot make the segment", name);
            close(fd);
            unlinkat(s->dir_fd, name, 0);
            return rc;
        }
    }
    rc = file_sync_dir(s->dir_fd, why);
    if (!rc)
        rc = segments_add(s, s->last + 1, 0, why);
    if (rc) { /* the next start finds the file */
        close(fd);
        return rc;
    }
    s->fd = fd;
    s->end = 0;
    if (empty) /* it is no longer the last one */
        segments_count(s, empty, 0);
    return STATUS_OK;
}

/* Writes all, in pieces that the system takes. */
static int
write_pieces(int fd, struct iovec *pieces, size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t size =
            pwritev(fd, pieces, n < IOV_MAX ? (int)n : IOV_MAX, (off_t)at);

        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            return -1;
        at += (uint64_t)size;
        for (; n > 0 && (size_t)size >= pieces->iov_len; n--)
            size -= (ssize_t)(pieces++)->iov_len;
        if (n > 0) {
            pieces->iov_base = (char *)pieces->iov_base + size;
            pieces->iov_len -= (size_t)size;
        }
    }
    return 0;
}

static bool
is_taken(const struct act *act)
{
    return act->kind == ACT_BATCH && segments_take(act->entries.batch);
}

enum status
segments_write(struct segments *s, const struct commit *commit,
               struct segment_place *place, struct problem *why)
{
    size_t n_batches = 0, size = 0, n = 0;
    struct iovec *pieces;
    int failed;

    for (size_t i = 0; i < commit->n; i++)
        if (is_taken(&commit->acts[i])) {
            size += commit->acts[i].entries.batch->size;
            n_batches++;
        }
    *place = (struct segment_place){0, 0};
    s->next_end = s->end;
    if (size < SEGMENT_COMMIT_BYTES)
        return STATUS_OK;
    if ((s->fd < 0 || (s->end > 0 && s->end + size > SEGMENT_BYTES)) &&
        begin_segment(s, why))
        return STATUS_BUSY;
    pieces = memory_room(n_batches * sizeof(*pieces));
    if (!pieces) {
        problem_memory(why);
        return STATUS_BUSY;
    }
    for (size_t i = 0; i < commit->n; i++)
        if (is_taken(&commit->acts[i])) {
            const struct batch *b = commit->acts[i].entries.batch;

            pieces[n++] = (struct iovec){b->bytes, b->size};
        }
    failed = write_pieces(s->fd, pieces, n, s->end) || fdatasync(s->fd);
    free(pieces);
    if (failed) {
        problem_errno(why, "cannot write to", SEGMENTS_FOLDER);
        /* After a failed sync the system may have thrown away what it could
         * not write, and say so only once: nothing more is put into this
         * segment. */
        file_close(&s->fd);
        return STATUS_BUSY;
    }
    *place = (struct segment_place){s->last, s->end};
    s->next_end = (s->end + size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    return STATUS_OK;
}

void
segments_end(struct segments *s)
{
    uint32_t current = segments_current(s);

    file_close(&s->fd);
    if (current > 0)
        segments_count(s, current, 0);
}

uint32_t
segments_current(const struct segments *s)
{
    return s->fd >= 0 ? s->last : 0;
}

/* Counting */

void
segments_count(struct segments *s, uint32_t number, int64_t bytes)
{
    struct segment *segment;
    bool is_spare = false;

    pthread_mutex_lock(&s->mutex);
    segment = find(s, number);
    if (segment) {
        segment->live += (uint64_t)bytes;
        s->live += (uint64_t)bytes;
        is_spare = segment->live == 0 && number != segments_current(s);
    }
    if (is_spare) {
        size_t behind = (size_t)(&s->all[s->n] - segment) - 1;

        memmove(segment, segment + 1, behind * sizeof(*segment));
        s->n--;
    }
    pthread_mutex_unlock(&s->mutex);
    if (is_spare)
        add_spare(s, number);
}

uint32_t
segments_sparse(const struct segments *s)
{
    uint32_t current = segments_current(s);
    uint64_t slack = current > 0 ? SLACK_BYTES : 0;
    const struct segment *emptiest = NULL;

    /* Most of the time there is none, and every commit asks. */
    if (s->n * SEGMENT_BYTES <= 2 * s->live + slack)
        return 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct segment *segment = &s->all[i];

        if (!segment->is_unreadable && segment->number != current &&
            (!emptiest || segment->live < emptiest->live))
            emptiest = segment;
    }
    return emptiest ? emptiest->number : 0;
}

void
segments_leave(struct segments *s, uint32_t number)
{
    struct segment *segment = find(s, number);

    if (segment)
        segment->is_unreadable = true;
}

/* Reading */

enum status
segments_share(const char *dir, int *fd, struct problem *why)
{
    enum status rc =
        file_share_folder(file_path("%s/" SEGMENTS_FOLDER, dir).text, fd, why);

    return rc && errno == ENOENT ? STATUS_OK : rc;
}

enum status
segment_read_at(int dir_fd, const struct segment_place *place, size_t size,
                char *to, struct problem *why)
{
    char name[NAME_SIZE];
    bool is_read;
    int fd;

    name_segment(name, place->number);
    fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return problem_errno(why, "cannot open the segment", name);
    is_read = file_read_at(fd, to, size, place->offset);
    close(fd);
    return is_read
               ? STATUS_OK
               : problem(why, STATUS_IO,
                         "the segment %s has not the bytes from %" PRIu64 " on",
                         name, place->offset);
}

enum status
segments_read(struct segments *s, const struct segment_place *place,
              size_t size, char *to, struct problem *why)
{
    enum status rc = segment_read_at(s->dir_fd, place, size, to, why);
    bool is_there;

    pthread_mutex_lock(&s->mutex);
    is_there = find(s, place->number) != NULL;
    pthread_mutex_unlock(&s->mutex);
    return is_there ? rc : STATUS_AGAIN;
}

#include "client/cli/line_input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/resourcesync/digest.h"

/* Most files that got the name while the lines of one were taken. */
#define NEXT_MAX 16

/* Bytes before an offset that recognize a file. */
#define TAIL_SIZE 4096

struct opened {
    int fd;
    dev_t device;
    ino_t inode;
};

struct line_input {
    char *path;
    bool is_file;
    struct opened now;
    struct opened next[NEXT_MAX]; /* those that got the name later, in order */
    size_t n_next;

    uint64_t offset;    /* in the file, of the first byte of `bytes` */
    uint64_t line;      /* number of the last line that was taken */
    struct digest tail; /* of the bytes of the file before those to come */
    size_t start;       /* in `bytes`, behind the last line that was taken */
    size_t last;        /* in `bytes`, where that line begins */
    size_t size;
    bool is_ended; /* no byte follows `bytes` in this file or pipe */
    char bytes[LINE_INPUT_MAX];
};

/* The digest of up to TAIL_SIZE bytes before `offset`. False: they cannot be
 * read. */
static bool
read_tail(int fd, uint64_t offset, struct digest *digest)
{
    char bytes[TAIL_SIZE];
    size_t size = offset < TAIL_SIZE ? (size_t)offset : TAIL_SIZE;
    size_t n = 0;

    while (n < size) {
        ssize_t got =
            pread(fd, bytes + n, size - n, (off_t)(offset - size + n));

        if (got <= 0)
            return false;
        n += (size_t)got;
    }
    digest_sha256(digest, (struct slice){bytes, size});
    return true;
}

static bool
is_same_file(const struct opened *opened, const struct stat *st)
{
    return opened->device == st->st_dev && opened->inode == st->st_ino;
}

static bool
open_file(struct opened *opened, const char *path, int flags)
{
    struct stat st;

    opened->fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (opened->fd < 0 || fstat(opened->fd, &st))
        return false;
    opened->device = st.st_dev;
    opened->inode = st.st_ino;
    return true;
}

/* Notes */

struct place {
    uint64_t device, inode, offset, line;
    char digest[DIGEST_TEXT_SIZE + 1];
};

static bool
read_note(const char *note, struct place *place)
{
    return sscanf(note, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %72s",
                  &place->device, &place->inode, &place->offset, &place->line,
                  place->digest) == 5;
}

void
line_input_note(const struct line_input *in, char note[LINE_INPUT_NOTE_SIZE])
{
    uint64_t offset = in->offset + in->start;
    char text[DIGEST_TEXT_SIZE];
    struct digest digest;

    note[0] = '\0';
    if (!in->is_file || !read_tail(in->now.fd, offset, &digest))
        return;
    digest_write(text, &digest);
    snprintf(note, LINE_INPUT_NOTE_SIZE,
             "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.*s",
             (uint64_t)in->now.device, (uint64_t)in->now.inode, offset,
             in->line, DIGEST_TEXT_SIZE, text);
}

/* Opening */

static int64_t
written_ns(const struct stat *st)
{
    return st->st_mtim.tv_sec * (int64_t)1000000000 + st->st_mtim.tv_nsec;
}

/* Opens the noted file, which has another name now, beside `path`. The file
 * that is called `path` follows it. False: it is not there, or files came in
 * between. */
static bool
open_renamed(struct line_input *in, const struct place *place)
{
    char *dir_path = strdup(in->path), *base_path = strdup(in->path);
    const char *base = base_path ? basename(base_path) : "";
    DIR *dir = dir_path ? opendir(dirname(dir_path)) : NULL;
    int64_t written = 0, newest = 0;
    struct dirent *entry;
    int fd = -1;

    while (dir && (entry = readdir(dir))) {
        struct stat st;

        if (strncmp(entry->d_name, base, strlen(base)) != 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, 0) ||
            !S_ISREG(st.st_mode) || is_same_file(&in->now, &st))
            continue;
        if (st.st_dev == place->device && st.st_ino == place->inode) {
            if (fd < 0)
                fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
            written = written_ns(&st);
        } else if (written_ns(&st) > newest) {
            newest = written_ns(&st);
        }
    }
    if (fd >= 0 && newest > written) {
        close(fd);
        fd = -1;
    }
    if (dir)
        closedir(dir);
    free(dir_path);
    free(base_path);
    if (fd < 0)
        return false;
    in->next[in->n_next++] = in->now;
    in->now = (struct opened){fd, (dev_t)place->device, (ino_t)place->inode};
    return true;
}

static enum status
go_to_place(struct line_input *in, const struct place *place,
            struct problem *why)
{
    char text[DIGEST_TEXT_SIZE];
    bool is_here =
        in->now.device == place->device && in->now.inode == place->inode;

    if (!is_here && !open_renamed(in, place))
        return problem(why, STATUS_IO,
                       "%s is not the file that was read up to byte %" PRIu64
                       " (line %" PRIu64
                       "), and that one is not beside it: post the rest of it "
                       "by hand, then begin with a new --state",
                       in->path, place->offset, place->line);
    if (!read_tail(in->now.fd, place->offset, &in->tail) ||
        (digest_write(text, &in->tail),
         memcmp(text, place->digest, DIGEST_TEXT_SIZE) != 0))
        return problem(why, STATUS_IO,
                       "%s was truncated or changed before byte %" PRIu64
                       ", up to which it was read: rotate it by renaming; "
                       "begin with a new --state",
                       in->path, place->offset);
    in->offset = place->offset;
    in->line = place->line;
    return STATUS_OK;
}

static enum status
open_input(struct line_input *in, const char *note, struct problem *why)
{
    struct place place = {.offset = 0};
    struct stat st;

    if (!strcmp(in->path, "-"))
        in->now.fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    else if (stat(in->path, &st) ||
             /* A FIFO has no end as long as we could write to it. */
             !open_file(&in->now, in->path,
                        S_ISFIFO(st.st_mode) ? O_RDWR : O_RDONLY))
        return problem_errno(why, "cannot open", in->path);
    if (in->now.fd < 0 || fstat(in->now.fd, &st))
        return problem_errno(why, "cannot read", in->path);
    in->is_file = S_ISREG(st.st_mode);
    if (in->is_file && !strcmp(in->path, "-"))
        return problem(why, STATUS_IO,
                       "standard input is a file: name the file, so that its "
                       "place can be kept");
    if (!in->is_file || !note[0])
        return STATUS_OK;
    if (!read_note(note, &place))
        return problem(why, STATUS_IO, "the note of the spool is unreadable");
    return go_to_place(in, &place, why);
}

enum status
line_input_open(struct line_input **input, const char *path, const char *note,
                struct problem *why)
{
    struct line_input *in = malloc(sizeof(*in));
    enum status rc;

    *input = NULL;
    if (!in)
        return problem_memory(why);
    memset(in, 0, offsetof(struct line_input, bytes));
    in->now.fd = -1;
    in->path = strdup(path);
    digest_sha256(&in->tail, SLICE(""));
    rc = in->path ? open_input(in, note, why) : problem_memory(why);
    if (rc) {
        line_input_close(in);
        return rc;
    }
    *input = in;
    return STATUS_OK;
}

void
line_input_close(struct line_input *in)
{
    if (!in)
        return;
    if (in->now.fd >= 0)
        close(in->now.fd);
    for (size_t i = 0; i < in->n_next; i++)
        close(in->next[i].fd);
    free(in->path);
    free(in);
}

bool
line_input_is_file(const struct line_input *in)
{
    return in->is_file;
}

int
line_input_fd(const struct line_input *in)
{
    return in->is_file ? -1 : in->now.fd;
}

/* Rotation */

bool
line_input_watch(struct line_input *in, struct problem *why)
{
    const struct opened *newest =
        in->n_next ? &in->next[in->n_next - 1] : &in->now;
    struct opened opened;
    struct stat st;

    if (!in->is_file || stat(in->path, &st) || !S_ISREG(st.st_mode) ||
        is_same_file(newest, &st))
        return true;
    if (in->n_next == NEXT_MAX) {
        problem(why, STATUS_IO, "%s was rotated more than %d times meanwhile",
                in->path, NEXT_MAX);
        return false;
    }
    if (open_file(&opened, in->path, O_RDONLY))
        in->next[in->n_next++] = opened;
    else if (opened.fd >= 0)
        close(opened.fd);
    return true;
}

/* True if the writer writes to a later file already. */
static bool
is_left(const struct line_input *in)
{
    struct stat st;

    return in->n_next > 1 ||
           (in->n_next == 1 && !fstat(in->next[0].fd, &st) && st.st_size > 0);
}

static void
go_to_next(struct line_input *in)
{
    close(in->now.fd);
    in->now = in->next[0];
    in->n_next--;
    memmove(in->next, in->next + 1, in->n_next * sizeof(in->next[0]));
    in->offset = in->line = 0;
    in->start = in->last = in->size = 0;
    in->is_ended = false;
    digest_sha256(&in->tail, SLICE(""));
}

/* Reading */

static bool
check_tail(struct line_input *in, struct problem *why)
{
    uint64_t offset = in->offset + in->size;
    struct digest digest;

    if (read_tail(in->now.fd, offset, &digest) &&
        !memcmp(&digest, &in->tail, sizeof(digest)))
        return true;
    problem(why, STATUS_IO,
            "%s was truncated or changed before byte %" PRIu64
            ", up to which it was read: lines may be lost; rotate it by "
            "renaming",
            in->path, offset);
    return false;
}

/* Reads into the rest of the buffer: the number of bytes, 0 at the end, -1 with
 * EAGAIN if a pipe has none now. Others may share the pipe: it stays blocking.
 */
static ssize_t
read_more(struct line_input *in)
{
    struct pollfd pipe = {.fd = in->now.fd, .events = POLLIN};
    size_t room = LINE_INPUT_MAX - in->size;
    char *to = in->bytes + in->size;
    ssize_t n;

    if (!in->is_file && poll(&pipe, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    do
        n = in->is_file
                ? pread(in->now.fd, to, room, (off_t)(in->offset + in->size))
                : read(in->now.fd, to, room);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        in->size += (size_t)n;
        if (in->is_file)
            read_tail(in->now.fd, in->offset + in->size, &in->tail);
    }
    return n;
}

/* Moves the line that has no end yet to the front. */
static void
drop_taken(struct line_input *in)
{
    memmove(in->bytes, in->bytes + in->start, in->size - in->start);
    in->offset += in->start;
    in->size -= in->start;
    in->start = in->last = 0;
}

enum line_input_state
line_input_fill(struct line_input *in, struct problem *why)
{
    bool was_left;
    ssize_t n;

    drop_taken(in);
    if (in->is_ended && in->is_file)
        go_to_next(in); /* its last line was taken */
    else if (in->is_ended)
        return LINE_INPUT_ENDED;
    if (in->size == LINE_INPUT_MAX) {
        problem(why, STATUS_INVALID,
                "%s:%" PRIu64 ": the line is longer than %zu bytes", in->path,
                in->line + 1, LINE_INPUT_MAX);
        return LINE_INPUT_FAILED;
    }
    if (!line_input_watch(in, why) || (in->is_file && !check_tail(in, why)))
        return LINE_INPUT_FAILED;

    was_left = is_left(in); /* before the read that finds the end */
    n = read_more(in);
    if (n > 0)
        return LINE_INPUT_FILLED;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return LINE_INPUT_WAITS;
    if (n < 0) {
        problem_errno(why, "cannot read", in->path);
        return LINE_INPUT_FAILED;
    }
    if (in->is_file && !was_left)
        return LINE_INPUT_WAITS;
    in->is_ended = true;
    return LINE_INPUT_FILLED; /* its last line may lack an end */
}

bool
line_input_next(struct line_input *in, struct slice *line, uint64_t *number)
{
    size_t rest = in->size - in->start;
    const char *begin = in->bytes + in->start;
    const char *end = memchr(begin, '\n', rest);

    if (!end && !(in->is_ended && rest > 0))
        return false;
    *line = (struct slice){begin, end ? (size_t)(end - begin) : rest};
    in->last = in->start;
    in->start += line->size + (end != NULL);
    *number = ++in->line;
    return true;
}

void
line_input_return(struct line_input *in)
{
    in->start = in->last;
    in->line--;
}

size_t
line_input_rest(const struct line_input *in)
{
    return in->size - in->start;
}

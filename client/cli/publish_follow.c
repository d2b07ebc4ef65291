/*
 * publish_follow.c - posts lines as they come, through a spool.
 *
 *     input --lines--> check --> batch --> spool and note --> posts --> broker
 *                        |                (one transaction)     |
 *                        +--> rejects <-------------------------+
 *
 * A line is taken when the spool has it, with the note of its place in the file
 * (struct line_input): so a crash neither loses nor doubles a line of a file. A
 * line of a pipe is safe from then on; before, it is in this process alone. A
 * rejected line is on the disk before the note passes it: a crash in between
 * rejects it again.
 */
#include "client/cli/publish_follow.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/cli/input_check.h"
#include "client/cli/progress.h"
#include "proto/resourcesync/digest.h"

/*
 * Lines of a pipe, or of a file that grows and is rotated.
 *
 *     open_input -------> line_input_fill --> line_input_next ... --+
 *                           ^   |                                   |
 *                           |   +--> LINE_INPUT_WAITS, ..._ENDED    |
 *                           +---------------------------------------+
 *
 * The note of a file says how far its lines were taken, and recognizes it:
 *
 *     DEVICE INODE OFFSET LINE DIGEST      DIGEST: of the 4,096 bytes before
 *                                          OFFSET, or fewer
 *
 * Rotation by renaming: another file gets the name. The input reads the old one
 * to its end once the new one has bytes (then the writer has changed to it),
 * and goes on with the new one. Each file is opened when its name is first
 * seen, so it stays readable if it is renamed or deleted. At the start, the
 * input finds a file that was renamed once by its inode. The input refuses a
 * file that somebody has truncated or changed before OFFSET: nobody knows which
 * lines are lost.
 *
 * A pipe has no note: bytes that were read from it are nowhere else.
 */

/* Longest line. The memory of an input. */
#define LINE_INPUT_MAX ((size_t)1 << 20)

#define LINE_INPUT_NOTE_SIZE 192

enum line_input_state {
    LINE_INPUT_FILLED, /* there are more bytes */
    LINE_INPUT_WAITS,  /* nothing is there now */
    LINE_INPUT_ENDED,  /* the pipe has ended */
    LINE_INPUT_FAILED  /* `why` says why */
};

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

    if (!file_read_at(fd, bytes, size, offset - size))
        return false;
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
        strcmp(digest_text(&in->tail).text, place->digest) != 0)
        return problem(why, STATUS_IO,
                       "%s was truncated or changed before byte %" PRIu64
                       ", up to which it was read: rotate it by renaming; "
                       "begin with a new --state",
                       in->path, place->offset);
    in->offset = place->offset;
    in->line = place->line;
    return STATUS_OK;
}

/* `note`: that of spool_batch; "": the file is read from its beginning. */
static enum status
open_path(struct line_input *in, const char *note, struct problem *why)
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
    if (sscanf(note, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %72s",
               &place.device, &place.inode, &place.offset, &place.line,
               place.digest) != 5)
        return problem(why, STATUS_IO, "the note of the spool is unreadable");
    return go_to_place(in, &place, why);
}

static void
line_input_close(struct line_input *in)
{
    if (!in)
        return;
    file_close(&in->now.fd);
    for (size_t i = 0; i < in->n_next; i++)
        close(in->next[i].fd);
    free(in->path);
    free(in);
}

/* Rotation */

/* Looks if the file was rotated; call it also while nothing is read. False:
 * more than 16 times since its lines were taken. */
static bool
line_input_watch(struct line_input *in, struct problem *why)
{
    const struct opened *newest =
        in->n_next ? &in->next[in->n_next - 1] : &in->now;
    struct opened opened;
    struct stat st;

    if (!in->is_file || stat(in->path, &st) || !S_ISREG(st.st_mode) ||
        is_same_file(newest, &st))
        return true;
    if (in->n_next == NEXT_MAX)
        return !problem(why, STATUS_IO,
                        "%s was rotated more than %d times meanwhile", in->path,
                        NEXT_MAX);
    if (open_file(&opened, in->path, O_RDONLY))
        in->next[in->n_next++] = opened;
    else
        file_close(&opened.fd);
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

/* Reading */

static bool
check_tail(struct line_input *in, struct problem *why)
{
    uint64_t offset = in->offset + in->size;
    struct digest digest;

    if (read_tail(in->now.fd, offset, &digest) &&
        !memcmp(&digest, &in->tail, sizeof(digest)))
        return true;
    return !problem(
        why, STATUS_IO,
        "%s was truncated or changed before byte %" PRIu64
        ", up to which it was read: lines may be lost; rotate it by "
        "renaming",
        in->path, offset);
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

/* Reads once, without waiting. All lines were taken before. */
static enum line_input_state
line_input_fill(struct line_input *in, struct problem *why)
{
    bool was_left;
    ssize_t n;

    /* Moves the line that has no end yet to the front. */
    memmove(in->bytes, in->bytes + in->start, in->size - in->start);
    in->offset += in->start;
    in->size -= in->start;
    in->start = in->last = 0;
    if (in->is_ended && !in->is_file)
        return LINE_INPUT_ENDED;
    if (in->is_ended) { /* the last line was taken: goes to the next file */
        close(in->now.fd);
        in->now = in->next[0];
        in->n_next--;
        memmove(in->next, in->next + 1, in->n_next * sizeof(in->next[0]));
        in->offset = in->line = in->size = 0;
        in->is_ended = false;
        digest_sha256(&in->tail, SLICE(""));
    }
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

/* Takes the next line, without its end; lent until line_input_fill. False:
 * there is no whole line. */
static bool
line_input_next(struct line_input *in, struct slice *line)
{
    size_t rest = in->size - in->start;
    const char *begin = in->bytes + in->start;
    const char *end = memchr(begin, '\n', rest);

    if (!end && !(in->is_ended && rest > 0))
        return false;
    *line = (struct slice){begin, end ? (size_t)(end - begin) : rest};
    in->last = in->start;
    in->start += line->size + (end != NULL);
    in->line++;
    return true;
}

/* Most lines and bytes of a transaction of the spool. */
#define BATCH_CHANGES 1000
#define BATCH_BYTES   LINE_INPUT_MAX

/* The spool has room for lines that were read before it was full: an input's
 * buffer, which --ignore-unknown may write with more escapes. */
#define SPOOL_MARGIN (8 * LINE_INPUT_MAX)

/* A file has no descriptor to wait for. */
#define FILE_PAUSE_MS 200

/* Pause after a failure of the spool, such as a full disk. */
#define SPOOL_PAUSE_MS 1000

struct batch {
    struct buf text; /* the changes, one after the other */
    size_t n;
    size_t sizes[BATCH_CHANGES];
    bool has_lines; /* lines were taken, if only empty or rejected ones */
};

struct follow {
    const struct follow_plan *plan;
    char spool[PATH_MAX];
    struct td_client *client;
    struct td_publisher *publisher; /* NULL: closed by on_refused */
    struct line_input *input;
    struct input_check check;
    struct batch batch;
    int rejects; /* -1: none */

    volatile sig_atomic_t n_signals;
    bool has_failed;   /* a message was printed; nothing more is read */
    bool is_full;      /* a message was printed that the spool is */
    char trouble[256]; /* printed last; "": none since a post was durable */
    uint64_t n_posted, n_rejected;
    char position[TD_POSITION_SIZE]; /* of the last durable change; "": none */
};

static void
on_signal(void *user)
{
    struct follow *f = user;

    f->n_signals++;
    td_stop(f->client);
}

/* Rejected lines */

/* Writes the line to the file of rejected ones. False: it cannot be written; a
 * message was printed. */
static bool
reject_line(struct follow *f, struct slice line)
{
    char end = '\n';
    struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t)line.data, .iov_len = line.size},
        {.iov_base = &end, .iov_len = 1},
    };

    errno = ENOSPC; /* if it writes a part only */
    if (writev(f->rejects, parts, 2) != (ssize_t)line.size + 1 ||
        fsync(f->rejects))
        return !failed("cannot write %s: %s", f->plan->rejects,
                       strerror(errno));
    f->n_rejected++;
    return true;
}

static void
on_fault(const struct problem *why, void *user)
{
    struct follow *f = user;

    progress_clear();
    fprintf(stderr, "%s:%" PRIu64 ": %s\n", f->plan->input, f->input->line,
            why->text);
}

/* Callbacks of the publisher */

static void
on_durable(uint64_t number, const struct td_receipt *receipt, void *user)
{
    struct follow *f = user;

    (void)number;
    f->n_posted += receipt->last - receipt->first + 1;
    f->trouble[0] = '\0';
    snprintf(f->position, sizeof(f->position), "%s", receipt->position);
}

/* Without --skip-bad the change stays in the spool. */
static void
on_refused(uint64_t number, const char *change, const char *why, void *user)
{
    struct follow *f = user;

    (void)number;
    say("%s: the broker refuses a change: %s: %s", f->plan->input, why,
        problem_quote(slice_of(change)).text);
    if (f->rejects >= 0 && reject_line(f, slice_of(change)))
        return;
    if (f->rejects < 0)
        say("%" PRIu64 " changes wait in %s, this one first: --skip-bad FILE "
            "moves it to FILE",
            td_publisher_waiting(f->publisher, NULL), f->spool);
    f->has_failed = true;
    td_publisher_close(f->publisher);
    f->publisher = NULL;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct follow *f = user;

    if (!f->plan->is_verbose &&
        !strncmp(f->trouble, why, sizeof(f->trouble) - 1))
        return;
    snprintf(f->trouble, sizeof(f->trouble), "%s", why);
    say_trouble(why, pause_ms, NULL);
}

/* Waiting */

/* Waits up to `ms`, or until the input has bytes if `reads`, while the
 * publisher goes on. */
static void
wait_ms(struct follow *f, int ms, bool reads)
{
    const struct line_input *in = f->input;
    struct pollfd ready[] = {
        {.fd = td_fd(f->client), .events = POLLIN},
        {.fd = reads && !in->is_file ? in->now.fd : -1, .events = POLLIN},
    };
    int due_ms = td_timeout_ms(f->client);
    uint64_t n_waiting = td_publisher_waiting(f->publisher, NULL);

    progress_show(&(struct progress_figures){.unit = "changes posted",
                                             .done = f->n_posted,
                                             .all = f->n_posted + n_waiting,
                                             .failed = f->n_rejected});
    if (ms < 0 || (due_ms >= 0 && due_ms < ms))
        ms = due_ms;
    poll(ready, 2, ms);
    (void)td_service(f->client);
}

static bool
is_over(const struct follow *f)
{
    return f->n_signals > 0 || f->has_failed;
}

/* True if lines may be read. Prints when reading stops and goes on. */
static bool
has_room(struct follow *f)
{
    uint64_t bytes;

    td_publisher_waiting(f->publisher, &bytes);
    if (bytes >= f->plan->spool_bytes && !f->is_full) {
        f->is_full = true;
        say("the spool is full: %" PRIu64 " bytes of changes wait; nothing is "
            "read from %s until the broker has some of them",
            bytes, f->plan->input);
    } else if (f->is_full && bytes <= f->plan->spool_bytes / 2) {
        f->is_full = false;
        say("the spool has room again");
    }
    return !f->is_full;
}

/* Lines */

/* Takes lines until the batch is full, there are no more, or one is bad. */
static void
fill_batch(struct follow *f)
{
    struct batch *batch = &f->batch;
    struct slice line;

    buf_clear(&batch->text);
    batch->n = 0;
    batch->has_lines = false;
    while (batch->n < BATCH_CHANGES && batch->text.size < BATCH_BYTES &&
           line_input_next(f->input, &line)) {
        if (slice_without_spaces(line).size > 0) {
            if (input_check_read(&f->check, line)) {
                struct slice change = f->check.ignores_unknown
                                          ? buf_slice(&f->check.changes)
                                          : line;

                batch->sizes[batch->n++] = change.size;
                buf_add_slice(&batch->text, change);
            } else if (f->rejects < 0 || !reject_line(f, line)) {
                f->input->start = f->input->last;
                f->input->line--;
                f->has_failed = true;
                return;
            }
        }
        batch->has_lines = true;
    }
}

/* Puts the batch into the spool. Repeats while the disk is full, until a signal
 * comes. False: it is not in the spool. */
static bool
spool_batch(struct follow *f)
{
    struct td_change_text changes[BATCH_CHANGES];
    const struct batch *batch = &f->batch;
    const struct line_input *in = f->input;
    uint64_t offset = in->offset + in->start;
    char note[LINE_INPUT_NOTE_SIZE] = ""; /* "" for a pipe */
    struct digest digest;
    size_t at = 0;
    enum td_status rc;

    for (size_t i = 0; i < batch->n; at += batch->sizes[i++])
        changes[i] =
            (struct td_change_text){batch->text.data + at, batch->sizes[i]};
    if (in->is_file && read_tail(in->now.fd, offset, &digest))
        snprintf(note, sizeof(note),
                 "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s",
                 (uint64_t)in->now.device, (uint64_t)in->now.inode, offset,
                 in->line, digest_text(&digest).text);
    if (batch->n == 0 && !note[0])
        return true; /* blank lines of a pipe */
    for (;;) {
        rc = batch->text.failed
                 ? TD_MEMORY
                 : td_publisher_add_all(f->publisher, changes, batch->n,
                                        note[0] ? note : NULL, NULL);
        if (!rc)
            return true;
        say("%s", rc == TD_MEMORY ? NO_MEMORY : td_problem(f->client));
        if (rc != TD_IO || f->n_signals > 0)
            break;
        wait_ms(f, SPOOL_PAUSE_MS, false);
        if (!f->publisher)
            break;
    }
    f->has_failed = true;
    if (!in->is_file)
        say("%zu changes were read from %s and are lost", batch->n,
            f->plan->input);
    return false;
}

/* Spools all whole lines that were read. */
static void
take_lines(struct follow *f)
{
    while (!f->has_failed) {
        fill_batch(f);
        if (!f->batch.has_lines || !spool_batch(f))
            return;
    }
}

/* Reads, and waits if there is nothing, until the input has ended. */
static void
follow_input(struct follow *f)
{
    struct problem why = {""};
    bool has_ended = false;

    while (!has_ended) {
        take_lines(f);
        while (!is_over(f) && !has_room(f)) {
            wait_ms(f, SPOOL_PAUSE_MS, false);
            f->has_failed |= !line_input_watch(f->input, &why);
        }
        if (is_over(f))
            break;
        switch (line_input_fill(f->input, &why)) {
        case LINE_INPUT_FILLED:
            (void)td_service(f->client);
            break;
        case LINE_INPUT_WAITS:
            wait_ms(f, f->input->is_file ? FILE_PAUSE_MS : -1, true);
            break;
        case LINE_INPUT_FAILED:
            f->has_failed = true;
            break;
        case LINE_INPUT_ENDED:
            has_ended = true;
        }
    }
    if (why.rc)
        say("%s", why.text);
    if (!f->has_failed)
        take_lines(f); /* a signal came behind the last read */
}

/* Prints what is left; the exit code. */
static enum exit_code
conclude(struct follow *f)
{
    uint64_t n_left =
        f->publisher ? td_publisher_waiting(f->publisher, NULL) : 0;
    const struct line_input *in = f->input;
    size_t rest = in->is_file ? 0 : in->size - in->start;

    progress_clear();
    print_values(false, "posted:n rejected:n position:t", f->n_posted,
                 f->n_rejected, f->position);
    if (n_left > 0)
        say("%" PRIu64 " changes wait in %s: the same command posts them",
            n_left, f->spool);
    if (rest > 0)
        say("%zu bytes that were read from %s are lost", rest, f->plan->input);
    return f->has_failed || n_left > 0 || rest > 0 ? EXIT_FAILED : EXIT_GOOD;
}

static enum exit_code
open_publisher(struct follow *f)
{
    const struct td_publisher_options how = {
        .spool = f->spool,
        .spool_bytes = (size_t)f->plan->spool_bytes + SPOOL_MARGIN,
        .on_durable = on_durable,
        .on_refused = on_refused,
        .on_trouble = on_trouble,
        .user = f,
    };
    struct stat st;
    bool is_dir = !stat(f->plan->state, &st) && S_ISDIR(st.st_mode);

    if (snprintf(f->spool, sizeof(f->spool), is_dir ? "%s/spool" : "%s",
                 f->plan->state) >= (int)sizeof(f->spool))
        return bad_usage("--state is too long");
    return exit_of(f->client, td_publisher_open(f->client, f->plan->set_url,
                                                &how, &f->publisher));
}

static enum exit_code
open_input(struct follow *f)
{
    struct problem why = {""};
    struct line_input *in;

    if (f->plan->rejects) {
        f->rejects = open(f->plan->rejects,
                          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (f->rejects < 0)
            return failed("cannot write %s: %s", f->plan->rejects,
                          strerror(errno));
    }
    if (!input_check_open(&f->check, "application/x-ndjson"))
        return failed(NO_MEMORY);
    in = malloc(sizeof(*in));
    if (!in)
        return failed(NO_MEMORY);
    f->input = in;
    memset(in, 0, offsetof(struct line_input, bytes));
    in->now.fd = -1;
    in->path = strdup(f->plan->input);
    digest_sha256(&in->tail, SLICE(""));
    if (!in->path)
        return failed(NO_MEMORY);
    return open_path(in, td_publisher_note(f->publisher), &why)
               ? failed("%s", why.text)
               : EXIT_GOOD;
}

enum exit_code
publish_follow(const struct arguments *arguments,
               const struct follow_plan *plan)
{
    struct follow f = {
        .plan = plan,
        .check = {.on_fault = on_fault,
                  .ignores_unknown = plan->ignores_unknown},
        .rejects = -1,
    };
    enum exit_code code;
    int n_enough; /* signals that end the waiting */
    int64_t end_ms, left_ms;

    f.check.user = &f;
    buf_init(&f.batch.text, 8 * BATCH_BYTES + SPOOL_MARGIN);
    f.client = open_client(arguments, plan->set_url, NULL, &code);
    if (!f.client)
        return code;
    code = open_publisher(&f);
    if (!code)
        code = open_input(&f);
    if (!code) {
        signals_begin(on_signal, &f);
        follow_input(&f);
        /* Waits until all changes are durable, for plan->drain_ms or until a
         * signal behind the one that ended the reading. */
        end_ms = clock_steady_ms() + plan->drain_ms;
        n_enough = f.n_signals > 0 ? 2 : 1;
        while (f.publisher && td_publisher_waiting(f.publisher, NULL) > 0 &&
               f.n_signals < n_enough &&
               (left_ms = end_ms - clock_steady_ms()) > 0)
            wait_ms(&f, (int)left_ms, false);
        signals_end();
        code = conclude(&f);
    }
    line_input_close(f.input);
    input_check_close(&f.check);
    buf_fini(&f.batch.text);
    file_close(&f.rejects);
    td_publisher_close(f.publisher);
    td_close(f.client);
    return code;
}

#include "broker/base/access_log.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "broker/base/diag.h"
#include "broker/base/log_line.h"
#include "broker/base/metrics.h"
#include "proto/http/network_address.h"

/* How long the thread gathers lines before it looks again. */
#define GATHER_US 5000

/* How long it waits for room before it looks whether it should leave the file;
 * and how often it still does then. */
#define ROOM_MS     100
#define LEAVE_TRIES 10

/* How long the main thread waits for the change of files: more than the tries
 * take. A file system that hangs must not hold it up. */
#define CHANGE_US 3000000

/* The most bytes of one write, and of one that finds room for sure if the file
 * has any (PIPE_BUF). */
#define BATCH_MAX  ((size_t)65536)
#define ATOMIC_MAX ((size_t)4096)

enum { TEXTS = 5 };

/* The most bytes of each text in a record: id, name, path, query, agent. With
 * escapes the line may cut it again. */
static const size_t text_max[TEXTS] = {64, 200, 600, 400, 200};

/* An entry in a ring, and its texts behind it. The sizes of all records are
 * multiples of 8. */
struct record {
    uint32_t size; /* with its texts; 0: go on at the beginning */
    struct access_entry entry;
    char texts[];
};

/* Positions count bytes for ever; modulo the size they are places. A thread
 * stores its position with release, after the bytes: the other thread loads the
 * position, and then finds the bytes. */
struct ring {
    char *bytes;                          /* NULL: not made */
    _Alignas(64) _Atomic(uint64_t) added; /* the service thread's */
    _Atomic(uint64_t) n_dropped;          /* relaxed: a count */
    _Alignas(64) _Atomic(uint64_t) taken; /* the thread's */
};

struct access_log {
    unsigned n_rings;
    bool has_thread;
    struct thread thread;

    /* Release: a service thread that sees `true` also sees its ring. */
    atomic_bool is_on;
    atomic_bool is_asleep; /* the thread waits to be woken */
    atomic_bool is_ending;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* is_taken */
    bool has_next;          /* `next_fd` is for the thread */
    bool is_taken;          /* the thread has gone on with it */
    int next_fd;

    /* The thread's */
    int fd;        /* -1: none */
    bool can_wait; /* a write to it may have to wait for a reader */
    bool is_socket;
    bool is_torn; /* the last line was written in part */
    bool is_failing;
    bool is_changing; /* the old file gets its last lines */
    unsigned n_tries; /* for room, since it should be left */
    uint64_t n_dropped_seen;
    size_t size, n_lines; /* in `batch` */
    char batch[BATCH_MAX];

    struct ring rings[];
};

/* Addresses */

void
client_address_set(struct client_address *client,
                   const struct sockaddr *address, uid_t uid)
{
    memset(client, 0, sizeof(*client));
    client->family = address->sa_family;
    if (address->sa_family == AF_UNIX) {
        memcpy(client->address, &uid, sizeof(uid));
    } else if (address_bytes(address, client->address) &&
               address_is_mapped(client->address)) {
        client->family = AF_INET;
        memmove(client->address, client->address + 12, 4);
    }
}

void
client_address_write(const struct client_address *client,
                     char to[CLIENT_ADDRESS_TEXT_SIZE])
{
    uid_t uid;

    to[0] = '\0';
    if (client->family == AF_UNIX) {
        memcpy(&uid, client->address, sizeof(uid));
        snprintf(to, CLIENT_ADDRESS_TEXT_SIZE, "uid:%u", (unsigned)uid);
    } else if (client->family == AF_INET || client->family == AF_INET6) {
        (void)inet_ntop(client->family, client->address, to,
                        CLIENT_ADDRESS_TEXT_SIZE);
    }
}

/* The file */

enum status
access_log_check(const char *path, struct problem *why)
{
    const char *slash = strrchr(path, '/');
    char dir[4096] = ".";
    struct stat info;

    if (!*path || !strcmp(path, "-"))
        return STATUS_OK;
    if (!stat(path, &info)) {
        errno = S_ISDIR(info.st_mode) ? EISDIR : 0;
        if (!errno && !access(path, W_OK))
            return STATUS_OK;
    } else if (errno == ENOENT) {
        if (slash)
            snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path + 1), path);
        if (!access(dir, W_OK | X_OK))
            return STATUS_OK;
    }
    problem_errno(why, "--access-log: cannot write", path);
    return STATUS_INVALID;
}

/* Dropping */

static void
report_drops(uint64_t n, const char *reason)
{
    metrics_add(METRIC_ACCESS_DROPPED, (int64_t)n);
    DIAG(DIAG_WARNING, "access", "lines of the access log are dropped",
         diag_number("lines", n), diag_text("reason", reason));
}

static void
report_full_rings(struct access_log *log)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < log->n_rings; i++)
        n += load_relaxed(&log->rings[i].n_dropped);
    if (n == log->n_dropped_seen)
        return;
    report_drops(n - log->n_dropped_seen, "its file is too slow");
    log->n_dropped_seen = n;
}

/* Writing */

/* Waits until the file has room. False: the thread should leave it, and there
 * was no room for a second. */
static bool
await_room(struct access_log *log)
{
    struct pollfd room = {.fd = log->fd, .events = POLLOUT};
    bool should_leave; /* at the end, or for another file */

    while (!poll(&room, 1, log->n_tries < LEAVE_TRIES ? ROOM_MS : 0)) {
        report_full_rings(log);
        pthread_mutex_lock(&log->mutex);
        should_leave = log->has_next;
        pthread_mutex_unlock(&log->mutex);
        should_leave |= log->is_changing || atomic_load(&log->is_ending);
        if (should_leave && ++log->n_tries >= LEAVE_TRIES)
            return false;
    }
    return true;
}

/* False: errno says why; 0: there is no room. */
static bool
write_whole(struct access_log *log, struct slice bytes)
{
    while (bytes.size > 0) {
        ssize_t n;

        errno = 0;
        if (log->can_wait && !await_room(log))
            return false;
        if (log->can_wait && bytes.size > ATOMIC_MAX)
            bytes.size = ATOMIC_MAX;
        n = log->is_socket ? send(log->fd, bytes.data, bytes.size,
                                  MSG_DONTWAIT | MSG_NOSIGNAL)
                           : write(log->fd, bytes.data, bytes.size);
        if (n < 0 && errno == EAGAIN)
            poll(NULL, 0, 1); /* room for less than this write */
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return false;
        slice_skip(&bytes, n);
        log->is_torn = bytes.data[-1] != '\n';
    }
    return true;
}

/* Writes the batch, or drops it. A line that was written in part gets its end
 * before the next one. */
static void
flush_batch(struct access_log *log)
{
    bool is_written;

    if (!log->size)
        return;
    is_written = (!log->is_torn || write_whole(log, SLICE("\n"))) &&
                 write_whole(log, (struct slice){log->batch, log->size});
    if (!is_written)
        report_drops(log->n_lines,
                     errno ? strerror(errno) : "its file has no room");
    else if (log->is_failing)
        diag(DIAG_INFO, "access", "the access log is written again");
    log->is_failing = !is_written;
    log->size = log->n_lines = 0;
}

static void
add_optional(struct log_line *line, const char *name, struct slice text)
{
    if (text.size)
        log_line_text(line, name, text);
}

/* time=... id=... client=192.0.2.1 token=press method=GET route=/sets/{set}
 * status=200 in=0 out=512 duration=0.000321 complete=true path=/sets/news
 * agent=curl/8.0 */
static void
write_entry(struct access_log *log, const struct access_entry *e)
{
    char client[CLIENT_ADDRESS_TEXT_SIZE];
    struct log_line line;
    struct slice whole;

    client_address_write(&e->client, client);
    log_line_begin(&line, e->time_us);
    add_optional(&line, "id", e->id);
    add_optional(&line, "client", slice_of(client));
    add_optional(&line, "token", e->name);
    add_optional(&line, "method", slice_of(e->method ? e->method : ""));
    add_optional(&line, "route", slice_of(e->pattern ? e->pattern : ""));
    log_line_number(&line, "status", e->status);
    log_line_number(&line, "in", e->received_bytes);
    log_line_number(&line, "out", e->sent_bytes);
    log_line_seconds(&line, "duration", e->duration_us);
    if (e->is_stream)
        log_line_number(&line, "messages", e->n_messages);
    else
        log_line_flag(&line, "complete", e->is_whole);
    add_optional(&line, "path", e->path);
    add_optional(&line, "query", e->query);
    add_optional(&line, "agent", e->agent);
    whole = log_line_end(&line);

    if (log->size + whole.size > (log->can_wait ? ATOMIC_MAX : BATCH_MAX))
        flush_batch(log);
    memcpy(log->batch + log->size, whole.data, whole.size);
    log->size += whole.size;
    log->n_lines++;
}

/* Rings */

/* Writes all that was added before. False: nothing was. */
static bool
drain_rings(struct access_log *log)
{
    bool is_any = false;

    for (unsigned i = 0; i < log->n_rings; i++) {
        struct ring *ring = &log->rings[i];
        uint64_t end = atomic_load_explicit(&ring->added, memory_order_acquire);
        uint64_t taken = load_relaxed(&ring->taken);

        is_any |= taken < end;
        while (taken < end) {
            size_t at = taken % ACCESS_RING_SIZE;
            const struct record *r = (const void *)(ring->bytes + at);

            if (r->size && log->fd >= 0)
                write_entry(log, &r->entry);
            taken += r->size ? r->size : ACCESS_RING_SIZE - at;
            atomic_store_explicit(&ring->taken, taken, memory_order_release);
        }
    }
    flush_batch(log);
    report_full_rings(log);
    return is_any;
}

/* Goes on with the file that the main thread has given, if it has. */
static void
change_file(struct access_log *log)
{
    struct stat info;
    bool is_given;
    int fd;

    pthread_mutex_lock(&log->mutex);
    is_given = log->has_next;
    fd = log->next_fd;
    log->has_next = false;
    pthread_mutex_unlock(&log->mutex);
    if (!is_given)
        return;
    log->is_changing = true;
    if (log->fd >= 0) /* else the first lines are for the new one */
        (void)drain_rings(log);
    log->is_changing = false;
    log->n_tries = 0;
    file_close(&log->fd);
    log->fd = fd;
    pthread_mutex_lock(&log->mutex);
    log->is_taken = true;
    pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->mutex);
    log->is_torn = log->is_failing = false;
    log->can_wait = fd >= 0 && (fstat(fd, &info) || !S_ISREG(info.st_mode));
    log->is_socket = log->can_wait && S_ISSOCK(info.st_mode);
}

/* Sleeps until a line is added, or another file is given: not with either at
 * hand. False: the thread must end. */
static bool
sleep_idle(struct access_log *log)
{
    atomic_store(&log->is_asleep, true);
    for (unsigned i = 0; i < log->n_rings; i++)
        if (atomic_load(&log->rings[i].added) !=
            load_relaxed(&log->rings[i].taken)) {
            atomic_store(&log->is_asleep, false);
            return thread_wait(&log->thread, 0);
        }
    return thread_wait(&log->thread, -1);
}

static void
write_lines(struct thread *thread)
{
    struct access_log *log = thread->user;
    bool goes_on = true;

    thread_lower_priority();
    while (goes_on) {
        change_file(log);
        goes_on =
            drain_rings(log) ? thread_wait(thread, GATHER_US) : sleep_idle(log);
    }
    change_file(log);
    (void)drain_rings(log);
}

/* The next place for `size` bytes; NULL: the ring is full. *end is the position
 * behind them. */
static char *
find_place(struct ring *ring, size_t size, uint64_t *end)
{
    uint64_t added = load_relaxed(&ring->added);
    uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
    size_t at = added % ACCESS_RING_SIZE, rest = ACCESS_RING_SIZE - at;
    bool is_short = rest < size;

    *end = added + size + (is_short ? rest : 0);
    if (*end - taken > ACCESS_RING_SIZE)
        return NULL;
    if (!is_short)
        return ring->bytes + at;
    memset(ring->bytes + at, 0, sizeof(uint32_t)); /* go on at the beginning */
    return ring->bytes;
}

void
access_log_add(struct access_log *log, unsigned thread,
               const struct access_entry *e)
{
    struct access_entry kept = *e;
    struct slice *const texts[TEXTS] = {&kept.id, &kept.name, &kept.path,
                                        &kept.query, &kept.agent};
    struct ring *ring = &log->rings[thread];
    size_t size = sizeof(struct record);
    struct record *r;
    char *to;
    uint64_t end;

    for (size_t i = 0; i < TEXTS; i++)
        size += texts[i]->size < text_max[i] ? texts[i]->size : text_max[i];
    size = (size + 7) & ~(size_t)7;
    r = (void *)find_place(ring, size, &end);
    if (!r) {
        add_relaxed(&ring->n_dropped, 1);
        return;
    }
    to = r->texts;
    for (size_t i = 0; i < TEXTS; i++) {
        bool is_cut = texts[i]->size > text_max[i];

        if (is_cut)
            texts[i]->size = text_max[i];
        if (texts[i]->size > 0)
            memcpy(to, texts[i]->data, texts[i]->size);
        texts[i]->data = to;
        to += texts[i]->size;
        if (is_cut)
            memcpy(to - 3, "...", 3);
    }
    r->size = (uint32_t)size;
    r->entry = kept;

    /* Sequentially consistent with sleep_idle: one of the two threads sees what
     * the other has stored, so no line waits for the next one. */
    atomic_store(&ring->added, end);
    if (atomic_load(&log->is_asleep) && atomic_exchange(&log->is_asleep, false))
        thread_wake(&log->thread);
}

bool
access_log_is_on(const struct access_log *log)
{
    return log && atomic_load_explicit(&log->is_on, memory_order_acquire);
}

/* Life */

struct access_log *
access_log_new(unsigned n_threads)
{
    size_t size = sizeof(struct access_log) + n_threads * sizeof(struct ring);
    struct access_log *log = memory_got(aligned_alloc(64, size), size);

    memset(log, 0, size);
    log->n_rings = n_threads;
    log->fd = log->next_fd = -1;
    thread_init_changed(&log->changed);
    pthread_mutex_init(&log->mutex, NULL);
    return log;
}

enum status
access_log_open(struct access_log *log, const char *path, int *fd,
                struct problem *why)
{
    enum status rc = STATUS_OK;

    *fd = -1;
    if (!*path)
        return STATUS_OK;
    for (unsigned i = 0; i < log->n_rings; i++)
        if (!log->rings[i].bytes &&
            !(log->rings[i].bytes = memory_room(ACCESS_RING_SIZE)))
            return problem_memory(why);
    if (!log->has_thread)
        rc = thread_start(&log->thread, "access-log", write_lines, log, why);
    log->has_thread = !rc;
    if (rc)
        return rc;
    if (!strcmp(path, "-"))
        *fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    else
        *fd = open(path,
                   O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
                       O_NONBLOCK,
                   0600);
    if (*fd >= 0)
        return STATUS_OK;
    problem_errno(why, "--access-log: cannot open", path);
    return STATUS_INVALID;
}

void
access_log_use(struct access_log *log, int fd)
{
    struct timespec end;
    int64_t end_us;
    int unused;

    if (!log->has_thread)
        return; /* there was never a file, and is none */
    atomic_store_explicit(&log->is_on, fd >= 0, memory_order_release);
    pthread_mutex_lock(&log->mutex);
    unused = log->has_next ? log->next_fd : -1;
    log->next_fd = fd;
    log->has_next = true;
    log->is_taken = false;
    pthread_mutex_unlock(&log->mutex);
    file_close(&unused);
    thread_wake(&log->thread);
    end_us = clock_steady_us() + CHANGE_US;
    end = (struct timespec){end_us / 1000000, end_us % 1000000 * 1000};
    pthread_mutex_lock(&log->mutex);
    while (!log->is_taken &&
           !pthread_cond_timedwait(&log->changed, &log->mutex, &end))
        continue;
    pthread_mutex_unlock(&log->mutex);
}

void
access_log_free(struct access_log *log)
{
    if (!log)
        return;
    atomic_store(&log->is_ending, true);
    if (log->has_thread)
        thread_stop(&log->thread);
    file_close(&log->fd);
    if (log->has_next)
        file_close(&log->next_fd);
    for (unsigned i = 0; i < log->n_rings; i++)
        free(log->rings[i].bytes);
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

#include "broker/bucket/vault.h"

#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/thread.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/bucket/bucket.h"

/* Between two looks at all files: a part of the time that they stay. */
#define ROUND_MIN_US ((int64_t)1000000)
#define ROUND_MAX_US ((int64_t)600000000)

/* After rounds that failed. */
static const struct backoff failed_rounds = {2 * ROUND_MIN_US, 60000000};

/* After the bucket did not answer, readers do not ask it for so long, and posts
 * bring it no content. */
#define PAUSE_US     ((int64_t)30000000)
#define PUT_PAUSE_US ((int64_t)5000000)

#define READERS_MAX 2

/* A reader waits less for a silent bucket than who stores does. */
#define READ_STALL_US ((int64_t)3000000)

/* More go up in parts. */
#define PART_BYTES ((uint64_t)64 << 20)

/* Characters of the name of a stub of content. */
#define CONTENT_STUB_SIZE (BUCKET_KEY_SIZE - 1 + strlen(VAULT_STUB))

/* Content that no set has stays so long in the bucket. */
#define LOOSE_US ((int64_t)86400 * 1000000)

/* A file that has been written for longer was begun by a process that died. */
#define WRITING_US ((int64_t)3600000000)

/* Requests of other threads, one at a time. */
struct channel {
    pthread_mutex_t mutex; /* guards the rest */
    struct bucket *bucket;
    int64_t again_us; /* not before */
};

struct vault {
    struct vault_options options;
    struct thread thread;
    struct bucket *own;       /* the thread's */
    _Atomic(uint64_t) copies; /* bytes of them, at its last look, and of those
                                 fetched since. Relaxed: a figure */
    unsigned n_failed;        /* its last rounds, in a row */
    bool is_tried;            /* the bucket took and returned an object */

    pthread_mutex_t mutex; /* guards the rest */
    struct problem why;    /* how the bucket has failed last; "": it has not */

    /* Sweeping, of a broker that keeps content; the thread's. */
    struct streams *streams;
    struct lease lease;
    int loose_fd;     /* DATA/loose; other threads, too */
    uint64_t end;     /* the last record here at the round before */
    int64_t since_us; /* from then on all brokers had it, each time */
    bool has_all;     /* the walk has met all stubs */

    atomic_bool is_stopping; /* relaxed: a late look costs a second */
    atomic_uint n_readers;   /* relaxed: a count */
    struct channel reads, puts;
};

/* Set before other threads begin, and until they have ended. */
static struct vault *the;

bool
vault_keeps_content(void)
{
    return the && the->options.keeps_content;
}

void
vault_loosen(const char *stub)
{
    int fd;

    if (!vault_keeps_content())
        return;
    fd = openat(the->loose_fd, stub, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    metrics_add(METRIC_BUCKET_FAILED, fd < 0 || futimens(fd, NULL));
    file_close(&fd);
}

static bool
is_full(const struct vault *v)
{
    return load_relaxed(&v->copies) > v->options.cache_bytes;
}

/* There is one more copy. */
static void
note_copy(uint64_t size)
{
    add_relaxed(&the->copies, size);
    if (the->options.data && is_full(the))
        thread_wake(&the->thread);
}

/* Notes what vault_warn says. */
static void
note_failure(enum status rc, const struct problem *why)
{
    if (rc == STATUS_BUSY || rc == STATUS_STOPPED)
        return;
    pthread_mutex_lock(&the->mutex);
    the->why = rc ? *why : (struct problem){""};
    pthread_mutex_unlock(&the->mutex);
}

/* Stubs */

struct stub {
    char key[sizeof(BUCKET_CONTENT) + BUCKET_KEY_SIZE];
    uint64_t size;
};

/* A file of content has its digest as its name. */
static bool
is_content(const char *name)
{
    return strlen(name) == BUCKET_KEY_SIZE - 1;
}

static bool
read_stub(int dir_fd, const char *name, struct stub *stub)
{
    char text[100] = "";

    if (file_read(dir_fd, file_path("%s" VAULT_STUB, name).text, text,
                  sizeof(text) - 1) <= BUCKET_KEY_SIZE)
        text[0] = '\0';
    return sscanf(text, "%72[a-z0-9/] %" SCNu64, stub->key, &stub->size) == 2;
}

static enum status
write_stub(int dir_fd, const char *name, const struct stub *stub,
           struct problem *why)
{
    char text[100];

    snprintf(text, sizeof(text), "%s %" PRIu64, stub->key, stub->size);
    return file_store(dir_fd, file_path("%s" VAULT_STUB, name).text, text, why);
}

/* Gives the stub the time of its file, or back: documents have tags of it. */
static void
copy_time(int dir_fd, const char *name, bool is_back)
{
    struct file_path stub = file_path("%s" VAULT_STUB, name);
    struct stat st;

    if (!fstatat(dir_fd, is_back ? stub.text : name, &st, 0))
        (void)!utimensat(dir_fd, is_back ? name : stub.text,
                         (struct timespec[]){st.st_atim, st.st_mtim}, 0);
}

uint64_t
vault_size(int dir_fd, const char *name)
{
    struct stub stub;

    return read_stub(dir_fd, name, &stub) ? stub.size : 0;
}

/* Other threads */

enum request { FETCH, FIND, DELETE, PUT };

/* Makes a request for the object of a stub; one at a time. `fd`: of what is
 * put. */
static enum status
ask(enum request request, int dir_fd, const char *name, const struct stub *stub,
    int fd, struct problem *why)
{
    struct channel *c = request == PUT ? &the->puts : the ? &the->reads : NULL;
    struct file_new file;
    enum status rc = STATUS_OK;

    if (!c)
        return problem(why, STATUS_BUSY,
                       "its bytes are in a bucket, and --archive is not given");
    pthread_mutex_lock(&c->mutex);
    if (clock_steady_us() < c->again_us)
        rc = problem(why, STATUS_BUSY, "the bucket does not answer");
    else if (request == FIND)
        rc = bucket_find(c->bucket, stub->key, NULL, why);
    else if (request == DELETE)
        rc = bucket_delete(c->bucket, stub->key, why);
    else if (request == PUT)
        rc = bucket_put(c->bucket, stub->key, fd, stub->size, why);
    else if (faccessat(dir_fd, name, F_OK, 0)) /* nobody was faster */
        rc = file_begin(&file, dir_fd, name, why);
    else
        goto out;
    if (!rc && request == FETCH) {
        rc = bucket_get(c->bucket, stub->key, file.fd, stub->size, why);
        if (rc)
            file_abandon(&file);
        else
            rc = file_finish(&file, why);
        if (!rc)
            copy_time(dir_fd, name, true);
        metrics_add(METRIC_BUCKET_FETCHED, !rc);
    }
    if (rc == STATUS_UNREACHABLE || rc == STATUS_REFUSED)
        c->again_us =
            clock_steady_us() + (request == PUT ? PUT_PAUSE_US : PAUSE_US);
    if (rc == STATUS_NOT_FOUND || rc == STATUS_DIFFERENT) {
        metrics_add(METRIC_BUCKET_LOST, 1);
        DIAG(DIAG_ERROR, "bucket", "the bucket has lost a file",
             diag_text("file", name), diag_text("error", why->text));
        rc = STATUS_DIFFERENT;
    }
    metrics_add(METRIC_BUCKET_FAILED, rc && rc != STATUS_BUSY);
    if (request == PUT)
        note_failure(rc, why);

out:
    pthread_mutex_unlock(&c->mutex);
    return rc;
}

enum status
vault_file(int dir_fd, const char *name, int *fd, struct problem *why)
{
    struct problem reason = {""};
    struct stub stub;
    enum status rc;

    *fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (*fd >= 0)
        return STATUS_OK;
    if (errno != ENOENT || !read_stub(dir_fd, name, &stub)) {
        rc = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
        (void)problem_errno(why, "cannot read", name);
        return rc;
    }
    if (the && add_relaxed(&the->n_readers, 1) >= READERS_MAX)
        rc = problem(&reason, STATUS_BUSY, "others are fetched");
    else
        rc = ask(FETCH, dir_fd, name, &stub, -1, &reason);
    if (the)
        subtract_relaxed(&the->n_readers, 1);
    if (!rc)
        *fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (!rc && *fd >= 0) {
        note_copy(stub.size);
        return STATUS_OK;
    }
    return problem(why, STATUS_BUSY, "%s cannot be fetched now: %s", name,
                   reason.text);
}

enum status
vault_find(int dir_fd, const char *name, struct problem *why)
{
    struct stub stub;
    enum status rc;

    if (!read_stub(dir_fd, name, &stub))
        return STATUS_NOT_FOUND;
    rc = ask(FIND, dir_fd, name, &stub, -1, why);
    return rc ? problem_prefix(why, rc,
                               "the bucket has lost it, or does not answer: ")
              : STATUS_OK;
}

enum status
vault_delete(int dir_fd, const char *name, struct problem *why)
{
    struct file_path path = file_path("%s" VAULT_STUB, name);
    struct stub stub;
    enum status rc = STATUS_OK;

    if (!read_stub(dir_fd, name, &stub))
        return STATUS_OK;
    if (the && !is_content(name))
        rc = ask(DELETE, dir_fd, name, &stub, -1, why);
    if (!rc && unlinkat(dir_fd, path.text, 0))
        rc = problem_errno(why, "cannot remove", path.text);
    else if (is_content(name))
        vault_loosen(path.text);
    return rc ? problem_prefix(why, STATUS_IO, "%s: ", name) : STATUS_OK;
}

enum status
vault_clear(int dir_fd, const char *name, size_t *n_files, struct problem *why)
{
    DIR *dir = file_open_dir(dir_fd, name, O_NOFOLLOW);
    const struct dirent *entry;
    char file[256];
    enum status rc = STATUS_OK;

    while (!rc && (entry = file_next(dir))) {
        if (file_type(dirfd(dir), entry) == DT_DIR)
            rc = vault_clear(dirfd(dir), entry->d_name, n_files, why);
        if (!slice_ends(slice_of(entry->d_name), VAULT_STUB))
            continue;
        snprintf(file, strlen(entry->d_name) + 1 - strlen(VAULT_STUB), "%s",
                 entry->d_name);
        rc = vault_delete(dirfd(dir), file, why);
    }
    if (dir)
        closedir(dir);
    return rc ? rc : file_clear(dir_fd, name, n_files, why);
}

/* Content */

enum status
vault_store(int dir_fd, const char *name, uint64_t size, bool is_there,
            struct problem *why)
{
    struct stub stub = {.size = size};
    int fd = -1;
    enum status rc = STATUS_OK;

    if (vault_size(dir_fd, name) > 0)
        return STATUS_OK;
    snprintf(stub.key, sizeof(stub.key), BUCKET_CONTENT "%s", name);
    if (!is_there) {
        fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
        rc = fd < 0 ? problem_errno(why, "cannot open", name)
                    : ask(PUT, dir_fd, name, &stub, fd, why);
        metrics_add(METRIC_BUCKET_STORED, !rc);
        file_close(&fd);
    }
    if (!rc)
        rc = write_stub(dir_fd, name, &stub, why);
    if (!rc && !is_there)
        note_copy(size);
    return rc;
}

/* The thread */

/* Puts a file, which is a copy then. */
static enum status
store(struct vault *v, char *path, struct problem *why)
{
    char *name = strrchr(path, '/');
    struct stub stub = {""};
    int fd = open(path, O_RDONLY | O_CLOEXEC), dir_fd = -1;
    off_t size = lseek(fd, 0, SEEK_END);
    enum status rc = STATUS_OK;

    *name = '\0';
    dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *name++ = '/';
    if (size < 0 || dir_fd < 0)
        rc = problem_errno(why, "cannot open", path);
    stub.size = (uint64_t)size;
    if (!rc)
        rc = bucket_digest(
            fd, 0, stub.size,
            stpcpy(stub.key, is_content(name) ? BUCKET_CONTENT : ""), why);
    if (!rc)
        rc = bucket_put(v->own, stub.key, fd, stub.size, why);
    if (!rc)
        rc = write_stub(dir_fd, name, &stub, why);
    if (!rc)
        copy_time(dir_fd, name, false);
    if (!rc && faccessat(dir_fd, name, F_OK, 0)) /* retention was faster */
        rc = vault_delete(dir_fd, name, why);
    file_close(&fd);
    file_close(&dir_fd);
    metrics_add(METRIC_BUCKET_STORED, !rc);
    return rc;
}

static int
by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* True for a file of lists or dumps, and for a copy of content. */
static bool
is_archived(FTS *tree, FTSENT *at)
{
    struct slice name = slice_of(at->fts_name);

    if (at->fts_info == FTS_D &&
        (slice_ends(name, ".new") || /* a build under way */
         (at->fts_level == 2 && slice_is(name, "content") &&
          !vault_keeps_content())))
        fts_set(tree, at, FTS_SKIP);
    return at->fts_info == FTS_F &&
           (slice_ends(name, ".gz") || slice_ends(name, ".zip") ||
            (is_content(at->fts_name) &&
             vault_size(AT_FDCWD, at->fts_path) > 0));
}

/* Drops what is known to be loose if there is a stub of it. */
static void
note_content(struct vault *v, const FTSENT *at)
{
    v->has_all &= at->fts_errno == 0 || at->fts_errno == ENOENT;
    if (at->fts_namelen == CONTENT_STUB_SIZE &&
        !unlinkat(v->loose_fd, at->fts_name, 0) &&
        faccessat(AT_FDCWD, at->fts_path, F_OK, 0)) /* it has gone meanwhile */
        vault_loosen(at->fts_name);
}

/* Drops a copy, which the bucket has still, or gets again. */
static enum status
drop(struct vault *v, char *path, struct problem *why)
{
    struct stub stub;
    enum status rc = STATUS_OK;

    if (read_stub(AT_FDCWD, path, &stub))
        rc = bucket_find(v->own, stub.key, NULL, why);
    if (rc == STATUS_NOT_FOUND)
        rc = store(v, path, why);
    return !rc && unlink(path) && errno != ENOENT
               ? problem_errno(why, "cannot remove", path)
               : rc;
}

/* True for an old file of lists or dumps that has no stub. */
static bool
is_due(const struct vault *v, const FTSENT *at, int64_t age_us)
{
    return v->options.keeps_lists && vault_size(AT_FDCWD, at->fts_path) == 0 &&
           age_us >= v->options.local_us &&
           (at->fts_level == 3 || age_us > WRITING_US);
}

/* Stores old files. Drops copies if they are larger than the limit, down to
 * three quarters of it: each look at all files makes room for many more. If the
 * bucket has `failed`, before or at a file, it stores none, and drops still. */
static enum status
look_at_files(struct vault *v, enum status failed, struct problem *why)
{
    struct file_path sets = file_path("%s/sets", v->options.data);
    char *roots[] = {sets.text, NULL};
    uint64_t copies = 0, waiting = 0, limit = v->options.cache_bytes;
    uint64_t left = load_relaxed(&v->copies);
    uint64_t least = left > limit ? limit / 4 * 3 : left;
    struct problem of_drop = {""};
    enum status rc = STATUS_OK;
    FTSENT *at;
    FTS *tree;

    v->has_all = v->streams;
    tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    while (tree && failed != STATUS_STOPPED && (at = fts_read(tree))) {
        uint64_t size = (uint64_t)at->fts_statp->st_size;
        int64_t age_us =
            clock_now_us() - at->fts_statp->st_mtime * INT64_C(1000000);

        if (at->fts_info == FTS_F &&
            slice_ends(slice_of(at->fts_name), ".new") && age_us > WRITING_US)
            unlink(at->fts_path);
        note_content(v, at);
        if (!is_archived(tree, at))
            continue;
        if (is_due(v, at, age_us)) {
            if (!failed)
                failed = store(v, at->fts_path, why);
            waiting += failed ? size : 0;
        }
        if (vault_size(AT_FDCWD, at->fts_path) == 0)
            continue;
        copies += size;
        if (rc || left <= least)
            continue;
        rc = drop(v, at->fts_path, failed ? &of_drop : why);
        if (rc)
            continue;
        copies -= size;
        left -= size < left ? size : left;
    }
    if (tree)
        fts_close(tree);
    store_relaxed(&v->copies, copies);
    metrics_set(METRIC_BUCKET_COPIES, (int64_t)copies);
    metrics_set(METRIC_BUCKET_WAITING, (int64_t)waiting);
    return failed ? failed : rc;
}

/* Deletes the object of content that has been loose for long: vault.h. */
static enum status
sweep_object(struct vault *v, const char *name, struct problem *why)
{
    int64_t at_us = 0, old_us = clock_now_us() - LOOSE_US;
    char key[sizeof(BUCKET_CONTENT) + BUCKET_KEY_SIZE], going[100];
    struct stat st;
    enum status rc;

    if (fstatat(v->loose_fd, name, &st, 0) ||
        strlen(name) != CONTENT_STUB_SIZE ||
        st.st_mtime * INT64_C(1000000) > old_us)
        return STATUS_OK;
    snprintf(key, sizeof(key), BUCKET_CONTENT "%.64s", name);
    snprintf(going, sizeof(going), "%s" BUCKET_GOING, key);
    rc = bucket_find(v->own, key, &at_us, why);
    if (!rc && (at_us >= old_us || /* stored anew; or another broker does it */
                v->streams->ops->hold(v->streams, &v->lease, why)))
        return STATUS_OK;
    if (!rc)
        rc = bucket_mark(v->own, going, why);
    if (!rc)
        rc = bucket_find(v->own, key, &at_us, why);
    if (!rc && at_us < old_us) {
        rc = bucket_delete(v->own, key, why);
        metrics_add(METRIC_BUCKET_SWEPT, !rc);
        if (!rc)
            DIAG(DIAG_INFO, "bucket", "content that no set has is deleted",
                 diag_text("key", key));
    }
    if (!rc || rc == STATUS_NOT_FOUND)
        rc = bucket_delete(v->own, going, why);
    if (!rc && at_us < old_us)
        unlinkat(v->loose_fd, name, 0); /* else again, and in vain */
    return rc;
}

/* Sweeps when for some rounds all brokers had what this one had a round before,
 * and had the time to fold it. */
static enum status
sweep_content(struct vault *v, int64_t round_us, struct problem *why)
{
    uint64_t n, n_before, least = 0;
    enum ability ability;
    const struct dirent *entry;
    DIR *dir = NULL;
    enum status rc = STATUS_OK;

    if (!v->has_all || !faccessat(v->loose_fd, VAULT_LOST, F_OK, 0))
        return STATUS_OK;
    if (v->streams->ops->brokers(v->streams, &n, &n_before, &least, why) ||
        v->end == 0 || least < v->end)
        v->since_us = clock_steady_us();
    v->end = v->options.seat->place(v->options.seat->user, &ability);
    if (ability == IS_ABLE &&
        clock_steady_us() - v->since_us >= 6 * round_us) /* an hour */
        dir = file_open_dir(v->loose_fd, ".", 0);
    if (dir) /* noticed now if it is forbidden */
        rc = bucket_delete(v->own, BUCKET_CONTENT "-", why);
    while (!rc && (entry = file_next(dir)))
        rc = sweep_object(v, entry->d_name, why);
    if (dir)
        closedir(dir);
    return rc;
}

/* Says and notes the outcome of a round. Returns when the bucket may get files
 * again: after a failure, later each time. */
static int64_t
end_round(struct vault *v, enum status rc, const struct problem *why)
{
    bool has_failed = rc && rc != STATUS_STOPPED;

    note_failure(rc, why); /* before the log says so */
    metrics_add(METRIC_BUCKET_FAILED, has_failed);
    if (has_failed && v->n_failed == 0)
        DIAG(DIAG_WARNING, "bucket",
             "files of the archive stay on the disk until the bucket takes "
             "them",
             diag_text("error", why->text));
    if (!rc && v->n_failed > 0)
        diag(DIAG_WARNING, "bucket", "the bucket takes files again");
    v->n_failed = rc ? v->n_failed + 1 : 0;
    return rc ? clock_steady_us() +
                    backoff_pause(&failed_rounds, v->n_failed, random_u32())
              : 0;
}

/* Tries the bucket with a file in the data directory, where the broker may
 * write: in a container, perhaps nowhere else. */
static enum status
try_bucket(struct vault *v, struct problem *why)
{
    struct file_path path = file_path("%s/bucket.new", v->options.data), seed;
    int fd = open(path.text, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char host[256] = "";
    enum status rc;

    if (fd < 0)
        return problem_errno(why, "cannot make", path.text);
    (void)unlink(path.text);
    (void)!gethostname(host, sizeof(host) - 1);
    seed = file_path("%s:%s", host, v->options.data);
    rc = bucket_try(v->own, seed.text, fd, DIGEST_SIZE, why);
    close(fd);
    return rc;
}

static void
run(struct thread *thread)
{
    struct vault *v = thread->user;
    int64_t round_us = v->options.local_us / 100, again_us = 0, wait_us;

    round_us = round_us < ROUND_MIN_US   ? ROUND_MIN_US
               : round_us > ROUND_MAX_US ? ROUND_MAX_US
                                         : round_us;
    do {
        struct problem why = {""};
        enum status rc = STATUS_OK;

        if (clock_steady_us() < again_us) { /* woken: there are new copies */
            (void)look_at_files(v, STATUS_BUSY, &why);
        } else {
            if (!v->is_tried)
                rc = try_bucket(v, &why);
            v->is_tried = !rc;
            if (rc == STATUS_CONFLICT) /* retention says it, too */
                rc = STATUS_OK;
            rc = look_at_files(v, rc, &why);
            if (!rc)
                rc = sweep_content(v, round_us, &why);
            again_us = end_round(v, rc, &why);
        }
        wait_us = again_us     ? again_us - clock_steady_us()
                  : is_full(v) ? 0
                               : round_us;
    } while (thread_wait(thread, wait_us > 0 ? wait_us : 0));
}

/* Life */

static bool
is_stopping(void *user)
{
    const struct vault *v = user;

    return load_relaxed(&v->is_stopping);
}

enum status
vault_open(const struct vault_options *options, struct problem *why)
{
    struct vault *v = memory_new(1, sizeof(*v));
    struct bucket_options bucket = {.address = options->address,
                                    .credentials = options->credentials,
                                    .part_bytes = PART_BYTES,
                                    .may_overwrite = options->may_overwrite,
                                    .is_stopped = is_stopping,
                                    .user = v};
    struct file_path loose = file_path("%s/loose", options->data);
    enum status rc;

    v->options = *options;
    pthread_mutex_init(&v->reads.mutex, NULL);
    pthread_mutex_init(&v->puts.mutex, NULL);
    pthread_mutex_init(&v->mutex, NULL);
    the = v;
    rc = bucket_open(&v->own, &bucket, why);
    if (!rc)
        rc = bucket_open(&v->puts.bucket, &bucket, why);
    bucket.stall_us = READ_STALL_US;
    if (!rc)
        rc = bucket_open(&v->reads.bucket, &bucket, why);
    if (!rc && options->keeps_content) {
        rc = file_make_dirs(loose.text, why);
        v->loose_fd = open(loose.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        v->streams = options->seat->open_streams(options->seat->user);
        v->lease.name = "sweep";
    }
    if (!rc && options->data)
        rc = thread_start(&v->thread, "bucket", run, v, why);
    if (rc)
        vault_close();
    return rc ? problem_prefix(why, rc, "the bucket: ") : STATUS_OK;
}

void
vault_warn(struct buf *to)
{
    if (!the)
        return;
    pthread_mutex_lock(&the->mutex);
    if (the->why.text[0])
        buf_add_format(to, "warning: the bucket fails: %s\n", the->why.text);
    pthread_mutex_unlock(&the->mutex);
}

void
vault_stop(void)
{
    if (the)
        store_relaxed(&the->is_stopping, true);
}

void
vault_close(void)
{
    struct vault *v = the;

    if (!v)
        return;
    vault_stop();
    thread_stop(&v->thread);
    if (v->streams) {
        v->streams->ops->close(v->streams);
        file_close(&v->loose_fd);
    }
    bucket_close(v->own);
    bucket_close(v->puts.bucket);
    bucket_close(v->reads.bucket);
    pthread_mutex_destroy(&v->mutex);
    pthread_mutex_destroy(&v->puts.mutex);
    pthread_mutex_destroy(&v->reads.mutex);
    free(v);
    the = NULL;
}

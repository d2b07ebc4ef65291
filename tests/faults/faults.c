/*
 * faults.c - a disk that fails or is full, memory that ends, and a clock that
 * is set, for an unchanged program.
 *
 * Loaded with LD_PRELOAD, it stands before the C library's calls and lets them
 * fail as the plan says (plan.h). Calls that the plan does not name go through.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proto/memory.h"
#include "tests/faults/plan.h"

/* Written before main, by one thread. */
static struct plan *plan;

static struct {
    uintptr_t from, to;
} code; /* of the program, without its libraries */

/* The C library's own. POSIX lets a pointer to a function be got this way. */
#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* The first object is the program; one segment of it has its code. */
static int
find_code(struct dl_phdr_info *object, size_t size, void *user)
{
    (void)size;
    (void)user;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
            code.from = object->dlpi_addr + segment->p_vaddr;
            code.to = code.from + segment->p_memsz;
        }
    }
    return 1;
}

static void __attribute__((constructor)) read_plan(void)
{
    const char *path = getenv(PLAN_VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at;

    if (fd < 0)
        return;
    at = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return;
    dl_iterate_phdr(find_code, NULL);
    plan = at;
    if (plan->n_files > 0) {
        struct rlimit files = {(rlim_t)plan->n_files, (rlim_t)plan->n_files};

        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static bool
is_armed(void)
{
    return plan && atomic_load_explicit(&plan->is_armed, memory_order_acquire);
}

bool
plan_disarm(struct plan *of)
{
    return atomic_exchange(&of->is_armed, 0);
}

/* Whether a call meets its fault; *outcome is what. */
static bool
is_met(enum plan_call call, const char *path, size_t size, int *outcome)
{
    if (!(plan->calls & (int)call) || !strstr(path, plan->name) ||
        atomic_fetch_sub(&plan->skip, 1) > 0)
        return false;
    if (plan->is_once && !atomic_exchange(&plan->is_armed, 0))
        return false; /* another thread was it, or the test has disarmed it */
    if (size > 0 && size < MEMORY_SMALL)
        atomic_store(&plan->small_pid, getpid());
    atomic_fetch_add(&plan->n_met, 1);
    *outcome = plan->outcome;
    if (*outcome == PLAN_KILL)
        kill(getpid(), SIGKILL);
    if (*outcome != PLAN_HANG)
        return true;
    while (is_armed())
        usleep(1000);
    return false;
}

static bool
is_met_by_fd(enum plan_call call, int fd, int *outcome)
{
    char link[32], path[PATH_MAX];
    int error = errno;
    ssize_t n;

    if (!is_armed())
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    errno = error;
    path[n > 0 ? n : 0] = '\0';
    return is_met(call, path, 0, outcome);
}

static int
fail_with(int outcome)
{
    errno = outcome;
    return -1;
}

/* The calls: each goes through, or fails */

ssize_t
write(int fd, const void *bytes, size_t size)
{
    int outcome;

    if (is_met_by_fd(PLAN_WRITE, fd, &outcome)) {
        if (outcome != PLAN_SHORT)
            return fail_with(outcome);
        size = (size + 1) / 2;
    }
    return NEXT(write)(fd, bytes, size);
}

ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    int outcome;

    if (is_met_by_fd(PLAN_WRITE, fd, &outcome)) {
        if (outcome != PLAN_SHORT)
            return fail_with(outcome);
        size = (size + 1) / 2;
    }
    return NEXT(pwrite)(fd, bytes, size, at);
}

ssize_t
pwrite64(int fd, const void *bytes, size_t size, off64_t at)
{
    return pwrite(fd, bytes, size, at);
}

ssize_t
pwritev(int fd, const struct iovec *pieces, int n, off_t at)
{
    int outcome;

    if (is_met_by_fd(PLAN_WRITE, fd, &outcome)) {
        if (outcome != PLAN_SHORT)
            return fail_with(outcome);
        return NEXT(pwrite)(fd, pieces->iov_base, (pieces->iov_len + 1) / 2,
                            at);
    }
    return NEXT(pwritev)(fd, pieces, n, at);
}

int
fallocate(int fd, int mode, off_t at, off_t size)
{
    int outcome;

    if (is_met_by_fd(PLAN_WRITE, fd, &outcome) && outcome != PLAN_SHORT)
        return fail_with(outcome);
    return NEXT(fallocate)(fd, mode, at, size);
}

ssize_t
send(int fd, const void *bytes, size_t size, int flags)
{
    int outcome;

    if (is_met_by_fd(PLAN_SEND, fd, &outcome))
        return fail_with(outcome);
    return NEXT(send)(fd, bytes, size, flags);
}

int
fsync(int fd)
{
    int outcome;

    if (is_met_by_fd(PLAN_SYNC, fd, &outcome))
        return fail_with(outcome);
    return NEXT(fsync)(fd);
}

int
fdatasync(int fd)
{
    int outcome;

    if (is_met_by_fd(PLAN_SYNC, fd, &outcome))
        return fail_with(outcome);
    return NEXT(fdatasync)(fd);
}

int
renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    int outcome;

    if (is_armed() && is_met(PLAN_RENAME, to, 0, &outcome))
        return fail_with(outcome);
    return NEXT(renameat)(from_dir, from, to_dir, to);
}

/* Every command's argument fits in a long. The file stays open. */
int
fcntl(int fd, int command, ...)
{
    va_list more;
    long argument;
    int outcome;

    va_start(more, command);
    argument = va_arg(more, long);
    va_end(more);
    if (command == F_DUPFD_CLOEXEC && is_met_by_fd(PLAN_DUP, fd, &outcome)) {
        if (outcome != PLAN_TAKE)
            return fail_with(outcome);
        open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    return NEXT(fcntl)(fd, command, argument);
}

int
fstatvfs(int fd, struct statvfs *disk)
{
    int rc = NEXT(fstatvfs)(fd, disk);
    int64_t bytes =
        plan ? atomic_load_explicit(&plan->disk_bytes, memory_order_relaxed)
             : 0;

    if (rc == 0 && bytes > 0) {
        disk->f_frsize = 1;
        disk->f_bavail = (fsblkcnt_t)bytes;
    }
    return rc;
}

/* Memory */

/* The allocator: a sanitizer's, or else glibc's. They have these names besides
 * their usual ones, and so nothing has to be looked up, which would allocate.
 */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *bytes, size_t size);
extern void *__interceptor_malloc(size_t size) __attribute__((weak));
extern void *__interceptor_calloc(size_t n, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *bytes, size_t size)
    __attribute__((weak));

/* The program has ended, and its exit handlers run. In the build that counts
 * lines these are gcov's, which crash without memory. */
static atomic_bool is_ending;
static atomic_flag is_awaited = ATOMIC_FLAG_INIT;

static void
note_end(void)
{
    atomic_store(&is_ending, true);
}

/* Whether an allocation of `size` bytes by the code at `caller` fails. A
 * library's never does: how it bears that is its own affair. */
static bool
has_no_memory(const void *caller, size_t size)
{
    int outcome;

    if (!is_armed() || (uintptr_t)caller < code.from ||
        (uintptr_t)caller >= code.to || size < (size_t)plan->least_bytes)
        return false;
    /* Handlers run in reverse order. This one has to run before gcov's, which
     * the program registered at its start. */
    if (!atomic_flag_test_and_set(&is_awaited))
        atexit(note_end);
    if (atomic_load(&is_ending) || !is_met(PLAN_MEMORY, "", size, &outcome))
        return false;
    errno = outcome;
    return true;
}

/* An allocation of `all` bytes fails, or the allocator makes it. */
#define ALLOCATE(all, name, ...)                                \
    (has_no_memory(__builtin_return_address(0), (all)) ? NULL   \
     : __interceptor_##name ? __interceptor_##name(__VA_ARGS__) \
                            : __libc_##name(__VA_ARGS__))

void *
malloc(size_t size)
{
    return ALLOCATE(size, malloc, size);
}

void *
calloc(size_t n, size_t size)
{
    return ALLOCATE(n * size, calloc, n, size);
}

void *
realloc(void *bytes, size_t size)
{
    return ALLOCATE(size, realloc, bytes, size);
}

void *
reallocarray(void *bytes, size_t n, size_t size)
{
    return ALLOCATE(n * size, realloc, bytes, n * size);
}

char *
strdup(const char *text)
{
    return has_no_memory(__builtin_return_address(0), strlen(text) + 1)
               ? NULL
               : NEXT(strdup)(text);
}

char *
strndup(const char *text, size_t n)
{
    return has_no_memory(__builtin_return_address(0), strnlen(text, n) + 1)
               ? NULL
               : NEXT(strndup)(text, n);
}

/* Clocks */

/* The clock of the day is behind this, the steady one before it. */
#define DAY_CLOCK_S 1000000000

/* How far the clock of the day is set. */
static int64_t
shift_us(void)
{
    return plan ? atomic_load_explicit(&plan->clock_us, memory_order_relaxed)
                : 0;
}

/* How many seconds have passed at once, by the steady clock. */
static int64_t
passed_s(void)
{
    return plan ? atomic_load_explicit(&plan->passed_s, memory_order_relaxed)
                : 0;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = NEXT(clock_gettime)(clock, now);

    if (rc)
        return rc;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        now->tv_sec += shift_us() / 1000000;
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) {
        now->tv_sec += passed_s();
        if (plan && atomic_load(&plan->is_still))
            *now = (struct timespec){.tv_sec = 1};
    }
    return rc;
}

/* An end by the steady clock, which the caller has read by clock_gettime. */
int
pthread_cond_timedwait(pthread_cond_t *restrict changed,
                       pthread_mutex_t *restrict mutex,
                       const struct timespec *restrict end)
{
    /* There is an older one, too. */
    static __typeof__(&pthread_cond_timedwait) next;
    struct timespec true_end = *end;

    if (!next)
        next = (__typeof__(next))dlvsym(RTLD_NEXT, "pthread_cond_timedwait",
                                        "GLIBC_2.3.2");
    if (!next)
        next = NEXT(pthread_cond_timedwait);
    if (end->tv_sec < DAY_CLOCK_S)
        true_end.tv_sec -= passed_s();
    return next(changed, mutex, &true_end);
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int rc = NEXT(gettimeofday)(now, zone);

    now->tv_sec += shift_us() / 1000000;
    return rc;
}

time_t
time(time_t *to)
{
    time_t now = NEXT(time)(NULL) + shift_us() / 1000000;

    if (to)
        *to = now;
    return now;
}

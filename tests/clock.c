#include "tests/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The steady clock begins here, far below any time of day: the deadline of a
 * condition shows which of the two clocks it means. */
#define STEADY_BEGIN_US ((int64_t)1000 * 1000000)
#define DAY_BEGIN_S     1000000000

#define DAY_S ((int64_t)24 * 3600)

/* A wait with a limit looks at the clock so often. */
#define SLICE_NS 1000000

static _Atomic int64_t steady_us = STEADY_BEGIN_US;
static _Atomic int64_t day_ahead_us; /* of the steady clock */

/* The deadlines that threads wait for, 0: none; by the steady clock. */
#define WAITS_MAX 256
static _Atomic int64_t waits[WAITS_MAX];

/* How often each of them has looked, and found nothing. */
static _Atomic unsigned looks[WAITS_MAX];

/* TEST_LATE_WAITS_MS: waits with a limit begin so many real milliseconds late.
 */
static struct timespec late;

__attribute__((constructor(101))) static void
begin(void)
{
    const char *ms = getenv("TEST_LATE_WAITS_MS");
    struct timespec now;

    if (ms)
        late = (struct timespec){strtol(ms, NULL, 10) / 1000,
                                 strtol(ms, NULL, 10) % 1000 * 1000000};

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    day_ahead_us = (now.tv_sec / DAY_S * DAY_S + DAY_S + DAY_S / 2) * 1000000 -
                   STEADY_BEGIN_US;
}

static int64_t
steady_now_us(void)
{
    return atomic_load(&steady_us);
}

static int64_t
day_now_us(void)
{
    return steady_now_us() + atomic_load(&day_ahead_us);
}

int64_t
clock_day_us(void)
{
    return day_now_us();
}

void
clock_pass_us(int64_t us)
{
    atomic_fetch_add(&steady_us, us);
}

void
clock_set_us(int64_t by_us)
{
    atomic_fetch_add(&day_ahead_us, by_us);
}

/* clock_skip_waits, of this thread. */
static __thread bool (*skip_is_idle)(void *user);
static __thread void *skip_user;

void
clock_skip_waits(bool (*is_idle)(void *user), void *user)
{
    skip_is_idle = is_idle;
    skip_user = user;
}

/* Nothing was ready: moves the clock to the limit of the wait if this thread
 * skips its waits. */
static void
skip_to(int64_t end_us)
{
    int64_t now_us = steady_now_us();

    if (skip_is_idle && skip_is_idle(skip_user) && now_us < end_us)
        clock_pass_us(end_us - now_us);
}

/* clock_run, of this thread: and the looks of all when its wait began. */
static __thread unsigned run_n, began[WAITS_MAX];
static __thread int64_t run_us;
static __thread bool has_begun;

void
clock_run_us(unsigned n, int64_t us)
{
    run_n = n;
    run_us = us;
}

/* Takes a place among the waits; it is given back by storing 0. */
static _Atomic int64_t *
wait_for(int64_t end_us)
{
    has_begun = false;
    for (size_t i = 0; i < WAITS_MAX; i++) {
        int64_t none = 0;

        if (atomic_compare_exchange_strong(&waits[i], &none, end_us))
            return &waits[i];
    }
    abort(); /* more threads than any test has */
}

/* Notes that the wait at `place` found nothing ready, and moves the clock if
 * all waits found nothing. Each thread has to look twice after a wait began or
 * the clock moved: its first look may have come before the event that wakes it.
 */
static void
run_on(_Atomic int64_t *place)
{
    int64_t now_us = steady_now_us(), next_us = INT64_MAX;
    unsigned n = 0;

    if (place)
        atomic_fetch_add(&looks[place - waits], 1);
    if (!run_n)
        return;
    for (size_t i = 0; i < WAITS_MAX; i++) {
        int64_t wait_us = atomic_load(&waits[i]);

        if (!has_begun)
            began[i] = atomic_load(&looks[i]);
        if (wait_us <= now_us)
            continue;
        if (wait_us < next_us)
            next_us = wait_us;
        if (&waits[i] != place && atomic_load(&looks[i]) - began[i] >= 2)
            n++;
    }
    has_begun = true;
    if (n < run_n || next_us - now_us > run_us)
        return;
    has_begun = false;
    clock_pass_us(next_us - now_us);
}

void
clock_run_on(bool is_first)
{
    if (is_first)
        has_begun = false;
    run_on(NULL);
}

/* Counts the threads that wait for a time within `us`. A thread whose time has
 * come does not count, even if it has not noticed yet. */
static unsigned
count_waits(int64_t us)
{
    int64_t now_us = steady_now_us();
    unsigned n = 0;

    for (size_t i = 0; i < WAITS_MAX; i++) {
        int64_t wait_us = atomic_load(&waits[i]);

        if (wait_us > now_us && wait_us <= now_us + us)
            n++;
    }
    return n;
}

void
clock_await_waits_us(unsigned n, int64_t us)
{
    static const struct timespec slice = {0, SLICE_NS};

    has_begun = false;
    while (count_waits(us) < n) {
        run_on(NULL);
        syscall(SYS_nanosleep, &slice, NULL);
    }
}

void
clock_await_us(int64_t us)
{
    clock_await_waits_us(1, us);
}

/* The real functions: those of a sanitizer's runtime in this program
 * (ThreadSanitizer has to see what orders threads), or the next library's. */
#define REAL(type, name, ...)                                            \
    extern type __interceptor_##name(__VA_ARGS__) __attribute__((weak)); \
    static type (*real_##name(void))(__VA_ARGS__)                        \
    {                                                                    \
        static _Atomic(void *) found;                                    \
        void *f = atomic_load_explicit(&found, memory_order_relaxed);    \
                                                                         \
        if (!f) {                                                        \
            f = __interceptor_##name ? (void *)__interceptor_##name      \
                                     : dlsym(RTLD_NEXT, #name);          \
            atomic_store_explicit(&found, f, memory_order_relaxed);      \
        }                                                                \
        return (type(*)(__VA_ARGS__))f;                                  \
    }

REAL(int, pthread_cond_clockwait, pthread_cond_t *, pthread_mutex_t *,
     clockid_t, const struct timespec *)
REAL(int, pthread_cond_signal, pthread_cond_t *)
REAL(int, pthread_cond_broadcast, pthread_cond_t *)
REAL(int, sem_trywait, sem_t *)
REAL(int, epoll_wait, int, struct epoll_event *, int, int)
REAL(int, epoll_pwait, int, struct epoll_event *, int, int, const sigset_t *)
REAL(int, ppoll, struct pollfd *, nfds_t, const struct timespec *,
     const sigset_t *)
REAL(int, pselect, int, fd_set *, fd_set *, fd_set *, const struct timespec *,
     const sigset_t *)

/* The two clocks */

/* libwebsockets comes again and again until its clock has passed a
 * microsecond. */
static bool
is_of_libwebsockets(const void *caller)
{
    static _Thread_local const void *last;
    static _Thread_local bool is_last;
    Dl_info of;

    if (caller != last)
        is_last = dladdr(caller, &of) && of.dli_fname &&
                  strstr(of.dli_fname, "libwebsockets");
    last = caller;
    return is_last;
}

int
clock_gettime(clockid_t id, struct timespec *now)
{
    int64_t us;

    if (is_of_libwebsockets(__builtin_return_address(0)))
        return (int)syscall(SYS_clock_gettime, id, now);
    switch (id) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        us = day_now_us();
        break;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        us = steady_now_us();
        break;
    default: /* the CPU time of a thread */
        return (int)syscall(SYS_clock_gettime, id, now);
    }
    now->tv_sec = us / 1000000;
    now->tv_nsec = us % 1000000 * 1000;
    return 0;
}

time_t
time(time_t *to)
{
    time_t now = day_now_us() / 1000000;

    if (to)
        *to = now;
    return now;
}

int
gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    int64_t us = day_now_us();

    (void)zone;
    to->tv_sec = us / 1000000;
    to->tv_usec = us % 1000000;
    return 0;
}

/* Waits with a limit */

/* A time of the steady clock, of a deadline by either clock. */
static int64_t
end_of(const struct timespec *at)
{
    int64_t us = (int64_t)at->tv_sec * 1000000 + (at->tv_nsec + 999) / 1000;

    return at->tv_sec < DAY_BEGIN_S ? us : us - atomic_load(&day_ahead_us);
}

static struct timespec
real_slice(void)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    now.tv_nsec += SLICE_NS;
    if (now.tv_nsec >= 1000000000) {
        now.tv_nsec -= 1000000000;
        now.tv_sec++;
    }
    return now;
}

/* How often a condition (or another one with its number) was signalled. Between
 * two slices of a wait nobody hears a signal. */
#define SIGNALS 4096
static _Atomic unsigned signals[SIGNALS];

static _Atomic unsigned *
signals_of(const pthread_cond_t *cond)
{
    return &signals[(uintptr_t)cond / sizeof(*cond) % SIGNALS];
}

int
pthread_cond_signal(pthread_cond_t *cond)
{
    atomic_fetch_add(signals_of(cond), 1);
    return real_pthread_cond_signal()(cond);
}

int
pthread_cond_broadcast(pthread_cond_t *cond)
{
    atomic_fetch_add(signals_of(cond), 1);
    return real_pthread_cond_broadcast()(cond);
}

int
pthread_cond_timedwait(pthread_cond_t *restrict cond,
                       pthread_mutex_t *restrict mutex,
                       const struct timespec *restrict at)
{
    int64_t end_us = end_of(at);
    _Atomic int64_t *wait = wait_for(end_us);
    unsigned before = atomic_load(signals_of(cond));
    int error = ETIMEDOUT;

    while (error == ETIMEDOUT && steady_now_us() < end_us) {
        struct timespec slice = real_slice();

        error =
            real_pthread_cond_clockwait()(cond, mutex, CLOCK_MONOTONIC, &slice);
        if (error == ETIMEDOUT && atomic_load(signals_of(cond)) != before)
            error = 0;
        if (error == ETIMEDOUT)
            run_on(wait);
    }
    atomic_store(wait, 0);
    return error;
}

int
pthread_cond_clockwait(pthread_cond_t *restrict cond,
                       pthread_mutex_t *restrict mutex, clockid_t clock,
                       const struct timespec *restrict at)
{
    (void)clock;
    return pthread_cond_timedwait(cond, mutex, at);
}

int
sem_timedwait(sem_t *restrict sem, const struct timespec *restrict at)
{
    static const struct timespec slice = {0, SLICE_NS};
    int64_t end_us = end_of(at);
    _Atomic int64_t *wait = wait_for(end_us);
    int rc;

    while ((rc = real_sem_trywait()(sem)) && errno == EAGAIN &&
           steady_now_us() < end_us)
        syscall(SYS_nanosleep, &slice, NULL);
    atomic_store(wait, 0);
    if (rc && errno == EAGAIN)
        errno = ETIMEDOUT;
    return rc;
}

int
nanosleep(const struct timespec *pause, struct timespec *left)
{
    static const struct timespec slice = {0, SLICE_NS};
    int64_t end_us = steady_now_us() + (int64_t)pause->tv_sec * 1000000 +
                     pause->tv_nsec / 1000;
    _Atomic int64_t *wait = wait_for(end_us);

    (void)left; /* no signal ends it */
    while (steady_now_us() < end_us)
        syscall(SYS_nanosleep, &slice, NULL);
    atomic_store(wait, 0);
    return 0;
}

/* A thread that is late on its way from a look at the clock to its wait, as on
 * a loaded machine. */
static void
be_late(void)
{
    if ((late.tv_sec || late.tv_nsec) && !skip_is_idle)
        syscall(SYS_nanosleep, &late, NULL);
}

/* Calls WAIT, which waits for `slice`, until it returns something or the time
 * has come. A first look that finds something does not count as a wait. */
#define WAIT_IN_SLICES(us, wait)                 \
    do {                                         \
        be_late();                               \
        int64_t end_us = steady_now_us() + (us); \
        struct timespec slice = {0, 0};          \
        _Atomic int64_t *place;                  \
        int ready = (wait);                      \
                                                 \
        if (ready != 0)                          \
            return ready;                        \
        slice.tv_nsec = SLICE_NS;                \
        place = wait_for(end_us);                \
        while ((ready = (wait)) == 0) {          \
            skip_to(end_us);                     \
            run_on(place);                       \
            if (steady_now_us() >= end_us)       \
                break;                           \
        }                                        \
        atomic_store(place, 0);                  \
        return ready;                            \
    } while (0)

int
epoll_pwait(int fd, struct epoll_event *events, int max, int ms,
            const sigset_t *mask)
{
    if (ms <= 0)
        return real_epoll_pwait()(fd, events, max, ms, mask);
    WAIT_IN_SLICES(
        (int64_t)ms * 1000,
        real_epoll_pwait()(fd, events, max, slice.tv_nsec > 0, mask));
}

int
epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
    if (ms <= 0)
        return real_epoll_wait()(fd, events, max, ms);
    WAIT_IN_SLICES((int64_t)ms * 1000,
                   real_epoll_wait()(fd, events, max, slice.tv_nsec > 0));
}

int
ppoll(struct pollfd *fds, nfds_t n_fds, const struct timespec *limit,
      const sigset_t *mask)
{
    int64_t us =
        limit ? (int64_t)limit->tv_sec * 1000000 + limit->tv_nsec / 1000 : 0;

    if (us <= 0)
        return real_ppoll()(fds, n_fds, limit, mask);
    WAIT_IN_SLICES(us, real_ppoll()(fds, n_fds, &slice, mask));
}

int
poll(struct pollfd *fds, nfds_t n_fds, int ms)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};

    return ppoll(fds, n_fds, ms < 0 ? NULL : &limit, NULL);
}

int
pselect(int n, fd_set *restrict readable, fd_set *restrict writable,
        fd_set *restrict excepted, const struct timespec *restrict limit,
        const sigset_t *restrict mask)
{
    fd_set was[3];
    int64_t us =
        limit ? (int64_t)limit->tv_sec * 1000000 + limit->tv_nsec / 1000 : 0;

    if (us <= 0)
        return real_pselect()(n, readable, writable, excepted, limit, mask);
    if (readable)
        was[0] = *readable;
    if (writable)
        was[1] = *writable;
    if (excepted)
        was[2] = *excepted;
    WAIT_IN_SLICES(us, ({
                       if (readable)
                           *readable = was[0];
                       if (writable)
                           *writable = was[1];
                       if (excepted)
                           *excepted = was[2];
                       real_pselect()(n, readable, writable, excepted, &slice,
                                      mask);
                   }));
}

int
select(int n, fd_set *restrict readable, fd_set *restrict writable,
       fd_set *restrict excepted, struct timeval *restrict limit)
{
    struct timespec at = {0, 0};

    if (limit) {
        at.tv_sec = limit->tv_sec;
        at.tv_nsec = limit->tv_usec * 1000;
    }
    return pselect(n, readable, writable, excepted, limit ? &at : NULL, NULL);
}

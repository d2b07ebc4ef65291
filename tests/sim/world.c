/*
 * world.c - the baton, threads, locks and time of a simulated world. See
 * world.h.
 *
 * A thread tries a lock. If another one has it, the thread waits until that one
 * unlocks it. So the program holds its real locks, and a thread sleeps in the
 * kernel for its turn alone.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/inside.h"

struct world *world;

static __thread int me = -1;
static uint32_t process;
static pthread_key_t end_key;

void *
world_symbol(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* The baton */

static void
futex_wait_turn(uint32_t *turn)
{
    while (!__atomic_load_n(turn, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, turn, FUTEX_WAIT, 0, NULL, NULL, 0);
    __atomic_store_n(turn, 0, __ATOMIC_RELEASE);
}

static void
futex_give_turn(uint32_t *turn)
{
    __atomic_store_n(turn, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t
rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

/* xoroshiro128+ */
static uint64_t
next_random(struct world *w)
{
    uint64_t a = w->random[0], b = w->random[1], sum = a + b;

    b ^= a;
    w->random[0] = rotate(a, 24) ^ b ^ b << 16;
    w->random[1] = rotate(b, 37);
    return sum;
}

EXPORT uint64_t
world_random(struct world *w, uint64_t n)
{
    return (next_random(w) >> 11) % n;
}

/* Returns the task that goes on; -1: the operator. */
static int
choose(struct world *w)
{
    int ready[WORLD_TASKS];

    for (;;) {
        int64_t soonest = WORLD_NEVER;
        uint64_t n = 0;

        if (w->end == WORLD_EXIT)
            return -1;
        w->end = WORLD_LIMIT;
        if (w->steps >= w->limit || w->now_ns >= w->limit_ns)
            return -1;
        for (uint32_t i = 0; i < w->n_tasks; i++) {
            const struct world_task *t = &w->tasks[i];
            int64_t still_ns = w->processes[t->process].still_ns;

            if (t->state == TASK_FREE)
                continue;
            if (still_ns > w->now_ns) {
                if (still_ns < soonest)
                    soonest = still_ns;
                continue;
            }
            if (t->state == TASK_READY || t->until_ns <= w->now_ns ||
                (t->state == TASK_POLLING && t->seen != w->events))
                ready[n++] = (int)i;
            else if (t->until_ns < soonest)
                soonest = t->until_ns;
        }
        if (n > 0)
            return ready[n == 1 ? 0 : world_random(w, n)];
        w->end = WORLD_STILL;
        if (soonest == WORLD_NEVER)
            return -1;
        w->end = WORLD_LIMIT;
        w->now_ns = soonest < w->limit_ns ? soonest : w->limit_ns;
    }
}

static void
hand_on(struct world *w, int next)
{
    futex_give_turn(next < 0 ? &w->turn : &w->tasks[next].turn);
}

EXPORT int
world_run(struct world *w, uint64_t steps, int64_t ns)
{
    int next;

    w->limit = w->steps + steps;
    w->limit_ns = ns == WORLD_NEVER ? WORLD_NEVER : w->now_ns + ns;
    w->end = 0;
    next = choose(w);
    if (next < 0)
        return (int)w->end;
    hand_on(w, next);
    return 0;
}

EXPORT int
world_await(struct world *w, int timeout_ms)
{
    const struct timespec timeout = {timeout_ms / 1000,
                                     timeout_ms % 1000 * 1000000L};

    while (!__atomic_load_n(&w->turn, __ATOMIC_ACQUIRE))
        if (syscall(SYS_futex, &w->turn, FUTEX_WAIT, 0, &timeout, NULL, 0) &&
            errno == ETIMEDOUT)
            return 0;
    w->turn = 0;
    return (int)w->end;
}

EXPORT unsigned
world_size(void)
{
    return sizeof(struct world);
}

EXPORT void
world_forget(struct world *w, uint32_t ended)
{
    for (int i = 0; i < WORLD_TASKS; i++)
        if (w->tasks[i].process == ended)
            w->tasks[i].state = TASK_FREE;
    w->processes[ended] = (struct world_process){.state = PROCESS_NONE};
    w->events++;
}

/* Gives the baton to whom the seed chooses, and waits for it. */
static void
pass(void)
{
    int next = choose(world), error = errno;

    if (next != me) {
        hand_on(world, next);
        futex_wait_turn(&world->tasks[me].turn);
    }
    errno = error;
    world->tasks[me].state = TASK_READY;
    world->tasks[me].until_ns = WORLD_NEVER;
}

bool
is_inside(void)
{
    return me >= 0;
}

uint32_t
this_process(void)
{
    return process;
}

uint64_t
random_below(uint64_t n)
{
    return world_random(world, n);
}

uint64_t
key_of(const void *address)
{
    return (uint64_t)(uintptr_t)address ^ (uint64_t)process << 48;
}

/* What the clock of the day is ahead of the steady one. */
static int64_t
day_offset(void)
{
    return world->offset_ns + world->now_ns / 1000000 * world->drift;
}

static void
hash_in(uint64_t number)
{
    world->hash = rotate((world->hash ^ number) * 0x9e3779b97f4a7c15, 29);
}

static void
note(const char *what, int64_t number)
{
    struct world_event *e = &world->trace[world->steps % WORLD_TRACE];
    uint64_t word = 0;

    *e = (struct world_event){.ns = world->now_ns,
                              .task = (uint32_t)me,
                              .process = process,
                              .number = number};
    strncpy(e->what, what, sizeof(e->what) - 1);
    for (const char *c = what; *c; c++)
        word = word * 31 + (unsigned char)*c;
    hash_in(word);
    hash_in((uint64_t)number);
    hash_in((uint64_t)me);
}

/* Nobody loses the baton here: dlopen holds a lock that is not ours to try. */
static __thread int n_quiet;

void
step(const char *what, int64_t number)
{
    note(what, number);
    world->steps++;
    world->now_ns += world->tick_ns;
    if (!n_quiet &&
        (world->steps >= world->limit || !random_below(world->switches)))
        pass();
}

bool
wait_for(uint64_t key, int64_t until_ns)
{
    struct world_task *t = &world->tasks[me];

    t->state = TASK_WAITING;
    t->key = key;
    t->until_ns = until_ns;
    t->woken = 0;
    pass();
    return t->woken;
}

uint64_t
poll_bit(enum poll_kind kind, uint32_t number)
{
    return UINT64_C(1) << ((number * 3 + (uint32_t)kind) % 64);
}

void
wait_event(uint64_t interest, int64_t until_ns)
{
    struct world_task *t = &world->tasks[me];

    t->state = TASK_POLLING;
    t->interest = interest;
    t->seen = world->events;
    t->until_ns = until_ns;
    pass();
}

void
tell_event(uint64_t bit)
{
    for (uint32_t i = 0; i < world->n_tasks; i++)
        if (world->tasks[i].state == TASK_POLLING &&
            world->tasks[i].interest & bit)
            world->tasks[i].state = TASK_READY;
}

void
wake(uint64_t key, bool all)
{
    int found[WORLD_TASKS];
    uint64_t n = 0;

    for (int i = 0; i < (int)world->n_tasks; i++)
        if (world->tasks[i].state == TASK_WAITING && world->tasks[i].key == key)
            found[n++] = i;
    if (n > 0 && !all) {
        found[0] = found[random_below(n)];
        n = 1;
    }
    for (uint64_t i = 0; i < n; i++) {
        world->tasks[found[i]].state = TASK_READY;
        world->tasks[found[i]].woken = 1;
    }
}

/* Beginning and end */

static int
free_task(void)
{
    for (int i = 0; i < WORLD_TASKS; i++)
        if (world->tasks[i].state == TASK_FREE) {
            world->tasks[i] = (struct world_task){.state = TASK_READY,
                                                  .process = process,
                                                  .until_ns = WORLD_NEVER};
            if (i >= (int)world->n_tasks)
                world->n_tasks = (uint32_t)i + 1;
            return i;
        }
    abort();
}

/* Where the program itself lies. Locks inside of libraries are no steps: they
 * were nine of ten, most of them OpenSSL's. */
static uintptr_t code_begin, code_end;

static int
find_code(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    (void)user;
    code_begin = code_end = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
                        info->dlpi_phdr[i].p_memsz;

        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > code_end)
            code_end = end;
    }
    return 1; /* the first one is the program */
}

static void end_thread(void *round);
static void exit_now(int status, void *user);

static void
join_world(void)
{
    const char *path = getenv("WORLD"), *number = getenv("WORLD_PROCESS");
    int fd, task;

    if (!path || !number)
        return;
    process = (uint32_t)atoi(number);
    fd = open(path, O_RDWR | O_CLOEXEC);
    world =
        mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (world == MAP_FAILED)
        abort();
    syscall(SYS_close, fd);
    dl_iterate_phdr(find_code, NULL);
    unsetenv("LD_PRELOAD"); /* what it starts is outside */
    pthread_key_create(&end_key, end_thread);
    on_exit(exit_now, NULL);
    task = free_task();
    __atomic_store_n(&world->processes[process].state, PROCESS_RUNS,
                     __ATOMIC_RELEASE);
    futex_wait_turn(&world->tasks[task].turn);
    me = task;
    step("start", process);
}

typedef int main_fn(int argc, char **argv, char **env);
typedef void hook_fn(void);

EXPORT int __libc_start_main(main_fn *program, int argc, char **argv,
                             hook_fn *init, hook_fn *fini, hook_fn *loader_fini,
                             void *stack_end);

/* Calls main(). A fork server (tests/fork_server.c) does so in each fork. */
int
__libc_start_main(main_fn *program, int argc, char **argv, hook_fn *init,
                  hook_fn *fini, hook_fn *loader_fini, void *stack_end)
{
    REAL(__libc_start_main);

    join_world();
    return real(program, argc, argv, init, fini, loader_fini, stack_end);
}

/* The operator waits until the kernel has closed what the process had. */
static void
end_process(void)
{
    if (me < 0)
        return;
    step("exit", process);
    me = -1;
    world->exiting = process;
    world->end = WORLD_EXIT;
    world->processes[process].state = PROCESS_ENDS;
    futex_give_turn(&world->turn);
}

EXPORT void
_exit(int status)
{
    end_process();
    for (;;)
        syscall(SYS_exit_group, status);
}

/* Before the destructors of libraries: libuv's joins its threads. */
static void
exit_now(int status, void *user)
{
    (void)user;
    fflush(NULL);
    _exit(status);
}

/* Threads */

/* Of this process's threads. */
static pthread_t threads[WORLD_TASKS];

struct beginning {
    void *(*fn)(void *);
    void *user;
    int task;
};

/* Other keys' destructors still run in the first rounds: the thread has the
 * baton until the last one. */
static void
end_thread(void *round)
{
    uintptr_t n = (uintptr_t)round;

    if (me < 0)
        return;
    if (n < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(end_key, (void *)(n + 1));
        return;
    }
    note("thread ends", me);
    wake(key_of(&threads[me]), true);
    threads[me] = 0;
    world->tasks[me].state = TASK_FREE;
    world->tasks[me].woken = 0;
    me = -1;
    hand_on(world, choose(world));
}

static void *
begin_thread(void *user)
{
    struct beginning b = *(struct beginning *)user;

    free(user);
    futex_wait_turn(&world->tasks[b.task].turn);
    me = b.task;
    pthread_setspecific(end_key, (void *)1);
    return b.fn(b.user);
}

EXPORT int
pthread_create(pthread_t *thread, const pthread_attr_t *attr,
               void *(*fn)(void *), void *user)
{
    struct beginning *b;
    int rc;
    REAL(pthread_create);

    if (!is_inside())
        return real(thread, attr, fn, user);
    step("thread begins", 0);
    b = malloc(sizeof(*b));
    if (!b)
        return EAGAIN;
    *b = (struct beginning){fn, user, free_task()};
    rc = real(thread, attr, begin_thread, b);
    if (rc) {
        world->tasks[b->task].state = TASK_FREE;
        free(b);
    } else {
        threads[b->task] = *thread; /* it has not begun */
    }
    return rc;
}

/* After the last thing that a thread does the kernel needs a moment more. */
EXPORT int
pthread_join(pthread_t thread, void **result)
{
    REAL(pthread_join);

    if (!is_inside())
        return real(thread, result);
    step("join", 0);
    for (int i = 0; i < WORLD_TASKS; i++)
        while (threads[i] == thread)
            wait_for(key_of(&threads[i]), WORLD_NEVER);
    return real(thread, result);
}

/* As the C library has them. */
enum { ONCE_BEGUN = 1, ONCE_DONE };

EXPORT int
pthread_once(pthread_once_t *once, void (*fn)(void))
{
    REAL(pthread_once);

    if (!is_inside())
        return real(once, fn);
    while (*once != ONCE_DONE)
        if (*once == PTHREAD_ONCE_INIT) {
            *once = ONCE_BEGUN;
            fn();
            *once = ONCE_DONE;
            wake(key_of(once), true);
        } else {
            wait_for(key_of(once), WORLD_NEVER);
        }
    return 0;
}

EXPORT void *
dlopen(const char *path, int flags)
{
    void *handle;
    REAL(dlopen);

    n_quiet++;
    handle = real(path, flags);
    n_quiet--;
    return handle;
}

/* Locks */

#define STEP_OF_PROGRAM(what)                                      \
    do {                                                           \
        uintptr_t caller = (uintptr_t)__builtin_return_address(0); \
                                                                   \
        if (caller >= code_begin && caller < code_end)             \
            step(what, 0);                                         \
    } while (0)

/* Takes a lock by trying. */
#define TAKE(try, lock, what)                    \
    do {                                         \
        int rc;                                  \
                                                 \
        STEP_OF_PROGRAM(what);                   \
        while ((rc = try(lock)) == EBUSY)        \
            wait_for(key_of(lock), WORLD_NEVER); \
        return rc;                               \
    } while (0)

EXPORT int
pthread_mutex_lock(pthread_mutex_t *mutex)
{
    REAL(pthread_mutex_lock);

    if (!is_inside())
        return real(mutex);
    TAKE(pthread_mutex_trylock, mutex, "lock");
}

/* Whoever waits for it may try again. */
#define GIVE_BACK(lock)            \
    do {                           \
        int rc = real(lock);       \
                                   \
        if (!is_inside())          \
            return rc;             \
        wake(key_of(lock), true);  \
        STEP_OF_PROGRAM("unlock"); \
        return rc;                 \
    } while (0)

EXPORT int
pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    REAL(pthread_mutex_unlock);

    GIVE_BACK(mutex);
}

EXPORT int
pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    REAL(pthread_rwlock_rdlock);

    if (!is_inside())
        return real(lock);
    TAKE(pthread_rwlock_tryrdlock, lock, "read lock");
}

EXPORT int
pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    REAL(pthread_rwlock_wrlock);

    if (!is_inside())
        return real(lock);
    TAKE(pthread_rwlock_trywrlock, lock, "write lock");
}

EXPORT int
pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
    REAL(pthread_rwlock_unlock);

    GIVE_BACK(lock);
}

EXPORT int
sem_wait(sem_t *sem)
{
    REAL(sem_wait);

    if (!is_inside())
        return real(sem);
    step("semaphore", 0);
    while (sem_trywait(sem)) {
        if (errno != EAGAIN)
            return -1;
        wait_for(key_of(sem), WORLD_NEVER);
    }
    return 0;
}

EXPORT int
sem_post(sem_t *sem)
{
    REAL(sem_post);

    GIVE_BACK(sem);
}

/* Conditions. dlsym finds the oldest version of these by name. */

static int
wait_condition(pthread_cond_t *condition, pthread_mutex_t *mutex,
               int64_t until_ns)
{
    bool was_woken;

    note("condition", 0);
    world->steps++;
    /* Nobody runs between these two: a signal finds the waiter. */
    n_quiet++;
    pthread_mutex_unlock(mutex);
    n_quiet--;
    was_woken = wait_for(key_of(condition), until_ns);
    pthread_mutex_lock(mutex);
    return was_woken ? 0 : ETIMEDOUT;
}

static void *
newest(const char *name)
{
    return dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
}

EXPORT int
pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    static __typeof__(pthread_cond_wait) *real;

    if (is_inside())
        return wait_condition(condition, mutex, WORLD_NEVER);
    if (!real)
        real = (__typeof__(real))newest("pthread_cond_wait");
    return real(condition, mutex);
}

static int64_t
nanoseconds(const struct timespec *t)
{
    return t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
}

EXPORT int
pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       const struct timespec *until)
{
    static __typeof__(pthread_cond_timedwait) *real;

    if (is_inside()) {
        int64_t ns = nanoseconds(until);

        /* The steady clock is far behind that of the day. */
        return wait_condition(condition, mutex,
                              ns > day_offset() / 2 ? ns - day_offset() : ns);
    }
    if (!real)
        real = (__typeof__(real))newest("pthread_cond_timedwait");
    return real(condition, mutex, until);
}

EXPORT int
pthread_cond_signal(pthread_cond_t *condition)
{
    static __typeof__(pthread_cond_signal) *real;

    if (is_inside()) {
        wake(key_of(condition), false);
        step("signal", 0);
        return 0;
    }
    if (!real)
        real = (__typeof__(real))newest("pthread_cond_signal");
    return real(condition);
}

EXPORT int
pthread_cond_broadcast(pthread_cond_t *condition)
{
    static __typeof__(pthread_cond_broadcast) *real;

    if (is_inside()) {
        wake(key_of(condition), true);
        step("broadcast", 0);
        return 0;
    }
    if (!real)
        real = (__typeof__(real))newest("pthread_cond_broadcast");
    return real(condition);
}

EXPORT int
sched_yield(void)
{
    REAL(sched_yield);

    if (!is_inside())
        return real();
    step("yield", 0);
    pass();
    return 0;
}

/* Time */

#define LOOK_NS 100

EXPORT int
clock_gettime(clockid_t clock, struct timespec *t)
{
    int64_t ns;
    REAL(clock_gettime);

    if (!is_inside())
        return real(clock, t);
    /* A loop that reads the clock until it goes on must end. */
    ns = world->now_ns += LOOK_NS;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        ns += day_offset();
    *t = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}

EXPORT int
gettimeofday(struct timeval *t, void *zone)
{
    struct timespec now;
    REAL(gettimeofday);

    if (!is_inside())
        return real(t, zone);
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

EXPORT time_t
time(time_t *to)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}

EXPORT int
nanosleep(const struct timespec *t, struct timespec *rest)
{
    REAL(nanosleep);

    if (!is_inside())
        return real(t, rest);
    step("sleep", nanoseconds(t));
    wait_for(0, world->now_ns + nanoseconds(t));
    return 0;
}

EXPORT int
usleep(useconds_t us)
{
    const struct timespec t = {us / 1000000, us % 1000000 * 1000L};

    return nanosleep(&t, NULL);
}

EXPORT unsigned
sleep(unsigned s)
{
    const struct timespec t = {s, 0};

    nanosleep(&t, NULL);
    return 0;
}

/* Processor time is that of the world. */
EXPORT int
getrusage(__rusage_who_t who, struct rusage *usage)
{
    REAL(getrusage);

    if (!is_inside())
        return real(who, usage);
    memset(usage, 0, sizeof(*usage));
    return 0;
}

/* Randomness */

static void
fill_random(void *to, size_t size)
{
    unsigned char *bytes = to;

    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)random_below(256);
}

EXPORT ssize_t
getrandom(void *to, size_t size, unsigned flags)
{
    REAL(getrandom);

    if (!is_inside())
        return real(to, size, flags);
    fill_random(to, size);
    return (ssize_t)size;
}

EXPORT int
getentropy(void *to, size_t size)
{
    REAL(getentropy);

    if (!is_inside())
        return real(to, size);
    fill_random(to, size);
    return 0;
}

/* OpenSSL's own generator mixes the processor's clock in. */
EXPORT int RAND_bytes(unsigned char *to, int size);
EXPORT int RAND_priv_bytes(unsigned char *to, int size);

EXPORT int
RAND_bytes(unsigned char *to, int size)
{
    static int (*real)(unsigned char *to, int size);

    if (!is_inside()) {
        if (!real)
            real = (__typeof__(real))world_symbol("RAND_bytes");
        return real(to, size);
    }
    fill_random(to, (size_t)size);
    return 1;
}

EXPORT int
RAND_priv_bytes(unsigned char *to, int size)
{
    return RAND_bytes(to, size);
}

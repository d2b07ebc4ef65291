#include "tests/support/faults.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/patience.h"
#include "tests/test.h"

/* How often it is looked whether a call met its fault. */
#define LOOK_MS 5

/* Posts between two pauses, and the shortest pause in milliseconds. */
#define BURST 4
#define PAUSE 50

/* The sanitizers want to be the first library. */
#define ASAN "ASAN_OPTIONS"

static char asan_before[512];

void
faults_open(struct faults *f)
{
    const char *above = getenv("TMPDIR"), *asan = getenv(ASAN);
    char options[600];
    int fd;

    snprintf(f->path, sizeof(f->path), "%s/tidings-faults-XXXXXX",
             above ? above : "/tmp");
    fd = mkostemp(f->path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(*f->plan)), 0);
    f->plan =
        mmap(NULL, sizeof(*f->plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(f->plan != MAP_FAILED);
    close(fd);

    snprintf(asan_before, sizeof(asan_before), "%s", asan ? asan : "");
    snprintf(options, sizeof(options), "%s:verify_asan_link_order=0",
             asan_before);
    assert_int_equal(setenv(ASAN, options, 1), 0);
    assert_int_equal(setenv(PLAN_VARIABLE, f->path, 1), 0);
    assert_int_equal(setenv("LD_PRELOAD", FAULTS_LIBRARY, 1), 0);
}

void
faults_close(struct faults *f)
{
    if (!f->plan)
        return;
    unsetenv("LD_PRELOAD");
    unsetenv(PLAN_VARIABLE);
    setenv(ASAN, asan_before, 1);
    munmap(f->plan, sizeof(*f->plan));
    f->plan = NULL;
    unlink(f->path);
}

static void
arm(struct faults *f, int calls, const char *name, int n, int outcome,
    bool is_once)
{
    struct plan *p = f->plan;

    faults_disarm(f);
    assert_true(strlen(name) < sizeof(p->name));
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->calls = calls;
    p->outcome = outcome;
    p->is_once = is_once;
    atomic_store(&p->skip, n);
    atomic_store(&p->n_met, 0);
    atomic_store_explicit(&p->is_armed, 1, memory_order_release);
}

void
faults_arm(struct faults *f, int calls, const char *name, int n, int outcome)
{
    arm(f, calls, name, n, outcome, false);
}

void
faults_arm_once(struct faults *f, int calls, const char *name, int n,
                int outcome)
{
    arm(f, calls, name, n, outcome, true);
}

int
faults_disarm(struct faults *f)
{
    atomic_store(&f->plan->is_armed, 0);
    return faults_met(f);
}

int
faults_met(const struct faults *f)
{
    return atomic_load(&f->plan->n_met);
}

int
faults_left(const struct faults *f)
{
    return atomic_load(&f->plan->skip);
}

void
faults_await(const struct faults *f)
{
    for (int left = PATIENCE_MS / LOOK_MS; faults_met(f) == 0; left--) {
        if (left == 0)
            fail_msg("no call met its fault within %d ms", PATIENCE_MS);
        poll(NULL, 0, LOOK_MS);
    }
}

void
faults_provoke(const struct faults *f, long (*post)(void *user), void *user)
{
    char with[100];
    struct patience p = {.with = with};
    int left = faults_left(f);
    unsigned pause = PAUSE;
    long status = 0;

    while (faults_met(f) == 0) {
        if (faults_left(f) < left) {
            p.end_us = 0;
            pause = PAUSE;
        }
        left = faults_left(f);
        for (unsigned i = 0; i < BURST; i++)
            if ((status = post(user)) != 200)
                break;
        snprintf(with, sizeof(with),
                 "%d calls on the way to the fault (a post's status: %ld)",
                 left, status);
        for (unsigned i = 0; i < pause && faults_met(f) == 0; i++)
            patience_step(&p);
        pause *= 2;
    }
}

void
faults_set_clock(struct faults *f, int64_t seconds)
{
    atomic_store(&f->plan->clock_us, seconds * 1000000);
}

void
faults_set_disk(struct faults *f, int64_t bytes)
{
    atomic_store(&f->plan->disk_bytes, bytes);
}

void
faults_limit_files(struct faults *f, int64_t n)
{
    f->plan->n_files = n;
}

#include "tests/support/faults.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/places.h"
#include "tests/test.h"

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
    return atomic_load(&f->plan->n_met);
}

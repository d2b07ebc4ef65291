/*
 * plan.h - which faults a broker is to meet: memory that a test and the broker
 * it started share (tests/support/faults.h, tests/faults/faults.c).
 */
#ifndef TESTS_FAULTS_PLAN_H
#define TESTS_FAULTS_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Names the file of the plan, to the broker's environment. */
#define PLAN_VARIABLE "TIDINGS_FAULTS"

enum plan_call {
    PLAN_WRITE = 1,  /* write, pwrite; of sockets, too: "socket:" */
    PLAN_SYNC = 2,   /* fsync, fdatasync */
    PLAN_RENAME = 4, /* counts by the new name */
    PLAN_SEND = 8,   /* send, of sockets: "socket:" */
    PLAN_DUP = 16,   /* fcntl with F_DUPFD_CLOEXEC */
    PLAN_MEMORY =
        32 /* malloc and its kin, by the program's own code; no name */
};

/* The effect on a call, besides an errno as its result. */
enum plan_act {
    PLAN_KILL = -1,  /* SIGKILL to the process, in place of the call */
    PLAN_SHORT = -2, /* writes half of the bytes and returns their number */
    PLAN_HANG = -3,  /* waits until the plan is disarmed, then goes through */
    PLAN_TAKE = -4   /* of PLAN_DUP: a file takes the lowest descriptor first */
};

/* All zero: nothing fails. The test fills it in before `is_armed`, which it
 * stores with release order; the program loads that with acquire order, and
 * then sees the rest. */
struct plan {
    char name[64];       /* calls on files whose path contains this */
    int32_t calls;       /* enum plan_call, added up */
    int32_t outcome;     /* an errno, or an enum plan_act */
    int64_t is_once;     /* the next call succeeds again */
    int64_t n_files;     /* limit of open files, from the start; 0: as it is */
    int64_t least_bytes; /* smaller allocations succeed */
    atomic_int skip;     /* calls that succeed before the first that fails */
    atomic_int n_met;    /* calls that failed */
    atomic_int is_armed;
    _Atomic int64_t clock_us;   /* added to the clock of the day */
    _Atomic int64_t disk_bytes; /* free space to report; 0: the true one */
    _Atomic int64_t passed_s;   /* added to the steady clock */
    _Atomic int64_t is_still;   /* the steady clock stands */
    _Atomic int64_t small_pid;  /* lacked memory for a small block */
};

/* Disarms the plan; true if it was armed until now. If a plan with `is_once`
 * was not, a call has met its fault. For the test, which loads the library,
 * too. */
bool plan_disarm(struct plan *plan);

#endif
